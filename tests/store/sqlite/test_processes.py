"""Real processes on one file: killed at any moment, and several at once."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio

from engine.core.errors import StoreError
from engine.core.ids import SessionId
from engine.store.sqlite.store import SqliteStore, open_sqlite_store
from tests.conftest import REPOSITORY, CountRuns, Soak
from tests.store.journals import A, noted, notes
from tests.store.rival import OURS, SHARED

pytestmark = [pytest.mark.os, pytest.mark.slow]

KILLS = 100


def python(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.soak
def test_kill_loses_nothing_that_was_flushed(tmp_path: Path, soak: Soak, count_runs: CountRuns) -> None:
    for seed in soak.seeds(at_least=1):
        program = python("-m", "tests.store.killed", str(tmp_path / "sessions.db"), str(KILLS), str(seed))
        out, errors = program.communicate(timeout=110)
        assert (out, program.returncode) == (f"{KILLS} kills\n", 0), errors
        count_runs(KILLS, "kills of a process that writes")


@pytest.mark.soak
async def test_concurrent_writers_lose_and_repeat_nothing(tmp_path: Path, pytestconfig: pytest.Config) -> None:
    """Some seconds; as long as `--soak-seconds` says otherwise (a minute, say)."""
    seconds = max(3.0, float(pytestconfig.option.soak_seconds))
    path = tmp_path / "sessions.db"
    # All begin at once, with a file that is not there yet.
    programs = [python("-m", "tests.store.rival", str(path), name, str(seconds)) for name in "abc"]
    told: Counter[str] = Counter()
    for program in programs:
        out, errors = await trio.to_thread.run_sync(program.communicate, None, seconds + 60)
        assert program.returncode == 0, errors
        for line in out.splitlines():
            name, _, count = line.partition(" ")
            told[name] += int(count)
    assert len(told) == len(programs) * OURS + 1
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
    store = await open_sqlite_store(sys.argv[1])
    store.put(noted("ses_a", 1))
    await store.flushed("ses_a", 1)
    print("ready", flush=True)
    await trio.sleep_forever()
trio.run(main)
"""


async def test_dead_engines_session_is_free_at_once(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    program = python("-c", _HOLDS, str(path))
    assert program.stdout is not None
    assert await trio.to_thread.run_sync(program.stdout.readline) == "ready\n"
    store = await open_sqlite_store(path)
    (row,) = await store.list_sessions()
    assert row.holder == "elsewhere"
    program.send_signal(signal.SIGKILL)
    program.communicate()
    (row,) = await store.list_sessions()
    assert row.holder == "nobody"
    await store.claim(A)
    store.put(noted(A, 2))
    assert list(await store.load(A)) == notes(A, 2)
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
    program = python("-c", _FORKS, str(tmp_path / "sessions.db"))
    out, errors = program.communicate(timeout=60)
    assert (out, program.returncode) == ("refused 4\n2\n", 0), errors


_WRITES_IN = """
import sqlite3, sys, time
c = sqlite3.connect(sys.argv[1], isolation_level=None)
c.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
c.execute("COMMIT")
print("free", flush=True)
"""


async def test_other_process_lock_costs_a_flush_only(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    store = await open_sqlite_store(path, lock_timeout=0.3)
    store.put(noted(A, 1))
    await store.flushed(A, 1)
    program = python("-c", _WRITES_IN, str(path))
    assert program.stdin is not None
    assert program.stdout is not None
    assert await trio.to_thread.run_sync(program.stdout.readline) == "locked\n"
    longest = await _longest_pause(store, A)
    assert longest < 0.25
    assert list(await store.wait_for_events(A, 0)) == notes(A, 1)  # reading goes on
    with pytest.raises(StoreError, match="another process has locked it"):
        await store.claim(SessionId("ses_new"))
    print(file=program.stdin, flush=True)
    assert await trio.to_thread.run_sync(program.stdout.readline) == "free\n"
    # What was put meanwhile was kept, and the claim that failed holds nothing.
    await store.flushed(A, 2)
    assert list(await store.load(A)) == notes(A, 2)
    other = await open_sqlite_store(path)
    await other.claim(SessionId("ses_new"))
    await other.aclose()
    await store.aclose()
    program.communicate()


async def _longest_pause(store: SqliteStore, session_id: SessionId) -> float:
    """Put and flush in vain; return how long the loop stood still at most meanwhile."""
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = trio.current_time()
            await trio.sleep(0.005)
            longest = max(longest, trio.current_time() - before)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        store.put(noted(session_id, 2))
        with pytest.raises(StoreError, match="another process has locked it"):
            await store.flushed(session_id, 2)
        nursery.cancel_scope.cancel(reason="done")
    return longest
