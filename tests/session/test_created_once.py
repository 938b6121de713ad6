"""Sessions created with an id: once, for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.errors import ConfigError, InputConflict
from engine.core.events import SessionCreated
from engine.core.llm_types import ModelInfo
from engine.testing.script import done, text
from engine.testing.scripted_provider import ScriptedProvider


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
    async with opened() as eng, trio.open_nursery() as nursery:

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
