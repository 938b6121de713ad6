"""Figure `store`: the journal on disk. Writing, listing, searching, and opening a long session, each in one file.

The baselines are what the same work costs without us: SQLite with the texts in one
column, or the fold of events that are in memory already.
"""

from __future__ import annotations

import gc
import sqlite3
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import attrs
import trio
import trio.lowlevel

from benchmarks.report import Figure, Row, median, rate, seconds
from engine.core.events import (
    CallAnnounced,
    CallDelivered,
    CallJudged,
    CallQueued,
    CallSettled,
    CallStarted,
    Durable,
    InputAdmitted,
    InputPromoted,
    LoopContinued,
    PartEnded,
    PartStarted,
    SessionCreated,
    SharedContext,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnResult,
    TurnStarted,
)
from engine.core.ids import CallId, InputId, MessageId, PartId, SessionId, TurnId
from engine.core.messages import CallPart, Settlement, TextPart, Usage, UserMessage
from engine.core.protocols import Store
from engine.journal.codec import encode_event
from engine.journal.fold import fold
from engine.store.sqlite.store import open_sqlite_store
from engine.store.store_protocols import FullStore, SessionQuery, SpendingKind, SpendingQuery

# Of the sustained run: about five seconds of it.
EVENTS = 300_000
# Events between two flushes: about what a turn of some steps has.
FLUSHED_EVERY = 200
WRITERS = 8
# Seconds of a thread that only computes.
COMPUTED = 3.0
SESSIONS = 10_000
MESSAGES = 10_000
ROUNDS = 5
STEPS = 5
LONG = SessionId("ses_long")
MODEL = "anthropic/claude-sonnet-4-5"
WORDS = [
    "parser",
    "test",
    "failing",
    "module",
    "import",
    "cache",
    "thread",
    "cancel",
    "nursery",
    "store",
    "journal",
    "event",
    "index",
    "query",
    "token",
]
Opener: TypeAlias = Callable[[], Awaitable[Store]]
FullOpener: TypeAlias = Callable[[], Awaitable[FullStore]]
WRITTEN, LISTED, SEARCHED, OPENED, COUNTED = 50_000, 0.050, 0.050, 0.300, 0.050
# Of the store whose spending is added up: so many steps of each of its sessions.
STEPS_OF_EACH = 10


def session(session_id: SessionId, turns: int, at: float = 1.7e9) -> list[Durable]:
    """Return the journal of a session: turns of `STEPS` steps, each but the last with a call that reads."""
    bare = [
        SessionCreated(context=SharedContext(cwd="/home/dev/project"), model=MODEL),
        *(event for number in range(turns) for event in _turn(number, session_id)),
    ]
    return [
        attrs.evolve(event, session_id=session_id, path=(session_id,), time=at + seq, seq=seq)
        for seq, event in enumerate(bare, 1)
    ]


def _turn(number: int, session_id: str) -> Iterator[Durable]:
    turn_id, input_id = TurnId(f"turn_{number}"), InputId(f"in_{number}")
    said = f"please look at the {WORDS[number % len(WORDS)]} of {session_id} and mend what is wrong"
    message = UserMessage(id=MessageId(f"u_{number}"), parts=(TextPart(id=PartId(f"up_{number}"), text=said),))
    yield InputAdmitted(input_id=input_id, mode="prompt", message=message)
    ended = TurnResult(stop_reason="completed", text="done", steps=STEPS)
    for event in (TurnStarted(), InputPromoted(input_id=input_id), *_steps(number), TurnEnded(result=ended)):
        yield attrs.evolve(event, turn_id=turn_id)


