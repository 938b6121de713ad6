"""Lines that the user types during a turn: answers to the open question, or else messages to the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

import attrs
import trio

from engine.cli.chat.editor.draft_line import DraftLine
from engine.cli.questions.answer_guard import QUIET_SECONDS, AnswerGuard
from engine.cli.questions.open_questions import OpenQuestions, ShownQuestion
from engine.cli.questions.permission_answers import (
    AskAgain,
    AskFeedback,
    PermissionOutcome,
    Reply,
    ShowDetails,
    parse_answer,
    parse_feedback,
)
from engine.cli.questions.permission_view import PermissionView
from engine.cli.questions.question_prompts import answer_prompt, labelled, parse_choices, parse_recovery, settled_line
from engine.cli.terminal.keyboard import Keyboard, TypedLine
from engine.cli.terminal.terminal_text import escape_control_chars, escape_on_one_line
from engine.cli.turn.screen import Screen
from engine.core import events as ev
from engine.core.errors import ConfigError, RequestNotFound, TurnOver
from engine.journal.state import OpenQuestion, Resync
from engine.session.answer_types import Answer, Recovery, Reject
from engine.session.turn import Turn

_KEYBOARD_CLOSED: Final = Reject(feedback="the user can't answer: standard input is closed")
_FEEDBACK_PROMPT: Final = "  What to do instead (Enter: back): "
_MESSAGE_PROMPT: Final = "  Your message: "
_DRAFT_PROMPT: Final = "  Your message (Tab, then an answer, answers the question): "


class Answerable(Protocol):
    """What gets the answers: a turn here, or a session of a server."""

    async def reply(self, request_id: str, answer: Answer, /) -> None:
        """Answer a question for permission. Raises `RequestNotFound`, `ConfigError`."""
        ...

    async def answer(self, request_id: str, /, *answers: str) -> None:
        """Answer a tool's question. Raises `RequestNotFound`."""
        ...

    async def recover(self, request_id: str, how: Recovery, /, *, model: str | None = None) -> None:
        """Decide how to continue after a failed request. Raises `RequestNotFound`, `ConfigError`."""
        ...


