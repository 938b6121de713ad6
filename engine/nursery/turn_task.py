"""The frame of a turn: it runs the loop as its child, waits, and concludes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from trio.lowlevel import enable_ki_protection

from engine.core.exception_groups import first_of, split
from engine.nursery.concluder import conclude
from engine.nursery.loop import run_loop
from engine.nursery.running_turn import Cause

if TYPE_CHECKING:
    from engine.nursery.running_turn import TurnRun


@enable_ki_protection
async def run_turn(run: TurnRun) -> None:
    """Run a turn to its end. Always a checkpoint.

    Returns when the turn is over and its last task has gone. A cancel from outside
    is raised after the same clean-up; a turn's own end raises nothing.
    """
    async with trio.open_nursery() as nursery:
        try:
            nursery.start_soon(_loop_task, run, name="turn loop")
            # Only the host's scopes can interrupt this wait; the turn's own end sets
            # the event. So it ends at once even if the loop is stuck behind a tool.
            with trio.move_on_at(run.budget.deadline):
                await run.ended.wait()
            if run.cause is None:
                run.end(run.deadline_cause())
        finally:
            if run.cause is None:
                run.end(run.first_catch())
            await conclude(run)  # noqa: ASYNC102  # bounded: see cleanup.py


@enable_ki_protection
async def _loop_task(run: TurnRun) -> None:
    try:
        with run.scope:
            stop = await run_loop(run)
            run.end(Cause(kind="finished", reason=stop.reason, detail=stop.detail, reset_at=stop.reset_at))
    except BaseException as error:  # noqa: ASYNC103  # what must pass is split off and raised
        passing, ordinary = split(error)
        if ordinary is not None:
            run.crash(ordinary)
        elif first_of(error, KeyboardInterrupt) or first_of(error, SystemExit):
            run.end(Cause(kind="host", reason="aborted", detail="interrupted"))
        if passing is error:
            raise
        if passing is not None:
            raise passing from None  # noqa: ASYNC104  # what must pass is raised
    finally:
        run.loop_gone.set()
