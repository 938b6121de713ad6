"""Errors that end a command, as rows of the table of situations."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator, Sequence
from typing import Final

from engine.cli.problems.facts import FailureFacts
from engine.cli.problems.problem import ProblemText, problem_of, row_of
from engine.cli.problems.surroundings import Surroundings
from engine.core.errors import EngineError, ErrorInfo, MissingKey, ProviderError, SessionElsewhere, StoreError

_NO_SPACE: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def problem_of_error(error: EngineError, surroundings: Surroundings) -> tuple[str, ProblemText] | None:
    """Return the code of *error* and what the user reads about it; None: its own message says it all."""
    failure = _failure_of(error)
    return None if failure is None else (failure.code, problem_of(failure, surroundings))


def lines_of_error(error: EngineError, surroundings: Surroundings) -> Sequence[str]:
    """Return the lines that a terminal shows of *error*; none: its own message says it all."""
    found = problem_of_error(error, surroundings)
    return () if found is None else (*found[1].lines(),)


def _failure_of(error: EngineError) -> FailureFacts | None:
    facts = ErrorInfo(code="provider_failed")
    match error:
        case MissingKey() if error.host:
            return FailureFacts(code="no_key", info=ErrorInfo(code="key_rejected", host=error.host))
        case SessionElsewhere():
            return FailureFacts(code="session_busy", info=facts, session=error.session_id, process=str(error.pid))
        case StoreError() if is_disk_full(error):
            return FailureFacts(code="disk_full", info=facts)
        case ProviderError():
            return FailureFacts(
                code=row_of(error.info.code, error.reset_at),
                info=error.info,
                words=str(error),
                reset_at=error.reset_at,
                now=time.time(),
            )
        case _:
            return None


def is_disk_full(error: BaseException) -> bool:
    """Tell whether an error, or what caused it, is that no space is left."""
    return any(
        (isinstance(cause, StoreError) and cause.is_full) or (isinstance(cause, OSError) and cause.errno in _NO_SPACE)
        for cause in _causes(error)
    )


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