@attrs.define(eq=False, kw_only=True)
class Dialogue(ABC):
    """Reads the keyboard for one turn.

    Questions are shown one at a time. A line answers the one on the screen only if it was typed for it, see
    `AnswerGuard`; any other is a message. Without a keyboard there are no questions: the settings deny such calls.
    """

    answerable: Answerable
    keyboard: Keyboard
    screen: Screen
    _open: OpenQuestions = attrs.field(factory=OpenQuestions, init=False)
    _draft_line: DraftLine = attrs.field(factory=DraftLine, init=False)
    _is_shown: bool = attrs.field(default=False, init=False)
    _awaits_feedback: bool = attrs.field(default=False, init=False)
    # A whole line takes longer to type than a question to read.
    _guard: AnswerGuard = attrs.field(factory=lambda: AnswerGuard(reaction=0.0), init=False)
    _painted_at: float = attrs.field(default=0.0, init=False)
    _guard_closed: trio.Event = attrs.field(factory=trio.Event, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _question_added: trio.Event = attrs.field(factory=trio.Event, init=False)

    def __attrs_post_init__(self) -> None:
        if self.screen.output.has_status:
            self.keyboard.editor = self._draft_line
            self.keyboard.on_edit = self._redraw_draft

    def feed(self, event: ev.Durable | ev.Live | Resync) -> None:
        """Take from *event* what concerns questions. Not a checkpoint."""
        match event:
            case ev.PermissionAsked() | ev.RecoveryAsked() | ev.QuestionAsked():
                self.ask(event)
            case ev.PermissionAnswered() | ev.RecoveryAnswered() | ev.QuestionAnswered():
                self.answered(event)
            case ev.RetryScheduled():
                self.screen.add_lines("  Enter: retry now\n")
            case _:
                self._open.feed(event)

    def ask(self, request: OpenQuestion) -> None:
        """Show a question as soon as no other one is open. Not a checkpoint."""
        self._open.add(request)
        self._question_added.set()
        if len(self._open) == 1:
            self._show()

    def answered(self, event: ev.PermissionAnswered | ev.RecoveryAnswered | ev.QuestionAnswered) -> None:
        """Close a question that was answered here, by a grant, or because its call has ended. Not a checkpoint."""
        if self._is_shown and self._open.first.id == event.request_id:
            self._hide()
            # The answer to a permission is among the lines of the turn.
            if not isinstance(event, ev.PermissionAnswered):
                self.screen.add_lines(settled_line(event))
        # It may also be one that was not shown yet: an "always" answers several at once.
        self._open.remove(event.request_id)
        self._show_next()

    def replace_questions(self, questions: Sequence[OpenQuestion]) -> None:
        """Close all questions but these, and ask those that are new. Not a checkpoint."""
        ids = {question.request_id for question in questions}
        if self._is_shown and self._open.first.id not in ids:
            self._hide()
        self._open.replace(questions)
        self._question_added.set()
        self._show_next()

    async def run(self) -> None:
        """Handle typed lines until cancelled; after the last one, reject every question. Always a checkpoint."""
        await self.read_lines()
        self._is_closed = True
        # No more answers can come: a question left open would block the turn for good.
        while True:
            while self._open:
                await self._reject_open_question()
            # Nothing is awaited between the last check and this line, so no question is missed.
            self._question_added = trio.Event()
            await self._question_added.wait()

    async def read_lines(self) -> None:
        """Handle typed lines until the keyboard is closed. Always a checkpoint."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._watch_silence)
            while (line := await self.keyboard.read_line()) is not None:
                self.screen.line_was_typed()
                await self._handle(line)
            nursery.cancel_scope.cancel(reason="the keyboard is closed")

    @property
    def draft(self) -> str:
        """The beginning of a message that was typed and not sent, as far as it was seen."""
        return self.keyboard.draft

    @abstractmethod
    async def handle_line(self, line: str) -> None:
        """Handle a line that answers no question. A checkpoint."""

    # -- what is on the screen -----------------------------------------------------------------

    def _show_next(self) -> None:
        # One at a time: two questions on the screen could be answered in the wrong order.
        if self._is_shown:
            self.screen.prompt_again()
        elif self._open:
            self._show()
        else:
            self._open.restart_count()
            self._show_draft(self.keyboard.draft)

    def _show_draft(self, draft: str) -> None:
        if draft:
            self.screen.prompt(f"{_MESSAGE_PROMPT}{escape_on_one_line(draft)}", stays=False)

    def _redraw_draft(self) -> None:
        """Show the message after an edit that the terminal has not shown. Not a checkpoint."""
        if not self.keyboard.draft and self._is_shown:
            # All of it was erased: after a moment, a line answers the question again.
            self._guard.note_typed(trio.current_time())
            self.screen.redraw_prompt("")
            self._paint()
            return
        room = max(10, self.screen.output.width - 1 - len(_MESSAGE_PROMPT))
        self.screen.redraw_prompt(f"{_MESSAGE_PROMPT}{self._draft_line.shown(room)}", stays=self._is_shown)

    def _show(self) -> None:
        if self._is_closed:  # `run` rejects it instead
            return
        if self.screen.output.has_status:
            self.keyboard.mark_pastes(is_on=True)
        self._is_shown = True
        lines = self._open.lines_of_first(self.screen.symbols, self.screen.surroundings)
        if (view := self._open.first.view) is not None:
            if self._is_numbered:
                lines = labelled(lines, self.screen.symbols)
            lines += self._open.choices_of(view, is_numbered=self._is_numbered)
        self._paint("".join(f"{line}\n" for line in lines))

    def _hide(self) -> None:
        self._is_shown = self._awaits_feedback = False
        self.screen.end_prompt()
        if self.screen.output.has_status:
            self.keyboard.mark_pastes(is_on=False)

    def _paint(self, text: str = "") -> None:
        """Show *text* and the prompt: from now on, a line may answer if no message is being typed."""
        if not self._is_shown:  # it was settled elsewhere during an await
            if text:
                self.screen.add_lines(text)
            return
        # What was typed before the question appeared stays a message.
        draft = self.keyboard.look()
        self._painted_at = trio.current_time()
        self._guard.paint(self._painted_at, has_draft=bool(draft))
        if not self._guard.is_open:
            self._guard_closed.set()
        prompt = _FEEDBACK_PROMPT if self._awaits_feedback else answer_prompt(self._open.first.request)
        self.screen.prompt(text + (f"{_DRAFT_PROMPT}{escape_on_one_line(draft)}" if draft else prompt))

    @property
    def _is_numbered(self) -> bool:
        """Whether choices have numbers: a screen reader says more with them than with single letters."""
        return not self.screen.output.has_status

    # -- what is typed -------------------------------------------------------------------------

    async def _handle(self, line: TypedLine) -> None:
        """Handle a line: an answer if it was typed for the question on the screen, else a message."""
        if not self._is_shown:
            self._guard.note_typed(trio.current_time())
            await self.handle_line(line.text)
            return
        message, tab, answer = line.text.rpartition("\t")
        now = trio.current_time()
        if tab and not line.is_pasted:
            # The user has moved to the question on purpose; what stands before that stays a message.
            self._guard.focus()
            await self._answer(answer)
            self._keep(message)
        elif line.is_pasted or line.is_early or not self._guard.allows(now, has_draft=False) or self.keyboard.look():
            self._guard.note_typed(now)
            if line.text.strip():
                await self.handle_line(line.text)
            if not self.keyboard.has_lines:
                self._paint()
        else:
            await self._answer(line.text)

    def _keep(self, message: str) -> None:
        """Keep *message* as the beginning of the next line, and show it."""
        if not message.strip():
            return
        self.keyboard.put_back(message)
        if self._is_shown:
            self._paint()
        else:
            self._show_draft(message)

    async def _watch_silence(self) -> None:
        """Reopen the guard once nothing has been typed for a while."""
        while True:
            await self._guard_closed.wait()
            self._guard_closed = trio.Event()
            until = self._painted_at + QUIET_SECONDS
            await trio.sleep_until(until)
            if self._painted_at + QUIET_SECONDS > until:
                self._guard_closed.set()  # a message was sent, and the question painted again below it
                continue
            # If a message is being typed, this happens again when it has been sent.
            if self._is_shown and not (self.keyboard.look() or self.keyboard.has_lines):
                self._guard.note_silence()

    async def _answer(self, line: str) -> None:
        question = self._open.first
        request = question.request
        if isinstance(request, ev.RecoveryAsked):
            await self._recover(request, line)
        elif isinstance(request, ev.QuestionAsked):
            self._close(question)
            # The question may have been withdrawn while the user was typing.
            with suppress(RequestNotFound):
                await self.answerable.answer(request.request_id, *parse_choices(line, request))
        elif question.view is not None:
            await self._apply(question, question.view, self._parse(line, question.view))

    def _parse(self, line: str, view: PermissionView) -> PermissionOutcome:
        if self._awaits_feedback:
            return parse_feedback(line)
        return parse_answer(line, view, same=len(self._open.same(view)), is_numbered=self._is_numbered)

    async def _apply(self, question: ShownQuestion, view: PermissionView, outcome: PermissionOutcome) -> None:
        self._awaits_feedback = isinstance(outcome, AskFeedback)
        if isinstance(outcome, Reply):
            same = self._open.same(view) if outcome.to_same else []
            await self._reply_to_all([question, *(other for other in same if other is not question)], outcome.answer)
            return
        lines: list[str] = []
        if isinstance(outcome, ShowDetails):
            lines = view.detail_lines(self.screen.symbols)
        elif isinstance(outcome, AskAgain) and outcome.hint:
            lines = [f"  {escape_on_one_line(outcome.hint)}"]
        if not self._awaits_feedback:
            lines += self._open.choices_of(view, is_numbered=self._is_numbered)
        self._paint("".join(f"{line}\n" for line in lines))

    async def _reply_to_all(self, questions: Sequence[ShownQuestion], answer: Answer) -> None:
        # All are closed before the first await: none of them may appear on the screen during it.
        for question in questions[1:]:
            self._close(question)
        for question in questions:
            await self._reply(question, answer)

    async def _reply(self, question: ShownQuestion, answer: Answer) -> None:
        self._close(question)
        try:
            await self.answerable.reply(question.id, answer)
        except ConfigError as error:  # for instance "p" without a project: the question stays open
            self._open.put_back(question)
            self._is_shown = True
            self._paint(f"  {escape_control_chars(str(error))}\n")
        except RequestNotFound:  # it was answered elsewhere a moment ago
            pass

    async def _recover(self, request: ev.RecoveryAsked, line: str) -> None:
        recovery = parse_recovery(line)
        try:
            if recovery is None:
                self._paint()
            else:
                self._guard.note_answer(trio.current_time())
                await self.answerable.recover(request.request_id, recovery[0], model=recovery[1])
        except ConfigError as error:  # no such model, or no key for it: the question stays open
            self._paint(f"  {escape_control_chars(str(error))}\n")
        except RequestNotFound:  # it was answered elsewhere a moment ago
            pass

    async def _reject_open_question(self) -> None:
        question = self._open.first
        request = question.request
        if isinstance(request, ev.PermissionAsked):
            await self._reply(question, _KEYBOARD_CLOSED)
            return
        self._close(question)
        with suppress(RequestNotFound):
            if isinstance(request, ev.QuestionAsked):
                await self.answerable.answer(request.request_id)
            else:
                await self.answerable.recover(request.request_id, "stop")

    def _close(self, question: ShownQuestion) -> None:
        """Remove a question that is being answered; the next one is shown when the event of the answer arrives."""
        self._guard.note_answer(trio.current_time())
        if self._is_shown and self._open.first is question:
            self._hide()
        self._open.remove(question.id)


@attrs.define(eq=False, kw_only=True)
class TurnDialogue(Dialogue):
    """The dialogue about a turn of this process: other lines go to the model."""

    turn: Turn

    async def handle_line(self, line: str) -> None:
        """Send a line to the model; Enter alone, during the wait before a retry, ends that. A checkpoint."""
        # The checkpoint comes last: a line that was taken from the keyboard is never lost to a cancel.
        if not line.strip():
            self.turn.skip_wait()
        else:
            self._steer(line)
        await trio.lowlevel.checkpoint()

    def _steer(self, line: str) -> None:
        try:
            self.turn.steer(line)
        except TurnOver:
            self.screen.add_lines("  The turn has ended. Your message was not sent.\n")
        else:
            self.screen.add_lines("  Queued for the next step.\n")
