"""`LiveSession`: a session that is open in this engine, as its handle, its turns and its sub-agents share it.

Hosts hold a `Session`, which delegates to one of these.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal, final

import attrs
import trio

from engine.core.errors import EngineClosed, SessionBusy, SessionError
from engine.core.events import ModelSwitched, Notice, TurnResult
from engine.core.exception_groups import describe
from engine.core.hooks import Hooks
from engine.core.ids import InputId, SessionId, TurnId
from engine.core.permission_types import HidingApprover, PermissionScope, ScopedApprover
from engine.core.protocols import Deps
from engine.journal.log import Journal
from engine.nursery.hook_points import run_idle_hooks, run_session_end_hooks, run_session_start_hooks
from engine.nursery.inbox import admit, report
from engine.nursery.parking import check_not_parked, park
from engine.nursery.questions import Questions
from engine.nursery.running_turn import TurnCause, TurnRun
from engine.session.answers import require_text
from engine.session.background_work import SessionBackground
from engine.session.session_config import SessionConfig
from engine.tools.hook_runner import HookRunner
from engine.tools.registry import Registry

if TYPE_CHECKING:
    from engine.core.context_report import ContextReport
    from engine.journal.state import PendingInput
    from engine.nursery.context_window import Counted
    from engine.session.engine_runtime import EngineRuntime
    from engine.session.sub_agents import ParentTurn
    from engine.session.validation import ModelChoice

# The permissions of tools that start sub-agents and look after them.
SUB_AGENTS = frozenset({"task", "task_output", "task_stop"})


@final
@attrs.define(eq=False, kw_only=True)
class LiveSession:
    """A session that is open in this engine.

    Attributes:
        config: how its turns work; replaced whole, between turns or by `use_tools`.
        questions: the open questions of its turn and of its sub-agents.
        active: the turn that runs; None: it is idle.
        counted: what the last request took.
        touched: the files and folders that tools have worked on since instructions were last looked for.
        title_done: set once a model that was asked for a title has answered, or was given up; None: none was asked.
        idle_hooks: cancels the hooks that were told that it is idle.
        is_reverting: files are being put back, so no turn may begin.
    """

    engine: EngineRuntime
    journal: Journal
    deps: Deps
    hooks: Hooks
    config: SessionConfig
    questions: Questions
    background: SessionBackground = attrs.field(init=False)
    active: TurnRun | None = attrs.field(default=None, init=False)
    counted: Counted | None = attrs.field(default=None, init=False)
    touched: dict[str, None] = attrs.field(factory=dict[str, None], init=False)
    title_done: trio.Event | None = attrs.field(default=None, init=False)
    idle_hooks: trio.CancelScope | None = attrs.field(default=None, init=False)
    is_reverting: bool = attrs.field(default=False, init=False)
    _has_missed_start: bool = attrs.field(default=False, init=False)
    # Decided once for a set of tools: requests begin with them, and are cheap only as long as they begin alike.
    _hidden: tuple[Registry, frozenset[str]] | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.background = SessionBackground(self, self.engine)

    @property
    def id(self) -> SessionId:
        """Its identifier."""
        return self.journal.session_id

    # -- what it may do now ---------------------------------------------------------------

    def check_open(self) -> None:
        """Raise `EngineClosed`, or `SessionError` if it is a sub-agent's that was closed."""
        if self.engine.is_closed:
            raise EngineClosed("the engine was closed; open a new one")
        if self.journal.is_closed:
            raise SessionError(
                f"session {self.id} was let go of when its sub-agent had ended: open it again, with open_session()"
            )

    def check_idle(self) -> None:
        """Raise `SessionBusy` while a turn runs, `TurnParked` if one is parked."""
        self.check_no_turn()
        check_not_parked(self.journal.state)

    def check_no_turn(self) -> None:
        """Raise `SessionBusy` while a turn runs or files are put back."""
        if self.is_reverting:
            raise SessionBusy(f"files are being put back in session {self.id}; wait until that is done")
        if self.active is not None:
            raise SessionBusy(
                f"a turn is running in session {self.id}; wait for its end, steer it, or use session.queue()"
            )

    @contextmanager
    def reverting(self) -> Generator[None]:
        """Keep turns from beginning while the past is changed. Not a checkpoint. Raises `SessionBusy`, `EngineClosed`."""
        self.check_open()
        self.check_idle()
        self.is_reverting = True
        try:
            yield
        finally:
            self.is_reverting = False
            if self._has_missed_start:
                # Input that was queued meanwhile, and reports that came.
                self.start_queued_turn()

    # -- its tools and models ---------------------------------------------------------------

    def use_tools(self, registry: Registry) -> None:
        """Use other tools, from the next request on. Not a checkpoint."""
        self.config = attrs.evolve(self.config, registry=registry)
        if self.active is not None:
            self.active.registry = registry
            self.active.hidden = self.hidden_tools(self.active.inputs.chain, self.active.inputs.settings.agent_depth)

    def use_models(self, choices: tuple[ModelChoice, ...]) -> None:
        """Use other models, from the next turn on. Not a checkpoint."""
        self.deps = attrs.evolve(self.deps, models=self.engine.models.models_of(choices))
        self.config = attrs.evolve(self.config, choices=choices)
        self.journal.append(ModelSwitched(model=self.deps.models[0].info.name))

    def permission_scopes(self, turn_id: TurnId) -> tuple[PermissionScope, ...]:
        """Return what it adds to the chain of those whose rules bound a call. Not a checkpoint."""
        own = PermissionScope(session_id=self.id, turn_id=turn_id, rules=self.config.rules)
        bounds = self.config.bounds
        return (attrs.evolve(own, rules=bounds, is_bound=True), own) if bounds else (own,)

    def hidden_tools(self, chain: tuple[PermissionScope, ...], agent_depth: int) -> frozenset[str]:
        """Return the tools that are not offered, because the rules deny all that they could do. Not a checkpoint."""
        registry = self.config.registry
        if self._hidden is None or self._hidden[0] is not registry:
            approver, cwd, hidden = self.deps.approver, self.journal.state.context.cwd, frozenset[str]()
            if isinstance(approver, HidingApprover):
                # Bounds may end in the middle of a turn, and requests should go on to begin alike.
                lasting = tuple(link for link in chain if not link.is_bound)
                hidden = registry.hidden_by(partial(approver.hides, lasting, cwd))
            self._hidden = registry, hidden
        is_deepest = len(self.journal.path) > agent_depth
        return self._hidden[1] | (registry.hidden_by(SUB_AGENTS.__contains__) if is_deepest else frozenset[str]())

    def context_report(self) -> ContextReport:
        """Return what fills the model's window: of the request that would be sent next. Not a checkpoint."""
        # Imported here: most sessions are never asked.
        from engine.session.session_context import report_on

        return report_on(self)

    # -- input ----------------------------------------------------------------------------------

    def admit(
        self, text: str, mode: Literal["steer", "queue"], input_id: str | None, turn_id: TurnId | None = None
    ) -> InputId:
        """Admit a steer or queued input. Not a checkpoint."""
        own_id = None if input_id is None else InputId(require_text(input_id, "an input id"))
        return admit(self.journal, self.deps.ids, text, mode, input_id=own_id, turn_id=turn_id)

    def report(self, text: str, display: str, *, may_wake: bool) -> None:
        """Admit a report of background work, for the model: now, in a turn of its own, or in the next one. Not a checkpoint."""
        if self.journal.is_closed:
            return
        admit_report = partial(report, self.journal, self.deps.ids, text, display=display)
        if self.active is not None and self.active.ending.cause is None:
            admit_report("steer", turn_id=self.active.journal.turn_id)
        elif self.active is not None or self.journal.state.turn is not None:
            # The turn is ending, or parked. If it ends by itself the report begins the next one, else it waits for a prompt.
            admit_report("steer")
        elif may_wake and self.config.settings.wake_on_report and not self.engine.is_closed:
            admit_report("queue")
            self.start_queued_turn()
        else:
            admit_report("steer")

    def next_queued(self) -> PendingInput | None:
        """Return the input that the next turn begins with, if one may begin now. Not a checkpoint."""
        self._has_missed_start = self.is_reverting
        if self.active is not None or self.is_reverting or self.journal.state.turn is not None:
            return None
        inbox = self.journal.state.inbox
        # A report that came when the last turn had looked for the last time.
        late = (item for item in inbox if item.message.origin == "engine" and self.config.settings.wake_on_report)
        return next((item for item in inbox if item.mode == "queue"), None) or next(late, None)

    def start_queued_turn(self) -> None:
        """Begin the next queued turn. That it can't begin is no fault of the one that is over. Not a checkpoint."""
        try:
            self.engine.start_queued_turn(self)
        except Exception as error:  # noqa: BLE001  # raised here it would end the turn's host, or all turns of the engine
            text = f"the next queued input could not be started: {describe(error)}"
            self.notice("warning", "internal_error", text)

    # -- the end of a turn ----------------------------------------------------------------------

    def end_turn(self, cause: TurnCause) -> TurnRun | None:
        """End the turn that is running, if any, or park it, and return it. Not a checkpoint."""
        if self.active is not None and not park(self.active):
            self.active.end(cause)
        return self.active

    def turn_parked(self, run: TurnRun) -> None:
        """A turn was parked: the session is free. Not a checkpoint."""
        if self.active is run:
            self.active = None

    def turn_ended(self, parent: ParentTurn | None, run: TurnRun, result: TurnResult) -> None:
        """The end of a turn is visible: the session is idle. Not a checkpoint."""
        if self.active is run:
            self.active = None
        self.counted = run.state.counted
        self.engine.remember(self.journal)
        if isinstance(self.deps.approver, ScopedApprover):
            self.deps.approver.end_turn(run.journal.turn_id)
        finished = run.ending.cause is not None and run.ending.cause.kind == "finished"
        if parent is not None:
            parent.settle(run, result)
        elif finished:
            self.start_queued_turn()
        if parent is None and self.active is None and self.hooks.idle:
            tell = partial(run_idle_hooks, self.hooks, self.hook_runner, self.journal, result)
            self.idle_hooks = self.engine.run_in_background(tell, name=f"idle hooks of {self.id}")

    # -- hooks and notices ----------------------------------------------------------------------

    @property
    def hook_runner(self) -> HookRunner:
        """Runs its hooks outside of turns."""
        return HookRunner(self.config.settings.hook_timeout, self.notice)

    async def run_start_hooks(self, source: Literal["new", "resumed"]) -> None:
        """Tell the hooks that it starts. A checkpoint if a hook is one."""
        model = self.deps.models[0].info.name
        await run_session_start_hooks(
            self.hooks, self.hook_runner, self.journal, self.deps.ids, source=source, model=model
        )

    async def run_end_hooks(self, until: float) -> None:
        """Tell the hooks that it ends; they have time until then. A checkpoint if a hook is one."""
        await run_session_end_hooks(self.hooks, attrs.evolve(self.hook_runner, until=until), self.journal)

    def notice(self, level: Literal["info", "warning"], code: str, text: str) -> None:
        """Tell whoever watches. Not a checkpoint."""
        self.journal.append(Notice(level=level, code=code, text=text))
