"""The output of a command: what is kept of it, and what is shown while it runs. Both take bounded memory."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Final

import attrs
import trio

_SHOWN_EVERY: Final = 0.1
_SHOWN_CHARS: Final = 4_096


@attrs.define(eq=False)
class HeadAndTail:
    """Keeps the first and the last bytes of an output of any length."""

    head_bytes: int
    tail_bytes: int
    total: int = attrs.field(default=0, init=False)
    _head: bytearray = attrs.field(factory=bytearray, init=False)
    _tail: bytearray = attrs.field(factory=bytearray, init=False)

    def feed(self, chunk: bytes) -> None:
        """Take more output."""
        self.total += len(chunk)
        room = self.head_bytes - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        if len(self._tail) > 2 * self.tail_bytes:  # not at each chunk: what is left must be moved
            del self._tail[: -self.tail_bytes]

    @property
    def text(self) -> str:
        """What was kept, with a note in the place of what was not."""
        if self.total <= self.head_bytes + self.tail_bytes:
            return (self._head + self._tail).decode(errors="replace")
        # Cut between characters: a half one is dropped, not shown as a wrong one.
        head = _without_half_at_end(bytes(self._head))
        tail = _without_half_at_start(bytes(self._tail[-self.tail_bytes :]))
        cut = self.total - len(head) - len(tail)
        note = f"\n[{cut:,} bytes in the middle of the output are not shown]\n"
        return head.decode(errors="replace") + note + tail.decode(errors="replace")


def _without_half_at_end(data: bytes) -> bytes:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data)
    return data[: len(data) - len(decoder.getstate()[0])]


def _without_half_at_start(data: bytes) -> bytes:
    start = 0
    while start < min(3, len(data)) and 0x80 <= data[start] < 0xC0:
        start += 1
    return data[start:]


@attrs.define(eq=False)
class LiveOutput:
    """Passes an output on while it comes: at once if it is slow, ten times a second at most.

    Of a flood the end of each tenth of a second is shown, with a note of what is
    not: who watches can't read more, and the journal must not hold it.
    """

    _show: Callable[[str], None]
    _decoder: codecs.IncrementalDecoder = attrs.field(
        factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"), init=False
    )
    _pending: str = attrs.field(default="", init=False)
    _skipped: int = attrs.field(default=0, init=False)
    _news: trio.Event = attrs.field(factory=trio.Event, init=False)

    def feed(self, chunk: bytes) -> None:
        """Take more output. Not a checkpoint."""
        self._pending += self._decoder.decode(chunk)
        surplus = len(self._pending) - _SHOWN_CHARS
        if surplus > 0:
            self._skipped += surplus
            self._pending = self._pending[surplus:]
        self._news.set()

    async def run(self) -> None:
        """Pass on what comes, until cancelled. Always a checkpoint; `flush` passes on what is left."""
        while True:
            await self._news.wait()
            self.flush()
            await trio.sleep(_SHOWN_EVERY)

    def flush(self) -> None:
        """Pass on what has come so far. Not a checkpoint."""
        if self._news.is_set():
            self._news = trio.Event()
        if self._skipped:
            self._show(f"\n[{self._skipped:,} characters not shown]\n")
        if self._pending:
            self._show(self._pending)
        self._skipped, self._pending = 0, ""
