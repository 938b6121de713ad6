"""`TurnSpans`: the spans of one turn, opened and ended by the events of its record.

    invoke_agent ─┬─ chat                     one for each request; retries are events of it
                  ├─ execute_tool ─── invoke_agent   (a sub-agent's turn)
                  ├─ engine.permission_wait   and the other waits for a person
                  ├─ engine.compaction ─── chat
                  └─ engine.store.flush

Their times are those of the events, so a trace and a record agree. Every call is settled, every question is answered or
withdrawn and every turn ends in the record, whatever is cancelled when: so every span ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

import attrs
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import SpanKind

from engine.core import events as ev
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.telemetry import conventions as n
from engine.telemetry.attributes import Value, error_of_turn, of_ended, of_request, of_usage, provider_and_model
from engine.telemetry.call_spans import CallSpans, CallWorker
from engine.telemetry.chat_span import RequestSpan
from engine.telemetry.content import input_messages, system_instructions
from engine.telemetry.exporting import Exporting, nanoseconds
from engine.telemetry.open_span import LEFT_OPEN, OpenSpan

if TYPE_CHECKING:
    from contextvars import Token


@attrs.define(eq=False, kw_only=True)
class TurnSpans:
    """The spans of one turn.

    Attributes:
        now: the wall clock.
        root: the turn's own.
        calls: those of its calls, and of its waits for a person.
        is_recovered: another process had begun it.
        is_framed: its frame is at work, and ends the root after the last flush.
        ended: its end, once that is in the record.
        chat: the last request.
    """

    exporting: Exporting
    now: Callable[[], float]
    session_id: SessionId
    turn_id: TurnId
    root: OpenSpan
    is_recovered: bool = False
    is_framed: bool = False
    ended: ev.TurnEnded | None = None
    chat: RequestSpan | None = None
    calls: CallSpans = attrs.field(init=False)
    _compaction: OpenSpan | None = None

    def __attrs_post_init__(self) -> None:
        self.calls = CallSpans(self.exporting, self.open)

    def open(
        self,
        name: str,
        at: float,
        facts: Mapping[str, Value],
        above: OpenSpan | None = None,
        *,
        kind: SpanKind = SpanKind.INTERNAL,
        traceparent: str = "",
    ) -> OpenSpan:
        """Open a span; see `SpanOpener`."""
        parent = (above or self.root).context
        common = {**common_facts(self.exporting, self.session_id), n.TURN: self.turn_id}
        span = self.exporting.start(name, parent, at, {**common, **facts}, kind=kind, traceparent=traceparent)
        return OpenSpan(span, trace.set_span_in_context(span, parent), at)

    def worker(self, call_id: CallId | None) -> TurnWorker | CallWorker:
        """Return the block of the task that does the work of the turn, or of a call."""
        return TurnWorker(self.root) if call_id is None else CallWorker(self.calls, self.exporting, call_id)

    # -- requests, and what is made of them ------------------------------------------------

    def begin_chat(self, info: ModelInfo, request: ModelRequest) -> RequestSpan:
        """Open the span of a request, or go on with that of the one before, if this is its retry."""
        before = self.chat
        if before is not None and before.is_retried and before.model == info.name:
            before.resume()
            return before
        self._end_chat("", self.now())
        exporting = self.exporting
        facts = of_request(info, request, exporting.names)
        if exporting.options.content:
            facts[n.INPUT_MESSAGES] = input_messages(request, exporting.content)
            if request.system:
                facts[n.SYSTEM] = system_instructions(request, exporting.content)
        name = f"{n.CHAT} {facts[n.REQUEST_MODEL]}"
        opened = self.open(name, self.now(), facts, self._compaction, kind=SpanKind.CLIENT)
        self.chat = RequestSpan(exporting, self.now, info.name, opened)
        return self.chat

    def note_retry(self, event: ev.RetryScheduled) -> None:
        """Note that the last request is sent again."""
        error = "" if self.chat is None else self.chat.note_retry(event)
        self.exporting.meters.retries.add(1, {n.ERROR_TYPE: error or "unknown"})

    def note_fallback(self, event: ev.LoopContinued) -> None:
        """Note that another model takes over."""
        provider, model = provider_and_model(event.model)
        facts = {n.PROVIDER: provider, n.REQUEST_MODEL: model}
        self.root.span.add_event(n.FALLBACK, facts, nanoseconds(event.time))

    def apply_compaction(self, event: ev.CompactionStarted | ev.CompactionEnded) -> None:
        """Open the span of a compaction, or end it."""
        if isinstance(event, ev.CompactionStarted):
            self._compaction = self.open(n.COMPACTION, event.time, {n.TRIGGER: event.trigger})
            return
        self._end_chat("", event.time)
        opened, self._compaction = self._compaction, None
        if opened is None:
            return
        facts = of_usage(event.usage, event.cost, self.exporting.names)
        opened.end(event.time, facts, "" if event.outcome == "compacted" else event.outcome)
        compacted = self.exporting.names.compacted
        if compacted and event.outcome == "compacted":
            self.root.span.set_attribute(compacted, value=True)

    def _end_chat(self, error: str, at: float) -> None:
        """End the span of a request that no retry follows any more."""
        if self.chat is not None:
            self.chat.give_up(error, at)
            self.chat = None

    # -- the end ---------------------------------------------------------------------------

    def end(self, event: ev.TurnEnded) -> None:
        """End all spans of the turn but its own, and that too if the turn has no frame."""
        self.ended = event
        error = error_of_turn(event, is_recovered=self.is_recovered)
        self._end_chat(error, event.time)
        for opened in (*self.calls.take_open(), *([] if self._compaction is None else [self._compaction])):
            opened.end(event.time, {}, LEFT_OPEN)
        self._compaction = None
        if event.ending is not None and event.ending.at:
            latency = max(0.0, event.time - event.ending.at)
            self.exporting.meters.cancel.record(latency, {n.ENDING: event.ending.cause})
        if not self.is_framed:
            self.end_root(event.time)

    def end_root(self, at: float) -> None:
        """End the turn's span. Its end must be in the record."""
        assert self.ended is not None
        error = error_of_turn(self.ended, is_recovered=self.is_recovered)
        self.root.end(at, of_ended(self.ended, self.exporting.names), error)


def common_facts(exporting: Exporting, session_id: SessionId) -> dict[str, Value]:
    """Return what all spans of a session have."""
    facts: dict[str, Value] = {n.CONVERSATION: session_id, n.SESSION: session_id}
    if exporting.options.user:
        facts[n.USER] = exporting.options.user
    return facts


@attrs.define(eq=False)
class TurnWorker:
    """The block of the task that does the work of a turn."""

    _root: OpenSpan
    _token: Token[Context] | None = attrs.field(default=None, init=False)

    def __enter__(self) -> None:
        self._token = otel_context.attach(self._root.context)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            otel_context.detach(self._token)
