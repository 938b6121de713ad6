"""What can become of the database and the network under a fleet: restarts, lost commits, wrong clocks, slow lines."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import quote

import attrs
import psycopg
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


@pytest.fixture(scope="module")
def durable_server() -> Iterator[Server]:
    """It does what a flush promises: it waits for the disk."""
    server = a_server("fsync=on")
    yield server
    server.remove()


@pytest.fixture
def own_server(durable_server: Server) -> Server:
    """One that may be stopped, with the table of the tools, and nothing in it."""
    durable_server.start()
    durable_server.do("SET client_min_messages = warning; DROP SCHEMA IF EXISTS engine CASCADE")
    durable_server.do(f"{EFFECTS}; TRUNCATE public.effects")
    return durable_server


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


@asynccontextmanager
async def slow_line(server: Server, folder: Path, seconds: float) -> AsyncGenerator[str]:
    """A line to the server on which all bytes need so long, either way; the URL of its other end."""
    folder.mkdir()  # noqa: ASYNC240  # a small one

    async def carry(source: trio.SocketStream, target: trio.SocketStream) -> None:
        send, receive = trio.open_memory_channel[tuple[float, bytes]](100_000)

        async def deliver() -> None:
            async for at, data in receive:
                await trio.sleep_until(at)
                await target.send_all(data)
            await target.send_eof()

        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            async with trio.open_nursery() as nursery, send:
                nursery.start_soon(deliver)
                async for data in source:
                    await send.send((trio.current_time() + seconds, bytes(data)))

    async def serve(client: trio.SocketStream) -> None:
        async with client, await trio.open_unix_socket(f"{server.folder}/.s.PGSQL.5432") as wire:
            with suppress(BaseExceptionGroup):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(carry, client, wire)
                    nursery.start_soon(carry, wire, client)

    listening = trio.socket.socket(socket.AF_UNIX)
    await listening.bind(f"{folder}/.s.PGSQL.5432")
    listening.listen(100)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, serve, [trio.SocketListener(listening)])  # noqa: ASYNC113  # it listens already
        yield f"postgresql://engine@/postgres?host={quote(str(folder), safe='')}"
        nursery.cancel_scope.cancel()


async def test_slow_lines_delay_only(own_server: Server, tmp_path: Path, is_full: bool) -> None:
    """Two machines with 200 ms between them and the database."""
    if not is_full:
        pytest.skip("it takes half a minute: in `make full`")
    if not can_unshare():
        pytest.skip("only root has other PID namespaces")
    async with slow_line(own_server, tmp_path / "a", 0.1) as one, slow_line(own_server, tmp_path / "b", 0.1) as other:
        await takeover(own_server, tmp_path, Line(ELSEWHERE, one), Line((), other), (0, 0))


# ---- notifications ---------------------------------------------------------------------------------------------------


async def test_foreign_words_on_the_channel_harm_nobody(own_server: Server) -> None:
    """Another program uses the channel's name: its payloads wake watchers for nothing at most."""
    ours, theirs = [await open_postgres_store(own_server.url("postgres")) for _ in range(2)]
    await put_all(ours, notes(A, 1))
    seen: list[object] = []
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            while len(seen) < 2:
                seen.extend(await theirs.wait_for_events(A, len(seen)))

        nursery.start_soon(watch)
        for payload in ("", "ses_a", "{", "x" * 7_000, "[]", "ses\u0001", "'; DROP TABLE events"):
            own_server.do("SELECT pg_notify(%s, %s)", ours.address.channel, payload)
        with trio.fail_after(60):
            while len(seen) < 1:
                await trio.sleep(0.02)
        await put_all(ours, notes(A, 1, after=1))
    assert seen == notes(A, 2)
    await ours.aclose()
    await theirs.aclose()


async def test_full_queue_of_notifications_delays_watchers_only(own_server: Server) -> None:
    """As where the server's queue is full: it refuses each notification, and watchers poll."""
    own_server.do("CREATE ROLE quiet LOGIN; CREATE SCHEMA agents AUTHORIZATION quiet")
    own_server.do("REVOKE EXECUTE ON FUNCTION pg_notify(text, text) FROM PUBLIC")
    dsn = own_server.dsn(user="quiet")
    with psycopg.connect(dsn) as connection, pytest.raises(psycopg.errors.InsufficientPrivilege):
        connection.execute("SELECT pg_notify('any', 'news')")
    ours, theirs = [await open_postgres_store(dsn, namespace="agents") for _ in range(2)]
    seen: list[object] = []
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            while len(seen) < 3:
                seen.extend(await theirs.wait_for_events(A, len(seen)))

        nursery.start_soon(watch)
        for number in range(3):
            await put_all(ours, notes(A, 1, after=number))
    assert seen == notes(A, 3)
    await ours.aclose()
    await theirs.aclose()
    own_server.do(
        "GRANT EXECUTE ON FUNCTION pg_notify(text, text) TO PUBLIC; DROP SCHEMA agents CASCADE; DROP ROLE quiet"
    )
