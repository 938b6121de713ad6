"""`NotificationListener`: a thread that receives notifications of written sessions, and wakes watchers in the trio thread.

It starts with the first watcher. A notification is only a hint: a watcher also polls now and then, and at once when the
listener's connection breaks or comes back, since notifications sent in between are lost.
"""

from __future__ import annotations

import contextlib
import json
import select
import socket
import threading
import weakref
from collections.abc import Sequence
from typing import Final, Protocol, cast

import attrs
import psycopg
import trio
from psycopg import sql

from engine.core.errors import StoreError
from engine.store.postgres.address import Address
from engine.store.postgres.connections import Connection, connect

# The connection is checked after this time without a notification, since a firewall may have dropped it silently.
_SILENCE_SECONDS: Final = 20.0
_WAITS: Final = (0.1, 0.5, 2.0, 5.0)


class NotificationTarget(Protocol):
    """Receives the notifications."""

    def wake_watchers(self, session_ids: Sequence[str]) -> None:
        """Report that those sessions were written; an empty list means any of them may have been.

        Runs in the trio thread; must not raise.
        """
        ...


@attrs.define(eq=False)
class NotificationListener:
    """Passes notifications to a target, once started.

    The thread is a daemon, and ends with its store or its trio run.
    """

    _target: weakref.ref[NotificationTarget]
    _address: Address
    _wake: tuple[socket.socket, socket.socket] | None = attrs.field(default=None, init=False)
    _is_stopped: bool = attrs.field(default=False, init=False)

    def start(self) -> None:
        """Start the thread, if not started yet. In the trio thread; not a checkpoint."""
        if self._wake is not None or self._is_stopped:
            return
        # `stop` must wake a thread that waits for the server, so the thread polls this socket, too; closing our end
        # wakes it.
        ours, theirs = self._wake = socket.socketpair()
        token = trio.lowlevel.current_trio_token()
        thread = threading.Thread(target=self._work, args=(token, theirs), name="engine store listener", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No thread is available: watchers only poll.
            ours.close()
            theirs.close()

    def stop(self) -> None:
        """Stop notifying; the thread ends. Not a checkpoint."""
        self._is_stopped = True
        if self._wake is not None:
            # Wakes the thread, whether it waits for the server or to reconnect.
            self._wake[0].close()

    # -- in the thread ----------------------------------------------------------------------

    def _work(self, token: trio.lowlevel.TrioToken, wake: socket.socket) -> None:
        failures = 0
        with wake:
            while self._is_needed():
                with contextlib.suppress(psycopg.Error, StoreError, OSError):
                    with connect(self._address) as connection:
                        connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._address.channel)))
                        failures = 0
                        self._listen(connection, token, wake)
                # The connection has broken: what was written since is unknown, so all watchers look for themselves.
                if not self._is_needed() or not self._notify(token, ()):
                    return
                _wait(wake, _WAITS[min(failures, len(_WAITS) - 1)])
                failures += 1

    def _listen(self, connection: Connection, token: trio.lowlevel.TrioToken, wake: socket.socket) -> None:
        """Listen until the listener is stopped. Raises when the connection breaks."""
        # Earlier notifications were missed, so wake all watchers first.
        news = ["[]"]
        while self._is_needed():
            if news and not self._notify(token, written_sessions(news)):
                return
            # A notification that came with a query's result is already queued.
            news = [notification.payload for notification in connection.notifies(timeout=0)]
            if not news and not _wait(wake, _SILENCE_SECONDS, connection):
                connection.execute("SELECT 1")

    def _is_needed(self) -> bool:
        return not self._is_stopped and self._target() is not None

    def _notify(self, token: trio.lowlevel.TrioToken, session_ids: Sequence[str]) -> bool:
        """Call the target in the trio thread; False if that run is over."""
        try:
            token.run_sync_soon(self._on_notification, tuple(session_ids))
        except trio.RunFinishedError:
            return False
        return True

    def _on_notification(self, session_ids: Sequence[str]) -> None:
        target = self._target()
        if target is not None and not self._is_stopped:
            target.wake_watchers(session_ids)


def written_sessions(news: Sequence[str]) -> Sequence[str]:
    """Return the sessions that notifications name; none: any of them may have been written."""
    sessions: list[str] = []
    for payload in news:
        try:
            names: object = json.loads(payload)
        except ValueError:
            names = None
        # Another program may use the channel for something else.
        if not isinstance(names, list) or not names:
            return ()
        sessions += map(str, cast("list[object]", names))
    return sessions


def _wait(wake: socket.socket, seconds: float, connection: Connection | None = None) -> bool:
    """Wait until the store is closed or the server sends something, and return True; False after a timeout."""
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    if connection is not None:
        poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(seconds * 1000))
