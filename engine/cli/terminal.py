"""The screen: what the renderer makes of events, what is said beside them, and where the cursor stands."""

from __future__ import annotations

import attrs

from engine.cli.output import Output
from engine.cli.render import Margins, Renderer
from engine.cli.terminal_text import Symbols, symbols_for
from engine.core.events import Durable, Live
from engine.core.state import Resync


@attrs.define(eq=False)
class Screen:
    """One turn after the other, shown on an output. Nothing here is a checkpoint."""

    output: Output
    _renderer: Renderer
    _is_prompting: bool = attrs.field(default=False, init=False)

    @classmethod
    def on(cls, output: Output, *, margins: Margins | None = None, plain: bool = False) -> Screen:
        """Return a screen that fits *output*; a *plain* one only ever adds lines."""
        renderer = Renderer(
            symbols=symbols_for(output.encoding),
            width=output.width,
            margins=margins or Margins(),
            plain=plain or not output.has_status,
        )
        return cls(output, renderer)

    @property
    def symbols(self) -> Symbols:
        """The signs that it can show."""
        return self._renderer.symbols

    def show(self, event: Durable | Live | Resync) -> None:
        """Show what *event* tells."""
        text = self._renderer.feed(event)
        if text and self._is_prompting:
            text = f"\n{text}"
            self._is_prompting = False
        self.output.write(text)
        if not self._renderer.plain:
            self.output.show_status("" if self._is_prompting else self._renderer.status)

    def say(self, lines: str) -> None:
        """Add whole lines."""
        self.output.write(self._end_line() + lines)

    def prompt(self, lines: str) -> None:
        """Add lines of which the last one is open: what is typed comes behind it."""
        self.output.show_status("")
        self.say(lines)
        self._is_prompting = True

    def line_was_typed(self) -> None:
        """The terminal has shown a line that somebody typed, and begun a new one."""
        self._is_prompting = False

    def _end_line(self) -> str:
        if self._is_prompting:
            self._is_prompting = False
            return "\n"
        return self._renderer.end_line()
