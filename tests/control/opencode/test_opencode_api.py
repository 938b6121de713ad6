"""The addresses of opencode's API: who may use them, what they refuse, and the stream of events."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

import engine
from engine.control.engine_reads import EngineReads
from engine.control.listen import ServeOptions
from engine.control.opencode.event_feed import EventFeed
from engine.control.opencode.opencode_api import OpencodeApi
from engine.core.ids import SessionId
from engine.events import Choice
from engine.session.engine import engine_runtime
from engine.session.engine_options import PermissionOptions
from engine.testing.script import Answer, HttpFailure, call, done, text
from tests.support.opencode_client import ask, listening, result, shown
from tests.support.raw_http import exchange, raw_stream, request, reset_on_close
from tests.support.served_engine import NoArguments, Server, served

HELLO: list[Answer] = [[*text("Hello, you", pieces=3), *done()]]
WAITS: list[Answer] = [[*text("Well,"), *call("wait_forever", id="c1"), *done("calls")], [*text("Done."), *done()]]


@asynccontextmanager
async def opened(tmp_path: Path, *script: Answer, **opening: Any) -> AsyncGenerator[Server]:
    options = ServeOptions(folder=tmp_path / "run", adapter=OpencodeApi)
    async with served(tmp_path, *script, options=options, **opening) as server:
        yield server


async def new_session(server: Server, folder: Path) -> str:
    created = await result(server, "POST", f"/session?directory={folder}", {})
    session_id: str = created["id"]
    return session_id


async def prompt(server: Server, session_id: str, words: str = "Go") -> None:
    await result(server, "POST", f"/session/{session_id}/prompt_async", {"parts": [{"type": "text", "text": words}]})


async def until_no_streams(server: Server) -> None:
    """Wait until the server has noticed that its streams have gone."""
    while 'transport="sse"' in str((await ask(server, "GET", "/metrics")).body):
        await trio.sleep(0.01)


# -- who is let in ---------------------------------------------------------------------------


def basic(user: str, password: str) -> str:
    return f"Authorization: Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}\r\n"


async def test_token_is_the_password_of_basic_authentication(tmp_path: Path) -> None:
    async with opened(tmp_path) as server:

        async def status(target: str, fields: str, host: str = "") -> int:
            return (await exchange(server.port, request(target, server.port, fields=fields, host=host))).status

        good = basic("opencode", server.at.token)
        assert await status("/global/health", good) == 200
        assert await status("/global/health", f"Authorization: Bearer {server.at.token}\r\n") == 200
        assert await status("/v1/status", good) == 401
        # Not 401, which would say that the password is wrong.
        assert await status("/config", good) == 404
        for bad in (
            "",
            basic("opencode", "no"),
            basic(server.at.token, ""),
            "Authorization: Basic ?\r\n",
            "Authorization: Basic\r\n",
        ):
            assert await status("/event", bad) == 401
        assert await status("/session", f"{good}Origin: http://evil.example\r\n") == 403
        assert await status("/session", f"{good}Sec-Fetch-Site: cross-site\r\n") == 403
        assert await status("/session", good, host="evil.example") == 421


async def test_addresses_are_there_only_if_asked_for(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        assert (await ask(server, "GET", "/global/health")).status == 404
        assert (await ask(server, "DELETE", "/session/x")).status == 405
    async with opened(tmp_path / "other") as server:
        assert (await ask(server, "DELETE", "/v1/sessions/x")).status == 405
        assert (await ask(server, "GET", "/config")).status == 404
        untyped = f"POST /v1/ticket HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Length: 0\r\n\r\n"
        assert (await exchange(server.port, untyped.encode())).status == 401


WRONG: list[tuple[str, str, object, int]] = [
    ("POST", "/session", "{", 400),
    ("POST", "/session", "[]", 400),
    ("POST", "/session", '{"a": NaN}', 400),
    ("POST", "/session", "x" * (2 << 20), 413),
    ("POST", "/session", {"permission": [{"permission": "*", "pattern": "*", "action": "allow"}]}, 400),
    ("POST", "/session", {"title": 5}, 400),
    ("POST", "/session", {"model": {"id": "x", "providerID": "y"}}, 400),
    ("GET", "/session?limit=-1", None, 400),
    ("GET", "/session/none", None, 404),
    ("GET", "/session/none/message", None, 404),
    ("GET", "/session/none/message/x", None, 404),
    ("DELETE", "/session/none", None, 404),
    ("POST", "/session/none/abort", {}, 404),
    ("POST", "/session/none/prompt_async", {"parts": [{"type": "text", "text": "x"}]}, 404),
    ("POST", "/session/none/permissions/x", {"response": "once"}, 404),
    ("POST", "/permission/x/reply", {"reply": "once"}, 404),
    ("POST", "/question/x/reply", {"answers": [["a"]]}, 404),
    ("POST", "/session/none/share", {}, 404),
    ("GET", "/session/none/abort", None, 404),
]


async def test_wrong_requests_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as server:
        for method, target, body, status in WRONG:
            answer = await ask(server, method, target, body)
            assert (target, answer.status) == (target, status)
            if status != 413:
                assert set(answer.problem) >= {"name", "data"}
                assert answer.problem["data"]["message"]
        assert (await result(server, "GET", "/global/health"))["healthy"] is True


UNSERVED: list[object] = [
    {},
    {"parts": "x"},
    {"parts": [5]},
    {"parts": [{"type": "subtask", "prompt": "x"}]},
    {"parts": [{"type": "file", "mime": "text/plain", "url": "file:///etc/passwd"}]},
    {"parts": [{"type": "text", "text": "x"}], "noReply": True},
    {"parts": [{"type": "text", "text": "x"}], "system": "You are a cat."},
    {"parts": [{"type": "text", "text": "x"}], "agent": "plan"},
    {"parts": [{"type": "text", "text": "x"}], "model": {"providerID": "no", "modelID": "such"}},
]


async def test_prompts_that_it_cannot_serve_are_refused(tmp_path: Path) -> None:
    async with opened(tmp_path) as server:
        session_id = await new_session(server, tmp_path)
        for body in UNSERVED:
            assert (await ask(server, "POST", f"/session/{session_id}/prompt_async", body)).status == 400
        assert await result(server, "GET", f"/session/{session_id}/message") == []


# -- the stream ------------------------------------------------------------------------------


async def test_stream_continues_after_each_event(tmp_path: Path) -> None:
    script = [*WAITS[:1], *HELLO]
    async with opened(tmp_path, *script) as server, listening(server) as whole:
        session_id = await new_session(server, tmp_path)
        await prompt(server, session_id)
        while not any(
            each["type"] == "message.part.updated"
            and each["properties"]["part"].get("state", {}).get("status") == "running"
            for each in whole.all
        ):
            await whole.next()
        await result(server, "POST", f"/session/{session_id}/abort", {})
        await whole.until("session.idle")
        await prompt(server, session_id, "Again")
        await whole.until("session.idle")
        for number, name in enumerate(whole.ids[:-1]):
            async with listening(server, after=name) as resumed:
                while not resumed.all or resumed.all[-1]["id"] != whole.all[-1]["id"]:
                    await resumed.next()
                before = whole.all[: number + 1]
                assert shown([*before, *resumed.all]) == shown(whole.all)
                # A delta that was missed is in the text of its part.
                later = [each["id"] for each in whole.all[number + 1 :] if each["type"] != "message.part.delta"]
                assert [each["id"] for each in resumed.all if each["type"] != "message.part.delta"] == later


@pytest.mark.parametrize("number", [0, -1], ids=["all", "the end"])
async def test_stream_continues_after_a_restart(tmp_path: Path, number: int) -> None:
    async with opened(tmp_path, *WAITS) as server, listening(server) as before:
        session_id = await new_session(server, tmp_path)
        await prompt(server, session_id)
        await before.until("message.part.delta")
    # The turn has ended with its server, while the client was away.
    async with opened(tmp_path, *HELLO) as server, listening(server, after=before.ids[number]) as after:
        await after.until("session.idle")
        await prompt(server, session_id, "Again")
        await after.until("session.idle")
        seen = len(before.ids) + number + 1 if number < 0 else number + 1
        known = shown([*before.all[:seen], *after.all])
        missed = {each["id"] for each in before.all[seen:] if each["type"] != "message.part.delta"}
        assert missed <= {each["id"] for each in after.all}
        for each in await result(server, "GET", f"/session/{session_id}/message"):
            assert known[each["info"]["id"]] == each["info"]
            assert [known[part["id"]] for part in each["parts"]] == each["parts"]


async def test_client_that_may_only_read_opens_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, *WAITS) as server, listening(server) as before:
        session_id = await new_session(server, tmp_path)
        await prompt(server, session_id)
        await before.until("message.part.delta")
    async with opened(tmp_path, *HELLO) as server:
        for may_open in (False, True):
            feed = EventFeed(server.engine, EngineReads(server.engine), None, before.ids[-1], may_open=may_open)
            # By itself: in a stream, nothing tells when it has been done.
            await feed._open_if_missed(SessionId(session_id))
            assert (session_id in engine_runtime(server.engine).sessions.by_id) == may_open


async def test_ids_of_nothing_are_no_error(tmp_path: Path) -> None:
    ids = ("x", "0", f"0~{'A' * 4000}.1", "1~x.0")
    async with opened(tmp_path, *HELLO, *HELLO, *HELLO, *HELLO) as server:
        session_id = await new_session(server, tmp_path)
        for after in ids:
            async with listening(server, after=after) as events:
                await prompt(server, session_id)
                told = await events.until("session.idle")
                assert "Hello, you" in {part.get("text") for part in shown(told).values()}


async def test_late_client_learns_of_the_running_turn(tmp_path: Path) -> None:
    async with opened(tmp_path, *WAITS, permissions=PermissionOptions()) as server:
        session_id = await new_session(server, tmp_path)
        async with listening(server) as first:
            await prompt(server, session_id)
            asked = (await first.until("permission.asked"))[-1]["properties"]
        async with listening(server, query=f"?directory={tmp_path}") as late:
            told = await late.until("permission.asked")
            assert told[0]["properties"]["status"] == {"type": "busy"}
            assert [each["type"] for each in told[1:3]] == ["message.updated", "message.part.updated"]
            assert "Well," in {part.get("text") for part in shown(told).values()}
            assert asked["tool"]["messageID"] in shown(told)
            assert await result(server, "GET", "/session/status") == {session_id: {"type": "busy"}}
            answer = await ask(
                server, "POST", f"/session/{session_id}/permissions/{asked['id']}", {"response": "maybe"}
            )
            assert answer.status == 400
            await result(server, "POST", f"/session/{session_id}/permissions/{asked['id']}", {"response": "reject"})
            told = await late.until("session.idle")
            assert told[0]["type"] == "permission.replied"
            assert told[0]["properties"]["reply"] == "reject"
        async with listening(server, query=f"?directory={tmp_path.parent}") as elsewhere:
            other = await new_session(server, tmp_path.parent)
            assert (await elsewhere.next())["properties"]["sessionID"] == other


async def test_prompt_joins_the_turn_that_runs(tmp_path: Path) -> None:
    release = trio.Event()

    async def hold(arguments: NoArguments, context: engine.ToolContext) -> str:
        """Wait."""
        del arguments, context
        await release.wait()
        return "released"

    script: list[Answer] = [[*text("One"), *call("hold", id="c1"), *done("calls")], [*text("Two"), *done()]]
    async with opened(tmp_path, *script, tools=[engine.tool(hold)]) as server, listening(server) as events:
        session_id = await new_session(server, tmp_path)
        await prompt(server, session_id)
        await events.until("message.part.delta")
        await prompt(server, session_id, "And this")
        release.set()
        told = await events.until("session.idle")
        texts = {part.get("text") for part in shown(events.all).values()}
        assert {"Go", "And this", "One", "Two"} <= texts
        assert [each["type"] for each in told].count("session.status") == 1


async def test_slow_reader_delays_nothing_and_loses_nothing(tmp_path: Path) -> None:
    long = "".join(f"{number} " for number in range(5000))
    async with opened(tmp_path, [*text(long, pieces=1000), *done()]) as server, listening(server) as slow:
        slow.stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 4096)
        session_id = await new_session(server, tmp_path)
        async with listening(server) as quick:
            await prompt(server, session_id)
            await quick.until("session.idle")
        await slow.until("session.idle")
        assert shown(slow.all) == shown(quick.all)
        pieces = [each["properties"]["delta"] for each in slow.all if each["type"] == "message.part.delta"]
        assert "".join(pieces) in {"", long}


async def test_aborted_readers_leave_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, *WAITS) as server:
        session_id = await new_session(server, tmp_path)
        await prompt(server, session_id)
        for _ in range(20):
            async with raw_stream(server.port) as stream:
                await stream.send_all(request("/event", server.port, token=server.at.token))
                await stream.receive_some(50)
                reset_on_close(stream)
        await until_no_streams(server)
        await result(server, "POST", f"/session/{session_id}/abort", {})
        # They are counted as requests of the protocol, and so is what fails.
        assert (await ask(server, "GET", "/session/none")).status == 404
        shown_metrics = (await ask(server, "GET", "/metrics")).body.decode()
        for labels in ('method="cancel",code="ok"', 'method="session.get",code="-32004"'):
            assert f"engine_control_requests_total{{{labels}}} 1\n" in shown_metrics


async def test_disposal_ends_the_turns_of_a_directory(tmp_path: Path) -> None:
    async with opened(tmp_path, *WAITS) as server, listening(server) as events:
        session_id = await new_session(server, tmp_path)
        await prompt(server, session_id)
        await events.until("message.part.delta")
        assert await result(server, "POST", f"/instance/dispose?directory={tmp_path}") is True
        told = await events.until("server.instance.disposed")
        assert [each["type"] for each in told if each["type"].startswith("session.")][-1] == "session.idle"
        # The session is there again with the next request.
        assert (await result(server, "GET", f"/session/{session_id}"))["id"] == session_id
        assert await result(server, "DELETE", f"/session/{session_id}") is True
        assert json.loads((await ask(server, "GET", "/session")).body) == []


async def test_deletion_is_told_to_those_who_were_away(tmp_path: Path) -> None:
    async with opened(tmp_path, *HELLO) as server:
        async with listening(server) as events:
            session_id = await new_session(server, tmp_path)
            await events.until("session.created")
        await result(server, "DELETE", f"/session/{session_id}")
        async with listening(server, after=events.ids[-1]) as again:
            told = (await again.until("session.deleted"))[-1]["properties"]
            assert told["sessionID"] == told["info"]["id"] == session_id


async def test_undone_turn_leaves_the_messages(tmp_path: Path) -> None:
    script: list[Answer] = [[*text("One"), *done()], [*text("Two"), *done()]]
    async with opened(tmp_path, *script) as server, listening(server) as events, server.unix() as client:
        await client.hello()
        session_id = await new_session(server, tmp_path)
        for words in ("First", "Second"):
            await prompt(server, session_id, words)
            await events.until("session.idle")
        await client.result("undo", session_id=session_id, key="u1")
        await events.until("message.removed")
        await events.until("message.removed")
        left = await result(server, "GET", f"/session/{session_id}/message")
        assert [part["text"] for each in left for part in each["parts"] if "text" in part] == ["First", "One"]
        await client.result("redo", session_id=session_id, key="r1")
        restored = await events.until("message.part.updated")
        assert "Second" in {part.get("text") for part in shown(restored).values()}
        whole = await result(server, "GET", f"/session/{session_id}/message")
        assert len(whole) == 4
        last = await result(server, "GET", f"/session/{session_id}/message?limit=1&before={whole[-1]['info']['id']}")
        assert last == whole[-2:-1]
        assert (await ask(server, "GET", f"/session/{session_id}/message?before=none")).status == 404


async def test_fork_begins_with_the_messages_of_the_other(tmp_path: Path) -> None:
    async with opened(tmp_path, *WAITS[:1], *HELLO) as server, listening(server) as events, server.unix() as client:
        await client.hello()
        session_id = await new_session(server, tmp_path)
        await prompt(server, session_id)
        await events.until("message.part.delta")
        await result(server, "POST", f"/session/{session_id}/abort", {})
        await events.until("session.idle")
        fork = (await client.result("session.fork", session_id=session_id, key="f1"))["row"]["id"]
        messages = await result(server, "GET", f"/session/{fork}/message")
        assert [each["info"]["role"] for each in messages] == ["user", "assistant"]
        assert {each["info"]["sessionID"] for each in messages} == {fork}
        (tool,) = (part for part in messages[1]["parts"] if part["type"] == "tool")
        assert tool["state"]["status"] == "error"


async def test_question_of_a_tool_is_answered(tmp_path: Path) -> None:
    async def choose(arguments: NoArguments, context: engine.ToolContext) -> str:
        """Choose."""
        del arguments
        return str(await context.ask_user("Which one?", [Choice(label="Red"), Choice(label="Blue")]))

    asks: Answer = [*call("choose", id="c1"), *done("calls")]
    script = [asks, [*text("Done."), *done()], asks, [*text("Done."), *done()]]
    async with opened(tmp_path, *script, tools=[engine.tool(choose)]) as server, listening(server) as events:
        session_id = await new_session(server, tmp_path)
        for how, body in (("reply", {"answers": [["Blue"]]}), ("reject", {})):
            await prompt(server, session_id)
            question = (await events.until("question.asked"))[-1]["properties"]
            assert question["questions"][0]["options"][1]["label"] == "Blue"
            await result(server, "POST", f"/question/{question['id']}/{how}", body)
            told = [each["type"] for each in await events.until("session.idle")]
            assert ("question.replied" if how == "reply" else "question.rejected") in told


async def test_failed_turn_says_why_before_it_is_idle(tmp_path: Path) -> None:
    async with opened(tmp_path, [HttpFailure(401)]) as server, listening(server) as events:
        session_id = await new_session(server, tmp_path)
        await prompt(server, session_id)
        told = await events.until("session.idle")
        (error,) = (each["properties"]["error"] for each in told if each["type"] == "session.error")
        assert error["name"] == "ProviderAuthError"
