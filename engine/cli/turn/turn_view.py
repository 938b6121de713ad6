"""One turn on the terminal: its events, the user's answers and signals, and the summary."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import trio

from engine.cli.terminal.exit_codes import BROKEN_PIPE, FAILED
from engine.cli.terminal.keyboard import Keyboard
from engine.cli.terminal.output import Output
from engine.cli.terminal.signals import watch_signals
from engine.cli.terminal.standard_streams import print_error
from engine.cli.turn.screen import Screen
from engine.cli.turn.turn_summary import Tally, closing_line, exit_code
from engine.core import events as ev
from engine.journal.state import Resync
from engine.process.kill_tree import find_marked
from engine.process.subreaper import end_adopted, find_adopted, is_subreaper
from engine.session.session import Session
from engine.session.turn import Turn
from engine.tools.call_values import GRACE

if TYPE_CHECKING:
    from engine.cli.turn.interactive import Dialogue

# After a cancel, a reader that has stopped reading delays the exit by at most this.
_MAX_DRAIN_SECONDS: Final = 1.0
# The turn is over by then, but the request for the session's title may have just been sent.
_MAX_TITLE_SECONDS: Final = 5.0


@attrs.define(eq=False)
class TurnView:
    """Shows one turn, passes typed lines and signals to it, and prints the summary.

    Without a keyboard no questions are asked.

    Attributes:
        as_json: write events as JSON instead of rendering them.
        is_saved: the session can be continued later.
    """

    _session: Session
    _output: Output
    _keyboard: Keyboard | None
    as_json: bool = attrs.field(kw_only=True)
    is_saved: bool = attrs.field(kw_only=True)
    _screen: Screen = attrs.field(init=False)
    _tally: Tally = attrs.field(factory=Tally, init=False)
    _interrupted_by: int | None = attrs.field(default=None, init=False)
    _cancel: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    # Monotonic: the wall clock may be set during the turn.
    _started: float = attrs.field(factory=time.monotonic, init=False)
    # Around the last write: a reader that has stopped reading must not delay the exit after a signal.
    _final_write: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def __attrs_post_init__(self) -> None:
        self._screen = Screen.on(self._output)

    async def run(self, turn: Turn, signals: AsyncIterator[int]) -> int:
        """Show *turn* to its end and print the summary; return the exit code. Always a checkpoint."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._output.run)
            async with turn:
                self._cancel = turn.cancel
                self._output.on_failure(turn.cancel)
                nursery.start_soon(watch_signals, signals, self._interrupt, self._tally.is_ours)
                await self._follow(turn)
            # Background jobs end before the summary, which lists what still runs.
            await self._session.background.end_jobs()
            if is_subreaper():
                await end_adopted(GRACE)
            code = await self._finish(turn.result)
            # The writer and the watcher of signals run until they are cancelled.
            nursery.cancel_scope.cancel(reason="the command is over")
        return code

    def _interrupt(self, number: int) -> None:
        """Handle a signal: cancel the turn. Not a checkpoint."""
        self._interrupted_by = number
        # Before the cancel, so that the summary covers exactly the calls that were open then.
        self._tally.mark_cancel()
        self._final_write.deadline = trio.current_time() + _MAX_DRAIN_SECONDS
        self._cancel()

    async def _follow(self, turn: Turn) -> None:
        """Show *turn* to its end, and handle the lines that the user types. Always a checkpoint."""
        async with trio.open_nursery() as nursery:
            dialogue: Dialogue | None = None
            if self._keyboard is not None:
                from engine.cli.turn.interactive import TurnDialogue

                dialogue = TurnDialogue(turn=turn, keyboard=self._keyboard, screen=self._screen)
                nursery.start_soon(dialogue.run)
            async for event in turn:
                self._tally.feed(event)
                # Programs get every event; they render and answer for themselves.
                if self.as_json:
                    self._output.write(_json_of(event))
                    continue
                self._screen.show(event)
                if dialogue is not None:
                    dialogue.feed(event)
            # The dialogue waits for further lines until it is cancelled.
            nursery.cancel_scope.cancel(reason="the turn is over")

    async def _finish(self, result: ev.TurnResult) -> int:
        """Print the summary and return the exit code. Always a checkpoint."""
        lines = "".join(f"{self._screen.symbols.note} {line}\n" for line in self._last_lines(result))
        # Standard output holds nothing but JSON, so the summary goes to standard error.
        if self.as_json:
            print_error(lines.rstrip())
        else:
            self._screen.add_lines(lines)
        with self._final_write:
            # All events must be out before the exit code is.
            await self._output.drain()
            with trio.move_on_after(_MAX_TITLE_SECONDS):
                # The list of sessions would otherwise show this one without a title for ever.
                await self._session.background.titled()
        return self._exit_code(result)

    def _last_lines(self, result: ev.TurnResult) -> Iterator[str]:
        leftover, is_any = self._leftover()
        if result.stop_reason == "aborted":
            yield ", ".join(filter(None, (f"cancelled: {self._tally.cancelled}", leftover)))
        else:
            yield closing_line(result, self._tally, time.monotonic() - self._started)
            if is_any:
                yield leftover
        # Scripts know how to continue; people at a terminal may not.
        if self._keyboard is not None and self.is_saved:
            flag = "--continue" if _is_here(self._session.state.context.cwd) else f"--resume {self._session.id}"
            yield f"session {self._session.id}: `engine run {flag}` continues it"
        was_denied = any(call.status == "denied" for call in self._tally.settled.values())
        if was_denied and self._keyboard is None and result.stop_reason != "aborted":
            yield "calls were denied because there is no terminal to ask in: run it in one, or with --yes"

    def _leftover(self) -> tuple[str, bool]:
        """Return what is still running, in words, and whether anything is; no words if that can't be seen."""
        # Asked of the system, not of the engine: the user should see what really still runs.
        sees_all = is_subreaper()
        orphans = dict.fromkeys([*find_marked(self._tally.is_of_call), *(find_adopted() if sees_all else ())])
        if orphans:
            return f"still running: processes {', '.join(str(process.pid) for process in orphans)}", True
        # Elsewhere, a process that has left its session and its environment could not be seen.
        return ("nothing left running" if sees_all else ""), False

    def _exit_code(self, result: ev.TurnResult) -> int:
        # A closed pipe is what a shell expects of `engine run | head`, not an error to report.
        if self._output.is_reader_gone:
            return exit_code(result, self._interrupted_by) if self._interrupted_by else BROKEN_PIPE
        if self._output.failure is not None:
            print_error(f"engine run: can't write the output: {self._output.failure.strerror}")
            return FAILED
        return exit_code(result, self._interrupted_by)


def _is_here(folder: str) -> bool:
    """Tell whether *folder* is where the user is, so that --continue finds what was done there."""
    try:
        return str(Path.cwd().resolve()) == folder
    except OSError:  # it was removed in the meantime
        return False


def _json_of(event: ev.Durable | ev.Live | Resync) -> str:
    # Imported here: cattrs is needed for JSON only.
    from engine.journal.codec import encode_event, encode_resync

    return f"{encode_resync(event) if isinstance(event, Resync) else encode_event(event)}\n"
