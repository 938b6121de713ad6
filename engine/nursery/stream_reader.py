"""The reader: the one task that receives from the model.

It raises nothing ordinary: a request that fails, a stream that breaks or falls silent is a value (`Failure`). Raised
into the step's nursery it would cancel the tools that are running.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import EngineError, ErrorInfo, ProviderError, ProviderProtocolError, StreamTimeout
from engine.core.exception_groups import ErrorBoundary, describe, is_group
from engine.core.foreign_calls import ForeignCall
from engine.core.llm_types import ModelRequest, RequestEstimate, StreamEvent
from engine.core.messages import FinishReason, Usage
from engine.core.protocols import Model, ModelStream
from engine.core.settings import Timeouts
from engine.journal.log import Journal
from engine.nursery.batch_check import AnswerMeter, check_batch
from engine.nursery.rate_limiter import Passage
from engine.nursery.retry import Failure, failure_of, timed
from engine.nursery.running_turn import TurnRun

# The answer is in already when the connection is closed: a proxy that hangs must not hold up the calls for longer.
CLOSE_WITHIN = 1.0
# Roughly, for a message to the user.
_CHARS_PER_TOKEN = 4


class Receiver(Protocol):
    """Takes an answer in: for a step, or for a request of the engine's own."""

    @property
    def usage(self) -> Usage:
        """What the request has taken so far, as its host counts."""
        ...

    @property
    def finish(self) -> FinishReason | None:
        """Why the model stopped, once that is known."""
        ...

    @property
    def response(self) -> tuple[str, str]:
        """What the host calls the answer and the model that has written it, once it is complete; empty: it does not say."""
        ...

    def feed(self, batch: Sequence[StreamEvent]) -> None:
        """Take what was received. Not a checkpoint."""
        ...

    def stop_receiving(self, failure: Failure | None, *, is_interrupted: bool) -> None:
        """Take note that the stream is over: by itself, by a failure, or interrupted by a cancel. Not a checkpoint."""
        ...


@enable_ki_protection
async def read_stream(
    run: TurnRun,
    model: Model,
    request: ModelRequest,
    receiver: Receiver,
    on_cancel: Callable[[BaseException], None],
) -> None:
    """Send *request* and feed *receiver* until the stream is over.

    Always a cancel point; a schedule point if the model keeps to its port, where all methods are. If cancelled,
    *on_cancel* is called, what was received is kept and the connection is closed. An error of the receiver is ours, not the provider's: it ends the turn.
    """
    failure: Failure | None = None
    is_interrupted = False
    meter = AnswerMeter(run.inputs.settings.answer)

    def fail(error: BaseException) -> None:
        nonlocal failure
        if isinstance(error, _AnswerTooLarge):
            failure = Failure(kind="oversized", message=str(error))
        elif isinstance(error, ProviderError):
            # It may say when to try again; that time counts from now.
            failure = timed(_with_received(failure_of(error, model.info), meter), run.deps.clock.now())
        else:
            failure = _failure_of_foreign(error, model)

    def interrupt(error: BaseException) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        on_cancel(error)

    chat = run.journal.spans.chat(run.journal.turn_id, model.info, request)
    try:
        with chat, ErrorBoundary(on_error=fail, on_propagate=interrupt):
            # A task in a cancelled nursery runs to its first checkpoint: no request may be sent before this one.
            await trio.lowlevel.checkpoint_if_cancelled()
            if run.budget.is_limited:
                await run.budget.open_request(id(request), estimate_next(run, model, request))
                # What other turns have spent may have ended this turn.
                await trio.lowlevel.checkpoint_if_cancelled()
            # Waiting for other requests is not the host's silence: its time begins when this one may go.
            async with run.inputs.services.traffic.passage(
                model.info,
                request,
                partial(run.notice, "info"),
                longest=run.inputs.settings.retry.longest,
                tokens=lambda: estimate_next(run, model, request).tokens,
            ) as passage:
                try:
                    await _receive(run, model, request, receiver, passage, meter=meter)
                finally:
                    passage.used = receiver.usage.total
    finally:
        # Before the receiver learns of it: calls may start other requests then.
        cost = model.info.cost(receiver.usage)
        run.budget.note_answer(id(request), receiver.usage, cost)
        receiver.stop_receiving(failure, is_interrupted=is_interrupted)
        error = "cancelled" if is_interrupted else _reason(failure)
        chat.finish(receiver.usage, cost, receiver.finish, error, receiver.response)


def estimate_next(run: TurnRun, model: Model, request: ModelRequest) -> RequestEstimate:
    """Return what a request of a turn will take. Not a checkpoint."""
    # Imported here: most turns have no limit that needs it.
    from engine.compaction.request_estimate import estimate_request

    counted = run.state.counted
    return estimate_request(request, model.info, None if counted is None else (counted.usage, counted.transcript))


def _reason(failure: Failure | None) -> str:
    """Return in one word what a request failed by; empty if it did not."""
    if failure is None:
        return ""
    return failure.kind if failure.info is None else failure.info.code


class _AnswerTooLarge(Exception):
    """The answer exceeds `Settings.answer`."""


