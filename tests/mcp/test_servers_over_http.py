"""Servers behind URLs: calls, bad answers, private addresses, and logins that no turn begins."""

from __future__ import annotations

import gc
import json
import sys
import time
import urllib.request
from collections.abc import Generator, Mapping
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import attrs
import pytest
import trio
from mcp.shared.exceptions import MCPError

from engine.core.errors import ConfigError
from engine.mcp import McpServer
from engine.mcp.oauth import LoginFile, StoredLogin, log_in
from engine.mcp.server_requests import ConnectionLost
from tests.conftest import REPOSITORY
from tests.mcp.serving import answer, call, running, text_of
from tests.mcp.web_server import Json, Reply, WebServer, as_json, web_server
from tests.support.processes import python_process, read_line

pytestmark = [
    pytest.mark.os,
    # httpx2 leaves the generators of a stream that is given up to the garbage collector.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CALL = "tools/call"
LIST = "tools/list"


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[WebServer]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    with web_server() as server:
        yield server
    gc.collect()


async def test_tool_is_called(web: WebServer, tmp_path: Path) -> None:
    seen: list[Mapping[str, str]] = []

    def note(_: Json, headers: Mapping[str, str]) -> None:
        seen.append(headers)

    web.answer = note
    server = McpServer(url=web.url, headers={"X-Key": "${PATH}"})
    async with running(server, tmp_path) as task:
        assert (task.state.phase, task.state.protocol) == ("ready", "2026-07-28")
        assert text_of(await answer(task, call("echo"))) == "called"
    assert all(headers["X-Key"] for headers in seen)
    assert not any("Authorization" in headers for headers in seen)


TEN_LINES = """
import sys
from mcp.server.mcpserver import MCPServer
server = MCPServer("ten-lines")
@server.tool()
def add(a: int, b: int) -> int:
    "Add two numbers."
    return a + b
server.run("stdio")
"""


@pytest.mark.slow
async def test_server_of_the_sdk(tmp_path: Path) -> None:
    """Ten lines of the official package, as a user would write them; in the old era by its memory of the era."""
    async with running(McpServer(command=(sys.executable, "-c", TEN_LINES)), tmp_path) as task:
        assert task.state.protocol == "2026-07-28"
        result = await answer(task, call("add", a=2, b=3))
        assert result.structured_content == {"result": 5}
    memory = next((tmp_path / "memory").iterdir())
    document = json.loads(memory.read_text())
    document["era"] = {"kind": "legacy", "discovered": ""}
    memory.write_text(json.dumps(document))
    async with running(McpServer(command=(sys.executable, "-c", TEN_LINES)), tmp_path) as task:
        assert task.state.protocol == "2025-11-25"
        assert (await answer(task, call("add", a=2, b=3))).structured_content == {"result": 5}


@pytest.mark.parametrize(
    "bad",
    [
        Reply(status=413),
        Reply(status=500, body=b"oops"),
        Reply(body=b"<html>", headers={"Content-Type": "text/html"}),
        Reply(body=b"{", headers={"Content-Type": "application/json"}),
        Reply(body=b'"' + b"x" * (17 << 20) + b'"', headers={"Content-Type": "application/json"}),
        Reply(body=b"data: {}\n\n", headers={"Content-Type": "text/event-stream"}),
        Reply(body=b"x", headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}),
    ],
    ids=["413", "500", "html", "cut", "large", "sse", "gzip"],
)
async def test_bad_answer_costs_the_call(web: WebServer, tmp_path: Path, bad: Reply) -> None:
    web.answer = lambda message, _: bad if message.get("method") == "tools/call" else None
    async with running(McpServer(url=web.url), tmp_path, retries=(0.01,)) as task:
        with pytest.raises((MCPError, ConnectionLost)):
            await answer(task, call("echo"))
        web.answer = lambda _, __: None
        await task.wait_ready(30)
        assert text_of(await answer(task, call("echo"))) == "called"


async def test_result_without_a_type_is_complete(web: WebServer, tmp_path: Path) -> None:
    def untyped(message: Json, _: object) -> Reply | None:
        result = {"content": [{"type": "text", "text": "untyped"}]}
        return (
            as_json({"jsonrpc": "2.0", "id": message["id"], "result": result})
            if message.get("method") == CALL
            else None
        )

    web.answer = untyped
    async with running(McpServer(url=web.url), tmp_path) as task:
        assert text_of(await answer(task, call("echo"))) == "untyped"


