"""The output of a command while it runs, as it is shown to who watches. It takes bounded memory."""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Final

import attrs
import trio

_SHOWN_EVERY: Final = 0.1
_SHOWN_CHARS: Final = 4_096


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


def without_half(data: bytes) -> bytes:
    """Return *data* without a character at its end of which the rest is still to come."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(data[-4:])
    return data[: len(data) - len(decoder.getstate()[0])]
