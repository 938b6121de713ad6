"""The tables `texts` and `words` in SQLite: searchable texts and their full-text index."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence

import attrs

from engine.core.ids import SessionId
from engine.core.value_base import Value
from engine.store.projection import IndexedText, RemovedText, make_title, storable
from engine.store.projection_rows import INDEXED_CHARS, finite
from engine.store.search_text import MATCH_MARKS
from engine.store.session_row import MAX_SEARCHED_TEXTS, SNIPPET_TOKENS
from engine.store.sqlite.bulk_insert import insert_rows
from engine.store.sqlite.full_text import display_text, index_text


@attrs.frozen(eq=False, repr=False)
class SqliteTextTable(Value):
    """See `TextTable`; it also searches."""

    _connection: sqlite3.Connection

    def add(self, texts: Sequence[tuple[SessionId, IndexedText]]) -> None:
        """See `TextTable`."""
        if not texts:
            return
        last: int = self._connection.execute("SELECT coalesce(max(id), 0) FROM texts").fetchone()[0]
        insert_rows(
            self._connection,
            "texts",
            "id, session_id, seq, message_id, part_id, role, time",
            [
                (
                    number,
                    session_id,
                    text.seq,
                    storable(text.message_id),
                    storable(text.part_id),
                    text.role,
                    finite(text.time),
                )
                for number, (session_id, text) in enumerate(texts, last + 1)
            ],
        )
        insert_rows(
            self._connection,
            "words",
            "rowid, text",
            [(number, index_text(text.text[:INDEXED_CHARS])) for number, (_, text) in enumerate(texts, last + 1)],
        )

    def remove(self, session_id: SessionId, removed: RemovedText) -> None:
        """See `TextTable`."""
        self._delete(
            "SELECT id FROM texts WHERE session_id = ? AND message_id = ? AND role <> 'title' AND ? IN ('', part_id)",
            (session_id, storable(removed.message_id), storable(removed.part_id)),
        )

    def remove_title(self, session_id: SessionId) -> None:
        """See `TextTable`."""
        self._delete("SELECT id FROM texts WHERE session_id = ? AND message_id = '' AND role = 'title'", (session_id,))

    def remove_all(self, session_id: SessionId) -> None:
        """Remove all texts of a session."""
        self._delete("SELECT id FROM texts WHERE session_id = ?", (session_id,))

    def titled_by(self, session_id: SessionId) -> str:
        """See `TextTable`."""
        row: tuple[str] = self._connection.execute(
            "SELECT titled_by FROM sessions WHERE id = ?", (session_id,)
        ).fetchone()
        return row[0]

    def first_title(self, session_id: SessionId) -> str:
        """Make a title from the user's first remaining text; empty if there is none."""
        texts = self._connection.execute(
            "SELECT text FROM texts JOIN words ON words.rowid = texts.id WHERE session_id = ? AND role = 'user'"
            " ORDER BY seq, texts.id",
            (session_id,),
        )
        titles = (make_title(display_text(text)) for (text,) in texts)
        return next((title for title in titles if title), "")

    def newest_matches(self, query: str, limit: int, cwd: str | None) -> Sequence[int]:
        """Return the ids of matching texts, newest first, one for each of at most *limit* sessions."""
        texts: Iterator[tuple[int, SessionId]] = self._connection.execute(
            "SELECT texts.id, texts.session_id FROM words JOIN texts ON texts.id = words.rowid"
            " WHERE words MATCH :query AND (:cwd IS NULL OR (SELECT cwd FROM sessions WHERE id = texts.session_id) = :cwd)"
            " ORDER BY words.rowid DESC LIMIT :most",
            {"query": query, "cwd": cwd, "most": MAX_SEARCHED_TEXTS},
        )
        newest: dict[SessionId, int] = {}
        for text_id, session_id in texts:
            # Stops reading rows here: SQLite computes them one by one.
            if session_id not in newest and len(newest) == limit:
                break
            newest.setdefault(session_id, text_id)
        return list(newest.values())

    def snippets(self, query: str, text_ids: Sequence[int]) -> Mapping[int, str]:
        """Return snippets around the matches in those texts."""
        if not text_ids:
            return {}
        # The unary plus keeps SQLite from using the list as its outer loop: then it would search the index once per row,
        # instead of once.
        rows: list[tuple[int, str]] = self._connection.execute(
            f"SELECT rowid, snippet(words, 0, ?, ?, '…', {SNIPPET_TOKENS}) FROM words"  # noqa: S608  # a constant
            " WHERE words MATCH ? AND rowid BETWEEN ? AND ? AND +rowid IN (SELECT value FROM json_each(?))",
            (*MATCH_MARKS, query, min(text_ids), max(text_ids), f"[{','.join(map(str, text_ids))}]"),
        ).fetchall()
        return dict(rows)

    def _delete(self, selection: str, values: Sequence[str]) -> None:
        rows: list[tuple[int]] = self._connection.execute(selection, values).fetchall()
        self._connection.executemany("DELETE FROM words WHERE rowid = ?", rows)
        self._connection.executemany("DELETE FROM texts WHERE id = ?", rows)
