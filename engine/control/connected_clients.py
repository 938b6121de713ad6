"""`ConnectedClients`: the connections and streams of a server, counted, notified and closed together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar, final

import trio

from engine.control.client_connection import RESTART, REVOKED, TOO_FAST, ClientConnection
from engine.control.client_subscriptions import ClientSubscriptions
from engine.control.credentials import Login
from engine.control.lingering_turns import Chain
from engine.control.protocol.handshake import may
from engine.control.service.metrics import Sample
from engine.control.transport.request_head import BadRequest
from engine.core.ids import SessionId

K = TypeVar("K")
_WHY_REVOKED: Final = "the token was revoked, or has another role now"
_AT_ONCE: Final = 32
_LAST_SECONDS: Final = 3.0
_LOOK_SECONDS: Final = 0.02


class EndableStream(Protocol):
    """An answer of HTTP that lasts.

    Attributes:
        scope: cancelled to end it.
    """

    scope: trio.CancelScope


@final
class ConnectedClients:
    """All that is connected.

    Attributes:
        by_id: the connections, with their subscriptions.
        streams: of HTTP, with what their credentials give.
        most_of_a_token: how many connections may use the same token.
    """

    def __init__(self, is_session_working: Callable[[SessionId], bool], most_of_a_token: int) -> None:
        """Make it empty; *is_session_working* returns whether a turn runs in a session."""
        self.most_of_a_token: int = most_of_a_token
        self.by_id: dict[str, ClientSubscriptions] = {}
        self.streams: dict[EndableStream, Login] = {}
        # Of HTTP, which run now.
        self._requests: dict[trio.CancelScope, Login] = {}
        # Counted as they come and go: with ten thousand, to look at all of them each time would take minutes.
        self._of_chain: Counter[Chain] = Counter()
        self._of_token: Counter[str] = Counter()
        self._is_session_working = is_session_working

    def __iter__(self) -> Iterator[ClientConnection]:
        """Return the connections."""
        return (client.connection for client in tuple(self.by_id.values()))

    @property
    def is_empty(self) -> bool:
        """Whether no client is connected."""
        return not (self.by_id or self.streams)

    @property
    def has_one_who_answers(self) -> bool:
        """Whether a client is connected that may answer questions."""
        return any(each.role is not None and may(each.role, "answer") for each in self)

    def is_full_for(self, login: Login) -> bool:
        """Return whether as many connections use a token as may."""
        streams = sum(each.name == login.name for each in self.streams.values())
        return self._of_token[login.name] + streams >= self.most_of_a_token

    def note_login(self, chain: Chain) -> None:
        """Count a connection that has said hello. Not a checkpoint."""
        self._of_chain[chain] += 1
        self._of_token[chain[0]] += 1

    def note_end(self, chain: Chain) -> bool:
        """Count the end of such a connection; return whether it was the last of its chain. Not a checkpoint."""
        _subtract(self._of_chain, chain)
        _subtract(self._of_token, chain[0])
        return chain not in self._of_chain

    def samples(self) -> Iterator[Sample]:
        """Yield how many there are, as a metric."""
        counts = Counter((each.kind, each.role or "none") for each in self)
        counts.update(("sse", login.role) for login in self.streams.values())
        for labels, count in counts.items():
            yield "engine_control_connections", labels, count

    def announce(self, text: str) -> None:
        """Send a notification to all. Not a checkpoint."""
        for client in self.by_id.values():
            if client.connection.role is not None:
                client.connection.send_soon(text)

    async def announce_to_subscribers(self, text: str) -> None:
        """Send a notification to those with a subscription, a few at a time. A checkpoint."""
        for number, client in enumerate(tuple(self.by_id.values())):
            if client.connection.role is not None and len(client):
                client.connection.send_soon(text)
            if number % _AT_ONCE == 0:
                await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()

    # -- their ends ----------------------------------------------------------------------------

    def close(self, code: int, reason: str) -> None:
        """Close all connections. Not a checkpoint."""
        for connection in self:
            connection.close(code, reason)

    def close_revoked(self, names: frozenset[str]) -> None:
        """Close those that use these tokens, and end their requests. Not a checkpoint."""
        for connection in self:
            if connection.login is not None and connection.login.name in names:
                connection.close(REVOKED, _WHY_REVOKED)
        scopes = [(stream.scope, login) for stream, login in self.streams.items()]
        for scope, login in (*scopes, *self._requests.items()):
            if login.name in names:
                scope.cancel(reason=_WHY_REVOKED)

    @contextmanager
    def until_revoked(self, login: Login) -> Generator[None]:
        """Cancel what a request of HTTP runs in here once its token is revoked. Not a checkpoint. Raises `BadRequest` then."""
        with trio.CancelScope() as scope:
            self._requests[scope] = login
            try:
                yield
            finally:
                del self._requests[scope]
        if scope.cancelled_caught:
            raise BadRequest(401, _WHY_REVOKED)

    def close_unneeded(self, reason: str) -> None:
        """Close those that wait for nothing here, so that they find the server's successor. Not a checkpoint."""
        for client in self.by_id.values():
            is_needed = client.connection.is_busy or any(map(self._is_session_working, client.sessions))
            if client.connection.role is not None and not is_needed:
                client.connection.close_soon(RESTART, reason)

    def close_to_save_memory(self, *, idle_only: bool) -> None:
        """Close those that only watch, or all that are subscribed to something. Not a checkpoint."""
        for client in self.by_id.values():
            is_idle = client.watches_list or not any(map(self._is_session_working, client.sessions))
            if len(client) and (is_idle or not idle_only):
                client.connection.close_soon(TOO_FAST, "the server is short of memory: come back later")

    async def close_after_last(self, reason: str) -> None:
        """Close all of them, once they were sent what a closed engine has left, but soon. A checkpoint."""
        with trio.move_on_after(_LAST_SECONDS):  # noqa: ASYNC912  # none where there is nobody
            while self.streams or any(  # noqa: ASYNC110  # for three seconds at most
                len(client) or client.connection.is_busy for client in self.by_id.values()
            ):
                await trio.sleep(_LOOK_SECONDS)
        for connection in self:
            connection.close_soon(RESTART, reason)
        for stream in self.streams:
            stream.scope.cancel(reason=reason)
        with trio.move_on_after(_LAST_SECONDS):  # noqa: ASYNC912  # the same
            while not self.is_empty:  # noqa: ASYNC110  # the same
                await trio.sleep(_LOOK_SECONDS)
        await trio.lowlevel.checkpoint()


def _subtract(counts: Counter[K], key: K) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]