async def test_tool_with_impossible_headers_is_refused(web: WebServer, tmp_path: Path) -> None:
    def tool(name: str, header: str) -> Json:
        properties = {"region": {"type": "string", "x-mcp-header": header}}
        return {"name": name, "inputSchema": {"type": "object", "properties": properties}}

    def list_tools(message: Json, _: object) -> Reply | None:
        tools = [tool("good", "Region"), tool("bad", "Two Words"), tool("empty", "")]
        result = {"resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "public"}
        return (
            as_json({"jsonrpc": "2.0", "id": message["id"], "result": result})
            if message.get("method") == LIST
            else None
        )

    web.answer = list_tools
    async with running(McpServer(url=web.url), tmp_path) as task:
        assert [each.name for each in task.state.listed.tools] == ["good"]
        assert {name for name, reason in task.state.listed.refused if "headers" in reason} == {"bad", "empty"}


async def test_redirect_to_another_host_is_not_followed(web: WebServer, tmp_path: Path) -> None:
    with web_server() as other:
        web.answer = lambda _, __: Reply(status=307, headers={"Location": other.url})
        async with running(McpServer(url=web.url, headers={"Authorization": "Bearer secret"}), tmp_path) as task:
            assert task.state.phase == "failed"
            assert "not followed" in task.state.reason
        assert other.requests == []


async def test_private_address_is_for_the_users_own_servers(web: WebServer, tmp_path: Path) -> None:
    async with running(McpServer(url=web.url, origin="project"), tmp_path) as task:
        assert task.state.phase == "failed"
        assert "a loopback address" in task.state.reason
        # What models are told about web pages is not for users.
        assert "get around" not in task.state.reason
    assert web.requests == []


async def test_server_that_is_gone_is_tried_again(tmp_path: Path) -> None:
    with web_server() as web:
        url = web.url
    async with running(McpServer(url=url), tmp_path) as task:
        assert task.state.phase == "failed"


# -- logins ----------------------------------------------------------------------------------------


def demands_a_token(web: WebServer) -> None:
    """Let the server refuse requests without its newest token."""

    def check(_: Json, headers: Mapping[str, str]) -> Reply | None:
        if headers.get("Authorization") in {f"Bearer {token}" for token in web.tokens}:
            return None
        about = f'Bearer resource_metadata="{web.base}/.well-known/oauth-protected-resource/mcp"'
        return attrs.evolve(as_json({}, 401), headers={"WWW-Authenticate": about, "Content-Type": "application/json"})

    web.answer = check


async def test_login_is_needed_at_once(web: WebServer, tmp_path: Path) -> None:
    demands_a_token(web)
    async with running(McpServer(url=web.url), tmp_path, retries=(0.01, 0.01)) as task:
        assert task.state.phase == "needs_auth"
        assert "engine mcp login liar" in task.state.reason
        # Nothing is tried again, and no page is looked for.
        assert set(web.requests) == {"POST /mcp"}
        assert len(web.requests) <= 2


async def test_user_logs_in(web: WebServer, tmp_path: Path) -> None:
    demands_a_token(web)
    file = LoginFile.of_user()

    def visit(url: str) -> None:
        """Do what a browser and its user would do."""
        query = parse_qs(urlsplit(url).query)
        assert query["code_challenge_method"] == ["S256"]
        assert query["resource"] == [web.url]
        pages.append(f"{query['redirect_uri'][0]}?code=c&state={query['state'][0]}&iss={web.base}")

    pages: list[str] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log_in, "liar", McpServer(url=web.url), visit, file)
        while not pages:
            await trio.sleep(0.01)
        page = await trio.to_thread.run_sync(lambda: urllib.request.urlopen(pages[0]).read())
    assert b"logged in" in page
    assert file.path.stat().st_mode & 0o777 == 0o600
    login = file.load(web.url)
    assert login is not None
    assert (login.issuer.rstrip("/"), login.token_endpoint) == (web.base, f"{web.base}/token")
    async with running(McpServer(url=web.url), tmp_path) as task:
        assert text_of(await answer(task, call("echo"))) == "called"
    assert "token-1" not in repr(login)