def _steps(number: int) -> Iterator[Durable]:
    for step in range(1, STEPS + 1):
        message_id = MessageId(f"msg_{number}_{step}")
        text_id = PartId(f"{message_id}_t")
        answer = (
            f"I will look at the {WORDS[(number + step) % len(WORDS)]} and then change the line that is wrong. " * 3
        )
        yield StepStarted(step=step, attempt=1, message_id=message_id, model=MODEL)
        yield PartStarted(message_id=message_id, part_id=text_id, kind="text")
        yield PartEnded(message_id=message_id, part=TextPart(id=text_id, text=answer))
        if step < STEPS:
            yield from _call(message_id)
        results_id = MessageId(f"{message_id}_r")
        usage = Usage(input=100, output=50)
        yield StepEnded(step=step, message_id=message_id, results_id=results_id, finish="calls", usage=usage, cost=0.01)
        if step < STEPS:
            yield LoopContinued(reason="next_step", step=step + 1)


def _call(message_id: MessageId) -> Iterator[Durable]:
    part_id, call_id, arguments = PartId(f"{message_id}_p"), CallId(f"{message_id}_c"), '{"path":"engine/service.py"}'
    part = CallPart(id=part_id, call_id=call_id, tool="read", arguments=arguments)
    yield PartStarted(message_id=message_id, part_id=part_id, kind="call")
    yield CallAnnounced(call_id=call_id, message_id=message_id, part_id=part_id, tool="read")
    yield PartEnded(message_id=message_id, part=part)
    yield CallQueued(call_id=call_id, tool="read", arguments=arguments)
    yield CallJudged(call_id=call_id, verdict="allow", source="rule")
    yield CallStarted(call_id=call_id)
    settlement = Settlement(status="completed", text="   100  a line of code that was read\n" * 20)
    yield CallSettled(call_id=call_id, settlement=settlement)
    yield CallDelivered(call_id=call_id)


# ---- writing ---------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Written:
    """What was seen while events were written.

    Attributes:
        rate: events a second.
        still: the longest time that the loop stood still.
        walk: what one walk of the collector costs over the events that this program holds itself.
    """

    rate: float
    still: float
    walk: float


