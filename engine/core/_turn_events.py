"""Events of a turn: its steps, its retries, its end, and the engine's remarks about it."""

from __future__ import annotations

from typing import Literal, get_args

import attrs

from engine.core._event_base import ContinueReason, EventBase
from engine.core.errors import ErrorInfo
from engine.core.ids import CallId, MessageId
from engine.core.messages import FinishReason, Usage
from engine.core.value_base import Value

During = Literal["streaming", "tools", "waiting"]
StopReason = Literal[
    "completed",
    "aborted",
    "step_limit",
    "token_budget",
    "diminishing",
    "cost_limit",
    "deadline",
    "hook_stopped",
    "stop_hook_limit",
    "blocking_limit",
    "prompt_too_long",
    "compaction_ineffective",
    "output_limit",
    "incomplete",
    "refusal",
    "content_filter",
    "rate_limited",
    "auth_failed",
    "provider_error",
    "doom_loop",
    "permission_rejected",
    "internal_error",
]
STOP_REASONS: tuple[StopReason, ...] = get_args(StopReason)
# What makes a turn end before it has finished by itself: its user, the host's scope, the end of the block or of the engine, a
# limit, a rejected permission, a repetition, another engine that has the session, a bug of the engine.
EndingCause = Literal["user", "host", "left", "limit", "rejected", "doom", "lost", "crashed"]
DoomKind = Literal["repeat", "near_repeat", "errors", "monologue"]
DoomAction = Literal["nudge", "ask", "stop"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnResult(Value):
    """How a turn ended, and its answer.

    Attributes:
        stop_reason: why it ended.
        detail: the same in words, for the user: the limit, the refusal or the fault.
        during: what an aborted turn was doing.
        reset_at: when a rate limit is lifted, in seconds since the epoch.
        text: the visible answer, or the part of it that was received.
        output: a structured answer as JSON text; None: none was requested, or none was valid.
        usage: tokens, sub-agents included.
        cost: money, sub-agents included.
        steps: how many steps it took.
        durable: whether the store confirmed all of its events.
        failure: what failed, as facts; None: nothing did, or there are none.
    """

    stop_reason: StopReason
    detail: str = ""
    during: During | None = None
    reset_at: float | None = None
    text: str = ""
    output: str | None = None
    usage: Usage = attrs.field(factory=Usage)
    cost: float = 0.0
    steps: int = 0
    durable: bool = True
    failure: ErrorInfo | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnStarted(EventBase):
    """A turn begins.

    Attributes:
        call_id: for a sub-agent's turn, the call in the parent session that runs it.
        traceparent: the span that stands for the turn, as W3C writes it; empty: the turn is not traced.
        caller: the span that this one is below; empty: there is none.
        resume: what becomes of it if its engine dies: another engine of a fleet continues it, or leaves it to the user.
    """

    call_id: CallId | None = None
    traceparent: str = ""
    caller: str = ""
    resume: Literal["manual", "auto"] = "manual"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnResumed(EventBase):
    """A turn whose engine has ended is continued by another one.

    Its open questions are withdrawn and asked again. A call that was waiting inside its tool is queued again.

    Attributes:
        interrupted: it did not only wait: its engine had died, and what that had begun was settled before this event.
    """

    interrupted: bool = False


@attrs.frozen(kw_only=True, eq=False, repr=False)
class StepStarted(EventBase):
    """A request goes out.

    Attributes:
        parallel: how many of its calls may run at once; None: from an engine that did not record it.
    """

    step: int
    attempt: int
    message_id: MessageId
    model: str
    parallel: int | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class StepReceived(EventBase):
    """The answer is complete, and the step waits for a user. Another engine could continue it from here.

    Attributes:
        finish: why the model stopped.
        detail: the same in the words of the model's host.
        usage: tokens of this request.
        cost: money for this request.
        prefix_broken_at: as in `StepEnded`.
    """

    step: int
    message_id: MessageId
    finish: FinishReason | None
    detail: str
    usage: Usage
    cost: float
    prefix_broken_at: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class StepEnded(EventBase):
    """A step is over; if `kept`, its message and results are in the transcript.

    Attributes:
        usage: tokens of this request. `usage.cache_share` is the share of the prompt that came from a cache.
        prefix_broken_at: where this request first differed from the previous one, so that no cache
            could help from there on; empty: it began with all of the previous one.
    """

    step: int
    message_id: MessageId
    results_id: MessageId
    finish: FinishReason | None
    usage: Usage
    cost: float
    kept: bool = True
    prefix_broken_at: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class LoopContinued(EventBase):
    """The loop continues, for the given reason.

    Attributes:
        model: with another model, the one that is used from now on.
        message: why the model before it failed.
        failure: what failed, as facts; None: there are none.
    """

    reason: ContinueReason
    step: int
    model: str = ""
    message: str = ""
    failure: ErrorInfo | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RetryScheduled(EventBase):
    """A failed request will be sent again.

    Attributes:
        attempt: the number of the retry, from 1.
        message: why the request failed.
        next_at: when it is sent again, in seconds since the epoch.
        attempts: how many retries there are at most; 0: unknown.
        failure: what failed, as facts; None: there are none.
    """

    attempt: int
    message: str
    next_at: float
    attempts: int = 0
    failure: ErrorInfo | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnEnding(EventBase):
    """Live: something ends the turn before it has finished by itself. Its calls are being settled from now on.

    Attributes:
        cause: what ends it. The first cause counts, so there is one such event at most in a turn.
        detail: the same in words.
        until: when the grace period of its running calls is over, in seconds since the epoch.
        after: the number of the last durable event before it.
        by: who cancelled it, as its host names its clients; empty: the host itself, or none did.
    """

    cause: EndingCause
    detail: str
    until: float
    after: int
    by: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Ending(Value):
    """Why a turn ended before it had finished by itself, since when, and until when its calls could clean up.

    Attributes:
        cause: what ended it; see `TurnEnding`, of which this is a copy.
        detail: the same in words.
        until: when the grace period of its running calls is over, in seconds since the epoch.
        by: who cancelled it, as its host names its clients; empty: the host itself, or none did.
        at: when the cause was written, in seconds since the epoch; 0: from an engine that did not record it.
    """

    cause: EndingCause
    detail: str
    until: float
    by: str = ""
    at: float = 0.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnEnded(EventBase):
    """The turn is over, settled and saved. Nothing of it comes after this.

    Attributes:
        result: how it ended.
        ending: what ended it early, and when, as `TurnEnding` announced it; None: it finished by itself, or by a crash.
    """

    result: TurnResult
    ending: Ending | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class DoomDetected(EventBase):
    """Loop detection found that the model repeats itself."""

    kind: DoomKind
    action: DoomAction
    detail: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Notice(EventBase):
    """Information for the user. Nothing depends on it."""

    level: Literal["info", "warning"]
    code: str
    text: str
