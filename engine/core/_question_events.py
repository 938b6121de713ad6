"""Questions to the user and their answers: of permission, of a tool, and after a model's failure."""

from __future__ import annotations

from typing import Literal

import attrs

from engine.core._event_base import EventBase
from engine.core.ids import CallId, RequestId
from engine.core.value_base import Value

AnswerKind = Literal["once", "always", "reject", "withdrawn", "expired"]
RecoveryKind = Literal["wait", "switch", "stop", "withdrawn", "expired"]
QuestionOutcome = Literal["answered", "declined", "withdrawn", "expired"]
# How long an "always" holds: until the turn ends, until the session does, or for whoever works in the project.
GrantScope = Literal["turn", "session", "project"]
# The value of the shared context by which a plan was approved, so that what bounds its session ends: the user's word.
APPROVAL = "mode"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RecoveryAsked(EventBase):
    """A model's host has failed for good: wait and try again, switch the model, or stop?

    Answered with `turn.recover(request_id, "wait")`, `"switch"` and a model, or `"stop"`.

    Attributes:
        model: the one that failed.
        message: how.
        reset_at: when a rate limit is lifted, in seconds since the epoch: until then "wait" waits.
    """

    request_id: RequestId
    model: str
    message: str
    reset_at: float | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RecoveryAnswered(EventBase):
    """It was said how to go on, or nobody said it and the turn stops.

    Attributes:
        model: with "switch", the one to go on with.
    """

    request_id: RequestId
    answer: RecoveryKind
    model: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Choice(Value):
    """An answer that is offered to a question."""

    label: str
    description: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class QuestionAsked(EventBase):
    """A call asks the user something. Answer with `turn.answer(request_id, "…")`.

    Attributes:
        call_id: the call; empty: the engine itself asks, whether a project's own files may be read.
        question: what it asks.
        choices: answers that it offers; any other words are an answer as well.
        several: more than one of them may be chosen.
    """

    request_id: RequestId
    call_id: CallId
    question: str
    choices: tuple[Choice, ...] = ()
    several: bool = False


@attrs.frozen(kw_only=True, eq=False, repr=False)
class QuestionAnswered(EventBase):
    """It was answered, or nobody will answer it any more.

    Attributes:
        answers: what was said: labels of choices, or words; empty unless `answered`.
    """

    request_id: RequestId
    outcome: QuestionOutcome
    answers: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Right(Value):
    """A right: what may be done, to what. In an offer the pattern may hold wildcards, as in a rule."""

    permission: str
    pattern: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Offer(Value):
    """What one "always" would allow: all of its rights, and nothing else."""

    rights: tuple[Right, ...]

    @property
    def text(self) -> str:
        """The same in words: the patterns, each after the name of its right where there are several kinds."""
        kinds = {right.permission for right in self.rights}
        return ", ".join(r.pattern if len(kinds) == 1 else f"{r.permission} {r.pattern}" for r in self.rights)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PermissionAsked(EventBase):
    """A call may go on only if somebody allows it; answer with `turn.reply`.

    Attributes:
        permission: what kind of right is asked for.
        patterns: on what.
        rights: all that has to be allowed, be it of other kinds; what a rule allows already is not among it.
        offers: what "always" would allow, narrowest first; none: it can be allowed only once.
        detail: for a person: the command, the diff, the path.
        metadata: the same for clients, as JSON text.
        opaque: why nobody can tell what the call would do; empty: its rights are all there is.
        rule: who wants the question: a rule, a hook.
        until: when it expires, in seconds since the epoch; None: never.
    """

    request_id: RequestId
    call_id: CallId
    tool: str
    permission: str
    patterns: tuple[str, ...]
    rights: tuple[Right, ...] = ()
    offers: tuple[Offer, ...] = ()
    detail: str = ""
    metadata: str = ""
    opaque: str = ""
    rule: str = ""
    until: float | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PermissionAnswered(EventBase):
    """The question is settled: answered, withdrawn with its call, or expired.

    Attributes:
        request_id: which question.
        answer: how.
        feedback: what a person said with a rejection.
        allowed: what "always" has allowed.
        scope: for how long; None: nothing was allowed for longer than this call.
    """

    request_id: RequestId
    answer: AnswerKind
    feedback: str = ""
    allowed: tuple[Right, ...] = ()
    scope: GrantScope | None = None
