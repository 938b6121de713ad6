"""Checks once a day for sessions whose journals have gaps, and cleans up after stores that were not closed."""

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
    row = connection.execute(_DUE, (MAX_CHECKED_BYTES, CHECK_INTERVAL)).fetchone()
    if row is None or not row[0]:
        return ()
    with connection.transaction():
        # One engine of a fleet is enough. Not the tables' lock, which would keep writers out.
        row = connection.execute("SELECT pg_try_advisory_xact_lock(%s)", (advisory_lock_key(address) ^ 1,)).fetchone()
        if row is None or not row[0]:
            return ()
        gaps = damaged_sessions(connection)
        if not gaps:
            connection.execute(
                "INSERT INTO engine_store (name, value) VALUES ('checked', extract(epoch FROM clock_timestamp()))"
                " ON CONFLICT (name) DO UPDATE SET value = excluded.value"
            )
        connection.execute(_TIDY, (_FORGOTTEN_AFTER, _FORGOTTEN_AFTER))
    return gaps


def damaged_sessions(connection: Connection) -> Sequence[SessionId]:
    """Return the sessions whose events are not numbered 1, 2, 3… up to the last one ever written."""
    return [SessionId(name) for (name,) in connection.execute(_DAMAGED).fetchall()]


_DUE: Final = """
SELECT pg_relation_size('events') <= %s
    AND NOT EXISTS (SELECT 1 FROM engine_store WHERE name = 'checked'
        AND abs(extract(epoch FROM clock_timestamp()) - value) < %s)
"""
# One statement, and so one consistent view.
_DAMAGED: Final = """
SELECT session_id FROM (
    SELECT session_id FROM (SELECT session_id, count(*) AS n, min(seq) AS first, max(seq) AS last FROM events
        GROUP BY session_id) AS found LEFT JOIN sessions ON sessions.id = found.session_id
        WHERE first <> 1 OR last <> n OR sessions.seq IS DISTINCT FROM last
    UNION
    SELECT id FROM sessions WHERE NOT EXISTS (SELECT 1 FROM events WHERE session_id = sessions.id)
) AS damaged ORDER BY session_id
"""
_TIDY: Final = """
WITH gone AS (DELETE FROM leases WHERE expires < now() - %s::interval)
DELETE FROM writers WHERE at < now() - %s::interval
"""
