"""Files that are damaged: found out, said, and what can be read of them put into a new one."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from engine.core.errors import JournalCorrupt, StoreCorrupt, StoreError
from engine.store.sqlite.integrity import CHECK_INTERVAL
from engine.store.sqlite.repair_file import LostEvents, rescue
from engine.store.sqlite.store import open_sqlite_store
from tests.store.journals import A, B, noted, notes, session

# ruff: noqa: ASYNC240 -- the files are small

LONG = session(A, *[(f"question {n} " + "x" * 300, f"answer {n}") for n in range(40)], steps=2)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


async def made(path: Path) -> None:
    """Make a file of two sessions."""
    store = await open_sqlite_store(path)
    for event in [*LONG, *notes(B, 50)]:
        store.put(event)
    await store.aclose()


def changed(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def unchecked(path: Path) -> None:
    """Let the last look at the file be long ago."""
    changed(path, f"UPDATE notes SET value = value - {2 * CHECK_INTERVAL}")


async def test_a_gap_costs_one_session(path: Path) -> None:
    await made(path)
    changed(path, "DELETE FROM events WHERE session_id = 'ses_b' AND seq = 20")
    unchecked(path)
    store = await open_sqlite_store(path)
    assert store.damaged == (B,)
    assert list(await store.load(A)) == LONG
    for ask in (store.load, store.open_session):
        with pytest.raises(JournalCorrupt, match=r"ses_b has a gap before event 21: `engine sessions repair`"):
            await ask(B)
    await store.aclose()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            "UPDATE events SET body = 'x' WHERE session_id = 'ses_b' AND seq = 20",
            "event 20 .* can't be read: this is not",
        ),
        (
            "UPDATE events SET body = replace(body, '20', '21') WHERE session_id = 'ses_b' AND seq = 20",
            "says that it is",
        ),
        ("DELETE FROM events WHERE session_id = 'ses_b' AND seq < 20", "gap before event 20"),
    ],
)
async def test_an_event_that_is_not_what_it_was(path: Path, change: str, why: str) -> None:
    await made(path)
    changed(path, change)
    store = await open_sqlite_store(path)
    with pytest.raises(JournalCorrupt, match=why):
        await store.load(B)
    with pytest.raises(JournalCorrupt, match=why):
        await store.open_session(B)
    assert list(await store.load(A)) == LONG
    await store.aclose()


async def test_truncated_end_is_noticed_in_the_list(path: Path) -> None:
    await made(path)
    changed(path, "DELETE FROM events WHERE session_id = 'ses_b' AND seq > 40")
    unchecked(path)
    store = await open_sqlite_store(path)
    assert store.damaged == (B,)
    await store.aclose()


async def test_file_is_checked_daily_and_after_crashes(path: Path) -> None:
    await made(path)
    changed(path, "DELETE FROM events WHERE session_id = 'ses_b' AND seq = 20")
    store = await open_sqlite_store(path)
    assert store.damaged == ()
    await store.aclose()
    crash = "INSERT INTO leases VALUES ('ses_b', 'dead', '', 'host', 1, 1, 0)"
    changed(path, crash)
    for _ in range(2):  # again and again, until it is repaired
        store = await open_sqlite_store(path)
        assert store.damaged == (B,)
        await store.aclose()
    changed(path, "DELETE FROM events WHERE session_id = 'ses_b'", "DELETE FROM sessions WHERE id = 'ses_b'")
    store = await open_sqlite_store(path)
    assert store.damaged == ()
    await store.aclose()
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT * FROM leases").fetchall() == []
    connection.close()


def spoil(path: Path, first: int, pages: int = 1) -> None:
    """Write nonsense over some pages."""
    size = 8_192
    with path.open("r+b") as file:
        file.seek(first * size)
        file.write(b"\xa5" * size * pages)


async def test_corrupt_pages_are_reported(path: Path) -> None:
    await made(path)
    unchecked(path)
    spoil(path, path.stat().st_size // 8_192 // 2, 3)
    with pytest.raises(StoreCorrupt, match=r"is damaged .*`engine sessions repair`"):
        await open_sqlite_store(path)


@pytest.mark.slow
async def test_every_page_may_be_spoilt(path: Path, tmp_path: Path) -> None:
    """Whatever page it is: an error that says so, and a new file that can be opened, with nothing in it that is wrong."""
    await made(path)
    unchecked(path)
    whole = path.read_bytes()
    count = len(whole) // 8_192
    rescued = 0
    for page in range(count):
        path.write_bytes(whole)
        spoil(path, page)
        target = tmp_path / f"new{page}.db"
        try:
            found = await rescue(path, target)
        except StoreError:
            assert page <= 1 or not target.exists()
            continue
        store = await open_sqlite_store(target)
        assert list(await store.load(A)) == LONG[: len(await store.load(A))]
        assert list(await store.load(B)) == notes(B, len(await store.load(B)))
        assert len(await store.load(A)) + len(await store.load(B)) == found.events
        await store.aclose()
        rescued += found.events == len(LONG) + 50
    # Most pages are of the indexes, the search, or empty: then nothing is lost.
    assert rescued > count // 3


async def test_a_whole_file_is_rescued_whole(path: Path, tmp_path: Path) -> None:
    await made(path)
    target = tmp_path / "new.db"
    found = await rescue(path, target)
    assert (found.sessions, found.events, found.losses, found.leftover_path) == (2, len(LONG) + 50, (), None)
    old, new = await open_sqlite_store(path), await open_sqlite_store(target)
    assert await new.list_sessions() == await old.list_sessions()
    assert [hit.snippet for hit in await new.search("question 7")] == [
        "\ue000question\ue001 \ue0007\ue001 " + "x" * 300
    ]
    assert list(await new.load(A)) == LONG
    await new.aclose()
    await old.aclose()
    with pytest.raises(StoreError, match="already exists"):
        await rescue(path, target)
    with pytest.raises(StoreError, match="there is no file"):
        await rescue(tmp_path / "nothing.db", tmp_path / "new2.db")


async def test_events_after_a_gap_are_saved_separately(path: Path, tmp_path: Path) -> None:
    await made(path)
    changed(
        path,
        "DELETE FROM events WHERE session_id = 'ses_b' AND seq = 20",
        f"UPDATE events SET body = 'x' WHERE session_id = 'ses_a' AND seq = {len(LONG)}",
    )
    found = await rescue(path, tmp_path / "new.db")
    assert [(loss.session_id, loss.seq, loss.leftover_events) for loss in found.losses] == [
        (A, len(LONG), 1),
        (B, 20, 30),
    ]
    assert found.losses[1] == LostEvents(session_id=B, seq=20, reason="event 20 is lost", leftover_events=30)
    assert found.leftover_path is not None
    lines = found.leftover_path.read_text().splitlines()
    assert (len(lines), lines[0]) == (31, "x")
    assert found.leftover_path.stat().st_mode & 0o777 == 0o600
    store = await open_sqlite_store(tmp_path / "new.db")
    assert (list(await store.load(A)), list(await store.load(B))) == (LONG[:-1], notes(B, 19))
    store.put(noted(B, 20))
    await store.flushed(B, 20)
    await store.aclose()


async def test_sessions_only_in_the_list_are_reported(path: Path, tmp_path: Path) -> None:
    """An end that was cut off, and a session of which no event can be read: neither is passed over."""
    await made(path)
    changed(
        path,
        "DELETE FROM events WHERE session_id = 'ses_b'",
        f"DELETE FROM events WHERE session_id = 'ses_a' AND seq > {len(LONG) - 3}",
    )
    found = await rescue(path, tmp_path / "new.db")
    assert (found.sessions, found.events) == (1, len(LONG) - 3)
    assert [(loss.session_id, loss.seq) for loss in found.losses] == [(A, len(LONG) - 2), (B, 1)]
    assert found.losses[1].reason == "its events to number 50, the last that the list knows, are lost"


async def test_invalid_store_yields_nothing(path: Path, tmp_path: Path) -> None:
    path.write_bytes(b"my diary" * 5_000)
    theirs = sqlite3.connect(tmp_path / "theirs.db")
    theirs.execute("CREATE TABLE mine (a)")
    theirs.close()
    for file in (path, tmp_path / "theirs.db"):
        # Not the advice to repair it, which is what was just tried.
        with pytest.raises(
            StoreCorrupt, match=r"nothing of .* can be read: it is no store's file, or its beginning is"
        ):
            await rescue(file, tmp_path / "new.db")
        assert not (tmp_path / "new.db").exists()
