"""The agent of an editor: what it sends, in which order, and how prompts end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

import engine
from engine.acp.stop_reasons import PROMPT_ENDS, prompt_answer
from engine.core.errors import MissingKey
from engine.core.events import STOP_REASONS, StopReason, TurnResult
from engine.jsonrpc.rpc_messages import RpcError
from engine.testing.script import call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.builtin.question import QUESTION
from tests.support.editor import Editor, Host, Message, editor_of
from tests.support.recorded_spans import RecordedSpans

WRITE = call("write", {"path": "a.txt", "content": "one\n"}, id="c1")
HELLO = [*text("Hello."), *done()]

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def scripted(*answers: Any) -> ScriptedProvider:
    return ScriptedProvider(answers, repeat=False)


def kinds(editor: Editor) -> list[str]:
    return [update["sessionUpdate"] for update in editor.updates()]


async def test_prompt_is_streamed_and_answered(tmp_path: Path) -> None:
    async with editor_of(Host(scripted(HELLO))) as editor:
        session_id = await editor.new_session(tmp_path)
        answer = await editor.answer(await editor.prompt(session_id))
        assert answer["result"]["stopReason"] == "end_turn"
        assert answer["result"]["_meta"]["engine/stop_reason"] == "completed"
        assert editor.text() == "Hello."
        assert editor.updates("usage_update")[0]["cost"]["currency"] == "USD"
        # Nothing of the prompt comes after its answer.
        assert editor.seen[-1] == answer


async def test_updates_follow_answer_to_new_session(tmp_path: Path) -> None:
    async with editor_of(Host(scripted(HELLO))) as editor:
        await editor.initialize()
        number = await editor.begin("session/new", cwd=str(tmp_path), mcpServers=[])
        await editor.wait_for(lambda m: "config_option_update" in str(m.get("params")))
        assert editor.index_of(lambda m: m.get("id") == number) < editor.index_of(lambda m: "method" in m)
        assert kinds(editor) == ["available_commands_update", "config_option_update"]
        assert editor.updates()[0]["availableCommands"][0]["name"] == "review"


async def test_call_is_shown_from_pending_to_completed(tmp_path: Path) -> None:
    answers = [[*WRITE, *done("calls")], HELLO]
    async with editor_of(Host(scripted(*answers), builtin_tools())) as editor:
        session_id = await editor.new_session(tmp_path)
        await editor.answer(await editor.prompt(session_id))
        states = [u.get("status") for u in editor.updates() if u["sessionUpdate"].startswith("tool_call")]
        assert [state for state in states if state] == ["pending", "in_progress", "completed"]
        final = editor.updates("tool_call_update")[-1]
        path = str(tmp_path / "a.txt")
        assert final["content"] == [{"type": "diff", "path": path, "oldText": None, "newText": "one\n"}]
        (asked,) = [m["params"] for m in editor.seen if m.get("method") == "session/request_permission"]
        assert asked["toolCall"]["content"][0]["path"] == path
        options = {option["optionId"]: option for option in asked["options"]}
        assert [option["kind"] for option in asked["options"]] == [
            "allow_once",
            "allow_always",
            "allow_always",
            "reject_once",
        ]
        assert "a.txt" in options["session"]["name"]


@pytest.mark.parametrize(("option", "exists"), [("allow", True), ("session", True), ("reject", False)])
async def test_permission_decides_about_the_call(tmp_path: Path, option: str, exists: bool) -> None:
    answers = [[*WRITE, *done("calls")], HELLO]
    async with editor_of(Host(scripted(*answers), builtin_tools())) as editor:
        editor.choose = lambda _: option
        session_id = await editor.new_session(tmp_path)
        answer = await editor.answer(await editor.prompt(session_id))
        assert answer["result"]["stopReason"] == "end_turn"
        assert (tmp_path / "a.txt").exists() == exists
        assert editor.text() == "Hello."


async def test_cancelled_question_cancels_the_prompt(tmp_path: Path) -> None:
    async with editor_of(Host(scripted([*WRITE, *done("calls")]), builtin_tools())) as editor:
        editor.choose = lambda _: ""
        session_id = await editor.new_session(tmp_path)
        answer = await editor.answer(await editor.prompt(session_id))
        assert answer["result"]["stopReason"] == "cancelled"
        assert not (tmp_path / "a.txt").exists()


async def test_unanswered_question_expires(tmp_path: Path, autojump_clock: object) -> None:
    answers = [[*WRITE, *done("calls")], HELLO]
    async with editor_of(Host(scripted(*answers), builtin_tools()), question_timeout=30) as editor:
        editor.choose = lambda _: None
        session_id = await editor.new_session(tmp_path)
        answer = await editor.answer(await editor.prompt(session_id))
        assert answer["result"]["stopReason"] == "end_turn"
        (asked,) = [m for m in editor.seen if m.get("method") == "session/request_permission"]
        withdrawn = editor.index_of(lambda m: m.get("method") == "$/cancel_request")
        assert editor.seen[withdrawn]["params"] == {"requestId": asked["id"]}
        assert withdrawn < editor.seen.index(answer)


@pytest.mark.parametrize("how", ["session/cancel", "$/cancel_request", "twice"])
async def test_cancel_ends_the_prompt_once(tmp_path: Path, how: str) -> None:
    async with editor_of(Host(scripted([*WRITE, *done("calls")]), builtin_tools())) as editor:
        editor.choose = lambda _: None
        session_id = await editor.new_session(tmp_path)
        number = await editor.prompt(session_id)
        asked = await editor.wait_for(lambda m: m.get("method") == "session/request_permission")
        for method in {"twice": ["session/cancel", "session/cancel"]}.get(how, [how]):
            params = {"requestId": number} if method == "$/cancel_request" else {"sessionId": session_id}
            await editor.notify(method, **params)
        answer = await editor.answer(number)
        assert answer["result"]["stopReason"] == "cancelled"
        final = editor.updates("tool_call_update")[-1]
        assert final["status"] == "failed"
        assert final["rawOutput"] == {"status": "aborted", "reason": "not_executed"}
        assert any(m.get("params") == {"requestId": asked["id"]} for m in editor.seen)
        # An answer that comes too late changes nothing, and the session goes on.
        await editor.send({"id": asked["id"], "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}})
        await editor.notify("session/cancel", sessionId=session_id)
        await editor.result("session/set_mode", sessionId=session_id, modeId="ask")
        assert sum(m.get("id") == number and "method" not in m for m in editor.seen) == 1


async def test_cancel_overtakes_a_prompt_that_waits(tmp_path: Path) -> None:
    model = scripted(HELLO)
    async with editor_of(Host(model)) as editor:
        session_id = await editor.new_session(tmp_path)
        prompt = {"sessionId": session_id, "prompt": [{"type": "text", "text": "go"}]}
        lines = [
            {"jsonrpc": "2.0", "id": "p", "method": "session/prompt", "params": prompt},
            {"jsonrpc": "2.0", "method": "session/cancel", "params": {"sessionId": session_id}},
        ]
        editor.methods["p"] = "session/prompt"  # type: ignore[index]
        await editor.send("\n".join(map(json.dumps, lines)))
        answer = await editor.wait_for(lambda m: m.get("id") == "p")
        assert answer["result"]["stopReason"] == "cancelled"


async def test_second_prompt_is_refused(tmp_path: Path) -> None:
    async with editor_of(Host(scripted([*WRITE, *done("calls")], HELLO), builtin_tools())) as editor:
        editor.choose = lambda _: None
        session_id = await editor.new_session(tmp_path)
        first = await editor.prompt(session_id)
        asked = await editor.wait_for(lambda m: m.get("method") == "session/request_permission")
        refused = await editor.answer(await editor.prompt(session_id))
        assert refused["error"]["code"] == -32600
        # Its replay would mix with what comes.
        loading = await editor.call("session/load", sessionId=session_id, cwd=str(tmp_path), mcpServers=[])
        assert loading["error"]["code"] == -32600
        await editor.send({"id": asked["id"], "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}})
        assert (await editor.answer(first))["result"]["stopReason"] == "end_turn"


async def test_steer_reaches_the_running_turn(tmp_path: Path) -> None:
    answers = [[*WRITE, *done("calls")], HELLO]
    model = scripted(*answers)
    async with editor_of(Host(model, builtin_tools())) as editor:
        editor.choose = lambda _: None
        session_id = await editor.new_session(tmp_path)
        number = await editor.prompt(session_id)
        asked = await editor.wait_for(lambda m: m.get("method") == "session/request_permission")
        steer = [{"type": "text", "text": "and hurry"}]
        assert await editor.result("_session/steering", sessionId=session_id, prompt=steer) == {}
        await editor.send({"id": asked["id"], "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}})
        await editor.answer(number)
        assert "and hurry" in str(model.requests[-1].transcript[-1])
        # Without a prompt, nothing would answer the turn.
        late = await editor.call("_session/steering", sessionId=session_id, prompt=steer)
        assert late["error"]["code"] == -32600


async def test_load_replays_before_its_answer(tmp_path: Path) -> None:
    answers = [[*text("First."), *WRITE, *done("calls")], HELLO, HELLO]
    host = Host(scripted(*answers), builtin_tools(), store=str(tmp_path / "store.db"))
    async with editor_of(host) as editor:
        session_id = await editor.new_session(tmp_path)
        await editor.answer(await editor.prompt(session_id, "write it"))
        await editor.result("session/close", sessionId=session_id)
        del editor.seen[:]
        number = await editor.begin("session/load", sessionId=session_id, cwd=str(tmp_path), mcpServers=[])
        await editor.answer(number)
        answered = editor.index_of(lambda m: m.get("id") == number)
        replayed = [m["params"]["update"] for m in editor.seen[:answered]]
        assert [u["sessionUpdate"] for u in replayed] == [
            "user_message_chunk",
            "agent_message_chunk",
            "tool_call",
            "agent_message_chunk",
        ]
        assert replayed[0]["content"]["text"] == "write it"
        assert replayed[2]["status"] == "completed"
        # The conversation goes on, and nothing is replayed by `resume`.
        await editor.result("session/close", sessionId=session_id)
        del editor.seen[:]
        await editor.result("session/resume", sessionId=session_id, cwd=str(tmp_path))
        await editor.answer(await editor.prompt(session_id))
        assert editor.text() == "Hello."
        assert editor.text("user_message_chunk") == ""


async def test_sessions_are_listed_and_deleted(tmp_path: Path) -> None:
    host = Host(scripted(HELLO, HELLO), store=str(tmp_path / "store.db"))
    async with editor_of(host) as editor:
        first = await editor.new_session(tmp_path)
        await editor.answer(await editor.prompt(first, "hello there"))
        listed = (await editor.result("session/list", cwd=str(tmp_path)))["sessions"]
        assert [(row["sessionId"], row["title"]) for row in listed] == [(first, "hello there")]
        assert (await editor.result("session/list", cwd="/nowhere"))["sessions"] == []
        await editor.result("session/delete", sessionId=first)
        assert (await editor.result("session/list"))["sessions"] == []
        gone = await editor.call("session/load", sessionId=first, cwd=str(tmp_path), mcpServers=[])
        assert gone["error"]["code"] == -32002


async def test_options_are_set_and_announced(tmp_path: Path) -> None:
    answers = [[*WRITE, *done("calls")], HELLO]
    model = scripted(*answers)
    async with editor_of(Host(model, builtin_tools())) as editor:
        session_id = await editor.new_session(tmp_path)

        async def select(option: str, value: str) -> Message:
            return await editor.call("session/set_config_option", sessionId=session_id, configId=option, value=value)

        await select("thought_level", "high")
        await editor.result("session/set_mode", sessionId=session_id, modeId="full")
        await editor.wait_for(lambda m: "current_mode_update" in str(m))
        options = {option["id"]: option for option in (await select("mode", "full"))["result"]["configOptions"]}
        assert (options["mode"]["currentValue"], options["thought_level"]["currentValue"]) == ("full", "high")
        for option, value in (("mode", "nope"), ("thought_level", "nope"), ("colour", "red"), ("model", "nope/nope")):
            assert (await select(option, value))["error"]["code"] == -32602
        # The profile allows the call without a question, and the request has the effort.
        await editor.answer(await editor.prompt(session_id))
        assert (tmp_path / "a.txt").exists()
        assert model.requests[0].options.effort == "high"


async def test_wider_mode_waits_for_the_next_prompt(tmp_path: Path) -> None:
    other = call("write", {"path": "b.txt", "content": "two\n"}, id="c2")
    model = scripted([*WRITE, *done("calls")], [*other, *done("calls")], HELLO, [*WRITE, *done("calls")], HELLO)
    async with editor_of(Host(model, builtin_tools())) as editor:
        editor.choose = lambda _: None
        session_id = await editor.new_session(tmp_path)
        number = await editor.prompt(session_id)
        first = await editor.wait_for(lambda m: m.get("method") == "session/request_permission")
        # On the way to another mode, an editor may pass this one: the open question is still open.
        await editor.result("session/set_mode", sessionId=session_id, modeId="full")
        assert editor.updates("current_mode_update")[-1]["currentModeId"] == "full"
        assert editor.updates("config_option_update")[-1]["configOptions"][0]["currentValue"] == "full"
        await editor.result("session/set_mode", sessionId=session_id, modeId="ask")
        assert editor.updates("current_mode_update")[-1]["currentModeId"] == "ask"
        await editor.result("session/set_mode", sessionId=session_id, modeId="full")
        assert not (tmp_path / "a.txt").exists()
        allowed = {"result": {"outcome": {"outcome": "selected", "optionId": "allow"}}}
        await editor.send({"id": first["id"], **allowed})
        second = await editor.wait_for(lambda m: m.get("method") == "session/request_permission" and m != first)
        note = second["params"]["toolCall"]["content"][-1]["content"]["text"]
        assert note == "The mode 'Full access' applies from the next prompt on."
        await editor.send({"id": second["id"], **allowed})
        await editor.answer(number)
        (tmp_path / "a.txt").unlink()
        await editor.answer(await editor.prompt(session_id))
        assert (tmp_path / "a.txt").exists()
        assert len(editor.requests("session/request_permission")) == 2


async def test_stricter_mode_applies_at_once(tmp_path: Path) -> None:
    other = call("write", {"path": "b.txt", "content": "two\n"}, id="c2")
    model = scripted([*WRITE, *done("calls")], [*other, *done("calls")], HELLO)
    async with editor_of(Host(model, builtin_tools())) as editor:
        editor.choose = lambda _: None
        session_id = await editor.new_session(tmp_path)
        number = await editor.prompt(session_id)
        asked = await editor.wait_for(lambda m: m.get("method") == "session/request_permission")
        await editor.result("session/set_mode", sessionId=session_id, modeId="full")
        await editor.result("session/set_config_option", sessionId=session_id, configId="mode", value="read-only")
        await editor.send({"id": asked["id"], "result": {"outcome": {"outcome": "selected", "optionId": "allow"}}})
        await editor.answer(number)
        assert not (tmp_path / "b.txt").exists()
        assert editor.updates("current_mode_update")[-1]["currentModeId"] == "read-only"
        refused = await editor.call("session/set_mode", sessionId=session_id, modeId="nope")
        assert refused["error"]["code"] == -32602


async def test_content_of_a_prompt_reaches_the_model(tmp_path: Path) -> None:
    model = scripted(HELLO)
    async with editor_of(Host(model)) as editor:
        session_id = await editor.new_session(tmp_path)
        blocks = [
            {"type": "text", "text": "Look: /review "},
            {"type": "resource_link", "name": "a.py", "uri": "file:///p/a.py"},
            {"type": "resource", "resource": {"uri": "file:///p/b.py", "text": "print()"}},
            {"type": "image", "mimeType": "image/png", "data": "iVBORw0KGgo="},
        ]
        await editor.answer(await editor.begin("session/prompt", sessionId=session_id, prompt=blocks))
        (sent,) = model.requests[0].transcript
        assert "Review the change." in str(sent)
        assert "[a.py](file:///p/a.py)" in str(sent)
        assert "print()" in str(sent)
        assert "image/png" in str(sent)


@pytest.mark.parametrize(
    ("meta", "is_joined"), [({"traceparent": CALLER, "x": 1}, True), ({"traceparent": 7}, False), ("no object", False)]
)
async def test_prompt_joins_the_editors_trace(tmp_path: Path, meta: object, is_joined: bool) -> None:
    spans = RecordedSpans()
    async with editor_of(Host(scripted(HELLO), telemetry=spans.telemetry())) as editor:
        session_id = await editor.new_session(tmp_path)
        prompt = [{"type": "text", "text": "go"}]
        await editor.answer(await editor.begin("session/prompt", sessionId=session_id, prompt=prompt, _meta=meta))
    (turn,) = spans.named("invoke_agent")
    assert (turn.parent is not None) == is_joined
    if turn.parent is not None:
        assert f"{turn.parent.span_id:016x}" in CALLER


@pytest.mark.parametrize(
    "blocks",
    [
        [],
        [{"type": "text", "text": " "}],
        [{"type": "text"}],
        ["text"],
        [{"type": "hologram"}],
        [{"type": "image", "data": "%%%", "mimeType": "image/png"}],
        [{"type": "image", "data": "", "mimeType": "image/png"}],
        [{"type": "resource", "resource": None}],
    ],
)
async def test_bad_content_is_refused(tmp_path: Path, blocks: list[object]) -> None:
    async with editor_of(Host(scripted(HELLO))) as editor:
        session_id = await editor.new_session(tmp_path)
        answer = await editor.call("session/prompt", sessionId=session_id, prompt=blocks)
        assert answer["error"]["code"] == -32602
        assert "prompt" in answer["error"]["message"]


async def test_bad_requests_get_their_codes(tmp_path: Path) -> None:
    async with editor_of(Host(scripted(HELLO))) as editor:
        assert (await editor.call("session/new", cwd="/", mcpServers=[]))["error"]["code"] == -32600
        assert (await editor.initialize(future={"x": 1}))["protocolVersion"] == 1
        assert (await editor.call("session/nope"))["error"]["code"] == -32601
        assert (await editor.call("session/new", cwd=str(tmp_path)))["error"]["code"] == -32602
        assert (await editor.call("session/new", cwd="relative", mcpServers=[]))["error"]["code"] == -32602
        assert (await editor.call("session/new", cwd=str(tmp_path / "no"), mcpServers=[]))["error"]["code"] == -32602
        unknown = {"sessionId": "ses_no", "prompt": [{"type": "text", "text": "x"}]}
        assert (await editor.call("session/prompt", **unknown))["error"]["code"] == -32002
        await editor.send("no JSON at all")
        assert (await editor.wait_for(lambda m: m.get("id", 1) is None))["error"]["code"] == -32700
        await editor.notify("session/cancel", sessionId="ses_no")
        await editor.notify("session/cancel")
        await editor.notify("whatever/else", x=1)
        # The connection is still good.
        assert (await editor.result("session/new", cwd=str(tmp_path), mcpServers=[]))["sessionId"]


async def test_missing_key_asks_for_a_login(tmp_path: Path) -> None:
    host = Host(scripted(HELLO), error=MissingKey("no key"))
    async with editor_of(host) as editor:
        methods = (await editor.initialize(auth={"terminal": True}))["authMethods"]
        assert (methods[0]["type"], methods[0]["args"]) == ("terminal", ["auth", "add"])
        for method, params in (
            ("session/new", {"cwd": str(tmp_path), "mcpServers": []}),
            ("authenticate", {"methodId": methods[0]["id"]}),
        ):
            assert (await editor.call(method, **params))["error"] == {"code": -32000, "message": "no key"}
        host.error = None
        assert await editor.result("authenticate", methodId=methods[0]["id"]) == {}
        assert (await editor.result("session/new", cwd=str(tmp_path), mcpServers=[]))["sessionId"]


async def test_question_of_a_tool_becomes_options(tmp_path: Path) -> None:
    asking = {"question": "Which?", "choices": [{"label": "red"}, {"label": "blue", "description": "calm"}]}
    answers = [[*call("question", {"questions": [asking]}, id="c1"), *done("calls")], HELLO]
    model = scripted(*answers)
    async with editor_of(Host(model, [QUESTION])) as editor:
        editor.choose = lambda params: params["options"][1]["optionId"]
        session_id = await editor.new_session(tmp_path)
        await editor.answer(await editor.prompt(session_id))
        assert "blue" in str(model.requests[-1].transcript[-1])


async def test_question_of_a_tool_becomes_a_form(tmp_path: Path) -> None:
    asking = {"question": "Which?", "choices": [{"label": "red"}, {"label": "blue"}], "several": True}
    answers = [[*call("question", {"questions": [asking]}, id="c1"), *done("calls")], HELLO]
    model = scripted(*answers)
    async with editor_of(Host(model, [QUESTION])) as editor:
        await editor.initialize(elicitation={"form": {}})
        session = await editor.result("session/new", cwd=str(tmp_path), mcpServers=[])
        number = await editor.prompt(session["sessionId"])
        asked = await editor.wait_for(lambda m: m.get("method") == "elicitation/create")
        content = {"action": "accept", "content": {"answer": ["red", "blue"]}}
        await editor.send({"id": asked["id"], "result": content})
        await editor.answer(number)
        result = str(model.requests[-1].transcript[-1])
        assert "red" in result
        assert "blue" in result


async def test_end_of_input_settles_the_prompt(tmp_path: Path) -> None:
    async with editor_of(Host(scripted([*WRITE, *done("calls")]), builtin_tools())) as editor:
        editor.choose = lambda _: None
        session_id = await editor.new_session(tmp_path)
        number = await editor.prompt(session_id)
        await editor.wait_for(lambda m: m.get("method") == "session/request_permission")
        await editor.stream.send_stream.aclose()  # type: ignore[attr-defined]
        assert (await editor.answer(number))["result"]["stopReason"] == "cancelled"


# As the specification groups them (`eco AC8`); the others end with `end_turn`.
ANSWERS: dict[str | int, str] = {
    "max_tokens": "output_limit token_budget prompt_too_long blocking_limit compaction_ineffective",
    "max_turn_requests": "step_limit cost_limit deadline",
    "refusal": "refusal content_filter",
    "cancelled": "aborted",
    -32000: "auth_failed",
    -32603: "rate_limited provider_error internal_error",
}


def test_each_stop_reason_has_an_answer() -> None:
    expected = {reason: answer for answer, reasons in ANSWERS.items() for reason in reasons.split()}
    assert set(expected) <= set(STOP_REASONS)
    assert set(PROMPT_ENDS) == set(STOP_REASONS) == set(get_args(StopReason))
    for reason in STOP_REASONS:
        answer = prompt_answer(TurnResult(stop_reason=reason, detail="why", reset_at=5.0))
        facts = answer.data if isinstance(answer, RpcError) else answer
        assert isinstance(facts, dict)
        assert expected.get(reason, "end_turn") == (
            answer.code if isinstance(answer, RpcError) else answer["stopReason"]
        )
        assert facts["_meta"] == {"engine/stop_reason": reason, "engine/reset_at": 5.0}


async def test_limit_is_explained_in_the_last_message(tmp_path: Path) -> None:
    settings = engine.Settings(limits=engine.Limits(steps=1), wrap_up=False)
    host = Host(scripted([*WRITE, *done("calls")], HELLO), builtin_tools(), settings=settings)
    async with editor_of(host) as editor:
        session_id = await editor.new_session(tmp_path)
        answer = await editor.answer(await editor.prompt(session_id))
        assert answer["result"]["stopReason"] == "max_turn_requests"
        assert editor.text().strip().startswith("Stopped: step limit")
