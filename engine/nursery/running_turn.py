"""`TurnRun`: what the tasks of one turn share, and the one slot for why the turn ends."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Protocol

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.deferred import Deferred
from engine.core.errors import ErrorInfo, SessionLost, StoreError
from engine.core.events import During, Notice, TurnEnded, TurnEnding, TurnResult
from engine.core.exception_groups import ErrorBoundary, describe, error_number, first_of
from engine.core.foreign_calls import ForeignCall
from engine.core.hooks import Hooks
from engine.core.ids import CallId, SessionId
from engine.core.messages import Transcript, Usage, UserMessage
from engine.core.permission_types import PermissionScope
from engine.core.protocols import Deps
from engine.core.settings import Settings
from engine.core.value_base import Value
from engine.journal.log import TurnJournal
from engine.nursery.budget import Budget, Exhausted
from engine.nursery.loop_detection import RepetitionDetector
from engine.nursery.loop_state import LOST, TurnCause, limit_cause, report_store
from engine.nursery.questions import Questions
from engine.nursery.rate_limiter import Traffic
from engine.nursery.turn_snapshots import FileChanges, TurnSnapshots
from engine.process.secret_names import SecretVariables
from engine.tools.call_values import GRACE, ToolOutput
from engine.tools.hook_runner import HookRunner
from engine.tools.output.spill import Spills
from engine.tools.registry import Registry

if TYPE_CHECKING:
    from engine.agents.agent_result import AgentResult
    from engine.agents.background import AgentJob, AgentJobs
    from engine.core.compaction_types import CompactionRequest
    from engine.core.context_report import ContextReport
    from engine.nursery.call_ledger import CallEntry
    from engine.nursery.step import Step
    from engine.prompt.layers import PromptLayers
    from engine.sources.session_tools import SessionTools
    from engine.sources.tool_deferral import ToolDeferral
    from engine.tools.background_jobs import Jobs
    from engine.tools.editor_files import EditorFiles
    from engine.tools.tool_context import AgentRequest, EditReviewer

# Shares of `Settings.durable_within`. Before a tool starts, a little more than all of it, so that a store whose own
# timeout is just as long can raise and say why; in a store that has not answered before, little.
_AT_A_BARRIER: Final = 1.1
_WHEN_IT_LAGS: Final = 0.1
# Of a grace that a parent's call allows: the rest is for the flush and the way back up to that call.
FLUSH_SHARE: Final = 0.9


class AgentRunner(Protocol):
    """Runs what outlives a call for the turn's session: sub-agents and background commands."""

    @property
    def jobs(self) -> Jobs:
        """The background jobs of the turn's session."""
        ...

    @property
    def agents(self) -> AgentJobs:
        """The sub-agents that run in the background for the turn's session."""
        ...

    async def run_agent(self, run: TurnRun, entry: CallEntry, request: AgentRequest) -> AgentResult:
        """Run a turn of a child session inside the calling task, for the call *entry* of *run*."""
        ...

    async def start_agent(self, run: TurnRun, entry: CallEntry, request: AgentRequest) -> AgentJob:
        """Start a turn of a child session that goes on when the call, and *run*, are over."""
        ...


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnServices(Value):
    """What a turn uses of its session and of its engine.

    Attributes:
        context_report: returns what fills the window of the session's model.
        spills: keeps long outputs of the whole tree of sessions; None: nothing is kept.
        edit_reviewer: runs before and after each change of a file (a formatter, say); None: nothing does.
        editor: the user's editor, which may hold texts unsaved; None: there is none.
        secrets: the variables that processes of tools do not get.
        prompt: the layers that requests begin with; None: requests begin with `Settings.system`.
        touched: the paths that tools have worked on since instructions were last looked for; the session's, since a turn
            may end before the next look.
        snapshots: of the files that the turn changes; a sub-agent shares those of the turn above. None: there are none.
        jitter: returns random fractions for retry delays.
        deferral: which hosts take deferred tools.
        tools: the session's, from which the turn takes its own when it begins.
    """

    agents: AgentRunner
    context_report: Callable[[], ContextReport]
    questions: Questions
    traffic: Traffic
    spills: Spills | None
    edit_reviewer: EditReviewer | None
    editor: EditorFiles | None
    secrets: SecretVariables
    prompt: PromptLayers | None
    touched: dict[str, None]
    snapshots: TurnSnapshots | None
    jitter: Callable[[], float]
    tools: SessionTools
    deferral: ToolDeferral


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TurnInputs(Value):
    """What a turn is started with.

    Attributes:
        chain: the sessions from the root to this one, each with its turn: the rights of all of them bound a call.
        is_child: it is a sub-agent's.
        grace_limit: the longest grace of any call, where a parent's grace bounds it.
        compaction: the only thing that the turn does; None: it answers a prompt.
        check_output: returns the JSON of a structured answer, or what is wrong with it.
        on_ended: called with the result, once the end is visible.
        on_parked: called once the turn is parked.
        must_claim: the session was released while it was idle, so another engine may have gone on with it.
    """

    settings: Settings
    hooks: Hooks
    services: TurnServices
    chain: tuple[PermissionScope, ...]
    is_child: bool = False
    grace_limit: float | None = None
    compaction: CompactionRequest | None = None
    output_schema: str | None = None
    check_output: Callable[[str], tuple[str | None, str | None]] | None = None
    on_ended: Callable[[TurnRun, TurnResult], None] | None = None
    on_parked: Callable[[TurnRun], None] | None = None
    must_claim: bool = False


