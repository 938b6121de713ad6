"""Events: everything that happens in a session, as a closed union of values.

An event with a `seq` is durable: it is in the journal, in that order, for good.
One without is live: it was true when it was sent, and what it told is told
again by a durable event later (deltas by `PartEnded`, arguments by `CallQueued`).

The order is a promise; `docs/reference/events.md` writes it down.
"""

from __future__ import annotations

from typing import Literal, get_args

import attrs

from engine.core.ids import CallId, InputId, MessageId, PartId, RequestId, SessionId, TurnId
from engine.core.messages import (
    AssistantPart,
    FinishReason,
    Message,
    Settlement,
    Usage,
    UserMessage,
)
from engine.core.prompt_section import PromptSection
from engine.core.value_base import Value

PartKind = Literal["text", "reasoning", "call", "provider"]
InputMode = Literal["prompt", "steer", "queue"]
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
ContinueReason = Literal[
    "next_step",
    "steered",
    "provider_retry",
    "overflow_prune_retry",
    "reactive_compact_retry",
    "output_escalate",
    "output_recover",
    "stop_hook_blocked",
    "budget_continue",
    "resume_after_break",
    "compacted",
    "provider_pause",
    "schema_repair",
    "signature_retry",
    "model_fallback",
]
CONTINUE_REASONS: tuple[ContinueReason, ...] = get_args(ContinueReason)
AnswerKind = Literal["once", "always", "reject", "withdrawn", "expired"]
RecoveryKind = Literal["wait", "switch", "stop", "withdrawn", "expired"]
CompactionTrigger = Literal["full", "overflow", "manual"]
CompactionOutcome = Literal["compacted", "failed", "cancelled"]
BackgroundKind = Literal["agent", "command"]
QuestionOutcome = Literal["answered", "declined", "withdrawn", "expired"]
Verdict = Literal["allow", "ask", "deny"]
# How long an "always" holds: until the turn ends, until the session does, or for whoever works in the project.
GrantScope = Literal["turn", "session", "project"]
DoomKind = Literal["repeat", "near_repeat", "errors", "monologue"]
DoomAction = Literal["nudge", "ask", "stop"]


