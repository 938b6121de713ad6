"""The database's share in the figure `fleet`: writers, the lock of the tables' version, notifications, costs of a commit, growth."""

from __future__ import annotations

import itertools
import os
import re
import statistics
import subprocess
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import attrs
import trio

from benchmarks.storing import session
from engine.core.events import Durable, TextDelta
from engine.core.ids import MessageId, PartId, SessionId
from engine.store.postgres.open import open_postgres_store
from engine.store.postgres.store import PostgresStore
from tests.store.server import Server

WRITERS = (8, 32, 128)
EVENTS_IN_COMMIT = 8
TICK = os.sysconf("SC_CLK_TCK")
# A transaction as the store's, but for COPY, which pgbench does not have; with the lock that all writers share, and without.
_LOCK = "SELECT pg_advisory_xact_lock_shared(4711) \\;"
_TRANSACTION = """
\\set seq random(1, 2000000000)
BEGIN ISOLATION LEVEL READ COMMITTED \\; {lock} UPDATE engine.writers SET number = number + 1, at = now() WHERE tenant = '' AND owner = 'w:client_id' \\; SELECT value FROM engine.engine_store WHERE name = 'version';
SELECT owner FROM engine.leases WHERE tenant = '' AND session_id = ANY(ARRAY['s:client_id']) AND owner = 'w:client_id' ORDER BY session_id FOR UPDATE;
INSERT INTO engine.events (tenant, session_id, seq, type, version, body) SELECT '', 's:client_id', :seq::bigint * 100 + n, 'note', 1, repeat('x', 300) FROM generate_series(1, 8) AS n ON CONFLICT DO NOTHING;
UPDATE engine.sessions SET updated = updated + 1, seq = seq + 8 WHERE tenant = '' AND id = 's:client_id';
COMMIT;
"""
_CLIENTS = """
INSERT INTO engine.writers (tenant, owner, number, at) SELECT '', 'w' || n, 0, now() FROM generate_series(0, 127) AS n;
INSERT INTO engine.leases SELECT 's' || n, 'w' || n, '', '', 1, 1, now() + interval '1 day', '' FROM generate_series(0, 127) AS n;
INSERT INTO engine.sessions (tenant, id, root_id, created, updated, seq) SELECT '', 's' || n, 's' || n, 0, 0, 0 FROM generate_series(0, 127) AS n;
"""


@attrs.frozen(kw_only=True)
class Writers:
    """What so many writers reach at the same time.

    Attributes:
        commits: in a second, as the store writes.
        unlocked: the same without the shared lock.
        cpu: CPU seconds of the server for a commit; other programs change it less than the rate.
        unlocked_cpu: the same without the lock.
    """

    commits: float
    unlocked: float
    cpu: float
    unlocked_cpu: float

    @property
    def lock_share(self) -> float:
        """The lock's share of a commit's CPU time."""
        return 1 - self.unlocked_cpu / self.cpu


def measure_writers(server: Server, seconds: int = 4, rounds: int = 3) -> dict[int, Writers]:
    """Let 8, 32 and 128 clients write, with the lock and without, in turns."""
    trio.run(_make_tables, server)
    server.do(_CLIENTS)
    scripts = {name: server.folder / f"{name}.sql" for name in ("locked", "unlocked")}
    scripts["locked"].write_text(_TRANSACTION.format(lock=_LOCK))
    scripts["unlocked"].write_text(_TRANSACTION.format(lock=""))
    found: dict[int, Writers] = {}
    for count in WRITERS:
        rates: dict[str, list[float]] = {name: [] for name in scripts}
        costs: dict[str, list[float]] = {name: [] for name in scripts}
        for number in range(rounds):
            # Each goes first in turn.
            for name in sorted(scripts, reverse=bool(number % 2)):
                cpu = server_cpu(server)
                rates[name].append(_pgbench(server, scripts[name], count, seconds))
                costs[name].append((server_cpu(server) - cpu) / (rates[name][-1] * seconds))
        commits, unlocked = (statistics.median(rates[name]) for name in ("locked", "unlocked"))
        cpu, unlocked_cpu = (statistics.median(costs[name]) for name in ("locked", "unlocked"))
        found[count] = Writers(commits=commits, unlocked=unlocked, cpu=cpu, unlocked_cpu=unlocked_cpu)
    return found


