"""Real processes on one database: killed at any moment, several at once, and forks."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
import trio

from engine.core.errors import StoreError
from engine.core.ids import SessionId
from engine.store.postgres.open import open_postgres_store
from tests.conftest import CountRuns, Soak
from tests.store.full_suite import put_all
from tests.store.journals import A, noted, notes
from tests.store.rival import OURS, SHARED, what_it_put
from tests.store.server import Server, a_server, shared_server
from tests.store.waiting import PATIENCE, waiting_flush
from tests.support.processes import python_process

pytestmark = [pytest.mark.os, pytest.mark.slow]

# In `make full`, and in a sample.
KILLS, FEW_KILLS = 25, 10


@pytest.fixture
def place() -> Iterator[str]:
    """The URL of a database of one's own."""
    server = shared_server()
    name = server.name()
    server.do(f"CREATE DATABASE {name}")
    yield server.url(name)
    server.do(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture(scope="module")
def lasting() -> Iterator[Server]:
    """A server that waits for the disk."""
    server = a_server("fsync=on")
    yield server
    server.remove()


@pytest.mark.soak
def test_kill_loses_nothing_that_was_flushed(place: str, soak: Soak, is_full: bool, count_runs: CountRuns) -> None:
    kills = KILLS if is_full else FEW_KILLS
    for seed in soak.seeds(at_least=1):
        arguments = ("-m", "tests.store.killed", place, str(kills), str(seed))
        with python_process(*arguments, stderr=subprocess.PIPE) as program:
            out, errors = program.communicate(timeout=110)
            assert (out, program.returncode) == (f"{kills} kills\n", 0), errors
        count_runs(kills, "kills of a process that writes to a database")


@pytest.mark.soak
async def test_concurrent_writers_lose_and_repeat_nothing(place: str, pytestconfig: pytest.Config) -> None:
    """Some seconds, as long as `--soak-seconds` says otherwise; one of them is killed, and its sessions are taken."""
    seconds = max(4.0, float(pytestconfig.option.soak_seconds))
    names = ("a", "b", "c", "killed")
    told: Counter[str] = Counter()
    with ExitStack() as stack:
        programs = [
            stack.enter_context(
                python_process("-m", "tests.store.rival", place, name, str(seconds), stderr=subprocess.PIPE)
            )
            for name in names
        ]
        await trio.sleep(seconds / 2)
        killed = programs.pop()
        killed.kill()
        for program in programs:
            told.update(await what_it_put(program, seconds))
    assert len(told) == (len(names) - 1) * OURS + 1
    assert min(told.values()) > 0
    store = await open_postgres_store(place)
    rows = {row.id: row for row in await store.list_sessions()}
    shared = told.pop(SHARED)
    for name, put in told.items():
        assert list(await store.load(SessionId(name))) == notes(SessionId(name), put)
        assert rows.pop(SessionId(name)).seq == put
    # What the killed one had put of the session that all share is there besides, as far as it got.
    assert rows[SHARED].seq >= shared
    for name, row in rows.items():
        assert list(await store.load(name)) == notes(name, row.seq)
        assert row.holder == "nobody"
        await store.claim(name)
        store.put(noted(name, row.seq + 1))
        await store.flushed(name, row.seq + 1)
    await store.aclose()


async def test_killed_server_keeps_flushed_events(lasting: Server) -> None:
    """With -9, all of it, in the middle of writing; it recovers when it is started again."""
    lasting.do("CREATE DATABASE kept")
    for _ in range(3):
        store = await open_postgres_store(lasting.url("kept"), timeout=60)
        await store.claim(A)
        last = promised = len(await store.load(A))
        with trio.move_on_after(0.3):
            while True:
                last += 1
                store.put(noted(A, last))
                await store.flushed(A, last)
                promised = last
        await trio.to_thread.run_sync(lasting.kill)
        await trio.to_thread.run_sync(lasting.start)
        if last > promised:
            await store.flushed(A, last)
        assert list(await store.load(A)) == notes(A, last)
        await store.aclose()


_FORKS = """
import os, sys, warnings, trio
from engine.core.errors import StoreError
from engine.store.postgres.open import open_postgres_store
from tests.store.journals import noted
async def main():
    warnings.simplefilter("ignore")  # of Python 3.12: a fork beside threads
    store = await open_postgres_store(sys.argv[1])
    store.put(noted("ses_a", 1))
    await store.flushed("ses_a", 1)
    await store.load("ses_a")
    pid = os.fork()
    if pid == 0:
        refused = 0
        for attempt in (lambda: store.put(noted("ses_a", 2)), lambda: store.release("ses_a")):
            try:
                attempt()
            except StoreError:
                refused += 1
        for ask in (lambda: store.load("ses_b"), lambda: store.flushed("ses_a", 1), store.list_sessions):
            try:
                await ask()
            except StoreError:
                refused += 1
        sys.stdout.write(f"refused {refused}\\n")
        sys.stdout.flush()
        del store
        # As a program ends: all that it has is thrown away, connections too.
        import gc
        gc.collect()
        os._exit(0)
    os.waitpid(pid, 0)
    store.put(noted("ses_a", 2))
    await store.flushed("ses_a", 2)
    print(len(await store.load("ses_a")))
    await store.aclose()
trio.run(main)
"""


def test_a_fork_can_do_no_harm(place: str) -> None:
    with python_process("-c", _FORKS, place, stderr=subprocess.PIPE) as program:
        out, errors = program.communicate(timeout=60)
        assert (out, program.returncode) == ("refused 4\n2\n", 0), errors


async def test_foreign_lock_delays_a_flush_only(place: str) -> None:
    """The lock is released by our loop: if the flush stopped the loop, neither would ever go on."""
    store = await open_postgres_store(place, timeout=PATIENCE)
    await put_all(store, notes(A, 1))
    with shared_server().connected(place) as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE engine.events")
        async with waiting_flush(store, noted(A, 2)):
            other.execute("ROLLBACK")
    assert list(await store.load(A)) == notes(A, 2)
    await store.aclose()


async def test_foreign_lock_fails_a_flush_only(place: str) -> None:
    store = await open_postgres_store(place, timeout=0.3)
    await put_all(store, notes(A, 1))
    with shared_server().connected(place) as other:
        other.execute("BEGIN")
        other.execute("LOCK TABLE engine.events")
        store.put(noted(A, 2))
        with pytest.raises(StoreError, match="another transaction has locked it"):
            await store.flushed(A, 2)
        other.execute("ROLLBACK")
    await store.flushed(A, 2)
    assert list(await store.load(A)) == notes(A, 2)
    await store.aclose()
