"""Tokens, keys and tickets over a served engine: what is refused, what is used up, what is revoked, and what is never shown."""

from __future__ import annotations

import hmac
import json
import logging
import os
from base64 import urlsafe_b64encode
from pathlib import Path

import httpx
import pytest
import trio
from trio.testing import MockClock
from trio_websocket import ConnectionClosed, WebSocketConnection

import engine
from engine.control.credentials import ClientCredentials, Login, Peer, digest_of
from engine.control.engine_methods import EngineMethods
from engine.control.http_api import HttpApi
from engine.control.http_service import HttpService
from engine.control.opencode.opencode_api import OpencodeApi
from engine.control.server import ControlServer
from engine.control.service.engine_meter import EngineMeter
from engine.control.token_file import add_token, revoke_token
from engine.control.transport.access import AllowedAddresses
from engine.control.transport.http_connection import HttpConnection
from engine.testing.script import Answer, Pause, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.support.raw_http import UPGRADE, exchange, raw_stream, read_answer, request
from tests.support.served_engine import HELLO, Server, served

SYSTEM_PYTHON = "/usr/bin/python3"


@pytest.fixture
def clock() -> MockClock:
    """Real time, which a test may put forward."""
    return MockClock(rate=1)


async def close_code(connection: WebSocketConnection) -> int:
    with pytest.raises(ConnectionClosed) as caught:
        while True:
            await connection.get_message()
    assert caught.value.reason is not None
    return caught.value.reason.code


def http_of(server: Server) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=server.at.url, headers=server.bearer)


async def test_other_credentials_are_refused(tmp_path: Path, clock: MockClock) -> None:
    async with served(tmp_path) as server, http_of(server) as http:
        token = server.at.token
        secrets = [
            "",
            "x",
            token[:-1],
            token + "A",
            token[:20],
            token.swapcase(),
            token[::-1],
            "A" * 43,
            "ä" * 43,
            "x" * 9000,
        ]
        values = [
            *(f"Bearer {secret}" for secret in secrets),
            token,
            f"Basic {token}",
            f"Bearer\t{token}x",
            f"Bearer {token} x",
        ]
        for value in values:
            fields = f"Authorization: {value}\r\n"
            refused = await exchange(server.port, request("/v1/sessions", server.port, fields=fields))
            assert (refused.status, refused.problem["kind"]) == (401, "forbidden"), value
            clock.jump(1)
        assert (await http.get("/v1/sessions", headers={"authorization": f"bearer {token}"})).status_code == 200
        for place in (f"/v1/sessions?token={token}", f"/v1/sessions?access_token={token}"):
            assert (await http.get(place, headers={"authorization": ""})).status_code == 401


@pytest.fixture
def frozen() -> MockClock:
    """A time that stands still, so that everything is in the same second."""
    return MockClock()


async def test_failed_logins_are_limited(tmp_path: Path, frozen: MockClock) -> None:
    async with served(tmp_path) as server, http_of(server) as http:
        wrong = {"authorization": "Bearer wrong"}
        statuses = [(await http.get("/v1/status", headers=wrong)).status_code for _ in range(12)]
        assert statuses == [401] * 10 + [429] * 2
        refused = await http.get("/v1/status", headers=wrong)
        assert (refused.headers["retry-after"], refused.json()["kind"]) == ("1", "rate_limited")
        # A page learns it by the code.
        async with server.websocket(protocols=["engine.v1", "engine.ticket.wrong"]) as (_, connection):
            assert await close_code(connection) == 4429
        # Who has a good one is let in: others must not be able to lock its owner out.
        assert (await http.get("/v1/status")).status_code == 200
        async with server.websocket(token=server.at.token) as (client, _):
            await client.hello()
        link = server.at.link()
        assert link is not None
        signed_in = await http.post("/v1/login", json={"ticket": link.partition("#k=")[2]})
        assert signed_in.status_code == 200
        frozen.jump(1)
        assert (await http.get("/v1/status", headers=wrong)).status_code == 401
        frozen.jump(1)
        for _ in range(10):
            async with server.websocket() as (client, connection):
                assert "error" in await client.call("hello", **HELLO, ticket="wrong")
        assert (await http.get("/v1/status", headers=wrong)).status_code == 429
        async with server.websocket() as (client, connection):
            refused_hello = await client.call("hello", **HELLO, ticket="wrong")
            assert refused_hello["error"]["data"]["kind"] == "rate_limited"
            assert await close_code(connection) == 4429
        frozen.jump(1)


