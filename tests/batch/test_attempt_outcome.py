"""What counts as the agent's, and what as the infrastructure's."""

import errno

import attrs
import pytest

from engine.batch.attempt_outcome import AttemptFailed, is_final, outcome_of_error, outcome_of_turn
from engine.batch.batch_status import STATUSES
from engine.core.errors import (
    AuthFailed,
    ConfigError,
    ConnectionBroken,
    ErrorCode,
    ErrorInfo,
    JournalCorrupt,
    MissingKey,
    ModelNotFound,
    Overloaded,
    QuotaExhausted,
    RateLimited,
    SessionBusy,
    SessionElsewhere,
    StoreError,
    UnknownModel,
)
from engine.core.events import STOP_REASONS, StopReason, TurnResult
from engine.core.ids import SessionId

_INFRA = {
    "auth_failed": "provider_auth",
    "rate_limited": "provider_rate",
    "provider_error": "provider_outage",
    "incomplete": "provider_outage",
}


@pytest.mark.parametrize("reason", STOP_REASONS)
def test_each_stop_reason_has_its_status(reason: StopReason) -> None:
    outcome = outcome_of_turn(TurnResult(stop_reason=reason))
    if reason in _INFRA:
        assert outcome.status == "infra"
        assert outcome.error is not None
        assert outcome.error.kind == _INFRA[reason]
        assert outcome.error.message
    else:
        assert outcome.status == {"completed": "finished", "aborted": "cancelled"}.get(reason, "stopped")
    assert is_final(TurnResult(stop_reason=reason)) == (outcome.status in {"finished", "stopped"})


def test_an_answer_that_is_not_saved_is_no_result() -> None:
    outcome = outcome_of_turn(TurnResult(stop_reason="completed", durable=False))
    assert (outcome.status, outcome.error and outcome.error.kind) == ("infra", "store")


@pytest.mark.parametrize(("code", "status"), [("no_credit", "infra"), ("model_not_found", "bad_task")])
def test_some_failures_of_hosts_are_distinguished(code: ErrorCode, status: str) -> None:
    failure = attrs.evolve(ErrorInfo(code="internal"), code=code)
    assert outcome_of_turn(TurnResult(stop_reason="provider_error", failure=failure)).status == status


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (AttemptFailed("setup", "exit code 1"), "setup"),
        (OSError(errno.ENOENT, "no such file"), "folder"),
        (OSError(errno.ENOSPC, "no space"), "disk"),
        (StoreError("full", is_full=True), "disk"),
        (StoreError("locked"), "store"),
        (JournalCorrupt("gap"), "store"),
        (SessionElsewhere(SessionId("s"), host="h", pid=1, until=2.0), "store"),
        (MissingKey("no key"), "provider_auth"),
        (AuthFailed("wrong key"), "provider_auth"),
        (QuotaExhausted("no credit"), "provider_auth"),
        (RateLimited("slowly"), "provider_rate"),
        (Overloaded("later"), "provider_outage"),
        (ConnectionBroken("gone"), "provider_outage"),
        (SessionBusy("busy"), "worker_lost"),
        (ZeroDivisionError("ours"), "worker_lost"),
        (ExceptionGroup("several", [ExceptionGroup("one", [StoreError("locked")])]), "store"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_each_error_has_its_class(error: Exception, kind: str) -> None:
    outcome = outcome_of_error(error)
    assert outcome.status == "infra"
    assert outcome.error is not None
    assert outcome.error.kind == kind


@pytest.mark.parametrize("error", [ConfigError("no"), UnknownModel("no"), ModelNotFound("no")])
def test_what_the_task_names_wrongly_is_its_fault(error: Exception) -> None:
    assert outcome_of_error(error).status == "bad_task"


def test_the_statuses_are_closed() -> None:
    assert len(STATUSES) == 8
