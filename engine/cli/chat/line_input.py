"""Lines of standard input: from a terminal, which edits them itself, a pipe, or a file."""

from __future__ import annotations

import codecs
import os
import select
from contextlib import suppress
from typing import Final

import attrs
import trio

_CHUNK_BYTES: Final = 65_536


@attrs.define(eq=False)
class LineInput:
    """Reads lines from a descriptor."""

    _fd: int
    _utf8: codecs.IncrementalDecoder = attrs.field(
        factory=lambda: codecs.getincrementaldecoder("utf-8")("replace"), init=False
    )
    _rest: str = attrs.field(default="", init=False)
    _lines: list[str] = attrs.field(factory=list[str], init=False)

    @property
    def is_terminal(self) -> bool:
        """Whether a user types the lines."""
        return os.isatty(self._fd)

    async def read_line(self) -> str | None:
        """Return the next line without its end; None at the end. Always a checkpoint; if cancelled, nothing is lost."""
        await trio.lowlevel.checkpoint()
        while not self._lines:
            with suppress(PermissionError):  # a regular file is always readable, and can't be waited for
                await trio.lowlevel.wait_readable(self._fd)
            # Only what is there, so that nothing blocks: another process may read the same terminal.
            if not select.select([self._fd], [], [], 0)[0]:
                continue
            try:
                data = os.read(self._fd, _CHUNK_BYTES)
            except OSError:  # the terminal is gone
                data = b""
            if not data:
                rest, self._rest = self._rest, ""
                return rest or None
            *self._lines, self._rest = (self._rest + self._utf8.decode(data)).split("\n")
        return self._lines.pop(0).removesuffix("\r")
