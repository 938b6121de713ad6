"""What a served engine has besides sessions and turns: uploads, exports, streams of events, grants, whole outputs."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import httpx
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.errors import RateLimited
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.testing.script import Answer, Fail, Pause, call, done, text
from engine.tools.builtin.read import READ
from tests.support.served_engine import Server, served

SentEvent = tuple[str, str, dict[str, Any]]
PNG = b"\x89PNG\r\n\x1a\nnot really"


@pytest.fixture
def clock() -> MockClock:
    """Real time, which a test may put forward."""
    return MockClock(rate=1)


def http_of(server: Server) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.at.url, headers=server.bearer, timeout=60)


@asynccontextmanager
async def event_stream(
    server: Server, session_id: str, query: str = "", last: str = ""
) -> AsyncGenerator[Callable[[], Awaitable[SentEvent | None]]]:
    """Open a stream of events; what it yields returns the next one, and None at the end."""
    head = [f"GET /v1/sessions/{session_id}/stream{query} HTTP/1.1", f"Host: 127.0.0.1:{server.port}"]
    head += [f"{name}: {value}" for name, value in server.bearer.items()]
    head += [f"Last-Event-ID: {last}"] if last else []
    async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
        await stream.send_all("\r\n".join([*head, "", ""]).encode())
        buffer = bytearray()

        async def lines() -> AsyncGenerator[str]:
            async for data in stream:
                buffer.extend(data)
                while b"\n" in buffer:
                    line, _, rest = bytes(buffer).partition(b"\n")
                    buffer[:] = rest
                    if line == b"0\r":  # the last chunk; the connection stays open for another request
                        return
                    yield line.decode().rstrip("\r")

        async with aclosing(lines()) as received:
            assert (await anext(received)).startswith("HTTP/1.1 200")
            fields: dict[str, str] = {}

            async def next_event() -> SentEvent | None:
                fields.clear()
                async for line in received:
                    # The heads of chunks are between the events, and have no colon.
                    name, _, value = line.partition(": ")
                    fields[name] = value
                    if not line and "data" in fields:
                        note = json.loads(fields["data"])
                        assert note["method"] == fields["event"]
                        return fields["id"], fields["event"], note["params"]
                return None

            yield next_event


async def test_uploads_are_attached_by_reference(tmp_path: Path) -> None:
    binary = {"content-type": "application/octet-stream"}
    async with served(tmp_path) as server, http_of(server) as http, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        sent = await http.post("/v1/uploads", content=PNG, headers=binary)
        attachment = {"upload": sent.json()["upload"], "name": "screen.png"}
        prompt = {"session_id": session_id, "text": "See", "attachments": [attachment], "key": "p1"}
        prompted = await client.result("prompt", **prompt)
        assert await client.result("prompt", **prompt) == prompted
        page = await client.result("messages", session_id=session_id)
        assert [part["type"] for part in page["messages"][0]["parts"]] == ["image", "text"]
        missing = await client.call("prompt", **{**prompt, "attachments": [{"upload": "other"}], "key": "p2"})
        assert missing["error"]["data"] == {"kind": "not_found", "retry": "no", "what": "upload"}
        assert (await http.post("/v1/uploads", content=PNG)).status_code == 415
        assert (await http.post("/v1/sessions", content=PNG, headers=binary)).status_code == 415
        anonymous = await http.post("/v1/uploads", content=PNG, headers={**binary, "authorization": "Bearer w"})
        assert anonymous.status_code == 401


async def test_exports_are_fetched_where_said(tmp_path: Path) -> None:
    async with served(tmp_path) as server, http_of(server) as http, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        turn_id = (await client.result("prompt", session_id=session_id, text="Hi <b>", key="p1"))["turn_id"]
        await client.result("wait", session_id=session_id, turn_id=turn_id)
        found = {}
        for form in ("json", "markdown", "html"):
            href = (await client.result("session.export", session_id=session_id, format=form))["href"]
            answer = await http.get(f"/{href}")
            assert answer.status_code == 200
            assert answer.headers["content-disposition"].startswith("attachment")
            found[form] = answer.text
        assert session_id in json.dumps(json.loads(found["json"]))
        assert "Hello." in found["markdown"]
        assert "Hi &lt;b&gt;" in found["html"]
        missing = await http.get("/v1/sessions/none/export.json")
        assert (missing.status_code, missing.json()["kind"]) == (404, "not_found")


async def test_stream_of_events_continues(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        seqs: list[int] = []
        last = ""
        for key in ("p1", "p2"):
            async with event_stream(server, session_id, "?at=start", last) as next_event:
                assert (head := await next_event()) is not None
                assert (head[1], head[2]["head"]["status"]["type"]) == ("head", "idle")
                await client.result("prompt", session_id=session_id, text="Hi", key=key)
                tag = ""
                while tag != "turn_ended":
                    sent = await next_event()
                    assert sent is not None
                    last, name, params = sent
                    assert (name, params["position"]) == ("events", last)
                    seqs += [event["seq"] for event in params["events"] if event["seq"]]
                    tag = params["events"][-1]["type"]
        assert seqs == list(range(1, len(seqs) + 1))
        # The same position works over the other transports.
        await client.result("subscribe", session_id=session_id, after=last)
        await client.result("session.rename", session_id=session_id, title="New")
        assert (await client.events_until("session_titled"))[0]["seq"] == seqs[-1] + 1


async def test_stream_resyncs_for_useless_positions(tmp_path: Path) -> None:
    async with served(tmp_path) as server, http_of(server) as http, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        for query, last in (("?after=nonsense", ""), ("", "nonsense")):
            async with event_stream(server, session_id, query, last) as next_event:
                for name in ("head", "resync"):
                    sent = await next_event()
                    assert sent is not None
                    assert sent[1] == name
        url = f"/v1/sessions/{session_id}/stream"
        assert (await http.get("/v1/sessions/none/stream")).status_code == 404
        assert (await http.get(url, params={"interval": "soon"})).status_code == 400
        assert (await http.get(url, headers={"authorization": ""})).status_code == 401


async def test_silent_stream_ticks_and_ends_with_drain(tmp_path: Path, clock: MockClock) -> None:
    async with served(tmp_path) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        async with event_stream(server, session_id) as next_event:
            assert (head := await next_event()) is not None
            assert head[1] == "head"
            await trio.testing.wait_all_tasks_blocked(0.01)
            clock.jump(15)
            assert (tick := await next_event()) is not None
            assert (tick[1], tick[2]["heads"]) == ("tick", {"s1": 1})
            await client.result("server.drain", seconds=0)
            await server.at.drained.wait()
            # This host does not close the engine.
            for seconds in (30, 3):
                await trio.testing.wait_all_tasks_blocked(0.01)
                clock.jump(seconds)
            while await next_event() is not None:
                pass


@attrs.frozen
class Nothing:
    pass


async def many_lines(arguments: Nothing, context: engine.ToolContext) -> str:
    """Return many lines."""
    del arguments, context
    return "".join(f"line {number}\n" for number in range(20_000))


async def test_long_output_is_read_in_pieces(tmp_path: Path) -> None:
    script: list[Answer] = [[*call("many_lines", id="c1"), *done("calls")], [*text("Done."), *done()]]
    opening: dict[str, Any] = {
        "tools": [engine.tool(many_lines), READ],
        # Where the rest of long outputs is kept.
        "files": FileOptions(spill=tmp_path / "spill"),
    }
    async with served(tmp_path, *script, **opening) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        await client.result("subscribe", session_id=session_id)
        await client.result("prompt", session_id=session_id, text="Go", key="p1")
        call_id = (await client.events_until("call_settled"))[-1]["call_id"]
        whole = "".join(f"line {number}\n" for number in range(20_000))
        piece = await client.result("output.read", session_id=session_id, call_id=call_id, offset=100_000, limit=10)
        assert piece == {"text": whole[100_000:100_010], "total": len(whole)}
        missing = await client.call("output.read", session_id=session_id, call_id="other")
        assert missing["error"]["data"]["what"] == "call"


async def test_grant_is_listed_and_revoked(tmp_path: Path) -> None:
    script: list[Answer] = [
        [*call("many_lines", id="c1"), *done("calls")],
        [*text("Done."), *done()],
        [*call("many_lines", id="c2"), *done("calls")],
        [*text("Done."), *done()],
    ]
    opening: dict[str, Any] = {"tools": [engine.tool(many_lines)], "permissions": PermissionOptions()}
    async with served(tmp_path, *script, **opening) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        await client.result("subscribe", session_id=session_id)
        await client.result("prompt", session_id=session_id, text="Go", key="p1")
        asked = (await client.events_until("permission_asked"))[-1]
        assert asked["offers"], asked
        await client.result("permission.reply", session_id=session_id, request_id=asked["request_id"], answer="always")
        await client.events_until("turn_ended")
        (grant,) = (await client.result("grant.list", session_id=session_id))["grants"]
        assert (grant["scope"], grant["session_id"]) == ("session", session_id)
        assert await client.result("grant.revoke", id=grant["id"]) == {"revoked": True}
        assert await client.result("grant.revoke", id=grant["id"]) == {"revoked": False}
        assert (await client.result("grant.list"))["grants"] == []
        await client.result("prompt", session_id=session_id, text="Again", key="p2")
        await client.events_until("permission_asked")


async def test_wait_for_a_retry_is_skipped(tmp_path: Path) -> None:
    script: list[Answer] = [[Fail(RateLimited("wait", retry_after=50))], [*text("Done."), *done()]]
    async with served(tmp_path, *script) as server, server.unix() as client:
        await client.hello()
        session_id = await client.new_session(tmp_path)
        await client.result("subscribe", session_id=session_id)
        turn_id = (await client.result("prompt", session_id=session_id, text="Go", key="p1"))["turn_id"]
        await client.events_until("retry_scheduled")
        assert await client.result("skip_wait", session_id=session_id, turn_id=turn_id) == {"sent": True}
        assert (await client.events_until("turn_ended"))[-1]["result"]["stop_reason"] == "completed"
        async with http_of(server) as http:
            assert "\nengine_provider_retries_total 1\n" in (await http.get("/metrics")).text


async def test_compaction_outlives_its_client(tmp_path: Path) -> None:
    script: list[Answer] = [
        [*text("One."), *done()],
        [Pause(0.05), *text("A summary."), *done()],
    ]
    async with served(tmp_path, *script) as server, server.unix() as watcher:
        await watcher.hello()
        session_id = await watcher.new_session(tmp_path)
        await watcher.result("subscribe", session_id=session_id)
        await watcher.result("prompt", session_id=session_id, text="Go", key="p1")
        await watcher.events_until("turn_ended")
        async with server.unix() as client:
            await client.hello()
            turn_id = (await client.result("compact", session_id=session_id, instructions="Keep it."))["turn_id"]
        ended = (await watcher.events_until("turn_ended"))[-1]
        assert ended["turn_id"] == turn_id
