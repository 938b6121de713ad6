"""How many connections a server has, and how many engines share them."""

from __future__ import annotations

from typing import Final

import attrs

from engine.core.errors import StoreError
from engine.core.value_base import Value
from engine.store.postgres.address import Address
from engine.store.postgres.connections import Connection, connect
from engine.store.postgres.error_mapping import map_errors
from engine.store.postgres.pooler_check import check_pooler

# What limits them: the server, the database, the role. Superusers may use all, and no limit of a role binds them.
_LIMITS: Final = """
SELECT least(
    current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0),
    nullif((SELECT datconnlimit FROM pg_database WHERE datname = current_database()), -1),
    nullif((SELECT rolconnlimit FROM pg_roles WHERE rolname = current_user), -1)
), EXISTS (SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass('writers') AND attname = 'backend')
"""
_ENGINES: Final = """
SELECT count(*) FROM writers JOIN pg_stat_activity AS server ON server.pid = writers.backend
    AND server.datname = current_database()
"""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ConnectionBudget(Value):
    """How many connections there are.

    Attributes:
        available: how many connections the server gives to engines and others in all.
        engines: how many engines have the store open.
    """

    available: int
    engines: int


def connection_budget(address: Address, connections: int) -> ConnectionBudget:
    """Connect and count; nothing is created. It blocks, up to the timeout.

    *connections* is how many one engine needs. Raises `StoreError`.
    """
    with map_errors(address), connect(address) as connection:
        check_pooler(connection, address, connections)
        return _count(connection)


def _count(connection: Connection) -> ConnectionBudget:
    row = connection.execute(_LIMITS).fetchone()
    if row is None:
        raise StoreError("the server has not said how many connections it has")
    available, has_engines = row
    engines = connection.execute(_ENGINES).fetchone() if has_engines else None
    return ConnectionBudget(available=available, engines=0 if engines is None else engines[0])
