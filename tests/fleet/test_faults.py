"""What can become of the database and the network under a fleet: restarts, lost commits, wrong clocks, slow lines."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Generator, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.core.errors import JournalCorrupt
from engine.core.ids import SessionId
from engine.fleet.sweeper import sweep
from engine.store.postgres.open import open_postgres_store
from engine.store.postgres.store import PostgresStore
from tests.fleet.fleet_engine import CALLS, EFFECTS, open_engine
from tests.fleet.test_sweeper import ELSEWHERE, can_unshare
from tests.store.full_suite import put_all
from tests.store.journals import A, B, noted, notes
from tests.store.server import Server, a_server
from tests.support.processes import python_process, read_line

pytestmark = [pytest.mark.os, pytest.mark.slow]

NAME = SessionId("ses_1")


@pytest.fixture
def own_server() -> Iterator[Server]:
    """One that may be stopped, with the table of the tools."""
    server = a_server("fsync=on")
    server.do(EFFECTS)
    yield server
    server.remove()


def effects(server: Server) -> list[int]:
    """How often each call was run."""
    return [int(str(times)) for (times,) in server.do("SELECT count(*) FROM public.effects GROUP BY call")]


@pytest.mark.parametrize("how", ["restarted", "killed"])
async def test_database_that_restarts_costs_no_turn(own_server: Server, tmp_path: Path, how: str) -> None:
    """Three engines, in the middle of their turns: all of them end, and nothing is run twice."""
    place = own_server.url("postgres")
    async with AsyncExitStack() as stack:
        turns: list[engine.Turn] = []
        stores: list[PostgresStore] = []
        nursery = await stack.enter_async_context(trio.open_nursery())
        for _ in range(3):
            store = await open_postgres_store(place, lease_seconds=20, timeout=30)
            stores.append(store)
            eng = await stack.enter_async_context(open_engine(store, place, tmp_path, 0.1))
            nursery.start_soon(partial(sweep, eng, seconds=0.1))
            session = await eng.create_session(cwd=tmp_path)
            turns.append(eng.start_turn(session, "go"))
        with trio.fail_after(60):
            while len(effects(own_server)) < 4:
                await trio.sleep(0.02)
        await trio.to_thread.run_sync(own_server.stop if how == "restarted" else own_server.kill)
        await trio.to_thread.run_sync(own_server.start)
        with trio.fail_after(60):
            results = [await turn.wait() for turn in turns]
        assert [(result.stop_reason, result.durable) for result in results] == [("completed", True)] * 3
        # One of them looks after the others again.
        with trio.fail_after(60):
            while [await store.abandoned_sessions() for store in stores].count(None) != 2:
                await trio.sleep(0.05)
        nursery.cancel_scope.cancel()
    # A call whose effect needs the database itself may have failed; then its result says so.
    assert set(effects(own_server)) == {1}
    assert len(effects(own_server)) <= 3 * CALLS


async def test_replica_that_missed_commits_damages_one_session(own_server: Server) -> None:
    """The server comes back as it was earlier: a session that goes on has a gap then, and only that one."""
    ours, theirs = [await open_postgres_store(own_server.url("postgres"), timeout=30) for _ in range(2)]
    await put_all(ours, notes(A, 3))
    await put_all(theirs, notes(B, 3))
    data, copied = own_server.folder / "data", own_server.folder / "copied"
    await trio.to_thread.run_sync(own_server.stop)
    await trio.to_thread.run_sync(partial(_copy, data, copied))
    await trio.to_thread.run_sync(own_server.start)
    await put_all(ours, notes(A, 2, after=3))
    await trio.to_thread.run_sync(own_server.stop)
    shutil.rmtree(data)
    copied.rename(data)
    await trio.to_thread.run_sync(own_server.start)
    # It has the first three only, and this engine goes on with the sixth.
    ours.put(noted(A, 6))
    await ours.flushed(A, 6)
    with pytest.raises(JournalCorrupt, match="gap before event 6"):
        await theirs.load(A)
    await put_all(theirs, notes(B, 2, after=3))
    assert list(await ours.load(B)) == notes(B, 5)
    await ours.aclose()
    await theirs.aclose()


def _copy(data: Path, copied: Path) -> None:
    subprocess.run(["cp", "-a", str(data), str(copied)], check=True)


# ---- other machines ---------------------------------------------------------------------------------------------------


@attrs.frozen
class Line:
    """How an engine of another machine gets to the database."""

    prefix: tuple[str, ...]
    place: str


async def takeover(server: Server, folder: Path, dead: Line, taker: Line, clocks: tuple[int, int]) -> None:
    """Kill an engine in the middle of a call; another one goes on when its lease is over."""

    def arguments(what: str, line: Line, seconds: float, clock: int) -> tuple[str, ...]:
        return ("-m", "tests.fleet.lone_engine", what, line.place, str(folder), NAME, str(seconds), str(clock))

    with python_process(*arguments("sweep", taker, 0, clocks[1]), prefix=taker.prefix, stderr=subprocess.PIPE) as other:
        assert await trio.to_thread.run_sync(read_line, other) == "ready"
        with python_process(*arguments("work", dead, 20, clocks[0]), prefix=dead.prefix) as worker:
            assert (await trio.to_thread.run_sync(read_line, worker)).startswith("started")
            with trio.fail_after(60):
                while not effects(server):
                    await trio.sleep(0.02)
            os.kill(worker.pid, signal.SIGKILL)
            await trio.to_thread.run_sync(worker.wait)
        out, errors = await trio.to_thread.run_sync(lambda: other.communicate(timeout=60))
        assert other.returncode == 0, errors
    assert out.splitlines()[-1] == "ended completed", out
    assert effects(server) == [1] * CALLS


@pytest.mark.parametrize("clocks", [(600, -600), (-600, 600)])
async def test_clocks_that_are_wrong_change_nothing(
    own_server: Server, tmp_path: Path, clocks: tuple[int, int], is_full: bool
) -> None:
    """Ten minutes ahead and behind: leases go by the database's clock."""
    if clocks[0] < 0 and not is_full:
        pytest.skip("the other way round is tried in `make full`")
    if not can_unshare():
        pytest.skip("only root has other PID namespaces")
    line = Line(ELSEWHERE, own_server.url("postgres"))
    await takeover(own_server, tmp_path, line, attrs.evolve(line, prefix=()), clocks)


