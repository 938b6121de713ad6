"""`TaskRun`: one task that a worker has taken, from its session's opening to the end of its lease."""

from __future__ import annotations

import logging
from typing import Final, final

import attrs
import trio

from engine.core.errors import EngineError, SessionBusy, SessionElsewhere, TurnNotEnded, TurnParked
from engine.core.events import StopReason, TurnResult
from engine.core.exception_groups import describe
from engine.core.ids import InputId
from engine.core.value_base import Value
from engine.nursery.cleanup import close_bounded
from engine.session.engine import Engine
from engine.session.session import Session, live_session
from engine.session.turn import Turn
from engine.store.work_queue import QueuedTask, WorkQueue

# The name of workers in the record, as the client that sends and cancels prompts.
BY: Final = "worker"
# What the model reads after a worker has died or was drained.
_CONTINUE: Final = "Continue the task where it stopped."
# These are no fault of the task: another attempt may do better.
_RETRIED: Final[frozenset[StopReason]] = frozenset({"auth_failed", "rate_limited", "provider_error"})
_FIRST_PAUSE, _LONGEST_PAUSE = 5.0, 300.0
_BUSY_PAUSE: Final = 2.0
# For the end of a turn, and of its lease.
_FINISH_SECONDS: Final = 20.0
_log = logging.getLogger("engine.fleet")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TaskEnd(Value):
    """How a worker's work at a task ended.

    Attributes:
        outcome: how the task ended; empty: it was given back.
        detail: the same in words.
        result: that of its turn, if there was one.
        pause: seconds until another worker may take it.
        counts: it counts as an attempt.
    """

    outcome: str = ""
    detail: str = ""
    result: TurnResult | None = None
    pause: float = 0.0
    counts: bool = False


@final
class TaskRun:
    """A task that is being run.

    Attributes:
        task: the task.
    """

    def __init__(self, engine: Engine, queue: WorkQueue, task: QueuedTask) -> None:
        """Make it of a task that was taken."""
        self.task = task
        self._engine = engine
        self._queue = queue
        self._session: Session | None = None
        self._turn: Turn | None = None
        self._scope = trio.CancelScope()

    def stop(self) -> None:
        """Give the task back: its turn is parked or cancelled. Not a checkpoint."""
        self._scope.cancel(reason="the worker is drained")

    async def run(self) -> TaskEnd:
        """Run the task; return what became of it. A checkpoint.

        If cancelled, as after `stop`, its turn is ended and the task given back, within seconds.
        """
        end = TaskEnd(detail="its worker was stopped")
        try:
            with self._scope:
                end = await self._run_turn()
        except (SessionElsewhere, SessionBusy, TurnParked) as error:
            end = TaskEnd(detail=str(error), pause=_BUSY_PAUSE)
        except EngineError as error:
            end = self._failed_attempt(str(error).partition("\n")[0])
        finally:
            end = await self._finish(end)  # noqa: ASYNC102  # bounded: see `_finish`
        return end

    async def _run_turn(self) -> TaskEnd:
        """Open the session, and run its turn to the end. A checkpoint. Raises errors of the engine."""
        session = self._session = await self._open()
        turn = self._turn = self._start(session)
        result = session.state.last_result if turn is None else await turn.wait()
        assert result is not None  # the task's own turn is over
        return self._end_of(result)

    async def _open(self) -> Session:
        spec = self.task.spec
        if spec.cwd is None:
            return await self._engine.open_session(spec.session_id)
        return await self._engine.create_session(
            cwd=spec.cwd, session_id=spec.session_id, model=spec.model or None, agent=spec.agent or None
        )

    def _start(self, session: Session) -> Turn | None:
        """Start the turn, or go on where another worker has stopped; None: the task is done. Not a checkpoint."""
        key = self.task.spec.key
        if live_session(session).journal.admitted(InputId(key)) is None:
            return self._engine.start_turn(session, self.task.spec.text, input_id=key, by=BY)
        if session.state.turn is not None:
            return self._engine.resume_turn(session)
        last = session.state.last_result
        if last is not None and last.stop_reason != "aborted" and last.stop_reason not in _RETRIED:
            return None
        # The number of the last event makes it another prompt for each worker, and the same one if this is repeated.
        again = f"{key}:{session.state.seq}"
        return self._engine.start_turn(session, _CONTINUE, input_id=again, by=BY)

    def _end_of(self, result: TurnResult) -> TaskEnd:
        if result.stop_reason in _RETRIED:
            return attrs.evolve(self._failed_attempt(f"{result.stop_reason}: {result.detail}"), result=result)
        if not result.durable:
            return attrs.evolve(self._failed_attempt("the end of its turn could not be saved"), result=result)
        return TaskEnd(outcome=result.stop_reason, detail=result.detail, result=result)

    def _failed_attempt(self, detail: str) -> TaskEnd:
        pause = min(_FIRST_PAUSE * 2 ** (self.task.attempts - 1), _LONGEST_PAUSE)
        return TaskEnd(detail=detail, pause=pause, counts=True)

    # -- its end ----------------------------------------------------------------------------

    async def _finish(self, end: TaskEnd) -> TaskEnd:
        """End the turn if it runs, record the end, and release the leases; return it. A checkpoint; shielded, with a deadline."""
        finished = end

        async def finish() -> None:
            nonlocal finished
            result = await self._end_turn()
            if result is not None and end.result is None and result.stop_reason != "aborted":
                # It ended by itself at the last moment.
                finished = self._end_of(result)
            if finished.outcome and not await self._queue.end(self.task.spec.key, finished.outcome, finished.detail):
                finished = TaskEnd(detail="its lease was lost: another worker has it", result=finished.result)
            await self._close_session()
            if not finished.outcome:
                await self._queue.give_back(
                    self.task.spec.key, after=finished.pause, detail=finished.detail, counts=finished.counts
                )

        try:
            if not await close_bounded(finish, _FINISH_SECONDS):
                _log.warning("task %s was not let go within %g s", self.task.spec.key, _FINISH_SECONDS)
        except EngineError as error:
            # What the database has not got, its leases tell: they expire.
            _log.warning("task %s could not be let go: %s", self.task.spec.key, describe(error))
        return finished

    async def _end_turn(self) -> TurnResult | None:
        """Park the turn if it only waits, or else cancel it; return how it ended. A checkpoint if it runs."""
        if self._turn is None or self._session is None:
            return None
        result = _result_of(self._turn)
        if result is None:
            try:
                await self._engine.close_session(self._session.id)
            except SessionBusy:
                self._session.cancel(self._turn.id, by=BY)
                return await self._turn.wait()
        return result

    async def _close_session(self) -> None:
        """Close the session, unless something else has begun in it. A checkpoint."""
        # Nobody had it open when the task was taken, and an opening that was cancelled may have been too late.
        try:
            await self._engine.close_session(self.task.spec.session_id)
        except SessionBusy:
            return


def _result_of(turn: Turn) -> TurnResult | None:
    """Return how a turn ended; None: it has not, or it is parked."""
    try:
        return turn.result
    except (TurnNotEnded, TurnParked):
        return None
