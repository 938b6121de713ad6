"""How a turn of a session begins: what it is given, and what is told when it does.

Beginning is synchronous: between the look whether the session is idle and the record that a turn has
started there is no checkpoint, so two can't begin at once.
"""

# pyright: reportPrivateUsage=false
# A session and how its turns begin are friends: they are apart so that each can be read at a sitting.

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.compaction_types import CompactionWish
from engine.core.errors import NothingParked
from engine.core.events import TurnEnded, TurnResult, TurnStarted
from engine.core.exception_groups import describe
from engine.core.ids import MessageId, TurnId
from engine.core.permission_types import HidingApprover, PermissionScope
from engine.journal.closing_events import closing_events
from engine.journal.log import TurnJournal
from engine.nursery.budget import Budget
from engine.nursery.inbox import admit, promote
from engine.nursery.parking import begin_again, leave_parked
from engine.nursery.running_turn import TurnRun
from engine.nursery.snapshots import TurnSnapshots
from engine.session.structured_output import wanted_of

if TYPE_CHECKING:
    from engine.core.messages import MediaPart
    from engine.core.settings import Limits, Settings
    from engine.core.state import PendingInput
    from engine.session.session import Session
    from engine.session.sub_agents import Above

# The rights of tools that send for sub-agents, and look after them.
SUB_AGENTS = frozenset({"task", "task_output", "task_stop"})


@enable_ki_protection
def begin_turn(
    session: Session,
    text: str | PendingInput | CompactionWish,
    *,
    attachments: tuple[MediaPart, ...] = (),
    settings: Settings | None = None,
    output: type[attrs.AttrsInstance] | None = None,
    parent: Above | None = None,
) -> TurnRun:
    """Begin a turn: its prompt is in the transcript when this returns. Not a checkpoint."""
    session._check_open()
    session._check_no_turn()
    leave_parked(session._journal, session._deps.ids)
    run = _new_run(session, TurnId(session._deps.ids.new("turn")), settings or session._settings, output, parent)
    run.wish = text if isinstance(text, CompactionWish) else None
    try:
        run.journal.append(TurnStarted(call_id=None if parent is None else parent.entry.call_id))
        if isinstance(text, str):
            admit(
                session._journal,
                session._deps.ids,
                text,
                "prompt",
                attachments=attachments,
                turn_id=run.journal.turn_id,
            )
        if not isinstance(text, CompactionWish):
            promote(run, None if isinstance(text, str) else text)
        _note_unknown_models(session, run)
        _note_complaint(session, run)
        if parent is None and not isinstance(text, CompactionWish):
            _entitle(session, text if isinstance(text, str) else text.message.text)
    except BaseException as error:
        _abandon(session, run, error)
        raise
    return run


@enable_ki_protection
def resume_turn(session: Session, *, settings: Settings) -> TurnRun:
    """Go on with the parked turn. Not a checkpoint."""
    session._check_open()
    session._check_no_turn()
    turn = session._journal.state.turn
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


def links_of(session: Session, turn_id: TurnId) -> tuple[PermissionScope, ...]:
    """Return what it adds to the chain of those whose rules bound a call. Not a checkpoint."""
    own = PermissionScope(session_id=session.id, turn_id=turn_id, rules=session._rules)
    return (attrs.evolve(own, rules=session._bounds, is_bound=True), own) if session._bounds else (own,)


def hidden_from(session: Session, chain: tuple[PermissionScope, ...], agent_depth: int) -> frozenset[str]:
    """Return the tools that the rules leave nothing to do, as far as they stay the same. Not a checkpoint."""
    if session._hidden is None or session._hidden[0] is not session._registry:
        approver, cwd, hidden = session._deps.approver, session._journal.state.context.cwd, frozenset[str]()
        if isinstance(approver, HidingApprover):
            # Bounds may end in the middle of a turn, and requests should go on to begin alike.
            lasting = tuple(link for link in chain if not link.is_bound)
            hidden = session._registry.hidden_by(partial(approver.hides, lasting, cwd))
        session._hidden = session._registry, hidden
    is_deepest = len(session._journal.path) > agent_depth
    return session._hidden[1] | (
        session._registry.hidden_by(SUB_AGENTS.__contains__) if is_deepest else frozenset[str]()
    )


