"""Checks the database with the sessions: that it answers, and that its connections are enough for the engines."""

from __future__ import annotations

from typing import Final

from engine.cli.doctor.check_result import CheckResult
from engine.config.store_config import StoreConfig
from engine.core.errors import ConfigError, StoreError
from engine.store.postgres.open import NAMESPACE, parse_address

_SECONDS: Final = 3.0


def check_database(place: str, config: StoreConfig) -> CheckResult:
    """Compare the connections of all engines with those that the server has. It blocks, some seconds at most."""
    try:
        address = parse_address(place, namespace=NAMESPACE, timeout=_SECONDS)
        # Imported here: it needs psycopg, whose absence the line above reports.
        from engine.store.postgres.connection_budget import connection_budget

        budget = connection_budget(address, config.connections)
    except ConfigError as error:
        return CheckResult("store", "fail", str(error))
    except StoreError as error:
        return CheckResult("store", "fail", str(error), "engine config explain store")
    engines, each = budget.engines, config.connections
    share = f"{address.name}: {engines} engine{'s' * (engines != 1)} connected, {each} connections at most for each"
    if (engines + 1) * each > budget.available:
        text = f"{share}; the server has only {budget.available}, which is enough for {budget.available // each}"
        fewer = max(2, budget.available // (engines + 1))
        return CheckResult("store", "warn", text, f"engine config set store.max_connections {fewer}")
    return CheckResult("store", "ok", f"{share}; the server has {budget.available}")
