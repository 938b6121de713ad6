"""The screen: rendered events, other lines, and prompts, with the cursor in the right place."""

from __future__ import annotations

import attrs

from engine.cli.problems.surroundings import Surroundings
from engine.cli.terminal.output import Output
from engine.cli.terminal.terminal_text import Symbols, symbols_for
from engine.cli.turn.render import Margins, Renderer
from engine.core.events import Durable, Live
from engine.journal.state import Resync


@attrs.define(eq=False)
class Screen:
    """Shows turns on an output. Nothing here is a checkpoint."""

    output: Output
    _renderer: Renderer
    _is_prompting: bool = attrs.field(default=False, init=False)

    @classmethod
    def on(
        cls,
        output: Output,
        *,
        margins: Margins | None = None,
        plain: bool = False,
        shows_text: bool = True,
        surroundings: Surroundings | None = None,
    ) -> Screen:
        """Return a screen for *output*; a *plain* one never rewrites a line."""
        renderer = Renderer(
            symbols=symbols_for(output.encoding),
            width=output.width,
            margins=margins or Margins(),
            plain=plain or not output.has_status,
            shows_text=shows_text,
            palette=output.palette,
            surroundings=surroundings or Surroundings(),
        )
        return cls(output, renderer)

    @property
    def symbols(self) -> Symbols:
        """The symbols that the output's encoding has."""
        return self._renderer.symbols

    def show(self, event: Durable | Live | Resync) -> None:
        """Render *event*."""
        text = self._renderer.feed(event)
        # Output in the middle of the user's typing starts on a new line.
        if text and self._is_prompting:
            text = f"\n{text}"
            self._is_prompting = False
        self.output.write(text)
        if not self._renderer.plain:
            self.output.show_status("" if self._is_prompting else self._renderer.status)

    def add_lines(self, lines: str) -> None:
        """Add whole lines."""
        self.output.write(self._end_line() + lines)

    def prompt(self, lines: str) -> None:
        """Add lines; the last one stays open for the user's input."""
        self.output.show_status("")
        self.add_lines(lines)
        self._is_prompting = True

    def line_was_typed(self) -> None:
        """The user has typed a line, and the terminal has started a new one."""
        self._is_prompting = False

    def _end_line(self) -> str:
        if self._is_prompting:
            self._is_prompting = False
            return "\n"
        return self._renderer.end_line()
