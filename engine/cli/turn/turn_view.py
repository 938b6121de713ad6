"""One turn on the terminal: its events, the user's answers and signals, and the summary."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import trio

from engine.cli.problems.surroundings import Surroundings
from engine.cli.task.task_input import TaskInput
from engine.cli.terminal.debug_log import log_event
from engine.cli.terminal.exit_codes import BROKEN_PIPE, DONE, NO_FIT, OUTPUT_FAILED, WITHHELD
from engine.cli.terminal.keyboard import Keyboard
from engine.cli.terminal.signals import watch_signals
from engine.cli.terminal.standard_streams import print_error
from engine.cli.terminal.terminal_text import escape_control_chars, escape_on_one_line
from engine.cli.turn.record_types import ChangedFile, InitRecord, RunResult
from engine.cli.turn.run_output import RunOutput
from engine.cli.turn.run_record import RunRecord, changed_file, record_text
from engine.cli.turn.screen import Screen
from engine.cli.turn.seen_notices import SeenNotices
from engine.cli.turn.turn_summary import Tally, closing_line, exit_code
from engine.core import events as ev
from engine.core.errors import NothingToUndo, SnapshotError
from engine.core.settings import Timeouts
from engine.core.threads import to_thread
from engine.core.version import __version__
from engine.nursery.transition import NO_FIT as NO_FIT_DETAIL
from engine.process.kill_tree import find_marked
from engine.process.procfs import ProcessId
from engine.process.subreaper import end_adopted, find_adopted, has_children, is_subreaper
from engine.session.session import Session
from engine.session.turn import Turn
from engine.snapshots.snapshot_dir import write_atomically
from engine.tools.call_values import GRACE
from engine.tools.tool_text import counted

if TYPE_CHECKING:
    from engine.cli.turn.interactive import Dialogue
    from engine.cli.turn.request_notes import RequestNotes

# After a cancel, a reader that has stopped reading delays the exit by at most this.
_MAX_DRAIN_SECONDS: Final = 1.0
_UNSEEN_PROCESSES: Final = "docs/explanation/cancelling.md#what-is-not-promised"
# The turn is over by then, but the request for the session's title may have just been sent.
_MAX_TITLE_SECONDS: Final = 5.0


@attrs.define(eq=False, repr=False)
class TurnView:
    """Shows one turn, passes typed lines and signals to it, and prints the summary.

    Without a keyboard no questions are asked.

    Attributes:
        is_saved: the session can be continued later.
        deny_ok: a turn that completed is a success, also if calls were denied for lack of a user to ask.
        is_quiet: show nothing but the answer and errors.
        request_notes: make a line for each request; None: there are none.
        answer_file: the file that gets the answer, or the record, as well.
        task_input: what the prompt consists of, for the record.
        surroundings: what the words about a failure need besides its facts.
        silence_limit: for how many seconds a model may be silent.
        seen_notices: notices of other runs, which are not shown again; None: all are shown.
        max_cost: the limit in dollars, for the record; None: there is none.
    """

    _session: Session
    _output: RunOutput
    _keyboard: Keyboard | None
    is_saved: bool = attrs.field(kw_only=True)
    deny_ok: bool = attrs.field(default=False, kw_only=True)
    is_quiet: bool = attrs.field(default=False, kw_only=True)
    request_notes: RequestNotes | None = attrs.field(default=None, kw_only=True)
    answer_file: Path | None = attrs.field(default=None, kw_only=True)
    task_input: TaskInput = attrs.field(factory=lambda: TaskInput(text=""), kw_only=True)
    surroundings: Surroundings = attrs.field(factory=Surroundings, kw_only=True)
    seen_notices: SeenNotices | None = attrs.field(default=None, kw_only=True)
    silence_limit: float = attrs.field(default=Timeouts().idle, kw_only=True)
    max_cost: float | None = attrs.field(default=None, kw_only=True)
    _record: RunRecord = attrs.field(init=False)
    _screen: Screen = attrs.field(init=False)
    _tally: Tally = attrs.field(factory=Tally, init=False)
    _interrupted_by: int | None = attrs.field(default=None, init=False)
    _cancel: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    # Monotonic: the wall clock may be set during the turn.
    _started: float = attrs.field(factory=time.monotonic, init=False)
    # Around the last write: a reader that has stopped reading must not delay the exit after a signal.
    _final_write: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    def __attrs_post_init__(self) -> None:
        self._screen = Screen.on(self._output.notes, shows_text=self._output.shows_text, surroundings=self.surroundings)
        self._record = RunRecord(self._session.id, self.surroundings)

    async def run(self, turn: Turn, signals: AsyncIterator[int]) -> int:
        """Show *turn* to its end and print the summary; return the exit code. Always a checkpoint."""
        async with trio.open_nursery() as nursery:
            for output in self._output.outputs:
                nursery.start_soon(output.run)
            nursery.start_soon(self._output.answer.watch_reader)
            self._output.begin(self._first_record())
            async with turn:
                self._cancel = turn.cancel
                # Without a reader of the answer there is nothing to work for.
                self._output.answer.on_failure(turn.cancel)
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

                dialogue = TurnDialogue(answerable=turn, turn=turn, keyboard=self._keyboard, screen=self._screen)
                nursery.start_soon(dialogue.run)
            if self._shows_notes:
                nursery.start_soon(self._screen.watch_waits, self.silence_limit)
            async for event in turn:
                self._tally.feed(event)
                self._record.feed(event)
                self._output.feed(event)
                log_event(event)
                # In JSON everything is in the events: programs render them for themselves.
                if self._shows_notes and not (self.seen_notices is not None and self.seen_notices.hides(event)):
                    self._screen.show(event)
                if self.request_notes is not None and (line := self.request_notes.feed(event)):
                    self._add_note(line)
                if dialogue is not None:
                    dialogue.feed(event)
            if dialogue is not None and dialogue.draft:
                self._screen.add_lines(f"  Not sent: {escape_on_one_line(dialogue.draft)}\n")
            # The dialogue waits for further lines until it is cancelled.
            nursery.cancel_scope.cancel(reason="the turn is over")

    async def _finish(self, result: ev.TurnResult) -> int:
        """Write the summary, and the answer or the record; return the exit code. Always a checkpoint."""
        orphans = self._orphans()
        code = self._turn_code(result)
        record = self._record.result(
            result,
            exit_code=code,
            seconds=time.monotonic() - self._started,
            max_cost=self.max_cost,
            left_running=[process.pid for process in orphans],
            # Comparing files takes time, and text does not list them.
            changed_files=None if self._output.mode == "text" else await self._changed_files(),
            task_input=self.task_input,
        )
        answer = self._output.answer_of(result)
        with self._final_write:
            try:
                if self.answer_file is not None and (
                    failed := await self._write_file(self.answer_file, record, answer)
                ):
                    code, record = failed, attrs.evolve(record, exit_code=failed)
            finally:  # also where a signal ends the wait for a file
                self._output.finish(record, answer)
            # The answer before the summary, also where both go to one file; and all before the exit code.
            await self._output.answer.drain()
            if not self.is_quiet or code != DONE or self._record.is_unsaved(result):
                self._add_note(*self._last_lines(result, orphans))
            await self._output.notes.drain()
            with trio.move_on_after(_MAX_TITLE_SECONDS):
                # The list of sessions would otherwise show this one without a title for ever.
                await self._session.background.titled()
        return self._exit_code(code)

    def _add_note(self, *lines: str) -> None:
        self._screen.add_lines("".join(f"{self._screen.symbols.note} {line}\n" for line in lines))

    def _first_record(self) -> InitRecord:
        state = self._session.state
        return InitRecord(
            session_id=self._session.id,
            cwd=state.context.cwd,
            model=state.model,
            agent=state.agent,
            version=__version__,
        )

    @property
    def _shows_notes(self) -> bool:
        return self._output.mode == "text" and not self.is_quiet

    async def _changed_files(self) -> tuple[ChangedFile, ...] | None:
        """Return the turn's changes of files; None: unknown. Always a checkpoint."""
        if self._interrupted_by is not None:  # the exit must not wait for a comparison of files
            await trio.lowlevel.checkpoint()
            return None
        try:
            return tuple(changed_file(diff) for diff in await self._session.files.diff(self._record.turn_id))
        except NothingToUndo:
            return ()
        except SnapshotError:
            return None

    async def _write_file(self, path: Path, record: RunResult, answer: str) -> int:
        """Write the answer, or the record, to a file; return the exit code, 0 if it worked. Always a checkpoint."""
        text = answer if self._output.mode == "text" else record_text(record)
        try:
            await to_thread(write_atomically, path, text.encode(errors="replace"))
        except OSError as error:
            advice = f"engine sessions show {self._session.id}" if self.is_saved else "name another file"
            print_error(f"engine run: can't write {escape_control_chars(str(path))}: {error.strerror}\nNext: {advice}")
            return OUTPUT_FAILED
        return DONE

    def _last_lines(self, result: ev.TurnResult, orphans: Sequence[ProcessId]) -> Iterator[str]:
        leftover = _leftover(orphans)
        if result.stop_reason == "aborted":
            yield f"Cancelled. {self._tally.cancelled} {leftover}"
        else:
            problem = self._record.problem(result)
            yield from problem.lines() if problem is not None else ()
            yield closing_line(result, self._tally, time.monotonic() - self._started)
            if orphans:
                yield leftover
        if not result.text and result.stop_reason == "completed" and self._output.mode == "text":
            yield "The model gave no answer in text."
        # Scripts know how to continue; people at a terminal may not.
        if self._keyboard is not None and self.is_saved:
            yield f"Session {self._session.id}"
            if result.stop_reason in {"completed", "aborted"}:
                yield f"Next: {self._again(result)}"
        if self._record.withheld and result.stop_reason != "aborted":
            yield from self._withheld_lines()

    def _again(self, result: ev.TurnResult) -> str:
        """Return the command that continues the session: a turn that is done needs a new task."""
        return self.surroundings.again + (' "TASK"' if result.stop_reason == "completed" else "")

    def _withheld_lines(self) -> Iterator[str]:
        yield f"{counted(self._record.withheld, 'tool call')} denied: no terminal to ask."
        flags = dict.fromkeys(call.allow_with for call in self._record.denied if call.allow_with)
        if flags:
            task = ' "Try again."' if self.is_saved else ""
            yield f"Next: {escape_control_chars(' '.join((self.surroundings.again, *flags)))}{task}"

    def _orphans(self) -> list[ProcessId]:
        """Return the processes that still run, as far as they can be seen."""
        # Asked of the system, not of the engine: the user should see what really still runs.
        if is_subreaper() and not has_children():
            return []
        marked = find_marked(self._tally.is_of_call)
        return [*dict.fromkeys([*marked, *(find_adopted() if is_subreaper() else ())])]

    def _turn_code(self, result: ev.TurnResult) -> int:
        """Return the exit code that the turn's end stands for."""
        if result.stop_reason == "completed" and self._record.withheld and not self.deny_ok:
            return WITHHELD
        if result.stop_reason == "incomplete" and result.detail.startswith(NO_FIT_DETAIL):
            return NO_FIT
        code = exit_code(result, self._interrupted_by)
        return OUTPUT_FAILED if code == DONE and self._record.is_unsaved(result) else code

    def _exit_code(self, code: int) -> int:
        answer = self._output.answer
        # A closed pipe is what a shell expects of `engine run | head`, not an error to report.
        if answer.is_reader_gone:
            return code if self._interrupted_by else BROKEN_PIPE
        if answer.failure is not None:
            print_error(f"engine run: can't write the output: {answer.failure.strerror}\nNext: add -o FILE")
            return OUTPUT_FAILED
        return code


def _leftover(orphans: Sequence[ProcessId]) -> str:
    """Return what is still running, as far as that was checked."""
    if orphans:
        return f"Still running: {', '.join(f'process {process.pid}' for process in orphans)}."
    # As a subreaper this process is the parent of every orphan that descends from it. Elsewhere, a process that has left
    # its session and its environment could not be seen.
    return "No processes left." if is_subreaper() else f"No marked processes left ({_UNSEEN_PROCESSES})."


def is_here(folder: str) -> bool:
    """Tell whether *folder* is where the user is, so that --continue finds what was done there."""
    try:
        return str(Path.cwd().resolve()) == folder
    except OSError:  # it was removed in the meantime
        return False
