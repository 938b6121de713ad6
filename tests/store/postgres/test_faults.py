"""What can become of a database under a store: broken, restarted, full, read-only, gone, and closed to us."""

from __future__ import annotations

import itertools
import os
import pwd
import random
import socket
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import attrs
import pytest
import trio

from engine.core.errors import ConfigError, JournalCorrupt, StoreError, StoreMismatch
from engine.core.ids import SessionId
from engine.store.postgres.open import open_postgres_store
from engine.store.postgres.store import PostgresStore
from engine.store.postgres.writer_connection import PostgresWriterConnection
from engine.store.write_commands import WriteCommand, WriteTransaction
from tests.conftest import REPOSITORY
from tests.store.full_suite import put_all
from tests.store.journals import A, B, noted, notes
from tests.store.server import KEYED, PASSWORD, Database, Server, a_database, a_server
from tests.store.waiting import PATIENCE, waiting_flush

pytestmark = pytest.mark.os


@pytest.fixture
def database() -> Iterator[Database]:
    with a_database() as found:
        yield found


@pytest.fixture(scope="module")
def durable_server() -> Iterator[Server]:
    """It does what a flush promises: it waits for the disk."""
    server = a_server("fsync=on")
    yield server
    server.remove()


@pytest.fixture
def own_server(durable_server: Server) -> Iterator[Server]:
    """One that may be stopped; it runs again when the next test begins."""
    yield durable_server
    durable_server.start()


# ---- broken ----------------------------------------------------------------------------------------------------------


async def test_broken_connections_lose_and_repeat_nothing(database: Database) -> None:
    """Writers and readers go on within their timeout: nobody is told."""
    store, other = await database.open(timeout=20), await database.open(timeout=20)
    dice = random.Random(11)
    sessions = [SessionId(f"ses_{number}") for number in range(4)]
    last = dict.fromkeys(sessions, 0)
    is_over = False

    async def write(session_id: SessionId) -> None:
        while not is_over:
            for _ in range(dice.randrange(1, 40)):
                last[session_id] += 1
                store.put(noted(session_id, last[session_id]))
            await store.flushed(session_id, last[session_id])

    async def read() -> None:
        while not is_over:
            session_id = dice.choice(sessions)
            at_least = last[session_id] - 40
            assert len(await other.load(session_id)) >= at_least
            assert len(await store.load(session_id)) >= at_least

    broken = 0
    async with trio.open_nursery() as nursery:
        for session_id in sessions:
            nursery.start_soon(write, session_id)
        nursery.start_soon(read)
        for number in itertools.count(1):
            await trio.sleep(dice.random() * 0.06)
            broken += database.kill_connections()
            # However long it takes them to come back on a machine that has much to do.
            if number >= 60 and broken > 60:
                break
        is_over = True
    for session_id in sessions:
        assert last[session_id] > 0
        assert list(await other.load(session_id)) == notes(session_id, last[session_id])
    assert {row.id: row.seq for row in await store.list_sessions()} == last
    await store.aclose()
    await other.aclose()


SLOW_COMMIT = """
CREATE FUNCTION {}.slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(0.5); RETURN NULL; END';
CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON {}.events DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.seq = 4) EXECUTE FUNCTION {}.slow();
"""


def cut(store: PostgresStore) -> None:
    """Break the writer's connection on this side: the server goes on, and hears of it when it answers."""
    desk = store._sink.connection
    assert isinstance(desk, PostgresWriterConnection)
    assert desk._connection is not None
    wire = socket.socket(fileno=os.dup(desk._connection.fileno()))
    wire.shutdown(socket.SHUT_RDWR)
    wire.close()


@pytest.mark.parametrize("who", ["we", "the server"])
async def test_commit_with_unknown_end_happens_once(database: Database, who: str) -> None:
    """Cut off by us, the server commits for all that; cut off by the server, it does not."""
    store = await database.open()
    await put_all(store, notes(A, 3))
    database.do(SLOW_COMMIT)
    for event in notes(A, 2, after=3):
        store.put(event)
    order = Counting()
    store._enqueue(order)
    with trio.fail_after(30):
        while not database.do("SELECT 1 FROM pg_stat_activity WHERE state = 'active' AND query = 'COMMIT'"):
            await trio.sleep(0.01)
    if who == "we":
        cut(store)
    else:
        database.kill_connections()
    await store.flushed(A, 5)
    # What is done twice is seen: the second attempt is one more.
    assert (order.count, order.is_done) == (1 if who == "we" else 2, True)
    assert list(await store.load(A)) == notes(A, 5)
    assert [row.seq for row in await store.list_sessions()] == [5]
    await put_all(store, notes(A, 1, after=5))
    await store.aclose()


