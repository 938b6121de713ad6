"""`PostgresTextTable`: the searchable texts, and how texts are prepared for PostgreSQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Final, LiteralString

import attrs

from engine.core.ids import SessionId
from engine.store.postgres.connections import Connection
from engine.store.postgres.full_text import tsvector_text
from engine.store.projection import IndexedText, RemovedText, storable
from engine.store.projection_rows import INDEXED_CHARS, finite

_CONTROL: Final = re.compile(r"[\n\r\t]")


@attrs.frozen
class PostgresTextTable:
    """See `TextTable`. It sees and writes the rows of one tenant.

    With *copy* texts are written by COPY; None: the database refuses that.
    """

    _connection: Connection
    _tenant: str
    _copy: Callable[[LiteralString, Iterable[str]], None] | None

    def add(self, texts: Sequence[tuple[SessionId, IndexedText]]) -> None:
        """See `TextTable`."""
        if not texts:
            return
        rows = (_row_of(self._tenant, session_id, text) for session_id, text in texts)
        if self._copy is not None:
            self._copy(
                "COPY texts (tenant, session_id, seq, message_id, part_id, role, time, text, words) FROM STDIN",
                ("\t".join(map(copy_escaped, row)) + "\n" for row in rows),
            )
            return
        with self._connection.cursor() as cursor:
            cursor.executemany(
                "INSERT INTO texts (tenant, session_id, seq, message_id, part_id, role, time, text, words)"
                " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
                list(rows),
            )

    def remove(self, session_id: SessionId, removed: RemovedText) -> None:
        """See `TextTable`."""
        self._connection.execute(
            "DELETE FROM texts WHERE tenant = %s AND session_id = %s AND message_id = %s AND role <> 'title'"
            " AND (%s = '' OR part_id = %s)",
            (
                self._tenant,
                session_id,
                postgres_text(removed.message_id),
                postgres_text(removed.part_id),
                postgres_text(removed.part_id),
            ),
        )

    def remove_title(self, session_id: SessionId) -> None:
        """See `TextTable`."""
        self._connection.execute(
            "DELETE FROM texts WHERE tenant = %s AND session_id = %s AND message_id = '' AND role = 'title'",
            (self._tenant, session_id),
        )

    def titled_by(self, session_id: SessionId) -> str:
        """See `TextTable`."""
        row = self._connection.execute(
            "SELECT titled_by FROM sessions WHERE tenant = %s AND id = %s", (self._tenant, session_id)
        ).fetchone()
        return "" if row is None else str(row[0])


def postgres_text(text: str) -> str:
    """Return *text* without NUL, which PostgreSQL rejects."""
    return storable(text).replace("\x00", "\ufffd")


def copy_escaped(text: str) -> str:
    """Return *text* as a value of a COPY."""
    doubled = text.replace("\\", "\\\\")
    if _CONTROL.search(doubled):
        return doubled.replace("\n", "\\n").replace("\r", "\\r").replace("\t", "\\t")
    return doubled


def _row_of(tenant: str, session_id: SessionId, text: IndexedText) -> Sequence[str]:
    kept = postgres_text(text.text[:INDEXED_CHARS])
    return (
        tenant,
        session_id,
        str(text.seq),
        postgres_text(text.message_id),
        postgres_text(text.part_id),
        text.role,
        repr(finite(text.time)),
        kept,
        tsvector_text(kept),
    )