# The value of the shared context by which a plan was approved, so that what bounds its session ends: the user's word.
APPROVAL = "mode"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SharedContext(Value):
    """What calls share and may modify, in call order (C4).

    Attributes:
        cwd: the working directory.
        values: further state of tools, by name, as JSON text.
    """

    cwd: str
    values: tuple[tuple[str, str], ...] = ()

    def get(self, name: str, default: str = "") -> str:
        """Return the JSON text kept under *name*."""
        return dict(self.values).get(name, default)

    def with_value(self, name: str, value: str) -> SharedContext:
        """Return a context in which *name* holds the JSON text *value*."""
        return self.merged(self.cwd, ((name, value),))

    def without(self, name: str) -> SharedContext:
        """Return a context in which *name* holds nothing."""
        return self.merged(self.cwd, (), (name,))

    def merged(self, cwd: str, values: tuple[tuple[str, str], ...], removed: tuple[str, ...] = ()) -> SharedContext:
        """Return a context with these changes."""
        kept = {name: value for name, value in (*self.values, *values) if name not in removed}
        return SharedContext(cwd=cwd, values=tuple(sorted(kept.items())))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnResult(Value):
    """How a turn ended and what came of it.

    Attributes:
        stop_reason: one of the closed set.
        detail: the same for a person: what was reached, refused or broken.
        during: where an aborted turn was.
        reset_at: when a rate limit is lifted, in seconds since the epoch.
        text: the visible answer, as far as it got.
        output: the JSON text of a structured answer that fits its class.
        usage: tokens, sub-agents included.
        cost: money, sub-agents included.
        steps: provider requests that were counted.
        durable: whether the store confirmed it all.
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


@attrs.frozen(kw_only=True, eq=False, repr=False)
class EventBase(Value):
    """What every event carries; the journal fills it in."""

    session_id: SessionId = SessionId("")
    turn_id: TurnId | None = None
    path: tuple[SessionId, ...] = ()
    time: float = 0.0
    seq: int | None = None


# -- session and input ---------------------------------------------------------


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionCreated(EventBase):
    """A session begins; a child names the call that made it.

    Attributes:
        agent: the way of working that was chosen for it, by its name; empty: the usual one.
        forked_from: the session whose history it begins with: a `HistoryReplaced` follows.
    """

    context: SharedContext
    model: str
    parent_id: SessionId | None = None
    parent_call_id: CallId | None = None
    agent: str = ""
    forked_from: SessionId | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionTitled(EventBase):
    """The session has a title from now on; without one it is called by what was asked first.

    Attributes:
        title: empty: the model that was asked for one gave none, and what it has taken is counted all the same.
        by: whose words it is in. A model's never takes the place of a user's.
        model: which model was asked for it; empty: none was.
        usage: what a model's has taken.
        cost: of that.
    """

    title: str
    by: Literal["user", "model"]
    model: str = ""
    usage: Usage = attrs.field(factory=Usage)
    cost: float = 0.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InputAdmitted(EventBase):
    """Input was taken in durably; it waits for its place in the transcript."""

    input_id: InputId
    mode: InputMode
    message: UserMessage


@attrs.frozen(kw_only=True, eq=False, repr=False)
class InputPromoted(EventBase):
    """Input got its place: the message is now the newest of the transcript."""

    input_id: InputId


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptBlocked(EventBase):
    """A hook let the user's words not pass: the message is taken back out of the transcript, and the turn ends.

    Attributes:
        source: the hook's name.
        reason: for the user; the model never sees it.
    """

    message_id: MessageId
    source: str
    reason: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class NudgeAdded(EventBase):
    """The engine itself put a message to the model into the transcript."""

    message: UserMessage


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptSet(EventBase):
    """Requests begin with these sections from now on, byte for byte, until it comes again.

    Attributes:
        sections: in their order.
        cwd: the folder that they were made for.
        project: the project whose own files may be read for them; empty: none.
        reason: why now: it is the first, the history was compacted, the session works in another folder, or the host
            has given another system prompt.
    """

    sections: tuple[PromptSection, ...]
    cwd: str
    project: str = ""
    reason: Literal["start", "compacted", "moved", "system"] = "start"


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptUpdated(EventBase):
    """Something that the prompt says has changed: the model is told in a message, and requests begin as before.

    Attributes:
        message: the newest of the transcript now.
        sections: those that are new or different, as they are now.
        removed: the names of those that hold no longer.
    """

    message: UserMessage
    sections: tuple[PromptSection, ...] = ()
    removed: tuple[str, ...] = ()


# -- turn and step ---------------------------------------------------------------


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnStarted(EventBase):
    """A turn begins.

    Attributes:
        call_id: of a sub-agent's turn, the call of its parent's session that runs it.
    """

    call_id: CallId | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnResumed(EventBase):
    """A turn that only waited for an answer goes on after its engine had ended: what was asked is asked anew.

    Questions from before are withdrawn, and a call that waited inside its tool is queued again.
    """


@attrs.frozen(kw_only=True, eq=False, repr=False)
class StepStarted(EventBase):
    """A request goes out."""

    step: int
    attempt: int
    message_id: MessageId
    model: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class StepReceived(EventBase):
    """The answer is whole, and the step waits for somebody: another engine could go on with it from here.

    Attributes:
        finish: why the model stopped.
        detail: the same, in the host's words.
        usage: of this request.
        cost: of that.
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
        usage: of this request; `usage.cache_share` is how much of the prompt came from a cache.
        prefix_broken_at: where the request differed from the beginning of the one before it,
            so that no cache could help from there on; empty: nowhere.
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
    """The loop goes on, for that reason."""

    reason: ContinueReason
    step: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RetryScheduled(EventBase):
    """A failed request will be sent again."""

    attempt: int
    message: str
    next_at: float


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
class ModelSwitched(EventBase):
    """From the next turn on, the session's model is another one."""

    model: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnEnded(EventBase):
    """The turn is over, settled and saved. Nothing of it comes after this."""

    result: TurnResult