def _new_run(
    session: Session,
    turn_id: TurnId,
    chosen: Settings,
    output: type[attrs.AttrsInstance] | None = None,
    parent: Above | None = None,
) -> TurnRun:
    if session._resting is not None:
        session._resting.cancel(reason="a turn begins")
    chain = (*(() if parent is None else parent.chain), *links_of(session, turn_id))
    wanted = None if output is None else wanted_of(output)
    run = TurnRun(
        deps=session._deps,
        settings=chosen,
        registry=session._registry,
        hooks=session._hooks,
        journal=TurnJournal(session._journal, turn_id),
        budget=_budget(chosen.limits, parent),
        questions=session._questions,
        agents=session,
        traffic=session._engine.traffic,
        prompt=session._engine.prompt,
        touched=session._touched,
        spills=session._engine.spills.of(session._journal.path[0]),
        chain=chain,
        around=session._engine.around,
        hidden=hidden_from(session, chain, chosen.agent_depth),
        is_child=parent is not None,
        grace_limit=None if parent is None else parent.grace,
        output_schema=None if wanted is None else wanted.schema,
        check_output=None if wanted is None else wanted.check,
        jitter=session._engine.jitter,
        counted=session._counted,
    )
    run.snapshots = _snapshots_of(session, run) if parent is None else parent.run.snapshots
    run.on_ended = partial(session._ended, run, parent)
    run.on_parked = partial(session._parked, run)
    session._active = run
    return run


def _snapshots_of(session: Session, run: TurnRun) -> TurnSnapshots | None:
    snapshots = session._deps.snapshots
    if snapshots is None:
        return None
    return TurnSnapshots(
        snapshots=snapshots,
        journal=run.journal,
        cwd=lambda: session._journal.state.context.cwd,
        trace=session._deps.trace,
    )


def _entitle(session: Session, asked: str) -> None:
    """Have the session given a title, if it has none and this is its first turn. Not a checkpoint."""
    model, state = session._engine.titler, session._journal.state
    if (
        model is None
        or state.titled_by
        or state.turns
        or session._titling is not None
        or len(session._journal.path) > 1
    ):
        return
    over = trio.Event()

    # Imported here: only a session's first turn asks, where a model for titles is named.
    from engine.session.titles import entitle

    async def work() -> None:
        try:
            await entitle(session._journal, model, session._deps.ids, asked)
        finally:
            over.set()

    if session._engine.run_beside(work, name=f"title of {session.id}") is not None:
        session._titling = over


def _note_unknown_models(session: Session, run: TurnRun) -> None:
    for info in (model.info for model in run.deps.models):
        if not info.is_known and session._engine.models.is_first_mention(info.name):
            run.notice(
                "warning",
                "unknown_model",
                f"nothing is known of {info.name}: a window of {info.context:,} tokens and answers of "
                f"{info.output:,} are assumed, and no price. The configuration may say better.",
            )


def _note_complaint(session: Session, run: TurnRun) -> None:
    complaint = session._engine.spills.take_warning()
    if complaint:
        run.notice("warning", "spill_not_swept", complaint)


def _abandon(session: Session, run: TurnRun, error: BaseException) -> None:
    """A port failed while the turn began: it is over before it had a task. Not a checkpoint."""
    session._active = None
    run.crash(error)
    if session._journal.state.turn is not None:
        result = TurnResult(stop_reason="internal_error", detail=describe(error))
        # No port is asked for anything here: it may be the one that failed.
        for event in closing_events(session._journal.state, MessageId(f"{run.journal.turn_id}_results")):
            if not isinstance(event, TurnEnded):
                run.journal.append(event)
        run.journal.close(TurnEnded(result=result))
        session._journal.release()


def _budget(limits: Limits, above: Above | None) -> Budget:
    seconds = limits.seconds
    deadline = float("inf") if seconds is None else trio.current_time() + seconds
    if above is None:
        return Budget(limits=limits, deadline=deadline)
    return Budget(limits=limits, parent=above.run.budget, deadline=deadline, is_detached=above.in_background)