@attrs.frozen(kw_only=True, eq=False, repr=False)
class RequestUsage(Value):
    """What the last request of a session took, as its host counts, and the transcript that it had."""

    usage: Usage
    transcript: Transcript


@attrs.define(eq=False, repr=False)
class TurnState:
    """What the loop and the calls of a turn keep from step to step.

    Attributes:
        counted: the usage of the session's last request.
        may_park: the turn may be left for another engine, if it only waits.
        superseded: the end of the parked turn whose place it takes, held until it is durable.
        unseen: user messages that no hook has seen yet.
        changes: the files that it has changed.
        repetition: detects a model that goes in circles.
        answer: the visible text that counts as the turn's answer.
        answer_prefix: the text of steps that the next answer continues.
        output: the JSON of a structured answer that fits.
        prevented: why a hook or a tool demands the end of the turn.
        repeats_step: the last step was taken back, so the next one has its number.
        wrapping_up: the step is the last that the limit allows.
        is_prompted: the prefix of requests was prepared in this turn.
        outside: the calls whose results come from outside, with the slot for each result.
        skip_wait: ends the wait before a retry.
        patience: seconds that the host may still be silent.
        host_deadline: the host's effective deadline as last seen.
    """

    counted: RequestUsage | None = None
    may_park: bool = False
    superseded: TurnEnded | None = None
    unseen: list[UserMessage] = attrs.field(factory=list[UserMessage])
    changes: FileChanges = attrs.field(factory=FileChanges)
    repetition: RepetitionDetector = attrs.field(factory=RepetitionDetector)
    answer: str = ""
    answer_prefix: str = ""
    output: str | None = None
    output_tokens: int = 0
    prevented: str | None = None
    repeats_step: bool = False
    wrapping_up: bool = False
    failed_compactions: int = 0
    is_prompted: bool = False
    outside: dict[CallId, Deferred[ToolOutput]] = attrs.field(factory=dict["CallId", "Deferred[ToolOutput]"])
    skip_wait: trio.Event = attrs.field(factory=trio.Event)
    patience: float = float("inf")
    host_deadline: float = float("inf")

    def keep_answer(self, text: str) -> None:
        """Make *text* the turn's answer, after what a continuation must be joined to. Not a checkpoint."""
        # A step with nothing but calls leaves the answer of the step before it.
        if text:
            self.answer = self.answer_prefix + text


