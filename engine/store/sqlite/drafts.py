"""The table of drafts: what is kept of parts that are being received, until they are over.

It is none of the tables that `schema.py` numbers: it is made when the first draft comes, and a
file without it lacks nothing.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from engine.core.codec import Schema
from engine.core.events import Delta
from engine.core.ids import PartId, SessionId
from engine.store.session_rows import drafts_from_rows

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS drafts (
    session_id TEXT NOT NULL,
    part_id TEXT NOT NULL,
    offset INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session_id, part_id, offset)
)
"""


def keep(connection: sqlite3.Connection, session_id: SessionId, part_id: PartId, offset: int, body: str) -> None:
    """Keep a draft, in the writer's transaction."""
    connection.execute(_TABLE)
    connection.execute(
        "INSERT OR REPLACE INTO drafts (session_id, part_id, offset, body) VALUES (?, ?, ?, ?)",
        (session_id, part_id, offset, body),
    )


def forget(connection: sqlite3.Connection, session_id: SessionId, part_id: PartId | None) -> None:
    """Forget the drafts of a part, or of all parts of a session, in the writer's transaction."""
    if _exists(connection):
        connection.execute(
            "DELETE FROM drafts WHERE session_id = ?1 AND (?2 IS NULL OR part_id = ?2)", (session_id, part_id)
        )


def load(connection: sqlite3.Connection, session_id: SessionId, schema: Schema) -> Sequence[Delta]:
    """Return the drafts of a session, those of a part in their order. It blocks, and takes a reader's connection."""
    if not _exists(connection):
        return []
    rows: list[tuple[str]] = connection.execute(
        "SELECT body FROM drafts WHERE session_id = ? ORDER BY part_id, offset", (session_id,)
    ).fetchall()
    return drafts_from_rows((body for (body,) in rows), schema)


def _exists(connection: sqlite3.Connection) -> bool:
    found: tuple[int] = connection.execute(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'drafts'"
    ).fetchone()
    return bool(found[0])
