"""The open questions of a session, one after another, and what keys do at them.

A question never takes the focus: `AnswerGuard` says when a key may answer. Tab moves to it on purpose. Questions of tools
and about failed requests may be answered in words; those are typed into a line of their own, so that the draft of the
message stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import attrs

from engine.cli.chat.editor.text_buffer import TextBuffer
from engine.cli.chat.machine import effects as do
from engine.cli.problems.surroundings import Surroundings
from engine.cli.questions import permission_answers as pa
from engine.cli.questions.answer_guard import QUIET_SECONDS
from engine.cli.questions.open_questions import OpenQuestions, ShownQuestion
from engine.cli.questions.permission_view import PermissionView
from engine.cli.questions.question_keys import TAB, Focused, Pending, QuestionKeys, Typed
from engine.cli.questions.question_prompts import (
    labelled,
    numbered_choices,
    parse_choices,
    parse_recovery,
    settled_line,
)
from engine.cli.terminal.terminal_text import Symbols
from engine.core import events as ev
from engine.core.ids import RequestId
from engine.journal.state import OpenQuestion


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
    _open: OpenQuestions = attrs.field(factory=OpenQuestions, init=False)
    _shown: RequestId | None = attrs.field(default=None, init=False)
    _answering: set[RequestId] = attrs.field(factory=set[RequestId], init=False)
    _shown_at: float = attrs.field(default=0.0, init=False)
    _has_printed_choices: bool = attrs.field(default=False, init=False)
    _pending: str = attrs.field(default="", init=False)

    @property
    def current(self) -> OpenQuestion | None:
        """The question that is shown, unless its answer is on its way."""
        question = self._question
        return None if question is None else question.request

    @property
    def _question(self) -> ShownQuestion | None:
        question = self._open.first if self._open else None
        return None if question is None or question.id in self._answering else question

    @property
    def has_focus(self) -> bool:
        """Whether keys answer the question, and not the message."""
        return self.current is not None and self._keys.guard.has_focus

    # -- the session -----------------------------------------------------------------------------

    def feed(self, event: ev.Durable | ev.Live) -> str:
        """Follow the session; return a remark about a question that was settled."""
        self._open.feed(event)
        if isinstance(event, ev.PermissionAnswered | ev.QuestionAnswered | ev.RecoveryAnswered):
            return self._settle(event)
        return ""

    def replace(self, questions: Sequence[OpenQuestion]) -> None:
        """Take the questions that are open now."""
        self._open.replace(questions)
        self._answering &= {question.request_id for question in questions}

    def show_next(self, now: float, *, has_draft: bool, has_little_room: bool = False) -> tuple[list[str], str]:
        """Return the lines of the current question, if it was not shown, and keys that turn out to be text.

        *has_little_room*: its choices are among the lines, and not drawn.
        """
        question = self._question
        if not self._open:
            self._open.restart_count()
            return [], self._keys.close()
        if question is None or question.id == self._shown:
            return [], ""
        self._shown, self._pending, self.is_typing = question.id, "", False
        self._shown_at = now
        self.answer_line.clear()
        rest = ""
        if question.view is None:
            self._keys.guard.paint(now, has_draft=has_draft)
        else:
            rest = self._keys.paint(question.view, now, same=self._same(question.view), has_draft=has_draft)
        lines = self._open.lines_of_first(self.symbols, self.surroundings)
        if self.is_numbered:
            lines = [*labelled(lines, self.symbols), *self._numbered_choices(question)]
        elif has_little_room:
            lines = [*lines, *self._choices(question)]
        self._has_printed_choices = has_little_room
        return lines, rest

    # -- keys ------------------------------------------------------------------------------------

    def press(self, text: str, now: float, *, has_draft: bool) -> QuestionOutcome:
        """Return what typed text does; most is a part of the message."""
        question, guard = self._question, self._keys.guard
        # Several characters at once are no single key.
        if question is None or (len(text) > 1 and not guard.has_focus):
            return Typed(self.note_typed(now) + text)
        if question.view is not None:
            return self._permission_key(question.view, text, now, has_draft=has_draft)
        if guard.allows(now, has_draft=has_draft) and (answer := _letter_answer(text, question.request)) is not None:
            guard.note_answer(now)
            self._answering.add(question.id)
            return answer
        guard.note_typed(now)
        return Typed(text)

    def note_typed(self, now: float) -> str:
        """Note a key or a paste that is no answer; return keys that turn out to be text."""
        self._pending = ""
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
        question, text = self._question, line.strip()
        if question is None or not text or now < self._shown_at + QUIET_SECONDS:
            return None
        if self.is_typing:
            self.is_typing = False
            return self.answer_in_words(text)
        if question.view is None:
            answer = _number_answer(text, question.request)
            if answer is not None:
                self._answering.add(question.id)
            return answer
        if " " in text:
            return None
        outcome = pa.parse_answer(text, question.view, same=self._same(question.view), is_numbered=True)
        return None if pa.is_feedback(outcome) else self._outcome(question.view, outcome)

    def answer_in_words(self, line: str) -> QuestionOutcome:
        """Answer the question with a text."""
        question = self._question
        if question is None:
            return Hint("There is no question")
        if question.view is not None:
            return self._outcome(question.view, pa.parse_feedback(line))
        answer = _answer_in_words(line, question.request)
        if answer is None:
            return Hint("")
        self._answering.add(question.id)
        return answer

    def reopen(self, request_id: RequestId) -> None:
        """The answer was refused: the question waits again."""
        self._answering.discard(request_id)
        self._shown = None

    # -- what is shown ---------------------------------------------------------------------------

    def choice_rows(self, *, has_draft: bool = False) -> list[str]:
        """Return the rows that say how to answer. *has_draft*: a message is being written."""
        question = self._question
        if question is None or self.is_typing:
            return []
        rows = [] if self._has_printed_choices else self._choices(question)
        if self._pending:
            rows.append(f"  typed: {self._pending}")
        elif self.has_focus:
            rows.append("  A key answers. Tab: back to the message")
        elif not self._keys.guard.allows(math.inf, has_draft=has_draft):
            rows.append("  Keys go to the message. Tab: answer")
        return rows

    def _choices(self, question: ShownQuestion) -> list[str]:
        return _choice_rows(question.request) if question.view is None else self._open.choices_of(question.view)

    def _numbered_choices(self, question: ShownQuestion) -> list[str]:
        if question.view is not None:
            return self._open.choices_of(question.view, is_numbered=True)
        if isinstance(question.request, ev.RecoveryAsked):
            return ["  1. Wait and retry", "  2. Stop", "  Another model: /answer NAME"]
        assert isinstance(question.request, ev.QuestionAsked)
        numbers = "numbers such as 1 2, or " if question.request.several else "a number, or "
        return [f"  Type {numbers if question.request.choices else ''}/answer and a text. Other lines are messages."]

    def _settle(self, event: ev.PermissionAnswered | ev.QuestionAnswered | ev.RecoveryAnswered) -> str:
        self._answering.discard(event.request_id)
        if event.request_id != self._shown:
            return ""
        self.is_typing = False
        # The answer to a permission is among the lines of the turn.
        return "" if isinstance(event, ev.PermissionAnswered) else settled_line(event).strip()

    def _permission_key(self, view: PermissionView, text: str, now: float, *, has_draft: bool) -> QuestionOutcome:
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
                    return self._outcome(view, result)
        return outcome

    def _outcome(self, view: PermissionView, outcome: pa.PermissionOutcome) -> QuestionOutcome:
        match outcome:
            case pa.Reply():
                same = [question.id for question in self._open.same(view)] if outcome.to_same else []
                ids = tuple(dict.fromkeys((view.request.request_id, *same)))
                self._answering.update(ids)
                return do.ReplyPermission(ids, outcome.answer)
            case pa.AskFeedback():
                self.is_typing = True
                # Where the line for it is not drawn, only words say that it is waited for.
                return Hint("Type what to do instead." if self.is_numbered else "")
            case pa.ShowDetails():
                return Details(tuple(view.detail_lines(self.symbols)))
            case pa.AskAgain():
                return Hint(outcome.hint)

    def _same(self, view: PermissionView) -> int:
        return len(self._open.same(view))


def _number_answer(text: str, request: OpenQuestion) -> do.Answering | None:
    """Return the answer that a line with numbers gives."""
    if isinstance(request, ev.RecoveryAsked):
        return _letter_answer({"1": "w", "2": "s"}.get(text, ""), request)
    assert isinstance(request, ev.QuestionAsked)
    answers = numbered_choices(text, request)
    return do.AnswerTool(request.request_id, answers) if answers else None


def _letter_answer(letter: str, request: OpenQuestion) -> do.Answering | None:
    """Return the answer that a single letter gives to a question of a tool, or about a failed request."""
    if isinstance(request, ev.RecoveryAsked):
        return _answer_in_words(letter, request) if letter.lower() in ("w", "s") else None
    if isinstance(request, ev.QuestionAsked) and not request.several and len(letter) == 1:
        return _number_answer(letter, request)
    return None


def _answer_in_words(line: str, request: OpenQuestion) -> do.Answering | None:
    """Return the answer that a text gives to a question of a tool, or about a failed request; None: an empty text."""
    if isinstance(request, ev.QuestionAsked):
        return do.AnswerTool(request.request_id, parse_choices(line, request))
    recovery = parse_recovery(line)
    return None if recovery is None else do.Recover(request.request_id, *recovery)


def _choice_rows(request: OpenQuestion) -> list[str]:
    if isinstance(request, ev.RecoveryAsked):
        return ["  [w] Wait and retry", "  [s] Stop", "  Tab: type the name of another model"]
    assert isinstance(request, ev.QuestionAsked)
    if request.choices and not request.several:
        return [f"  [1-{len(request.choices)}] Choose. Tab: answer in words, or with an empty line to skip"]
    return ["  Tab: type the numbers, or an answer" if request.choices else "  Tab: type the answer"]
