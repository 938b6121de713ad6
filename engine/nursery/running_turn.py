"""`TurnRun`: what the tasks of one turn share, and the one slot for why it ends."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Literal, Protocol

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.deferred import Deferred
from engine.core.errors import StoreError
from engine.core.events import During, Notice, StopReason, TurnResult
from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.hooks import Hooks
from engine.core.ids import CallId, SessionId
from engine.core.messages import UserMessage
from engine.core.permission_types import PermissionScope
from engine.core.protocols import Deps
from engine.core.settings import Settings
from engine.journal.log import TurnJournal
from engine.nursery.budget import Budget, Exhausted
from engine.nursery.file_changes import Changes
from engine.nursery.loop_detection import DoomWindow
from engine.nursery.questions import Questions
from engine.nursery.rate_limiter import Traffic
from engine.nursery.snapshots import TurnSnapshots
from engine.tools.call_values import ToolOutput
from engine.tools.hook_runner import HookRunner
from engine.tools.output.spill import Spills
from engine.tools.registry import Registry

if TYPE_CHECKING:
    from engine.agents.background import AgentJob, AgentJobs
    from engine.core.agent_result import AgentResult
    from engine.core.compaction_types import CompactionWish
    from engine.core.context_report import ContextReport
    from engine.nursery.call_ledger import Entry
    from engine.nursery.context_window import Counted
    from engine.nursery.step import Step
    from engine.prompt.layers import PromptLayers
    from engine.tools.background_jobs import Jobs
    from engine.tools.context import AgentRequest, EditReviewer

# Of `Settings.durable_within`: a little more, so that a store which gives a lock up after just so long can say why.
_AT_A_BARRIER: Final = 1.1
_WHEN_IT_LAGS: Final = 0.1

CauseKind = Literal["finished", "user", "left", "host", "limit", "rejected", "doom", "crashed", "parked"]


@attrs.frozen(kw_only=True)
class Cause:
    """Why a turn ends; the first one wins."""

    kind: CauseKind
    reason: StopReason
    detail: str = ""
    reset_at: float | None = None


class AgentRunner(Protocol):
    """What calls need of their session: sub-agents, what else outlives a call, and what is known of its window."""

    @property
    def jobs(self) -> Jobs:
        """The background jobs of the turn's session."""
        ...

    @property
    def agents(self) -> AgentJobs:
        """The sub-agents that work in the background for the turn's session."""
        ...

    def context_report(self) -> ContextReport:
        """Return what fills the window of the session's model."""
        ...

    async def run_agent(self, run: TurnRun, entry: Entry, errand: AgentRequest) -> AgentResult:
        """Run a turn of a child session inside the calling task, for the call *entry* of *run*."""
        ...

    async def start_agent(self, run: TurnRun, entry: Entry, errand: AgentRequest) -> AgentJob:
        """Start a turn of a child session that goes on when the call, and *run*, are over."""
        ...