@attrs.define(eq=False)
class Counting(WriteCommand):
    """Counts how often it is carried out."""

    count: int = 0

    def run(self, at: WriteTransaction) -> None:
        self.count += 1


async def test_a_server_that_restarts_delays_a_flush_only(own_server: Server) -> None:
    """Our loop starts it: if the flush stopped the loop, neither would ever go on."""
    with a_database(own_server) as database:
        store, watcher = await database.open(timeout=PATIENCE), await database.open(timeout=PATIENCE)
        await put_all(store, notes(A, 3))
        seen: list[object] = []
        async with trio.open_nursery() as nursery:

            async def watch() -> None:
                while len(seen) < 6:
                    seen.extend(await watcher.wait_for_events(A, len(seen)))

            nursery.start_soon(watch)
            await trio.sleep(0.1)
            await trio.to_thread.run_sync(own_server.stop)
            nursery.start_soon(store.load, B)
            async with waiting_flush(store, noted(A, 4)):
                await trio.to_thread.run_sync(own_server.start)
            await put_all(store, notes(A, 2, after=4))
        assert seen == notes(A, 6)
        assert list(await store.load(A)) == notes(A, 6)
        await store.aclose()
        await watcher.aclose()


async def test_absent_server_fails_a_flush_only(own_server: Server) -> None:
    with a_database(own_server) as database:
        store = await database.open(timeout=0.3)
        await put_all(store, notes(A, 3))
        await trio.to_thread.run_sync(own_server.stop)
        store.put(noted(A, 4))
        for ask in (lambda: store.flushed(A, 4), lambda: store.claim(B), lambda: store.load(B)):
            with pytest.raises(StoreError, match="can't be reached"):
                await ask()
        with pytest.raises(StoreError, match="can't be reached"):
            await database.open(timeout=0.3)
        with pytest.raises(StoreError, match="could not be written to its end"):
            await store.aclose()
        await trio.to_thread.run_sync(own_server.start)
        store = await database.open(timeout=0.3)
        assert list(await store.load(A)) == notes(A, 3)
        await put_all(store, notes(B, 1))
        await trio.to_thread.run_sync(own_server.stop)
        store.put(noted(B, 2))
        with pytest.raises(StoreError, match="can't be reached"):
            await store.flushed(B, 2)
        await trio.to_thread.run_sync(own_server.start)
        await store.flushed(B, 2)
        assert list(await store.load(B)) == notes(B, 2)
        await store.aclose()


# ---- full, read-only, gone, damaged ----------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = Path("/dev/shm" if os.access("/dev/shm", os.W_OK) else "/tmp") / f"engine-disk-{os.getpid()}"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        folder.rmdir()
        pytest.skip("only root can mount a small disk")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)
    folder.rmdir()


async def test_full_disk_costs_only_what_does_not_fit(database: Database, small_disk: Path) -> None:
    store = await database.open(timeout=0.5)
    await put_all(store, notes(A, 3))
    owner = database.server.folder.stat()
    os.chown(small_disk, owner.st_uid, owner.st_gid)
    database.do(f"CREATE TABLESPACE {{}}_small LOCATION '{small_disk}'")
    try:
        for name in ("{}.events", "{}.events_pkey"):
            kind = "INDEX" if name.endswith("pkey") else "TABLE"
            database.do(f"ALTER {kind} {name} SET TABLESPACE {{}}_small")
        filler = small_disk / "filler"
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
            while True:
                file.write(b"x" * 4096)
        large = noted(A, 4, "".join(random.Random(1).choices("abcdefghijklmnopqrstuvwxyz", k=500_000)))
        store.put(large)
        with pytest.raises(StoreError, match="the database's disk is full: free some space"):
            await store.flushed(A, 4)
        store.put(noted(A, 5))
        with pytest.raises(StoreError, match="the database's disk is full: free some space"):
            await store.flushed(A, 5)
        assert list(await store.wait_for_events(A, 0)) == notes(A, 3)
        filler.unlink()
        await store.flushed(A, 5)
        assert list(await store.load(A)) == [*notes(A, 3), large, noted(A, 5)]
        await store.aclose()
    finally:
        database.do("DROP SCHEMA {} CASCADE")
        database.do("DROP TABLESPACE {}_small")


