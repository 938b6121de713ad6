"""The concluder: what happens when a turn ends, wherever its loop is.

The order is a contract (`docs/explanation/cancelling.md`):

1. the cause is in its slot, the loop's scope is cancelled;
2. calls that have not been let go are settled as not executed;
3. running calls have their grace, all at once; what has not let go by then is
   settled without it, its outcome unknown;
4. the open text is closed and kept, results are delivered, the step is saved;
5. `TurnEnded` is appended, held; the store is flushed; then it becomes visible.

The turn's frame runs this, and nobody else: inside the step it would come too
early, after the nursery it would come late behind a tool that will not stop.
All shields of a turn are in this module, and each has a deadline.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.events import TurnEnded, TurnResult
from engine.core.exception_groups import describe
from engine.core.ids import MessageId
from engine.core.messages import Settlement
from engine.journal.closing_events import closing_events
from engine.tools.call_values import GRACE

if TYPE_CHECKING:
    from engine.nursery.call_ledger import CallEntry
    from engine.nursery.running_turn import TurnRun
    from engine.nursery.step import Step

FLUSH_SHARE = 0.9


@enable_ki_protection
async def conclude(run: TurnRun) -> None:
    """End the turn: settle, save, announce. A checkpoint; shielded, with deadlines.

    Whatever is wrong, the turn's record is closed when this returns; that of a parked turn stays as it is.
    """
    if run.ending.is_parked:
        await _leave_open(run)
        return
    try:
        await _settle_all(run)
        _save_step(run)
        if run.inputs.services.snapshots is not None and not run.inputs.is_child:
            run.inputs.services.snapshots.conclude()
    except Exception as error:  # noqa: BLE001  # a bug of ours must not leave a turn without its end
        run.notice("warning", "internal_error", f"while the turn was ending: {describe(error)}")
        _close_by_force(run)
    ended = run.journal.close(TurnEnded(result=_result(run)))
    durable = await _make_durable(run)
    result = attrs.evolve(ended.result, durable=durable)
    run.result = result
    run.journal.log.release(None if durable else attrs.evolve(ended, result=result))
    run.ending.over.set()
    if run.inputs.on_ended is not None:
        run.inputs.on_ended(run, result)


async def _leave_open(run: TurnRun) -> None:
    """Let go of a parked turn: its tasks end, and what the record has is made durable."""
    graces = [] if run.step is None else [entry.grace for entry in run.step.ledger.unsettled]
    longest = max(graces, default=GRACE)
    if not run.ending.loop_gone.is_set():
        with trio.CancelScope(shield=True, deadline=_deadline(run, longest)):
            await run.ending.loop_gone.wait()
    await _make_durable(run)
    run.ending.over.set()
    if run.inputs.on_parked is not None:
        run.inputs.on_parked(run)


@enable_ki_protection
async def until_parked(turn: Callable[[], Awaitable[None]], park: Callable[[], bool]) -> None:
    """Run the frame of a turn; a cancel from outside reaches it only after *park* was called. Always a checkpoint.

    Else the tasks of the turn would be cancelled in no order, and one of them might have
    settled its call before anybody could say that nothing is to be settled.
    """
    # It has no deadline of its own: it ends in the very step in which the cancel arrives.
    apart, gone = trio.CancelScope(shield=True, deadline=float("inf")), trio.Event()

    @enable_ki_protection
    async def frame() -> None:
        try:
            with apart:
                await turn()
        finally:
            gone.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(frame, name="turn that may be parked")
        try:
            await gone.wait()
        finally:
            try:
                park()
            finally:
                apart.shield = False


async def _settle_all(run: TurnRun) -> None:
    step = run.step
    graced: list[CallEntry] = []
    if step is not None:
        step.ledger.refuse_waiting("the turn ended before it could start")
        graced = sorted(step.ledger.unsettled, key=lambda entry: entry.grace)
    for entry in graced:
        # One after the other is all at once: the deadlines are absolute.
        if not entry.is_settled:
            with trio.CancelScope(shield=True, deadline=_deadline(run, entry.grace)):
                await entry.settlement.wait()
        if not entry.is_settled and step is not None:
            _settle_without(run, step, entry)
    longest = max((entry.grace for entry in graced), default=GRACE)
    if not run.ending.loop_gone.is_set():
        with trio.CancelScope(shield=True, deadline=_deadline(run, longest)):
            await run.ending.loop_gone.wait()
    if not run.ending.loop_gone.is_set() and not any(_overstays(entry) for entry in graced):
        run.notice("warning", "overstaying", "a task of the turn would not stop and is still running")


def _deadline(run: TurnRun, grace: float) -> float:
    """Return when a call that may clean up for *grace* is settled without it."""
    limit = float("inf") if run.inputs.grace_limit is None else FLUSH_SHARE * run.inputs.grace_limit
    return run.ending.at + min(grace, limit)


def _settle_without(run: TurnRun, step: Step, entry: CallEntry) -> None:
    if entry.provisional is not None:
        step.ledger.settle(entry, entry.provisional.settlement, entry.provisional.modify)
        return
    if not entry.entered:
        text, unknown = "Not executed: the turn ended before it could start.", False
    else:
        shown = f" Its output so far:\n{entry.output_text}" if entry.output else ""
        text, unknown = f"It would not stop when the turn ended; what it did is not known.{shown}", True
        run.notice("warning", "overstaying", f"{entry.tool_name} would not stop and is still running")
        run.state.changes.note(None, may_have=entry.may_change)
    step.ledger.settle(
        entry,
        Settlement(
            status="aborted",
            reason="cancelled" if unknown else "not_executed",
            text=text,
            outcome_unknown=unknown,
        ),
    )


def _overstays(entry: CallEntry) -> bool:
    return entry.is_settled and entry.settlement.value.outcome_unknown


@enable_ki_protection
def _save_step(run: TurnRun) -> None:
    step = run.step
    if step is None:
        return
    step.stop_receiving()
    for entry in step.ledger.unsettled:
        _settle_without(run, step, entry)
    run.inputs.services.questions.withdraw(run.journal)
    step.charge()
    run.state.keep_answer(step.text)
    step.close(keep=True)


@enable_ki_protection
def _close_by_force(run: TurnRun) -> None:
    """Close what is open in the record, from nothing but the record, as after a crash. Not a checkpoint."""
    if run.step is not None:
        run.step.ledger.close()
        run.step = None
    # No port is asked for anything here: it may be one that failed.
    for event in closing_events(run.journal.log.snapshot(), MessageId(f"{run.journal.turn_id}_results")):
        if not isinstance(event, TurnEnded):
            run.journal.append(event)


def _result(run: TurnRun) -> TurnResult:
    cause = run.ending.cause
    assert cause is not None
    return TurnResult(
        stop_reason=cause.reason,
        detail=cause.detail,
        during=run.ending.during if cause.reason == "aborted" else None,
        reset_at=cause.reset_at,
        text=run.state.answer,
        output=run.state.output if cause.reason == "completed" else None,
        usage=run.budget.usage,
        cost=run.budget.cost,
        steps=run.budget.steps,
    )


async def _make_durable(run: TurnRun) -> bool:
    """Flush everything up to the held `TurnEnded`, for so long as the settings say."""
    deadline = trio.current_time() + run.inputs.settings.durable_within
    if (
        run.inputs.grace_limit is not None
        and run.ending.cause is not None
        and run.ending.cause.kind in {"host", "limit", "left", "user"}
    ):
        deadline = min(deadline, max(run.ending.at + run.inputs.grace_limit, trio.current_time()))
    with trio.CancelScope(shield=True, deadline=deadline) as run.flush_scope:
        return await run.flush()
    return False


async def all_over(runs: Iterable[TurnRun]) -> None:
    """Wait until ending turns are recorded, whoever's nursery they are in. A checkpoint; shielded, with deadlines."""
    for run in runs:
        graces = [GRACE] if run.step is None else [GRACE, *(entry.grace for entry in run.step.ledger.entries)]
        deadline = run.ending.at + max(graces) + run.inputs.settings.durable_within
        with trio.CancelScope(shield=True, deadline=deadline):
            await run.ending.over.wait()


async def close_bounded(aclose: Callable[[], Awaitable[None]], seconds: float) -> bool:
    """Close something after all turns have ended, for *seconds* at most; return whether that was enough.

    A checkpoint; shielded, with a deadline.
    """
    with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds) as scope:
        await aclose()
    return not scope.cancelled_caught