# -- the open message --------------------------------------------------------------


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PartStarted(EventBase):
    """A part of the assistant's message opens."""

    message_id: MessageId
    part_id: PartId
    kind: PartKind


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TextDelta(EventBase):
    """Live: more visible text, which begins at `offset` of its part."""

    message_id: MessageId
    part_id: PartId
    after: int
    offset: int
    text: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ReasoningDelta(EventBase):
    """Live: more thinking, which begins at `offset` of its part."""

    message_id: MessageId
    part_id: PartId
    after: int
    offset: int
    text: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ArgumentsDelta(EventBase):
    """Live: more of a call's arguments, which begin at `offset`."""

    message_id: MessageId
    part_id: PartId
    after: int
    offset: int
    text: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PartEnded(EventBase):
    """A part is whole: the concatenated deltas are its text."""

    message_id: MessageId
    part: AssistantPart


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PartReplaced(EventBase):
    """An open part begins anew: its text is empty again, and deltas follow from offset 0."""

    message_id: MessageId
    part_id: PartId


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PartDiscarded(EventBase):
    """A part is taken back: what follows replaces it."""

    message_id: MessageId
    part_id: PartId
    reason: ContinueReason | Literal["failed"]


# -- calls -------------------------------------------------------------------------


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallAnnounced(EventBase):
    """The model begins to ask for a call; its arguments are being received."""

    call_id: CallId
    message_id: MessageId
    part_id: PartId
    tool: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallQueued(EventBase):
    """The arguments are whole; the call waits for its turn.

    Attributes:
        tool: the tool's own name, by whichever the model called it.
        arguments: as the model wrote them.
        mended: what was mended in them: `limit: the text "5" was taken for 5`.
    """

    call_id: CallId
    tool: str
    arguments: str
    mended: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallJudged(EventBase):
    """Somebody had a say in whether the call may run: a hook, a rule, a person. The last say counts.

    Once it runs: in whether it may do what its tool asks for in the middle of the work.

    Attributes:
        verdict: go on, ask a person, or no.
        source: who said it: the hook's name, the rule's own words, the answer.
    """

    call_id: CallId
    verdict: Verdict
    source: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallChanged(EventBase):
    """A hook put something else in place.

    Attributes:
        kind: the arguments, or what the model reads of the result.
        text: the arguments that count from now on; or the result as it was before.
        source: the hook's name.
    """

    call_id: CallId
    kind: Literal["arguments", "result"]
    text: str
    source: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallStarted(EventBase):
    """The tool's body is entered now, after every check and permission."""

    call_id: CallId


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallProgress(EventBase):
    """Live: what a running tool says of itself."""

    call_id: CallId
    message: str
    output: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallHeartbeat(EventBase):
    """Live: the step waits for this call."""

    call_id: CallId
    tool: str
    elapsed: float
    last_progress: str
    pending_inputs: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallSettled(EventBase):
    """The call reached its one terminal state."""

    call_id: CallId
    settlement: Settlement


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallDelivered(EventBase):
    """The result took its place, in call order."""

    call_id: CallId


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ContextChanged(EventBase):
    """A call changed what calls share; applied in call order.

    Attributes:
        cwd: the working directory from now on.
        values: what is new or different, by name, as JSON text.
        removed: names that hold nothing any more.
    """

    call_id: CallId
    cwd: str
    values: tuple[tuple[str, str], ...] = ()
    removed: tuple[str, ...] = ()

    @classmethod
    def of(cls, call_id: CallId, before: SharedContext, after: SharedContext) -> ContextChanged:
        """Return the event that leads from one context to another."""
        old, new = dict(before.values), dict(after.values)
        return cls(
            call_id=call_id,
            cwd=after.cwd,
            values=tuple((name, value) for name, value in after.values if old.get(name) != value),
            removed=tuple(name for name in old if name not in new),
        )


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


