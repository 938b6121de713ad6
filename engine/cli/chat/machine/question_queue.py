"""The open questions of a session, one after another, and what keys do at them.

A question never takes the focus: `AnswerGuard` says when a key may answer. Tab moves to it on purpose. Questions of tools
and about failed requests may be answered in words; those are typed into a line of their own, so that the draft of the
message stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, Literal, TypeAlias

import attrs

from engine.cli.chat.editor.text_buffer import TextBuffer
from engine.cli.chat.machine import effects as do
from engine.cli.problems.surroundings import Surroundings
from engine.cli.questions import permission_answers as pa
from engine.cli.questions.answer_guard import QUIET_SECONDS
from engine.cli.questions.permission_view import PermissionView, choice_lines
from engine.cli.questions.question_keys import TAB, Focused, Pending, QuestionKeys, Typed
from engine.cli.terminal.terminal_text import Symbols
from engine.cli.turn.question_prompts import parse_choices, recovery_question, settled_line, tool_question
from engine.core import events as ev
from engine.core.ids import CallId, RequestId, SessionId
from engine.journal.state import OpenQuestion

_RECOVERIES: Final[dict[str, Literal["wait", "stop"]]] = {"w": "wait", "wait": "wait", "s": "stop", "stop": "stop"}


@attrs.frozen
class Hint:
    """A remark about what was typed."""

    text: str


@attrs.frozen
class Details:
    """Lines to print: the question in full."""

    lines: tuple[str, ...]


QuestionOutcome: TypeAlias = Typed | Hint | Details | do.Answering


@attrs.define(eq=False)
class QuestionQueue:
    """The questions.

    Attributes:
        is_numbered: the choices have numbers, for whole lines.
        surroundings: what the words about a failure need besides its facts.
        answer_line: what is typed as an answer in words.
        is_typing: the keys go to that line.
    """

    symbols: Symbols
    is_numbered: bool = False
    surroundings: Surroundings = Surroundings()
    answer_line: TextBuffer = attrs.field(factory=TextBuffer, init=False)
    is_typing: bool = attrs.field(default=False, init=False)
    _keys: QuestionKeys = attrs.field(factory=QuestionKeys, init=False)
    _open: list[OpenQuestion] = attrs.field(factory=list[OpenQuestion], init=False)
    _shown: RequestId | None = attrs.field(default=None, init=False)
    _answering: set[RequestId] = attrs.field(factory=set[RequestId], init=False)
    _shown_at: float = attrs.field(default=0.0, init=False)
    _has_printed_choices: bool = attrs.field(default=False, init=False)
    _pending: str = attrs.field(default="", init=False)
    _arguments: dict[CallId, str] = attrs.field(factory=dict[CallId, str], init=False)
    _task_arguments: dict[SessionId, str] = attrs.field(factory=dict[SessionId, str], init=False)

    @property
    def current(self) -> OpenQuestion | None:
        """The question that is shown, unless its answer is on its way."""
        request = self._open[0] if self._open else None
        return None if request is None or request.request_id in self._answering else request

    @property
    def has_focus(self) -> bool:
        """Whether keys answer the question, and not the message."""
        return self.current is not None and self._keys.guard.has_focus

    # -- the session -----------------------------------------------------------------------------

    def feed(self, event: ev.Durable | ev.Live) -> str:
        """Follow the session; return a remark about a question that was settled."""
        match event:
            case ev.CallQueued():
                self._arguments[event.call_id] = event.arguments
            case ev.TurnStarted():
                task = "" if event.call_id is None else self._arguments.get(event.call_id, "")
                self._task_arguments[event.session_id] = task
            case ev.TurnEnded():
                self._task_arguments.pop(event.session_id, None)
                if len(event.path) <= 1:
                    # What a call has written may be long, and a chat may last for days.
                    self._arguments.clear()
            case ev.PermissionAsked() | ev.QuestionAsked() | ev.RecoveryAsked():
                self._open.append(event)
            case ev.PermissionAnswered() | ev.QuestionAnswered() | ev.RecoveryAnswered():
                return self._settle(event)
            case _:
                pass
        return ""

    def replace(self, questions: Sequence[OpenQuestion]) -> None:
        """Take the questions that are open now."""
        self._open = list(questions)
        self._answering &= {question.request_id for question in questions}

    def show_next(self, now: float, *, has_draft: bool, has_little_room: bool = False) -> tuple[list[str], str]:
        """Return the lines of the current question, if it was not shown, and keys that turn out to be text.

        *has_little_room*: its choices are among the lines, and not drawn.
        """
        request = self.current
        if request is None:
            return [], self._keys.close() if not self._open else ""
        if request.request_id == self._shown:
            return [], ""
        self._shown, self._pending, self.is_typing = request.request_id, "", False
        self._shown_at = now
        self.answer_line.clear()
        view = self._view(request)
        rest = self._keys.paint(view, now, same=self._same(view), has_draft=has_draft) if view is not None else ""
        if view is None:
            self._keys.guard.paint(now, has_draft=has_draft)
        lines = self._lines(request, view)
        if self.is_numbered:
            lines = [
                f"Question: {lines[0].removeprefix(f'{self.symbols.running} ')}",
                *lines[1:],
                *self._numbered_choices(request, view),
            ]
        elif has_little_room:
            lines = [*lines, *self._choices(request)]
        self._has_printed_choices = has_little_room
        return lines, rest

    # -- keys ------------------------------------------------------------------------------------

    def press(self, text: str, now: float, *, has_draft: bool) -> QuestionOutcome:
        """Return what typed text does; most is a part of the message."""
        request, guard = self.current, self._keys.guard
        view = None if request is None else self._view(request)
        # Several characters at once are no single key.
        if request is None or (len(text) > 1 and not guard.has_focus):
            guard.note_typed(now)
            return Typed(text)
        if view is not None:
            return self._permission_key(request, view, text, now, has_draft=has_draft)
        if guard.allows(now, has_draft=has_draft) and (answer := _letter_answer(text, request)) is not None:
            guard.note_answer(now)
            self._answering.add(request.request_id)
            return answer
        guard.note_typed(now)
        return Typed(text)

    def note_typed(self, now: float) -> str:
        """Note a key or a paste that is no answer; return keys that turn out to be text."""
        return self._keys.paste("", now).text

    def note_sent(self, now: float) -> None:
        """Note that the message was sent."""
        self._keys.guard.note_sent(now)

    def toggle_focus(self, now: float) -> bool:
        """Handle Tab; return whether there is a question to move to."""
        request = self.current
        if request is None:
            return False
        if isinstance(request, ev.PermissionAsked):
            outcome = self._keys.press(TAB, now, has_draft=False)
            assert isinstance(outcome, Focused)
        else:
            self.is_typing = True
        return True

    def leave(self) -> None:
        """Go back to the message."""
        self._keys.guard.blur()
        self.is_typing = False

    def enter_answer(self) -> QuestionOutcome:
        """Answer with what was typed as an answer."""
        line = self.answer_line.text
        self.is_typing = False
        self.answer_line.clear()
        return self.answer_in_words(line)

    def choose_line(self, line: str, now: float) -> QuestionOutcome | None:
        """Return what a whole line answers, where keys are not seen; None: it is a message.

        Only a number or a single word chooses: a message that is sent while a question appears answers nothing.
        """
        request, text = self.current, line.strip()
        if request is None or not text or now < self._shown_at + QUIET_SECONDS:
            return None
        if self.is_typing:
            self.is_typing = False
            return self.answer_in_words(text)
        if not isinstance(request, ev.PermissionAsked):
            answer = _number_answer(text, request)
            if answer is not None:
                self._answering.add(request.request_id)
            return answer
        if " " in text:
            return None
        view = self._of_request(request)
        outcome = pa.parse_answer(text, view, same=self._same(view), is_numbered=True)
        return None if pa.is_feedback(outcome) else self._outcome(request, view, outcome)

    def answer_in_words(self, line: str) -> QuestionOutcome:
        """Answer the question with a text."""
        request = self.current
        match request:
            case ev.PermissionAsked():
                outcome = pa.parse_feedback(line)
                return self._outcome(request, self._of_request(request), outcome)
            case ev.QuestionAsked():
                self._answering.add(request.request_id)
                return do.AnswerTool(request.request_id, parse_choices(line, request))
            case ev.RecoveryAsked() if line.strip():
                self._answering.add(request.request_id)
                return _letter_answer(line.strip(), request) or do.Recover(request.request_id, "switch", line.strip())
            case _:
                return Hint("There is no question" if request is None else "")

    def reopen(self, request_id: RequestId) -> None:
        """The answer was refused: the question waits again."""
        self._answering.discard(request_id)
        self._shown = None

    # -- what is shown ---------------------------------------------------------------------------

    def choice_rows(self, *, has_draft: bool = False) -> list[str]:
        """Return the rows that say how to answer. *has_draft*: a message is being written."""
        request = self.current
        if request is None or self.is_typing:
            return []
        rows = [] if self._has_printed_choices else self._choices(request)
        if self._pending:
            rows.append(f"  typed: {self._pending}")
        elif self.has_focus:
            rows.append("  A key answers. Tab: back to the message")
        elif not self._keys.guard.allows(math.inf, has_draft=has_draft):
            rows.append("  Keys go to the message. Tab: answer")
        return rows

    def _choices(self, request: OpenQuestion) -> list[str]:
        if isinstance(request, ev.PermissionAsked):
            view = self._of_request(request)
            return choice_lines(view.choices(same=self._same(view)))
        return _choice_rows(request)

    def _lines(self, request: OpenQuestion, view: PermissionView | None) -> list[str]:
        if view is not None:
            return view.lines(self.symbols, position=(1, len(self._open)))
        assert not isinstance(request, ev.PermissionAsked)
        if isinstance(request, ev.RecoveryAsked):
            return recovery_question(request, self.symbols, self.surroundings).splitlines()
        return tool_question(request, self.symbols).splitlines()

    def _numbered_choices(self, request: OpenQuestion, view: PermissionView | None) -> list[str]:
        if view is not None:
            return choice_lines(view.choices(same=self._same(view)), is_numbered=True)
        if isinstance(request, ev.RecoveryAsked):
            return ["  1. Wait and retry", "  2. Stop", "  Another model: /answer NAME"]
        numbers = "a number, or " if isinstance(request, ev.QuestionAsked) and request.choices else ""
        return [f"  Type {numbers}/answer and a text. Other lines are messages."]

    def _settle(self, event: ev.PermissionAnswered | ev.QuestionAnswered | ev.RecoveryAnswered) -> str:
        self._answering.discard(event.request_id)
        self._open = [each for each in self._open if each.request_id != event.request_id]
        if event.request_id != self._shown:
            return ""
        self.is_typing = False
        # The answer to a permission is among the lines of the turn.
        return "" if isinstance(event, ev.PermissionAnswered) else settled_line(event).strip()

    def _permission_key(
        self, request: OpenQuestion, view: PermissionView, text: str, now: float, *, has_draft: bool
    ) -> QuestionOutcome:
        assert isinstance(request, ev.PermissionAsked)
        outcome: QuestionOutcome = Hint("")
        self._pending = ""
        for index, key in enumerate(text):
            result = self._keys.press(key, now, has_draft=has_draft)
            match result:
                case Typed():
                    rest = text[index + 1 :]
                    self._keys.paste(rest, now)
                    return Typed(result.text + rest)
                case Pending():
                    self._pending = result.keys
                case Focused():
                    pass
                case _:
                    return self._outcome(request, view, result)
        return outcome

    def _outcome(
        self, request: ev.PermissionAsked, view: PermissionView, outcome: pa.PermissionOutcome
    ) -> QuestionOutcome:
        match outcome:
            case pa.Reply():
                ids = self._same_ids(view) if outcome.to_same else (request.request_id,)
                self._answering.update(ids)
                return do.ReplyPermission(ids, outcome.answer)
            case pa.AskFeedback():
                self.is_typing = True
                return Hint("")
            case pa.ShowDetails():
                return Details(tuple(view.detail_lines(self.symbols)))
            case pa.AskAgain():
                return Hint(outcome.hint)

    def _view(self, request: OpenQuestion) -> PermissionView | None:
        return self._of_request(request) if isinstance(request, ev.PermissionAsked) else None

    def _of_request(self, request: ev.PermissionAsked) -> PermissionView:
        return PermissionView.of(
            request,
            arguments=self._arguments.get(request.call_id, ""),
            task_arguments=self._task_arguments.get(request.session_id, ""),
        )

    def _same_ids(self, view: PermissionView) -> tuple[RequestId, ...]:
        asked = [each for each in self._open if isinstance(each, ev.PermissionAsked)]
        others = [each.request_id for each in asked if self._of_request(each).is_same(view)]
        return tuple(dict.fromkeys((view.request.request_id, *others)))

    def _same(self, view: PermissionView) -> int:
        return len(self._same_ids(view))


def _number_answer(text: str, request: ev.QuestionAsked | ev.RecoveryAsked) -> do.Answering | None:
    """Return the answer that a line with numbers gives."""
    numbers = text.replace(",", " ").split()
    if not all(number.isascii() and number.isdigit() for number in numbers):
        return None
    if isinstance(request, ev.RecoveryAsked):
        return _letter_answer({"1": "w", "2": "s"}.get(text, ""), request)
    is_valid = all(0 < int(number) <= len(request.choices) for number in numbers)
    if not is_valid or (len(numbers) > 1 and not request.several):
        return None
    return do.AnswerTool(request.request_id, parse_choices(text, request))


def _letter_answer(letter: str, request: OpenQuestion) -> do.Answering | None:
    """Return the answer that a single letter gives to a question of a tool, or about a failed request."""
    if isinstance(request, ev.RecoveryAsked):
        how = _RECOVERIES.get(letter.lower())
        return None if how is None else do.Recover(request.request_id, how)
    if isinstance(request, ev.QuestionAsked) and letter.isascii() and letter.isdigit() and not request.several:
        number = int(letter)
        if 0 < number <= len(request.choices):
            return do.AnswerTool(request.request_id, (request.choices[number - 1].label,))
    return None


def _choice_rows(request: ev.QuestionAsked | ev.RecoveryAsked) -> list[str]:
    if isinstance(request, ev.RecoveryAsked):
        return ["  [w] Wait and retry", "  [s] Stop", "  Tab: type the name of another model"]
    if request.choices and not request.several:
        return [f"  [1-{len(request.choices)}] Choose. Tab: answer in words, or with an empty line to skip"]
    return ["  Tab: type the numbers, or an answer" if request.choices else "  Tab: type the answer"]
