"""Deleted sessions: invisible at once, while their events are removed in batches.

One statement for a session of a million events would hold its locks for seconds, and write as much log as the events
themselves. So the transaction that deletes a session only names it in `removals`; readers leave out what is named there.
Later transactions remove a thousand rows each. What an engine has left is removed with the next session that is deleted, by
any engine, or at once if the id is used again.
"""

from __future__ import annotations

from typing import Final, LiteralString

from engine.core.ids import SessionId
from engine.store.postgres.connections import Connection

BATCH: Final = 1_000
# Those with many rows.
_TABLES: Final[tuple[LiteralString, ...]] = ("events", "texts")


def begin_removal(connection: Connection, tenant: str, session_id: SessionId) -> None:
    """Make a session's events invisible. It blocks."""
    connection.execute(
        "INSERT INTO removals (tenant, session_id) VALUES (%s, %s) ON CONFLICT DO NOTHING", (tenant, session_id)
    )


def remove_batch(connection: Connection, tenant: str) -> bool:
    """Remove up to `BATCH` rows of deleted sessions; return whether there may be more. It blocks."""
    left = BATCH
    while left > 0:
        # Other engines remove other sessions at the same time.
        row = connection.execute(
            "SELECT session_id FROM removals WHERE tenant = %s LIMIT 1 FOR UPDATE SKIP LOCKED", (tenant,)
        ).fetchone()
        if row is None:
            return False
        left -= _remove(connection, tenant, row[0], left)
    return True


def finish_removal(connection: Connection, tenant: str, session_id: SessionId) -> None:
    """Remove what is left of a deleted session, since its id is used again. It blocks."""
    # It waits for an engine that is removing a batch.
    row = connection.execute(
        "SELECT 1 FROM removals WHERE tenant = %s AND session_id = %s FOR UPDATE", (tenant, session_id)
    ).fetchone()
    while row is not None and _remove(connection, tenant, session_id, BATCH) >= BATCH:
        pass


def _remove(connection: Connection, tenant: str, session_id: SessionId, most: int) -> int:
    """Remove up to *most* rows of a session, and its name once there are no more; return how many."""
    left = most
    for table in _TABLES:
        left -= connection.execute(
            f"DELETE FROM {table} WHERE ctid = ANY(ARRAY("  # noqa: S608  # names of ours
            f"SELECT ctid FROM {table} WHERE tenant = %s AND session_id = %s LIMIT %s))",
            (tenant, session_id, left),
        ).rowcount
        if left <= 0:
            return most
    connection.execute("DELETE FROM removals WHERE tenant = %s AND session_id = %s", (tenant, session_id))
    return most - left
