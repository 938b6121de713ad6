"""The open questions of a session and its sub-agents, the oldest first: one of them at a time is on the screen."""

from __future__ import annotations

from collections.abc import Collection

import attrs

from engine.cli.problems.surroundings import Surroundings
from engine.cli.questions.permission_view import PermissionView
from engine.cli.terminal.terminal_text import Symbols
from engine.cli.turn.question_prompts import (
    OpenQuestion,
    permission_text,
    recovery_question,
    requester_line,
    tool_question,
)
from engine.core.events import CallQueued, PermissionAsked, RecoveryAsked, TurnStarted
from engine.core.ids import CallId, RequestId, SessionId


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

    def note_call(self, event: CallQueued | TurnStarted) -> None:
        """Remember what a question about a call or of a sub-agent quotes."""
        if isinstance(event, CallQueued):
            self._arguments[event.call_id] = event.arguments
        else:
            self._task_arguments[event.session_id] = (
                "" if event.call_id is None else self._arguments.get(event.call_id, "")
            )

    def add(self, request: OpenQuestion) -> None:
        """Add a question."""
        task_arguments = self._task_arguments.get(request.session_id, "")
        view = None
        if isinstance(request, PermissionAsked):
            arguments = self._arguments.get(request.call_id, "")
            view = PermissionView.of(request, arguments=arguments, task_arguments=task_arguments)
        self._open.append(ShownQuestion(request, view, task_arguments))

    def remove(self, request_id: RequestId) -> None:
        """Remove a question that is settled, if it is here."""
        kept = [question for question in self._open if question.id != request_id]
        self._settled_count += len(self._open) - len(kept)
        self._open = kept

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

    def text_of_first(self, symbols: Symbols, *, is_numbered: bool, surroundings: Surroundings | None = None) -> str:
        """Return the first question as lines, with its choices; *surroundings* are for the words about a failure."""
        question = self.first
        request = question.request
        if question.view is not None:
            return permission_text(
                question.view,
                symbols,
                position=(self._settled_count + 1, self._settled_count + len(self._open)),
                same=len(self.same(question.view)),
                is_numbered=is_numbered,
            )
        assert not isinstance(request, PermissionAsked)
        if isinstance(request, RecoveryAsked):
            text = recovery_question(request, symbols, surroundings)
        else:
            text = tool_question(request, symbols)
        return text + requester_line(request, question.task_arguments)
