"""How a turn begins, and what follows its end: its inputs and services, and the first events of its record.

Beginning is synchronous: there is no checkpoint between the check that the session is idle and the record that a turn has
started, so two turns can't begin at once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.compaction_types import CompactionRequest
from engine.core.errors import NothingParked
from engine.core.events import TurnEnded, TurnResult, TurnStarted
from engine.core.exception_groups import describe
from engine.core.foreign_calls import call_at_end
from engine.core.ids import InputId, MessageId, TurnId
from engine.core.messages import Settlement
from engine.core.permission_types import ScopedApprover
from engine.core.value_base import Value
from engine.journal.closing_events import closing_events
from engine.journal.log import TurnJournal
from engine.nursery.apply_compaction import view_from
from engine.nursery.budget import Budget, SpendingLimit
from engine.nursery.cleanup import not_durable
from engine.nursery.inbox import admit, promote
from engine.nursery.loop_state import CANCELLED, LoopState
from engine.nursery.parking import leave_parked, reopen_turn, resume_mark
from engine.nursery.running_turn import TurnInputs, TurnRun, TurnServices, TurnState
from engine.nursery.turn_snapshots import TurnSnapshots
from engine.permission.permission_scope import active_scopes

if TYPE_CHECKING:
    from engine.agents.agent_result import AgentResult
    from engine.core.context_report import ContextReport
    from engine.core.messages import MediaPart
    from engine.core.permission_types import PermissionScope
    from engine.core.settings import Limits, Settings
    from engine.journal.state import PendingInput
    from engine.nursery.call_ledger import CallEntry
    from engine.session.live_session import LiveSession
    from engine.session.structured_output import OutputSpec

# A sub-agent's calls must be settled within the grace period of the call above, or that one is settled without a
# result.
CHILD_SHARE: Final = 0.8


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ParentTurn(Value):
    """The turn and the call that a sub-agent's turn belongs to.

    Attributes:
        agent: the agent's name; empty: it has none.
        in_background: whether it may outlive that turn.
    """

    run: TurnRun
    entry: CallEntry
    agent: str = ""
    in_background: bool = False

    @property
    def chain(self) -> tuple[PermissionScope, ...]:
        """The permission scopes that bound it."""
        return active_scopes(self.run.inputs.chain, self.entry.shared)

    @property
    def grace(self) -> float | None:
        """The longest grace period of its calls; None: as long as they declare."""
        if self.in_background:
            return None
        limit = self.run.inputs.grace_limit
        return CHILD_SHARE * (self.entry.grace if limit is None else min(self.entry.grace, limit))

    def settle(self, child: TurnRun, result: TurnResult) -> None:
        """Settle the call when the child is over, if the parent is being cancelled. Not a checkpoint.

        Called before the child's last task has ended: that may be a tool which will not stop, and the parent's grace
        period is short.
        """
        if self.in_background:
            return
        # The parent may end before the child's block is left.
        self.run.state.changes.add(child.state.changes)
        if self.run.ending.cause is None or self.run.step is None:
            return
        # Imported here: most turns have no sub-agents.
        from engine.agents.reports import render_cancelled, result_facts

        child_result = agent_result(child, result)
        self.run.step.ledger.settle(
            self.entry,
            Settlement(
                status="aborted",
                reason="cancelled",
                text=render_cancelled(self.agent, child_result),
                metadata=result_facts(self.agent, child_result) if self.agent else "",
            ),
        )


def agent_result(run: TurnRun, result: TurnResult) -> AgentResult:
    """Return the result of a sub-agent's turn, for the tool that started it. Not a checkpoint."""
    # Imported here: most turns have no sub-agents.
    from engine.agents.agent_result import AgentResult

    return AgentResult(
        session_id=run.session_id,
        changed=tuple(run.state.changes.files),
        changes_known=run.state.changes.are_complete,
        **attrs.asdict(result, recurse=False),
    )


