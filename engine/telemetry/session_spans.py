"""`SessionSpans`: a session's events, as they are recorded, turned into the spans of its turns.

A turn that another process has begun, and left open in the record, gets its span back: with the ids, the parent and the
start that are recorded with `TurnStarted`. So a trace has its root also after a crash, and it has it once: an engine
that parks a turn does not end its span.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar, cast

import attrs
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.context import Context

from engine.core import events as ev
from engine.core.events import Durable
from engine.core.ids import CallId, TurnId
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.core.messages import FinishReason, Usage
from engine.journal.span_port import NOTHING, ChatSpan
from engine.journal.trace_context import CALLER
from engine.telemetry import conventions as n
from engine.telemetry.attributes import provider_and_model
from engine.telemetry.exporting import Exporting, context_of, recorded_ids, span_context, traceparent_of
from engine.telemetry.open_span import OpenSpan
from engine.telemetry.turn_spans import TurnSpans, common_facts

if TYPE_CHECKING:
    from engine.journal.span_port import Record

E = TypeVar("E", bound=Durable)


@attrs.define(eq=False)
class OtelSpans:
    """The spans of one session (`engine.journal.span_port.SessionSpans`)."""

    _exporting: Exporting
    _record: Record
    _now: Callable[[], float]
    # None: a turn that is not traced.
    _turns: dict[TurnId, TurnSpans | None] = attrs.field(factory=dict[TurnId, "TurnSpans | None"], init=False)
    _is_closed: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._exporting.guarded(partial(self._exporting.meters.sessions.add, 1))

    def note(self, event: E) -> E:
        """Read an event before it is recorded; return it with the ids of the span that it opens."""
        return cast("E", self._exporting.guarded(partial(self._note, event)) or event)

    def turn(self, turn_id: TurnId) -> AbstractContextManager[object]:
        """Return the block of a turn's frame."""
        turn = self._turns.get(turn_id)
        return NOTHING if turn is None else _Frame(self, turn)

    def work(self, turn_id: TurnId, call_id: CallId | None = None) -> AbstractContextManager[object]:
        """Return the block of a task that works for a turn or a call."""
        turn = self._turns.get(turn_id)
        return NOTHING if turn is None else turn.worker(call_id)

    def chat(self, turn_id: TurnId, info: ModelInfo, request: ModelRequest) -> ChatSpan:
        """Begin the span of a request."""
        turn = self._turns.get(turn_id)
        if turn is None:
            return NOTHING
        chat = self._exporting.guarded(partial(turn.begin_chat, info, request))
        return NOTHING if chat is None else _GuardedChat(self._exporting, chat)

    def flush(self, turn_id: TurnId) -> AbstractContextManager[object]:
        """Return a block in which a turn waits for the store."""
        turn = self._turns.get(turn_id)
        return NOTHING if turn is None else _Flush(turn)

    def close(self) -> None:
        """Forget what is open: another engine ends it."""
        if not self._is_closed:
            self._is_closed = True
            self._turns.clear()
            self._exporting.guarded(partial(self._exporting.meters.sessions.add, -1))

    # -- events ----------------------------------------------------------------------------------

    def _note(self, event: Durable) -> Durable | None:
        if event.turn_id is None:
            return None
        if isinstance(event, ev.TurnStarted):
            return self._begin(event)
        turn = self._turn_of(event)
        return None if turn is None else self._apply(turn, event)

    def _turn_of(self, event: Durable) -> TurnSpans | None:
        """Return the spans of an event's turn; None: it is over, or not traced."""
        turn_id, under_way = event.turn_id, self._record.state.turn
        assert turn_id is not None
        if turn_id not in self._turns and under_way is not None and under_way.turn_id == turn_id:
            self._turns[turn_id] = self._reopen(turn_id)
        return self._turns.get(turn_id)

    def _apply(self, turn: TurnSpans, event: Durable) -> Durable | None:
        match event:
            case ev.PartStarted() | ev.PartEnded() if turn.chat is not None:
                turn.chat.note_part(event)
            case ev.CallQueued() | ev.CallStarted() | ev.CallSettled():
                return turn.calls.apply(event)
            case ev.PermissionAsked() | ev.QuestionAsked() | ev.RecoveryAsked():
                turn.calls.ask(event)
            case ev.PermissionAnswered() | ev.QuestionAnswered() | ev.RecoveryAnswered():
                turn.calls.answer(event)
            case ev.CompactionStarted() | ev.CompactionEnded():
                turn.apply_compaction(event)
            case ev.RetryScheduled():
                turn.note_retry(event)
            case ev.LoopContinued() if event.reason == "model_fallback":
                turn.note_fallback(event)
            case ev.TurnEnded():
                turn.end(event)
                self._drop_ended(turn)
            case _:
                pass
        return None

    # -- turns -------------------------------------------------------------------------------------

    def _begin(self, event: ev.TurnStarted) -> ev.TurnStarted:
        """Open the span of a turn, below the span of the task that starts it, or of the caller's trace."""
        assert event.turn_id is not None
        above = otel_context.get_current()
        caller = CALLER.get()
        if caller is not None and not trace.get_current_span(above).get_span_context().is_valid:
            above = context_of(caller)
        turn = self._turns[event.turn_id] = self._open(event.turn_id, above, event.time)
        return attrs.evolve(
            event, traceparent=recorded_ids(turn.root.span), caller=traceparent_of(trace.get_current_span(above))
        )

    def _open(self, turn_id: TurnId, above: Context, at: float, traceparent: str = "") -> TurnSpans:
        state, path = self._record.state, self._record.path
        provider, model = provider_and_model(state.model)
        facts = {
            **common_facts(self._exporting, self._record.session_id),
            n.OPERATION: n.INVOKE_AGENT,
            n.PROVIDER: provider,
            n.REQUEST_MODEL: model,
            n.AGENT_ID: self._record.session_id,
            n.TURN: turn_id,
            n.PATH: "/".join(path),
            **({n.AGENT_NAME: state.agent} if state.agent else {}),
            **({n.RECOVERED: True} if traceparent else {}),
        }
        name = f"{n.INVOKE_AGENT} {state.agent}".rstrip()
        span = self._exporting.start(name, above, at, facts, traceparent=traceparent)
        root = OpenSpan(span, trace.set_span_in_context(span, above), at)
        return TurnSpans(
            exporting=self._exporting,
            now=self._now,
            session_id=self._record.session_id,
            turn_id=turn_id,
            root=root,
            is_recovered=bool(traceparent),
        )

    def _reopen(self, turn_id: TurnId) -> TurnSpans | None:
        """Open again what the record says is open in a turn; None: it was not traced."""
        settled: set[CallId] = set()
        running: list[ev.CallStarted] = []
        queued: list[ev.CallQueued] = []
        is_resumed = False
        for event in self._record.newest_first():
            match event:
                case ev.CallSettled():
                    settled.add(event.call_id)
                case ev.CallStarted() if event.call_id not in settled and not is_resumed:
                    running.append(event)
                case ev.CallQueued() if event.call_id not in settled:
                    queued.append(event)
                case ev.TurnResumed():
                    # What waited in its tool then was queued again.
                    is_resumed = True
                case ev.TurnStarted() if event.turn_id == turn_id:
                    return self._restore(event, running, queued)
                case _:
                    pass
        return None

    def _restore(
        self, started: ev.TurnStarted, running: list[ev.CallStarted], queued: list[ev.CallQueued]
    ) -> TurnSpans | None:
        original = span_context(started.traceparent)
        if original is None or not original.trace_flags.sampled or started.turn_id is None:
            return None
        above = context_of({"traceparent": started.caller}) if started.caller else Context()
        turn = self._open(started.turn_id, above, started.time, started.traceparent)
        for waiting in queued:
            turn.calls.apply(waiting)
        for call in reversed(running):
            turn.calls.start(call, call.traceparent)
        self._exporting.meters.recoveries.add(1)
        return turn

    def leave(self, turn: TurnSpans) -> None:
        """End the span of a turn whose frame is left. One without an end goes on in another engine, which ends the span."""
        turn.is_framed = False
        if turn.ended is not None:
            self._exporting.guarded(partial(turn.end_root, self._now()))
            self._drop_ended(turn)

    def _drop_ended(self, turn: TurnSpans) -> None:
        if turn.ended is not None and not turn.is_framed:
            self._turns.pop(turn.turn_id, None)


