"""Sessions created and forked with an id: once, for ever."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.errors import ConfigError, InputConflict, SessionElsewhere, StoreError
from engine.core.events import Durable, SessionCreated
from engine.core.ids import SessionId
from engine.core.llm_types import ModelInfo
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.store.memory import MemoryStore
from engine.testing import fakes
from engine.testing.script import done, text
from engine.testing.scripted_provider import ScriptedProvider


class SlowStore(MemoryStore):
    """A store that reads each session for a second."""

    async def load(self, session_id: SessionId) -> Sequence[Durable]:
        await trio.sleep(1)
        return await super().load(session_id)


class SlowModel(ScriptedProvider):
    """A model on a machine that takes a moment to answer what it is."""

    async def learn(self) -> None:
        await trio.sleep(0.5)


def opened(store: str | None = None) -> engine.Engine:
    return engine.open_engine(model=ScriptedProvider([[*text("Yes."), *done()]]), store=store)


async def test_session_is_created_once_for_ever(tmp_path: Path) -> None:
    store = str(tmp_path / "sessions.db")
    async with opened(store) as eng:
        session = await eng.create_session(cwd=tmp_path, session_id="mine")
        assert session.id == "mine"
        assert await eng.create_session(cwd=tmp_path, session_id="mine") is session
        await session.run("go")
        events = session.events()
    async with opened(store) as eng:
        session = await eng.create_session(cwd=tmp_path, session_id="mine")
        assert session.events() == events
        with pytest.raises(InputConflict):
            await eng.create_session(cwd="/", session_id="mine")
        with pytest.raises(InputConflict):
            await eng.create_session(
                cwd=tmp_path, session_id="mine", model=ScriptedProvider([], info=ModelInfo(name="another"))
            )


async def test_two_tasks_create_one_session(autojump_clock: MockClock) -> None:
    found: list[engine.Session] = []
    # The second task reads the store while the first creates the session. An approver without files: the clock would
    # not wait for the thread that reads them.
    eng = engine.open_engine(model=SlowModel([]), store=SlowStore(), permissions=PermissionOptions(approver=AllowAll()))
    async with eng, trio.open_nursery() as nursery:

        async def create() -> None:
            found.append(await eng.create_session(cwd="/", session_id="mine"))

        for _ in range(3):
            nursery.start_soon(create)
    assert len({id(session) for session in found}) == 1
    assert [type(event) for event in found[0].events()] == [SessionCreated]


@pytest.mark.parametrize("bad", ["", "../x", "a/b", "a b", "x" * 65, 3])
async def test_session_id_must_fit_a_file_name(bad: object, autojump_clock: MockClock) -> None:
    async with opened() as eng:
        with pytest.raises(ConfigError):
            await eng.create_session(cwd="/", session_id=bad)  # type: ignore[arg-type]  # the point of it


async def test_named_session_is_saved_when_returned(autojump_clock: MockClock) -> None:
    store = fakes.SlowStore(delay=2)
    approver = PermissionOptions(approver=AllowAll())
    async with engine.open_engine(model=ScriptedProvider([]), store=store, permissions=approver) as eng:
        before = trio.current_time()
        session = await eng.create_session(cwd="/", session_id="mine")
        assert trio.current_time() - before >= 2
        assert store.durable[session.id] == session.state.seq
        store.fails = True
        with pytest.raises(StoreError):
            await eng.create_session(cwd="/", session_id="other")
        # It is there, but nobody may believe that it is saved.
        with pytest.raises(StoreError):
            await eng.create_session(cwd="/", session_id="other")
        store.fails = False
        assert (await eng.create_session(cwd="/", session_id="other")).state.seq == 1


async def test_one_of_two_engines_creates_it(tmp_path: Path) -> None:
    store = str(tmp_path / "sessions.db")
    found: list[engine.Session | Exception] = []

    async def create(eng: engine.Engine) -> None:
        try:
            found.append(await eng.create_session(cwd=tmp_path, session_id="mine"))
        except SessionElsewhere as error:
            found.append(error)

    async with opened(store) as one, opened(store) as two:
        async with trio.open_nursery() as nursery:
            for eng in (one, two):
                nursery.start_soon(create, eng)
        (made,) = [each for each in found if isinstance(each, engine.Session)]
        (refused,) = [each for each in found if isinstance(each, SessionElsewhere)]
        assert (made.id, refused.session_id) == ("mine", "mine")
        assert (await made.run("go")).durable
        for eng in (one, two):
            await eng.close_session("mine")
        await create(two)
        await create(one)
        assert isinstance(found[-1], SessionElsewhere)
        assert isinstance(found[-2], engine.Session)
        assert found[-2].state.turns == 1


async def test_fork_is_made_once_for_ever(tmp_path: Path) -> None:
    store = str(tmp_path / "sessions.db")
    async with opened(store) as eng:
        session = await eng.create_session(cwd=tmp_path, session_id="first")
        await session.run("go")
        first, last = (message.id for message in session.state.transcript)
        fork = await eng.fork_session("first", fork_id="mine")
        assert await eng.fork_session("first", fork_id="mine") is fork
        assert await eng.fork_session("first", at=last, fork_id="mine") is fork
        events = fork.events()
        for source, at in (("mine", None), ("first", first)):
            with pytest.raises(InputConflict):
                await eng.fork_session(source, at=at, fork_id="mine")
        with pytest.raises(InputConflict):
            await eng.fork_session("first", fork_id="first")
        with pytest.raises(InputConflict):
            await eng.create_session(cwd=tmp_path, session_id="mine")
    async with opened(store) as eng:
        assert (await eng.fork_session("first", fork_id="mine")).events() == events


async def test_half_a_fork_is_completed() -> None:
    """The engine was killed after the first event of the fork was saved."""
    store = MemoryStore()
    async with engine.open_engine(model=ScriptedProvider([[*text("Yes."), *done()]]), store=store) as eng:
        session = await eng.create_session(cwd="/", session_id="first")
        await session.run("go")
        await eng.fork_session("first", fork_id="mine")
    killed = MemoryStore(epoch=store.epoch)
    for event in [*await store.load(SessionId("first")), (await store.load(SessionId("mine")))[0]]:
        killed.put(event)
    async with engine.open_engine(model=ScriptedProvider([]), store=killed) as eng:
        fork = await eng.fork_session("first", fork_id="mine")
        assert fork.state.transcript == session.state.transcript
        assert await eng.fork_session("first", fork_id="mine") is fork
        assert len(fork.state.transcript) == 2


class LeasedStore(SlowStore):
    """A slow store that one engine at a time writes a session of."""

    def __init__(self) -> None:
        super().__init__()
        self.leases: set[SessionId] = set()

    async def claim(self, session_id: SessionId) -> None:
        await trio.sleep(1)
        self.leases.add(session_id)

    def release(self, session_id: SessionId) -> None:
        self.leases.discard(session_id)


@pytest.mark.parametrize("seconds", [0.5, 1.5, 2.5, 3.5, 4.5])
async def test_cancelled_creation_locks_nobody_out(seconds: float, autojump_clock: MockClock) -> None:
    """Each step takes a second: the session is looked for, its id claimed, and looked for again."""
    store = LeasedStore()
    eng = engine.open_engine(
        model=ScriptedProvider([]), store=store, permissions=PermissionOptions(approver=AllowAll())
    )
    async with eng:
        with trio.move_on_after(seconds):
            await eng.create_session(cwd="/", session_id="mine")
        is_open = await eng.close_session("mine")
        assert is_open == (seconds > 4)
        assert store.leases == set()
