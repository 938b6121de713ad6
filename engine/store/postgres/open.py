"""A store in PostgreSQL, for fleets of engines behind one database: `pip install 'nursery-engine[postgres]'`.

store = await engine.store.postgres.open.open_postgres_store("postgresql://engine@db.example/agents")
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import trio

from engine.config.store_config import StoreConfig
from engine.core.errors import ConfigError
from engine.journal.codec import PRESENT, Schema
from engine.store.leases import LEASE_SECONDS

if TYPE_CHECKING:
    from engine.store.postgres.address import Address
    from engine.store.postgres.store import PostgresStore

# For a broken connection, and for another engine's lock. A flush that takes longer fails.
TIMEOUT: Final = 5.0
NAMESPACE: Final = "engine"
# A thousand engines with a hundred idle sessions each would else renew 6,700 rows each second.
IDLE_SECONDS: Final = 300.0
_MISSING: Final = "a store in PostgreSQL needs psycopg: pip install 'nursery-engine[postgres]'"


async def open_postgres_store(
    dsn: str,
    *,
    namespace: str = NAMESPACE,
    tenant: str = "",
    timeout: float = TIMEOUT,
    lease_seconds: float = LEASE_SECONDS,
    idle_seconds: float = IDLE_SECONDS,
    schema: Schema = PRESENT,
    config: StoreConfig | None = None,
) -> PostgresStore:
    """Open the store in a database, creating its tables if needed.

    Always a checkpoint; if cancelled, it is closed again.

    Args:
        dsn: the database, as libpq reads it: a URL, or `name=value` pairs. The rest comes from the environment
            (`PGPASSWORD`, `PGSERVICE`, …) and from `~/.pgpass`.
        namespace: the database schema for the tables, created if needed; it may hold nothing else.
        tenant: whose sessions it sees and writes; a URL may name it, too: `?tenant=acme`. Stores of different tenants
            have nothing in common but the tables.
        timeout: seconds to wait for a lock, or for a broken connection to be restored.
        lease_seconds: after how long without a sign of life an engine loses its sessions, by the database's clock.
        idle_seconds: after how long without an event a session in which nothing runs is free for other engines. The next
            prompt takes it again.
        schema: the versions of events, and the upcasters for older ones.
        config: how it shares the database with other engines: connections and drafts.

    Raises:
        ConfigError: psycopg is not installed, or the address can't be read.
        StoreMismatch: the schema holds another program's tables, or a newer engine's; they are left unchanged.
        StoreError: the database can't be reached, read or written.
    """
    await trio.lowlevel.checkpoint()
    address = parse_address(dsn, namespace=namespace, timeout=timeout, tenant=tenant)
    # Imported here: it is an extra.
    from engine.store.postgres.store import open_address

    return await open_address(
        address,
        lease_seconds=lease_seconds,
        idle_seconds=idle_seconds,
        schema=schema,
        config=config or StoreConfig(),
    )


def parse_address(dsn: str, *, namespace: str, timeout: float, tenant: str = "") -> Address:
    """Parse the address of a database. Raises `ConfigError`: it can't be read, or psycopg is not installed."""
    try:
        # Imported here: it is an extra.
        from engine.store.postgres.address import Address
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "engine":
            raise
        raise ConfigError(f"{_MISSING} ({error})") from error
    return Address.of(dsn, namespace=namespace, timeout=timeout, tenant=tenant)