@enable_ki_protection
def begin_turn(
    session: LiveSession,
    prompt: str | PendingInput | CompactionRequest,
    *,
    attachments: tuple[MediaPart, ...] = (),
    input_id: InputId | None = None,
    by: str = "",
    settings: Settings | None = None,
    output: type[attrs.AttrsInstance] | OutputSpec | None = None,
    parent: ParentTurn | None = None,
) -> TurnRun:
    """Start a turn: its prompt is in the transcript when this returns. Not a checkpoint."""
    session.check_open()
    session.check_no_turn()
    turn_id = TurnId(session.deps.ids.new("turn"))
    run = _new_run(
        session,
        turn_id,
        settings or session.config.settings,
        compaction=prompt if isinstance(prompt, CompactionRequest) else None,
        output=output,
        parent=parent,
    )
    # No checkpoint, so no cancel; but ports are called, which may raise.
    try:
        # A new prompt ends a parked turn, whose question may be months old.
        leave_parked(run)
        call_id = None if parent is None else parent.entry.call_id
        run.journal.append(TurnStarted(call_id=call_id, resume=resume_mark(run.inputs)))
        if isinstance(prompt, str):
            ids = session.deps.ids
            admit(
                session.journal,
                ids,
                prompt,
                "prompt",
                attachments=attachments,
                input_id=input_id,
                turn_id=turn_id,
                by=by,
            )
        if not isinstance(prompt, CompactionRequest):
            promote(run, None if isinstance(prompt, str) else prompt)
        _note_unknown_models(session, run)
        _note_sweep_failure(session, run)
        if parent is None and not isinstance(prompt, CompactionRequest):
            _ask_for_title(session, prompt if isinstance(prompt, str) else prompt.message.text)
    except BaseException as error:
        _abandon(session, run, error)
        raise
    return run


@enable_ki_protection
def begin_queued_turn(session: LiveSession) -> TurnRun | None:
    """Start a turn with the next queued input, or with a report, if the session is idle. Not a checkpoint."""
    queued = session.input.next_queued()
    if queued is None:
        return None
    run = begin_turn(session, queued)
    let_park(session, run)
    return run


@enable_ki_protection
def resume_turn(session: LiveSession, *, settings: Settings) -> TurnRun:
    """Resume the turn that another engine has left open: parked, or interrupted. Not a checkpoint."""
    session.check_open()
    session.check_no_turn()
    turn = session.journal.state.turn
    if turn is None:
        raise NothingParked(f"session {session.id} has no parked turn to resume")
    if turn.step is not None:
        # It does not start over, so it waits for no source of tools.
        session.tools.is_ready = True
    run = _new_run(session, turn.turn_id, settings)
    try:
        # As for a new turn: no checkpoint, but ports are called, which may raise.
        reopen_turn(run)
        _note_unknown_models(session, run)
    except BaseException as error:
        _abandon(session, run, error)
        raise
    return run


@enable_ki_protection
def cancel_turn(session: LiveSession, turn_id: TurnId, by: str) -> bool:
    """Cancel the turn with that id; return whether it is ending now (see `Session.cancel`). Not a checkpoint."""
    session.check_open()
    parked = session.journal.state.turn
    if session.active is None and parked is not None and parked.turn_id == turn_id:
        # Resumed, so that it ends like any other: its calls are settled, and its end is seen once it is durable. None of
        # its tasks has run when the cancel reaches them.
        session.engine.tasks.run_turn(resume_turn(session, settings=session.config.settings))
    run = session.active
    # A turn that is just being parked goes on in another engine.
    if run is None or run.journal.turn_id != turn_id or run.ending.is_parked:
        return False
    run.end(attrs.evolve(CANCELLED, by=by))
    return True


def let_park(session: LiveSession, run: TurnRun) -> None:
    """Allow a turn in the engine's nursery to be parked, if the settings allow it and the store outlives the engine.

    Not a checkpoint.

    A turn in a host's block is never parked: once the block is left, the turn must have ended.
    """
    run.state.may_park = run.inputs.settings.park and session.engine.setup.is_kept


