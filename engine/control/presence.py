"""`Presence`: who is connected to a server, and which questions their users look at. It decides nothing."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, final

import trio

from engine.control.client_connection import ClientConnection
from engine.control.protocol.server_methods import ClientsResult
from engine.control.protocol.session_methods import ClientRow
from engine.control.protocol.watch_methods import ClientsNote
from engine.core.ids import RequestId

# So that a client that reconnects does not flicker.
SETTLING: Final = 2.0
# In the head of a session, and in announcements.
MOST_SHOWN: Final = 32


@final
class Presence:
    """Announces changes to those who want to know, a moment later."""

    def __init__(
        self,
        connections: Callable[[], Iterable[ClientConnection]],
        announce: Callable[[ClientsNote], Awaitable[None]],
    ) -> None:
        """Make it.

        Args:
            connections: returns all that are open.
            announce: sends who is there now.
        """
        self._connections = connections
        self._announce = announce
        self._changed = trio.Event()
        self._known: list[object] = []

    @property
    def rows(self) -> tuple[ClientRow, ...]:
        """Who is connected."""
        return tuple(map(_row, self._logged_in()))

    @property
    def newest_rows(self) -> tuple[ClientRow, ...]:
        """The newest of those who are connected: a thousand clients that get a thousand rows each would be a flood."""
        return tuple([_row(each) for each in self._logged_in()[-MOST_SHOWN:]])

    def _logged_in(self) -> list[ClientConnection]:
        return [each for each in self._connections() if each.role is not None]

    @property
    def result(self) -> ClientsResult:
        """The answer to `clients`."""
        return ClientsResult(clients=self.rows)

    def note_change(self) -> None:
        """Note that a client came or went. Not a checkpoint."""
        self._changed.set()

    def attend(self, connection: ClientConnection, request_id: RequestId, seconds: float) -> tuple[str, ...]:
        """Note that a user looks at a question, for a while; return the names of the others who do. Not a checkpoint."""
        now = trio.current_time()
        connection.attending = {name: until for name, until in connection.attending.items() if until > now}
        connection.attending.pop(request_id, None)
        if seconds:
            connection.attending[request_id] = now + seconds
        self.note_change()
        return tuple(
            each.client_name for each in self._connections() if each is not connection and request_id in _attended(each)
        )

    async def run(self) -> None:
        """Announce changes until cancelled. A checkpoint."""
        while True:
            with trio.move_on_at(self._next_end()):
                await self._changed.wait()
            self._changed = trio.Event()
            await trio.sleep(SETTLING)
            # A client that has only reconnected is the same, though its connection is a new one.
            known = sorted((each.client_name, str(each.role), _attended(each)) for each in self._logged_in())
            if known != self._known:
                self._known = [*known]
                await self._announce(ClientsNote(clients=self.newest_rows, more=max(0, len(known) - MOST_SHOWN)))

    def _next_end(self) -> float:
        """Return when the next user stops looking at a question."""
        now = trio.current_time()
        ends = (until for each in self._connections() for until in each.attending.values() if until > now)
        return min(ends, default=math.inf)


def _row(connection: ClientConnection) -> ClientRow:
    assert connection.role is not None
    return ClientRow(
        client_id=connection.id,
        name=connection.client_name,
        role=connection.role,
        since=connection.since,
        attending=tuple(sorted(_attended(connection))),
    )


def _attended(connection: ClientConnection) -> list[RequestId]:
    now = trio.current_time()
    return [request_id for request_id, until in connection.attending.items() if until > now]