async def _make_tables(server: Server) -> None:
    await (await open_postgres_store(server.dsn())).aclose()


def _pgbench(server: Server, script: Path, clients: int, seconds: int) -> float:
    command = [str(server.programs / "pgbench"), "-n", "-f", str(script), "-c", str(clients), "-j", "2"]
    command += ["-T", str(seconds), "-h", str(server.folder), "-U", "engine", "postgres"]
    text = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout
    found = re.search(r"tps = ([0-9.]+) \(without", text)
    assert found is not None, text
    return float(found[1])


# ---- what a commit costs ---------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class CommitCosts:
    """What a commit of the store costs: see `fleet_model.Costs`."""

    commit: float
    event: float
    database_commit: float
    database_event: float
    database_draft: float
    sync: float
    event_bytes: float
    wal_bytes: float


def measure_commits(server: Server) -> CommitCosts:
    """Write commits of one event, of many, and of drafts; return what each costs the engine and the server."""
    return trio.run(_commits, server)


async def _commits(server: Server, commits: int = 150, many: int = 40) -> CommitCosts:
    store = await open_postgres_store(server.dsn())
    journal = session(SessionId("ses_costs"), 400)
    draft = "some words of an answer " * 8

    async def write(events: Iterator[Durable], size: int) -> tuple[float, float]:
        """Return the CPU seconds of this process and of the server for one commit of *size* events."""
        ours, theirs = time.process_time(), server_cpu(server)
        for _ in range(commits):
            batch = list(itertools.islice(events, size))
            for event in batch:
                store.put(event)
            await store.flushed(batch[-1].session_id, batch[-1].seq or 0)
        return (time.process_time() - ours) / commits, (server_cpu(server) - theirs) / commits

    events = iter(journal)
    await write(iter(session(SessionId("ses_warm"), 400)), 4)
    few = await write(events, 1)
    before = _sizes(server)
    more = await write(events, many)
    after = _sizes(server)
    drafts = await _write_drafts(store, server, draft, commits, many // 4)
    await store.aclose()
    event, database_event = ((b - a) / (many - 1) for a, b in zip(few, more, strict=True))
    written = commits * many
    return CommitCosts(
        commit=max(few[0] - event, 0.0),
        event=event,
        database_commit=max(few[1] - database_event, 0.0),
        database_event=database_event,
        database_draft=max(drafts - few[1], 0.0) / (many // 4),
        sync=_sync_seconds(server),
        event_bytes=(after[0] - before[0]) / written,
        wal_bytes=(after[1] - before[1]) / written,
    )


async def _write_drafts(store: PostgresStore, server: Server, text: str, commits: int, drafts: int) -> float:
    before = server_cpu(server)
    for number in range(commits):
        for part in range(drafts):
            draft = TextDelta(
                session_id=SessionId("ses_costs"),
                message_id=MessageId("m"),
                part_id=PartId(f"p{part}"),
                offset=number,
                text=text,
                after=1,
            )
            store.save_draft(draft)
        await store.released()
    return (server_cpu(server) - before) / commits


def _sizes(server: Server) -> tuple[int, int]:
    """Return the bytes of all tables with their indexes, and of the log so far."""
    (row,) = server.do(
        "SELECT sum(pg_total_relation_size(oid))::bigint, pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint"
        " FROM pg_class WHERE relnamespace = 'engine'::regnamespace AND relkind = 'r'"
    )
    return int(str(row[0])), int(str(row[1]))


def _sync_seconds(server: Server) -> float:
    """Return how long the server's disk takes to sync a small write."""
    path = server.folder / "synced"
    times: list[float] = []
    with path.open("wb", buffering=0) as file:
        for _ in range(40):
            file.write(b"x" * 8192)
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    path.unlink()
    return statistics.median(times)


def server_cpu(server: Server) -> float:
    """Return the CPU seconds of a server: of its processes, and of those that have ended."""
    main = int((server.folder / "data" / "postmaster.pid").read_text().split("\n")[0])
    children = Path(f"/proc/{main}/task/{main}/children").read_text().split()
    total = 0
    for pid in (main, *map(int, children)):
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        # Those that have ended are counted by the first process.
        total += sum(map(int, fields[11:15] if pid == main else fields[11:13]))
    return total / TICK


# ---- notifications ---------------------------------------------------------------------------------------------------


def measure_notifications(server: Server, seconds: int = 3) -> float:
    """Return how many transactions that notify the server commits in a second, as engines send them."""
    script = server.folder / "notify.sql"
    script.write_text(
        "BEGIN \\; SET LOCAL synchronous_commit = off \\; SELECT pg_notify('engine_engine', '[\"s:client_id\"]') \\; COMMIT;\n"
    )
    return _pgbench(server, script, 32, seconds)


# ---- growth ----------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Growth:
    """The seconds of an operation with few events in the table, and with many."""

    name: str
    few: float
    many: float

    @property
    def ratio(self) -> float:
        return self.many / self.few


_FILL = """
INSERT INTO {schema}.events (tenant, session_id, seq, type, version, body)
    SELECT '', 'ses_' || md5((n / 50)::text), n % 50 + 1, 'notice', 1,
        '{{"type":"notice","session_id":"ses_","seq":' || n || ',"text":"' || repeat(md5(n::text), 6) || '"}}'
    FROM generate_series(0, {events} - 1) AS n;
INSERT INTO {schema}.sessions (tenant, id, root_id, title, cwd, created, updated, seq)
    SELECT '', 'ses_' || md5(n::text), 'ses_' || md5(n::text), 'title ' || n, '/home/dev/' || n % 1000, n, n, 50
    FROM generate_series(0, {events} / 50 - 1) AS n;
"""


def measure_growth(server: Server, few: int, many: int, rounds: int = 60) -> Sequence[Growth]:
    """Compare a table of *few* events with one of *many*, in turns."""
    for schema, count in (("few", few), ("many", many)):
        trio.run(_open_and_close, server, schema)
        # The rows come in the order of random ids, so the index is built afterwards: an import would do it so, too.
        server.do(f"ALTER TABLE {schema}.events DROP CONSTRAINT events_pkey")
        server.do(_FILL.format(schema=schema, events=count))
        server.do(f"ALTER TABLE {schema}.events ADD CONSTRAINT events_pkey PRIMARY KEY (tenant, session_id, seq)")
        server.do(f"VACUUM ANALYZE {schema}.events")
        server.do(f"VACUUM ANALYZE {schema}.sessions")
    return trio.run(_compare, server, rounds)


async def _open_and_close(server: Server, schema: str) -> None:
    await (await open_postgres_store(server.dsn(), namespace=schema)).aclose()


async def _insert(store: PostgresStore, journal: Sequence[Durable]) -> None:
    for event in journal:
        store.put(event)
    await store.flushed(journal[0].session_id, len(journal))


async def _compare(server: Server, rounds: int) -> Sequence[Growth]:
    stores = [await open_postgres_store(server.dsn(), namespace=schema) for schema in ("few", "many")]
    journals = [[session(SessionId(f"new_{number}"), 1) for number in range(rounds + 1)] for _ in stores]
    times: dict[str, tuple[list[float], list[float]]] = {}

    async def timed(name: str, place: int, work: Callable[[], Awaitable[object]]) -> None:
        began = time.perf_counter()
        await work()
        times.setdefault(name, ([], []))[place].append(time.perf_counter() - began)

    for number in range(rounds + 1):
        for place, store in enumerate(stores):
            journal = journals[place][number]

            name = journal[0].session_id
            await timed("a turn of a new session is inserted", place, partial(_insert, store, journal))
            await timed("a session is read", place, partial(store.load, name))
            await timed("the newest hundred are listed", place, store.list_sessions)
            if number % 10 == 1:
                store.release(name)
                await store.released()
                await timed("a session is deleted", place, partial(store.delete, name))
    for store in stores:
        await store.aclose()
    return [
        Growth(name=name, few=statistics.median(few[1:]), many=statistics.median(many[1:]))
        for name, (few, many) in times.items()
    ]


@contextmanager
def a_disk_server(programs: Path, folder: Path, *options: str) -> Generator[Server]:
    """Run a server in *folder*, which waits for the disk."""
    server = Server(programs, folder, ("max_connections=200", *options))
    server.make()
    server.start()
    try:
        yield server
    finally:
        server.stop()