@attrs.define(eq=False)
class _Frame:
    _spans: OtelSpans
    _turn: TurnSpans

    def __enter__(self) -> None:
        self._turn.is_framed = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._spans.leave(self._turn)


@attrs.define(eq=False)
class _Flush:
    _turn: TurnSpans
    _opened: OpenSpan | None = attrs.field(default=None, init=False)

    def __enter__(self) -> None:
        turn = self._turn
        self._opened = turn.exporting.guarded(partial(turn.open, n.FLUSH, turn.now(), {}))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        opened, turn = self._opened, self._turn
        if opened is not None:
            at = turn.now()
            reason = "" if kind is None else "store_failed" if issubclass(kind, Exception) else "cancelled"
            turn.exporting.guarded(partial(opened.end, at, {}, reason))
            turn.exporting.guarded(partial(turn.exporting.meters.flush.record, max(0.0, at - opened.began)))


@attrs.frozen(eq=False)
class _GuardedChat:
    """A request's span, whose faults no turn notices."""

    _exporting: Exporting
    _chat: ChatSpan

    def __enter__(self) -> None:
        self._exporting.guarded(self._chat.__enter__)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._exporting.guarded(partial(self._chat.__exit__, kind, error, traceback))

    def finish(
        self, usage: Usage, cost: float, finish: FinishReason | None, error: str, response: tuple[str, str] = ("", "")
    ) -> None:
        self._exporting.guarded(partial(self._chat.finish, usage, cost, finish, error, response))
