"""Sorts how turns end, and what is raised, into the statuses of a batch: what the agent did, and what it is not to blame for."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from typing import Final, cast

import attrs

from engine.batch.attempt_row import AttemptError
from engine.batch.batch_status import BatchStatus, InfraClass
from engine.core.errors import (
    AuthFailed,
    ConfigError,
    EngineError,
    JournalCorrupt,
    MissingKey,
    ModelNotFound,
    ProviderError,
    QuotaExhausted,
    RateLimited,
    SessionElsewhere,
    StoreError,
)
from engine.core.events import StopReason, TurnResult
from engine.core.exception_groups import describe, error_number, public
from engine.core.value_base import Value

# Why a turn's own end is no result of the agent.
_INFRA_STOPS: Final[Mapping[StopReason, InfraClass]] = {
    "auth_failed": "provider_auth",
    "rate_limited": "provider_rate",
    "provider_error": "provider_outage",
    "incomplete": "provider_outage",
}


class AttemptFailed(Exception):
    """An attempt can't go on, for a reason of the infrastructure's."""

    def __init__(self, kind: InfraClass, message: str) -> None:
        super().__init__(message)
        self.kind: InfraClass = kind


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AttemptOutcome(Value):
    """The status of an attempt before its check.

    Attributes:
        status: "finished" becomes "passed" or "failed" by a check.
        error: why there is no result; None: there is one.
    """

    status: BatchStatus
    error: AttemptError | None = None


def outcome_of_turn(result: TurnResult) -> AttemptOutcome:
    """Return the outcome of a turn that ended by itself."""
    reason = result.stop_reason
    if reason == "completed":
        return AttemptOutcome(status="finished") if result.durable else _infra("store", "the session is not saved")
    if reason == "aborted":
        return AttemptOutcome(status="cancelled", error=AttemptError(kind="cancelled", message=result.detail))
    if result.failure is not None and result.failure.code == "no_credit":
        return _infra("provider_auth", result.detail)
    if result.failure is not None and result.failure.code == "model_not_found":
        return AttemptOutcome(status="bad_task", error=AttemptError(kind="bad_task", message=result.detail))
    kind = _INFRA_STOPS.get(reason)
    return AttemptOutcome(status="stopped") if kind is None else _infra(kind, result.detail or reason)


def is_final(result: TurnResult) -> bool:
    """Tell whether a turn's end is a result: nothing is to be added to its session."""
    return outcome_of_turn(result).status in {"finished", "stopped"}


def outcome_of_error(error: BaseException) -> AttemptOutcome:
    """Return the outcome of an attempt that raised an ordinary error."""
    if isinstance(error, BaseExceptionGroup):
        error = public(cast("BaseExceptionGroup[BaseException]", error))
    text = str(error)
    kind = _class_of(error)
    if kind is None:
        return AttemptOutcome(status="bad_task", error=AttemptError(kind="bad_task", message=text))
    if not isinstance(error, (EngineError, AttemptFailed, OSError)):
        # A fault of the engine, which must not end the other tasks.
        text = f"internal error {error_number(error)}: {describe(error)}"
    return _infra(kind, text)


def _class_of(error: BaseException) -> InfraClass | None:
    """Return the class of an error; None: the task itself is to blame."""
    match error:
        case AttemptFailed():
            return error.kind
        case StoreError() | OSError() if _is_disk_full(error):
            return "disk"
        case OSError():
            return "folder"
        case StoreError() | JournalCorrupt() | SessionElsewhere():
            return "store"
        case MissingKey() | ProviderError():
            return _provider_class(error)
        case ConfigError():
            return None
        case _:
            return "worker_lost"


def _provider_class(error: MissingKey | ProviderError) -> InfraClass | None:
    match error:
        case MissingKey() | AuthFailed() | QuotaExhausted():
            return "provider_auth"
        case ModelNotFound():
            return None
        case RateLimited():
            return "provider_rate"
        case _:
            return "provider_outage"


def _is_disk_full(error: StoreError | OSError) -> bool:
    if isinstance(error, StoreError):
        return error.is_full
    return error.errno in {errno.ENOSPC, errno.EDQUOT}


def _infra(kind: InfraClass, message: str) -> AttemptOutcome:
    return AttemptOutcome(status="infra", error=AttemptError(kind=kind, message=message))
