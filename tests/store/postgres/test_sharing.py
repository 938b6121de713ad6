"""What engines share in a database: its connections, also behind a pooler, its notifications, and the time for drafts."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from functools import partial
from typing import cast

import psycopg
import pytest
import trio

import engine
from engine.cli.doctor.database_check import check_database
from engine.config.store_config import StoreConfig
from engine.core.errors import ConfigError, StoreError
from engine.core.ids import SessionId
from engine.store.postgres.listener import written_sessions
from engine.store.postgres.open import open_postgres_store
from engine.testing.script import Pause, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.store.full_suite import put_all
from tests.store.journals import A, B, noted, notes
from tests.store.pooler import a_pooler
from tests.store.server import Database, a_database

pytestmark = pytest.mark.os


@pytest.fixture
def database() -> Iterator[Database]:
    with a_database() as found:
        yield found


# ---- connections -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("config", "readers", "listens", "connections"),
    [
        (StoreConfig(), 2, True, 4),
        (StoreConfig(max_readers=8), 8, True, 10),
        (StoreConfig(max_connections=3), 1, True, 3),
        (StoreConfig(max_connections=2), 1, False, 2),
        (StoreConfig(max_readers=1, max_connections=60), 1, True, 3),
    ],
)
def test_connections_of_an_engine(config: StoreConfig, readers: int, listens: bool, connections: int) -> None:
    assert (config.readers, config.has_listener, config.connections) == (readers, listens, connections)


@pytest.mark.parametrize(
    "wrong", [{"max_readers": 0}, {"max_readers": 9}, {"max_connections": 1}, {"drafts_per_second": 0.0}]
)
def test_wrong_setting_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be"):
        StoreConfig(**wrong)  # type: ignore[arg-type]  # that is the test


@pytest.mark.parametrize("config", [StoreConfig(), StoreConfig(max_connections=2)])
async def test_busy_engine_keeps_its_connections(database: Database, config: StoreConfig) -> None:
    """Twenty reads at once, a watcher and a writer; and what is watched arrives, notified or polled."""
    store, other = await database.open(config=config), await database.open()
    await put_all(store, notes(A, 50))
    most = 0

    async def watch() -> None:
        assert list(await store.wait_for_events(B, 0)) == notes(B, 1)
        nursery.cancel_scope.cancel(reason="it was seen")

    async def read() -> None:
        while True:
            assert len(await store.load(A)) >= 50

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        for _ in range(20):
            nursery.start_soon(read)
        for number in range(20):
            await trio.sleep(0.01)
            store.put(noted(A, 51 + number))
            used = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'engine'"
            most = max(most, cast("int", database.do(used)[0][0]))
            if number == 10:
                await put_all(other, notes(B, 1))
    assert most - 1 <= config.connections
    await store.aclose()
    await other.aclose()


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("round_robin", [False, True])
async def test_pooler_of_transactions_is_refused(database: Database, mode: str, round_robin: bool) -> None:
    with a_pooler(database.server, mode, round_robin=round_robin) as place:
        # Others have used several of its connections before.
        others = [psycopg.connect(place) for _ in range(3 if mode == "transaction" else 0)]
        for each in others:
            each.execute("SELECT 1")
        for each in others:
            each.commit()
        with trio.fail_after(30), pytest.raises(StoreError, match="the store needs session mode"):
            await open_postgres_store(place, namespace=database.namespace)
        for each in others:
            each.close()
    assert database.do("SELECT 1 FROM pg_namespace WHERE nspname = '{}'") == []


async def test_pooler_of_sessions_works(database: Database) -> None:
    with a_pooler(database.server, "session") as place:
        ours = await open_postgres_store(place, namespace=database.namespace)
        theirs = await open_postgres_store(place, namespace=database.namespace)
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                assert list(await theirs.wait_for_events(A, 0)) == notes(A, 1)

            nursery.start_soon(watch)
            await put_all(ours, notes(A, 1))
        await ours.aclose()
        await theirs.aclose()


async def test_pooler_without_room_is_reported(database: Database) -> None:
    with a_pooler(database.server, "session", size=1) as place:
        with trio.fail_after(30), pytest.raises(StoreError, match="no connection left: an engine needs up to 4"):
            await open_postgres_store(place, namespace=database.namespace, timeout=0.5)


async def test_doctor_counts_engines_and_connections(database: Database) -> None:
    server, name = database.server, database.server.name()
    server.do(f"CREATE DATABASE {name}")
    try:
        look = partial(check_database, server.url(name))
        found = look(StoreConfig())
        assert (found.state, "0 engines connected, 4 connections at most for each" in found.text) == ("ok", True)
        assert server.do("SELECT 1 FROM pg_namespace WHERE nspname = 'engine'", database=name) == []
        stores = [await open_postgres_store(server.url(name)) for _ in range(3)]
        # One that was killed: its row is left.
        server.do("INSERT INTO engine.writers (owner, number, at, tenant) VALUES ('dead', 1, now(), '')", database=name)
        server.do(f"ALTER DATABASE {name} CONNECTION LIMIT 15")
        found = look(StoreConfig())
        assert (found.state, found.next) == ("warn", "engine config set store.max_connections 3")
        assert "3 engines connected, 4 connections at most for each; the server has only 15, which is enough for 3" in (
            found.text
        )
        assert look(StoreConfig(max_connections=3)).state == "ok"
        for store in stores:
            await store.aclose()
        assert "0 engines" in look(StoreConfig()).text
    finally:
        server.do(f"DROP DATABASE {name} WITH (FORCE)")
    assert look(StoreConfig()).state == "fail"


# ---- notifications ---------------------------------------------------------------------------------------------------


def heard(listener: psycopg.Connection[tuple[object, ...]]) -> list[list[str]]:
    """What has been announced until now: a notification of our own comes last."""
    listener.execute("NOTIFY mark")
    channels: list[tuple[str, str]] = []
    while not channels or channels[-1][0] != "mark":
        channels += [(each.channel, each.payload) for each in listener.notifies(timeout=60, stop_after=1)]
    return [json.loads(payload) for channel, payload in channels if channel != "mark"]


async def test_only_watched_sessions_are_announced(database: Database) -> None:
    ours, theirs = await database.open(), await database.open()
    with database.server.connected(database.server.dsn()) as listener:
        listener.execute(f"LISTEN engine_{database.namespace}; LISTEN mark".encode())
        await put_all(ours, notes(A, 1), notes(B, 1))
        await ours.released()
        assert heard(listener) == []
        async with trio.open_nursery() as nursery:
            nursery.start_soon(theirs.wait_for_events, A, 1)
            with trio.fail_after(60):
                while not database.do("SELECT 1 FROM {}.watchers"):
                    await trio.sleep(0.01)
            await put_all(ours, notes(A, 1, after=1), notes(B, 1, after=1))
        # What was written last is announced when the store is closed, at the latest.
        await ours.aclose()
        assert heard(listener) == [[A]]
        again = await database.open()
        database.do("UPDATE {}.watchers SET expires = now()")
        await put_all(again, notes(A, 1, after=2))
        await again.aclose()
        assert heard(listener) == []
    await theirs.aclose()
    assert database.do("SELECT * FROM {}.watchers") == []


async def test_announcements_are_few_and_miss_nothing(database: Database) -> None:
    ours, theirs = await database.open(), await database.open()
    names, count = [SessionId(f"ses_{number}") for number in range(5)], 120
    seen = dict.fromkeys(names, 0)

    async def watch(name: SessionId) -> None:
        while seen[name] < count:
            seen[name] += len(await theirs.wait_for_events(name, seen[name]))

    with database.server.connected(database.server.dsn()) as listener:
        listener.execute(f"LISTEN engine_{database.namespace}; LISTEN mark".encode())
        async with trio.open_nursery() as nursery:
            for name in names:
                nursery.start_soon(watch, name)
            with trio.fail_after(60):
                while database.do("SELECT count(*) FROM {}.watchers") != [(5,)]:
                    await trio.sleep(0.01)
            began = time.monotonic()
            for seq in range(1, count + 1):
                for name in names:
                    ours.put(noted(name, seq))
                await ours.flushed(names[-1], seq)
            commits = ours.health().commits
        took = time.monotonic() - began
        news = heard(listener)
    assert commits >= count
    assert 1 <= len(news) <= 10 * took + 2
    assert {name for each in news for name in each} == {*names}
    await ours.aclose()
    await theirs.aclose()


def test_foreign_notification_wakes_all_watchers() -> None:
    assert written_sessions(['["a", "b"]', '["c"]']) == ["a", "b", "c"]
    for foreign in ("", "hello", "{}", "7", "[]"):
        assert written_sessions(['["a"]', foreign]) == ()


# ---- drafts ----------------------------------------------------------------------------------------------------------

COUNT_DRAFTS = """
CREATE SEQUENCE {}.drafts_written;
CREATE FUNCTION {}.count() RETURNS trigger LANGUAGE plpgsql AS $$BEGIN PERFORM nextval('{}.drafts_written'); RETURN NULL; END$$;
CREATE TRIGGER count AFTER INSERT OR UPDATE ON {}.drafts FOR EACH ROW EXECUTE FUNCTION {}.count();
"""


async def test_streams_of_an_engine_share_its_drafts(database: Database) -> None:
    """Thirty answers at once, each with new text every 20 ms: at 75 ms each they would write 400 drafts a second."""
    store = await database.open(config=StoreConfig(drafts_per_second=20.0))
    database.do(COUNT_DRAFTS)
    answer = [item for piece in text("word " * 100, pieces=100) for item in (piece, Pause(0.02))]
    began = time.monotonic()
    async with engine.open_engine(model=ScriptedProvider([[*answer, *done()]], repeat=True), store=store) as eng:
        async with trio.open_nursery() as nursery:
            for _ in range(30):
                session = await eng.create_session()
                nursery.start_soon(session.run, "go")
        took = time.monotonic() - began
        assert store.draft_interval() >= 0.1
    (written,) = database.do("SELECT last_value FROM {}.drafts_written")[0]
    # The first ones of all come together, before the rate is known.
    assert 30 <= cast("int", written) <= 20 * took + 2 * 30
    assert database.do("SELECT count(*) FROM {}.drafts") == [(0,)]
