"""The engine as an MCP server behind HTTP: clients of both eras, strangers, and clients that go away."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio

from engine import Engine
from engine.core.errors import ConfigError
from engine.core.events import TurnEnded, TurnStarted
from engine.mcp_server.engine_tools import EngineTools
from engine.mcp_server.http_endpoint import MAX_BODY_BYTES
from engine.mcp_server.http_listener import HttpServer
from engine.session.engine import engine_runtime
from engine.testing.script import Pause, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.support.mcp_client import (
    ERAS,
    INITIALIZE,
    INITIALIZED,
    User,
    call_message,
    field_of,
    http_client_of,
    http_request,
    http_server_of,
    messages_of,
    scripted_engine,
    text_of,
)
from tests.support.raw_http import RawAnswer, exchange, parse_answer

HELLO = [*text("Hello."), *done()]
WRITE = [*text("I'll write."), *call("write", {"path": "a.txt", "content": "one\n"}, id="c1"), *done("calls")]
SLOW = [Pause(10_000), *HELLO]
eras = pytest.mark.parametrize("era", ERAS)
# The SDK's client leaves generators unfinished.
pytestmark = [pytest.mark.os, pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")]


@asynccontextmanager
async def served(
    folder: Path, *answers: Any, question_timeout: float = 600.0
) -> AsyncGenerator[tuple[Engine, HttpServer]]:
    model = ScriptedProvider(answers, repeat=False)
    with trio.fail_after(60):
        async with (
            scripted_engine(model, tuple(builtin_tools()), store=str(folder / "store.db")) as engine,
            http_server_of(engine, folder, question_timeout=question_timeout) as server,
        ):
            yield engine, server


def port_of(server: HttpServer) -> int:
    port = urlsplit(server.url).port
    assert port is not None
    return port


@eras
async def test_client_of_each_era_runs_a_task(tmp_path: Path, era: str) -> None:
    user = User({"decision": "allow"})
    async with served(tmp_path, WRITE, HELLO) as (_, server), http_client_of(server, era, elicit=user.elicit) as client:
        assert "run" in [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("run", {"prompt": "go"})
    assert (text_of(result), len(user.asked)) == ("Hello.", 1)
    assert (tmp_path / "a.txt").read_text() == "one\n"


@eras
async def test_clients_share_the_sessions(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, HELLO) as (_, server):
        async with http_client_of(server, era) as client:
            first = await client.call_tool("run", {"prompt": "go"})
        async with http_client_of(server, era) as other:
            listed = await other.call_tool("sessions")
    (row,) = listed.structured_content["sessions"]
    assert row["session"] == first.structured_content["session"]


REFUSED: list[tuple[int, dict[str, str]]] = [
    (401, {"authorization": ""}),
    (401, {"authorization": "Bearer wrong"}),
    (401, {"authorization": "Basic eDp5"}),
    (421, {"host": "evil.example"}),
    (421, {"host": "127.0.0.1:1"}),
    (421, {"host": ""}),
    (403, {"origin": "http://evil.example"}),
    (403, {"origin": "null"}),
    (403, {"sec_fetch_site": "cross-site"}),
    (405, {"method": "PUT"}),
    (405, {"method": "OPTIONS"}),
    (404, {"path": "/"}),
    (404, {"path": "/.well-known/oauth-protected-resource"}),
    (413, {"content_length": str(MAX_BODY_BYTES + 1)}),
    (411, {"transfer_encoding": "chunked"}),
    (415, {"content_type": "text/plain"}),
    (415, {"content_type": "multipart/form-data"}),
]


@pytest.mark.parametrize(("status", "fields"), REFUSED, ids=str)
async def test_stranger_is_refused(tmp_path: Path, status: int, fields: dict[str, str]) -> None:
    async with served(tmp_path, HELLO) as (engine, server):
        port = port_of(server)
        message, usual = call_message("run", {"prompt": "go"}, "auto")
        every = {"host": f"localhost:{port}", "authorization": f"Bearer {server.token}", **usual, **fields}
        answer = await exchange(port, http_request(message, **every))
        assert answer.status == status
        assert "message" in answer.problem["error"]
        assert (field_of(answer, "www-authenticate") == "Bearer") == (status == 401)
        assert not engine_runtime(engine).sessions.by_id


async def test_nonsense_is_answered_and_the_server_goes_on(tmp_path: Path) -> None:
    async with served(tmp_path, HELLO) as (_, server):
        port = port_of(server)
        good, fields = call_message("run", {"prompt": "go"}, "auto")
        every = {"host": f"localhost:{port}", "authorization": f"Bearer {server.token}", **fields}
        for body in ({}, [], {"jsonrpc": "2.0"}, [good], {"jsonrpc": "2.0", "id": 1, "result": {}}):
            answer = await exchange(port, http_request(body, **every))  # type: ignore[arg-type]  # what no client sends
            assert 400 <= answer.status < 500
        assert messages_of(await exchange(port, http_request(good, **every)))[-1]["result"]["isError"] is False


async def start_of(port: int, token: str, era: str, tool: str, **arguments: Any) -> bytes:
    """Return the bytes of a call; for an older client it has a session of its own."""
    fields = {"host": f"localhost:{port}", "authorization": f"Bearer {token}"}
    message, more = call_message(tool, arguments, era)
    if era == "legacy":
        begun = await exchange_to_end(port, http_request(INITIALIZE, **fields))
        more["mcp_session_id"] = field_of(begun, "mcp-session-id")
        assert (await exchange_to_end(port, http_request(INITIALIZED, **fields, **more))).status == 202
    return http_request(message, **fields, **more)


async def exchange_to_end(port: int, data: bytes) -> RawAnswer:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(data)
        return parse_answer(b"".join([piece async for piece in stream]))


@eras
@pytest.mark.parametrize("detach", [False, True])
async def test_lost_client_cancels_unless_detached(tmp_path: Path, era: str, detach: bool) -> None:
    async with served(tmp_path, SLOW) as (engine, server):
        port = port_of(server)
        request = await start_of(port, server.token, era, "run", prompt="go", detach=detach)
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(request)
            while not (sessions := engine_runtime(engine).sessions.by_id):  # the request is on its way
                await trio.sleep(0.01)
            session = await engine.open_session(next(iter(sessions)))
            while not (started := [event for event in session.events() if isinstance(event, TurnStarted)]):
                await trio.sleep(0.01)
            if detach:
                assert await stream.receive_some()
        if detach:
            # It still runs, and can be cancelled.
            assert started[0].turn_id is not None
            assert session.cancel(started[0].turn_id)
        while not (ended := [event for event in session.events() if isinstance(event, TurnEnded)]):
            await trio.sleep(0.01)
        assert [event.result.stop_reason for event in ended] == ["aborted"]


@eras
async def test_question_reaches_the_client_over_its_own_request(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, WRITE, HELLO, question_timeout=0.2) as (_, server):
        # An older client that never answers: it is denied in time, over the stream of its request.
        answer = await exchange_to_end(
            port_of(server), await start_of(port_of(server), server.token, era, "run", prompt="go")
        )
    last = messages_of(answer)[-1]["result"]
    if era == "legacy":
        # It has declared no forms.
        assert last["structuredContent"]["denied"]
    else:
        assert last["resultType"] == "input_required"
        assert next(iter(last["inputRequests"].values()))["method"] == "elicitation/create"


async def test_revoked_token_is_refused_within_a_second(tmp_path: Path) -> None:
    folder = tmp_path / "tokens"
    async with scripted_engine(ScriptedProvider([HELLO])) as engine, trio.open_nursery() as nursery:
        tools = EngineTools(engine, root=str(tmp_path), folder=str(tmp_path), question_timeout=60)
        server = HttpServer(tools, port=0, folder=folder, question_timeout=60)
        await nursery.start(server.run)
        assert (folder / "token").read_text().strip() == server.token
        assert (folder / "token").stat().st_mode & 0o077 == 0
        request = await start_of(port_of(server), server.token, "auto", "sessions")
        assert (await exchange_to_end(port_of(server), request)).status == 200
        (folder / "token").unlink()
        with trio.fail_after(30):
            while (await exchange_to_end(port_of(server), request)).status != 401:
                await trio.sleep(0.05)
        server.leave()


async def test_port_in_use_is_named(tmp_path: Path) -> None:
    async with served(tmp_path, HELLO) as (engine, server):
        tools = EngineTools(engine, root=str(tmp_path), folder=str(tmp_path), question_timeout=60)
        with pytest.raises(ConfigError, match=f"port {port_of(server)}"):
            await HttpServer(tools, port=port_of(server), folder=None, question_timeout=60).run()
