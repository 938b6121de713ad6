"""A command's output while it runs, for people who watch. It takes bounded memory."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Final

import attrs
import trio

# Seconds between updates, and characters in each: more can't be read, and all of it goes through the journal.
_SHOWN_EVERY: Final = 0.1
_SHOWN_CHARS: Final = 4_096


@attrs.define(eq=False)
class LiveOutput:
    """Passes output on while it comes, at most ten times a second.

    Of a flood, the end of each tenth of a second is passed on, with a note on what was skipped.
    """

    _show: Callable[[str], None]
    _decoder: codecs.IncrementalDecoder = attrs.field(
        factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"), init=False
    )
    _pending: str = attrs.field(default="", init=False)
    _skipped: int = attrs.field(default=0, init=False)
    _news: trio.Event = attrs.field(factory=trio.Event, init=False)

    def feed(self, chunk: bytes) -> None:
        """Receive more output. Not a checkpoint."""
        self._pending += self._decoder.decode(chunk)
        surplus = len(self._pending) - _SHOWN_CHARS
        if surplus > 0:
            self._skipped += surplus
            self._pending = self._pending[surplus:]
        self._news.set()

    async def run(self) -> None:
        """Pass on output until cancelled. Always a checkpoint; `flush` passes on the rest."""
        while True:
            await self._news.wait()
            self.flush()
            await trio.sleep(_SHOWN_EVERY)

    def flush(self) -> None:
        """Pass on what was received so far. Not a checkpoint."""
        if self._news.is_set():
            self._news = trio.Event()
        if self._skipped:
            self._show(f"\n[{self._skipped:,} characters not shown]\n")
        if self._pending:
            self._show(self._pending)
        self._skipped, self._pending = 0, ""


def without_half(data: bytes) -> bytes:
    """Return *data* without an incomplete character at its end."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-4:])
    return data[: len(data) - len(decoder.getstate()[0])]
