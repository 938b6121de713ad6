"""Standard output, written by a thread: a slow or stopped reader never blocks the event loop.

With a pager that is not scrolled, or a terminal halted by Ctrl-S, a plain `print`
would block the loop, and with it signals, cancellation and clean-up. (Making the
descriptor non-blocking is no solution: the flag is shared with other processes,
the parent's terminal for instance.)
"""

from __future__ import annotations

import errno
import os
import select
import shutil
import stat
import sys
from collections.abc import Callable
from typing import Final, TextIO

import attrs
import trio

from engine.cli.terminal.colours import ColourChoice, Palette, has_colour
from engine.core.threads import to_thread

_ERASE_LINE: Final = "\r\x1b[K"
# Seconds between two writes, unless a task waits for them: each is a visit to a thread.
_BETWEEN_WRITES: Final = 0.02
# The pipe's reader or the terminal is gone.
_DISCONNECTED: Final = frozenset({errno.EPIPE, errno.EIO})


@attrs.define(eq=False, repr=False)
class Output:
    """Text that is being written to a descriptor and, on a terminal, a status line below it.

    Attributes:
        encoding: of the descriptor; characters that it lacks are replaced.
        is_terminal: whether a person reads it.
        has_status: whether a status line can be shown.
        palette: paints what is written here.
        failure: why nothing is written any more.
    """

    _fd: int | None
    encoding: str
    is_terminal: bool
    has_status: bool
    width: int
    palette: Palette = attrs.field(factory=Palette, kw_only=True)
    failure: OSError | None = attrs.field(default=None, init=False)
    _on_failure: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    _pending: list[str] = attrs.field(factory=list[str], init=False)
    _status: str = attrs.field(default="", init=False)
    _is_status_shown: bool = attrs.field(default=False, init=False)
    _news: trio.Event = attrs.field(factory=trio.Event, init=False)
    _all_written: trio.Event = attrs.field(factory=trio.Event, init=False)
    _hurry: trio.Event = attrs.field(factory=trio.Event, init=False)

    @classmethod
    def to(cls, stream: TextIO | None, colour: ColourChoice = "auto") -> Output:
        """Return an output that writes to *stream* (None: closed). Nothing else may write there while it is in use."""
        try:
            fd = None if stream is None else stream.fileno()
        except (OSError, ValueError):  # a replaced stream that has no descriptor
            fd = None
        is_terminal = fd is not None and os.isatty(fd)
        return cls(
            fd,
            # A pipe has no width; 100 columns suit a log file.
            (stream.encoding if stream is not None else None) or "utf-8",
            is_terminal,
            is_terminal and os.environ.get("TERM", "dumb") != "dumb",
            shutil.get_terminal_size((100, 24)).columns if is_terminal else 100,
            palette=Palette(has_colour(colour, os.environ, is_terminal=is_terminal)),
        )

    def on_failure(self, call: Callable[[], None]) -> None:
        """Call *call* when nothing can be written any more."""
        self._on_failure = call

    @property
    def is_reader_gone(self) -> bool:
        """Whether the reader of this output is gone."""
        return self.failure is not None and self.failure.errno in _DISCONNECTED

    def write(self, text: str) -> None:
        """Add *text*. Not a checkpoint."""
        if text:  # an empty write would only redraw the status
            self._add(text)

    def show_status(self, line: str) -> None:
        """Show *line* below the text, replacing the last status line. Not a checkpoint."""
        # Heartbeats come often; an unchanged line need not be drawn again.
        if self.has_status and line != self._status:
            self._status = line
            self._add("")

    async def run(self) -> None:
        """Write pending text until cancelled. Always a checkpoint; a write that hangs is abandoned."""
        while True:
            if not self._pending:
                self._all_written.set()
                self._hurry = trio.Event()
            await self._news.wait()
            self._news = trio.Event()
            # One write for everything pending: events come faster than a terminal draws.
            data = self._take().encode(self.encoding, "replace")
            if self._fd is not None and self.failure is None and data:
                self._fail(await to_thread(_write_all, self._fd, data))
                with trio.move_on_after(_BETWEEN_WRITES):
                    await self._hurry.wait()

    async def watch_reader(self) -> None:
        """Notice that the reader of a pipe or a socket has gone, also while nothing is written. Always a checkpoint."""
        mode = 0 if self._fd is None else os.fstat(self._fd).st_mode
        if self._fd is None or not (stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
            await trio.lowlevel.checkpoint()
            return
        await _wait_reader_gone(self._fd)
        self._fail(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))

    async def drain(self) -> None:
        """Wait until all is written. Always a checkpoint."""
        self._hurry.set()
        await self._all_written.wait()

    def _fail(self, failure: OSError | None) -> None:
        """Note the first failure: a write that has succeeded meanwhile does not undo it."""
        if failure is not None and self.failure is None:
            self.failure = failure
            self._on_failure()

    def _add(self, text: str) -> None:
        self._pending.append(text)
        self._news.set()
        if self._all_written.is_set():  # a trio event can't be reset
            self._all_written = trio.Event()

    def _take(self) -> str:
        """Return all pending text, with the status line redrawn below it."""
        text = "".join(self._pending)
        self._pending.clear()
        # Text goes above the status line: erase it, write the text, draw it again.
        erase = _ERASE_LINE if self._is_status_shown else ""
        self._is_status_shown = bool(self._status)
        return f"{erase}{text}{self._status}"


if sys.platform == "linux":

    async def _wait_reader_gone(fd: int) -> None:
        """Wait until the other end is closed. Always a checkpoint; nothing is left when it is cancelled."""
        # A socket is readable also when its other end has sent something, or has only shut down its own output, as ssh
        # and Node do for the standard input of a child. Without events to wait for, epoll still reports a hang-up.
        with select.epoll() as hang_ups:
            hang_ups.register(fd, 0)
            await trio.lowlevel.wait_readable(hang_ups.fileno())

else:

    async def _wait_reader_gone(fd: int) -> None:
        """Wait until the other end of a pipe is closed. Always a checkpoint."""
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            await trio.sleep_forever()
        # The end that is written to never has anything to read; it counts as readable once the other end is closed.
        await trio.lowlevel.wait_readable(fd)


def _write_all(fd: int, data: bytes) -> OSError | None:
    """Write *data*, however long it takes; return the error if that fails."""
    rest = memoryview(data)
    try:
        while rest:
            try:
                rest = rest[os.write(fd, rest) :]
            except BlockingIOError:  # another process made the descriptor non-blocking
                select.select([], [fd], [])
    except OSError as error:
        return error
    return None
