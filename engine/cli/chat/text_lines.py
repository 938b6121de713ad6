"""Text that streams in, as lines."""

from __future__ import annotations

import attrs

from engine.cli.chat.editor.wrapped_text import wrap_text


@attrs.define(eq=False)
class TextLines:
    """Cuts text into lines."""

    _open: str = attrs.field(default="", init=False)

    def feed(self, text: str) -> list[str]:
        """Add *text*; return the lines that it finishes."""
        *lines, self._open = (self._open + text).split("\n")
        return lines

    def preview(self, width: int) -> list[str]:
        """Return the rows of the unfinished line."""
        return [row.shown for row in wrap_text(self._open, width, {})] if self._open else []

    def finish(self) -> list[str]:
        """Return the unfinished line, if there is one."""
        line, self._open = self._open, ""
        return [line] if line else []
