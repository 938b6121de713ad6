"""The engine as an MCP server: its tools as clients of both eras see them."""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
import trio
import trio.testing
from mcp.client.client import Client
from mcp.client.session import ElicitationFnT
from mcp.shared.exceptions import MCPError

from engine.core.events import STOP_REASONS
from engine.mcp_server.message_lines import MAX_LINE_BYTES
from engine.mcp_server.tool_table import TOOLS
from engine.testing.script import Pause, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.builtin.question import QUESTION
from engine.tools.tool import Tool
from tests.support.mcp_client import ERAS, User, client_of, scripted_engine, serve, text_of

WRITE = [*call("write", {"path": "a.txt", "content": "one\n"}, id="c1"), *done("calls")]
HELLO = [*text("Hello."), *done()]
ALLOW = {"decision": "allow"}
eras = pytest.mark.parametrize("era", ERAS)


@asynccontextmanager
async def client(
    folder: Path,
    era: str,
    *answers: Any,
    elicit: ElicitationFnT | None = None,
    question_timeout: float = 600.0,
    tools: tuple[Tool, ...] | None = None,
    is_saved: bool = False,
) -> AsyncGenerator[Client]:
    own = tuple(builtin_tools()) if tools is None else tools
    store = str(folder / "store.db") if is_saved else None
    async with (
        scripted_engine(ScriptedProvider(answers, repeat=False), own, store=store) as engine,
        client_of(engine, folder, era, elicit=elicit, question_timeout=question_timeout) as served,
    ):
        yield served


def facts(result: types.CallToolResult) -> dict[str, Any]:
    found: dict[str, Any] = result.structured_content
    return found


@eras
async def test_run_returns_answer_and_facts(tmp_path: Path, era: str) -> None:
    async with client(tmp_path, era, HELLO, HELLO) as served:
        listed = (await served.list_tools()).tools
        assert [tool.name for tool in listed] == ["run", "wait", "cancel", "sessions", "show"]
        first = await served.call_tool("run", {"prompt": "go"})
        assert (text_of(first), first.is_error) == ("Hello.", False)
        assert facts(first)["stop_reason"] == "completed"
        assert {"session", "usage", "cost", "changed_files", "denied"} <= facts(first).keys()
        again = await served.call_tool("run", {"prompt": "go on", "session": facts(first)["session"]})
        assert facts(again)["session"] == facts(first)["session"]
        shown = facts(await served.call_tool("show", {"session": facts(first)["session"]}))
        assert (shown["turns"], shown["answer"], shown["cwd"]) == (2, "Hello.", str(tmp_path))


@eras
async def test_allowed_question_lets_the_call_run(tmp_path: Path, era: str) -> None:
    user = User(ALLOW)
    async with client(tmp_path, era, WRITE, HELLO, elicit=user.elicit) as served:
        result = await served.call_tool("run", {"prompt": "go"})
    assert (text_of(result), facts(result)["denied"]) == ("Hello.", [])
    assert (tmp_path / "a.txt").read_text() == "one\n"
    (form,) = user.asked
    assert "+one" in form.message
    options = form.requested_schema["properties"]["decision"]["oneOf"]
    # What would hold longer than the session is not for a caller to allow.
    assert [option["const"] for option in options] == ["allow", "session", "reject"]


@eras
@pytest.mark.parametrize("answer", [None, {"decision": "project"}, {"decision": "reject"}, {}])
async def test_unclear_answer_denies_and_names_the_rule(
    tmp_path: Path, era: str, answer: dict[str, Any] | None
) -> None:
    async with client(tmp_path, era, WRITE, HELLO, elicit=User(answer).elicit) as served:
        result = await served.call_tool("run", {"prompt": "go"})
    (denied,) = facts(result)["denied"]
    assert denied["rules"] == ["allow edit ./a.txt"]
    assert "--rule 'allow edit ./a.txt'" in text_of(result)
    assert text_of(result).startswith("Hello.")
    assert not (tmp_path / "a.txt").exists()


