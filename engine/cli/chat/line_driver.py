"""The accessible chat: nothing is redrawn, every line is printed once, and input comes in whole lines."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable
from typing import ClassVar, Final, final

import trio

from engine.cli.chat.chat_driver import ChatDriver, ChatParts
from engine.cli.chat.editor.key_decoder import Key
from engine.cli.chat.line_input import LineInput
from engine.cli.chat.machine import effects as do
from engine.cli.chat.machine.chat_contents import draft_lines
from engine.cli.chat.machine.chat_machine import ChatMachine
from engine.cli.terminal.starting_frame import erase_starting_frame

# How often a line says that the turn goes on.
_PROGRESS_SECONDS: Final = 15.0


@final
class LineDriver(ChatDriver):
    """Runs a chat in lines: for screen readers, braille lines, dumb terminals, and programs."""

    has_sequences: ClassVar[bool] = False

    def __init__(self, parts: ChatParts, lines: LineInput) -> None:
        """Make it."""
        super().__init__(parts)
        self._input = lines
        self._notice = ""
        self._changed = trio.Event()

    def start(self, nursery: trio.Nursery) -> None:
        """Start to read lines. Not a checkpoint."""
        erase_starting_frame()
        nursery.start_soon(self._read_lines)
        nursery.start_soon(self._report_progress)

    def print_lines(self, lines: Iterable[str], *, raw: str = "") -> None:
        """Print lines; *raw* only goes to a terminal. Not a checkpoint."""
        shown = "".join(f"{line}\n" for line in lines)
        self._output.write(f"{raw}{shown}" if self._output.has_status else shown)

    def note_change(self) -> None:
        """Print the last remark. Not a checkpoint."""
        self._changed.set()
        before, self._notice = self._notice, self._machine.notice
        if self._notice and self._notice != before:
            self.print_lines([self._notice])

    def note_draft(self) -> None:
        """Print the draft, to which the next line would be added. Not a checkpoint."""
        self.print_lines(draft_lines(self._machine.composer.buffer.text))

    def take_signal(self, number: int, nursery: trio.Nursery) -> bool:
        """Handle Ctrl-C, which the terminal sends as a signal. Not a checkpoint."""
        del nursery
        if number == signal.SIGINT and self._code is None:
            self.apply(self._machine.handle_key(Key("ctrl+c"), trio.current_time()))
            return True
        return number in {signal.SIGCONT, signal.SIGWINCH}

    async def perform_here(self, effect: do.Suspend | do.Redraw | do.EditExternally | do.ShowPager) -> None:
        """Edit the draft, and send it with the next line. A checkpoint."""
        await trio.lowlevel.checkpoint()
        if isinstance(effect, do.ShowPager):
            self.print_lines(effect.text.splitlines())
        if isinstance(effect, do.EditExternally):
            await self._output.drain()
            await self.edit_draft()
            self.note_draft()

    async def finish(self) -> None:
        """Write what is left. A checkpoint."""
        await self._output.drain()

    def restore(self) -> None:
        """Do nothing: nothing was changed."""

    async def _read_lines(self) -> None:
        has_asked = False
        while True:
            line = await self._input.read_line()
            if line is None and (has_asked or not self._input.is_terminal):
                # What a program has sent before is worked off first.
                self.apply([do.Leave(when_idle=not has_asked)])
                return
            # Ctrl-D at a terminal leaves as it does on the screen: it asks first if that ends background commands.
            has_asked = line is None
            self.apply(self._machine.handle_line("/quit" if line is None else line, trio.current_time()))
            self.note_typed()

    async def _report_progress(self) -> None:
        while True:
            # While no turn runs, nothing wakes this process.
            while self._machine.turn_id is None:
                self._changed = trio.Event()
                await self._changed.wait()
            await trio.sleep(_PROGRESS_SECONDS)
            if self._has_progress():
                self.print_lines([_progress_line(self._machine, time.time())])

    def _has_progress(self) -> bool:
        machine = self._machine
        return machine.turn_id is not None and machine.phase != "parked" and machine.questions.current is None


def _progress_line(machine: ChatMachine, now: float) -> str:
    """Return how far the turn is. *now* is in seconds since the epoch."""
    seconds = int(max(0.0, now - (machine.facts.turn_since or now)))
    return " ".join([f"Working, {seconds} seconds.", *(f"{row}." for row in machine.view.running_rows(now))])
