"""Runs attempts in this process, in an engine that they share."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio

from engine.batch.attempt_row import AttemptRow
from engine.batch.attempt_run import AttemptRun, LocalWorld
from engine.batch.attempt_runner import Attempt
from engine.batch.batch_events import Report
from engine.batch.batch_task import BatchTask
from engine.core.exception_groups import ErrorBoundary


@attrs.frozen(eq=False, repr=False)
class LocalRunner:
    """An `AttemptRunner` over an engine."""

    _world: LocalWorld

    async def run(self, attempt: Attempt, *, report: Report, stop: trio.Event) -> AttemptRow:
        """Run an attempt to its end, and return its row. See `AttemptRunner`."""
        run = AttemptRun(self._world, attempt, report)
        try:
            with ErrorBoundary(on_error=run.fail), trio.CancelScope() as scope:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_cancel_on, stop, scope)
                    await run.play()
                    nursery.cancel_scope.cancel(reason="the attempt is over")
            if scope.cancelled_caught:
                run.stop()
            row = run.row()
        finally:
            # Also after a cancel: it closes within seconds, and the next runner can open it at once.
            with ErrorBoundary(on_error=run.fail):
                await run.close()  # noqa: ASYNC102  # bounded: see Engine.close_session
        return row

    async def remove_folders(self, tasks: Sequence[BatchTask]) -> None:
        """Remove what is left of the folders of these tasks. See `AttemptRunner`."""
        with ErrorBoundary():  # a folder that stays is no reason to end the batch
            await self._world.folders.remove(tasks)


async def _cancel_on(stop: trio.Event, scope: trio.CancelScope) -> None:
    await stop.wait()
    scope.cancel(reason="the batch was stopped")
