"""Parking: a turn that only waits is left open when its engine is closed, so that a later engine can go on with it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from trio.lowlevel import enable_ki_protection

from engine.core.events import TurnEnded, TurnResumed
from engine.core.ids import MessageId
from engine.journal.closing_events import closing_events
from engine.journal.interrupted_turn import GO_ON, unjudged_inputs
from engine.nursery.cleanup import until_parked
from engine.nursery.inbox import nudge
from engine.nursery.loop import reopen_step
from engine.nursery.loop_state import TurnCause
from engine.nursery.parkable import only_waits, spent
from engine.nursery.turn_supervisor import run_turn

if TYPE_CHECKING:
    from engine.core.settings import Resume
    from engine.nursery.running_turn import TurnInputs, TurnRun
    from engine.tools.registry import Registry


def may_enter_again(registry: Registry, name: str) -> bool:
    """Return whether a call that waits inside the tool of that name may enter it again."""
    tool = registry.get(name)
    return tool is not None and tool.resumable


@enable_ki_protection
def park(run: TurnRun) -> bool:
    """Leave the turn open, if it may be and only waits; return whether it was. Not a checkpoint.

    Its tasks are cancelled, and change nothing any more: no call is settled, no question
    withdrawn, the turn has no end. What the record has so far is flushed.
    """
    # Ending already, not allowed, between two steps, or with a broken answer: then it ends like any other turn.
    step = run.step
    if run.ending.cause is not None or not run.state.may_park or step is None or step.failure is not None:
        return False
    if not only_waits(run.journal.log.state, partial(may_enter_again, run.registry)):
        return False
    # A change of the shared context is a function, so it can't be saved for another engine.
    if not step.ledger.apply_settled():
        return False
    # Closed before the cancel: the tasks that it wakes find a ledger and a journal that take nothing more. The cause
    # comes last, and nothing between here and there is a checkpoint, so no task runs in a half parked turn.
    step.ledger.close()
    run.journal.stop()
    return run.end(TurnCause(kind="parked", reason="aborted", detail="the engine ended while the turn waited"))


@enable_ki_protection
async def run_own_turn(run: TurnRun) -> None:
    """Run a turn in the engine's own nursery. Always a checkpoint; a cancel of the engine parks it, if it may be parked."""
    if run.state.may_park:
        await until_parked(partial(run_turn, run), partial(park, run))
    else:
        await run_turn(run)


def resume_mark(inputs: TurnInputs) -> Resume:
    """Return what is to become of a turn whose engine dies."""
    # A sub-agent's turn ends with the call above it. Neither the schema of an answer nor a compaction is in the record.
    is_plain = not inputs.is_child and inputs.output_schema is None and inputs.compaction is None
    return inputs.settings.resume if is_plain else "manual"


# -- going on with a parked turn -------------------------------------------------------------------


@enable_ki_protection
def reopen_turn(run: TurnRun) -> None:
    """Bring a turn to where another engine has left it, parked or interrupted; `run_loop` goes on with it. Not a checkpoint."""
    journal = run.journal.log
    turn = journal.state.turn
    assert turn is not None
    # The limits hold for the whole turn, in however many engines it runs.
    usage, cost = spent(journal.newest_first(), turn.turn_id)
    run.budget.steps, run.budget.usage, run.budget.cost = turn.steps, usage, cost
    run.state.output_tokens = usage.output
    run.journal.append(TurnResumed(interrupted=turn.step is None))
    step = None if journal.state.turn is None else journal.state.turn.step
    if step is None:
        _go_on(run, turn.steps)
        return
    assert step.received is not None
    # Before any of its tasks runs: a cancel at the first instant must find the open step, to settle and save it.
    reopen_step(run, step, step.received)


@enable_ki_protection
def _go_on(run: TurnRun, steps: int) -> None:
    """Tell the model of a turn that was interrupted after so many steps what has happened. Not a checkpoint."""
    journal = run.journal.log
    for input_id in unjudged_inputs(journal.newest_first(), run.journal.turn_id):
        admitted = journal.admitted(input_id)
        if admitted is not None and admitted.message.origin != "engine":
            run.state.unseen.append(admitted.message)
    # Before its first request, nothing was begun that the model could know of.
    if steps:
        nudge(run, GO_ON)


@enable_ki_protection
def leave_parked(run: TurnRun) -> None:
    """End the parked turn of a session, if it has one, whose place *run* takes. Not a checkpoint.

    Its end is held; `run_turn` makes it durable and visible first.
    """
    journal = run.journal.log
    turn = journal.state.turn
    if turn is not None:
        for event in closing_events(journal.state, MessageId(run.deps.ids.new("msg")), superseded=True):
            if isinstance(event, TurnEnded):
                run.state.superseded = journal.append(event, turn_id=turn.turn_id, held=True)
            else:
                journal.append(event, turn_id=turn.turn_id)
