"""Supervises a turn: runs the loop as a child task, waits for the end, then runs the cleanup.

The function that does this is the turn's *frame*: it is outside of the scope that a turn's own end cancels, so it is still
there to conclude.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from trio.lowlevel import enable_ki_protection

from engine.core.exception_groups import ErrorBoundary, first_of
from engine.core.foreign_calls import reporting_blocks
from engine.nursery.cleanup import clean_up, end_superseded
from engine.nursery.loop import run_loop
from engine.nursery.loop_state import TurnCause

if TYPE_CHECKING:
    from engine.nursery.running_turn import TurnRun


@enable_ki_protection
async def run_turn(run: TurnRun) -> None:
    """Run a turn to its end. Always a checkpoint.

    Returns when the turn is over and its last task has gone. A cancel from outside
    is raised after the same clean-up; a turn's own end raises nothing.
    """
    # Around the cleanup too, so the span of the turn ends after the flush that makes its end durable.
    with reporting_blocks(run.notice), run.journal.spans.turn(run.journal.turn_id):
        await end_superseded(run)
        await _supervise(run)


async def _supervise(run: TurnRun) -> None:
    async with trio.open_nursery() as nursery:
        try:
            nursery.start_soon(_loop_task, run, name="turn loop")
            # Only the host's scopes can interrupt this wait; the turn's own end sets the event. So it ends at once even
            # if the loop is stuck behind a tool. The deadline is here and not on the loop's scope for the same reason.
            with trio.move_on_at(run.budget.deadline):
                await run.ending.requested.wait()
            if run.ending.cause is None:
                run.end(run.ending.deadline_cause())
        finally:
            # Not `except Cancelled`: an error in this task itself must not leave a turn without its end either.
            if run.ending.cause is None:
                run.end(run.ending.first_catch())
            # Inside the nursery, whose block ends only with the loop's task: a tool that never stops delays this
            # function's return, but not the turn's end.
            await clean_up(run)  # noqa: ASYNC102  # bounded: see cleanup.py


@enable_ki_protection
async def _loop_task(run: TurnRun) -> None:
    """Run the loop, and write down why it ended. Always a cancel point; raises only what must propagate."""

    def note_interrupt(error: BaseException) -> None:
        if first_of(error, KeyboardInterrupt) or first_of(error, SystemExit):
            # Of two causes the first wins: a crash in the same group was noted before.
            run.end(TurnCause(kind="host", reason="aborted", detail="interrupted"))

    try:
        # The boundary is outside of the scope: the turn's own cancel ends at the scope, and never gets to the boundary.
        # The turn's span is attached here and not in the frame: what the frame starts after the end, such as the next
        # queued turn, is no part of this one.
        with (
            run.journal.spans.work(run.journal.turn_id),
            ErrorBoundary(on_error=run.crash, on_propagate=note_interrupt),
            run.ending.scope,
        ):
            stop = await run_loop(run)
            run.end(
                TurnCause(
                    kind="finished",
                    reason=stop.reason,
                    detail=stop.detail,
                    reset_at=stop.reset_at,
                    failure=stop.failure,
                )
            )
    finally:
        # The cleanup waits for it, shielded: without the `finally` it would wait for its whole deadline.
        run.ending.loop_gone.set()