def _new_run(
    session: LiveSession,
    turn_id: TurnId,
    settings: Settings,
    *,
    compaction: CompactionRequest | None = None,
    output: type[attrs.AttrsInstance] | OutputSpec | None = None,
    parent: ParentTurn | None = None,
) -> TurnRun:
    session.own_hooks.cancel_idle()
    # From the root down, each session with its turn: a grant for a turn holds for its sub-agents, too.
    chain = (*(() if parent is None else parent.chain), *session.config.permission_scopes(session.id, turn_id))
    spec = None
    if output is not None:
        # Imported here, as in `Session.run`: most turns answer in plain text.
        from engine.session.structured_output import OutputSpec, output_spec

        spec = output if isinstance(output, OutputSpec) else output_spec(output)
    journal = TurnJournal(session.journal, turn_id)
    inputs = TurnInputs(
        settings=settings,
        hooks=session.engine.setup.hooks,
        services=_services(
            session, _snapshots_of(session, journal) if parent is None else parent.run.inputs.services.snapshots
        ),
        chain=chain,
        is_child=parent is not None,
        grace_limit=None if parent is None else parent.grace,
        compaction=compaction,
        output_schema=None if spec is None else spec.schema,
        check_output=None if spec is None else spec.check,
        on_ended=partial(_turn_ended, session, parent),
        on_parked=partial(_turn_parked, session),
        must_claim=session.engine.store.needs_claim(session.id),
    )
    run = TurnRun(
        inputs=inputs,
        deps=session.deps,
        registry=session.tools.registry(),
        hidden=session.requests.hidden_tools(chain, settings.agent_depth),
        journal=journal,
        budget=_budget(settings.limits, parent, session.engine.setup.ports.spending),
        state=TurnState(counted=session.requests.counted),
    )
    # The session is busy from here on, before anything is recorded; `_abandon` reverts that.
    session.active = run
    return run


def _services(session: LiveSession, snapshots: TurnSnapshots | None) -> TurnServices:
    engine = session.engine
    return TurnServices(
        agents=session.background,
        context_report=partial(report_context, session),
        questions=session.questions,
        traffic=engine.traffic,
        spills=engine.setup.spills.of(session.journal.path[0]),
        edit_reviewer=session.config.edit_reviewer,
        editor=session.config.editor,
        secrets=engine.setup.secrets,
        prompt=session.config.prompt,
        touched=session.requests.touched,
        snapshots=snapshots,
        jitter=engine.setup.jitter,
        tools=session.tools,
        deferral=engine.deferral,
    )


def _snapshots_of(session: LiveSession, journal: TurnJournal) -> TurnSnapshots | None:
    snapshots = session.deps.snapshots
    if snapshots is None:
        return None
    last = session.background.last_snapshots
    return TurnSnapshots(
        snapshots=snapshots,
        journal=journal,
        cwd=lambda: session.journal.state.context.cwd,
        trace=session.deps.trace,
        has_jobs=lambda: session.background.has_running_jobs,
        now=session.deps.clock.now,
        previous=last if last is not None and last.is_unfinished else None,
    )


def _ask_for_title(session: LiveSession, prompt: str) -> None:
    """Ask a small model for a title if the session has none and this is its first turn. Not a checkpoint."""
    model, state = session.engine.titler, session.journal.state
    has_title = state.titled_by or state.turns or session.background.title_done is not None
    if model is None or has_title or len(session.journal.path) > 1:
        return
    done = trio.Event()

    # Imported here: only the first turn of a session asks, and only if a model for titles is configured.
    from engine.session.titles import ask_for_title

    ask = partial(ask_for_title, traffic=session.engine.traffic, spending=session.engine.setup.ports.spending)

    # In the engine's nursery: the turn may have ended, and its block been left, before the title arrives.
    async def work() -> None:
        try:
            await ask(session.journal, model, session.deps.ids, prompt)
        finally:
            done.set()

    # Only if the task has started, or `SessionBackground.titled` would wait for ever.
    scope = session.engine.tasks.start(work, name=f"title of {session.id}")
    if scope is not None:
        session.background.title_done, session.background.title_scope = done, scope


def _note_unknown_models(session: LiveSession, run: TurnRun) -> None:
    for info in (model.info for model in run.deps.models):
        if not info.is_known and session.engine.models.is_first_mention(info.name):
            run.notice(
                "warning",
                "unknown_model",
                f"Unknown model {info.name}: assuming {info.context:,} tokens of context, answers of {info.output:,} "
                f'and no price. Next: [models."{info.name}"] in the configuration',
            )