async def write(opener: Opener, events: int = EVENTS) -> Written:
    """Put and flush *events*, and look how the loop fares meanwhile."""
    per_writer = events // WRITERS
    # As many whole turns as are needed.
    of_a_turn = len(session(SessionId("x"), 2)) - len(session(SessionId("x"), 1))
    journals = [session(SessionId(f"ses_{n}"), per_writer // of_a_turn + 1)[:per_writer] for n in range(WRITERS)]
    gc.collect()
    began = time.perf_counter()
    gc.collect()
    walk = time.perf_counter() - began
    # No engine holds a million objects for one session: the collector would walk over them in the middle of it all.
    gc.freeze()
    store = await opener()

    async def work(journal: Sequence[Durable]) -> None:
        for seq, event in enumerate(journal, 1):
            store.put(event)
            if seq % FLUSHED_EVERY == 0:
                await store.flushed(event.session_id, seq)
        await store.flushed(journal[0].session_id, len(journal))

    began = time.perf_counter()
    async with watched() as still:
        async with trio.open_nursery() as nursery:
            for journal in journals:
                nursery.start_soon(work, journal)
    took = time.perf_counter() - began
    await store.aclose()
    gc.unfreeze()
    return Written(rate=per_writer * WRITERS / took, still=max(still), walk=walk)


@asynccontextmanager
async def watched() -> AsyncGenerator[list[float]]:
    """Look how the loop fares while the block lasts: the longest time that it stood still is the list's greatest."""
    still = [0.0]

    async def watch() -> None:
        while True:
            before = time.perf_counter()
            await trio.lowlevel.checkpoint()
            still[0] = max(still[0], time.perf_counter() - before)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        yield still
        nursery.cancel_scope.cancel(reason="enough was seen")


async def with_a_computing_thread() -> float:
    """Return the longest time that the loop stands still while there is a thread that only computes: the interpreter's lock."""
    events = session(SessionId("ses_a"), 100)

    def compute() -> None:
        until = time.perf_counter() + COMPUTED
        while time.perf_counter() < until:
            for event in events:
                encode_event(event)

    async with watched() as still:
        await trio.to_thread.run_sync(compute)
    return max(still)


def write_bare(path: Path) -> float:
    """Write the same number of encoded events into one table; return events a second."""
    bodies = [encode_event(event) for event in session(SessionId("ses_a"), 200)]
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("CREATE TABLE events (body TEXT)")
    count = 0
    began = time.perf_counter()
    while count < EVENTS:
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO events VALUES (?)", [(body,) for body in bodies])
        connection.execute("COMMIT")
        count += len(bodies)
    took = time.perf_counter() - began
    connection.close()
    return count / took


# ---- adding up -------------------------------------------------------------------------------------------------------


async def count(path: Path) -> tuple[float, float]:
    """Return the times of adding up what `SESSIONS` sessions spent: by day, and by what takes longest of all else."""
    store = await open_sqlite_store(path)
    for number in range(SESSIONS):
        session_id = SessionId(f"ses_{number:05}")
        # One begins each hour, and each has a folder of ten.
        for event in _spending(session_id, number):
            store.put(event)
        if number % 500 == 499:
            await store.flushed(session_id, 2 + 2 * STEPS_OF_EACH)
    await store.aclose()
    store = await open_sqlite_store(path)
    (total,) = await store.spending(SpendingQuery())
    assert (total.sessions, total.steps) == (SESSIONS, SESSIONS * STEPS_OF_EACH)
    clock = tuple((1.6e9 + n * 15_552_000, 3600 * (1 + n % 2)) for n in range(20))
    kinds: tuple[SpendingKind, ...] = ("total", "model", "folder", "session")
    by_day = await timed(lambda: store.spending(SpendingQuery(by="day", clock=clock)))
    others = [await timed(partial(store.spending, SpendingQuery(by=kind))) for kind in kinds]
    await store.aclose()
    return by_day, max(others)


def _spending(session_id: SessionId, number: int) -> list[Durable]:
    turn_id, model = TurnId("turn"), f"host/model-{number % 7}"
    bare: list[Durable] = [
        SessionCreated(context=SharedContext(cwd=f"/home/dev/project-{number % 10}"), model=model),
        attrs.evolve(TurnStarted(), turn_id=turn_id),
    ]
    for step in range(1, STEPS_OF_EACH + 1):
        message_id, results_id = MessageId(f"m{step}"), MessageId(f"r{step}")
        bare += [
            StepStarted(turn_id=turn_id, step=step, attempt=1, message_id=message_id, model=model),
            StepEnded(
                turn_id=turn_id,
                step=step,
                message_id=message_id,
                results_id=results_id,
                finish="stop",
                usage=Usage(input=100, output=50),
                cost=0.01,
            ),
        ]
    # Some minutes a step, so that a session's are not all of one quarter of an hour.
    return [
        attrs.evolve(event, session_id=session_id, path=(session_id,), time=1.7e9 + 3600 * number + 150 * seq, seq=seq)
        for seq, event in enumerate(bare, 1)
    ]


# ---- reading ---------------------------------------------------------------------------------------------------------


async def fill(store: Store) -> None:
    """Put `SESSIONS` sessions of one turn each into it."""
    for number in range(SESSIONS):
        events = session(SessionId(f"ses_{number:05}"), 1, at=1.7e9 + 100 * number)
        for event in events:
            store.put(event)
        if number % 500 == 499:
            await store.flushed(events[-1].session_id, len(events))


async def timed(work: Callable[[], Awaitable[object]]) -> float:
    """Return the median time of *work*, after a round that counts for nothing."""
    samples: list[float] = []
    await work()
    for _ in range(ROUNDS):
        began = time.perf_counter()
        await work()
        samples.append(time.perf_counter() - began)
    return median(samples)


async def read(opener: FullOpener) -> tuple[float, float, float]:
    """Return the times of a list of all sessions, and of a search for a rare word and for a common one."""
    store = await opener()
    await fill(store)
    await store.aclose()
    store = await opener()
    rows = await store.list_sessions(SessionQuery(limit=SESSIONS))
    assert len(rows) == SESSIONS
    assert len(await store.search("ses_04711")) == 1
    assert len(await store.search("line wrong")) == 20
    listed = await timed(lambda: store.list_sessions(SessionQuery(limit=SESSIONS)))
    rare = await timed(lambda: store.search("ses_04711 mend"))
    common = await timed(lambda: store.search("line wrong"))
    await store.aclose()
    return listed, rare, common


async def reopen(opener: FullOpener) -> tuple[float, float, float]:
    """Return the times of opening a long session, of decoding and folding all of it, and of folding alone."""
    folded = await _fill_long(opener)
    # Whoever opens a session has none of its events yet: they would only keep the collector busy.
    gc.collect()
    store = await opener()
    opened = await timed(lambda: store.open_session(LONG))

    async def anew() -> None:
        fold(await store.load(LONG))

    loaded = await timed(anew)
    await store.aclose()
    return opened, loaded, folded


async def _fill_long(opener: FullOpener) -> float:
    """Put a session into the store, its state remembered ten turns before its end; return how long its fold takes."""
    turns = MESSAGES // (2 * STEPS)
    events = session(LONG, turns)
    before = fold(session(LONG, turns - 10))
    began = time.perf_counter()
    state = fold(events)
    folded = time.perf_counter() - began
    assert len(state.transcript) == MESSAGES
    store = await opener()
    for event in events:
        store.put(event)
    store.save_state(before)
    await store.flushed(LONG, len(events))
    await store.aclose()
    return folded


def measure() -> list[Row]:
    # Imported here: it measures with the functions of this module.
    from benchmarks import storing_postgres

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written = trio.run(write, partial(open_sqlite_store, folder / "written.db"))
        computed = trio.run(with_a_computing_thread)
        bare = write_bare(folder / "bare.db")
        listed, rare, common = trio.run(read, partial(open_sqlite_store, folder / "read.db"))
        by_day, by_other = trio.run(count, folder / "counted.db")
        opened, loaded, folded = trio.run(reopen, partial(open_sqlite_store, folder / "opened.db"))
    return [
        Row(
            name=f"store: {EVENTS:,} events put, committed and flushed, {WRITERS} sessions at once",
            measured=rate(written.rate),
            baseline=rate(bare),
            ratio=written.rate / bare,
            target=f"≥ {WRITTEN:,}/s",
            ok=written.rate >= WRITTEN,
        ),
        Row(
            name="store: the longest time that the loop stood still meanwhile, versus a thread that only computes",
            measured=seconds(written.still),
            baseline=seconds(computed),
            ratio=written.still / computed,
        ),
        Row(
            name="store: one walk of the collector over what this benchmark holds, which is not in that time",
            measured=seconds(written.walk),
        ),
        within(f"store: list of {SESSIONS:,} sessions", listed, LISTED),
        within(f"store: search in {SESSIONS * (STEPS + 1):,} texts, a rare word", rare, SEARCHED),
        within("store: search for words that are in nearly all of them", common, SEARCHED),
        within(
            f"store: spending of {SESSIONS:,} sessions with {SESSIONS * STEPS_OF_EACH:,} steps, by day", by_day, COUNTED
        ),
        within("store: the same by model, folder and session, the slowest of them", by_other, COUNTED),
        Row(
            name=f"store: a session of {MESSAGES:,} messages opened, versus the fold of all its events",
            measured=seconds(opened),
            baseline=seconds(folded),
            ratio=opened / folded,
            target=f"≤ {seconds(OPENED)}",
            ok=opened <= OPENED,
        ),
        Row(name="store: the same loaded whole, decoded and folded", measured=seconds(loaded)),
        *storing_postgres.measure(),
    ]


def within(name: str, measured: float, target: float) -> Row:
    return Row(name=name, measured=seconds(measured), target=f"≤ {seconds(target)}", ok=measured <= target)


def _workload() -> None:
    with tempfile.TemporaryDirectory() as name:
        trio.run(write, partial(open_sqlite_store, Path(name) / "written.db"))


FIGURE = Figure(
    name="store",
    about="the journal in SQLite and in PostgreSQL: writing, lists, search, opening",
    measure=measure,
    workload=_workload,
)