async def test_page_signs_in_again_by_proof(tmp_path: Path) -> None:
    async with served(tmp_path) as server, httpx.AsyncClient(base_url=server.at.url) as http:
        origin = {"origin": server.at.url}
        link = server.at.link()
        assert link is not None
        ticket = {"ticket": link.partition("#k=")[2]}
        kept = (await http.post("/v1/login", json=ticket, headers=origin)).json()
        assert kept["seconds"] == 12 * 3600

        async def prove(secret: str, **headers: str) -> httpx.Response:
            challenge = (await http.post("/v1/challenge", json={})).json()["challenge"]
            text = f"page\n{challenge}\nn".encode()
            proof = urlsafe_b64encode(hmac.digest(secret.encode(), text, "sha256")).rstrip(b"=").decode()
            sent = {"browser": kept["browser"], "challenge": challenge, "nonce": "n", "proof": proof}
            return await http.post("/v1/login", json=sent, headers=headers)

        key = (await prove(kept["secret"], **origin)).json()["key"]
        assert (await http.get("/v1/status", headers={"authorization": f"Bearer {key}"})).status_code == 200
        assert (await prove(kept["secret"])).status_code == 401
        assert (await prove("x" * 43, **origin)).status_code == 401
        # The secret itself opens nothing, and programs get none.
        assert (await http.get("/v1/status", headers={"authorization": f"Bearer {kept['secret']}"})).status_code == 401
        link = server.at.link()
        assert link is not None
        assert (await http.post("/v1/login", json={"ticket": link.partition("#k=")[2]})).json().keys() == {"key"}


async def test_tickets_work_once_and_for_a_while(tmp_path: Path, clock: MockClock) -> None:
    async with served(tmp_path) as server, http_of(server) as http:

        async def ticket() -> str:
            found: str = (await http.post("/v1/ticket", json={})).json()["ticket"]
            return found

        first = await ticket()
        async with server.websocket() as (client, connection):
            assert (await client.hello(ticket=first))["role"] == "full"
            # Once more, on another connection, and in the other way.
            async with server.websocket() as (other, other_connection):
                assert (await other.call("hello", **HELLO, ticket=first))["error"]["data"]["kind"] == "forbidden"
                assert await close_code(other_connection) == 4401
            async with server.websocket(protocols=["engine.v1", f"engine.ticket.{first}"]) as (_, other_connection):
                assert await close_code(other_connection) == 4401
            assert (await client.result("ping"))["time"] > 0
            assert connection.closed is None
        late = await ticket()
        clock.jump(31)
        link = server.at.link()
        assert link is not None
        async with server.websocket() as (client, connection):
            assert (await client.call("hello", **HELLO, ticket=late))["error"]["data"]["kind"] == "forbidden"
        async with server.websocket() as (client, connection):
            # A link's ticket is for the page's login, and a token is no ticket.
            assert "error" in await client.call("hello", **HELLO, ticket=link.partition("#k=")[2])
        async with server.websocket() as (client, connection):
            assert "error" in await client.call("hello", **HELLO, ticket=server.at.token)
        statuses = [(await http.post("/v1/ticket", json={})).status_code for _ in range(33)]
        assert statuses == [200] * 32 + [429]


SLOW: list[Answer] = [[*text("Well"), Pause(1_000), *done()]]


