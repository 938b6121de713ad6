"""Google credentials, with a real token server on the loopback and a generated service account."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
import trio
import trio.testing

from engine.core.errors import AuthFailed, ConfigError, ConnectionBroken, ModelNotFound, Overloaded
from engine.core.ids import MessageId, PartId
from engine.core.llm_types import Finished, ModelRequest, StreamEvent
from engine.core.messages import TextPart, Transcript, UserMessage
from engine.core.threads import current_limiter
from engine.providers.auth.auth import UnsignedRequest
from engine.providers.auth.google import KEY_FILE, SCOPE, GoogleAuth, _send, _translate_error, google_auth
from engine.providers.registry import ProviderModel, resolve
from engine.providers.wire.wire_format import Body
from engine.testing.loopback import Connection, LoopbackServer, ReceivedRequest

pytest.importorskip("google.auth", reason="the extra vertex is not installed")

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from google.auth import exceptions, jwt

pytestmark = pytest.mark.os

REQUEST = UnsignedRequest(method="POST", url="https://x.example", headers={}, body=Body(pieces=()))
MAIL = "robot@project.example"
HOUR, SHORT = 3_600, 100


def answer(status: int, body: object) -> bytes:
    document = json.dumps(body).encode()
    return b"HTTP/1.1 %d X\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
        status,
        len(document),
        document,
    )


class TokenServer(LoopbackServer):
    """Hands out tokens that are numbered; refuses, or waits before it does, if it is told to."""

    def __init__(self, *, lasting: int = HOUR, refusal: tuple[int, Mapping[str, str]] | None = None) -> None:
        super().__init__(largest_piece=None, seed=0)
        self.lasting = lasting
        self.refusal = refusal
        self.received = trio.Event()
        self.go_on = trio.Event()
        self.go_on.set()

    async def _answer(self, request: ReceivedRequest, connection: Connection) -> bool:
        self.requests.append(request)
        self.received.set()
        await self.go_on.wait()
        if self.refusal is not None:
            await connection.send(answer(*self.refusal))
        else:
            token = f"token-{len(self.requests)}"
            body = {"access_token": token, "expires_in": self.lasting, "token_type": "Bearer"}
            await connection.send(answer(200, body))
        return True


@pytest.fixture(scope="module")
def key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65_537, key_size=2_048)


def key_file(folder: Path, key: rsa.RSAPrivateKey, url: str) -> str:
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    account = {
        "type": "service_account",
        "project_id": "project",
        "private_key_id": "k1",
        "private_key": pem.decode(),
        "client_email": MAIL,
        "client_id": "1",
        "token_uri": f"{url}/token",
    }
    path = folder / "account.json"
    path.write_text(json.dumps(account))
    return str(path)


async def test_service_account_token_is_cached(tmp_path: Path, key: rsa.RSAPrivateKey) -> None:
    server = TokenServer()
    async with trio.open_nursery() as nursery:
        auth = GoogleAuth(key_file(tmp_path, key, await nursery.start(server.serve)))
        assert not auth.secrets
        assert await auth.headers(REQUEST) == {"authorization": "Bearer token-1"}
        with trio.testing.assert_no_checkpoints():
            again = await auth.headers(REQUEST)
        assert again == {"authorization": "Bearer token-1"}
        assert auth.secrets == ("token-1",)
        nursery.cancel_scope.cancel(reason="the test is over")
    (request,) = server.requests
    assert (request.method, request.target) == ("POST", "/token")
    (assertion,) = parse_qs(request.body.decode())["assertion"]
    public = key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    untyped: Any = jwt
    claims = untyped.decode(assertion, certs=public, verify=True, audience="https://oauth2.googleapis.com/token")
    assert (claims["iss"], claims["scope"]) == (MAIL, SCOPE)
    assert "token-1" not in repr(auth)


async def test_many_requests_at_once_ask_once(tmp_path: Path, key: rsa.RSAPrivateKey) -> None:
    """And while they wait, the threads are there for others."""
    server = TokenServer()
    server.go_on = trio.Event()
    seen: list[Mapping[str, str]] = []

    async def ask(auth: GoogleAuth) -> None:
        seen.append(await auth.headers(REQUEST))

    async with trio.open_nursery() as nursery:
        auth = GoogleAuth(key_file(tmp_path, key, await nursery.start(server.serve)))
        async with trio.open_nursery() as askers:
            for _ in range(50):
                askers.start_soon(ask, auth)
            await server.received.wait()
            assert current_limiter().borrowed_tokens == 1
            server.go_on.set()
        nursery.cancel_scope.cancel(reason="the test is over")
    assert seen == [{"authorization": "Bearer token-1"}] * 50
    assert len(server.requests) == 1


async def test_a_token_that_will_soon_expire_is_replaced(tmp_path: Path, key: rsa.RSAPrivateKey) -> None:
    server = TokenServer(lasting=SHORT)
    async with trio.open_nursery() as nursery:
        auth = GoogleAuth(key_file(tmp_path, key, await nursery.start(server.serve)))
        tokens = [(await auth.headers(REQUEST))["authorization"] for _ in range(3)]
        server.lasting = HOUR
        tokens += [(await auth.headers(REQUEST))["authorization"] for _ in range(2)]
        nursery.cancel_scope.cancel(reason="the test is over")
    assert tokens == ["Bearer token-1", "Bearer token-2", "Bearer token-3", "Bearer token-4", "Bearer token-4"]
    assert auth.secrets == ("token-3", "token-4")


async def test_a_cancelled_refresh_serves_the_next_request(tmp_path: Path, key: rsa.RSAPrivateKey) -> None:
    """A cancel is prompt, though the thread is at work; and nobody asks a second time beside it."""
    server = TokenServer()
    server.go_on = trio.Event()
    async with trio.open_nursery() as nursery:
        auth = GoogleAuth(key_file(tmp_path, key, await nursery.start(server.serve)))
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as askers:
                askers.start_soon(auth.headers, REQUEST)
                askers.start_soon(auth.headers, REQUEST)
                await server.received.wait()
                scope.cancel(reason="enough")
        assert scope.cancelled_caught
        assert len(server.requests) == 1
        async with trio.open_nursery() as askers:
            askers.start_soon(auth.headers, REQUEST)
            await trio.testing.wait_all_tasks_blocked(0.01)
            server.go_on.set()
        assert await auth.headers(REQUEST) == {"authorization": "Bearer token-1"}
        nursery.cancel_scope.cancel(reason="the test is over")
    assert len(server.requests) == 1


async def test_credentials_that_are_refused(tmp_path: Path, key: rsa.RSAPrivateKey) -> None:
    refusal = (400, {"error": "invalid_grant", "error_description": "Invalid JWT Signature."})
    server = TokenServer(refusal=refusal)
    async with trio.open_nursery() as nursery:
        auth = GoogleAuth(key_file(tmp_path, key, await nursery.start(server.serve)))
        with pytest.raises(AuthFailed) as caught:
            await auth.headers(REQUEST)
        assert "Invalid JWT Signature." in str(caught.value)
        assert KEY_FILE in str(caught.value)
        assert not caught.value.retryable
        server.refusal = None  # the account was put right
        assert await auth.headers(REQUEST) == {"authorization": "Bearer token-2"}
        nursery.cancel_scope.cancel(reason="the test is over")


async def test_a_token_server_that_is_not_there(tmp_path: Path, key: rsa.RSAPrivateKey) -> None:
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    await listener.aclose()
    auth = GoogleAuth(key_file(tmp_path, key, f"http://127.0.0.1:{port}"))
    with pytest.raises(ConnectionBroken) as caught:
        await auth.headers(REQUEST)
    assert caught.value.retryable


def test_a_token_server_that_fails_may_recover() -> None:
    """google-auth itself has tried again by then, with seconds in between."""
    failures: Any = exceptions
    error = _translate_error(failures.RefreshError("try later", retryable=True))
    assert (type(error), error.retryable) == (Overloaded, True)


@pytest.mark.parametrize("content", [None, "no JSON", "{}", '{"type": "service_account", "private_key": "x"}'])
async def test_a_file_without_credentials(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "account.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigError, match="gcloud auth application-default login"):
        await GoogleAuth(str(path)).headers(REQUEST)


async def test_application_default_credentials(
    tmp_path: Path, key: rsa.RSAPrivateKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """google-auth finds it by itself, where the engine is told of no file."""
    server = TokenServer()
    async with trio.open_nursery() as nursery:
        monkeypatch.setenv(KEY_FILE, key_file(tmp_path, key, await nursery.start(server.serve)))
        assert await google_auth({}).headers(REQUEST) == {"authorization": "Bearer token-1"}
        nursery.cancel_scope.cancel(reason="the test is over")


def test_credentials_that_need_more_than_http() -> None:
    with pytest.raises(exceptions.TransportError, match="cert"):
        _send("http://127.0.0.1:1/", cert=("a", "b"))


def test_without_google_auth_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['google'] = None\n"
        "from engine.providers.registry import resolve\n"
        "resolve('vertex/gemini-2.5-pro', {'GOOGLE_CLOUD_PROJECT': 'p', 'GOOGLE_CLOUD_LOCATION': 'global'})\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment, timeout=60
    )
    assert "ConfigError: Vertex needs google-auth: pip install 'nursery-engine[vertex]'" in run.stderr


# -- all of it ---------------------------------------------------------------------------------


class Vertex(TokenServer):
    """A token server that answers as Gemini at any other path."""

    async def _answer(self, request: ReceivedRequest, connection: Connection) -> bool:
        if request.target == "/token":
            return await super()._answer(request, connection)
        self.requests.append(request)
        if request.target.endswith(":streamRawPredict"):
            await connection.send(answer(404, {"error": {"code": 404, "status": "NOT_FOUND", "message": "no Claude"}}))
            return True
        event = {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]}
        await connection.send(answer(200, event))
        return True


async def test_a_question_to_vertex(tmp_path: Path, key: rsa.RSAPrivateKey) -> None:
    server = Vertex()
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        env = {
            KEY_FILE: key_file(tmp_path, key, url),
            "GOOGLE_VERTEX_BASE_URL": url,
            "GOOGLE_CLOUD_PROJECT": "my-project",
            "GOOGLE_CLOUD_LOCATION": "europe-west4",
        }
        async with aclosing(resolve("vertex/gemini-2.5-pro", env)) as model:
            events = await answer_of(model)
        async with aclosing(resolve("vertex-anthropic/claude-sonnet-4-5@20250929", env)) as claude:
            with pytest.raises(ModelNotFound, match="no Claude"):
                await answer_of(claude)
        nursery.cancel_scope.cancel(reason="the test is over")
    assert events[-1] == Finished("stop", "STOP")
    _, question, _, other = server.requests
    assert question.target == (
        "/v1beta1/projects/my-project/locations/europe-west4/publishers/google/models/gemini-2.5-pro"
        ":streamGenerateContent?alt=sse"
    )
    assert question.headers["authorization"] == "Bearer token-1"
    assert other.target.endswith("/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict")


async def answer_of(model: ProviderModel) -> list[StreamEvent]:
    message = UserMessage(id=MessageId("m"), parts=(TextPart(id=PartId("p"), text="hi"),))
    stream = await model.open(ModelRequest(model=model.info.name, system="", transcript=Transcript([message])))
    events: list[StreamEvent] = []
    while batch := await stream.receive():
        events += batch
    await stream.aclose()
    return events