@attrs.define(eq=False, repr=False)
class CauseSlot:
    """The one slot for why a turn ends, and the events of its end, in their order.

    A user's cancel, a limit and the end of the loop write the slot themselves. A host's cancel can't: it only appears as
    `Cancelled` in tasks of the turn, and `first_catch` works out the cause.

    Attributes:
        scope: holds the loop and all tasks below it; a turn's own end cancels this scope and nothing else.
        requested: set with the cause.
        loop_gone: the loop's task has ended.
        over: the end is in the record and visible.
        at: when the cause was written, on trio's clock; the deadlines of the cleanup count from it.
        during: what the turn was doing then, for the user.
        flush_scope: of the last flush.
        flush_deadline: when that must be over, on trio's clock, because a turn above this one ends.
    """

    _run: TurnRun
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    requested: trio.Event = attrs.field(factory=trio.Event, init=False)
    loop_gone: trio.Event = attrs.field(factory=trio.Event, init=False)
    over: trio.Event = attrs.field(factory=trio.Event, init=False)
    cause: TurnCause | None = attrs.field(default=None, init=False)
    at: float = attrs.field(default=0.0, init=False)
    during: During = attrs.field(default="waiting", init=False)
    flush_deadline: float = attrs.field(default=float("inf"), init=False)
    flush_scope: trio.CancelScope | None = attrs.field(default=None, init=False)
    _caught: During | None = attrs.field(default=None, init=False)

    @enable_ki_protection
    def begin(self, cause: TurnCause) -> bool:
        """Write the cause, if there is none yet, and cancel the loop's scope; see `TurnRun.end`. Not a checkpoint."""
        if self.cause is not None:
            return False
        # What may raise comes first: a slot that holds a cause while nothing was cancelled would keep the turn for ever.
        now, during = trio.current_time(), self._caught or self._now()
        # All of it before the cancel: the tasks that the scope wakes read the cause.
        self.cause, self.at, self.during = cause, now, during
        # Before the tasks do anything about it, so that each watcher learns why from the first event of the end.
        with suppress(Exception):
            self._announce(cause)
        self.scope.cancel(reason=f"the turn ends: {cause.kind}")
        self.requested.set()
        return True

    def note_doing(self, _: object = None) -> None:
        """Note what the turn is doing, when one of its tasks is cancelled, before that changes. Not a checkpoint."""
        if self.cause is None and self._caught is None:
            self._caught = self._now()

    def catch(self, error: BaseException) -> None:
        """Write the cause, if there is none yet, in a task that the cancel of the whole turn has reached. Not a checkpoint.

        A host's cancel reaches all tasks, in no order; the frame may be the last of them.
        """
        self.note_doing()
        # An interrupt is a cause of its own, which the loop's task writes.
        if first_of(error, KeyboardInterrupt) is None and first_of(error, SystemExit) is None:
            self._run.end(self.first_catch())

    def first_catch(self) -> TurnCause:
        """Return the cause of an end that has written none: a limit above, the turn's own deadline, or the host.

        Only deadlines are compared, never `cancel_called` or `Cancelled.reason`: reading the first one cancels a scope
        whose deadline is over, and the second one names one of several cancels, not the first.
        """
        budget = self._run.budget
        # First: the limit of a turn above arrives as a plain cancel, like a host's.
        above = budget.ancestor_exhausted()
        if above is not None:
            return limit_cause(above)
        # A host's deadline that is even earlier was the one that fired, though both are over by now.
        if budget.deadline <= trio.current_time() and budget.deadline <= self._run.state.host_deadline:
            return self.deadline_cause()
        # Only a sub-agent in the foreground has a bound; for it, the "host" is the call above.
        is_bounded = self._run.inputs.grace_limit is not None
        detail = "the call that ran this sub-agent was cancelled" if is_bounded else "the host cancelled"
        return TurnCause(kind="host", reason="aborted", detail=detail)

    def deadline_cause(self) -> TurnCause:
        """Return the cause of a turn whose time is up."""
        return limit_cause(self._run.budget.expire())

    def _announce(self, cause: TurnCause) -> None:
        """Announce the end, unless the turn has finished by itself, or goes on in another engine. Not a checkpoint."""
        run, kind = self._run, cause.kind
        # The last: a turn that could not even start.
        if kind == "finished" or run.journal.is_closed or run.journal.log.state.turn is None:
            return
        assert kind != "parked"
        calls = () if run.step is None else run.step.ledger.unsettled
        grace = max((entry.grace for entry in calls if entry.state in {"admitted", "running"}), default=GRACE)
        until = run.deps.clock.now() + bounded_grace(run, grace)
        run.journal.append_live(
            TurnEnding(cause=kind, detail=cause.detail, until=until, after=run.journal.log.seq, by=cause.by)
        )

    @property
    def is_parked(self) -> bool:
        """Whether the turn was left open for another engine to go on with."""
        return self.cause is not None and self.cause.kind == "parked"

    def _now(self) -> During:
        step = self._run.step
        if step is None:
            return "waiting"
        if not step.stream_over.is_set():
            return "streaming"
        # A call that waits for the user is at work too, but the turn waits.
        return "tools" if step.ledger.unsettled and not len(self._run.inputs.services.questions) else "waiting"


