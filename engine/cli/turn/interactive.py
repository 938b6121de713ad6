"""Lines that the user types during a turn: answers to the open question, or else messages to the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Literal, Protocol, assert_never

import attrs
import trio

from engine.cli.terminal.keyboard import Keyboard
from engine.cli.terminal.terminal_text import escape_control_chars, escape_on_one_line
from engine.cli.turn.question_prompts import (
    OpenQuestion,
    answer_prompt,
    parse_answer,
    parse_choices,
    permission_detail,
    permission_question,
    recovery_question,
    requester_line,
    tool_question,
)
from engine.cli.turn.screen import Screen
from engine.core.errors import ConfigError, RequestNotFound, TurnOver
from engine.core.events import (
    CallQueued,
    Durable,
    Live,
    PermissionAnswered,
    PermissionAsked,
    QuestionAnswered,
    QuestionAsked,
    RecoveryAnswered,
    RecoveryAsked,
    RetryScheduled,
    TurnStarted,
)
from engine.core.ids import CallId, SessionId
from engine.journal.state import Resync
from engine.session.answer_types import Answer, Recovery, Reject
from engine.session.turn import Turn

_RECOVERIES: Final[dict[str, Literal["wait", "stop"]]] = {
    **dict.fromkeys(("w", "wait"), "wait"),
    **dict.fromkeys(("s", "stop"), "stop"),
}
_KEYBOARD_CLOSED: Final = Reject(feedback="the user can't answer: standard input is closed")


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

    Questions are shown one at a time. What was typed before a question appeared
    does not answer it. Without a keyboard there are no questions: the settings
    deny such calls.
    """

    answerable: Answerable
    keyboard: Keyboard
    screen: Screen
    _open: list[tuple[OpenQuestion, str]] = attrs.field(factory=list[tuple[OpenQuestion, str]], init=False)
    _is_shown: bool = attrs.field(default=False, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _question_added: trio.Event = attrs.field(factory=trio.Event, init=False)
    _arguments: dict[CallId, str] = attrs.field(factory=dict[CallId, str], init=False)
    # For sub-agents: the arguments of the calls that started them.
    _task_arguments: dict[SessionId, str] = attrs.field(factory=dict[SessionId, str], init=False)

    def feed(self, event: Durable | Live | Resync) -> None:
        """Take from *event* what concerns questions. Not a checkpoint."""
        match event:
            case CallQueued():
                self._arguments[event.call_id] = event.arguments
            case TurnStarted():
                # A question of a sub-agent quotes the task that it works on.
                self._task_arguments[event.session_id] = (
                    "" if event.call_id is None else self._arguments.get(event.call_id, "")
                )
            case PermissionAsked():
                detail = permission_detail(event, self._arguments.get(event.call_id, ""))
                self.ask(event, detail, self._task_arguments.get(event.session_id, ""))
            case RecoveryAsked() | QuestionAsked():
                self.ask(event, task_arguments=self._task_arguments.get(event.session_id, ""))
            case PermissionAnswered() | RecoveryAnswered() | QuestionAnswered():
                self.answered(event)
            case RetryScheduled():
                self.screen.add_lines("  (Enter retries now)\n")
            case _:
                pass

    def ask(self, request: OpenQuestion, detail: str = "", task_arguments: str = "") -> None:
        """Show a question as soon as no other one is open. Not a checkpoint.

        Args:
            request: the question.
            detail: for a permission, what the call would do.
            task_arguments: for a sub-agent's question, the arguments of the call that started it.
        """
        # Rendered now: the arguments of the call are at hand, and the question may have to wait.
        self._open.append((request, self._render(request, detail) + requester_line(request, task_arguments)))
        self._question_added.set()
        if len(self._open) == 1:
            self._show()

    def answered(self, event: PermissionAnswered | RecoveryAnswered | QuestionAnswered) -> None:
        """Close a question that was answered here, by a grant, or because its call has ended. Not a checkpoint."""
        if self._is_shown and self._open[0][0].request_id == event.request_id:
            self._is_shown = False
            how = event.outcome if isinstance(event, QuestionAnswered) else event.answer
            by = f" by {escape_on_one_line(event.by)}" if event.by else ""
            self.screen.add_lines(f"  (settled{by}: {how})\n")
        # It may also be one that was not shown yet: an "always" answers several at once.
        self._open = [(request, text) for request, text in self._open if request.request_id != event.request_id]
        # One at a time: two questions on the screen could be answered in the wrong order.
        if self._open and not self._is_shown:
            self._show()

    def replace_questions(self, questions: Sequence[OpenQuestion]) -> None:
        """Close all questions but these, and ask those that are new. Not a checkpoint."""
        ids = {question.request_id for question in questions}
        if self._is_shown and self._open[0][0].request_id not in ids:
            self._is_shown = False
        known = {request.request_id for request, _ in self._open}
        self._open = [(request, text) for request, text in self._open if request.request_id in ids]
        for question in questions:
            if question.request_id not in known:
                self.feed(question)
        if self._open and not self._is_shown:
            self._show()

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
        while (line := await self.keyboard.read_line()) is not None:
            self.screen.line_was_typed()
            if self._is_shown:
                await self._answer(line)
            else:
                await self.handle_line(line)

    @abstractmethod
    async def handle_line(self, line: str) -> None:
        """Handle a line that answers no question. A checkpoint."""

    def _show(self) -> None:
        if self._is_closed:  # `run` rejects it instead
            return
        request, text = self._open[0]
        # What was typed before the question appeared must not answer it.
        self.keyboard.forget()
        self._is_shown = True
        self.screen.prompt(text + answer_prompt(request))

    def _render(self, request: OpenQuestion, detail: str) -> str:
        match request:
            case PermissionAsked():
                return permission_question(request, detail, self.screen.symbols)
            case RecoveryAsked():
                return recovery_question(request, self.screen.symbols)
            case QuestionAsked():
                return tool_question(request, self.screen.symbols)
            case _:
                assert_never(request)

    async def _answer(self, line: str) -> None:
        request = self._open[0][0]
        if isinstance(request, RecoveryAsked):
            await self._recover(request, line.strip())
            return
        if isinstance(request, QuestionAsked):
            self._close(request)
            # The question may have been withdrawn while the user was typing.
            with suppress(RequestNotFound):
                await self.answerable.answer(request.request_id, *parse_choices(line, request))
            return
        answer = parse_answer(line, request)
        # Not a valid choice: asking again is safer than guessing.
        if answer is None:
            self.screen.prompt(answer_prompt(request))
        else:
            await self._reply(request, answer)

    async def _reply(self, request: PermissionAsked, answer: Answer) -> None:
        self._close(request)
        try:
            await self.answerable.reply(request.request_id, answer)
        except ConfigError as error:  # for instance "p" without a project: the question stays open
            self._open.insert(0, (request, ""))
            self._is_shown = True
            self.screen.prompt(f"  {escape_control_chars(str(error))}\n{answer_prompt(request)}")
        except RequestNotFound:  # it was answered elsewhere a moment ago
            pass

    async def _recover(self, request: RecoveryAsked, words: str) -> None:
        way = _RECOVERIES.get(words.lower())
        try:
            if way is not None:
                await self.answerable.recover(request.request_id, way)
            elif words:
                await self.answerable.recover(request.request_id, "switch", model=words)
            else:
                self.screen.prompt(answer_prompt(request))
        except ConfigError as error:  # no such model, or no key for it: the question stays open
            self.screen.prompt(f"  {escape_control_chars(str(error))}\n{answer_prompt(request)}")
        except RequestNotFound:  # it was answered elsewhere a moment ago
            pass

    async def _reject_open_question(self) -> None:
        request = self._open[0][0]
        if isinstance(request, PermissionAsked):
            await self._reply(request, _KEYBOARD_CLOSED)
            return
        self._close(request)
        with suppress(RequestNotFound):
            if isinstance(request, QuestionAsked):
                await self.answerable.answer(request.request_id)
            else:
                await self.answerable.recover(request.request_id, "stop")

    def _close(self, request: OpenQuestion) -> None:
        """Remove a question that is being answered; the next one is shown when the event of the answer arrives."""
        self._open = [(other, text) for other, text in self._open if other is not request]
        self._is_shown = False


@attrs.define(eq=False, kw_only=True)
class TurnDialogue(Dialogue):
    """The dialogue about a turn of this process: other lines go to the model."""

    turn: Turn

    async def handle_line(self, line: str) -> None:
        """Send a line to the model; Enter alone, during the wait before a retry, ends that. A checkpoint."""
        await trio.lowlevel.checkpoint()
        if not line.strip():
            self.turn.skip_wait()
            return
        try:
            self.turn.steer(line)
        except TurnOver:
            self.screen.add_lines("  (the turn has ended: it will not be read)\n")
        else:
            self.screen.add_lines("  (the model will read this before its next step)\n")
