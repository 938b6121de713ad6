"""The open questions of a session and its sub-agents, the oldest first: one of them at a time is on the screen.

`engine run` and the chat share them, with `AnswerGuard` and the parsing of answers. What differs is how keys come: as whole
lines that the terminal has edited, or one after another.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs

from engine.cli.problems.surroundings import Surroundings
from engine.cli.questions.permission_view import PermissionView, choice_lines
from engine.cli.questions.question_prompts import (
    recovery_question,
    requester_lines,
    tool_question,
)
from engine.cli.terminal.terminal_text import Symbols
from engine.core import events as ev
from engine.core.ids import CallId, RequestId, SessionId
from engine.journal.state import OpenQuestion, Resync


@attrs.frozen(eq=False)
class ShownQuestion:
    """A question, with what a user should know about it.

    Attributes:
        request: the question.
        view: for a permission: its lines and choices.
        task_arguments: for a sub-agent's question, the arguments of the call that started it.
    """

    request: OpenQuestion
    view: PermissionView | None
    task_arguments: str

    @property
    def id(self) -> RequestId:
        """The question's id."""
        return self.request.request_id


@attrs.define(eq=False)
class OpenQuestions:
    """The questions. Nothing here is a checkpoint."""

    _open: list[ShownQuestion] = attrs.field(factory=list[ShownQuestion], init=False)
    # Of those that were open at the same time.
    _settled_count: int = attrs.field(default=0, init=False)
    _arguments: dict[CallId, str] = attrs.field(factory=dict[CallId, str], init=False)
    # For sub-agents: the arguments of the calls that started them.
    _task_arguments: dict[SessionId, str] = attrs.field(factory=dict[SessionId, str], init=False)

    def __len__(self) -> int:
        """Return how many are open."""
        return len(self._open)

    @property
    def first(self) -> ShownQuestion:
        """The one to be answered now. There must be one."""
        return self._open[0]

    @property
    def ids(self) -> Collection[RequestId]:
        """The ids of all."""
        return [question.id for question in self._open]

    def feed(self, event: ev.Durable | ev.Live | Resync) -> None:
        """Take from *event* what concerns questions, and what they quote of calls."""
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
            case ev.PermissionAsked() | ev.RecoveryAsked() | ev.QuestionAsked():
                self.add(event)
            case ev.PermissionAnswered() | ev.RecoveryAnswered() | ev.QuestionAnswered():
                self.remove(event.request_id)
            case _:
                pass

    def add(self, request: OpenQuestion) -> None:
        """Add a question."""
        task_arguments = self._task_arguments.get(request.session_id, "")
        view = None
        if isinstance(request, ev.PermissionAsked):
            arguments = self._arguments.get(request.call_id, "")
            view = PermissionView.of(request, arguments=arguments, task_arguments=task_arguments)
        self._open.append(ShownQuestion(request, view, task_arguments))

    def remove(self, request_id: RequestId) -> None:
        """Remove a question that is settled, if it is here."""
        kept = [question for question in self._open if question.id != request_id]
        self._settled_count += len(self._open) - len(kept)
        self._open = kept

    def replace(self, requests: Sequence[OpenQuestion]) -> None:
        """Take the questions that are open now."""
        for gone in set(self.ids) - {request.request_id for request in requests}:
            self.remove(gone)
        known = set(self.ids)
        for request in requests:
            if request.request_id not in known:
                self.add(request)

    def put_back(self, question: ShownQuestion) -> None:
        """Make a question the first one again: its answer was refused."""
        self._open.insert(0, question)
        self._settled_count -= 1

    def restart_count(self) -> None:
        """Count from one again: no question is open any more."""
        self._settled_count = 0

    def same(self, view: PermissionView) -> list[ShownQuestion]:
        """Return the questions of the pattern of *view*, its own among them."""
        return [other for other in self._open if other.view is not None and view.is_same(other.view)]

    def lines_of_first(self, symbols: Symbols, surroundings: Surroundings | None = None) -> list[str]:
        """Return the first question as lines; *surroundings* are for the words about a failure."""
        question = self.first
        request = question.request
        if question.view is not None:
            position = (self._settled_count + 1, self._settled_count + len(self._open))
            return question.view.lines(symbols, position=position)
        assert not isinstance(request, ev.PermissionAsked)
        if isinstance(request, ev.RecoveryAsked):
            lines = recovery_question(request, symbols, surroundings)
        else:
            lines = tool_question(request, symbols)
        return [*lines, *requester_lines(request, question.task_arguments)]

    def choices_of(self, view: PermissionView, *, is_numbered: bool = False) -> list[str]:
        """Return the choices of a question for permission, one for each line."""
        return choice_lines(view.choices(same=len(self.same(view))), is_numbered=is_numbered)
