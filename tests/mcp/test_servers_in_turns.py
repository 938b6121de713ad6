"""MCP servers in an engine: their tools are called in turns, with permission, and none of their processes outlives it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

import engine
from engine.core.events import CallSettled, CallStarted, PermissionAsked
from engine.mcp import McpConfig, McpServer, McpServers
from engine.mcp.approvals import Approvals
from engine.mcp.server_memory import ServerMemory
from engine.options import PermissionOptions, Ports
from engine.process.kill_tree import find_marked
from engine.process.procfs import is_alive
from engine.session.engine import Engine
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.mcp.serving import LIAR, lying, received
from tests.support.processes import python_process, read_line

pytestmark = pytest.mark.os

DONE: Answer = [*text("Done."), *done()]
ROOT = Path(__file__).parents[2]


def servers(folder: Path, **configured: McpServer) -> McpServers:
    """Return servers whose files are in *folder*."""
    config = McpConfig(servers=configured, required=tuple(configured), required_wait=30.0)
    return McpServers(
        config, approvals=Approvals(folder / "approved"), memory=ServerMemory(folder / "memory"), retries=()
    )


def opened(model: ScriptedProvider, source: McpServers, *rules: str) -> Engine:
    return engine.open_engine(model=model, ports=Ports(sources=[source]), permissions=PermissionOptions(rules=rules))


async def approve_all(source: McpServers, *names: str) -> None:
    """Approve what the servers offer; their tools are usable then."""
    for name in names:
        await source.wait_settled(name)
        await source.approve(name)


async def run(
    session: engine.Session, prompt: str = "go", *, allow: bool = True
) -> tuple[list[CallSettled], list[str]]:
    """Run a turn, answering what it asks; return its results and the questions."""
    settled: list[CallSettled] = []
    asked: list[str] = []
    async with session.prompt(prompt) as turn:
        async for event in turn:
            if isinstance(event, PermissionAsked):
                asked.append(event.detail)
                await turn.reply(event.request_id, engine.Once() if allow else engine.Reject("no"))
            elif isinstance(event, CallSettled):
                settled.append(event)
    return settled, asked


def calls(name: str, **arguments: object) -> Answer:
    return [*call(name, arguments, id="1"), *done("calls")]


async def test_tool_is_called_once_the_user_allows_it(tmp_path: Path) -> None:
    source = servers(tmp_path, liar=lying())
    model = ScriptedProvider([calls("liar_echo", text="hi"), DONE, calls("liar_echo", text="hi"), DONE])
    async with opened(model, source) as eng:
        await approve_all(source, "liar")
        session = await eng.create_session(cwd=tmp_path)
        (settled,), asked = await run(session)
        assert (settled.settlement.status, settled.settlement.text) == ("completed", "echo: hi")
        assert len(asked) == 1
        assert "liar: echo" in asked[0]
        (settled,), _ = await run(session, allow=False)
        assert settled.settlement.status == "denied"
    described = {tool.name: tool.description for tool in model.requests[0].tools}
    assert described["liar_echo"].startswith("A tool of the MCP server liar.")


async def test_cancelled_turn_leaves_the_server_usable(tmp_path: Path) -> None:
    log = tmp_path / "log"
    source = servers(tmp_path, liar=lying(log=str(log), stays=True))
    model = ScriptedProvider([calls("liar_silent"), calls("liar_echo", text="on"), DONE])
    async with opened(model, source, "allow mcp:liar/* *") as eng:
        await approve_all(source, "liar")
        session = await eng.create_session(cwd=tmp_path)
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, CallStarted):
                    while received(log, "tools/call silent") == 0:
                        await trio.sleep(0.01)
                    turn.cancel()
                if isinstance(event, CallSettled):
                    assert event.settlement.status == "aborted"
                    assert not event.settlement.outcome_unknown
        (settled,), _ = await run(session)
        assert settled.settlement.text == "echo: on"
    assert received(log, "tools/call silent") == 1
    assert find_marked(lambda mark: mark.startswith("mcp.liar.") and f".{_pid_in(log)}" in mark) == []
    assert not _lives(_pid_in(log))


async def test_server_that_dies_in_a_call_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    source = servers(tmp_path, liar=lying(log=str(log)))
    model = ScriptedProvider([calls("liar_die"), DONE])
    async with opened(model, source, "allow mcp:liar/* *") as eng:
        await approve_all(source, "liar")
        session = await eng.create_session(cwd=tmp_path)
        (settled,), _ = await run(session)
    assert settled.settlement.status == "error"
    assert settled.settlement.outcome_unknown
    assert received(log, "tools/call die") == 1


async def test_results_of_all_kinds(tmp_path: Path) -> None:
    source = servers(tmp_path, liar=lying())
    names = ("media", "link", "wrong", "structured", "fail", "error", "not_a_result")
    model = ScriptedProvider([*(calls(f"liar_{name}") for name in names), DONE])
    async with opened(model, source, "allow mcp:liar/* *") as eng:
        await approve_all(source, "liar")
        session = await eng.create_session(cwd=tmp_path)
        settled, _ = await run(session)
    results = {name: one.settlement for name, one in zip(names, settled, strict=True)}
    assert [image.media_type for image in results["media"].images] == ["image/png"]
    assert "not valid base64" in results["media"].text
    assert results["media"].files[0].media_type == "audio/wav"
    assert "file:///secret (secret, text/plain, 7 bytes). To read it, use mcp_read" in results["link"].text
    assert "inside" in results["link"].text
    assert "does not fit the schema" in results["wrong"].text
    assert '"three"' in results["wrong"].text
    assert "does not fit" not in results["structured"].text
    assert results["fail"].failed
    assert results["error"].status == "error"
    assert "no such thing" in results["error"].text  # without the character that nobody sees
    assert len(results["error"].text) < 2_200
    assert "no result" in results["not_a_result"].text


async def test_resource_is_read_by_its_own_tool(tmp_path: Path) -> None:
    source = servers(tmp_path, liar=lying())
    model = ScriptedProvider([calls("mcp_read", server="liar", uri="mem://a"), DONE])
    async with opened(model, source) as eng:
        await approve_all(source, "liar")
        session = await eng.create_session(cwd=tmp_path)
        (settled,), asked = await run(session)
    assert "what it holds" in settled.settlement.text
    assert asked == ["Read mem://a of the MCP server liar"]


async def test_failed_server_costs_the_others_nothing(tmp_path: Path) -> None:
    source = servers(
        tmp_path,
        liar=lying(),
        gone=McpServer(command=("/no/such/program",)),
        ends=lying(start="exit"),
        secret=McpServer(command=("true",), env={"TOKEN": "${NO_SUCH_VARIABLE_IN_THE_TESTS}"}),
    )
    model = ScriptedProvider([calls("liar_echo", text="hi"), DONE])
    async with opened(model, source, "allow mcp:liar/* *") as eng:
        await approve_all(source, "liar")
        session = await eng.create_session(cwd=tmp_path)
        (settled,), _ = await run(session)
        states = source.states
    assert settled.settlement.text == "echo: hi"
    assert {name: state.phase for name, state in states.items()} == {
        "liar": "ready",
        "gone": "failed",
        "ends": "failed",
        "secret": "failed",
    }
    assert "/no/such/program" in states["gone"].reason
    assert "I will not serve." in states["ends"].reason
    assert "NO_SUCH_VARIABLE_IN_THE_TESTS is not set" in states["secret"].reason


async def test_old_server_learns_the_folders_of_sessions(tmp_path: Path) -> None:
    log = tmp_path / "log"
    source = servers(tmp_path, liar=lying(era="legacy", log=str(log)))
    model = ScriptedProvider([calls("liar_roots"), DONE])
    async with opened(model, source, "allow mcp:liar/* *") as eng:
        await approve_all(source, "liar")
        session = await eng.create_session(cwd=tmp_path)
        (settled,), _ = await run(session)
    told = json.loads(settled.settlement.text.removeprefix("you said "))
    assert told == {"roots": [{"uri": tmp_path.as_uri()}]}
    assert received(log, "notifications/roots/list_changed") == 1


PROGRAM = """
import json, sys, trio, engine
from pathlib import Path
from engine.mcp import McpConfig, McpServer, McpServers
from engine.options import Ports
from engine.testing.scripted_provider import ScriptedProvider
async def main():
    command = tuple(json.loads(sys.argv[1]))
    source = McpServers(McpConfig(servers={f"s{n}": McpServer(command=command) for n in range(int(sys.argv[2]))}))
    async with engine.open_engine(model=ScriptedProvider([]), ports=Ports(sources=[source])):
        for name in source.states:
            await source.wait_settled(name)
        print("open", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
trio.run(main)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, None])
def test_no_process_outlives_the_engine(tmp_path: Path, number: signal.Signals | None, *, is_full: bool) -> None:
    """Each server is a chain of three processes, as with npx; the last one ignores the end of its input."""
    inner = [sys.executable, str(LIAR), json.dumps({"stays": True})]
    # Like npx: a shell that starts a shell that starts the server, and none of them replaces itself.
    script = f'sh -c \'{sys.executable} "$0" "$1"; true\' "$0" "$1"; true'
    command = json.dumps(["sh", "-c", script, *inner[1:]])
    count = 3 if is_full else 1
    with python_process("-c", PROGRAM, command, str(count), cwd=ROOT) as process:
        assert read_line(process) == "open"
        mark = "mcp.s"
        ours = find_marked(lambda m: m.startswith(mark) and f".{process.pid}." in m)
        assert len(ours) == 3 * count
        if number is None:
            process.communicate("\n", timeout=30)
        else:
            process.send_signal(number)
            process.wait(timeout=30)
        if number == signal.SIGKILL:
            assert any(map(is_alive, ours))
            reopen = [sys.executable, "-c", PROGRAM, command, "0"]
            subprocess.run(reopen, cwd=ROOT, input="\n", text=True, check=True, timeout=30, capture_output=True)
        end = time.monotonic() + 30
        while any(map(is_alive, ours)):
            assert time.monotonic() < end
            time.sleep(0.01)


def _pid_in(log: Path) -> int:
    return int(log.read_text().splitlines()[0].removeprefix("pid "))


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()
