"""The pace of a fleet: engines that share a database share what their model hosts allow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

import attrs

from engine.core.errors import ConfigError
from engine.core.threads import in_background, to_thread
from engine.pace.leased_pace import LaneGrant, LaneReport, LeasedPace
from engine.pace.pace_port import PaceKey
from engine.store.postgres.open import NAMESPACE, TIMEOUT

if TYPE_CHECKING:
    from engine.store.postgres.pace_connection import PaceConnection


def postgres_pace(
    dsn: str,
    *,
    namespace: str = NAMESPACE,
    timeout: float = TIMEOUT,
    reserve: float = 0.0,
    requests_minute: int | None = None,
    tokens_minute: int | None = None,
) -> LeasedPace:
    """Return the pace that all engines with the same database and schema share. Not a checkpoint; nothing is opened.

    It needs one connection, and sends one statement in a second while requests are under way.

    Args:
        dsn: the database, as for `open_postgres_store`.
        namespace: as for `open_postgres_store`.
        timeout: as for `open_postgres_store`.
        reserve: the share of the limits that this engine leaves to others, from 0 to less than 1.
        requests_minute: the requests in a minute, for all engines; None: what another engine has set, if one has.
        tokens_minute: the tokens in a minute, of prompts and answers; as `requests_minute`.

    Raises `ConfigError`: psycopg is not installed, or the address can't be read.
    """
    try:
        # Imported here: it is an extra.
        from engine.store.postgres.address import Address
        from engine.store.postgres.pace_connection import PaceConnection
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "engine":
            raise
        raise ConfigError(
            f"a pace in PostgreSQL needs psycopg: pip install 'nursery-engine[postgres]' ({error})"
        ) from error
    connection = PaceConnection(Address.of(dsn, namespace=namespace, timeout=timeout))
    return LeasedPace(
        _PostgresOffice(connection), reserve=reserve, requests_minute=requests_minute, tokens_minute=tokens_minute
    )


@final
@attrs.define(eq=False, repr=False)
class _PostgresOffice:
    """See `PermitOffice`: the rows of a database."""

    _connection: PaceConnection

    async def exchange(self, owner: str, reports: Sequence[LaneReport]) -> list[LaneGrant]:
        """See `PermitOffice`. Always a checkpoint. Raises `StoreError`."""
        rows = [
            {
                "host": report.key.host,
                "model": report.key.model,
                "key_hash": report.key.account,
                **attrs.asdict(report, filter=attrs.filters.exclude("key")),
            }
            for report in reports
        ]
        grants = await to_thread(self._connection.exchange, owner, rows)
        return [
            LaneGrant(
                key=PaceKey(host=row["host"], model=row["model"], account=row["key_hash"]),
                permits=row["permits"],
                limit=row["in_flight_limit"],
                cooldown=row["cooldown"],
                sharers=row["sharers"],
                requests_minute=row["requests_minute"],
                tokens_minute=row["tokens_minute"],
            )
            for row in grants
        ]

    async def aclose(self) -> None:
        """Close the connection. Not a checkpoint: a thread does it."""
        in_background(self._connection.close)
