"""`ScriptedProvider`: a model that plays a script, in memory, on trio's clock."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import attrs
import trio

from engine.core.errors import ConnectionBroken, ProviderProtocolError
from engine.core.llm_types import ModelInfo, ModelRequest, StreamEvent
from engine.core.protocols import NoTrace
from engine.providers.failures.http_failure import http_failure
from engine.providers.wire.wire_format import HttpReply
from engine.testing.script import Answer, Break, Fail, HttpFailure, Pause, ScriptItem

if TYPE_CHECKING:
    from engine.core.protocols import Trace

ScriptedAnswer = Answer | Callable[[ModelRequest], Answer]


@attrs.define(eq=False)
class ScriptedProvider:
    """Answers request N with the N-th answer of its script.

    Attributes:
        script: the answers; one may be a function of the request.
        info: the model's name, limits and prices.
        batch: the number of events in one chunk.
        repeat: repeat the last answer for ever.
        requests: all requests, in order.
        open_streams: the number of streams that were opened and not closed.
    """

    script: Sequence[ScriptedAnswer]
    info: ModelInfo = ModelInfo(name="scripted/model")
    batch: int = 1
    repeat: bool = False
    trace: Trace = attrs.field(factory=NoTrace)
    requests: list[ModelRequest] = attrs.field(factory=list[ModelRequest], init=False)
    open_streams: int = attrs.field(default=0, init=False)

    async def open(self, request: ModelRequest) -> ScriptedStream:
        """Begin the next answer. Always a checkpoint. Raises the error with which the answer begins, if any."""
        index = len(self.requests)
        self.requests.append(request)
        self.trace.point("model.open")
        await trio.lowlevel.checkpoint()
        answer = list(self._answer(index, request))
        # The items before the first event decide how the request itself ends, as a real response's head does.
        while answer and isinstance(first := answer[0], (Pause, Fail, HttpFailure)):
            await _play(first)
            answer.pop(0)
        self.open_streams += 1
        self.trace.point("model.opened")
        return ScriptedStream(self, answer)

    def _answer(self, index: int, request: ModelRequest) -> Answer:
        if index >= len(self.script) and not (self.repeat and self.script):
            raise ProviderProtocolError(f"the script has {len(self.script)} answers; this is request {index + 1}")
        answer = self.script[min(index, len(self.script) - 1)]
        return answer(request) if callable(answer) else answer


@attrs.define(eq=False)
class ScriptedStream:
    """The stream of one scripted answer."""

    _model: ScriptedProvider
    _items: list[ScriptItem]
    _next: int = attrs.field(default=0, init=False)
    _closed: bool = attrs.field(default=False, init=False)

    async def receive(self) -> Sequence[StreamEvent]:
        """Return the next batch. Always a checkpoint; if cancelled, the next call returns the batch."""
        self._model.trace.point("model.receive")
        await trio.lowlevel.checkpoint()
        while self._next < len(self._items) and isinstance(
            item := self._items[self._next], (Pause, Break, Fail, HttpFailure)
        ):
            await _play(item)
            self._next += 1  # after the await: a cancelled pause is played again
        batch: list[StreamEvent] = []
        while len(batch) < self._model.batch and self._next < len(self._items):
            item = self._items[self._next]
            if isinstance(item, (Pause, Break, Fail, HttpFailure)):
                break
            batch.append(item)
            self._next += 1
        return batch

    async def aclose(self) -> None:
        """Close it. Always a checkpoint; if cancelled, it is still closed."""
        if not self._closed:
            self._closed = True
            self._model.open_streams -= 1
        await trio.lowlevel.checkpoint()


async def _play(item: Pause | Break | Fail | HttpFailure) -> None:
    match item:
        case Pause():
            await trio.sleep(item.seconds)
        case Break():
            raise ConnectionBroken(item.message, retryable=True)
        case Fail():
            raise item.error
        case HttpFailure():
            reply = HttpReply(status=item.status, headers=dict(item.headers), body=item.body.encode())
            raise http_failure("Scripted", reply, trio.current_time())
