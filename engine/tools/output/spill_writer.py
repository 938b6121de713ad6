"""`SpillWriter`: an output of any length, taken in bounded memory while it comes."""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

import attrs
import trio

from engine.core.threads import to_thread
from engine.tools.output.spill import Spills
from engine.tools.output.spill_file import SpillFile
from engine.tools.output.truncate import LIMITS, Measure, OutputLimits, Rest, excerpt, fits

# Of the output of a process, most of what is shown is its end: that is where it failed.
PROCESS_SHARE: Final = 0.2


@attrs.define(eq=False)
class SpillWriter:
    """Takes an output of any length in bounded memory: its beginning and end are shown, all of it is kept in a file.

    There is no file as long as the output may be shown as it is. Use it in a `with`
    block, which discards the file unless `finish` was called.

    The loop never waits for the disk: either a task awaits `room` after each
    `feed`, and the writer of the output is slowed down to what the disk can take; or
    `run` is started beside, and what the disk can't take in time ends the file early,
    which the result says.

    Attributes:
        size: how many bytes have come.
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
        """Take more output. Not a checkpoint; it never blocks."""
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
        if len(self._last) > 2 * self._limits.size:  # not at each chunk: what is left must be moved
            del self._last[: -self._limits.size]
        if self._is_long:
            self._put(data)
            self._news.set()

    async def room(self) -> None:
        """Wait until the disk has taken most of what has come. A checkpoint only if there is much; nothing is lost."""
        while self._file is not None and self._file.is_filling:
            await to_thread(self._file.pump)

    async def run(self) -> None:
        """Write what comes, until cancelled. Always a checkpoint; nothing is lost: `finish` writes what is left."""
        while True:
            await self._news.wait()
            self._news = trio.Event()
            if self._file is not None:
                await to_thread(self._file.pump)

    async def finish(self) -> CapturedOutput:
        """Return what is shown, and where the whole is. Always a checkpoint; if cancelled, call it again or `discard`."""
        await trio.lowlevel.checkpoint()
        if not self._is_long:
            text = self._first.decode(errors="replace")
            if fits(text, self._limits):
                return CapturedOutput(text=text)
            # It has too many lines, or what is no UTF-8 takes more room when it is shown.
            self._is_long = True
            self._put(bytes(self._first))
        rest = Rest() if self._file is None else await to_thread(self._file.finish)
        self._file = None
        if self._spills is not None:
            self._spills.note_kept()
        last = bytes(self._last)
        if len(last) < self._limits.size:  # then nothing of it was dropped
            last = (bytes(self._first) + last)[-self._limits.size :]
        whole = Measure(self._lines, self.size)
        text = excerpt(bytes(self._first), last, whole, self._share, rest, limits=self._limits)
        return CapturedOutput(text=text, spill_id=rest.spill_id, is_cut=True)

    def discard(self) -> None:
        """Keep nothing, unless it is finished. Not a checkpoint; a thread removes the file."""
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
    """An output as it is shown.

    Attributes:
        text: all of it, or its beginning and its end.
        spill_id: where all of it is; empty if it is all shown, or could not be kept.
        is_cut: whether something of it is not shown.
    """

    text: str
    spill_id: str = ""
    is_cut: bool = False
