"""Questions to the user, and their answers: about permissions, from tools, and after a model's failure."""

from __future__ import annotations

from typing import Literal

import attrs

from engine.core._event_base import EventBase
from engine.core.errors import ErrorInfo
from engine.core.ids import CallId, RequestId
from engine.core.value_base import Value

AnswerKind = Literal["once", "always", "reject", "withdrawn", "expired"]
RecoveryKind = Literal["wait", "switch", "stop", "withdrawn", "expired"]
QuestionOutcome = Literal["answered", "declined", "withdrawn", "expired"]
# How long an "always" holds: until the turn ends, until the session ends, or in every session of the project.
GrantScope = Literal["turn", "session", "project"]
# The value of the shared context that records a plan's approval, which ends the restrictions of plan mode.
APPROVAL = "mode"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RecoveryAsked(EventBase):
    """A model's host failed and retries are used up: wait and try again, switch the model, or stop?

    Answered with `turn.recover(request_id, "wait")`, `"switch"` and a model, or `"stop"`.

    Attributes:
        model: the one that failed.
        message: the error.
        reset_at: when a rate limit is lifted, in seconds since the epoch; "wait" waits until then.
        failure: what failed, as facts; None: there are none.
    """

    request_id: RequestId
    model: str
    message: str
    reset_at: float | None = None
    failure: ErrorInfo | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RecoveryAnswered(EventBase):
    """A `RecoveryAsked` was answered, or it expired and the turn stops.

    Attributes:
        model: with "switch", the new model.
        by: who answered, as its host names its clients; empty: the host itself.
    """

    request_id: RequestId
    answer: RecoveryKind
    model: str = ""
    by: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Choice(Value):
    """One of the answers that a question offers."""

    label: str
    description: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class QuestionAsked(EventBase):
    """A call asks the user a question. Answer with `turn.answer(request_id, "…")`.

    Attributes:
        call_id: the call; empty: the engine itself asks whether it may read a project's own files.
        question: its text.
        choices: the answers that it offers; any other text is an answer as well.
        several: whether more than one may be selected.
    """

    request_id: RequestId
    call_id: CallId
    question: str
    choices: tuple[Choice, ...] = ()
    several: bool = False


@attrs.frozen(kw_only=True, eq=False, repr=False)
class QuestionAnswered(EventBase):
    """A question was answered, declined, withdrawn, or it expired.

    Attributes:
        answers: labels of choices, or free text; empty unless `answered`.
        by: who answered, as its host names its clients; empty: the host itself.
    """

    request_id: RequestId
    outcome: QuestionOutcome
    answers: tuple[str, ...] = ()
    by: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Right(Value):
    """A permission for one pattern. In an offer the pattern may have wildcards, as in a rule."""

    permission: str
    pattern: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Offer(Value):
    """The rights that one "always" would grant, all together."""

    rights: tuple[Right, ...]

    @property
    def text(self) -> str:
        """The patterns, separated by commas; each after its permission if there are several permissions."""
        kinds = {right.permission for right in self.rights}
        return ", ".join(r.pattern if len(kinds) == 1 else f"{r.permission} {r.pattern}" for r in self.rights)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PermissionAsked(EventBase):
    """A call needs permission. Answer with `turn.reply`.

    Attributes:
        permission: the kind of right, such as `bash` or `edit`.
        patterns: what it applies to.
        rights: all rights that have to be allowed, of this and other kinds, without those that a rule allows already.
        offers: what "always" would allow, narrowest first; none: it can be allowed only once.
        detail: for the user: the command, the diff, the path.
        metadata: the same for clients, as JSON text.
        opaque: why the effects of the call can't be determined; empty: the rights cover them all.
        rule: the rule or the hook that requires the question.
        until: when it expires, in seconds since the epoch; None: never.
        danger: why it has to be allowed deliberately, each time, as in `it deletes outside the project`; empty: it needn't.
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
    danger: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PermissionAnswered(EventBase):
    """The question is settled: answered, withdrawn with its call, or expired.

    Attributes:
        request_id: the question.
        answer: the answer, or why there is none.
        feedback: the user's text with a rejection.
        allowed: the rights that "always" has granted.
        scope: for how long; None: only this call was allowed.
        by: who answered, as its host names its clients; empty: the host itself, or a rule.
    """

    request_id: RequestId
    answer: AnswerKind
    feedback: str = ""
    allowed: tuple[Right, ...] = ()
    scope: GrantScope | None = None
    by: str = ""
