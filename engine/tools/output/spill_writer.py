"""`SpillWriter`: receives an output of any length in bounded memory."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

import attrs
import trio

from engine.core.threads import to_thread
from engine.tools.output.spill import Spills
from engine.tools.output.spill_file import SpillFile
from engine.tools.output.truncate import LIMITS, Measure, OutputLimits, Rest, excerpt, fits

# The share of the beginning. The end of a process's output matters more: that is where it failed.
PROCESS_SHARE: Final = 0.2


@attrs.define(eq=False)
class SpillWriter:
    """Receives an output of any length in bounded memory: its beginning and end are shown, all of it goes to a file.

    No file is created while the output is short enough to be shown. Use it in a `with` block, which discards the file
    unless `finish` was called.

    The event loop never waits for the disk: either a task awaits `room` after each `feed`, which slows the process down
    to the speed of the disk; or `run` is started as a task, and what the disk can't take in time ends the file early,
    which the result reports.

    Attributes:
        size: the number of bytes received.
    """

    _spills: Spills | None
    _share: float = attrs.field(default=PROCESS_SHARE, alias="share", kw_only=True)
    _limits: OutputLimits = attrs.field(default=LIMITS, alias="limits", kw_only=True)
    size: int = attrs.field(default=0, init=False)
    _line_ends: int = attrs.field(default=0, init=False)
    _ends_line: bool = attrs.field(default=True, init=False)
    _first: bytearray = attrs.field(factory=bytearray, init=False)
    _last: bytearray = attrs.field(factory=bytearray, init=False)
    _is_long: bool = attrs.field(default=False, init=False)
    _file: SpillFile | None = attrs.field(default=None, init=False)
    _news: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.discard()

    @property
    def _lines(self) -> int:
        return self._line_ends + (not self._ends_line)

    def feed(self, data: bytes) -> None:
        """Receive more output. Not a checkpoint; it never blocks."""
        if not data:
            return
        self.size += len(data)
        self._line_ends += data.count(b"\n")
        self._ends_line = data.endswith(b"\n")
        if not self._is_long and self.size > self._limits.size:
            self._is_long = True
            self._put(bytes(self._first))
        room = self._limits.size - len(self._first)
        self._first += data[:room]
        self._last += data[room:]
        if len(self._last) > 2 * self._limits.size:  # not at each chunk, since deleting moves the rest
            del self._last[: -self._limits.size]
        if self._is_long:
            self._put(data)
            self._news.set()

    async def room(self) -> None:
        """Wait until the disk has caught up. A checkpoint only if much is queued; nothing is lost if cancelled."""
        while self._file is not None and self._file.is_filling:
            await to_thread(self._file.pump)

    async def run(self) -> None:
        """Write output as it comes, until cancelled. Always a checkpoint; nothing is lost: `finish` writes the rest."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            if self._file is not None:
                await to_thread(self._file.pump)

    async def finish(self) -> CapturedOutput:
        """Return the shown output. Always a checkpoint; if cancelled, call it again or `discard`."""
        await trio.lowlevel.checkpoint()
        if not self._is_long:
            text = self._first.decode(errors="replace")
            if fits(text, self._limits):
                return CapturedOutput(text=text)
            # It has too many lines, or contains invalid UTF-8, which takes more room when shown.
            self._is_long = True
            self._put(bytes(self._first))
        rest = Rest() if self._file is None else await to_thread(self._file.finish)
        self._file = None
        if self._spills is not None:
            self._spills.note_kept()
        last = bytes(self._last)
        if len(last) < self._limits.size:  # then all of it is still in memory
            last = (bytes(self._first) + last)[-self._limits.size :]
        whole = Measure(self._lines, self.size)
        text = excerpt(bytes(self._first), last, whole, self._share, rest, limits=self._limits)
        return CapturedOutput(text=text, spill_id=rest.spill_id, is_cut=True)

    def discard(self) -> None:
        """Remove the file unless it is finished. Not a checkpoint; a thread removes it."""
        if self._file is not None:
            self._file.discard()
            self._file = None

    def _put(self, data: bytes) -> None:
        if self._file is None and self._spills is not None:
            self._file = self._spills.new_file()
        if self._file is not None:
            self._file.put_if_room(data)


@attrs.frozen(kw_only=True)
class CapturedOutput:
    """A captured output.

    Attributes:
        text: all of it, or its beginning and end.
        spill_id: the id of the whole in the spill; empty if all is shown, or it could not be kept.
        is_cut: whether a part of it is not shown.
    """

    text: str
    spill_id: str = ""
    is_cut: bool = False
