"""`Listener`: a thread that hears which sessions others have written, and says so in the trio thread.

It begins with the first who watches. A notification is a hint and no more: whoever
waits looks by itself now and then, and at once when the listener's connection broke or
is there again, since what was told meanwhile was told to nobody.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
import weakref
from collections.abc import Sequence
from typing import Final, Protocol

import attrs
import psycopg
import trio
from psycopg import sql

from engine.core.errors import StoreError
from engine.store.postgres.address import Address
from engine.store.postgres.connections import Connection, connect

# Without a word for so long, the server is asked whether it is there.
_SILENCE_SECONDS: Final = 20.0
_WAITS: Final = (0.1, 0.5, 2.0, 5.0)


class NotificationTarget(Protocol):
    """Who is told."""

    def wake_watchers(self, session_ids: Sequence[str]) -> None:
        """Those sessions were written; none named: perhaps any. Runs in the trio thread, and must raise nothing."""
        ...


@attrs.define(eq=False)
class Listener:
    """Tells *whom* what is announced, once started. The thread is a daemon, and ends with its store or its run."""

    _target: weakref.ref[NotificationTarget]
    _address: Address
    _wake: tuple[socket.socket, socket.socket] | None = attrs.field(default=None, init=False)
    _is_stopped: bool = attrs.field(default=False, init=False)

    def start(self) -> None:
        """Begin, if it hasn't. In the trio thread; not a checkpoint."""
        if self._wake is not None or self._is_stopped:
            return
        ours, theirs = self._wake = socket.socketpair()
        token = trio.lowlevel.current_trio_token()
        thread = threading.Thread(target=self._work, args=(token, theirs), name="engine store listener", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # No more threads: who watches looks by itself.
            ours.close()
            theirs.close()

    def stop(self) -> None:
        """Tell nobody any more; the thread ends. Not a checkpoint."""
        self._is_stopped = True
        if self._wake is not None:
            # It reads the end of this, wherever it waits.
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
                if not self._is_needed() or not self._notify(token, ()):
                    return
                _wait(wake, _WAITS[min(failures, len(_WAITS) - 1)])
                failures += 1

    def _listen(self, connection: Connection, token: trio.lowlevel.TrioToken, wake: socket.socket) -> None:
        """Listen until the connection breaks, which raises, or nobody wants to know any more."""
        # Whatever was told before it listened.
        news: list[str] = [""]
        while self._is_needed():
            if news and not self._notify(token, () if "" in news else news):
                return
            # A notification that came with an answer is in a queue already.
            news = [notification.payload for notification in connection.notifies(timeout=0)]
            if not news and not _wait(wake, _SILENCE_SECONDS, connection):
                connection.execute("SELECT 1")

    def _is_needed(self) -> bool:
        return not self._is_stopped and self._target() is not None

    def _notify(self, token: trio.lowlevel.TrioToken, session_ids: Sequence[str]) -> bool:
        """Say it in the trio thread; False: that run is over."""
        try:
            token.run_sync_soon(self._on_notification, tuple(session_ids))
        except trio.RunFinishedError:
            return False
        return True

    def _on_notification(self, session_ids: Sequence[str]) -> None:
        whom = self._target()
        if whom is not None and not self._is_stopped:
            whom.wake_watchers(session_ids)


def _wait(wake: socket.socket, seconds: float, connection: Connection | None = None) -> bool:
    """Wait until the store is closed or the server says something, and return True; False: nothing happened."""
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    if connection is not None:
        poll.register(connection.fileno(), select.POLLIN)
    return bool(poll.poll(seconds * 1000))
