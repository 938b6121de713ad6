"""Projections made anew: what a file of an older version gets is what the writer would have written."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import attrs
import hypothesis
import pytest
import trio

from engine.core.events import DURABLE_TYPES, CompactionEnded, Durable, HistoryReplaced, PromptBlocked, SessionTitled
from engine.core.ids import MessageId, SessionId, TurnId
from engine.core.messages import Usage
from engine.journal.codec import encode_event
from engine.journal.fold import fold
from engine.journal.json_converter import TAGS
from engine.store.projection import PROJECTED_TYPES, SessionChange
from engine.store.sqlite.migrate import run_script
from engine.store.sqlite.schema import APPLICATION_ID
from engine.store.sqlite.store import open_sqlite_store
from tests.store.journals import A, B, any_journals, created, numbered, session, turn
from tests.support.values import samples

C = SessionId("ses_c")
TABLES = {
    "sessions": "SELECT * FROM sessions ORDER BY id",
    "texts": "SELECT session_id, seq, message_id, part_id, role, time FROM texts ORDER BY id",
    "words": "SELECT text FROM words ORDER BY rowid",
    "spent": "SELECT * FROM spent ORDER BY slot, root_id, model",
}


def journals() -> list[list[Durable]]:
    """Sessions with all that changes a row."""
    blocked = PromptBlocked(message_id=MessageId("u2"), source="hook", reason="no")
    titled = SessionTitled(title="Mended", by="user", usage=Usage(input=3), cost=0.5)
    compacted = attrs.evolve(
        CompactionEnded(outcome="compacted", model="small", usage=Usage(output=2), cost=0.25), turn_id=TurnId("turn1")
    )
    first = [created(), *turn(1, "Fix the parser", "done", steps=3), *turn(2, "no", "-"), blocked, titled]
    first.insert(4, compacted)
    history = fold(session(B, ("Look", "I looked"), steps=2)).transcript[:]
    fork: list[Durable] = [attrs.evolve(created(), forked_from=B), HistoryReplaced(kind="fork", messages=history)]
    return [numbered(first, A), session(B, ("Look", "I looked"), steps=2, parent=A), numbered(fork, C)]


def mixed(parts: Sequence[Sequence[Durable]]) -> list[Durable]:
    """The events of all of them, in turns."""
    longest = max(len(part) for part in parts)
    return [part[n] for n in range(longest) for part in parts if n < len(part)]


def of_version_1(path: Path, events: Sequence[Durable], spoilt: Sequence[int] = ()) -> None:
    """Make a file of version 1 with those events, the lists as that version had them: one bare row each."""
    connection = sqlite3.connect(path, isolation_level=None)
    run_script(connection, (Path(__file__).parent.parent / "tables.v1.sql").read_text(encoding="utf-8"))
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    for number, event in enumerate(events):
        body = "{" if number in spoilt else encode_event(event)
        row = (event.session_id, event.seq, TAGS[type(event)], body)
        connection.execute("INSERT INTO events (session_id, seq, type, version, body) VALUES (?, ?, ?, 1, ?)", row)
        connection.execute(
            "INSERT INTO sessions (id, root_id, title, created, updated, seq) VALUES (?, ?, 'known', ?, ?, ?)"
            " ON CONFLICT (id) DO UPDATE SET updated = excluded.updated, seq = excluded.seq",
            (event.session_id, (*event.path, event.session_id)[0], event.time, event.time, event.seq),
        )
    connection.close()


def found(path: Path) -> dict[str, list[tuple[object, ...]]]:
    connection = sqlite3.connect(path)
    rows = {name: connection.execute(query).fetchall() for name, query in TABLES.items()}
    connection.close()
    return rows


async def opened_and_closed(path: Path, events: Sequence[Durable] = ()) -> None:
    store = await open_sqlite_store(path)
    for event in events:
        store.put(event)
    await store.aclose()


async def test_migrated_file_has_the_writers_projections(tmp_path: Path) -> None:
    events = mixed(journals())
    of_version_1(tmp_path / "old.db", events)
    await opened_and_closed(tmp_path / "old.db")
    await opened_and_closed(tmp_path / "new.db", events)
    assert found(tmp_path / "old.db") == found(tmp_path / "new.db")


@hypothesis.settings(max_examples=30)
@hypothesis.given(events=any_journals(A))
def test_migrated_file_has_projections_whatever_it_holds(
    tmp_path_factory: pytest.TempPathFactory, events: list[Durable]
) -> None:
    folder = tmp_path_factory.mktemp("lifted")
    of_version_1(folder / "old.db", events)
    trio.run(opened_and_closed, folder / "old.db")
    trio.run(opened_and_closed, folder / "new.db", events)
    old, new = found(folder / "old.db"), found(folder / "new.db")
    # What is said of a session before its first event that counts is known from the old row only.
    assert {name: old[name] for name in ("texts", "words", "spent")} == {
        name: new[name] for name in ("texts", "words", "spent")
    }
    assert [(row[0], row[8]) for row in old["sessions"]] == [(row[0], row[8]) for row in new["sessions"]]


async def test_damaged_session_counts_its_readable_part(tmp_path: Path) -> None:
    events = mixed(journals())
    gone = [number for number, event in enumerate(events) if event.session_id == C]
    of_version_1(tmp_path / "old.db", events, [*gone, 5])
    await opened_and_closed(tmp_path / "old.db")
    rows = {row[0]: row for row in found(tmp_path / "old.db")["sessions"]}
    assert sorted(str(name) for name in rows) == [A, B, C]
    assert rows[C][3] == "known"


@pytest.mark.parametrize("kind", [kind for kind in DURABLE_TYPES if kind not in PROJECTED_TYPES])
def test_no_other_event_changes_a_row(kind: type[Durable]) -> None:
    for event in samples(kind):
        bare, taken = SessionChange.of(event, 7), SessionChange.of(event, 7)
        taken.add(event, 7)
        assert attrs.asdict(taken) == attrs.asdict(bare)
