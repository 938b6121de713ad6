"""Servers of which each session has a process of its own, in its own folder, as long as it is used."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.config.mcp_config import McpServer
from engine.core.errors import ConfigError
from engine.core.events import QuestionAsked
from engine.session.engine import Engine
from engine.testing.script import Answer
from engine.testing.scripted_provider import ScriptedProvider
from tests.mcp.serving import lying
from tests.mcp.test_servers_in_turns import DONE, approve_all, calls, opened, run, servers

pytestmark = pytest.mark.os

WHERE: list[Answer] = [calls("liar_where"), DONE]


async def approved(folder: Path, **options: object) -> McpServer:
    """Return a server per session, whose tools were approved while it was one for all."""
    server = lying(**options)
    async with opened(ScriptedProvider([]), source := servers(folder, liar=server)):
        await approve_all(source, "liar")
    return attrs.evolve(server, per_session=True)


async def session_in(eng: Engine, folder: Path) -> engine.Session:
    await trio.Path(folder).mkdir(exist_ok=True)
    return await eng.create_session(cwd=folder)


async def where(session: engine.Session) -> list[str]:
    """Return the process of the session's server, and its folder."""
    (settled,), _ = await run(session)
    return settled.settlement.text.split(" ")


def lives(pid: str) -> bool:
    return Path(f"/proc/{pid}").exists()


async def test_each_session_has_its_own_process(tmp_path: Path) -> None:
    server = await approved(tmp_path)
    source = servers(tmp_path, liar=server)
    async with opened(ScriptedProvider(WHERE * 3), source, "allow mcp:liar/* *") as eng:
        assert source.states == {}
        one, other = await session_in(eng, tmp_path / "one"), await session_in(eng, tmp_path / "other")
        first, second, again = await where(one), await where(other), await where(one)
        assert (first[1], second[1]) == (str(tmp_path / "one"), str(tmp_path / "other"))
        assert first[0] != second[0]
        assert again == first
        assert {state.phase for state in source.states.values()} == {"ready"}
    assert not lives(first[0])
    assert not lives(second[0])


async def test_idle_process_ends_and_starts_with_the_next_call(tmp_path: Path) -> None:
    server = attrs.evolve(await approved(tmp_path), idle_timeout=0.2)
    source = servers(tmp_path, liar=server)
    async with opened(ScriptedProvider(WHERE * 2), source, "allow mcp:liar/* *") as eng:
        session = await session_in(eng, tmp_path / "one")
        first = await where(session)
        with trio.fail_after(30):
            while lives(first[0]):
                await trio.sleep(0.02)
            while [state.phase for state in source.states.values()] != ["stopped"]:
                await trio.sleep(0.02)
        # Its tools are still listed, and a call waits for the new process.
        second = await where(session)
    assert second[0] != first[0]
    assert second[1] == first[1]


async def test_approval_holds_for_the_servers_of_all_sessions(tmp_path: Path) -> None:
    server = attrs.evolve(lying(), per_session=True)
    source = servers(tmp_path, liar=server)
    model = ScriptedProvider([*WHERE, *WHERE])
    async with opened(model, source, "allow mcp:liar/* *") as eng:
        one = await session_in(eng, tmp_path / "one")
        other = await session_in(eng, tmp_path / "other")
        asked = 0
        for session in (one, other):
            async with session.prompt("go") as turn:
                async for event in turn:
                    if isinstance(event, QuestionAsked):
                        asked += 1
                        await turn.answer(event.request_id, "Approve")
    assert asked == 1


@pytest.mark.parametrize(
    ("command", "url", "folder"), [(("x",), "", "/tmp"), ((), "https://x.example", "")], ids=["folder", "url"]
)
def test_server_elsewhere_is_none_of_a_session(command: tuple[str, ...], url: str, folder: str) -> None:
    with pytest.raises(ConfigError, match="session"):
        McpServer(command=command, url=url, folder=folder, per_session=True)
