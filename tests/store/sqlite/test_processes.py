"""Real processes on one file: killed at any moment, and several at once."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from engine.core.errors import SessionElsewhere, StoreError
from engine.core.ids import SessionId
from engine.store.leases import IDLE
from engine.store.sqlite.store import open_sqlite_store
from tests.conftest import CountRuns, Soak
from tests.store.full_suite import put_all
from tests.store.journals import A, noted, notes
from tests.store.rival import OURS, SHARED, what_it_put
from tests.store.waiting import PATIENCE, waiting_flush
from tests.support.processes import python_process, read_line, write_line

pytestmark = [pytest.mark.os, pytest.mark.slow]

# In `make full`, and in a sample.
KILLS, FEW_KILLS = 100, 40


@pytest.mark.soak
def test_kill_loses_nothing_that_was_flushed(tmp_path: Path, soak: Soak, is_full: bool, count_runs: CountRuns) -> None:
    kills = KILLS if is_full else FEW_KILLS
    for seed in soak.seeds(at_least=1):
        arguments = ("-m", "tests.store.killed", str(tmp_path / "sessions.db"), str(kills), str(seed))
        with python_process(*arguments, stderr=subprocess.PIPE) as program:
            out, errors = program.communicate(timeout=110)
            assert (out, program.returncode) == (f"{kills} kills\n", 0), errors
        count_runs(kills, "kills of a process that writes")


@pytest.mark.soak
async def test_concurrent_writers_lose_and_repeat_nothing(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Some seconds; as long as `--soak-seconds` says otherwise (a minute, say)."""
    seconds = max(3.0, float(pytestconfig.option.soak_seconds))
    path = tmp_path / "sessions.db"
    names = "abc"
    told: Counter[str] = Counter()
    with ExitStack() as stack:
        # All begin at once, with a file that is not there yet.
        programs = [
            stack.enter_context(
                python_process("-m", "tests.store.rival", str(path), name, str(seconds), stderr=subprocess.PIPE)
            )
            for name in names
        ]
        for program in programs:
            told.update(await what_it_put(program, seconds))
    assert len(told) == len(names) * OURS + 1
    assert min(told.values()) > 0
    store = await open_sqlite_store(path)
    for name, put in told.items():
        assert list(await store.load(SessionId(name))) == notes(SessionId(name), put)
    assert {row.id: row.seq for row in await store.list_sessions()} == dict(told)
    assert told[SHARED] % 5 == 0
    await store.aclose()


_HOLDS = """
import sys, trio
from engine.store.sqlite.store import open_sqlite_store
from tests.store.journals import noted
async def main():
    store = await open_sqlite_store(sys.argv[1], lease_seconds=float(sys.argv[2]))
    store.put(noted("ses_a", 1))
    await store.flushed("ses_a", 1)
    print("ready", flush=True)
    await trio.sleep_forever()
trio.run(main)
"""


async def test_dead_engines_session_is_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    with python_process("-c", _HOLDS, str(path), "60") as program:
        assert await trio.to_thread.run_sync(read_line, program) == "ready"
        store = await open_sqlite_store(path)
        (row,) = await store.list_sessions()
        assert row.holder == "elsewhere"
    (row,) = await store.list_sessions()
    assert row.holder == "nobody"
    await store.claim(A)
    store.put(noted(A, 2))
    assert list(await store.load(A)) == notes(A, 2)
    await store.aclose()


def holder_of(path: Path) -> tuple[int, float]:
    connection = sqlite3.connect(path)
    found: tuple[int, float] = connection.execute("SELECT pid, expires FROM leases").fetchone()
    connection.close()
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_idle_engines_session_ends_with_it(tmp_path: Path, number: signal.Signals) -> None:
    path = tmp_path / "sessions.db"
    with python_process("-c", _HOLDS, str(path), "0.2") as program:
        assert await trio.to_thread.run_sync(read_line, program) == "ready"
        with trio.fail_after(PATIENCE):
            while holder_of(path)[1] != IDLE:
                await trio.sleep(0.01)
        store = await open_sqlite_store(path)
        with pytest.raises(SessionElsewhere):
            await store.claim(A)
        program.send_signal(number)
        with trio.fail_after(PATIENCE):
            while (await store.list_sessions())[0].holder != "nobody":
                await trio.sleep(0.01)
        await store.claim(A)
        await put_all(store, [noted(A, 2)])
        assert list(await store.load(A)) == notes(A, 2)
        assert holder_of(path)[0] == os.getpid()
        await store.aclose()


_FORKS = """
import os, sys, warnings, trio
from engine.core.errors import StoreError
from engine.store.sqlite.store import open_sqlite_store
from tests.store.journals import noted
async def main():
    warnings.simplefilter("ignore")  # of Python 3.12: a fork beside threads
    store = await open_sqlite_store(sys.argv[1])
    store.put(noted("ses_a", 1))
    await store.flushed("ses_a", 1)
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
        os._exit(refused)
    _, status = os.waitpid(pid, 0)
    print("refused", os.waitstatus_to_exitcode(status))
    store.put(noted("ses_a", 2))
    await store.flushed("ses_a", 2)
    print(len(await store.load("ses_a")))
    await store.aclose()
trio.run(main)
"""


def test_a_fork_can_do_no_harm(tmp_path: Path) -> None:
    with python_process("-c", _FORKS, str(tmp_path / "sessions.db"), stderr=subprocess.PIPE) as program:
        out, errors = program.communicate(timeout=60)
        assert (out, program.returncode) == ("refused 4\n2\n", 0), errors


# It keeps the lock until it is told to release it.
_LOCKS = """
import sqlite3, sys
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
c.execute("COMMIT")
print("free", flush=True)
"""


async def test_other_process_lock_delays_a_flush_only(tmp_path: Path) -> None:
    """The lock is released by our loop: if the flush stopped the loop, neither would ever go on."""
    path = tmp_path / "sessions.db"
    store = await open_sqlite_store(path, lock_timeout=PATIENCE)
    await put_all(store, notes(A, 1))
    with python_process("-c", _LOCKS, str(path)) as program:
        assert await trio.to_thread.run_sync(read_line, program) == "locked"
        async with waiting_flush(store, noted(A, 2)):
            assert list(await store.wait_for_events(A, 0)) == notes(A, 1)  # reading goes on
            write_line(program)
    assert list(await store.load(A)) == notes(A, 2)
    await store.aclose()


async def test_other_process_lock_fails_a_flush_only(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = await open_sqlite_store(path, lock_timeout=0.3)
    await put_all(store, notes(A, 1))
    with python_process("-c", _LOCKS, str(path)) as program:
        assert await trio.to_thread.run_sync(read_line, program) == "locked"
        store.put(noted(A, 2))
        with pytest.raises(StoreError, match="another process has locked it"):
            await store.flushed(A, 2)
        with pytest.raises(StoreError, match="another process has locked it"):
            await store.claim(SessionId("ses_new"))
        assert list(await store.wait_for_events(A, 0)) == notes(A, 1)
        write_line(program)
        assert await trio.to_thread.run_sync(read_line, program) == "free"
    # What was put meanwhile was kept, and the claim that failed holds nothing.
    await store.flushed(A, 2)
    assert list(await store.load(A)) == notes(A, 2)
    other = await open_sqlite_store(path)
    await other.claim(SessionId("ses_new"))
    await other.aclose()
    await store.aclose()
