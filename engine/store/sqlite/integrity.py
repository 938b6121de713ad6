"""Integrity checks when the file is opened.

The whole file is checked once a day, and after an engine died with the file open. A very large file is not checked;
damage shows up when it is read. A session with a gap in its journal does not affect others.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Sequence
from typing import Final

from engine.core.errors import StoreCorrupt
from engine.core.ids import SessionId
from engine.store.leases import Owner
from engine.store.sqlite.lease_table import LeaseTable

CHECK_INTERVAL: Final = 86_400.0
# Larger files are not checked: this size takes about a second.
MAX_CHECKED_BYTES: Final = 256 << 20

_NOTE: Final = "checked"


def is_due(connection: sqlite3.Connection, owner: Owner) -> bool:
    """Return whether a check is due. It blocks, for less than a millisecond."""
    pages: int = connection.execute("PRAGMA page_count").fetchone()[0]
    size: int = connection.execute("PRAGMA page_size").fetchone()[0]
    if pages * size > MAX_CHECKED_BYTES:
        return False
    last: tuple[float] | None = connection.execute("SELECT value FROM notes WHERE name = ?", (_NOTE,)).fetchone()
    if last is None or abs(time.time() - last[0]) > CHECK_INTERVAL:
        return True
    return any(not owner.is_live(lease) for lease in LeaseTable(connection).all().values())


def check_file(connection: sqlite3.Connection, path: str) -> Sequence[SessionId]:
    """Check the whole file, and return the sessions whose journals have gaps.

    It blocks, about a second for 256 MiB. Raises `StoreCorrupt`, `sqlite3.Error`.
    """
    findings: list[tuple[str]] = connection.execute("PRAGMA quick_check (5)").fetchall()
    if findings != [("ok",)]:
        what = "; ".join(line for (line,) in findings)
        raise StoreCorrupt(
            f"the store {path} is damaged ({what}): `engine sessions repair` puts what can be read into a new file"
        )
    return damaged_sessions(connection)


def note_checked(connection: sqlite3.Connection, owner: Owner) -> None:
    """Record the time of the check, and delete the leases of dead engines, since those trigger a check. It blocks."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute("INSERT OR REPLACE INTO notes (name, value) VALUES (?, ?)", (_NOTE, time.time()))
        LeaseTable(connection).delete_expired(owner)
        connection.execute("COMMIT")
    except BaseException:  # re-raised: the connection must not stay in a transaction
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def damaged_sessions(connection: sqlite3.Connection) -> Sequence[SessionId]:
    """Return the sessions whose events are not numbered 1, 2, 3… up to the last one ever written."""
    rows: list[tuple[SessionId]] = connection.execute(
        "SELECT session_id FROM (SELECT session_id, count(*) AS n, min(seq) AS first, max(seq) AS last FROM events"
        " GROUP BY session_id) AS found LEFT JOIN sessions ON sessions.id = found.session_id"
        " WHERE first <> 1 OR last <> n OR sessions.seq IS NOT last"
        " UNION SELECT id FROM sessions WHERE NOT EXISTS (SELECT 1 FROM events WHERE session_id = sessions.id)"
    ).fetchall()
    return sorted(session_id for (session_id,) in rows)