def _with_received(failure: Failure, meter: AnswerMeter) -> Failure:
    """Return the failure with how much of the answer had come, if that is where the connection was lost."""
    info = failure.info
    if info is None or info.code not in {"connection_failed", "connection_lost"} or not meter.chars:
        return failure
    tokens = max(1, meter.chars // _CHARS_PER_TOKEN)
    return attrs.evolve(failure, info=attrs.evolve(info, code="connection_lost", amount=tokens))


def _failure_of_foreign(error: BaseException, model: Model) -> Failure:
    """Return the failure for an error that is no `ProviderError`, or a group that may hold one."""
    # A provider may use a nursery of its own, and trio wraps what leaves it.
    provider_error = error
    if is_group(provider_error):
        provider_error = next((e for e in provider_error.exceptions if isinstance(e, ProviderError)), provider_error)
    if isinstance(provider_error, ProviderError):
        return failure_of(provider_error, model.info)
    # A message of ours needs no class name in front of it. Fatal: of a foreign error it is unknown whether a retry helps,
    # and it may have been paid for.
    reason = str(provider_error) if isinstance(provider_error, EngineError) else describe(error)
    info = ErrorInfo(code="provider_failed", host=model.info.host, model=model.info.name)
    return Failure(kind="fatal", message=f"the provider failed: {reason}", info=info)


async def _receive(
    run: TurnRun,
    model: Model,
    request: ModelRequest,
    receiver: Receiver,
    passage: Passage,
    *,
    meter: AnswerMeter,
) -> None:
    """Receive until the end of the stream. A checkpoint if the model's methods are; raises what the provider raises.

    If cancelled, the connection is closed.
    """
    timeouts = _timeouts(run, model)
    # The total counts from the request on: a host that is slow to answer leaves less time for the answer.
    total_at = trio.current_time() + timeouts.total

    def take(received: object) -> bool:
        batch, error = check_batch(received)
        # An empty batch is the port's sign for the end of the stream.
        is_over = not batch
        batch, excess = meter.take(batch)
        if batch:
            passage.note_start()
            if not _feed(run, receiver, batch):
                return False
        if excess:
            raise _AnswerTooLarge(excess)
        if error is not None:
            raise error
        return not is_over

    stream = await _open(model, request, min(timeouts.headers, timeouts.total))
    try:
        receive = ForeignCall(f"`receive` of {model.info.name}", stream.receive)
        await _receive_batches(receive, take, timeouts, total_at)
    finally:
        await _close(run, stream)  # noqa: ASYNC102  # bounded: CLOSE_WITHIN, and a cancelled `aclose` closes forcefully


def _timeouts(run: TurnRun, model: Model) -> Timeouts:
    timeouts, patience, silence = run.inputs.settings.timeouts, run.state.patience, model.info.silence
    headers, idle = (timeouts.headers, timeouts.idle) if silence is None else (silence, silence)
    return attrs.evolve(timeouts, headers=min(headers, patience), idle=min(idle, patience))


async def _receive_batches(
    receive: ForeignCall[Sequence[StreamEvent]], take: Callable[[object], bool], timeouts: Timeouts, total_at: float
) -> None:
    """Pass on each batch until *take* returns False. A checkpoint after each but the last. Raises `StreamTimeout`.

    A batch that arrives together with the deadline counts: it is passed on inside the scope, and the next one has a new
    scope.
    """
    while True:
        # Its deadline is moved: a new scope for each batch would cost a sixth of a delta.
        with trio.CancelScope() as scope:
            while True:
                scope.deadline = min(trio.current_time() + timeouts.idle, total_at)
                # `receive` is a checkpoint, so this loop lets other tasks run once per network chunk, not once per delta.
                if not take(await receive):
                    return
                if scope.cancel_called:
                    break
                if not receive.has_waited:
                    # It breaks that promise: nothing could end this loop, not even Ctrl-C.
                    await trio.lowlevel.checkpoint()
        if scope.cancelled_caught:
            is_total = scope.deadline == total_at
            raise StreamTimeout("total", timeouts.total) if is_total else StreamTimeout("idle", timeouts.idle)


def _feed(run: TurnRun, receiver: Receiver, batch: Sequence[StreamEvent]) -> bool:
    """Pass a batch on; return whether the receiver took it. Its error is ours and ends the turn. Not a checkpoint."""
    try:
        receiver.feed(batch)
    except BaseException:
        # A boundary for every chunk would cost a tenth of a delta, so it is made only now.
        with ErrorBoundary(on_error=run.crash):
            raise
        # Not raised: outside of that boundary it would count as the provider's, and be retried.
        return False
    return True


async def _open(model: Model, request: ModelRequest, limit: float) -> ModelStream:
    """Open the stream. A checkpoint if the model's `open` is one; if cancelled, there is none."""
    with trio.move_on_after(limit):
        stream = await ForeignCall(f"`open` of {model.info.name}", partial(model.open, request))
        if not (hasattr(stream, "receive") and hasattr(stream, "aclose")):
            raise ProviderProtocolError(
                f"the provider broke its protocol: `open` gave {type(stream).__name__}, no stream"
            )
        return stream
    raise StreamTimeout("headers", limit)


async def _close(run: TurnRun, stream: ModelStream) -> None:
    """Close the connection. The answer is in, or has failed already, so an error here is reported and changes nothing."""

    def report(error: BaseException) -> None:
        run.notice("warning", "close_failed", f"the stream could not be closed: {describe(error)}")

    # By trio's convention `aclose` closes forcefully if it is cancelled, so this needs no shield: in a cancelled scope it
    # raises at once, and the connection is closed all the same.
    with ErrorBoundary(on_error=report), trio.move_on_after(CLOSE_WITHIN):
        await ForeignCall("`aclose` of a model's stream", stream.aclose)


@enable_ki_protection
async def save_drafts(journal: Journal, is_over: trio.Event) -> None:
    """Save the open text at intervals until the stream is over. A checkpoint unless it is over, or nothing is saved.

    On a timer, not per chunk: a host that falls silent has sent something before. If cancelled, the cleanup closes
    the parts, and what they hold is saved with them.
    """
    while not is_over.is_set() and (interval := journal.draft_interval) is not None:
        with trio.move_on_after(interval):
            await is_over.wait()
        # Not a checkpoint: the store's writer does it in its own time.
        journal.save_drafts()
