"""The rows of figure `store` that are PostgreSQL's, from a server of the benchmark's own, where one is installed."""

from __future__ import annotations

import tempfile
from functools import partial
from pathlib import Path

import trio
import trio.testing

from benchmarks import storing
from benchmarks.report import Row, median, rate, seconds
from engine.store.postgres.open import open_postgres_store
from tests.store.server import MEMORY, MISSING, Server, programs

EVENTS = 150_000


def measure() -> list[Row]:
    found = programs()
    if found is None:
        return [Row(name=f"store: PostgreSQL: {MISSING}", measured="", ok=False)]
    with tempfile.TemporaryDirectory(prefix="engine-pg-", dir=MEMORY) as name:
        # As it is by default: it waits for the disk, if that is one.
        server = Server(found, Path(name), ())
        server.make()
        server.start()
        try:
            return _rows(server)
        finally:
            server.stop()


def _rows(server: Server) -> list[Row]:
    written = trio.run(storing.write, partial(open_postgres_store, server.dsn(), namespace="written"), EVENTS)
    woken = trio.run(wake, server)
    listed, rare, common = trio.run(storing.read, partial(open_postgres_store, server.dsn(), namespace="read"))
    opened, loaded, folded = trio.run(storing.reopen, partial(open_postgres_store, server.dsn(), namespace="opened"))
    return [
        Row(
            name=f"store: PostgreSQL: {EVENTS:,} events put, committed and flushed, the server here",
            measured=rate(written.rate),
        ),
        Row(
            name="store: PostgreSQL: the longest time that the loop stood still meanwhile",
            measured=seconds(written.still),
        ),
        Row(name="store: PostgreSQL: from a put in one store until another's watcher has it", measured=seconds(woken)),
        storing.within(f"store: PostgreSQL: list of {storing.SESSIONS:,} sessions", listed, storing.LISTED),
        storing.within("store: PostgreSQL: search, a rare word", rare, storing.SEARCHED),
        storing.within("store: PostgreSQL: search for words that are in nearly all texts", common, storing.SEARCHED),
        Row(
            name=f"store: PostgreSQL: a session of {storing.MESSAGES:,} messages opened, versus its fold",
            measured=seconds(opened),
            baseline=seconds(folded),
            ratio=opened / folded,
            target=f"≤ {seconds(storing.OPENED)}",
            ok=opened <= storing.OPENED,
        ),
        Row(name="store: PostgreSQL: the same loaded whole, decoded", measured=seconds(loaded)),
    ]


async def wake(server: Server) -> float:
    """Return the median time from a put in one store until a watcher at another has the event."""
    ours = await open_postgres_store(server.dsn(), namespace="watched")
    theirs = await open_postgres_store(server.dsn(), namespace="watched")
    events = iter(storing.session(storing.LONG, 20))
    seen = 0

    async def once() -> None:
        nonlocal seen
        async with trio.open_nursery() as nursery:
            nursery.start_soon(theirs.wait_for_events, storing.LONG, seen)
            await trio.testing.wait_all_tasks_blocked(0.02)
            samples.append(-trio.current_time())
            ours.put(next(events))
            seen += 1
        samples[-1] += trio.current_time()

    samples: list[float] = []
    for _ in range(21):
        await once()
    await ours.aclose()
    await theirs.aclose()
    return median(samples)
