"""What a foreign suite of the protocol's rules would try, where no other test here does: one test for each rule."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import trio

from engine.acp.editor_connection import LIMITS
from engine.core.llm_types import ModelRequest
from engine.core.version import __version__
from engine.testing.script import call, done, reasoning, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.support.editor import Editor, Host, Message, editor_of

HELLO = [*text("Hello."), *done()]
WRITE = [*call("write", {"path": "a.txt", "content": "one\n"}, id="c1"), *done("calls")]
OPEN: Message = {"mcpServers": []}


def host(*answers: Any, store: Path | None = None) -> Host:
    return Host(ScriptedProvider(answers, repeat=False), builtin_tools(), store=None if store is None else str(store))


@pytest.mark.parametrize("version", [1, 2, 65_535])
async def test_any_version_is_answered_with_ours(version: int) -> None:
    async with editor_of(host()) as editor:
        result = await editor.result("initialize", protocolVersion=version)
        assert result["protocolVersion"] == 1
        assert result["agentInfo"]["version"] == __version__
        capabilities = result["agentCapabilities"]
        assert capabilities["loadSession"] is True
        assert set(capabilities["sessionCapabilities"]) == {
            "list",
            "resume",
            "close",
            "delete",
            "additionalDirectories",
        }
        assert capabilities["mcpCapabilities"] == {"http": True, "sse": False}


async def test_unknown_fields_are_ignored(tmp_path: Path) -> None:
    async with editor_of(host(HELLO)) as editor:
        await editor.result(
            "initialize", protocolVersion=1, _meta={"a": 1}, clientCapabilities={"x": {}, "_meta": None}
        )
        session = await editor.result("session/new", cwd=str(tmp_path), **OPEN, future=[1], _meta={"b": 2})
        blocks = [{"type": "text", "text": "go", "annotations": None, "_meta": {"c": 3}, "future": 4}]
        answer = await editor.call("session/prompt", sessionId=session["sessionId"], prompt=blocks, _meta={})
        assert answer["result"]["stopReason"] == "end_turn"


async def test_ids_of_texts_are_answered(tmp_path: Path) -> None:
    async with editor_of(host()) as editor:
        editor.methods["a text"] = "initialize"  # type: ignore[index]
        await editor.send({"id": "a text", "method": "initialize", "params": {"protocolVersion": 1}})
        assert "result" in await editor.wait_for(lambda m: m.get("id") == "a text")


async def test_unknown_notifications_are_ignored() -> None:
    async with editor_of(host()) as editor:
        await editor.initialize()
        await editor.notify("$/progress", token=1)
        await editor.notify("session/update", sessionId="s")
        assert (await editor.call("_vendor/request"))["error"]["code"] == -32601
        assert len(editor.seen) == 2


async def test_pieces_of_text_are_merged(tmp_path: Path, autojump_clock: object) -> None:
    async with editor_of(
        host([*reasoning("Hm. " * 200, pieces=100), *text("word " * 500, pieces=500), *done()])
    ) as editor:
        await editor.answer(await editor.prompt(await editor.new_session(tmp_path)))
        chunks = editor.updates("agent_message_chunk")
        assert editor.text() == "word " * 500
        assert editor.text("agent_thought_chunk") == "Hm. " * 200
        assert len(chunks) < 100
        assert len({chunk["messageId"] for chunk in chunks}) == 1


async def test_todo_list_is_a_plan(tmp_path: Path) -> None:
    todos = [{"content": "one", "status": "completed"}, {"content": "two", "status": "in_progress"}]
    store = tmp_path / "store.db"
    async with editor_of(
        host([*call("todo_write", {"todos": todos}, id="c1"), *done("calls")], HELLO, store=store)
    ) as editor:
        session_id = await editor.new_session(tmp_path)
        await editor.answer(await editor.prompt(session_id))
        (plan,) = editor.updates("plan")
        assert [(entry["content"], entry["status"]) for entry in plan["entries"]] == [
            ("one", "completed"),
            ("two", "in_progress"),
        ]
        # The same after a load, before its answer.
        await editor.result("session/close", sessionId=session_id)
        del editor.seen[:]
        answer = await editor.call("session/load", sessionId=session_id, cwd=str(tmp_path), **OPEN)
        assert editor.updates("plan") == [plan]
        assert editor.seen.index(answer) > editor.index_of(lambda m: "plan" in str(m))


async def test_replay_has_final_calls_and_no_terminals(tmp_path: Path) -> None:
    run = [*call("bash", {"command": "echo out"}, id="c1"), *done("calls")]
    async with editor_of(host(run, HELLO, store=tmp_path / "store.db")) as editor:
        session_id = await editor.new_session(tmp_path)
        await editor.answer(await editor.prompt(session_id))
        await editor.result("session/close", sessionId=session_id)
        del editor.seen[:]
        await editor.result("session/load", sessionId=session_id, cwd=str(tmp_path), **OPEN)
        (replayed,) = editor.updates("tool_call")
        assert replayed["status"] == "completed"
        assert "out" in replayed["content"][0]["content"]["text"]
        assert "terminal" not in json.dumps(editor.seen)


async def test_loaded_session_sends_the_same_request(tmp_path: Path) -> None:
    def made(name: str) -> tuple[ScriptedProvider, Host]:
        model = ScriptedProvider([WRITE, HELLO, HELLO], repeat=False)
        (tmp_path / "a.txt").unlink(missing_ok=True)
        return model, Host(model, builtin_tools(), profile="full", store=str(tmp_path / name))

    model, over_protocol = made("one.db")
    async with editor_of(over_protocol) as editor:
        session_id = await editor.new_session(tmp_path)
        await editor.answer(await editor.prompt(session_id))
        await editor.result("session/close", sessionId=session_id)
        await editor.result("session/load", sessionId=session_id, cwd=str(tmp_path), **OPEN)
        await editor.answer(await editor.prompt(session_id, "and now"))
    # As a host without a protocol continues it.
    other, without = made("two.db")
    async with without.open_engine() as engine:
        session = await engine.create_session(cwd=tmp_path)
        for prompt in ("go", "and now"):
            async with session.prompt(prompt) as turn:
                async for _ in turn:
                    pass
            await engine.close_session(session.id)
            session = await engine.open_session(session.id)
    assert comparable(model.requests[-1]) == comparable(other.requests[-1])


def comparable(request: ModelRequest) -> object:
    """Return a request without the ids that each engine makes."""
    ids = re.compile(r"\b(msg|call|part|turn|ses|step)_\w+")
    return ids.sub("ID", str(request.transcript)), request.system, request.tools, request.options


async def test_close_in_a_prompt_answers_it_first(tmp_path: Path) -> None:
    async with editor_of(host(WRITE)) as editor:
        editor.choose = lambda _: None
        session_id = await editor.new_session(tmp_path)
        number = await editor.prompt(session_id)
        await editor.wait_for(lambda m: m.get("method") == "session/request_permission")
        closed = await editor.call("session/close", sessionId=session_id)
        assert closed["result"] == {}
        answered = editor.index_of(lambda m: m.get("id") == number and "result" in m)
        assert editor.seen[answered]["result"]["stopReason"] == "cancelled"
        assert answered < editor.seen.index(closed)


async def test_second_answer_changes_nothing(tmp_path: Path) -> None:
    async with editor_of(host(WRITE, HELLO)) as editor:
        editor.choose = lambda _: None
        session_id = await editor.new_session(tmp_path)
        number = await editor.prompt(session_id)
        asked = await editor.wait_for(lambda m: m.get("method") == "session/request_permission")
        for option in ("reject", "allow"):
            await editor.send({"id": asked["id"], "result": {"outcome": {"outcome": "selected", "optionId": option}}})
        await editor.send({"id": 77, "result": {}})
        assert (await editor.answer(number))["result"]["stopReason"] == "end_turn"
        assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("result", [None, {}, {"outcome": "allow"}, {"outcome": {"outcome": "selected"}}, [], "allow"])
async def test_answer_that_is_none_allows_nothing(tmp_path: Path, result: object) -> None:
    async with editor_of(host(WRITE, HELLO)) as editor:
        editor.choose = lambda _: None
        number = await editor.prompt(await editor.new_session(tmp_path))
        asked = await editor.wait_for(lambda m: m.get("method") == "session/request_permission")
        await editor.send({"id": asked["id"], "result": result})
        assert (await editor.answer(number))["result"]["stopReason"] == "end_turn"
        assert not (tmp_path / "a.txt").exists()


async def test_too_large_a_message_ends_the_connection(tmp_path: Path) -> None:
    ended = trio.Event()

    async def send(editor: Editor) -> None:
        with pytest.raises((trio.BrokenResourceError, trio.ClosedResourceError)):
            while True:
                await editor.stream.send_all(b"x" * 1_000_000)
        ended.set()

    async with editor_of(host()) as editor:
        await editor.initialize()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, editor)
            with trio.fail_after(90):
                await ended.wait()
    assert LIMITS.bytes == 32 << 20


async def test_further_directories_are_named_only(tmp_path: Path) -> None:
    model = ScriptedProvider([HELLO], repeat=False)
    other = tmp_path / "other"
    async with editor_of(Host(model, builtin_tools())) as editor:
        await editor.initialize()
        session = await editor.result("session/new", cwd=str(tmp_path), **OPEN, additionalDirectories=[str(other)])
        await editor.answer(await editor.prompt(session["sessionId"]))
        assert str(other) in str(model.requests[0].transcript)
        refused = await editor.call("session/new", cwd=str(tmp_path), **OPEN, additionalDirectories=["other"])
        assert refused["error"]["code"] == -32602


async def test_sessions_do_not_mix(tmp_path: Path) -> None:
    async with editor_of(host(HELLO, HELLO, HELLO, HELLO)) as editor:
        await editor.initialize()
        ids = [(await editor.result("session/new", cwd=str(tmp_path), **OPEN))["sessionId"] for _ in range(4)]
        numbers = [await editor.prompt(session_id) for session_id in ids]
        for number in numbers:
            assert (await editor.answer(number))["result"]["stopReason"] == "end_turn"
        texts = [m["params"] for m in editor.seen if m.get("method") == "session/update" and "Hello" in str(m)]
        assert sorted(params["sessionId"] for params in texts) == sorted(ids)