@contextmanager
def slow_network(number: int, delay: str) -> Generator[tuple[str, ...]]:
    """A network namespace whose line to us is slow: what runs a program there. We are at 10.217.N.1."""
    name, outer, inner = f"engine-{os.getpid()}-{number}", f"eng{os.getpid() % 100_000}o{number}", f"eng{number}"
    steps = (
        f"ip netns add {name}",
        f"ip link add {outer} type veth peer name {inner} netns {name}",
        f"ip addr add 10.217.{number}.1/24 dev {outer}",
        f"ip link set {outer} up",
        f"ip -n {name} addr add 10.217.{number}.2/24 dev {inner}",
        f"ip -n {name} link set {inner} up",
        f"ip -n {name} link set lo up",
        f"ip netns exec {name} tc qdisc add dev {inner} root netem delay {delay}",
    )
    try:
        for step in steps:
            done = subprocess.run(step.split(), capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"no slow network can be made here: {step}: {done.stderr.strip()}")
        yield "ip", "netns", "exec", name, *ELSEWHERE
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", outer], capture_output=True, check=False)


async def test_slow_lines_delay_only(tmp_path: Path, is_full: bool) -> None:
    """Two machines with 200 ms between them and the database."""
    if not is_full:
        pytest.skip("it takes half a minute: in `make full`")
    if os.geteuid() != 0 or shutil.which("tc") is None:
        pytest.skip("only root can make networks, with iproute2")
    with slow_network(1, "200ms") as first, slow_network(2, "200ms") as second:
        server = a_server("listen_addresses=10.217.1.1,10.217.2.1", "port=54321")
        try:
            server.do(EFFECTS)
            with (server.folder / "data" / "pg_hba.conf").open("a") as rules:
                rules.write("host all all 10.217.0.0/16 trust\n")
            server.do("SELECT pg_reload_conf()")
            lines = [
                Line(prefix, f"postgresql://engine@10.217.{number}.1:54321/postgres")
                for number, prefix in ((1, first), (2, second))
            ]
            await takeover(server, tmp_path, lines[0], lines[1], (0, 0))
        finally:
            server.remove()
