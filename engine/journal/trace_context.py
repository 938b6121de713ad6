"""The trace that the running task belongs to, for code that knows nothing of telemetry.

Without telemetry both variables stay empty, and nothing here does more than look at one of them.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final, Protocol

# W3C Trace Context and W3C Baggage.
TRACE_HEADERS: Final = ("traceparent", "tracestate", "baggage")


class ActiveSpan(Protocol):
    """The span of the call that the running task works for."""

    def annotate(self, facts: Mapping[str, str]) -> None:
        """Add attributes to it. Not a checkpoint."""
        ...

    @property
    def environment(self) -> Mapping[str, str]:
        """What the environment of a process gets, so that it can join the trace; empty unless the user asks for that."""
        ...


ACTIVE: Final[ContextVar[ActiveSpan | None]] = ContextVar("engine_active_span", default=None)
# The headers of a caller's trace, which turns that start here join.
CALLER: Final[ContextVar[Mapping[str, str] | None]] = ContextVar("engine_caller_trace", default=None)


def annotate_call(facts: Mapping[str, str]) -> None:
    """Add attributes to the span of the running call, if it has one; empty ones are left out. Not a checkpoint."""
    if (span := ACTIVE.get()) is not None:
        span.annotate({name: value for name, value in facts.items() if value})


def trace_environment() -> Mapping[str, str]:
    """Return what processes of the running call get to join its trace. Not a checkpoint."""
    return {} if (span := ACTIVE.get()) is None else span.environment


@contextmanager
def joining_trace(headers: Mapping[str, object]) -> Generator[None]:
    """Let turns that are started inside of the block join the trace that *headers* name, if they name one.

    The names are those of W3C, in any case: an environment has them in capitals. What is no text is ignored.
    """
    found = {
        name.lower(): value
        for name, value in headers.items()
        if name.lower() in TRACE_HEADERS and isinstance(value, str)
    }
    token = CALLER.set(found or None)
    try:
        yield
    finally:
        CALLER.reset(token)
