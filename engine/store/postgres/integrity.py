"""Checks once a day for sessions whose journals have gaps, and cleans up after stores that were not closed.

Each tenant's stores check its own sessions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.core.ids import SessionId
from engine.store.postgres.address import Address
from engine.store.postgres.connections import Connection
from engine.store.postgres.schema import advisory_lock_key

CHECK_INTERVAL: Final = 86_400
# Checked when a store is opened; this size takes about a second.
MAX_CHECKED_BYTES: Final = 256 << 20
_FORGOTTEN_AFTER: Final = "30 days"


def find_gaps_if_due(connection: Connection, address: Address) -> Sequence[SessionId]:
    """Return the sessions with gaps, if the last check was a day ago. It blocks. Raises `psycopg.Error`."""
    name = f"checked:{address.tenant}" if address.tenant else "checked"
    row = connection.execute(_DUE, (MAX_CHECKED_BYTES, name, CHECK_INTERVAL)).fetchone()
    if row is None or not row[0]:
        return ()
    with connection.transaction():
        # One engine of a fleet is enough. Not the tables' lock, which would keep writers out.
        row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (advisory_lock_key(address) ^ 1,)).fetchone()
        if row is None or not row[0]:
            return ()
        gaps = damaged_sessions(connection, address.tenant)
        if not gaps:
            connection.execute(
                "INSERT INTO engine_store (name, value) VALUES (%s, extract(epoch FROM clock_timestamp()))"
                " ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                (name,),
            )
        connection.execute(_TIDY, {"tenant": address.tenant, "after": _FORGOTTEN_AFTER})
    return gaps


def damaged_sessions(connection: Connection, tenant: str) -> Sequence[SessionId]:
    """Return the sessions whose events are not numbered 1, 2, 3… up to the last one ever written."""
    return [SessionId(name) for (name,) in connection.execute(_DAMAGED, {"tenant": tenant}).fetchall()]


_DUE: Final = """
SELECT pg_relation_size('events') <= %s
    AND NOT EXISTS (SELECT 1 FROM engine_store WHERE name = %s
        AND abs(extract(epoch FROM clock_timestamp()) - value) < %s)
"""
# One statement, and so one consistent view.
_DAMAGED: Final = """
WITH listed AS (SELECT id, seq FROM sessions WHERE tenant = %(tenant)s),
stored AS (SELECT session_id, count(*) AS n, min(seq) AS first, max(seq) AS last FROM events
    WHERE tenant = %(tenant)s AND session_id NOT IN (SELECT session_id FROM removals WHERE tenant = %(tenant)s)
    GROUP BY session_id)
SELECT session_id FROM (
    SELECT session_id FROM stored LEFT JOIN listed ON listed.id = stored.session_id
        WHERE first <> 1 OR last <> n OR listed.seq IS DISTINCT FROM last
    UNION
    SELECT id FROM listed WHERE NOT EXISTS (SELECT 1 FROM stored WHERE session_id = listed.id)
) AS damaged ORDER BY session_id
"""
_TIDY: Final = """
WITH gone AS (DELETE FROM leases WHERE tenant = %(tenant)s AND expires < now() - %(after)s::interval),
unwatched AS (DELETE FROM watchers WHERE tenant = %(tenant)s AND expires < now() - %(after)s::interval)
DELETE FROM writers WHERE tenant = %(tenant)s AND at < now() - %(after)s::interval
"""
