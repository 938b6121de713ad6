"""The table of drafts: what is kept of parts that are being received, until they are over.

It is none of the tables that `schema.py` numbers: it is made when the first draft comes, and a
file without it lacks nothing.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from engine.core.codec import Schema, decode_event, encode_event
from engine.core.errors import JournalCorrupt
from engine.core.events import DELTA_TYPES, Delta
from engine.core.ids import PartId, SessionId
from engine.store.commands import Order, Round
from engine.store.projection import storable

_TABLE: Final = """
CREATE TABLE IF NOT EXISTS drafts (
    session_id TEXT NOT NULL,
    part_id TEXT NOT NULL,
    offset INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (session_id, part_id, offset)
)
"""


@attrs.define(eq=False)
class Draft(Order):
    """Keep by how much an open part has grown."""

    delta: Delta

    def do(self, at: Round) -> None:
        """Keep it, if the session is ours to write."""
        delta = self.delta
        if at.owner.holds(at.tables.leases_of([delta.session_id], at.owner).get(delta.session_id)):
            at.tables.draft(delta.session_id, PartId(storable(delta.part_id)), delta.offset, encode_event(delta))


@attrs.define(eq=False)
class Undraft(Order):
    """Forget the drafts of a part that is over; of all parts of a session, if none is named."""

    session_id: SessionId
    part_id: PartId | None = None

    def do(self, at: Round) -> None:
        """Forget them."""
        at.tables.undraft(self.session_id, None if self.part_id is None else PartId(storable(self.part_id)))


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
    return readable((body for (body,) in rows), schema)


def readable(bodies: Iterable[str], schema: Schema) -> Sequence[Delta]:
    """Return the drafts that can be read."""
    found: list[Delta] = []
    for body in bodies:
        # The last words of an answer that was cut off are worth nothing that would keep the session from opening.
        with contextlib.suppress(JournalCorrupt):
            event = decode_event(body, schema=schema)
            if isinstance(event, DELTA_TYPES):
                found.append(event)
    return found


def _exists(connection: sqlite3.Connection) -> bool:
    found: tuple[int] = connection.execute(
        "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'drafts'"
    ).fetchone()
    return bool(found[0])
