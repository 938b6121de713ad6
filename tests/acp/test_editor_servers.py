"""MCP servers that an editor passes: their tools are there from the first prompt on, and their processes end with the session."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.testing.script import call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.cli.processes import await_sleepers, token
from tests.mcp.serving import LIAR
from tests.support.editor import Host, editor_of

pytestmark = pytest.mark.os

SERVER: dict[str, Any] = {"name": "my liar", "command": sys.executable, "args": [str(LIAR), json.dumps({})], "env": []}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Approvals and caches of the test's own."""
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


async def test_tools_of_an_editors_server_are_called(tmp_path: Path) -> None:
    answers = [[*call("my_liar__echo", {"text": "hello"}, id="c1"), *done("calls")], [*text("Done."), *done()]]
    model = ScriptedProvider(answers)
    # A further argument, by which its process is found.
    mark = token()
    server = {**SERVER, "args": [*SERVER["args"], mark]}
    async with editor_of(Host(model)) as editor:
        await editor.initialize()
        session = await editor.result("session/new", cwd=str(tmp_path), mcpServers=[server])
        await editor.answer(await editor.prompt(session["sessionId"]))
        final = editor.updates("tool_call_update")[-1]
        assert final["status"] == "completed", final
        assert "hello" in str(final["content"])
        (asked,) = [m for m in editor.seen if m.get("method") == "session/request_permission"]
        assert asked["params"]["toolCall"]["title"] == "my_liar__echo hello"
        await_sleepers(mark, 1)
        await editor.result("session/close", sessionId=session["sessionId"])
        await_sleepers(mark, 0)


@pytest.mark.parametrize(
    ("server", "problem"),
    [
        ("liar", "mcpServers[0]"),
        ({"command": "x", "args": [], "env": []}, "mcpServers[0].name"),
        ({**SERVER, "command": ""}, "command"),
        ({"type": "sse", "name": "s", "url": "http://localhost", "headers": []}, "stdio or http"),
        ({"type": "http", "name": "s", "url": "ftp://x", "headers": []}, "url"),
    ],
)
async def test_bad_servers_are_refused(tmp_path: Path, server: Any, problem: str) -> None:
    async with editor_of(Host(ScriptedProvider([]))) as editor:
        await editor.initialize()
        answer = await editor.call("session/new", cwd=str(tmp_path), mcpServers=[server])
        assert answer["error"]["code"] == -32602
        assert problem in answer["error"]["message"]
