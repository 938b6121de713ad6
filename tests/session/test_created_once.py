"""Sessions created with an id: once, for ever."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.errors import ConfigError, InputConflict
from engine.core.events import Durable, SessionCreated
from engine.core.ids import SessionId
from engine.core.llm_types import ModelInfo
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.store.memory import MemoryStore
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
