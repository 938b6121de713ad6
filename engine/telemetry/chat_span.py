"""`RequestSpan`: the span of a request to a model, with its retries."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

import attrs
from opentelemetry import context as otel_context
from opentelemetry.context import Context

from engine.core import events as ev
from engine.core.messages import AssistantPart, FinishReason, Usage
from engine.telemetry import conventions as n
from engine.telemetry.attributes import Value, of_finish, of_response, of_usage, provider_and_model
from engine.telemetry.content import output_messages
from engine.telemetry.exporting import Exporting, nanoseconds
from engine.telemetry.open_span import LEFT_OPEN, OpenSpan

if TYPE_CHECKING:
    from contextvars import Token


@attrs.define(eq=False)
class RequestSpan:
    """The span of a request and its retries; see `engine.journal.span_port.ChatSpan`.

    One that failed stays open until it is known whether it is sent again.

    Attributes:
        model: the model's name.
        is_retried: it failed, and is sent again.
        is_over: the span has ended.
    """

    _exporting: Exporting
    _now: Callable[[], float]
    model: str
    _opened: OpenSpan
    is_retried: bool = attrs.field(default=False, init=False)
    is_over: bool = attrs.field(default=False, init=False)
    _parts: list[AssistantPart] = attrs.field(factory=list[AssistantPart], init=False)
    _error: str = attrs.field(default="", init=False)
    _failed_at: float = attrs.field(default=0.0, init=False)
    _facts: dict[str, Value] = attrs.field(factory=dict[str, Value], init=False)
    _first: float | None = attrs.field(default=None, init=False)
    _token: Token[Context] | None = attrs.field(default=None, init=False)

    def __enter__(self) -> None:
        self._token = otel_context.attach(self._opened.context)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            otel_context.detach(self._token)
            self._token = None

    def note_part(self, event: ev.PartStarted | ev.PartEnded) -> None:
        """Note when the answer began, and what is in it."""
        if isinstance(event, ev.PartEnded):
            if self._exporting.options.content:
                self._parts.append(event.part)
        elif self._first is None and not self._error:
            self._first = max(0.0, event.time - self._opened.began)

    def finish(
        self, usage: Usage, cost: float, finish: FinishReason | None, error: str, response: tuple[str, str] = ("", "")
    ) -> None:
        """End the span, unless the request failed."""
        if self.is_over:
            return  # the turn is over: a model that shields itself has outlived it
        exporting, now = self._exporting, self._now()
        self._facts = {**of_usage(usage, cost, exporting.names), **of_finish(finish), **of_response(*response)}
        exporting.meters.count_tokens(usage, self._labels())
        if self._parts:
            self._facts[n.OUTPUT_MESSAGES] = output_messages(self._parts, finish, exporting.content)
        self._error, self._failed_at = error, now
        if not error or error == "cancelled":
            self._end(error, now)

    def resume(self) -> None:
        """Go on: the request is sent again."""
        self.is_retried, self._error, self._first = False, "", None
        self._parts.clear()

    def note_retry(self, event: ev.RetryScheduled) -> str:
        """Note that the request will be sent again; return what it failed by."""
        self.is_retried = True
        delay = max(0.0, event.next_at - event.time)
        facts: dict[str, Value] = {n.ERROR_TYPE: self._error, n.RETRY_ATTEMPT: event.attempt, n.RETRY_DELAY: delay}
        self._opened.span.add_event(n.RETRY, facts, nanoseconds(event.time))
        return self._error

    def give_up(self, error: str, at: float) -> None:
        """End the span: nothing more comes of it. One that was to be sent again was cut short by *error*."""
        if self.is_over:
            return
        if self._error and not self.is_retried:
            self._end(self._error, self._failed_at)
        else:
            self._end(error or self._error or LEFT_OPEN, at)

    def _end(self, error: str, at: float) -> None:
        self.is_over = True
        meters, seconds = self._exporting.meters, max(0.0, at - self._opened.began)
        if self._first is not None:
            self._facts[n.FIRST_CHUNK] = self._first
            meters.first_chunk.record(self._first, self._labels())
        self._opened.end(at, self._facts, error)
        meters.chat.record(seconds, {**self._labels(), **({n.ERROR_TYPE: error} if error else {})})

    def _labels(self) -> dict[str, str]:
        provider, model = provider_and_model(self.model)
        return {n.OPERATION: n.CHAT, n.PROVIDER: provider, n.REQUEST_MODEL: model}
