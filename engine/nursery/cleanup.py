"""The cleanup: what happens when a turn ends, wherever its loop is.

The order is a contract (`docs/explanation/cancelling.md`):

1. the cause is in its slot, the loop's scope is cancelled;
2. calls that have not been let go are settled as not executed;
3. running calls have their grace, all at once; what has not let go by then is
   settled without it, its outcome unknown;
4. the open text is closed and kept, results are delivered, the step is saved;
5. `TurnEnded` is appended, held; the store is flushed; then it becomes visible.

It runs in the turn's frame (`turn_supervisor`), next to the loop. Inside the step it would come too early, before the
calls have had their grace; after the step's nursery, it would come late, behind a tool that will not stop.

The shields of a turn's own tasks are in this module (a process tree has one of its own); each is bounded. The deadlines
are absolute and count from the instant at which the cause was written, so the steps share one budget of time instead of
adding up. Time by which the event loop is late does not count (`GraceTimer`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.deferred import Deferred
from engine.core.events import TurnEnded, TurnResult
from engine.core.exception_groups import describe
from engine.core.ids import MessageId
from engine.core.messages import Settlement
from engine.journal.closing_events import closing_events
from engine.nursery.hook_points import block_unseen
from engine.nursery.running_turn import bounded_grace
from engine.nursery.step_runner import charge_step, close_step
from engine.tools.call_values import GRACE

if TYPE_CHECKING:
    from engine.nursery.call_ledger import CallEntry
    from engine.nursery.running_turn import TurnRun
    from engine.nursery.step import Step

# A grace is waited for in parts of this length.
_SLICE: Final = GRACE / 10
# How often a nursery that belongs to another task is looked at, in seconds.
_LOOK: Final = 0.01
# Seconds that a flush has at least: enough for a store that has nothing left to write.
_LEAST_FLUSH: Final = 0.01


@attrs.define(eq=False, repr=False)
class GraceTimer:
    """Waits until absolute deadlines, which move on by as much as the event loop is late.

    On a busy machine a grace would be over before a tool was let run once: that is not the tool's fault.

    Attributes:
        late: seconds by which the loop was late so far.
    """

    late: float = 0.0

    async def wait(
        self, event: trio.Event | Deferred[Settlement], is_over: Callable[[], bool], deadline: float
    ) -> None:
        """Wait for *event*, unless *is_over*, until *deadline*. A checkpoint unless *is_over*; shielded."""
        while not is_over():
            # In slices: a wait that ends late by a second has let the tools run once, whatever its length was.
            until = min(trio.current_time() + _SLICE, deadline + self.late)
            with trio.CancelScope(shield=True, deadline=until):
                await event.wait()
            # Also if this one is over: the loop was late for those that are waited for next, too.
            self.late += max(0.0, trio.current_time() - until)
            # After a wait, also if the deadline was over before it: a tool is let run before it is given up.
            if trio.current_time() >= deadline + self.late:
                break


@enable_ki_protection
async def clean_up(run: TurnRun) -> None:
    """End the turn: settle, save, announce. A checkpoint; shielded, with deadlines.

    Whatever goes wrong, the turn is over when this returns or raises, so nothing waits for its end in vain. The record
    of a parked turn stays open.
    """
    # This task only waited for the cause, so whatever has passed since then the loop was late.
    timer = GraceTimer(trio.current_time() - run.ending.at)
    if run.ending.is_parked:
        await _leave_open(run, timer)
        return
    result: TurnResult | None = None
    is_durable = False
    try:
        await _settle_and_save(run, timer)
        result = _result(run)
        turn = run.journal.log.state.turn
        ended = run.journal.close(TurnEnded(result=result, ending=None if turn is None else turn.ending))
        try:
            is_durable = await _make_durable(run, timer)
        finally:
            # Held until now: a client that sees the end may open the session elsewhere, and must find it complete there.
            # Also if Ctrl-C interrupts a store that blocks: who follows the session must see the end.
            run.journal.log.release(None if is_durable else not_durable(ended))
    finally:
        # Also where the journal itself failed: its error is raised, but the session must not stay busy for ever.
        run.result = attrs.evolve(_result(run) if result is None else result, durable=is_durable)
        run.ending.over.set()
        if run.inputs.on_ended is not None:
            run.inputs.on_ended(run, run.result)


async def _settle_and_save(run: TurnRun, timer: GraceTimer) -> None:
    """Settle every call and save the step; if that fails, close them by force. A checkpoint; shielded, with deadlines."""
    try:
        await _settle_all(run, timer)
        _save_step(run)
        block_unseen(run)
        if run.inputs.services.snapshots is not None and not run.inputs.is_child:
            run.inputs.services.snapshots.conclude()
    except Exception as error:  # noqa: BLE001  # a bug of ours must not leave a turn without its end
        run.notice("warning", "internal_error", f"while the turn was ending: {describe(error)}")
        _close_by_force(run)


async def _leave_open(run: TurnRun, timer: GraceTimer) -> None:
    """Let go of a parked turn: wait for its tasks, and make durable what the record has. A checkpoint; shielded.

    Nothing is settled and nothing is withdrawn: the record stands for the next engine as `park` has left it.
    """
    graces = [] if run.step is None else [entry.grace for entry in run.step.ledger.unsettled]
    longest = max(graces, default=GRACE)
    await timer.wait(run.ending.loop_gone, run.ending.loop_gone.is_set, _deadline(run, longest))
    try:
        await _make_durable(run, timer)
    finally:
        run.ending.over.set()
        if run.inputs.on_parked is not None:
            run.inputs.on_parked(run)


@enable_ki_protection
async def end_superseded(run: TurnRun) -> None:
    """Show the end of the parked turn whose place this one takes, once it is durable. Shielded; no checkpoint without one.

    Before anything of this turn runs, so at most one event of a journal is held.
    """
    ended = run.state.superseded
    if ended is None:
        return
    is_durable = False
    try:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + run.inputs.settings.durable_within):
            is_durable = await run.flush()
    finally:
        # As in `clean_up`: whatever the store does, who follows the session sees the end.
        run.journal.log.release(None if is_durable else not_durable(ended))


def not_durable(ended: TurnEnded) -> TurnEnded:
    """Return the end of a turn that is not in the store, or not known to be."""
    return attrs.evolve(ended, result=attrs.evolve(ended.result, durable=False))


@enable_ki_protection
async def until_parked(turn: Callable[[], Awaitable[None]], park: Callable[[], bool]) -> None:
    """Run the frame of a turn; a cancel from outside reaches it only after *park* was called. Always a checkpoint.

    Trio delivers a cancel to all tasks at once and runs them in no order. Without the shield a worker might run first
    and settle its call as aborted, before `park` has closed the ledger.
    """
    # Its deadline is infinite, and still it is bounded: the task outside of it gets the cancel in the same pass of the
    # scheduler, calls `park` without a checkpoint, and lifts the shield.
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
            # Also when the frame has ended by itself; then `park` finds a cause in its slot and does nothing.
            try:
                park()
            finally:
                # Even if `park` raised: a shield that stays up could not be cancelled by anything.
                apart.shield = False


async def _settle_all(run: TurnRun, timer: GraceTimer) -> None:
    """Settle every call: those that wait at once, the others when their grace is over. A checkpoint; shielded."""
    step = run.step
    graced: list[CallEntry] = []
    if step is not None:
        step.ledger.refuse_waiting("the turn ended before it could start")
        graced = sorted(step.ledger.unsettled, key=lambda entry: entry.grace)
    for entry in graced:
        # A loop and not a nursery: the deadlines are absolute and sorted, so waiting for one after the other takes as
        # long as the longest of them. `is_settled` decides, not whether `wait` returned (see `core/deferred`).
        await timer.wait(entry.settlement, partial(_is_settled, entry), _deadline(run, entry.grace))
        if not entry.is_settled and step is not None:
            _settle_without(run, step, entry)
    # All calls are settled, but their tasks may still be on their way out. The step is saved after them if possible, so
    # that whatever they append is inside of the turn's record.
    longest = max((entry.grace for entry in graced), default=GRACE)
    await timer.wait(run.ending.loop_gone, run.ending.loop_gone.is_set, _deadline(run, longest))
    entries = [] if step is None else step.ledger.entries
    if not run.ending.loop_gone.is_set() and not any(map(_overstays, entries)):
        # A call that overstays was reported by name already; this one is a hook, a provider or a port.
        run.notice("warning", "overstaying", "a task of the turn would not stop and is still running")


def _deadline(run: TurnRun, grace: float) -> float:
    """Return when a call that may clean up for *grace* seconds is settled without waiting any longer."""
    return run.ending.at + bounded_grace(run, grace)


def _settle_without(run: TurnRun, step: Step, entry: CallEntry) -> None:
    if entry.provisional is not None:
        # The body had returned; only a hook after it was still at work. Its result is real, so the model gets it.
        run.note_changes(entry.call_id, entry.provisional.changed, may_have=entry.may_change)
        step.ledger.settle(entry, entry.provisional.settlement, entry.provisional.modify)
        return
    run.note_changes(entry.call_id, None, may_have=entry.may_change)
    if not entry.body.entered:
        text, unknown = "Not executed: the turn ended before it could start.", False
    else:
        shown = f" Its output so far:\n{entry.body.output}" if entry.body.output else ""
        text, unknown = f"It would not stop when the turn ended; what it did is not known.{shown}", True
        run.notice("warning", "overstaying", f"{entry.tool_name} would not stop and is still running")
    step.ledger.settle(
        entry,
        Settlement(
            status="aborted",
            reason="cancelled" if unknown else "not_executed",
            text=text,
            outcome_unknown=unknown,
        ),
    )


def _is_settled(entry: CallEntry) -> bool:
    return entry.is_settled


def _overstays(entry: CallEntry) -> bool:
    return entry.is_settled and entry.settlement.value.outcome_unknown


@enable_ki_protection
def _save_step(run: TurnRun) -> None:
    step = run.step
    if step is None:
        return
    # A second time, in case the reader is stuck behind a provider that shields itself and has not done it.
    step.stop_receiving(None, is_interrupted=True)
    for entry in step.ledger.unsettled:
        _settle_without(run, step, entry)
    run.inputs.services.questions.withdraw(run.journal)
    charge_step(run, step)
    run.state.keep_answer(step.answer.text)
    close_step(run, step, keep=True)


@enable_ki_protection
def _close_by_force(run: TurnRun) -> None:
    """Close what is open in the record, from nothing but the record, as after a crash. Not a checkpoint."""
    if run.step is not None:
        run.step.ledger.close()
        run.step = None
    # No port is used here, not even for an id: the one that failed may be that one.
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
        failure=cause.failure,
        text=run.state.answer,
        output=run.state.output if cause.reason == "completed" else None,
        usage=run.budget.usage,
        cost=run.budget.cost,
        steps=run.budget.steps,
    )


async def _make_durable(run: TurnRun, timer: GraceTimer) -> bool:
    """Flush everything up to the held `TurnEnded`; return whether that succeeded in time. A checkpoint; shielded."""
    deadline = trio.current_time() + run.inputs.settings.durable_within
    if (
        run.inputs.grace_limit is not None
        and run.ending.cause is not None
        and run.ending.cause.kind in {"host", "limit", "left", "user"}
    ):
        # A deadline that is past, or now, would cancel even a flush that has nothing to wait for.
        last = run.ending.at + run.inputs.grace_limit + timer.late
        deadline = min(deadline, max(last, trio.current_time() + _LEAST_FLUSH))
    deadline = min(deadline, run.ending.flush_deadline)
    # The scope is in the run's slot, so that a turn above, whose grace is running, can shorten the deadline.
    with trio.CancelScope(shield=True, deadline=deadline) as run.ending.flush_scope:
        return await run.flush()
    return False


async def all_over(runs: Iterable[TurnRun]) -> None:
    """Wait until ending turns are recorded, also those in a host's own nursery. A checkpoint; shielded, with deadlines."""
    for run in runs:
        graces = [GRACE] if run.step is None else [GRACE, *(entry.grace for entry in run.step.ledger.entries)]
        # What the cleanup of that turn may take at most: its longest grace, then its flush.
        deadline = trio.current_time() + max(graces) + run.inputs.settings.durable_within
        await GraceTimer().wait(run.ending.over, run.ending.over.is_set, deadline)


async def until_empty(nursery: trio.Nursery, seconds: float) -> None:
    """Wait until a nursery whose tasks are ending has none left, in a task that did not open it. A checkpoint; shielded.

    Not for longer than *seconds*: a task may not stop.
    """
    with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds):  # noqa: ASYNC912  # empty: no wait
        # Looked at again and again, since only the task that opened a nursery is woken when it is empty.
        for _ in range(round(seconds / _LOOK)):
            if not nursery.child_tasks:
                break
            await trio.sleep(_LOOK)


async def close_bounded(aclose: Callable[[], Awaitable[None]], seconds: float) -> bool:
    """Close something after all turns have ended, for *seconds* at most; return whether that was enough.

    A checkpoint; shielded, with a deadline.
    """
    with trio.CancelScope(shield=True, deadline=trio.current_time() + seconds) as scope:
        await aclose()
    return not scope.cancelled_caught
