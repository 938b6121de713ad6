"""A session of a server on the terminal: its events, the user's prompts and answers; Ctrl-C only stops watching."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from typing import Final, final

import attrs
import trio

from engine.cli.problems.problem import problem_of_result
from engine.cli.problems.surroundings import Surroundings
from engine.cli.terminal.exit_codes import BROKEN_PIPE, DONE
from engine.cli.terminal.keyboard import Keyboard
from engine.cli.terminal.output import Output
from engine.cli.terminal.terminal_text import escape_on_one_line
from engine.cli.turn.interactive import Dialogue
from engine.cli.turn.open_step_events import events_so_far
from engine.cli.turn.screen import Screen
from engine.cli.turn.turn_summary import Tally, closing_line, exit_code
from engine.client.remote_session import RemoteSession, RemoteTurn
from engine.client.session_stream import StreamItem
from engine.client.watch_items import Offline, Online
from engine.control.protocol.session_methods import SessionHead
from engine.control.protocol.wire_converter import Elided
from engine.core import events as ev
from engine.core.errors import EngineError
from engine.core.ids import TurnId
from engine.journal.codec import Unknown
from engine.journal.state import Resync, SessionState, Waiting

# After the grace of its calls, a server says at once how a turn has ended.
_SILENT_SECONDS: Final = 1.0
_DRAIN_SECONDS: Final = 1.0

_ENDINGS: Final[Mapping[ev.EndingCause, str]] = {
    "user": "cancelled",
    "host": "cancelled",
    "left": "the server is stopping",
    "limit": "a limit was reached",
    "rejected": "a permission was rejected",
    "doom": "the model repeats itself",
    "lost": "another engine has the session",
    "crashed": "internal error",
}


@attrs.define(eq=False, kw_only=True)
class RemoteDialogue(Dialogue):
    """The dialogue with a session of a server: a line that answers nothing is a prompt, or goes to the running turn."""

    session: RemoteSession
    turn_id: Callable[[], TurnId | None]

    async def handle_line(self, line: str) -> None:
        """Send a line. A checkpoint."""
        await trio.lowlevel.checkpoint()
        turn_id = self.turn_id()
        try:
            if not line.strip():
                if turn_id is not None:
                    await self.session.turn(turn_id).skip_wait()
            elif turn_id is None:
                await self.session.prompt(line)
            else:
                await self.session.turn(turn_id).steer(line)
                self.screen.add_lines("  Queued for the next step.\n")
        except EngineError as error:
            self.screen.add_lines(f"  Not sent: {escape_on_one_line(str(error))}\n")


@final
class RemoteView:
    """Shows a session of a server until its user leaves, or until a turn ends that was waited for."""

    def __init__(self, session: RemoteSession, output: Output, keyboard: Keyboard | None, *, stays: bool) -> None:
        """Make it. *stays*: after the end of a turn, wait for the next one."""
        self._session = session
        self._output = output
        self._keyboard = keyboard
        self._stays = stays
        self._screen = Screen.on(output)
        self._tally = Tally()
        self._turn_id: TurnId | None = None
        self._is_attached = False
        self._is_interrupted = False
        self._is_idle = False
        self._has_unknown = False
        # None: the turn began before this came to it.
        self._started: float | None = None
        self._code: int | None = None
        # The turn that was started here; None: any.
        self._awaited: TurnId | None = None
        self._failure: EngineError | None = None
        self._dialogue: RemoteDialogue | None = None
        self._scope = trio.CancelScope()

    async def run(self, signals: AsyncIterator[int], start: Callable[[], Awaitable[RemoteTurn]] | None = None) -> int:
        """Watch, and return the exit code. A checkpoint. *start* is awaited once the session is watched.

        Raises what the server refuses.
        """
        self._output.on_failure(lambda: self._leave(BROKEN_PIPE))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._output.run)
            with self._scope:
                async with trio.open_nursery() as inner:
                    inner.start_soon(self._leave_by_signal, signals)
                    await self._watch(inner, start)
                    inner.cancel_scope.cancel(reason="the session is not watched any more")
            # What runs goes on, but not on this screen.
            self._output.show_status("")
            if self._failure is None:
                self._screen.add_lines("".join(f"{line}\n" for line in self._last_lines()))
            with trio.move_on_after(_DRAIN_SECONDS):
                await self._output.drain()
            nursery.cancel_scope.cancel(reason="the command is over")
        if self._failure is not None:
            raise self._failure
        return DONE if self._code is None else self._code

    async def _watch(self, nursery: trio.Nursery, start: Callable[[], Awaitable[RemoteTurn]] | None) -> None:
        try:
            async with self._session.watch() as stream:
                async for item in stream:
                    self._show(item, nursery)
                    if isinstance(item, Resync) and not self._is_attached:
                        await self._begin(nursery, item, start)
                    if not self._stays and (self._code is not None or self._is_idle):
                        return
        except EngineError as error:
            # Raised outside of the nurseries, which would put it into a group.
            self._failure = error

    async def _begin(
        self, nursery: trio.Nursery, resync: Resync, start: Callable[[], Awaitable[RemoteTurn]] | None
    ) -> None:
        """Begin with the first snapshot: take lines, and do what was asked for. A checkpoint."""
        await trio.lowlevel.checkpoint()
        self._is_attached = True
        self._converse(nursery, resync)
        if start is not None:
            self._awaited = (await start()).id
        else:
            # Without a terminal there is nothing to wait for.
            self._is_idle = self._turn_id is None

    def _converse(self, nursery: trio.Nursery, resync: Resync) -> None:
        """Take lines of the keyboard from now on. Not a checkpoint."""
        if self._keyboard is None:
            return
        self._dialogue = RemoteDialogue(
            answerable=self._session,
            keyboard=self._keyboard,
            screen=self._screen,
            session=self._session,
            turn_id=lambda: self._turn_id,
        )
        self._ask(resync)
        nursery.start_soon(self._read_lines, self._dialogue)

    async def _read_lines(self, dialogue: RemoteDialogue) -> None:
        await dialogue.read_lines()
        self._leave(None)

    async def _leave_by_signal(self, signals: AsyncIterator[int]) -> None:
        async for _ in signals:
            self._leave(None)
            return

    def _leave(self, code: int | None) -> None:
        self._code = self._code if code is None else code
        self._scope.cancel(reason="the user leaves")

    # -- what comes --------------------------------------------------------------------------

    def _show(self, item: StreamItem, nursery: trio.Nursery) -> None:
        match item:
            case Resync():
                self._show_state(item)
            case SessionHead() | Offline() | Online() | Elided() | Unknown():
                self._note(self._remark(item))
            case _:
                if isinstance(item, ev.TurnEnding) and len(item.path) == 1:
                    nursery.start_soon(self._warn_of_silence, item)
                self._show_event(item)
                if isinstance(item, ev.TurnEnded) and len(item.path) == 1:
                    self._end(item)

    def _remark(self, item: SessionHead | Offline | Online | Elided | Unknown) -> str:
        match item:
            case SessionHead():
                self._is_interrupted = item.parked and not item.asked
                if not item.parked:
                    return ""
                if item.asked:
                    return "its turn waits for an answer, and no engine runs it: --resume continues it"
                self._turn_id = None
                return (
                    "its turn was interrupted, as no engine runs it: --resume lets the model go on, and your next message "
                    "begins a new turn"
                )
            case Offline():
                return "the connection is lost; trying again"
            case Online():
                return "connected again"
            case Elided():
                return f"an event of {item.bytes} bytes is not shown"
            case Unknown():
                is_first, self._has_unknown = not self._has_unknown, True
                return (
                    "the server is newer than this program and sends what it can't show: update it" if is_first else ""
                )

    def _show_event(self, event: ev.Durable | ev.Live) -> None:
        if isinstance(event, ev.TurnStarted) and len(event.path) == 1:
            self._turn_id, self._started, self._tally = event.turn_id, time.monotonic(), Tally()
        self._tally.feed(event)
        self._screen.show(event)
        if self._dialogue is not None:
            self._dialogue.feed(event)
        elif isinstance(event, ev.PermissionAsked | ev.QuestionAsked | ev.RecoveryAsked):
            self._note_question()

    def _end(self, event: ev.TurnEnded) -> None:
        self._turn_id = None
        result = event.result
        if result.stop_reason == "aborted" and event.ending is None:
            self._note(f"Interrupted: {result.detail}.")
        elif result.stop_reason == "aborted":
            self._note(f"Cancelled. Tool calls: {self._tally.states or 'none'}.")
        else:
            problem = problem_of_result(
                result, Surroundings(again=f'engine attach {self._session.id} --prompt "Continue."')
            )
            for line in problem.lines() if problem is not None else ():
                self._note(line)
            seconds = None if self._started is None else time.monotonic() - self._started
            self._note(closing_line(result, self._tally, seconds))
        # One that a crash has cut off ends when the next one begins.
        if not self._stays and self._awaited in {None, event.turn_id}:
            self._code = exit_code(result, None)

    async def _warn_of_silence(self, ending: ev.TurnEnding) -> None:
        """Say so if a turn that is ending has not ended in time. A checkpoint."""
        by = f" by {escape_on_one_line(ending.by)}" if ending.by else ""
        self._note(f"The turn is ending ({_ENDINGS[ending.cause]}{by}).")
        await trio.sleep(max(0.0, ending.until - time.time()) + _SILENT_SECONDS)
        if self._turn_id == ending.turn_id:
            self._note("the server is silent: it is not known whether the turn has ended")

    # -- what is true now --------------------------------------------------------------------

    def _show_state(self, resync: Resync) -> None:
        """Show a snapshot: at first, what the session does; later, what may be missing above."""
        state = resync.state
        # A turn that no engine runs takes no messages: the next one begins a turn, which ends it.
        self._turn_id = None if state.turn is None or self._is_interrupted else state.turn.turn_id
        if self._is_attached:
            self._screen.show(resync)
            self._ask(resync)
            return
        self._screen.add_lines(f"{_heading(state, is_interrupted=self._is_interrupted)}\n")
        if state.turn is not None and state.turn.step is not None:
            for event in events_so_far(state, state.turn.step):
                self._tally.feed(event)
                self._screen.show(event)
            if state.turn.step.calls:
                # The text before them is over: below an open line, what runs would not be shown.
                self._screen.add_lines("")
        for question in resync.open_questions:
            self._screen.show(question)
        if resync.open_questions and self._keyboard is None:
            self._note_question()

    def _note_question(self) -> None:
        self._note(f"A question waits for an answer. Next: engine attach {self._session.id}")

    def _ask(self, resync: Resync) -> None:
        """Show the open questions, and no others."""
        if self._dialogue is not None:
            self._dialogue.replace_questions(resync.open_questions)

    def _note(self, text: str) -> None:
        if text:
            self._screen.add_lines(f"{self._screen.symbols.note} {text}\n")

    def _last_lines(self) -> Iterator[str]:
        if self._code is not None:
            return
        again = f"engine attach {self._session.id}"
        if self._turn_id is None:
            yield f"Detached.\nNext: {again}"
        else:
            yield f"Detached. The turn continues.\nNext: {again}\nor: {again} --cancel"


def _heading(state: SessionState, *, is_interrupted: bool) -> str:
    name = escape_on_one_line(state.title or state.context.cwd)
    status = "waits for an answer" if isinstance(state.status, Waiting) else "is working" if state.turn else "is idle"
    status = "was interrupted" if is_interrupted else status
    count = len(state.transcript)
    return f"session {state.session_id} ({name}) {status}; {count} {'message' if count == 1 else 'messages'}"
