"""The queries behind `FleetStatus`: from the tables and the server's own views alone. They block."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping
from typing import Final, LiteralString

from psycopg import sql

from engine.store.fleet_status import EngineStatus, FleetStatus
from engine.store.postgres.connections import Connection

# For the notification that is sent to ourselves.
_PROBE_SECONDS: Final = 2.0

_ENGINES: Final = """
SELECT owner, host, pid, version, extract(epoch FROM clock_timestamp() - opened)::float8,
    extract(epoch FROM clock_timestamp() - at)::float8,
    (SELECT count(*) FROM leases WHERE leases.tenant = %(tenant)s AND leases.owner = writers.owner
        AND leases.expires >= clock_timestamp()), figures
FROM writers WHERE tenant = %(tenant)s AND owner <> %(owner)s ORDER BY opened, owner
"""
# A session that works has a lease that holds, or its engine is gone.
_SESSIONS: Final = """
SELECT CASE WHEN NOT is_busy THEN 'idle' WHEN asked > 0 THEN 'waiting'
        WHEN leases.expires >= clock_timestamp() THEN 'busy' ELSE 'interrupted' END AS state, count(*)
FROM sessions LEFT JOIN leases ON is_busy AND leases.tenant = %(tenant)s AND leases.session_id = sessions.id
WHERE sessions.tenant = %(tenant)s AND parent_id IS NULL GROUP BY state
"""
_LEASES: Final = """
SELECT CASE WHEN expires >= clock_timestamp() THEN 'held' ELSE 'expired' END AS state, count(*)
FROM leases WHERE tenant = %(tenant)s AND session_id NOT LIKE 'task %%' GROUP BY state
"""
_TASKS: Final = """
SELECT CASE WHEN leases.expires >= clock_timestamp() THEN 'running' ELSE 'waiting' END AS state, count(*),
    extract(epoch FROM clock_timestamp() - min(enqueued))::float8
FROM tasks LEFT JOIN leases ON leases.tenant = %(tenant)s AND leases.session_id = 'task ' || tasks.key
WHERE tasks.tenant = %(tenant)s AND ended IS NULL GROUP BY state
"""
_OUTCOMES: Final = """
SELECT outcome, count(*) FROM tasks
WHERE tenant = %(tenant)s AND ended > clock_timestamp() - interval '1 hour' GROUP BY outcome ORDER BY outcome
"""
_PERMITS: Final = """
SELECT coalesce(sum(permits), 0)::bigint, coalesce(sum(greatest(need - permits, 0)), 0)::bigint,
    (SELECT count(*) FROM paces WHERE cooldown_until > clock_timestamp())
FROM pace_blocks WHERE expires > clock_timestamp()
"""
_SERVER: Final = """
SELECT count(*) FILTER (WHERE application_name = 'engine' AND usename = current_user), count(*),
    current_setting('max_connections')::integer, pg_notification_queue_usage()
FROM pg_stat_activity WHERE datname = current_database()
"""


def read_fleet_status(connection: Connection, tenant: str, owner: str) -> FleetStatus:
    """Return how the engines of a tenant do, except the store *owner*, which asks. Raises `psycopg.Error`."""
    values = {"tenant": tenant, "owner": owner}
    with connection.transaction():  # one view of all tables
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        engines = connection.execute(_ENGINES, values).fetchall()
        sessions = _counts(connection, _SESSIONS, values)
        leases = _counts(connection, _LEASES, values)
        tasks = connection.execute(_TASKS, values).fetchall()
        outcomes = _counts(connection, _OUTCOMES, values)
    permits = connection.execute(_PERMITS).fetchone()
    row = connection.execute(_SERVER).fetchone()
    assert permits is not None  # sums have a row, too
    assert row is not None  # counts have a row
    ours, everyone, limit, queue = row
    return FleetStatus(
        engines=[
            EngineStatus(**dict(zip(_FIELDS, (*known, json.loads(figures or "{}")), strict=True)))
            for *known, figures in engines
        ],
        sessions={state: sessions.get(state, 0) for state in ("idle", "busy", "waiting", "interrupted")},
        leases={state: leases.get(state, 0) for state in ("held", "expired")},
        tasks={state: sum(count for name, count, _ in tasks if name == state) for state in ("waiting", "running")},
        queue_age=next((age for name, _, age in tasks if name == "waiting"), None),
        outcomes=outcomes,
        permits=dict(zip(("held", "denied", "cooldowns"), permits, strict=True)),
        connections={"engines": ours, "all": everyone, "limit": limit},
        notification_seconds=_probe(connection),
        notification_queue=float(queue),
    )


_FIELDS: Final = ("owner", "host", "pid", "version", "opened", "silent", "leases", "figures")


def _counts(connection: Connection, statement: LiteralString, values: Mapping[str, str]) -> dict[str, int]:
    return {str(name): int(count) for name, count in connection.execute(statement, values).fetchall()}


def _probe(connection: Connection) -> float | None:
    """Return how long a notification takes from its commit to a listener; None: too long."""
    channel = f"engine_probe_{secrets.token_hex(8)}"
    connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
    try:
        began = time.monotonic()
        connection.execute("SELECT pg_notify(%s, '')", (channel,))
        for _ in connection.notifies(timeout=_PROBE_SECONDS, stop_after=1):
            return time.monotonic() - began
        return None
    finally:
        connection.execute(sql.SQL("UNLISTEN {}").format(sql.Identifier(channel)))
