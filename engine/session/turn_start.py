"""How a turn of a session begins: what it is made of, and what is recorded when it does.

Beginning is synchronous: between the look whether the session is idle and the record that a turn has
started there is no checkpoint, so two can't begin at once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.compaction_types import CompactionRequest
from engine.core.errors import NothingParked
from engine.core.events import TurnEnded, TurnResult, TurnStarted
from engine.core.exception_groups import describe
from engine.core.ids import MessageId, TurnId
from engine.journal.closing_events import closing_events
from engine.journal.log import TurnJournal
from engine.nursery.budget import Budget
from engine.nursery.inbox import admit, promote
from engine.nursery.parking import begin_again, leave_parked
from engine.nursery.running_turn import TurnInputs, TurnRun, TurnServices, TurnState
from engine.nursery.snapshots import TurnSnapshots
from engine.session.structured_output import output_spec

if TYPE_CHECKING:
    from engine.core.messages import MediaPart
    from engine.core.settings import Limits, Settings
    from engine.journal.state import PendingInput
    from engine.session.live_session import LiveSession
    from engine.session.sub_agents import ParentTurn


@enable_ki_protection
def begin_turn(
    session: LiveSession,
    prompt: str | PendingInput | CompactionRequest,
    *,
    attachments: tuple[MediaPart, ...] = (),
    settings: Settings | None = None,
    output: type[attrs.AttrsInstance] | None = None,
    parent: ParentTurn | None = None,
) -> TurnRun:
    """Begin a turn: its prompt is in the transcript when this returns. Not a checkpoint."""
    session.check_open()
    session.check_no_turn()
    leave_parked(session.journal, session.deps.ids)
    turn_id = TurnId(session.deps.ids.new("turn"))
    run = _new_run(
        session,
        turn_id,
        settings or session.config.settings,
        compaction=prompt if isinstance(prompt, CompactionRequest) else None,
        output=output,
        parent=parent,
    )
    try:
        run.journal.append(TurnStarted(call_id=None if parent is None else parent.entry.call_id))
        if isinstance(prompt, str):
            admit(session.journal, session.deps.ids, prompt, "prompt", attachments=attachments, turn_id=turn_id)
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
    """Begin a turn with the next queued input, or with a report, if the session is idle. Not a checkpoint."""
    queued = session.next_queued()
    if queued is None:
        return None
    run = begin_turn(session, queued)
    let_park(session, run)
    return run


@enable_ki_protection
def resume_turn(session: LiveSession, *, settings: Settings) -> TurnRun:
    """Go on with the parked turn. Not a checkpoint."""
    session.check_open()
    session.check_no_turn()
    turn = session.journal.state.turn
    if turn is None:
        raise NothingParked(f"session {session.id} has no turn that waits: use session.prompt()")
    run = _new_run(session, turn.turn_id, settings)
    try:
        begin_again(run)
        _note_unknown_models(session, run)
    except BaseException as error:
        _abandon(session, run, error)
        raise
    return run


def let_park(session: LiveSession, run: TurnRun) -> None:
    """The turn runs in the engine's nursery: it may be left for another engine, if the settings say so. Not a checkpoint."""
    run.state.may_park = run.inputs.settings.park and session.engine.is_kept