@attrs.define(eq=False, repr=False, kw_only=True)
class TurnRun:
    """One turn: what its tasks share.

    Attributes:
        deps: its ports; a recovery adds a model.
        registry: its tools; `Session.use_tools` replaces them.
        hidden: the tools that are not offered, because the rules deny everything that they could do.
        children: the turns of sub-agents that its calls wait for.
        step: the open step; None between two steps.
        result: how it ended, once its end is in the record.
    """

    inputs: TurnInputs
    deps: Deps
    registry: Registry
    hidden: frozenset[str] = frozenset()
    journal: TurnJournal
    budget: Budget
    state: TurnState = attrs.field(factory=TurnState)
    ending: CauseSlot = attrs.field(init=False)
    children: list[TurnRun] = attrs.field(factory=list["TurnRun"], init=False)
    step: Step | None = attrs.field(default=None, init=False)
    result: TurnResult | None = attrs.field(default=None, init=False)
    _store_failed: bool = attrs.field(default=False, init=False)
    _store_lags: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.ending = CauseSlot(self)
        # A charge of a sub-agent may exhaust this turn's budget, in a task that knows only the budget.
        self.budget.end = self._end_for_limit
        self.budget.notify = partial(self.notice, "warning", "limit_near")

    def note_changes(self, call_id: CallId, changed: Iterable[str] | None, *, may_have: bool) -> None:
        """Note which files a call reports as changed; None: it reports nothing, though it *may have*. Not a checkpoint."""
        self.state.changes.note(changed, may_have=may_have)
        if self.inputs.services.snapshots is not None:
            self.inputs.services.snapshots.note_end(call_id, changed, may_have=may_have)

    @enable_ki_protection
    def end(self, cause: TurnCause) -> bool:
        """Begin to end the turn; return whether this cause was the first. Not a checkpoint.

        Synchronous and idempotent. It may be called before the turn's tasks have
        started: a scope that is cancelled before it is entered stays cancelled.
        """
        is_first = self.ending.begin(cause)
        if is_first:
            # The children are cancelled with the scope, but may be flushing in a shield of their own.
            for child in self.children:
                child.shorten_flush()
        return is_first

    def crash(self, error: BaseException) -> None:
        """End this turn, and no other, for an error of ours; if it is ending already, only report it. Not a checkpoint."""
        # With a notice, as the cause that was first stays in the result.
        info = ErrorInfo(code="internal", subject=error_number(error))
        if not self.end(TurnCause(kind="crashed", reason="internal_error", detail=describe(error), failure=info)):
            self.notice("warning", "internal_error", f"while the turn was ending: {describe(error)}")

    def notice(self, level: Literal["info", "warning"], code: str, text: str) -> None:
        """Report something to clients. Not a checkpoint."""
        self.journal.append(Notice(level=level, code=code, text=text))

    @property
    def session_id(self) -> SessionId:
        """Its session."""
        return self.journal.log.session_id

    @property
    def cwd(self) -> str:
        """The session's working directory."""
        return self.journal.log.state.context.cwd

    @property
    def hook_runner(self) -> HookRunner:
        """Runs the hooks of the turn, each with its timeout."""
        return HookRunner(self.inputs.settings.hook_timeout, self.notice, transcript=self._write_transcript)

    async def _write_transcript(self) -> str:
        """Bring the session's file for command hooks up to date; return its path. A checkpoint."""
        # Imported here: most sessions have no command hooks.
        from engine.tools.claude_hooks.transcript_file import write_transcript

        return await write_transcript(self.journal.log)

    async def flush(self) -> bool:
        """Wait until everything so far is durable, or the time for that is over; return whether it is.

        A checkpoint; if cancelled, nothing is lost. A store that did not answer in time gets little time from then on,
        until it answers again: a turn of many steps must not wait that long in each.
        """
        # Not through `TurnJournal`: also what came after its end, such as `TurnEnded`, has to be durable.
        journal = self.journal.log
        seconds = self.inputs.settings.durable_within * (_WHEN_IT_LAGS if self._store_lags else _AT_A_BARRIER)
        # A value here, as running out of time is: raised, a store's error would keep the cleanup from ending the turn.
        with ErrorBoundary() as boundary, self.journal.spans.flush(self.journal.turn_id):
            with trio.move_on_after(seconds) as scope:
                await ForeignCall("the store", partial(self.deps.store.flushed, journal.session_id, journal.seq))
            if scope.cancelled_caught:
                raise StoreError(f"it has not answered for {seconds:g} s")
        # The store may have refused an event when it was appended, in a place that could not raise.
        failed = boundary.error or journal.refused
        self._store_lags = failed is not None
        if failed is not None and not self._store_failed:
            # Reported once: the next step would only say the same.
            self._store_failed = True
            report_store(failed, self.notice)
        if isinstance(failed, SessionLost):
            self.end(LOST)
        return failed is None

    def shorten_flush(self) -> None:
        """Limit the last flush to a grace from now, since the turn above ends. Not a checkpoint."""
        limit = self.inputs.grace_limit
        if limit is not None:
            # It may not have begun yet.
            self.ending.flush_deadline = min(self.ending.flush_deadline, trio.current_time() + limit)
            if self.ending.flush_scope is not None:
                # Only ever earlier: the deadline that the cleanup has set stays an upper bound.
                self.ending.flush_scope.deadline = min(self.ending.flush_scope.deadline, self.ending.flush_deadline)
        for child in self.children:
            child.shorten_flush()

    def _end_for_limit(self, exhausted: Exhausted) -> None:
        self.end(limit_cause(exhausted))


def bounded_grace(run: TurnRun, seconds: float) -> float:
    """Return how long a call that may clean up for *seconds* can do so in a turn. Not a checkpoint."""
    limit = run.inputs.grace_limit
    return seconds if limit is None else min(seconds, FLUSH_SHARE * limit)
