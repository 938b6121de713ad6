"""`CallSpans`: the spans of a turn's calls, and of the waits for a person."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Final

import attrs
from opentelemetry import context as otel_context
from opentelemetry.context import Context

from engine.core import events as ev
from engine.core.ids import CallId, RequestId
from engine.journal.trace_context import ACTIVE
from engine.telemetry import conventions as n
from engine.telemetry.attributes import Value, error_of_call
from engine.telemetry.exporting import Exporting, environment_of, recorded_ids
from engine.telemetry.open_span import OpenSpan, SpanOpener

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.trace import Span

    from engine.journal.event_index import Answered
    from engine.journal.trace_context import ActiveSpan

Question = ev.PermissionAsked | ev.QuestionAsked | ev.RecoveryAsked

_WAITS: Final[Mapping[type[Question], str]] = {
    ev.PermissionAsked: n.PERMISSION_WAIT,
    ev.QuestionAsked: n.QUESTION_WAIT,
    ev.RecoveryAsked: n.RECOVERY_WAIT,
}
# A user who says no is no error; a wait that ends without an answer is one.
_NO_ANSWER: Final[Mapping[str, str]] = {"withdrawn": "cancelled", "expired": "expired"}


@attrs.define(eq=False)
class _Wait:
    kind: str
    call_id: CallId | None
    opened: OpenSpan


@attrs.define(eq=False)
class CallSpans:
    """The spans of a turn's calls, and of what the turn asks a person."""

    _exporting: Exporting
    _open: SpanOpener
    _running: dict[CallId, OpenSpan] = attrs.field(factory=dict[CallId, OpenSpan], init=False)
    _queued: dict[CallId, ev.CallQueued] = attrs.field(factory=dict[CallId, ev.CallQueued], init=False)
    _waits: dict[RequestId, _Wait] = attrs.field(factory=dict[RequestId, _Wait], init=False)
    _workers: dict[CallId, CallWorker] = attrs.field(factory=dict[CallId, "CallWorker"], init=False)

    def apply(self, event: ev.CallQueued | ev.CallStarted | ev.CallSettled) -> ev.CallStarted | None:
        """Take an event of a call; return it, if it opens a span, with the ids of that."""
        match event:
            case ev.CallQueued():
                self._queued[event.call_id] = event
            case ev.CallStarted():
                return self.start(event)
            case ev.CallSettled():
                self._settle(event)
        return None

    def start(self, event: ev.CallStarted, traceparent: str = "") -> ev.CallStarted:
        """Open the span of a call; return the event with its ids. With *traceparent*, it gets those ids back."""
        opened = self._running[event.call_id] = self._begin(event.call_id, event.time, traceparent)
        worker = self._workers.get(event.call_id)
        if worker is not None:
            worker.attach(opened)
        return attrs.evolve(event, traceparent=recorded_ids(opened.span))

    def _begin(self, call_id: CallId, at: float, traceparent: str = "") -> OpenSpan:
        queued = self._queued.get(call_id)
        tool = "" if queued is None else queued.tool
        facts: dict[str, Value] = {
            n.OPERATION: n.EXECUTE_TOOL,
            n.TOOL_NAME: tool,
            n.TOOL_CALL: call_id,
            n.TOOL_TYPE: "function",
        }
        if self._exporting.options.content and queued is not None:
            facts[n.ARGUMENTS] = self._exporting.content.text(queued.arguments)
        return self._open(f"{n.EXECUTE_TOOL} {tool}", at, facts, traceparent=traceparent)

    def _settle(self, event: ev.CallSettled) -> None:
        """End the span of a call. One whose body never began has a span without a duration."""
        opened = self._running.pop(event.call_id, None) or self._begin(event.call_id, event.time)
        settlement, queued = event.settlement, self._queued.pop(event.call_id, None)
        error = error_of_call(settlement)
        facts: dict[str, Value] = {n.WAITED: opened.waited} if opened.waited else {}
        if settlement.failed:
            facts[n.TOOL_FAILED] = True
        if self._exporting.options.content:
            facts[n.RESULT] = self._exporting.content.text(settlement.text)
        opened.end(event.time, facts, error)
        labels = {n.TOOL_NAME: "" if queued is None else queued.tool, **({n.ERROR_TYPE: error} if error else {})}
        self._exporting.meters.tool.record(max(0.0, event.time - opened.began - opened.waited), labels)

    def ask(self, event: Question) -> None:
        """Open the span of a wait. A call's own time does not count it: it begins later, or it is taken off."""
        call_id = None if isinstance(event, ev.RecoveryAsked) else event.call_id
        kind = _WAITS[type(event)]
        facts: dict[str, Value] = {} if call_id is None else {n.TOOL_CALL: call_id}
        if isinstance(event, ev.PermissionAsked):
            facts[n.TOOL_NAME] = event.tool
        above = None if call_id is None else self._running.get(call_id)
        self._waits[event.request_id] = _Wait(kind, call_id, self._open(kind, event.time, facts, above))

    def answer(self, event: Answered) -> None:
        """End the span of a wait."""
        wait = self._waits.pop(event.request_id, None)
        if wait is None:
            return
        answer = event.outcome if isinstance(event, ev.QuestionAnswered) else event.answer
        seconds = max(0.0, event.time - wait.opened.began)
        call = None if wait.call_id is None else self._running.get(wait.call_id)
        if call is not None:
            call.waited += seconds
        wait.opened.end(event.time, {n.ANSWER: answer}, _NO_ANSWER.get(answer, ""))
        self._exporting.meters.wait.record(seconds, {n.WAIT_KIND: wait.kind.removeprefix("engine."), n.ANSWER: answer})

    def take_open(self) -> Iterator[OpenSpan]:
        """Yield what is open, and forget it."""
        yield from (wait.opened for wait in self._waits.values())
        yield from self._running.values()
        self._waits, self._running = {}, {}

    def add_worker(self, call_id: CallId, worker: CallWorker) -> None:
        """Take note of the task that works for a call."""
        self._workers[call_id] = worker

    def remove_worker(self, call_id: CallId) -> None:
        """Take note that no task works for a call any more."""
        self._workers.pop(call_id, None)


@attrs.define(eq=False)
class CallWorker:
    """The block of a task that works for a call, whose span begins inside of it."""

    _calls: CallSpans
    _exporting: Exporting
    _call_id: CallId
    _token: Token[Context] | None = attrs.field(default=None, init=False)
    _active: Token[ActiveSpan | None] | None = attrs.field(default=None, init=False)

    def __enter__(self) -> None:
        self._calls.add_worker(self._call_id, self)

    def attach(self, opened: OpenSpan) -> None:
        """Let what is traced in this task from now on be below the call's span. In the task itself."""
        self._token = otel_context.attach(opened.context)
        environment = environment_of(opened.context) if self._exporting.options.children else None
        self._active = ACTIVE.set(_Active(opened.span, environment or {}))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._calls.remove_worker(self._call_id)
        if self._active is not None:
            ACTIVE.reset(self._active)
        if self._token is not None:
            otel_context.detach(self._token)


@attrs.frozen
class _Active:
    """The span of the call that a task works for; see `engine.journal.trace_context.ActiveSpan`."""

    _span: Span
    environment: Mapping[str, str]

    def annotate(self, facts: Mapping[str, str]) -> None:
        self._span.set_attributes(facts)
