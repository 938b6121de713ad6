"""The port of telemetry: it reads a session's events as they are recorded, and makes spans of them.

What a span is about is in the events. Only what they lack has a method of its own: in which task the work is done, what a
request sends, and how long the store takes. An engine without telemetry has `NO_TELEMETRY`, which does nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Protocol, TypeVar, final

from engine.core.events import Durable
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.llm_types import ModelInfo, ModelRequest
from engine.core.messages import FinishReason, Usage
from engine.journal.state import SessionState

E = TypeVar("E", bound=Durable)


class Record(Protocol):
    """The record of a session, as telemetry reads it."""

    @property
    def session_id(self) -> SessionId:
        """The session."""
        ...

    @property
    def path(self) -> tuple[SessionId, ...]:
        """The sessions from the top one to this one."""
        ...

    @property
    def state(self) -> SessionState:
        """The fold of its events."""
        ...

    def newest_first(self) -> Iterator[Durable]:
        """Yield its events, the last one first."""
        ...


class ChatSpan(Protocol):
    """The span of a request to a model. As a block it holds what the request does in its task."""

    def __enter__(self) -> object:
        """Begin what belongs to the request in this task."""
        ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        """End it."""
        ...

    def finish(
        self, usage: Usage, cost: float, finish: FinishReason | None, error: str, response: tuple[str, str] = ("", "")
    ) -> None:
        """Take note of how the request ended. Not a checkpoint.

        Args:
            usage: its tokens.
            cost: its price.
            finish: why the model stopped.
            error: what it failed by, in one word; empty: it did not fail.
            response: what the host calls the answer, and the model that has written it; empty: it does not say.
        """
        ...


class SessionSpans(Protocol):
    """The spans of one session. Nothing here is a checkpoint, and nothing raises."""

    def note(self, event: E) -> E:
        """Read an event before it is recorded; return it with the ids of the span that it opens."""
        ...

    def turn(self, turn_id: TurnId) -> AbstractContextManager[object]:
        """Return a block at whose end the span of a turn ends; a turn without an end in the record keeps it open."""
        ...

    def work(self, turn_id: TurnId, call_id: CallId | None = None) -> AbstractContextManager[object]:
        """Return a block for the task that does the work of a turn or of a call.

        What is traced in it is below their span; that of a call begins with `CallStarted`, recorded in the block.
        """
        ...

    def chat(self, turn_id: TurnId, info: ModelInfo, request: ModelRequest) -> ChatSpan:
        """Begin the span of a request, or go on with that of the same request if this is a retry."""
        ...

    def flush(self, turn_id: TurnId) -> AbstractContextManager[object]:
        """Return a block in which a turn waits for the store."""
        ...

    def close(self) -> None:
        """The session is closed."""
        ...


class Telemetry(Protocol):
    """Follows the sessions of an engine."""

    def follow(self, record: Record, now: Callable[[], float]) -> SessionSpans:
        """Return what makes the spans of a session that was opened; *now* is its wall clock. Not a checkpoint."""
        ...


class Nothing:
    """A block, and a request, without a span."""

    def __enter__(self) -> None:
        """Do nothing."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Do nothing."""

    def finish(
        self, usage: Usage, cost: float, finish: FinishReason | None, error: str, response: tuple[str, str] = ("", "")
    ) -> None:
        """Do nothing."""


NOTHING = Nothing()


@final
class NoSpans:
    """The spans of a session in an engine without telemetry: there are none."""

    def note(self, event: E) -> E:
        """Return the event as it is."""
        return event

    def turn(self, turn_id: TurnId) -> AbstractContextManager[object]:
        """Return a block that does nothing."""
        return NOTHING

    def work(self, turn_id: TurnId, call_id: CallId | None = None) -> AbstractContextManager[object]:
        """Return a block that does nothing."""
        return NOTHING

    def chat(self, turn_id: TurnId, info: ModelInfo, request: ModelRequest) -> ChatSpan:
        """Return a request without a span."""
        return NOTHING

    def flush(self, turn_id: TurnId) -> AbstractContextManager[object]:
        """Return a block that does nothing."""
        return NOTHING

    def close(self) -> None:
        """Do nothing."""


_NO_SPANS = NoSpans()


@final
class NoTelemetry:
    """The default `Telemetry`: no span is made."""

    def follow(self, record: Record, now: Callable[[], float]) -> SessionSpans:
        """Return what makes no spans."""
        return _NO_SPANS


NO_TELEMETRY = NoTelemetry()