@eras
async def test_client_without_forms_is_denied_at_once(tmp_path: Path, era: str) -> None:
    async with client(tmp_path, era, WRITE, HELLO) as served:
        result = await served.call_tool("run", {"prompt": "go"})
    (denied,) = facts(result)["denied"]
    assert (denied["why"], denied["rules"]) == ("no one is available to ask", ["allow edit ./a.txt"])
    assert not (tmp_path / "a.txt").exists()


@eras
async def test_silent_user_is_denied_in_time(tmp_path: Path, era: str, autojump_clock: object) -> None:
    user = User(1_000.0)
    async with client(tmp_path, era, WRITE, HELLO, elicit=user.elicit, question_timeout=30) as served:
        # Its answer comes after that, in the modern era with another request: it still gets the result of the turn.
        result = await served.call_tool("run", {"prompt": "go"})
    (denied,) = facts(result)["denied"]
    assert (denied["why"], denied["rules"]) == ("no answer in time", ["allow edit ./a.txt"])
    assert not (tmp_path / "a.txt").exists()


@eras
async def test_tools_question_is_a_form(tmp_path: Path, era: str) -> None:
    questions = {"questions": [{"question": "Which?", "choices": [{"label": "red"}, {"label": "blue"}]}]}
    ask = [*call("question", questions, id="c1"), *done("calls")]
    user = User({"answer": "blue"})
    async with client(tmp_path, era, ask, HELLO, elicit=user.elicit, tools=(QUESTION,)) as served:
        result = await served.call_tool("run", {"prompt": "go"})
    assert text_of(result) == "Hello."
    assert [form.message for form in user.asked] == ["Which?"]


@eras
async def test_cancelled_request_cancels_the_turn(tmp_path: Path, era: str) -> None:
    async with client(tmp_path, era, [Pause(1_000), *HELLO], is_saved=True) as served:
        with trio.CancelScope() as scope:

            async def on_progress(progress: float, total: float | None, message: str | None) -> None:
                del progress, total, message
                await trio.lowlevel.checkpoint()
                scope.cancel()

            await served.call_tool("run", {"prompt": "go"}, progress_callback=on_progress)
        assert scope.cancelled_caught
        (row,) = facts(await served.call_tool("sessions"))["sessions"]
        ended = await served.call_tool("wait", {"session": row["session"]})
        assert facts(ended)["stop_reason"] == "aborted"


@eras
async def test_detached_work_is_waited_for_and_cancelled(tmp_path: Path, era: str) -> None:
    async with client(tmp_path, era, [Pause(1_000), *HELLO]) as served:
        begun = await served.call_tool("run", {"prompt": "go", "detach": True})
        session = facts(begun)["session"]
        assert facts(begun)["stop_reason"] is None
        running = await served.call_tool("wait", {"session": session, "seconds": 0})
        assert (facts(running)["stop_reason"], facts(running)["usage"]) == (None, None)
        busy = await served.call_tool("run", {"prompt": "more", "session": session})
        assert busy.is_error
        assert facts(await served.call_tool("cancel", {"session": session}))["cancelled"]
        assert facts(await served.call_tool("wait", {"session": session}))["stop_reason"] == "aborted"
        assert not facts(await served.call_tool("cancel", {"session": session}))["cancelled"]


async def test_progress_comes_every_few_seconds(tmp_path: Path, autojump_clock: object) -> None:
    times: list[float] = []
    numbers: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        del total, message
        await trio.lowlevel.checkpoint()
        numbers.append(progress)
        times.append(trio.current_time())

    async with client(tmp_path, "legacy", [Pause(60), *HELLO]) as served:
        await served.call_tool("run", {"prompt": "go"}, progress_callback=on_progress)
    assert len(times) > 6
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) <= 10
    assert numbers == sorted(set(numbers))


