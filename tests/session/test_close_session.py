"""Closing one session of an engine that goes on: what ends with it, who is told, and who can open it then."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

import engine
from engine.core.errors import (
    EngineClosed,
    RequestNotFound,
    SessionBusy,
    SessionClosed,
    SessionElsewhere,
    SessionNotFound,
)
from engine.core.events import PermissionAsked, SessionTitled, TurnEnded
from engine.core.hooks import Hooks, SessionEnding
from engine.core.ids import SessionId
from engine.core.protocols import Store
from engine.journal.fold import fold
from engine.journal.state import Idle, Waiting
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import ContextOptions, PermissionOptions, Ports
from engine.store.memory import MemoryStore
from engine.store.sqlite.store import open_sqlite_store
from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.fakes import CountingIds, TrioClock
from engine.testing.script import Answer, Pause, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.task import Agent
from engine.tools.builtin.task_jobs import task_tools
from tests.agents.test_background import REPORT, Answers, by_newest, start
from tests.conftest import CountRuns
from tests.store.server import a_database
from tests.support.bench import Bench
from tests.support.cancel_at import CancelAt
from tests.support.parked import FINE, Home, asks, do, seen

DONE: Answer = [*text("Done."), *done()]
TOOLS = task_tools((Agent(name="any"),))


def opening(store: Store | None = None, *script: Answer, hooks: Hooks | None = None) -> engine.Engine:
    return engine.open_engine(
        model=ScriptedProvider(list(script) or [DONE], repeat=not script),
        tools=Bench().tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        store=store,
        hooks=hooks,
        ports=Ports(clock=TrioClock(), ids=CountingIds()),
    )


async def test_closed_session_opens_in_another_engine(tmp_path: Path) -> None:
    stores = [await open_sqlite_store(tmp_path / "s.db") for _ in range(2)]
    async with opening(stores[0]) as ours, opening(stores[1]) as theirs:
        session = await ours.create_session()
        for turns in range(1, 6):
            here, there = (ours, theirs) if turns % 2 else (theirs, ours)
            mine = await here.open_session(session.id)
            assert (await mine.run(f"prompt {turns}")).durable
            with pytest.raises(SessionElsewhere):
                await there.open_session(session.id)
            assert await here.close_session(session.id)
            assert mine.state.turns == turns
            # At once: when `close_session` returns, the lease is free.
            assert (await there.open_session(session.id)).state == mine.state


async def _two_engines_take_turns(open_store: Callable[[], Awaitable[Store]], seed: int) -> int:
    """Open, prompt and close a session in two engines at random; return how often it changed hands."""
    choose, moves = random.Random(seed), 0
    async with opening(await open_store()) as first, opening(await open_store()) as second:
        engines = (first, second)
        session = await first.create_session()
        # Saved, and so claimed.
        await session.rename("moves")
        holder, turns = 0, 0
        held: engine.Session | None = session
        for _ in range(60):
            at = choose.randrange(2)
            match choose.choice(("open", "prompt", "close", "close")):
                case "open" if held is None or at == holder:
                    moves += at != holder
                    opened = await engines[at].open_session(session.id)
                    holder, held = at, opened
                    assert opened.state.turns == turns
                case "prompt" if held is not None:
                    turns += (await held.run("go")).stop_reason == "completed"
                case "close":
                    is_here = held is not None and at == holder
                    assert await engines[at].close_session(session.id) is is_here
                    held = None if is_here else held
                case _:
                    with pytest.raises((SessionElsewhere, SessionClosed)):
                        await (engines[at].open_session(session.id) if held is not None else session.run("go"))
        last = await engines[holder].open_session(session.id)
        assert last.state.turns == turns
        assert fold(last.events()) == last.state
    return moves


@pytest.mark.parametrize("seed", range(4))
async def test_sessions_move_between_engines_of_a_file(tmp_path: Path, seed: int) -> None:
    assert await _two_engines_take_turns(partial(open_sqlite_store, tmp_path / "s.db"), seed) > 0


@pytest.mark.os
async def test_sessions_move_between_engines_of_a_database() -> None:
    with a_database() as database:
        assert await _two_engines_take_turns(database.open, 1) > 0


async def test_running_turn_keeps_its_session_open(autojump_clock: MockClock) -> None:
    async with opening(None, [Pause(5), *DONE]) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            await trio.sleep(1)
            with pytest.raises(SessionBusy, match="a turn is running"):
                await eng.close_session(session.id)
            await turn.wait()
        assert turn.result.stop_reason == "completed"
        assert await eng.close_session(session.id)
        assert not await eng.close_session(session.id)
        assert not await eng.close_session("ses_unknown")
        with pytest.raises(engine.EngineError, match="a session id is a str"):
            await eng.close_session(session)  # type: ignore[arg-type]


async def test_waiting_turn_is_parked_for_the_next_engine(autojump_clock: MockClock) -> None:
    home = Home([asks(*do("a")), FINE])
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        turn = eng.start_turn(session, "go")
        await seen(turn, PermissionAsked)
        (question,) = session.open_questions
        assert await eng.close_session(session.id)
        with pytest.raises(engine.EngineError, match="waits for an answer"):
            await turn.wait()
        with pytest.raises(SessionClosed):
            await session.reply(question.request_id, engine.Once())
        # In the same engine, or in another: it goes on where it was.
        again = await eng.open_session(session.id)
        assert isinstance(again.state.status, Waiting)
        async with again.resume() as resumed:
            async for event in resumed:
                if isinstance(event, PermissionAsked):
                    await resumed.reply(event.request_id, engine.Once())
        assert (resumed.result.stop_reason, home.done) == ("completed", ["a"])


async def test_waiting_turn_of_a_block_is_not_parked(autojump_clock: MockClock) -> None:
    home = Home([asks(*do("a")), FINE])
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        async with session.prompt("go") as turn:
            await seen(turn, PermissionAsked)
            with pytest.raises(SessionBusy):
                await eng.close_session(session.id)
            (question,) = session.open_questions
            await turn.reply(question.request_id, engine.Once())
            assert (await turn.wait()).stop_reason == "completed"


async def test_background_work_ends_with_its_session(autojump_clock: MockClock) -> None:
    script: Answers = {
        "go": [[*start(), *done("calls")]],
        "The sub-agent any works": [DONE],
        "look": [[Pause(1_000), *DONE]],
        "hello": [DONE],
        REPORT: [DONE],
    }
    store, model = MemoryStore(), ScriptedProvider([by_newest(script)], repeat=True)
    async with engine.open_engine(
        model=model,
        tools=TOOLS,
        permissions=PermissionOptions(approver=AllowAll()),
        store=store,
        ports=Ports(clock=TrioClock()),
    ) as eng:
        session = await eng.create_session()
        await session.run("go")
        (job,) = session.background.agents.running
        child = await eng.open_session(job.session_id)
        await trio.sleep(1)
        with pytest.raises(SessionBusy, match="sub-agent"):
            await eng.close_session(child.id)
        assert await eng.close_session(session.id)
        assert trio.current_time() < 10
        assert not job.is_running
        assert child.state.status == Idle()
        assert model.open_streams == 0
        with pytest.raises(SessionClosed):
            await child.run("hello")
        again = await eng.open_session(session.id)
        assert again.state.background == ()
        assert (await again.run("hello")).stop_reason == "completed"


async def test_subscribers_end_complete(autojump_clock: MockClock) -> None:
    async with opening(None, DONE) as eng, trio.open_nursery() as nursery:
        session = await eng.create_session()
        late, ended = session.subscribe(after=0), list[object]()

        async def watch() -> None:
            ended.extend([event async for event in session.subscribe(after=0)])

        nursery.start_soon(watch)
        await session.run("go")
        await eng.close_session(session.id)
        assert [event async for event in late if event.seq] == list(session.events())
    assert isinstance(ended[-1], TurnEnded)


async def test_handle_of_closed_session_says_so(autojump_clock: MockClock) -> None:
    async with opening() as eng:
        session = await eng.create_session()
        await session.run("go")
        before = session.state
        await eng.close_session(session.id)
        attempts: tuple[Callable[[], object], ...] = (
            partial(session.run, "go"),
            partial(session.inputs.queue, "go"),
            partial(session.reply, "r", engine.Once()),
            partial(session.answer, "r", "yes"),
            partial(session.recover, "r", "stop"),
            partial(session.settle, "c", "text"),
            partial(session.rename, "new"),
            partial(session.switch_model, "scripted/other"),
            partial(session.use_tools, ()),
            partial(session.files.undo),
            partial(session.context.compact),
            partial(eng.start_turn, session, "go"),
            partial(eng.resume_turn, session),
        )
        for attempt in attempts:
            with pytest.raises(SessionClosed, match="open it again"):  # some of them are async
                result = attempt()
                if isinstance(result, Awaitable):
                    await result
        # What can be read of it can still be read.
        assert (session.state, session.open_questions) == (before, ())
        again = await eng.open_session(session.id)
        assert again is not session
        assert again.state == before
        with pytest.raises(RequestNotFound):
            await again.reply("r", engine.Once())


async def test_end_hooks_run_once(autojump_clock: MockClock) -> None:
    ended: list[str] = []

    async def note(subject: SessionEnding) -> None:
        ended.append(subject.session_id)

    async with opening(None, DONE, hooks=Hooks(session_end=(note,))) as eng:
        one, two = await eng.create_session(), await eng.create_session()
        await eng.close_session(one.id)
        assert ended == [one.id]
    assert ended == [one.id, two.id]


async def test_queued_input_waits_in_the_record(autojump_clock: MockClock) -> None:
    async with opening(None, [Pause(5), *DONE], DONE, DONE) as eng:
        session = await eng.create_session()
        turn = eng.start_turn(session, "go")
        session.inputs.queue("later")
        turn.cancel()
        await turn.wait()
        await eng.close_session(session.id)
        again = await eng.open_session(session.id)
        assert [item.message.text for item in again.state.inbox] == ["later"]


async def test_task_that_opens_meanwhile_gets_it_again(autojump_clock: MockClock) -> None:
    async def linger(subject: SessionEnding) -> None:
        await trio.sleep(1)

    async with opening(hooks=Hooks(session_end=(linger,))) as eng, trio.open_nursery() as nursery:
        session = await eng.create_session()
        nursery.start_soon(eng.close_session, session.id)
        await wait_all_tasks_blocked()
        with pytest.raises(SessionClosed):
            await session.run("go")
        again = await eng.open_session(session.id)
        assert again is not session
        assert (await again.run("go")).stop_reason == "completed"


# -- cancelled at every step ------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Leased(MemoryStore):
    """A store in memory that notes which sessions are claimed."""

    claimed: set[SessionId] = attrs.field(factory=set[SessionId])

    async def claim(self, session_id: SessionId) -> None:
        await trio.lowlevel.checkpoint()
        self.claimed.add(session_id)

    def release(self, session_id: SessionId) -> None:
        self.claimed.discard(session_id)


async def _close(at: CancelAt, store: Leased) -> None:
    script: Answers = {
        "go": [[*start(), *done("calls")]],
        "The sub-agent any works": [DONE],
        "look": [[Pause(1_000), *DONE]],
        "hello": [DONE],
        REPORT: [DONE],
    }

    async def linger(subject: SessionEnding) -> None:
        await trio.sleep(0.1)

    async with engine.open_engine(
        model=ScriptedProvider([by_newest(script)], repeat=True),
        tools=TOOLS,
        permissions=PermissionOptions(approver=AllowAll()),
        store=store,
        hooks=Hooks(session_end=(linger,)),
        ports=Ports(clock=TrioClock(), ids=CountingIds()),
    ) as eng:
        session = await eng.create_session()
        await session.run("go")
        store.claimed.add(session.id)
        with at.scope():
            await eng.close_session(session.id)
        # Open as before, or closed: nothing in between.
        is_open = session.id in store.claimed
        again = await eng.open_session(session.id)
        assert (again is session) is is_open
        assert (await again.run("hello")).stop_reason == "completed"
        assert fold(await store.load(session.id)) == again.state


def test_close_cancelled_at_every_step(count_runs: CountRuns) -> None:
    def play(step: int | None) -> CancelAt:
        seed_scheduler(0)
        at, store = CancelAt(step), Leased()
        clock = MockClock(autojump_threshold=0)
        trio.run(partial(_close, at, store), clock=clock, instruments=[at])
        return at

    steps = play(None).steps
    assert steps > 15
    for step in range(steps):
        assert play(step).has_fired
    count_runs(steps)


def test_engine_closes_while_a_session_does() -> None:
    async def main(checkpoints: int) -> None:
        store = Leased()

        async def linger(subject: SessionEnding) -> None:
            await trio.sleep(0.1)

        async def close(eng: engine.Engine, session_id: str) -> None:
            with suppress(EngineClosed):  # before it has begun
                await eng.close_session(session_id)

        async with trio.open_nursery() as nursery:
            async with opening(store, DONE, hooks=Hooks(session_end=(linger,))) as eng:
                session = await eng.create_session()
                await session.run("go")
                nursery.start_soon(close, eng, session.id)
                for _ in range(checkpoints):
                    await trio.lowlevel.checkpoint()
        async with opening(store, DONE) as eng:
            again = await eng.open_session(session.id)
            assert (await again.run("go")).stop_reason == "completed"

    for checkpoints in range(1, 15):
        trio.run(main, checkpoints, clock=MockClock(autojump_threshold=0))


async def test_title_is_not_added_after_closing(autojump_clock: MockClock, tmp_path: Path) -> None:
    titles = ScriptedProvider([[Pause(100), *text("A title"), *done()]])
    async with engine.open_engine(
        model=ScriptedProvider([DONE]),
        store=MemoryStore(),
        context=ContextOptions(titles=titles),
    ) as eng:
        session = await eng.create_session()
        await session.run("go")
        await trio.sleep(1)
        assert await eng.close_session(session.id)
        await session.background.titled()
        assert not any(isinstance(event, SessionTitled) for event in session.events())
        assert titles.open_streams == 0
        with pytest.raises(SessionNotFound):
            await eng.open_session("ses_unknown")
