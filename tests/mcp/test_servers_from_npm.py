"""The reference servers of the protocol's own project, from npm: `make packages` installs them."""

from __future__ import annotations

from pathlib import Path

import mcp_types as types
import pytest

from engine.mcp import McpServer
from tests.conftest import REPOSITORY
from tests.mcp.serving import answer, call, request_of, running, text_of

PROGRAMS = REPOSITORY / "tests/javascript/node_modules/.bin"

pytestmark = [
    pytest.mark.os,
    pytest.mark.slow,
    pytest.mark.skipif(not (PROGRAMS / "mcp-server-everything").exists(), reason="needs what make packages installs"),
]


async def decline(_: types.ElicitRequestParams) -> types.ElicitResult:
    return types.ElicitResult(action="decline")


async def test_everything(tmp_path: Path) -> None:
    async with running(McpServer(command=(str(PROGRAMS / "mcp-server-everything"),)), tmp_path) as task:
        assert task.state.phase == "ready", task.state.reason
        assert task.state.listed.refused == ()
        assert text_of(await answer(task, call("echo", message="hi"))) == "Echo: hi"
        shown: list[str] = []
        work = request_of("trigger-long-running-operation", {"duration": 0.4, "steps": 2}, show=shown.append)
        assert "completed" in text_of(await answer(task, work))
        assert shown
        declined = await answer(task, call("trigger-elicitation-request"), decline)
        assert "declined" in text_of(declined)


async def test_filesystem(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("hello")
    server = McpServer(command=(str(PROGRAMS / "mcp-server-filesystem"), str(tmp_path)))
    async with running(server, tmp_path) as task:
        assert text_of(await answer(task, call("read_text_file", path=str(tmp_path / "a.txt")))) == "hello"
        assert (await answer(task, call("read_text_file", path="/etc/hostname"))).is_error
