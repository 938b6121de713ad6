"""The open questions of a session, one after another, and the keys that answer them.

A question never takes the focus. A letter answers it only if the composer is empty, and if no key has come for a while
before the question was shown, nor since. Tab moves to a line for the answer. Enter in the composer and pasted text never
answer anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

from engine.cli.chat.editor.text_buffer import TextBuffer
from engine.cli.terminal.terminal_text import Symbols
from engine.cli.turn.question_prompts import (
    MAX_OFFERS,
    OpenQuestion,
    answer_prompt,
    parse_answer,
    permission_detail,
    permission_question,
    recovery_question,
    requester_line,
    tool_question,
)
from engine.core import events as ev
from engine.core.ids import CallId, SessionId

QUIET_SECONDS: Final = 0.7
_LETTERS: Final = frozenset("yoapnr")


@attrs.define(eq=False)
class QuestionQueue:
    """The questions.

    Attributes:
        answer_line: what is typed as an answer, while the user is there.
        is_focused: the keys go to the answer.
    """

    symbols: Symbols
    answer_line: TextBuffer = attrs.field(factory=TextBuffer, init=False)
    is_focused: bool = attrs.field(default=False, init=False)
    _open: list[OpenQuestion] = attrs.field(factory=list[OpenQuestion], init=False)
    _count: int = attrs.field(default=0, init=False)
    _accepts_letters: bool = attrs.field(default=False, init=False)
    _shown: str = attrs.field(default="", init=False)
    _answered: set[str] = attrs.field(factory=set[str], init=False)
    _arguments: dict[CallId, str] = attrs.field(factory=dict[CallId, str], init=False)
    _task_arguments: dict[SessionId, str] = attrs.field(factory=dict[SessionId, str], init=False)

    @property
    def current(self) -> OpenQuestion | None:
        """The question that is shown."""
        return self._open[0] if self._open else None

    @property
    def waiting(self) -> int:
        """How many there are."""
        return len(self._open)

    def feed(self, event: ev.Durable | ev.Live) -> str:
        """Follow the session; return a note about a question that was settled."""
        match event:
            case ev.CallQueued():
                self._arguments[event.call_id] = event.arguments
            case ev.TurnStarted():
                task = "" if event.call_id is None else self._arguments.get(event.call_id, "")
                self._task_arguments[event.session_id] = task
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

    def show_next(self, *, is_quiet: bool) -> list[str]:
        """Return the text of the current question, if it has not been shown. *is_quiet*: nothing was typed of late."""
        request = self.current
        if request is None or request.request_id == self._shown:
            return []
        self._shown = request.request_id
        self._accepts_letters = is_quiet
        self.is_focused = False
        self.answer_line.clear()
        text = self._text(request) + requester_line(request, self._task_arguments.get(request.session_id, ""))
        return text.splitlines()

    def note_key(self) -> None:
        """Note that a key has come: from now on letters are text."""
        self._accepts_letters = False

    def letter_answer(self, letter: str) -> str | None:
        """Return the answer that a single letter stands for, if it may answer now."""
        request = self.current
        if request is None or not self._accepts_letters or request.request_id in self._answered:
            return None
        return letter if _is_letter_answer(letter, request) else None

    def note_answer(self, request: OpenQuestion) -> None:
        """Note that the answer is on its way."""
        self._answered.add(request.request_id)
        self.is_focused = False
        self.answer_line.clear()

    def reopen(self, request_id: str) -> None:
        """The answer was refused: the question waits again."""
        self._answered.discard(request_id)

    def choice_rows(self) -> list[str]:
        """Return the rows that say how to answer."""
        request = self.current
        if request is None or request.request_id in self._answered:
            return []
        counter = f"1 of {self.waiting}: " if self.waiting > 1 else ""
        rows = [f"{counter}{row}" for row in _choices(request)]
        if not self.is_focused and not self._accepts_letters:
            rows.append("Tab: answer")
        elif isinstance(request, ev.QuestionAsked) and not self.is_focused:
            rows.append("Tab: answer in words")
        return rows

    def accepts(self, line: str) -> bool:
        """Return whether *line* is an answer to the current question."""
        request = self.current
        match request:
            case None:
                return False
            case ev.PermissionAsked():
                return parse_answer(line, request) is not None
            case ev.RecoveryAsked():
                return bool(line.strip())
            case ev.QuestionAsked():
                return True

    def _settle(self, event: ev.PermissionAnswered | ev.QuestionAnswered | ev.RecoveryAnswered) -> str:
        request = next((each for each in self._open if each.request_id == event.request_id), None)
        self._open = [each for each in self._open if each.request_id != event.request_id]
        self._answered.discard(event.request_id)
        if request is None or event.request_id != self._shown:
            return ""
        self.is_focused = False
        how = event.outcome if isinstance(event, ev.QuestionAnswered) else event.answer
        by = f" by {event.by}" if event.by else ""
        return f"{_SETTLED.get(how, how)}{by}"

    def _text(self, request: OpenQuestion) -> str:
        match request:
            case ev.PermissionAsked():
                detail = permission_detail(request, self._arguments.get(request.call_id, ""))
                return permission_question(request, detail, self.symbols)
            case ev.RecoveryAsked():
                return recovery_question(request, self.symbols)
            case ev.QuestionAsked():
                return tool_question(request, self.symbols)


_SETTLED: Final = {
    "once": "Allowed once.",
    "always": "Always allowed.",
    "reject": "Denied.",
    "withdrawn": "The question was withdrawn.",
    "expired": "The question expired.",
}


def _choices(request: OpenQuestion) -> list[str]:
    """Return the choices, one for each row."""
    if not isinstance(request, ev.PermissionAsked):
        return [answer_prompt(request).strip().removesuffix(":")]
    rows = ["[y] Yes, once"]
    for number, offer in enumerate(request.offers[:MAX_OFFERS], 1):
        suffix = str(number) if len(request.offers) > 1 else ""
        rows.append(f"[a{suffix}] Yes, always in this session: {offer.text}")
        rows.append(f"[p{suffix}] Yes, always in this project: {offer.text}")
    return [*rows, "[n] No, and stop"]


def _is_letter_answer(letter: str, request: OpenQuestion) -> bool:
    """Return whether a single letter answers *request*."""
    match request:
        case ev.PermissionAsked():
            return letter in _LETTERS and parse_answer(letter, request) is not None
        case ev.QuestionAsked():
            is_number = letter.isascii() and letter.isdigit() and 0 < int(letter) <= len(request.choices)
            return is_number and not request.several
        case ev.RecoveryAsked():
            return letter in {"w", "s"}