def _note_sweep_failure(session: LiveSession, run: TurnRun) -> None:
    problem = session.engine.setup.spills.take_warning()
    if problem:
        run.notice("warning", "spill_not_swept", problem)


def _abandon(session: LiveSession, run: TurnRun, error: BaseException) -> None:
    """End a turn that could not start because a port raised; it never had a task. Not a checkpoint."""
    session.active = None
    run.crash(error)
    superseded, turn = run.state.superseded, session.journal.state.turn
    if turn is not None and turn.turn_id == run.journal.turn_id:
        # Nobody is left to wait for the store.
        result = TurnResult(stop_reason="internal_error", detail=describe(error), durable=False)
        # No port is used here, not even for an id: it may be the one that failed.
        for event in closing_events(session.journal.state, MessageId(f"{run.journal.turn_id}_results")):
            if not isinstance(event, TurnEnded):
                run.journal.append(event)
        run.journal.close(TurnEnded(result=result))
    session.journal.release(None if superseded is None else not_durable(superseded))


def _budget(limits: Limits, parent: ParentTurn | None, spending: SpendingLimit | None) -> Budget:
    seconds = limits.seconds
    # Absolute, from the turn's start: waiting for the user counts, too.
    deadline = float("inf") if seconds is None else trio.current_time() + seconds
    if parent is None:
        return Budget(limits=limits, deadline=deadline) if spending is None else spending.turn_budget(limits, deadline)
    return Budget(limits=limits, parent=parent.run.budget, deadline=deadline, is_detached=parent.in_background)


# -- when the turn is over -----------------------------------------------------------------------


def _turn_parked(session: LiveSession, run: TurnRun) -> None:
    """Make the session idle after its turn was parked. Not a checkpoint."""
    if session.active is run:
        session.active = None
    session.tools.end_turn()


def _turn_ended(session: LiveSession, parent: ParentTurn | None, run: TurnRun, result: TurnResult) -> None:
    """Make the session idle once the turn's end is visible, and start what is queued. Not a checkpoint."""
    if session.active is run:
        session.active = None
    session.tools.end_turn()
    session.requests.counted = run.state.counted
    # The store may save the state of the session, so that opening it again reads fewer events.
    call_at_end("`save_state` of the store", session.engine.store.save_state, session.journal.state)
    if isinstance(session.deps.approver, ScopedApprover):
        call_at_end("`end_turn` of the approver", session.deps.approver.end_turn, run.journal.turn_id)
    if parent is None:
        snapshots = session.background.last_snapshots = run.inputs.services.snapshots
        if snapshots is not None and snapshots.is_unfinished:
            session.engine.tasks.start(snapshots.finish, name=f"last snapshot of a turn of {session.id}")
    is_finished = run.ending.cause is not None and run.ending.cause.kind == "finished"
    if parent is not None:
        parent.settle(run, result)
    elif is_finished:
        # Only if it ended by itself: a user who has cancelled wants to look first.
        session.input.try_start_queued_turn()
    if parent is None and session.active is None:
        session.own_hooks.start_idle(result)


# -- what the next request would be --------------------------------------------------------------


def report_context(session: LiveSession) -> ContextReport:
    """Return what fills the window of a session's next request. Not a checkpoint."""
    # Imported here: seldom used.
    from engine.compaction.compaction_policy import report_of

    run, deps, state = session.active, session.deps, session.journal.state
    settings = session.config.settings if run is None else run.inputs.settings
    # Bounds do not hide tools, so the session's own scope is enough.
    own = session.config.permission_scopes(session.id, TurnId(""))[-1:]
    view = view_from(
        state,
        deps.models[0].info,
        session.tools.registry() if run is None else run.registry,
        loop=LoopState(settings=settings),
        hidden=session.requests.hidden_tools(own, settings.agent_depth) if run is None else run.hidden,
        system=settings.system if state.prompt is None else state.prompt.text,
        counted=session.requests.counted if run is None else run.state.counted,
    )
    sections = () if state.prompt is None else state.prompt.sections
    return report_of(deps.keeper, view, sections)