async def test_a_database_that_is_read_only(own_server: Server) -> None:
    with a_database(own_server) as database:
        store = await database.open(timeout=0.5)
        await put_all(store, notes(A, 3))
        own_server.do("ALTER DATABASE postgres SET default_transaction_read_only = on")
        try:
            database.kill_connections()
            with pytest.raises(StoreError, match="the database is read-only"):
                await database.open()
            store.put(noted(A, 4))
            with pytest.raises(StoreError, match="the database is read-only"):
                await store.flushed(A, 4)
            assert list(await store.wait_for_events(A, 0)) == notes(A, 3)
        finally:
            own_server.do("ALTER DATABASE postgres RESET default_transaction_read_only")
        database.kill_connections()
        await store.flushed(A, 4)
        assert list(await store.load(A)) == notes(A, 4)
        await store.aclose()


async def test_revoked_rights(database: Database) -> None:
    database.do("CREATE ROLE {} LOGIN")
    database.do("CREATE SCHEMA {}")
    dsn = database.server.dsn(user=database.namespace)
    with pytest.raises(StoreError, match="its rights forbid it"):
        await open_postgres_store(dsn, namespace=database.namespace)
    database.do("GRANT ALL ON SCHEMA {} TO {}")
    store = await open_postgres_store(dsn, namespace=database.namespace, timeout=0.5)
    await put_all(store, notes(A, 1))
    database.do("REVOKE ALL ON ALL TABLES IN SCHEMA {} FROM {}; ALTER TABLE {}.events OWNER TO engine")
    store.put(noted(A, 2))
    with pytest.raises(StoreError, match="its rights forbid it"):
        await store.flushed(A, 2)
    database.do("GRANT ALL ON ALL TABLES IN SCHEMA {} TO {}")
    await store.flushed(A, 2)
    await store.aclose()
    database.do("DROP SCHEMA {} CASCADE; DROP ROLE {}")


async def test_tables_that_were_removed_end_the_store(database: Database) -> None:
    store = await database.open(timeout=0.5)
    await put_all(store, notes(A, 3))
    database.do("DROP SCHEMA {} CASCADE")
    store.put(noted(A, 4))
    with pytest.raises(StoreError, match="its tables were removed or changed"):
        await store.flushed(A, 4)
    with pytest.raises(StoreError, match="its tables were removed or changed"):
        store.put(noted(A, 5))
    with pytest.raises(StoreMismatch, match="its tables were removed or changed"):
        await store.load(B)
    with pytest.raises(StoreError, match="could not be written"):
        await store.aclose()


async def test_gap_is_found_after_a_day(database: Database) -> None:
    store = await database.open()
    await put_all(store, notes(A, 5), notes(B, 5))
    await store.aclose()
    database.do("DELETE FROM {}.events WHERE session_id = %s AND seq = 3", A)
    store = await database.open()
    assert store.damaged == ()  # looked at today
    await store.aclose()
    database.do("UPDATE {}.engine_store SET value = 0 WHERE name = 'checked'")
    for _ in range(2):  # until it is mended
        store = await database.open()
        assert store.damaged == [A]
        with pytest.raises(JournalCorrupt, match=r"gap before event 4: restore the database from a backup$"):
            await store.load(A)
        assert list(await store.load(B)) == notes(B, 5)
        await store.aclose()


# ---- secrets ---------------------------------------------------------------------------------------------------------

PIECES = [
    piece for piece in PASSWORD.replace("%", "/").replace("@", "/").replace(":", "/").split("/") if len(piece) > 2
]


def everything(error: BaseException) -> str:
    return repr(error) + "".join(traceback.format_exception(error))