async def test_wrong_state_of_a_callback_is_refused(web: WebServer) -> None:
    demands_a_token(web)
    pages: list[str] = []

    def visit(url: str) -> None:
        pages.append(f"{parse_qs(urlsplit(url).query)['redirect_uri'][0]}?code=c&state=wrong&iss={web.base}")

    with pytest.RaisesGroup(pytest.RaisesExc(ConfigError, match="State parameter mismatch")):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log_in, "liar", McpServer(url=web.url), visit)
            while not pages:
                await trio.sleep(0.01)
            await trio.to_thread.run_sync(lambda: urllib.request.urlopen(pages[0]).read())
    assert LoginFile.of_user().load(web.url) is None


def stored(
    web: WebServer, *, access: str = "token-1", refresh: str = "refresh-1", is_expired: bool = False
) -> StoredLogin:
    return StoredLogin(
        url=web.url,
        issuer=web.base,
        token_endpoint=f"{web.base}/token",
        resource=web.url,
        client_id="engine-1",
        access_token=access,
        refresh_token=refresh,
        expires=1.0 if is_expired else time.time() + 3_600,
    )


@pytest.mark.parametrize("is_expired", [True, False], ids=["expired", "revoked"])
async def test_token_is_refreshed_once(web: WebServer, tmp_path: Path, is_expired: bool) -> None:
    demands_a_token(web)
    web.issue()
    LoginFile.of_user().save(stored(web, access="old", is_expired=is_expired))
    async with running(McpServer(url=web.url), tmp_path) as task:
        assert text_of(await answer(task, call("echo"))) == "called"
    assert web.requests.count("POST /token") == 1


async def test_issuer_gets_the_secret_as_it_wants(web: WebServer, tmp_path: Path) -> None:
    demands_a_token(web)
    # Of "engine-1:s%3A1": the parts are encoded by themselves.
    web.basic = "Basic ZW5naW5lLTE6cyUzQTE="
    pages: list[str] = []

    def visit(url: str) -> None:
        query = parse_qs(urlsplit(url).query)
        pages.append(f"{query['redirect_uri'][0]}?code=c&state={query['state'][0]}&iss={web.base}")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(log_in, "liar", McpServer(url=web.url), visit)
        while not pages:
            await trio.sleep(0.01)
        await trio.to_thread.run_sync(lambda: urllib.request.urlopen(pages[0]).read())
    login = LoginFile.of_user().load(web.url)
    assert login is not None
    # It has expired since: the refresh says who we are in the same way.
    LoginFile.of_user().save(attrs.evolve(login, expires=1.0))
    async with running(McpServer(url=web.url), tmp_path) as task:
        assert text_of(await answer(task, call("echo"))) == "called"
    assert web.requests.count("POST /token") == 2


@pytest.mark.parametrize("refresh", ["", "used"])
async def test_expired_login_needs_a_new_one(web: WebServer, tmp_path: Path, refresh: str) -> None:
    demands_a_token(web)
    LoginFile.of_user().save(stored(web, refresh=refresh, is_expired=True))
    async with running(McpServer(url=web.url), tmp_path) as task:
        assert task.state.phase == "needs_auth"
    assert web.requests.count("POST /token") <= 1
    assert "POST /mcp" not in web.requests


async def test_server_that_refuses_each_token_is_asked_twice(web: WebServer, tmp_path: Path) -> None:
    web.issue()
    LoginFile.of_user().save(stored(web))
    web.answer = lambda _, __: as_json({}, 401)
    async with running(McpServer(url=web.url), tmp_path) as task:
        assert task.state.phase == "needs_auth"
    assert web.requests.count("POST /token") <= 2


REFRESH = """
import sys
from pathlib import Path
from engine.mcp.oauth import LoginFile
print("go", flush=True)
sys.stdin.readline()
print(LoginFile(Path(sys.argv[1])).refresh(sys.argv[2], "token-1").access_token, flush=True)
"""


@pytest.mark.slow
def test_processes_refresh_one_after_the_other(web: WebServer) -> None:
    """A server that rotates tokens takes a second refresh with the same token for a theft."""
    web.issue()
    file = LoginFile.of_user()
    file.save(stored(web, is_expired=True))
    arguments = ("-c", REFRESH, str(file.path), web.url)
    with python_process(*arguments, cwd=REPOSITORY) as one, python_process(*arguments, cwd=REPOSITORY) as other:
        for process in (one, other):
            assert read_line(process) == "go"
        for process in (one, other):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        assert [read_line(one), read_line(other)] == ["token-2", "token-2"]
    assert web.requests.count("POST /token") == 1
