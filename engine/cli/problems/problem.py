"""From a failure to what the user reads: the row of its code in `SITUATIONS`, filled with its facts."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Final

import attrs

from engine.cli.problems.facts import FACTS, FailureFacts
from engine.cli.problems.situations import SITUATIONS
from engine.cli.problems.surroundings import Surroundings
from engine.cli.terminal.terminal_text import duration, one_line
from engine.core.errors import ErrorInfo
from engine.core.events import LoopContinued, RecoveryAsked, RetryScheduled, TurnResult
from engine.core.value_base import Value

_FACT: Final = re.compile(r"\{(\w+)\}")
_MAX_FACT_CHARS: Final = 400
# A longer wait is shown by the time at which it ends.
_LONG_WAIT_SECONDS: Final = 60


@attrs.frozen(eq=False, repr=False)
class ProblemText(Value):
    """What happened, and what to do.

    Attributes:
        what: what happened, without a full stop.
        next: what to do, one way each, the best first.
    """

    what: str
    next: tuple[str, ...] = ()

    def lines(self) -> Iterator[str]:
        """Yield it as lines for a terminal."""
        yield self.what
        for number, way in enumerate(self.next):
            yield f"{'or:' if number else 'Next:'} {way}"


def problem_of(failure: FailureFacts, surroundings: Surroundings) -> ProblemText:
    """Return what the user reads about *failure*. It may read files."""
    situation = SITUATIONS[failure.code]

    def fact(name: str) -> str:
        value = FACTS[name](failure, surroundings)
        # Some begin with the blank before them, so that nothing is left of a fact that is unknown.
        return f"{' ' if value.startswith(' ') else ''}{one_line(value, _MAX_FACT_CHARS)}"

    def fill(template: str) -> str:
        return _FACT.sub(lambda match: fact(match[1]), template)

    ways = (fill(way) for way in situation.next if all(map(fact, _FACT.findall(way))))
    return ProblemText(fill(situation.what).removesuffix(": "), tuple(ways))


def row_of(code: str, reset_at: float | None) -> str:
    """Return the row for an error code: a rate limit without a time has one of its own."""
    return "rate_limited_open" if code == "rate_limited" and reset_at is None else code


def problem_of_result(result: TurnResult, surroundings: Surroundings, now: float | None = None) -> ProblemText | None:
    """Return what the user reads about the end of a turn; None if it completed, or was cancelled."""
    if result.stop_reason in {"completed", "aborted"}:
        return None
    info, code = result.failure, str(result.stop_reason)
    if info is not None:
        code = info.code
    elif code not in SITUATIONS:  # a turn of an older engine
        code = STOP_REASON_ROWS[code]
    code = row_of(code, result.reset_at)
    if code in _LIMITS and _facts_of(result, surroundings).limit is None:
        code = "limit"
    failure = FailureFacts(
        code=code,
        info=_facts_of(result, surroundings),
        words=result.detail,
        reset_at=result.reset_at,
        now=time.time() if now is None else now,
        is_saved=result.durable and surroundings.is_saved,
    )
    return problem_of(failure, surroundings)


def _facts_of(result: TurnResult, surroundings: Surroundings) -> ErrorInfo:
    """Return the facts of a turn's end: it may have none if the model was asked to stop at its last request."""
    if result.failure is not None:
        return result.failure
    if result.stop_reason == "step_limit":
        return ErrorInfo(code="step_limit", amount=result.steps, limit=surroundings.limits.steps)
    return ErrorInfo(code="provider_failed")


_LIMITS: Final = frozenset({"step_limit", "token_budget", "cost_limit", "deadline"})
# The rows of stop reasons, where a turn has no error code: of an older engine, or in a list.
STOP_REASON_ROWS: Final = {
    "auth_failed": "key_rejected",
    "provider_error": "provider_failed",
    "prompt_too_long": "too_long",
    "content_filter": "filtered",
    "internal_error": "internal",
}


def retry_line(event: RetryScheduled, surroundings: Surroundings) -> str:
    """Return the line about a request that is sent again: what happened, which retry it is, and when."""
    wait = duration(max(0.0, event.next_at - event.time))
    count = f"retry {event.attempt} of {event.attempts}" if event.attempts else f"retry {event.attempt}"
    info = event.failure
    if info is None:
        return f"{event.message}; {count} in {wait}"
    is_long = info.code == "rate_limited" and event.next_at - event.time > _LONG_WAIT_SECONDS
    failure = FailureFacts(
        code=row_of(info.code, event.next_at if is_long else None),
        info=info,
        words=event.message,
        reset_at=event.next_at,
        now=event.time,
    )
    what = problem_of(failure, surroundings).what
    return what if is_long else f"{what}; {count} in {wait}"


def fallback_line(event: LoopContinued, surroundings: Surroundings) -> str:
    """Return the line about a model that has failed for good, and the one that takes over."""
    what = event.message
    if event.failure is not None:
        failure = FailureFacts(
            code=row_of(event.failure.code, None), info=event.failure, words=event.message, now=event.time
        )
        what = problem_of(failure, surroundings).what
    return f"{what}{'. ' if what else ''}Continuing with {event.model}."


def recovery_line(event: RecoveryAsked, surroundings: Surroundings) -> str:
    """Return the line about a request that has failed for good, before the user decides how to continue."""
    if event.failure is None:
        return event.message
    failure = FailureFacts(
        code=row_of(event.failure.code, event.reset_at),
        info=event.failure,
        words=event.message,
        reset_at=event.reset_at,
        now=event.time,
    )
    return problem_of(failure, surroundings).what
