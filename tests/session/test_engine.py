"""`open_engine`: what it puts together, sessions new and stored, turns of its own, and how it closes."""

from __future__ import annotations

import signal
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from types import FrameType

import attrs
import pytest
import trio
import trio.testing
from trio.testing import MockClock

import engine
from engine.core.errors import EngineClosed, JournalCorrupt, SessionNotFound
from engine.core.events import (
    CallSettled,
    CallStarted,
    Durable,
    SessionCreated,
    StepStarted,
    TurnEnded,
    TurnStarted,
)
from engine.core.ids import SessionId
from engine.core.llm_types import ModelInfo, ModelRequest, TextChunk, TextStarted
from engine.core.messages import UserMessage
from engine.core.settings import Settings
from engine.journal.state import Idle
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions, Ports
from engine.session.session import Session
from engine.session.turn import start_turn
from engine.session.turn_start import begin_queued_turn
from engine.testing.fakes import SlowStore, TrioClock
from engine.testing.invariants import check_transcript
from engine.testing.script import Answer, Break, Pause, call, done, reasoning, text
from engine.testing.scripted_provider import ScriptedProvider, ScriptedStream
from tests.support.bench import Bench
from tests.support.world import about, said, world

DONE: Answer = [*text("Done."), *done()]


def working(name: str = "a", seconds: float = 1.0, tool: str = "read") -> Answer:
    return [*text("Let me see."), *call(tool, {"name": name, "seconds": seconds}, id="1"), *done("calls")]


def reopened(store: SlowStore, *answers: Answer) -> engine.Engine:
    return engine.open_engine(
        model=ScriptedProvider(list(answers)),
        tools=Bench().tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        store=store,
        ports=Ports(clock=TrioClock()),
    )


# -- sessions ----------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Asked(ScriptedProvider):
    """A model whose server is asked what it holds, as one on this machine is."""

    async def learn(self) -> None:
        await trio.sleep(2)


@attrs.define(eq=False)
class Noting(SlowStore):
    """Notes whose events are put."""

    noted: list[SessionId] = attrs.field(factory=list[SessionId], init=False)

    def put(self, event: Durable) -> None:
        self.noted.append(event.session_id)
        super().put(event)


async def test_cancelled_creation_leaves_no_session(autojump_clock: MockClock) -> None:
    store = Noting()
    async with reopened(store, DONE) as eng:
        session = await eng.create_session()
    async with engine.open_engine(model=Asked([]), store=store) as eng:
        beginnings: list[Callable[[], Awaitable[object]]] = [
            eng.create_session,
            partial(eng.open_session, session.id),
            partial(eng.fork_session, session.id),
        ]
        for begin in beginnings:
            with trio.move_on_after(1) as scope:
                # Hosts may look for it: it is one, not a group of them.
                with pytest.raises(trio.Cancelled):
                    await begin()
                await trio.lowlevel.checkpoint()
            assert scope.cancelled_caught
    assert store.noted == [session.id]
    async with reopened(store, DONE) as eng:
        assert (await (await eng.open_session(session.id)).run("go on")).stop_reason == "completed"