@attrs.define(eq=False, kw_only=True)
class TurnRun:
    """One turn.

    Attributes:
        scope: holds the loop and all below it; a user's cancel cancels this and nothing else.
        chain: the sessions from the root to this one, each with its turn: the rights of all of them bound a call.
        is_child: it is a sub-agent's.
        wish: the turn is for nothing but this compaction; None: it answers somebody.
        counted: what the last request of the session took.
        grace_limit: the longest grace of any call, where a parent's grace bounds it.
        spills: what the tree of sessions has kept of long outputs; None: nothing is kept.
        around: what happens around each change of a file; None: nothing.
        prompt: what requests begin with is made of these; None: it is what the settings say.
        touched: the files and folders that tools have worked on since it was looked for instructions; the session's, since
            a turn may end before that.
        is_prompted: what requests begin with was looked at in this turn.
        snapshots: of the files, around what the turn changes; a sub-agent has those of the turn above. None: nobody takes them.
        hidden: the tools that are not offered, because the rules deny all that they could do.
        check_output: returns the JSON of a structured answer, or what is wrong with it.
        on_ended: told of the result, once the end is visible.
        on_parked: told that the turn was left as it waits.
        parks: it may be left so, if it only waits.
        outside: the calls whose results come from outside, and where those go.
        unseen: what the user has said and no hook has seen.
        changes: what it has changed in files, as far as its tools tell.
        answer: the visible text that counts as the turn's answer.
        host_deadline: the host's effective deadline as last seen.
    """

    deps: Deps
    settings: Settings
    registry: Registry
    hooks: Hooks
    journal: TurnJournal
    budget: Budget
    questions: Questions
    agents: AgentRunner
    traffic: Traffic
    spills: Spills | None
    chain: tuple[PermissionScope, ...]
    around: EditReviewer | None = None
    snapshots: TurnSnapshots | None = None
    prompt: PromptLayers | None = None
    touched: dict[str, None] = attrs.field(factory=dict[str, None])
    hidden: frozenset[str] = frozenset()
    is_child: bool = False
    wish: CompactionWish | None = None
    counted: Counted | None = None
    grace_limit: float | None = None
    output_schema: str | None = None
    check_output: Callable[[str], tuple[str | None, str | None]] | None = None
    on_ended: Callable[[TurnResult], None] | None = None
    on_parked: Callable[[], None] | None = None
    parks: bool = False
    jitter: Callable[[], float]
    doom: DoomWindow = attrs.field(factory=DoomWindow, init=False)
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    ended: trio.Event = attrs.field(factory=trio.Event, init=False)
    loop_gone: trio.Event = attrs.field(factory=trio.Event, init=False)
    over: trio.Event = attrs.field(factory=trio.Event, init=False)
    cause: Cause | None = attrs.field(default=None, init=False)
    ended_at: float = attrs.field(default=0.0, init=False)
    during: During = attrs.field(default="waiting", init=False)
    caught: During | None = attrs.field(default=None, init=False)
    step: Step | None = attrs.field(default=None, init=False)
    is_prompted: bool = attrs.field(default=False, init=False)
    result: TurnResult | None = attrs.field(default=None, init=False)
    flushing: trio.CancelScope | None = attrs.field(default=None, init=False)
    children: list[TurnRun] = attrs.field(factory=list["TurnRun"], init=False)
    unseen: list[UserMessage] = attrs.field(factory=list[UserMessage], init=False)
    changes: Changes = attrs.field(factory=Changes, init=False)
    answer: str = attrs.field(default="", init=False)
    answer_prefix: str = attrs.field(default="", init=False)
    output: str | None = attrs.field(default=None, init=False)
    output_tokens: int = attrs.field(default=0, init=False)
    prevented: str | None = attrs.field(default=None, init=False)
    repeats_step: bool = attrs.field(default=False, init=False)
    wrapping_up: bool = attrs.field(default=False, init=False)
    failed_compactions: int = attrs.field(default=0, init=False)
    outside: dict[CallId, Deferred[ToolOutput]] = attrs.field(
        factory=dict["CallId", "Deferred[ToolOutput]"], init=False
    )
    skip_wait: trio.Event = attrs.field(factory=trio.Event, init=False)
    host_deadline: float = attrs.field(default=float("inf"), init=False)
    store_failed: bool = attrs.field(default=False, init=False)
    store_lags: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.budget.end = self._end_for_limit

    @enable_ki_protection
    def end(self, cause: Cause) -> bool:
        """Begin to end the turn; return whether this cause was the first. Not a checkpoint.

        Synchronous and idempotent. It may be called before the turn's tasks have
        started: a scope that is cancelled before it is entered stays cancelled.
        """
        if self.cause is not None:
            return False
        self.cause = cause
        self.ended_at = trio.current_time()
        self.during = self.caught or self._during()
        self.scope.cancel(reason=f"the turn ends: {cause.kind}")
        self.ended.set()
        for child in self.children:
            child.hurry()
        return True

    def hurry(self) -> None:
        """The turn above ends: a flush that is under way has no more time than a grace. Not a checkpoint."""
        if self.flushing is not None and self.grace_limit is not None:
            soon = trio.current_time() + self.grace_limit
            self.flushing.deadline = min(self.flushing.deadline, soon)
        for child in self.children:
            child.hurry()

    def catch(self) -> None:
        """A task of the turn was cancelled: note where the turn is, before that changes. Not a checkpoint.

        A host's cancel reaches all tasks, in no order; the frame, which names the
        cause, may be the last of them.
        """
        if self.cause is None and self.caught is None:
            self.caught = self._during()

    def crash(self, error: BaseException) -> None:
        """An error of ours: it ends this turn and no other; if it is ending already, it is told. Not a checkpoint."""
        if not self.end(Cause(kind="crashed", reason="internal_error", detail=describe(error))):
            self.notice("warning", "internal_error", f"while the turn was ending: {describe(error)}")

    def first_catch(self) -> Cause:
        """Return the cause when nobody named one: a limit above, the own deadline, or the host.

        Only deadlines are compared, never `cancel_called` or `Cancelled.reason`:
        reading the first fires it, the second names the wrong one of two.
        """
        above = self.budget.ancestor_exhausted()
        if above is not None:
            return Cause(kind="limit", reason=above.reason, detail=above.detail)
        deadline = self.budget.deadline
        if deadline <= trio.current_time() and deadline <= self.host_deadline:
            return self.deadline_cause()
        inside = "the call that ran this sub-agent was cancelled" if self.grace_limit is not None else ""
        return Cause(kind="host", reason="aborted", detail=inside or "the host cancelled")

    def deadline_cause(self) -> Cause:
        """Return the cause of a turn whose time is up."""
        exhausted = self.budget.expire()
        return Cause(kind="limit", reason=exhausted.reason, detail=exhausted.detail)

    def keep_answer(self, text: str) -> None:
        """Make *text* the turn's answer, after what a continuation must be joined to. Not a checkpoint."""
        if text:
            self.answer = self.answer_prefix + text

    def notice(self, level: Literal["info", "warning"], code: str, text: str) -> None:
        """Tell whoever watches. Not a checkpoint."""
        self.journal.append(Notice(level=level, code=code, text=text))

    @property
    def is_parked(self) -> bool:
        """Whether it was left as it waits, for another engine to go on with."""
        return self.cause is not None and self.cause.kind == "parked"

    @property
    def session_id(self) -> SessionId:
        """Its session."""
        return self.journal.log.session_id

    @property
    def cwd(self) -> str:
        """The session's working directory."""
        return self.journal.log.state.context.cwd

    @property
    def system(self) -> str:
        """What the next request begins with."""
        prompt = self.journal.log.state.prompt
        return self.settings.system if self.prompt is None or prompt is None else prompt.text

    @property
    def desk(self) -> HookRunner:
        """Where hooks are asked."""
        return HookRunner(self.settings.hook_timeout, self.notice)

    async def flush(self) -> bool:
        """Wait until all so far is durable, for as long as the settings say; return whether it is.

        A checkpoint; if cancelled, nothing is lost. A store that was waited for in vain has little time from then on,
        until it answers: a turn of many steps must not wait as long for each.
        """
        journal = self.journal.log
        seconds = self.settings.durable_within * (_WHEN_IT_LAGS if self.store_lags else _AT_A_BARRIER)
        # Whatever a store raises is an answer: raised here it would keep a turn from its end.
        with ErrorBoundary() as boundary:
            with trio.move_on_after(seconds) as scope:
                await self.deps.store.flushed(journal.session_id, journal.seq)
            if scope.cancelled_caught:
                raise StoreError(f"it has not answered for {seconds:g} s")
        failed = boundary.error or journal.refused
        self.store_lags = failed is not None
        if failed is not None and not self.store_failed:
            self.store_failed = True
            self.notice("warning", "not_durable", f"the store failed: {describe(failed)}")
        return failed is None

    def _end_for_limit(self, exhausted: Exhausted) -> None:
        self.end(Cause(kind="limit", reason=exhausted.reason, detail=exhausted.detail))

    def _during(self) -> During:
        if self.step is None:
            return "waiting"
        if not self.step.stream_over.is_set():
            return "streaming"
        return "tools" if self.step.ledger.unsettled and not len(self.questions) else "waiting"