# -- history, guards, notices ------------------------------------------------------------


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CompactionStarted(EventBase):
    """The history is about to be summarised.

    Attributes:
        trigger: the window is full, a request was too large, or somebody asked for it.
        messages: how many there are.
    """

    trigger: CompactionTrigger
    messages: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CompactionEnded(EventBase):
    """It was summarised, and a `HistoryReplaced` stands before this; or it is as it was.

    Attributes:
        outcome: how it went.
        detail: why it failed, or what else is to be known of it.
        messages: how many there are now.
        before: what the next request would have taken of the window, estimated; 0: nobody knows.
        after: what it takes now.
        source: so many messages are summarised.
        digest: of what they said.
        model: who was asked for the summary; empty: nobody was.
        usage: what that has taken.
        cost: of that.
    """

    outcome: CompactionOutcome
    detail: str = ""
    messages: int = 0
    before: int = 0
    after: int = 0
    source: int = 0
    digest: str = ""
    model: str = ""
    usage: Usage = attrs.field(factory=Usage)
    cost: float = 0.0


@attrs.frozen(kw_only=True, eq=False, repr=False)
class HistoryReplaced(EventBase):
    """Another history takes the place of the old: a shorter one, or the one that a fork or an import begins with.

    With "restore", it is the one from before the last compaction, and what was said since.
    """

    kind: Literal["prune", "collapse", "compact", "restore", "fork", "import"]
    messages: tuple[Message, ...]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SnapshotTaken(EventBase):
    """The files of the project were noted as they are: the turn can be undone to here.

    Attributes:
        step: the one that is over; 0: before the first change of the turn.
        tree: what names this state of the files.
    """

    step: int
    tree: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnUndone(EventBase):
    """The newest turn that was not undone yet is taken back: its messages, and its changes of files.

    Attributes:
        undone: the turn.
        keep: so many of the first messages of the transcript stay.
        messages: they follow those: where a compaction within the turn had replaced what was there before it.
        files: what was put back, or removed, relative to the working directory.
    """

    undone: TurnId
    keep: int
    messages: tuple[Message, ...] = ()
    files: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnRedone(EventBase):
    """The turn that was undone last counts again, with its messages and its changes of files.

    Attributes:
        redone: the turn.
        files: what was changed again.
    """

    redone: TurnId
    files: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BackgroundStarted(EventBase):
    """Something works in the background from now on: it goes on when its call, and its turn, are over.

    Attributes:
        work_id: which; of a sub-agent, the id of its session.
        name: what the model calls it: the agent's name, or the job's.
        detail: what a command is.
    """

    work_id: str
    kind: BackgroundKind
    name: str
    detail: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BackgroundEnded(EventBase):
    """What worked in the background works no more, and its session was told."""

    work_id: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class DoomDetected(EventBase):
    """The model goes in circles."""

    kind: DoomKind
    action: DoomAction
    detail: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Notice(EventBase):
    """Something that a person may want to know and nothing depends on."""

    level: Literal["info", "warning"]
    code: str
    text: str


Durable = (
    SessionCreated
    | SessionTitled
    | InputAdmitted
    | InputPromoted
    | PromptBlocked
    | NudgeAdded
    | PromptSet
    | PromptUpdated
    | TurnStarted
    | TurnResumed
    | StepStarted
    | StepReceived
    | StepEnded
    | LoopContinued
    | RetryScheduled
    | RecoveryAsked
    | RecoveryAnswered
    | ModelSwitched
    | TurnEnded
    | PartStarted
    | PartEnded
    | PartReplaced
    | PartDiscarded
    | CallAnnounced
    | CallQueued
    | CallJudged
    | CallChanged
    | CallStarted
    | CallSettled
    | CallDelivered
    | ContextChanged
    | PermissionAsked
    | PermissionAnswered
    | QuestionAsked
    | QuestionAnswered
    | CompactionStarted
    | CompactionEnded
    | HistoryReplaced
    | SnapshotTaken
    | TurnUndone
    | TurnRedone
    | BackgroundStarted
    | BackgroundEnded
    | DoomDetected
    | Notice
)
Delta = TextDelta | ReasoningDelta | ArgumentsDelta
Live = Delta | CallProgress | CallHeartbeat
DURABLE_TYPES: tuple[type[Durable], ...] = get_args(Durable)
DELTA_TYPES: tuple[type[Delta], ...] = get_args(Delta)
LIVE_TYPES: tuple[type[Live], ...] = get_args(Live)