async def test_revoked_token_ends_its_connections(
    tmp_path: Path, clock: MockClock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "engine.control.audit")
    folder = tmp_path / "run"
    tokens = {name: add_token(folder, name, "full") for name in ("phone", "laptop")}
    async with served(tmp_path, *SLOW) as server, server.websocket(token=tokens["laptop"]) as (other, _):
        await other.hello("other")
        async with server.websocket(token=tokens["phone"]) as (client, connection), raw_stream(server.port) as stream:
            await client.hello("phone")
            session_id = await client.new_session(tmp_path)
            await client.result("prompt", session_id=session_id, text="Go", key="p1")
            await stream.send_all(request(f"/v1/sessions/{session_id}/stream", server.port, token=tokens["phone"]))
            received = b""
            while b"event: head" not in received:
                received += await stream.receive_some()
            await trio.to_thread.run_sync(revoke_token, folder, "phone")
            clock.jump(1)
            assert await close_code(connection) == 4403
            while not received.endswith(b"0\r\n\r\n"):
                received += await stream.receive_some()
        refused = httpx.Headers({"authorization": f"Bearer {tokens['phone']}"})
        async with http_of(server) as http:
            assert (await http.get("/v1/sessions", headers=refused)).status_code == 401
        audited = [json.loads(each.message) for each in caplog.records if each.name == "engine.control.audit"]
        facts = [(each["action"], each["token"], each.get("transport"), each["session"]) for each in audited]
        assert facts[:4] == [
            ("connect", "laptop", "websocket", ""),
            ("connect", "phone", "websocket", ""),
            ("connect", "phone", "sse", session_id),
            ("revoke", "phone", None, ""),
        ]
        # Neither the turn nor anybody else is concerned.
        assert (await other.result("session.get", session_id=session_id))["head"]["turn"] is not None


async def test_wait_ends_with_its_token(tmp_path: Path, clock: MockClock) -> None:
    token = add_token(tmp_path / "run", "phone", "full")
    answers: list[int] = []
    async with (
        served(tmp_path, *SLOW, seconds=3600) as server,
        server.unix() as owner,
        raw_stream(server.port) as stream,
        raw_stream(server.port) as calling,
    ):
        await owner.hello()
        session_id = await owner.new_session(tmp_path)
        body, fields = json.dumps({"text": "Go", "key": "p1"}), "Prefer: wait=600\r\n"
        target = f"/v1/sessions/{session_id}/prompt"
        await stream.send_all(request(target, server.port, method="POST", body=body, token=token, fields=fields))
        while (turn := (await owner.result("session.get", session_id=session_id))["head"]["turn"]) is None:
            await trio.sleep(0.01)
        params = {"session_id": session_id, "turn_id": turn["turn_id"], "timeout": 60}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "wait", "params": params})
        await calling.send_all(request("/v1/rpc", server.port, method="POST", body=body, token=token))
        await trio.to_thread.run_sync(revoke_token, tmp_path / "run", "phone")
        status = request("/v1/status", server.port, token=token)
        while (await exchange(server.port, status)).status == 200:
            await trio.sleep(0.05)

        async def read(waiting: trio.SocketStream) -> None:
            answers.append((await read_answer(waiting)).status)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(read, stream)
            nursery.start_soon(read, calling)
            while len(answers) < 2:
                await trio.testing.wait_all_tasks_blocked(0.01)
                clock.jump(10)
    assert answers == [401, 401]


@pytest.mark.parametrize("path", ["/v1/socket", "/v1/sessions/{}/stream", "/event"])
async def test_token_revoked_while_its_client_is_let_in(tmp_path: Path, path: str) -> None:
    """A client that reads nothing holds up the answer for half a minute, and has less than that of a revoked token."""
    is_sending, reads = trio.Event(), trio.Event()

    async def wait_for_reader() -> None:
        is_sending.set()
        await reads.wait()

    sent = trio.testing.MemorySendStream(send_all_hook=wait_for_reader)
    received = trio.testing.MemoryReceiveStream()
    fields, end = (UPGRADE, (4401).to_bytes(2)) if path == "/v1/socket" else ("", b"0\r\n\r\n")
    async with engine.open_engine(model=ScriptedProvider([]), store=tmp_path / "sessions.db") as eng:
        session = await eng.create_session(cwd=tmp_path)
        credentials = ClientCredentials(now=trio.current_time, random=os.urandom)
        credentials.set_tokens({digest_of("phone"): Login("phone", "full")})
        methods = EngineMethods(eng)
        server = ControlServer(methods, credentials)
        own = HttpApi(HttpService(server, methods, EngineMeter(eng, server.metrics).samples), Peer())
        api = OpencodeApi(eng, server, own) if path == "/event" else own
        received.put_data(request(path.format(session.id), 80, host="localhost", token="phone", fields=fields))
        async with trio.open_nursery() as nursery:
            stream = trio.StapledStream(sent, received)
            nursery.start_soon(HttpConnection(stream, AllowedAddresses.on_port(80), api).serve)
            await is_sending.wait()
            # Another token of the same name has taken its place.
            server.revoke(credentials.set_tokens({digest_of("other"): Login("phone", "full")}))
            reads.set()
            answer = b""
            while end not in answer:
                answer += await sent.get_data()
            received.put_eof()
    assert b"HTTP/1.1 " in answer
    assert b"event:" not in answer
    assert b"data:" not in answer