@pytest.mark.usefixtures("home_with_project")
async def test_new_session_records_folder_and_model(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        session = await w.engine.create_session(cwd="~/project")
        state = session.state
        assert state.context.cwd == str(Path.home() / "project")
        assert (state.model, state.parent_id, state.status) == ("scripted/model", None, Idle())
        (created,) = session.events()
        assert isinstance(created, SessionCreated)
        assert created.path == (session.id,)
        assert session.id != w.session.id


async def test_session_options_override_the_engines(autojump_clock: MockClock) -> None:
    bench = Bench()
    other = ScriptedProvider([DONE], info=ModelInfo(name="scripted/other"))
    async with world(DONE, tools=bench.tools(), settings=Settings(system="engine's")) as w:
        session = await w.engine.create_session(model=other, tools=bench.tools()[:1], settings=Settings(system="mine"))
        await session.run("go")
        (request,) = other.requests
        assert (request.model, request.system) == ("scripted/other", "mine")
        assert [t.name for t in request.tools] == ["read"]
        await w.play()
        assert [t.name for t in w.requests[0].tools] == ["read", "write"]
        assert w.requests[0].system == "engine's"


async def test_random_ids_of_two_engines_never_meet() -> None:
    seen: set[SessionId] = set()
    for _ in range(2):
        async with engine.open_engine(model=ScriptedProvider([])) as eng:
            for _ in range(10):
                seen.add((await eng.create_session()).id)
    assert len(seen) == 20


async def test_an_open_session_is_the_same_object(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        assert await w.engine.open_session(w.session.id) is w.session


async def test_a_stored_session_goes_on_where_it_was(autojump_clock: MockClock) -> None:
    bench = Bench()
    store = SlowStore()
    async with world(working(), DONE, tools=bench.tools(), store=store) as w:
        await w.play("first")
        before = w.session.state
    async with reopened(store, [*text("Again."), *done()]) as eng:
        session = await eng.open_session(before.session_id)
        assert session.state == before
        assert (await session.run("second")).text == "Again."
        assert [m.text for m in session.state.transcript if isinstance(m, UserMessage)] == ["first", "second"]
        assert session.state.turns == 2


async def test_unstored_session_is_not_found(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        with pytest.raises(SessionNotFound, match="ses_other"):
            await w.engine.open_session("ses_other")
        await w.goes_on()


async def test_session_with_a_gap_is_refused(autojump_clock: MockClock) -> None:
    store = SlowStore()
    async with world(DONE, store=store) as w:
        await w.play()
        events = await store.load(w.session.id)
    torn = SlowStore()
    for event in (*events[:3], *events[4:]):
        torn.put(event)
    async with reopened(torn, DONE) as eng:
        with pytest.raises(JournalCorrupt):
            await eng.open_session(events[0].session_id)
        session = await eng.create_session()
        assert (await session.run("go")).stop_reason == "completed"


async def test_concurrent_opens_return_one_session(autojump_clock: MockClock) -> None:
    @attrs.define(eq=False)
    class SlowLoad(SlowStore):
        async def load(self, session_id: SessionId) -> Sequence[Durable]:
            await trio.sleep(1)
            return await super().load(session_id)

    store = SlowLoad()
    async with world(DONE, store=store) as w:
        await w.session.run("first")
        session_id = w.session.id
    async with reopened(store, DONE) as eng:
        found: list[Session] = []

        async def open_it() -> None:
            found.append(await eng.open_session(session_id))

        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(open_it)
        assert found[0] is found[1] is found[2]
        assert (await found[0].run("go")).stop_reason == "completed"


async def test_engine_closing_during_a_load_refuses(autojump_clock: MockClock) -> None:
    @attrs.define(eq=False)
    class SlowLoad(SlowStore):
        async def load(self, session_id: SessionId) -> Sequence[Durable]:
            await trio.sleep(5)
            return await super().load(session_id)

    eng = reopened(SlowLoad(), DONE)
    async with trio.open_nursery() as nursery:

        async def open_it() -> None:
            with pytest.raises((EngineClosed, SessionNotFound)):
                await eng.open_session("ses_1")

        async with eng:
            nursery.start_soon(open_it)
            await trio.sleep(1)


# -- after a crash -------------------------------------------------------------------------------------


RICH: list[Answer] = [
    [*reasoning("Hm."), *working()],
    [TextStarted("t"), TextChunk("t", "Taken back"), Break()],
    [*call("write", {"name": "b"}, id="1"), *call("read", {"name": "c"}, id="2"), Pause(1), Break()],
    DONE,
]


async def test_t4_kill_after_any_event_is_recoverable(
    autojump_clock: MockClock,
) -> None:
    """What a kill leaves behind: any number of events of the journal, and no more."""
    bench = Bench()
    store = SlowStore()
    async with world(*RICH, tools=bench.tools(), store=store) as w:
        await w.play()
        whole = await store.load(w.session.id)
    assert len(whole) > 40
    for cut in range(1, len(whole) + 1):
        killed = SlowStore()
        for event in whole[:cut]:
            killed.put(event)
        async with reopened(killed, [*text("Back again."), *done()]) as eng:
            session = await eng.open_session(whole[0].session_id)
            assert session.state.status == Idle()
            assert check_transcript(session.state.transcript) == []
            settled = [e.call_id for e in session.events() if isinstance(e, CallSettled)]
            assert len(settled) == len(set(settled))
            assert (await session.run("and now?")).text == "Back again."
            kinds = [type(e) for e in session.events() if isinstance(e, TurnStarted | TurnEnded)]
            assert kinds in ([TurnStarted, TurnEnded], [TurnStarted, TurnEnded] * 2)
            assert [e.seq for e in session.events()] == list(range(1, session.state.seq + 1))
            assert await killed.load(session.id) == session.events()


async def test_t4_crash_recovery_runs_nothing_again(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    store = SlowStore()
    async with world(working(tool="write"), DONE, tools=bench.tools(), store=store) as w:
        await w.play()
        whole = await store.load(w.session.id)
    cut = next(i for i, e in enumerate(whole) if isinstance(e, CallStarted)) + 1
    killed = SlowStore()
    for event in whole[:cut]:
        killed.put(event)
    model = ScriptedProvider([DONE])
    again = Bench()
    async with engine.open_engine(
        model=model, tools=again.tools(), store=killed, permissions=PermissionOptions(approver=AllowAll())
    ) as eng:
        session = await eng.open_session(whole[0].session_id)
        (settled,) = [e.settlement for e in session.events() if isinstance(e, CallSettled)]
        assert (settled.reason, settled.outcome_unknown) == ("interrupted_by_crash", True)
        last = session.state.last_result
        assert last is not None
        assert last.stop_reason == "aborted"
        await session.run("go on")
        assert again.log == []
        assert "not known" in said(model.requests[0].transcript[-2])


async def test_t4_queued_input_survives_a_crash(autojump_clock: MockClock) -> None:
    store = SlowStore()
    async with world([Pause(60), *DONE], store=store) as w:
        async with w.session.prompt("go"):
            w.session.inputs.queue("later")
            await trio.sleep(1)
            whole = await store.load(w.session.id)
    killed = SlowStore()
    for event in whole:
        killed.put(event)
    model = ScriptedProvider([DONE, DONE])
    async with engine.open_engine(model=model, store=killed, ports=Ports(clock=TrioClock())) as eng:
        session = await eng.open_session(whole[0].session_id)
        assert [p.message.text for p in session.state.inbox] == ["later"]
        await trio.testing.wait_all_tasks_blocked()
        assert model.requests == []
        await session.run("I am back")
        await trio.testing.wait_all_tasks_blocked()
        assert [m.text for m in session.state.transcript if isinstance(m, UserMessage)] == ["go", "I am back", "later"]


# -- turns in the engine's nursery -----------------------------------------------------------------------


async def test_started_turn_outlives_its_starter(autojump_clock: MockClock) -> None:
    bench = Bench()
    turns: list[engine.Turn] = []
    async with world(working(seconds=5), DONE, tools=bench.tools()) as w:

        async def client() -> None:
            turns.append(w.engine.start_turn(w.session, "go"))
            await trio.sleep_forever()

        with trio.move_on_after(1):
            await client()
        assert bench.running == 1
        assert (await turns[0].wait()).stop_reason == "completed"
        assert trio.current_time() == about(5)
        await w.goes_on()


async def test_started_turn_is_watched_steered_and_cancelled(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(seconds=60), tools=bench.tools()) as w:
        turn = w.engine.start_turn(w.session, "go")
        seen: list[object] = []
        async for event in turn:
            seen.append(event)
            if isinstance(event, CallStarted):
                turn.steer("hurry")
                turn.cancel()
        assert isinstance(seen[0], TurnStarted)
        assert isinstance(seen[-1], TurnEnded)
        assert turn.result.stop_reason == "aborted"
        await w.goes_on()


async def test_a_started_turn_keeps_the_session_busy(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(seconds=5), DONE, tools=bench.tools()) as w:
        turn = w.engine.start_turn(w.session, "go")
        with pytest.raises(engine.EngineError):
            await w.session.run("two")
        await turn.wait()
        await w.goes_on()


async def test_many_sessions_in_one_engine(autojump_clock: MockClock) -> None:
    bench = Bench()

    def answer(request: ModelRequest) -> Answer:
        return DONE if len(request.transcript) > 1 else working(seconds=1.0)

    async with world(answer, repeat=True, tools=bench.tools()) as w:
        turns = [w.engine.start_turn(await w.engine.create_session(), "go") for _ in range(300)]
        for turn in turns:
            assert (await turn.wait()).stop_reason == "completed"
        assert trio.current_time() == about(1)
        assert bench.most == 300


# -- closing ---------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Pooled:
    """A model that holds connections."""

    inner: ScriptedProvider
    closed: int = 0

    @property
    def info(self) -> ModelInfo:
        return self.inner.info

    async def open(self, request: ModelRequest) -> ScriptedStream:
        return await self.inner.open(request)

    async def aclose(self) -> None:
        self.closed += 1
        await trio.lowlevel.checkpoint()


async def test_closing_settles_then_closes_the_store_once(autojump_clock: MockClock) -> None:
    closed: list[tuple[float, bool]] = []

    @attrs.define(eq=False)
    class Noting(SlowStore):
        async def aclose(self) -> None:
            closed.append((trio.current_time(), w.session.state.turn is None))
            await super().aclose()

    bench = Bench()
    async with world(working(seconds=60), tools=bench.tools(), store=Noting()) as w:
        w.engine.start_turn(w.session, "go")
        await trio.sleep(1)
    assert closed == [(about(1), True)]
    assert bench.running == 0


async def test_host_closes_its_own_model(autojump_clock: MockClock) -> None:
    model = Pooled(ScriptedProvider([DONE]))
    async with engine.open_engine(model=model) as eng:
        session = await eng.create_session()
        assert (await session.run("go")).stop_reason == "completed"
    assert model.closed == 0


async def test_body_exception_leaves_the_engine_unchanged(autojump_clock: MockClock) -> None:
    bench = Bench()
    error = ValueError("mine")

    async def body() -> None:
        async with world(working(seconds=60), tools=bench.tools()) as w:
            w.engine.start_turn(w.session, "go")
            await trio.sleep(1)
            raise error

    with pytest.raises(ValueError, match="mine") as caught:
        await body()
    assert caught.value is error
    assert bench.running == 0


async def test_engine_without_a_session(autojump_clock: MockClock) -> None:
    async with engine.open_engine(model=ScriptedProvider([])) as eng:
        assert not eng.is_closed
    assert eng.is_closed


async def test_consecutive_engines_may_share_a_store(autojump_clock: MockClock) -> None:
    store = SlowStore()
    ids: list[SessionId] = []
    for n in range(3):
        async with reopened(store, DONE) as eng:
            for known in ids:
                assert (await eng.open_session(known)).state.turns == 1
            session = await eng.create_session()
            await session.run(f"turn {n}")
            ids.append(session.id)


async def test_steps_are_announced_with_their_models(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        played = await w.play()
    assert played.one(StepStarted).model == "scripted/model"


@pytest.mark.parametrize("how", ["start_turn", "queue"])
def test_keyboard_interrupt_leaves_no_orphaned_turn(how: str) -> None:
    """It strikes behind the beginning of the turn, and before there is a task that runs it."""
    begins = {"start_turn": start_turn, "queue": begin_queued_turn}[how].__code__

    def strike(frame: FrameType, event: str, _: object) -> None:
        if event == "return" and frame.f_code is begins:
            sys.setprofile(None)
            signal.raise_signal(signal.SIGINT)

    async def main() -> None:
        model = ScriptedProvider([[*text("Done."), *done()]], repeat=True)
        async with engine.open_engine(model=model, permissions=PermissionOptions(approver=AllowAll())) as eng:
            session = await eng.create_session()
            with pytest.raises(KeyboardInterrupt):
                sys.setprofile(strike)
                try:
                    if how == "queue":
                        session.inputs.queue("go")
                    else:
                        eng.start_turn(session, "go")
                finally:
                    sys.setprofile(None)
                await trio.sleep(1)
            with trio.fail_after(60):
                while session.state.turn is not None:
                    await trio.sleep(0.01)
            assert (await session.run("again")).stop_reason == "completed"

    trio.run(main)
