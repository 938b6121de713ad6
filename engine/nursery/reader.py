"""The reader: the one task that receives from the model.

It raises nothing ordinary: a request that fails, a stream that breaks or falls
silent is a value in the step (`Step.failure`). Raised into the step's nursery it
would kill the running tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.errors import ProviderError, StreamTimeout
from engine.exceptions import describe, is_group, split
from engine.model import StreamEvent
from engine.nursery.retry import Failure, failure_of

if TYPE_CHECKING:
    from engine.nursery.step import Step
    from engine.ports import ModelStream


@enable_ki_protection
async def read_stream(step: Step) -> None:
    """Send the request and feed *step* until the stream is over. Always a checkpoint.

    If cancelled, what was received is kept and the connection is closed.
    """
    try:
        await trio.lowlevel.checkpoint_if_cancelled()
        await _receive_all(step)
    except ProviderError as error:
        step.failure = _with_reset(step, failure_of(error))
    except BaseException as error:
        passing, ordinary = split(error)
        if ordinary is not None:
            step.failure = _foreign(ordinary)
        if passing is not None:
            raise
    finally:
        step.stop_receiving()


def _with_reset(step: Step, failure: Failure) -> Failure:
    """Return *failure* with the time at which a limit is lifted, where the host told only how long to wait."""
    if failure.kind != "rate_limited" or failure.wait is None or failure.reset_at is not None:
        return failure
    return attrs.evolve(failure, reset_at=step.run.deps.clock.now() + failure.wait)


def _foreign(error: BaseException) -> Failure:
    found = error
    if is_group(found):
        found = next((e for e in found.exceptions if isinstance(e, ProviderError)), found)
    if isinstance(found, ProviderError):
        return failure_of(found)
    return Failure(kind="fatal", message=f"the provider failed: {describe(error)}")


async def _receive_all(step: Step) -> None:
    timeouts = step.run.settings.timeouts
    total_at = trio.current_time() + timeouts.total
    stream = await _open(step, min(timeouts.headers, timeouts.total))
    try:
        while True:
            batch = await _next(stream, timeouts.idle, timeouts.total, total_at)
            if not batch:
                return
            # The port promises that `receive` is a checkpoint, so this loop lets
            # other tasks run once per network chunk, not once per delta.
            step.feed(batch)
    finally:
        # By trio's convention `aclose` closes forcefully if it is cancelled.
        await stream.aclose()


async def _open(step: Step, limit: float) -> ModelStream:
    stream: ModelStream | None = None
    with trio.move_on_after(limit):
        stream = await step.model.open(step.request)
    if stream is None:
        raise StreamTimeout("headers", limit)
    return stream


async def _next(stream: ModelStream, idle: float, total: float, total_at: float) -> Sequence[StreamEvent]:
    """Return the next batch. The slot decides, not the scope: a batch that has come is not thrown away."""
    batch: Sequence[StreamEvent] | None = None
    limit_at = min(trio.current_time() + idle, total_at)
    with trio.move_on_at(limit_at):
        batch = await stream.receive()
    if batch is None:
        raise StreamTimeout("total", total) if limit_at == total_at else StreamTimeout("idle", idle)
    return batch