REFUSED: list[dict[str, Any]] = [
    *({name: value} for name, value in {"profile": "full", "rules": ["allow * *"], "yes": True, "trust": True}.items()),
    *({name: value} for name, value in {"base_url": "http://evil", "mcp_servers": {}, "tools": []}.items()),
    *({"model": model} for model in ("evil.example/model", "local:/tmp/x.gguf", "openai_chat:http://evil/v1/x")),
    *({"cwd": cwd} for cwd in ("..", "/", "link", "a/../..", "a\0b", "~/x")),
    *({"limits": limits} for limits in ({"steps": 0}, {"cost": -1}, {"time": 1}, {"seconds": "1"})),
    {"prompt": ""},
    {"session": "ses_unknown"},
    {"session": "../x", "cwd": "."},
]


@pytest.mark.parametrize("arguments", REFUSED, ids=str)
async def test_no_argument_widens_anything(tmp_path: Path, arguments: dict[str, Any]) -> None:
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "link").symlink_to(tmp_path)
    async with client(root, "auto", HELLO, is_saved=True) as served:
        result = await served.call_tool("run", {"prompt": "go", **arguments})
        assert result.is_error, text_of(result)
        assert facts(await served.call_tool("sessions"))["sessions"] == []


async def test_sessions_elsewhere_can_not_be_used(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    async with scripted_engine(ScriptedProvider([HELLO], repeat=True), store=str(tmp_path / "db")) as engine:
        outside = await engine.create_session(cwd=tmp_path)
        await outside.run("go")
        async with client_of(engine, root, "auto") as served:
            for tool in ("wait", "cancel", "show"):
                assert "outside" in text_of(await served.call_tool(tool, {"session": outside.id}))
            assert (await served.call_tool("run", {"prompt": "go", "session": outside.id})).is_error
            assert facts(await served.call_tool("sessions"))["sessions"] == []
            assert facts(await served.call_tool("sessions", {"query": "go"}))["sessions"] == []
        assert outside.state.turns == 1


async def test_limits_only_become_stricter(tmp_path: Path) -> None:
    answers = [[*call("read", {"path": "none"}, id=f"c{number}"), *done("calls")] for number in range(5)]
    async with client(tmp_path, "auto", *answers) as served:
        result = await served.call_tool("run", {"prompt": "go", "limits": {"steps": 2}})
    assert facts(result)["stop_reason"] == "step_limit"


async def test_forged_state_is_refused(tmp_path: Path) -> None:
    user = User(ALLOW)
    async with client(tmp_path, "auto", WRITE, HELLO, elicit=user.elicit) as served:
        state = json.dumps({"session": "ses_x", "turn": "turn_x", "asked": {}})
        with pytest.raises(MCPError, match="requestState"):
            await served.session.call_tool("run", {"prompt": "go"}, request_state=state)


async def test_nonsense_is_answered_and_the_stream_goes_on(tmp_path: Path) -> None:
    ours, theirs = trio.testing.memory_stream_pair()
    ping = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'
    with trio.fail_after(60):
        async with scripted_engine(ScriptedProvider([HELLO])) as engine, trio.open_nursery() as nursery:
            nursery.start_soon(serve, engine, theirs, tmp_path)
            await ours.send_all(b"nonsense\n\n[]\n{}\n" + b"[" * 10_000 + b"\n" + ping + b"\n")
            received = b""
            while received.count(b"\n") < 5:
                received += await ours.receive_some()
            answers = [json.loads(line) for line in received.splitlines()]
            assert [answer.get("error", {}).get("code") for answer in answers[:4]] == [-32700] * 4
            assert answers[4]["id"] == 7
            # A line without an end: the connection ends, and nothing hangs.
            await ours.send_all(b"x" * (MAX_LINE_BYTES + 1))


async def test_unknown_tool_is_a_protocol_error(tmp_path: Path) -> None:
    async with client(tmp_path, "auto", HELLO) as served:
        with pytest.raises(MCPError, match="unknown tool"):
            await served.call_tool("rm", {})


def test_every_tool_refuses_what_it_does_not_name() -> None:
    assert len(STOP_REASONS) > 20
    for tool in TOOLS:
        assert tool.checker.problem({**dict.fromkeys(tool.required, "x"), "else": 1}) is not None
        assert tool.checker.problem(dict.fromkeys(tool.required, "x")) is None
