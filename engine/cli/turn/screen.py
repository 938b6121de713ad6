"""The screen: rendered events, other lines, and prompts, with the cursor in the right place."""

from __future__ import annotations

from typing import Final

import attrs

from engine.cli.problems.surroundings import Surroundings
from engine.cli.terminal.output import Output
from engine.cli.terminal.terminal_text import Symbols, one_line, symbols_for
from engine.cli.turn.render import Margins, Renderer
from engine.cli.turn.wait_reports import WaitReports
from engine.core.events import Durable, Live, PermissionAnswered, QuestionAnswered, RecoveryAnswered
from engine.journal.state import Resync

_ERASE_LINE: Final = "\r\x1b[K"


@attrs.define(eq=False, repr=False)
class Screen:
    """Shows turns on an output. Nothing here is a checkpoint."""

    output: Output
    _renderer: Renderer
    # Whether the cursor is behind a prompt.
    _is_prompting: bool = attrs.field(default=False, init=False)
    # The prompt of a question that waits: it is shown again below what comes before the answer.
    _prompt: str = attrs.field(default="", init=False)
    _waits: WaitReports = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._waits = WaitReports(self._show_wait, has_status=not self._renderer.plain)

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

    @property
    def surroundings(self) -> Surroundings:
        """What the words about a failure need besides its facts."""
        return self._renderer.surroundings

    def show(self, event: Durable | Live | Resync) -> None:
        """Render *event*."""
        text = self._renderer.feed(event)
        # Output in the middle of the user's typing starts on a new line.
        if text and self._is_prompting:
            text = f"\n{text}"
            self._is_prompting = False
        self.output.write(text)
        # Who has answered comes first; whether the question still waits is known afterwards.
        if text and not isinstance(event, PermissionAnswered | QuestionAnswered | RecoveryAnswered):
            self.prompt_again()
        self._waits.feed(event)
        self._show_status()

    async def watch_waits(self, silence_limit: float) -> None:
        """Show what the turn waits for, until cancelled; a model may be silent for *silence_limit* seconds.

        Always a checkpoint.
        """
        self._waits.state = attrs.evolve(self._waits.state, limit=silence_limit)
        await self._waits.run()

    def _show_status(self) -> None:
        if self._renderer.plain:
            return
        line = self._renderer.status
        if line and (addition := self._waits.addition):
            line = one_line(f"{line}{self.symbols.between}{addition}", self.output.width - 1, self.symbols.cut)
        if not line and not self._renderer.is_line_open:
            line = one_line(self._waits.text, self.output.width - 1, self.symbols.cut)
        self.output.show_status("" if self._is_prompting else line)

    def _show_wait(self) -> None:
        """Show that time has passed: on the status line, else as a line."""
        if not self._renderer.plain:
            self._show_status()
        elif (text := self._waits.text) and not self._is_prompting and not self._renderer.is_line_open:
            self.add_lines(f"{self.symbols.note} {text}\n")

    def add_lines(self, lines: str) -> None:
        """Add whole lines."""
        self.output.write(self._end_line() + lines)
        self.prompt_again()

    def prompt(self, lines: str, *, stays: bool = True) -> None:
        """Add lines; the last one is open for the user's input. If it *stays*, it is shown again below further lines."""
        self.output.show_status("")
        self.output.write(self._end_line() + lines)
        self._is_prompting = True
        self._prompt = lines.rpartition("\n")[2] if stays else ""

    def redraw_prompt(self, line: str, *, stays: bool = True) -> None:
        """Redraw the line of the prompt with the user's input as it is now."""
        self.output.show_status("")
        self.output.write((_ERASE_LINE if self._is_prompting else self._end_line()) + line)
        self._is_prompting = True
        self._prompt = line if stays else ""

    def prompt_again(self) -> None:
        """Show the prompt of a question that waits, unless the cursor is behind it or a line is open."""
        if self._prompt and not self._is_prompting and not self._renderer.is_line_open:
            self.output.show_status("")
            self.output.write(self._prompt)
            self._is_prompting = True

    def end_prompt(self) -> None:
        """No question waits any more."""
        self._prompt = ""

    def line_was_typed(self) -> None:
        """The user has typed a line, and the terminal has started a new one."""
        self._is_prompting = False
        self._prompt = ""

    def _end_line(self) -> str:
        if self._is_prompting:
            self._is_prompting = False
            return "\n"
        return self._renderer.end_line()
