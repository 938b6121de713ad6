"""The reader: the one task that receives from the model.

It raises nothing ordinary: a request that fails, a stream that breaks or falls
silent is a value in the step (`Step.failure`). Raised into the step's nursery it
would kill the running tools.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Protocol

import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import EngineError, ProviderError, ProviderProtocolError, StreamTimeout
from engine.core.exception_groups import ErrorBoundary, describe, is_group
from engine.journal.partial_output import SAVE_INTERVAL
from engine.nursery.batch_check import check_batch
from engine.nursery.retry import Failure, failure_of, timed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.core.llm_types import ModelRequest, StreamEvent
    from engine.core.protocols import Model, ModelStream
    from engine.nursery.rate_limiter import Passage
    from engine.nursery.running_turn import TurnRun
    from engine.nursery.step import Step

CLOSE_WITHIN = 1.0


class Receiver(Protocol):
    """Who an answer is for: a step, or a question beside the steps.

    Attributes:
        failure: what broke the request or the stream.
    """

    run: TurnRun
    model: Model
    request: ModelRequest
    failure: Failure | None

    def feed(self, batch: Sequence[StreamEvent]) -> None:
        """Take what was received. Not a checkpoint."""
        ...

    def stop_receiving(self) -> None:
        """No more will come. Not a checkpoint."""
        ...


@enable_ki_protection
async def read_stream(step: Receiver) -> None:
    """Send the request and feed *step* until the stream is over. Always a checkpoint.

    If cancelled, what was received is kept and the connection is closed.
    """

    def fail(error: BaseException) -> None:
        if isinstance(error, ProviderError):
            # It may say when to try again; that time counts from now.
            step.failure = timed(failure_of(error), step.run.deps.clock.now())
        else:
            step.failure = _foreign(error)

    try:
        with ErrorBoundary(on_error=fail, on_propagate=lambda _: step.run.ending.catch()):
            await trio.lowlevel.checkpoint_if_cancelled()
            await _receive_all(step)
    finally:
        step.stop_receiving()


def _foreign(error: BaseException) -> Failure:
    provider_error = error
    if is_group(provider_error):
        provider_error = next((e for e in provider_error.exceptions if isinstance(e, ProviderError)), provider_error)
    if isinstance(provider_error, ProviderError):
        return failure_of(provider_error)
    # Our own words need no name of a class before them.
    reason = str(provider_error) if isinstance(provider_error, EngineError) else describe(error)
    return Failure(kind="fatal", message=f"the provider failed: {reason}")


async def _receive_all(step: Receiver) -> None:
    info = step.model.info
    # Waiting for others is not the host's silence: its time begins when the request may go.
    async with step.run.inputs.services.traffic.passage(
        info, step.request, partial(step.run.notice, "info")
    ) as passage:
        await _receive(step, passage)


async def _receive(step: Receiver, passage: Passage) -> None:
    timeouts = step.run.inputs.settings.timeouts
    total_at = trio.current_time() + timeouts.total
    stream = await _open(step, min(timeouts.headers, timeouts.total))
    try:
        while True:
            batch, error = check_batch(await _next(stream, timeouts.idle, timeouts.total, total_at))
            if batch:
                passage.note_start()
                # The port promises that `receive` is a checkpoint, so this loop lets
                # other tasks run once per network chunk, not once per delta.
                step.feed(batch)
            if error is not None:
                raise error
            if not batch:
                return
    finally:
        await _close(step, stream)  # noqa: ASYNC102  # bounded: see concluder.py


async def _open(step: Receiver, limit: float) -> ModelStream:
    with trio.move_on_after(limit):
        stream = await step.model.open(step.request)
        if not (hasattr(stream, "receive") and hasattr(stream, "aclose")):
            raise ProviderProtocolError(
                f"the provider broke its protocol: `open` gave {type(stream).__name__}, no stream"
            )
        return stream
    raise StreamTimeout("headers", limit)


async def _next(stream: ModelStream, idle: float, total: float, total_at: float) -> object:
    """Return the next batch. What has come counts, not the scope: it is not thrown away for a deadline."""
    limit_at = min(trio.current_time() + idle, total_at)
    with trio.move_on_at(limit_at):
        return await stream.receive()
    raise StreamTimeout("total", total) if limit_at == total_at else StreamTimeout("idle", idle)


async def _close(step: Receiver, stream: ModelStream) -> None:
    """Close the connection. The answer is in, or has failed already: what goes wrong here is told and changes nothing."""

    def report(error: BaseException) -> None:
        step.run.notice("warning", "close_failed", f"the stream could not be closed: {describe(error)}")

    # By trio's convention `aclose` closes forcefully if it is cancelled.
    with ErrorBoundary(on_error=report), trio.move_on_after(CLOSE_WITHIN):
        await stream.aclose()


@enable_ki_protection
async def keep_drafts(step: Step) -> None:
    """Save what has come, every so often, until the stream is over. A checkpoint unless it is over, or nothing is saved.

    On a timer, not per chunk: a host that falls silent has sent something before. If
    cancelled, the concluder closes the parts, and what they hold is saved with them.
    """
    journal = step.run.journal.log
    if journal.drafts is None:
        return
    while not step.stream_over.is_set():
        with trio.move_on_after(SAVE_INTERVAL):
            await step.stream_over.wait()
        journal.drafts.save(journal)
