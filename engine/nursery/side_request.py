"""Requests of the engine's own in a turn, outside of its steps: for a summary, say.

They run in the turn's loop, so whatever ends the turn ends them too. They are charged to the turn's budget, also if no
answer comes. No tool is offered, and none is run.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.compaction.token_estimate import text_tokens
from engine.core.compaction_types import ModelReply
from engine.core.errors import ErrorInfo
from engine.core.events import RetryScheduled
from engine.core.ids import MessageId, PartId
from engine.core.llm_types import (
    Effort,
    Finished,
    ModelInfo,
    ModelOptions,
    ModelRequest,
    StreamEvent,
    TextChunk,
    TextDone,
    TextStarted,
    ToolCallStarted,
    UsageReported,
    is_credible,
)
from engine.core.messages import FinishReason, TextPart, Transcript, Usage, UserMessage
from engine.core.protocols import Model
from engine.nursery.retry import Failure, RetryBudget, next_delay, patience, silent_overflow
from engine.nursery.running_turn import TurnRun
from engine.nursery.stream_reader import read_stream


@attrs.define(eq=False, repr=False, kw_only=True)
class ReplyListener:
    """Receives one answer, and records nothing; see `engine.nursery.stream_reader.Receiver`."""

    model: Model
    failure: Failure | None = attrs.field(default=None, init=False)
    usage: Usage = attrs.field(factory=Usage, init=False)
    finish: FinishReason | None = attrs.field(default=None, init=False)
    finish_detail: str = attrs.field(default="", init=False)
    response: tuple[str, str] = attrs.field(default=("", ""), init=False)
    calls: list[str] = attrs.field(factory=list[str], init=False)
    _texts: dict[str, list[str]] = attrs.field(factory=dict[str, list[str]], init=False)

    @property
    def text(self) -> str:
        """The text of the answer."""
        return "".join(text for texts in self._texts.values() for text in texts)

    def feed(self, batch: Sequence[StreamEvent]) -> None:
        """Keep what was received. Not a checkpoint."""
        # No stream parser: nothing of the answer goes into the journal, and a slip costs at most a worse summary.
        for event in batch:
            match event:
                case TextStarted():
                    self._texts.setdefault(event.id, [])
                case TextChunk():
                    self._texts.setdefault(event.id, []).append(event.text)
                case TextDone():
                    if event.text is not None:
                        self._texts[event.id] = [event.text]
                case ToolCallStarted():
                    self.calls.append(event.tool)
                case UsageReported() if is_credible(event.usage):
                    self.usage = event.usage
                case Finished():
                    self.finish, self.finish_detail = event.reason, event.detail
                    self.response = event.response_id, event.response_model
                case _:
                    # Thinking and pings: nothing reads them.
                    pass

    def stop_receiving(self, failure: Failure | None, *, is_interrupted: bool) -> None:
        """Keep the failure. Not a checkpoint."""
        del is_interrupted  # then `ask` is cancelled as well, and nothing is made of the answer
        self.failure = failure


@attrs.define(eq=False, repr=False, kw_only=True)
class Asker:
    """Asks a model, and the next one if that fails; see `engine.core.compaction_types.Summariser`.

    Attributes:
        models: the one that is asked, and those to fall back to.
        usage: of all its requests.
        cost: of all its requests.
        asked: the name of the model that was asked last; empty: none was.
    """

    run: TurnRun
    models: tuple[Model, ...]
    usage: Usage = attrs.field(factory=Usage, init=False)
    cost: float = attrs.field(default=0.0, init=False)
    asked: str = attrs.field(default="", init=False)

    @property
    def info(self) -> ModelInfo:
        """The limits of the model that is asked next."""
        return self.models[0].info

    def new_id(self, kind: str) -> str:
        """Return a fresh identifier. Not a checkpoint."""
        return self.run.deps.ids.new(kind)

    async def ask(self, system: str, text: str, *, max_output: int) -> ModelReply:
        """Ask, with retries, then the next model. Always a cancel point; a failure is a part of the reply.

        If cancelled, what the requests have used so far is counted.
        """
        while True:
            listener = await self._until_answered(system, text, max_output)
            failure = listener.failure or silent_overflow(
                listener.model.info,
                listener.usage,
                listener.finish,
                listener.finish_detail,
                estimate=lambda: text_tokens(system) + text_tokens(text),
            )
            if failure is not None and failure.kind == "filtered" and len(self.models) == 1:
                # A filter decides the same each time. As a refusal, a summary without a model can stand in for it.
                return ModelReply(text=listener.text, finish="content_filter", calls=tuple(listener.calls))
            # An overflow is for the caller, who can ask for less; the next model's window may be no larger.
            if failure is None or failure.kind == "overflow" or len(self.models) == 1:
                return ModelReply(
                    text=listener.text,
                    finish=listener.finish,
                    calls=tuple(listener.calls),
                    failure="" if failure is None else f"{listener.model.info.name}: {failure.message}",
                    is_too_long=failure is not None and failure.kind == "overflow",
                )
            # For the rest of this compaction: a model that has failed for good is not asked again for the next piece.
            self.models = self.models[1:]

    async def _until_answered(self, system: str, text: str, max_output: int) -> ReplyListener:
        """Ask the first of the models until it answers or its retries are used up. Always a cancel point."""
        run, budget = self.run, RetryBudget()
        while True:
            run.state.patience = patience(run.inputs.settings.retry, budget)
            listener = await self._ask_once(system, text, max_output)
            delay = None
            if listener.failure is not None:
                delay = next_delay(listener.failure, budget, run.inputs.settings.retry, run.inputs.services.jitter())
            if listener.failure is None or delay is None:
                return listener
            # The same budgets as a step's, but counted by themselves: a summary must not use up the retries of the answer.
            budget = budget.after(listener.failure, delay)
            failure = listener.failure
            await wait_for_retry(
                run, delay, attempt=budget.attempts_made, message=failure.message, failure=failure.info
            )

    async def _ask_once(self, system: str, text: str, max_output: int) -> ReplyListener:
        model = self.models[0]
        self.asked = model.info.name
        ids = self.run.deps.ids
        part = TextPart(id=PartId(ids.new("part")), text=text)
        question = UserMessage(id=MessageId(ids.new("msg")), parts=(part,), origin="engine")
        # Not the turn's options: its temperature and its cap are meant for the answer.
        options = ModelOptions(effort=_effort(self.run)).over(model.info.options)
        request = ModelRequest(
            model=model.info.name,
            system=system,
            transcript=Transcript((question,)),
            tool_choice="none",
            options=attrs.evolve(options, output_cap=None),
            max_output=min(max_output, model.info.output),
            # Without a session id: the prefix of the session's next step is compared with that of its last step.
        )
        listener = ReplyListener(model=model)
        try:
            # Not `catch`: whoever asks may have a timeout of its own, which ends no turn.
            await read_stream(self.run, model, request, listener, self.run.ending.note_doing)
        finally:
            # Also on a cancel: what the host has reported by then it will bill.
            self._charge(listener, id(request))
        return listener

    @enable_ki_protection
    def _charge(self, listener: ReplyListener, key: int) -> None:
        """Count what a request took. Not a checkpoint."""
        cost = listener.model.info.cost(listener.usage)
        self.usage += listener.usage
        self.cost += cost
        self.run.budget.charge(listener.usage, cost, key)


def _effort(run: TurnRun) -> Effort | None:
    """Return the thinking effort for a summary: low, unless the turn asks for less or leaves it to the model."""
    effort = run.inputs.settings.options.effort
    return effort if effort in {None, "none", "minimal"} else "low"


async def wait_for_retry(run: TurnRun, delay: float, *, attempt: int, message: str, failure: ErrorInfo | None) -> None:
    """Wait before a request is sent again, unless the user skips the wait. Always a checkpoint."""
    # A new event: a skip that came when there was nothing to skip is not meant for this wait.
    run.state.skip_wait = trio.Event()
    # The time of day, since it is for people and other processes; the wait itself is on trio's clock.
    run.journal.append(
        RetryScheduled(
            attempt=attempt,
            message=message,
            next_at=run.deps.clock.now() + delay,
            attempts=run.inputs.settings.retry.attempts,
            failure=failure,
        )
    )
    with trio.move_on_after(delay):
        await run.state.skip_wait.wait()