@pytest.mark.os
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
@pytest.mark.skipif(not Path(SYSTEM_PYTHON).exists(), reason="needs a Python that others may run")
async def test_other_users_are_refused_at_the_socket(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        assert server.at.socket is not None
        # Even where the folder and the socket let them in.
        for path in (server.at.socket, *server.at.socket.parents[:-2]):
            os.chmod(path, 0o777)  # noqa: PTH101  # it is about the mode
        script = (
            "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])\n"
            "try: s.sendall(b'{}\\n'); print(len(s.recv(100)) > 0)\n"
            "except OSError: print(False)"
        )
        answers: list[bytes] = []
        for user in (0, 65534):
            command = [SYSTEM_PYTHON, "-I", "-c", script, str(server.at.socket)]
            answers.append((await trio.run_process(command, user=user, cwd="/", capture_stdout=True)).stdout)
        assert answers == [b"True\n", b"False\n"]


async def test_credentials_are_shown_nowhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    host_key = "sk-ant-api03-" + "k" * 40
    seen: list[str] = []
    secrets: list[str] = []
    async with (
        served(tmp_path) as server,
        http_of(server) as http,
        server.websocket(token=server.at.token) as (client, _),
    ):
        link = server.at.link()
        assert link is not None
        secrets += [server.at.token, link.partition("#k=")[2]]
        key = (await http.post("/v1/login", json={"ticket": secrets[1]})).json()["key"]
        ticket = (await http.post("/v1/ticket", json={})).json()["ticket"]
        secrets += [key, ticket]
        await client.hello()
        session_id = await client.new_session(tmp_path)
        await client.result("subscribe", session_id=session_id, at="start")
        await client.result("prompt", session_id=session_id, text="Hi", key="p1")
        seen += [json.dumps(await client.events_until("turn_ended"))]
        for secret in secrets:
            for wrong in (secret + "x", secret[:-1]):
                seen.append((await http.get("/v1/status", headers={"authorization": f"Bearer {wrong}"})).text)
            seen.append((await http.post("/v1/login", json={"ticket": secret})).text)
            seen.append(json.dumps(await client.call("unsubscribe", sub=secret[:40])))
        # The key of a model's host is where only the engine looks for it.
        monkeypatch.setenv("ANTHROPIC_API_KEY", host_key)
        for path in (
            "/metrics",
            "/v1/tools",
            f"/v1/sessions/{session_id}/export.json",
            "/v1/status",
            "/v1/sessions",
            "/v1/clients",
            "/v1/models",
            f"/v1/sessions/{session_id}/events",
            "/",
        ):
            answer = await http.get(path)
            assert answer.status_code == 200, path
            seen += [answer.text, str(answer.headers)]
        seen += [json.dumps(await client.result("server.status")), json.dumps(await client.result("clients"))]
    files = [trio.Path("/proc/self/cmdline"), *await trio.Path(tmp_path).glob("sessions.db*")]
    seen += [
        caplog.text,
        *[value for value in os.environ.values() if value != host_key],
        *[(await file.read_bytes()).decode("latin-1") for file in files],
    ]
    for secret in [*secrets, host_key]:
        assert not [piece for piece in seen if secret in piece]