def _new_run(
    session: LiveSession,
    turn_id: TurnId,
    settings: Settings,
    *,
    compaction: CompactionRequest | None = None,
    output: type[attrs.AttrsInstance] | None = None,
    parent: ParentTurn | None = None,
) -> TurnRun:
    if session.idle_hooks is not None:
        session.idle_hooks.cancel(reason="a turn begins")
    chain = (*(() if parent is None else parent.chain), *session.permission_scopes(turn_id))
    spec = None if output is None else output_spec(output)
    journal = TurnJournal(session.journal, turn_id)
    inputs = TurnInputs(
        settings=settings,
        hooks=session.hooks,
        services=_services(
            session, _snapshots_of(session, journal) if parent is None else parent.run.inputs.services.snapshots
        ),
        chain=chain,
        is_child=parent is not None,
        grace_limit=None if parent is None else parent.grace,
        compaction=compaction,
        output_schema=None if spec is None else spec.schema,
        check_output=None if spec is None else spec.check,
        on_ended=partial(session.turn_ended, parent),
        on_parked=session.turn_parked,
    )
    run = TurnRun(
        inputs=inputs,
        deps=session.deps,
        registry=session.config.registry,
        hidden=session.hidden_tools(chain, settings.agent_depth),
        journal=journal,
        budget=_budget(settings.limits, parent),
        state=TurnState(counted=session.counted),
    )
    session.active = run
    return run


def _services(session: LiveSession, snapshots: TurnSnapshots | None) -> TurnServices:
    engine = session.engine
    return TurnServices(
        agents=session.background,
        context_report=session.context_report,
        questions=session.questions,
        traffic=engine.traffic,
        spills=engine.spills.of(session.journal.path[0]),
        around=engine.around,
        prompt=engine.prompt,
        touched=session.touched,
        snapshots=snapshots,
        jitter=engine.jitter,
    )


def _snapshots_of(session: LiveSession, journal: TurnJournal) -> TurnSnapshots | None:
    snapshots = session.deps.snapshots
    if snapshots is None:
        return None
    return TurnSnapshots(
        snapshots=snapshots,
        journal=journal,
        cwd=lambda: session.journal.state.context.cwd,
        trace=session.deps.trace,
    )


def _ask_for_title(session: LiveSession, prompt: str) -> None:
    """Ask a small model for a title, if the session has none and this is its first turn. Not a checkpoint."""
    model, state = session.engine.titler, session.journal.state
    has_title = state.titled_by or state.turns or session.title_done is not None
    if model is None or has_title or len(session.journal.path) > 1:
        return
    done = trio.Event()

    # Imported here: only a session's first turn asks, where a model for titles is named.
    from engine.session.titles import ask_for_title

    async def work() -> None:
        try:
            await ask_for_title(session.journal, model, session.deps.ids, prompt)
        finally:
            done.set()

    if session.engine.run_in_background(work, name=f"title of {session.id}") is not None:
        session.title_done = done


def _note_unknown_models(session: LiveSession, run: TurnRun) -> None:
    for info in (model.info for model in run.deps.models):
        if not info.is_known and session.engine.models.is_first_mention(info.name):
            run.notice(
                "warning",
                "unknown_model",
                f"nothing is known of {info.name}: a window of {info.context:,} tokens and answers of "
                f"{info.output:,} are assumed, and no price. The configuration may say better.",
            )


def _note_sweep_failure(session: LiveSession, run: TurnRun) -> None:
    problem = session.engine.spills.take_warning()
    if problem:
        run.notice("warning", "spill_not_swept", problem)


def _abandon(session: LiveSession, run: TurnRun, error: BaseException) -> None:
    """A port failed while the turn began: it is over before it had a task. Not a checkpoint."""
    session.active = None
    run.crash(error)
    if session.journal.state.turn is not None:
        result = TurnResult(stop_reason="internal_error", detail=describe(error))
        # No port is asked for anything here: it may be the one that failed.
        for event in closing_events(session.journal.state, MessageId(f"{run.journal.turn_id}_results")):
            if not isinstance(event, TurnEnded):
                run.journal.append(event)
        run.journal.close(TurnEnded(result=result))
        session.journal.release()


def _budget(limits: Limits, parent: ParentTurn | None) -> Budget:
    seconds = limits.seconds
    deadline = float("inf") if seconds is None else trio.current_time() + seconds
    if parent is None:
        return Budget(limits=limits, deadline=deadline)
    return Budget(limits=limits, parent=parent.run.budget, deadline=deadline, is_detached=parent.in_background)