async def test_password_is_in_no_error_or_repr(own_server: Server) -> None:
    own_server.do(f"CREATE ROLE {KEYED} LOGIN PASSWORD '{PASSWORD}'")
    folder = quote(str(own_server.folder), safe="")
    with a_database(own_server) as database:
        database.do(f"CREATE SCHEMA {{}} AUTHORIZATION {KEYED}")

        async def opened(password: str, rest: str = f"@/postgres?host={folder}") -> PostgresStore:
            dsn = f"postgresql://{KEYED}:{password}{rest}"
            return await open_postgres_store(dsn, namespace=database.namespace, timeout=0.5)

        told: list[str] = []
        for password, rest in (
            (quote(PASSWORD, safe="") + "x", f"@/postgres?host={folder}"),  # a wrong one
            (PASSWORD, f"@/postgres?host={folder}"),  # not quoted as it must be
            ("canary@canary", f"@/postgres?host={folder}"),
            ("12/canary", f"@{folder}/postgres"),
            ("canary/1", f"@{folder}/postgres"),
            ("canary?1", f"@{folder}/postgres"),
            (quote(PASSWORD, safe=""), f"@/{PASSWORD}?host={folder}"),
            (quote(PASSWORD, safe=""), f"@/{quote(PASSWORD, safe='')}?host={folder}"),  # no such database
            (quote(PASSWORD, safe=""), "@127.0.0.1:1/postgres"),  # nobody there
            (quote(PASSWORD, safe=""), "@nobody.invalid/postgres"),
            (quote(PASSWORD, safe=""), f"@/postgres?host={folder}&sslmode=nonsense"),
            (quote(PASSWORD, safe=""), f"@/postgres?nonsense={quote(PASSWORD, safe='')}"),
        ):
            with pytest.raises((StoreError, ConfigError)) as caught:
                await opened(password, rest)
            told.append(everything(caught.value))
        store = await opened(quote(PASSWORD, safe=""))
        await put_all(store, notes(A, 1))
        told += [repr(store), repr(store.address), str(store.address), repr(store._sink), repr(store._readers)]
        database.kill_connections()
        own_server.do(f"ALTER ROLE {KEYED} NOLOGIN")
        store.put(noted(A, 2))
        with pytest.raises(StoreError, match="not permitted to log in") as caught_later:
            await store.flushed(A, 2)
        told.append(everything(caught_later.value))
        own_server.do(f"ALTER ROLE {KEYED} LOGIN")
        await store.flushed(A, 2)
        await store.aclose()
    for text in told:
        for piece in PIECES:
            assert piece not in text


async def test_errors_hold_no_stored_text(database: Database) -> None:
    store = await database.open(timeout=0.5)
    await put_all(store, notes(A, 1))
    database.do("ALTER TABLE {}.events ADD CONSTRAINT short CHECK (length(body) < 2000)")
    store.put(noted(A, 2, "canary" * 1_000))
    with pytest.raises(StoreError) as caught:
        await store.flushed(A, 2)
    assert "canary" not in everything(caught.value)
    with pytest.raises(StoreError):
        await store.aclose()


# ---- opening ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("namespace", ["", "Engine", "pg_engine", "a-b", 'a"b', "ä", "x" * 49, "1a"])
async def test_schema_name_is_validated(namespace: str) -> None:
    with pytest.raises(ConfigError, match="can't be the name of a store's schema"):
        await open_postgres_store("", namespace=namespace)


async def test_database_with_narrow_encoding_is_refused(own_server: Server) -> None:
    own_server.do("CREATE DATABASE old ENCODING 'LATIN1' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'")
    with pytest.raises(StoreMismatch, match="keeps texts as LATIN1"):
        await open_postgres_store(own_server.dsn("old"))


def test_missing_psycopg_is_explained() -> None:
    program = """
import sys, trio
sys.modules["psycopg"] = None
from engine.core.errors import ConfigError
from engine.store.postgres.open import open_postgres_store
try:
    trio.run(open_postgres_store, "postgresql://nobody@nowhere/x")
except ConfigError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("a store in PostgreSQL needs psycopg: pip install 'nursery-engine[postgres]'")


def test_test_server_role_is_harmless() -> None:
    """It is not run by root, and listens nowhere but in its folder."""
    with a_database() as database:
        process = int((database.server.folder / "data" / "postmaster.pid").read_text().split("\n")[0])
        assert pwd.getpwuid(Path(f"/proc/{process}").stat().st_uid).pw_name != "root"
        assert database.do("SHOW listen_addresses") == [("",)]
