"""Open questions: each is a `Deferred` that belongs to the task which asks.

A call asks for a permission, or asks the user something; the loop asks how to go on when a model's host has failed for
good. Settling the Deferred and appending the event of the answer is one synchronous stretch, so clients and the asking
task can't disagree. A question whose task is cancelled is withdrawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Literal

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core import events as ev
from engine.core.deferred import Deferred
from engine.core.errors import ConfigError, RequestNotFound
from engine.core.foreign_calls import call_foreign_now
from engine.core.ids import RequestId
from engine.core.permission_types import Allowance, Approver, Judgement, PermissionQuery
from engine.core.protocols import Model
from engine.core.value_base import Value
from engine.journal.log import TurnJournal
from engine.journal.state import OpenQuestion
from engine.tools.tool_context import UserAnswers


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PermissionAnswer(Value):
    """How a permission was answered.

    Attributes:
        kind: the answer.
        feedback: the user's words with a rejection.
        offer: of an "always", which of the offers it takes.
        scope: of an "always", how far it reaches.
        seconds: of an "always", how long at most.
        source: the rules, if they answer instead of the user because they allow it by now.
        by: which client of the host answered; empty: the host itself.
    """

    kind: ev.AnswerKind
    feedback: str = ""
    offer: int = 0
    scope: ev.GrantScope = "session"
    seconds: float | None = None
    source: str = ""
    by: str = ""


# How to go on after a failed request; with "switch", the model to go on with.
RecoveryChoice = tuple[ev.RecoveryKind, Model | None]
Unanswered = Literal["withdrawn", "expired"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Permission(Value):
    event: ev.PermissionAsked
    query: PermissionQuery
    journal: TurnJournal
    by_rule: bool
    answer: Deferred[PermissionAnswer] = attrs.field(factory=Deferred[PermissionAnswer])


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _UserQuestion(Value):
    event: ev.QuestionAsked
    journal: TurnJournal
    answer: Deferred[UserAnswers] = attrs.field(factory=Deferred[UserAnswers])


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Recovery(Value):
    event: ev.RecoveryAsked
    journal: TurnJournal
    answer: Deferred[RecoveryChoice] = attrs.field(factory=Deferred[RecoveryChoice])


@attrs.define(eq=False, repr=False)
class Questions:
    """The open questions of a turn and of all turns below it."""

    approver: Approver
    # Those of the engine's other trees of sessions: a grant for the project may answer some of theirs.
    others: Callable[[], Iterable[Questions]] = lambda: ()
    _open: dict[RequestId, _Permission | _UserQuestion | _Recovery] = attrs.field(
        factory=dict[RequestId, _Permission | _UserQuestion | _Recovery], init=False
    )
    _shown: dict[RequestId, OpenQuestion] = attrs.field(factory=dict[RequestId, OpenQuestion], init=False)

    @property
    def events(self) -> tuple[OpenQuestion, ...]:
        """The events of the open questions, as clients have seen them, the oldest first."""
        return tuple(self._shown[request_id] for request_id in self._open if request_id in self._shown)

    def __len__(self) -> int:
        return len(self._open)

    async def ask(
        self,
        event: ev.PermissionAsked,
        query: PermissionQuery,
        journal: TurnJournal,
        *,
        timeout: float | None,
        by_rule: bool,
        on_cancel: Callable[[], None] = lambda: None,
    ) -> PermissionAnswer:
        """Ask for a permission, and return the answer. Always a checkpoint.

        If only a rule asks (*by_rule*), the rules answer the question themselves as soon as they allow it.

        If cancelled, *on_cancel* is called, then the question is withdrawn, with an event.
        """
        question = _Permission(event=event, query=query, journal=journal, by_rule=by_rule)
        if not await self._wait(question, timeout, on_cancel):
            return PermissionAnswer(kind="withdrawn")
        return question.answer.value

    async def ask_user(self, event: ev.QuestionAsked, journal: TurnJournal, *, timeout: float | None) -> UserAnswers:
        """Ask the user, and return the answers. Always a checkpoint; if cancelled, the question is withdrawn."""
        question = _UserQuestion(event=event, journal=journal)
        if not await self._wait(question, timeout, lambda: None):
            return "withdrawn", ()
        return question.answer.value

    async def ask_recovery(
        self, event: ev.RecoveryAsked, journal: TurnJournal, *, timeout: float | None
    ) -> RecoveryChoice:
        """Ask how to go on, and return the answer. Always a checkpoint; if cancelled, the question is withdrawn."""
        question = _Recovery(event=event, journal=journal)
        if not await self._wait(question, timeout, lambda: None):
            return "withdrawn", None
        return question.answer.value

    @enable_ki_protection
    def reply(self, request_id: RequestId, answer: PermissionAnswer) -> None:
        """Answer a permission. Raises `RequestNotFound` if it is not open (any more). Not a checkpoint.

        "Always" also releases the other open questions that the new grant covers, in all sessions of the engine;
        a rejection rejects the other open permissions of the same turn as well, with the same feedback: they belong
        to the same plan, and a user who has refused it should not be asked about each of its calls.
        Raises `ConfigError` for an offer that was not made; the question stays open.
        """
        question = self._open.get(request_id)
        if not isinstance(question, _Permission):
            raise RequestNotFound(f"no open permission has the id {request_id!r}")
        match answer.kind:
            case "always":
                self._allow(question, answer)
            case "reject":
                # A copy of the list: an answer takes its question out of the dict.
                self._answer_permission(question, answer)
                for other in self._permissions():
                    if other.journal is question.journal:
                        self._answer_permission(
                            other, attrs.evolve(answer, feedback=answer.feedback and _share_feedback(answer.feedback))
                        )
            case _:
                self._answer_permission(question, answer)

    @enable_ki_protection
    def release_allowed(self) -> None:
        """Answer the open permissions that the rules allow by now. Not a checkpoint."""
        # Not those that a hook asks about, or the detector of repetitions: the rules know nothing of their reason.
        for other in self._permissions():
            if other.by_rule:
                judgement: Judgement | None = None
                # If it fails, that question stays open: the answer that was given to another one counts.
                with suppress(Exception):
                    judgement = call_foreign_now("`judge` of the approver", self.approver.judge, other.query)
                if judgement is not None and judgement.verdict == "allow":
                    self._answer_permission(other, PermissionAnswer(kind="once", source=judgement.source))

    def _allow(self, question: _Permission, answer: PermissionAnswer) -> None:
        offers = question.event.offers
        # Checked here and not where the host's answer comes in: only the question knows its offers.
        if answer.offer >= len(offers):
            many = f"it has {len(offers)} of them" if offers else "it can be allowed only once"
            raise ConfigError(f"the question has no offer number {answer.offer}: {many}")
        allowed = Allowance(rights=offers[answer.offer].rights, scope=answer.scope, seconds=answer.seconds)
        # Granted first: if that raises, the question must still be open.
        call_foreign_now("`grant` of the approver", self.approver.grant, question.query, allowed)
        self._answer_permission(question, answer, allowed.rights)
        for questions in (self, *self.others()):
            questions.release_allowed()

    def _permissions(self) -> list[_Permission]:
        return [question for question in self._open.values() if isinstance(question, _Permission)]

    @enable_ki_protection
    def answer(self, request_id: RequestId, answers: UserAnswers, by: str = "") -> None:
        """Answer a question of a tool. Raises `RequestNotFound` if it is not open (any more). Not a checkpoint."""
        question = self._open.get(request_id)
        if not isinstance(question, _UserQuestion):
            raise RequestNotFound(f"no open question has the id {request_id!r}")
        self._answer_user(question, answers, by)

    @enable_ki_protection
    def recover(self, request_id: RequestId, choice: RecoveryChoice, by: str = "") -> None:
        """Answer how to go on. Raises `RequestNotFound` if that is not asked (any more). Not a checkpoint."""
        question = self._open.get(request_id)
        if not isinstance(question, _Recovery):
            raise RequestNotFound(f"no open question about a failed request has the id {request_id!r}")
        self._answer_recovery(question, choice, by)

    @enable_ki_protection
    def withdraw(self, journal: TurnJournal) -> None:
        """Withdraw the open questions of a turn that ends: a tool that shields itself would leave them open. Not a checkpoint."""
        # Sub-agents share this object, so the journal tells whose question it is.
        for question in list(self._open.values()):
            if question.journal is journal:
                self._drop(question, "withdrawn")

    @enable_ki_protection
    async def _wait(
        self, question: _Permission | _UserQuestion | _Recovery, timeout: float | None, on_cancel: Callable[[], None]
    ) -> bool:
        """Wait for the answer; return whether the question could be asked. Always a checkpoint."""
        if question.journal.is_closed:
            # A tool that outlives its turn: no client would see the question, and it would stay open for ever.
            await trio.lowlevel.checkpoint()
            return False
        request_id = question.event.request_id
        # Open before its event is visible: a client may answer as soon as it sees it.
        self._open[request_id] = question
        # As it stands in the journal, with its number and its session: clients compare it with what they have seen.
        shown = question.journal.append(question.event)
        if shown is not None:
            self._shown[request_id] = shown
        expired = False
        try:
            with trio.move_on_after(float("inf") if timeout is None else timeout):
                await question.answer.wait()
            # Also after an answer; then `_drop` finds the slot settled, and "expired" counts for nothing.
            expired = True
        except trio.Cancelled:
            # Before the question is withdrawn: the caller notes what the turn was doing, and that was waiting for it.
            on_cancel()
            raise
        finally:
            self._drop(question, "expired" if expired else "withdrawn")
            self._shown.pop(request_id, None)
        return True

    @enable_ki_protection
    def _drop(self, question: _Permission | _UserQuestion | _Recovery, how: Unanswered) -> None:
        """Close a question without an answer; one that was answered is closed already. Not a checkpoint."""
        match question:
            case _Permission():
                self._answer_permission(question, PermissionAnswer(kind=how))
            case _UserQuestion():
                self._answer_user(question, (how, ()))
            case _Recovery():
                self._answer_recovery(question, (how, None))

    @enable_ki_protection
    def _answer_permission(
        self, question: _Permission, answer: PermissionAnswer, allowed: tuple[ev.Right, ...] = ()
    ) -> None:
        self._open.pop(question.event.request_id, None)
        # The slot decides who was first: the user, a rule, the timeout or a cancel. Only that one appends an event.
        if question.answer.settle(answer):
            answered = ev.PermissionAnswered(
                request_id=question.event.request_id,
                answer=answer.kind,
                feedback=answer.feedback,
                allowed=allowed,
                scope=answer.scope if allowed else None,
                by=answer.by,
            )
            question.journal.append(answered)

    @enable_ki_protection
    def _answer_user(self, question: _UserQuestion, answers: UserAnswers, by: str = "") -> None:
        self._open.pop(question.event.request_id, None)
        if question.answer.settle(answers):
            question.journal.append(
                ev.QuestionAnswered(request_id=question.event.request_id, outcome=answers[0], answers=answers[1], by=by)
            )

    @enable_ki_protection
    def _answer_recovery(self, question: _Recovery, choice: RecoveryChoice, by: str = "") -> None:
        self._open.pop(question.event.request_id, None)
        if question.answer.settle(choice):
            model = "" if choice[1] is None else choice[1].info.name
            question.journal.append(
                ev.RecoveryAnswered(request_id=question.event.request_id, answer=choice[0], model=model, by=by)
            )


def _share_feedback(feedback: str) -> str:
    return f"another call of this step was rejected: {feedback}"
