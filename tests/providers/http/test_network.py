"""Proxies and certificate authorities, from the usual variables."""

from __future__ import annotations

import socket
import traceback
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn, TypeVar

import pytest
import trio

from engine.core.errors import ConfigError, ConnectionBroken, EngineError, ProviderError
from engine.core.ids import MessageId, PartId
from engine.core.llm_types import ModelInfo, ModelRequest, StreamEvent, TextChunk
from engine.core.messages import TextPart, Transcript, UserMessage
from engine.providers.anthropic.wire import wire
from engine.providers.auth.auth import KeyAuth
from engine.providers.http.endpoint import Endpoint
from engine.providers.http.http_model import HttpModel
from engine.providers.wire.quirks import Quirks
from engine.testing.http_server import ScriptedServer
from engine.testing.script import ScriptItem, done, text
from tests.support.network import OPENSSL, Certificates, make_certificates, openssl, proxy_to, tls_before

NAME = "anthropic/claude-sonnet-4-5"
KEY = "sk-ant-canary-1618033988749894"
PASSWORD = "canary-1414213562373095"
HELLO: list[ScriptItem] = [*text("hello"), *done()]
# By this name this machine is reached too, and it does not look like it: a proxy may stand before it.
HERE = "127.1"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")
EngineErrorT = TypeVar("EngineErrorT", bound=EngineError)
needs_openssl = pytest.mark.skipif(OPENSSL is None, reason="certificates are made by the program openssl")


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("certificates"))


@asynccontextmanager
async def host() -> AsyncGenerator[tuple[ScriptedServer, int]]:
    """Run a host that says hello to everybody; give it and its port."""
    server = ScriptedServer(lambda _: HELLO)
    async with trio.open_nursery() as nursery:
        url = await nursery.start(server.serve)
        yield server, int(url.rpartition(":")[2])
        nursery.cancel_scope.cancel(reason="the test is over")


async def ask(url: str, connect_timeout: float = 5.0) -> str:
    model = HttpModel(
        ModelInfo(name=NAME),
        wire(Quirks()),
        Endpoint(base_url=url, auth=KeyAuth("x-api-key", KEY)),
        connect_timeout=connect_timeout,
    )
    message = UserMessage(id=MessageId("m"), parts=(TextPart(id=PartId("p"), text="hi"),))
    request = ModelRequest(model=NAME, system="", transcript=Transcript([message]))
    try:
        with trio.fail_after(60):
            stream = await model.open(request)
            events: list[StreamEvent] = []
            while batch := await stream.receive():
                events += batch
            await stream.aclose()
    finally:
        await model.aclose()
    return "".join(event.text for event in events if isinstance(event, TextChunk))


async def error_of(url: str, kind: type[EngineErrorT]) -> EngineErrorT:
    """Return the error of a host that can't be reached; no secret is in it."""
    with pytest.raises(kind) as caught:
        await ask(url, connect_timeout=1.0)
    reported = "".join(traceback.format_exception(caught.value))
    assert KEY not in reported
    assert PASSWORD not in reported
    return caught.value


async def failure_of(url: str, kind: type[EngineError] = ConnectionBroken) -> str:
    """Return the message of that error."""
    error = await error_of(url, kind)
    return f"{error} (retryable: {error.retryable})" if isinstance(error, ProviderError) else str(error)


async def facts_of(url: str) -> tuple[str, str]:
    """Return what failed, and what that is about."""
    info = (await error_of(url, ConnectionBroken)).info
    return info.code, info.subject


# -- proxies -------------------------------------------------------------------------


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, variable: str) -> None:
    async with host() as (server, port), proxy_to(port) as (proxy, proxy_port):
        monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy_port}")
        assert await ask("http://models.example") == "hello"
        assert proxy.asked == ["POST http://models.example/v1/messages HTTP/1.1"]
        assert [request.headers["x-api-key"] for request in server.requests] == [KEY]


async def test_no_proxy_hosts_are_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    async with host() as (_, port), proxy_to(port) as (proxy, proxy_port):
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy_port}")
        assert await ask(f"http://{HERE}:{port}") == "hello"
        assert len(proxy.asked) == 1
        monkeypatch.setenv("NO_PROXY", f"other.example,{HERE}")
        assert await ask(f"http://{HERE}:{port}") == "hello"
        assert len(proxy.asked) == 1


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_no_proxy_stands_before_this_machine(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    async with host() as (_, port), proxy_to(port) as (proxy, proxy_port):
        monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{proxy_port}")
        assert await ask(f"http://{name}:{port}") == "hello"
        assert proxy.asked == []


async def test_proxy_password_is_sent_but_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    async with host() as (_, port), proxy_to(port) as (proxy, proxy_port):
        monkeypatch.setenv("HTTP_PROXY", f"http://me:{PASSWORD}@127.0.0.1:{proxy_port}")
        assert await ask("http://models.example") == "hello"
        assert b"proxy-authorization: basic " in proxy.heads[0].lower()
    async with proxy_to(port, refuses=True) as (_, proxy_port):
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:{PASSWORD}@127.0.0.1:{proxy_port}")
        reported = await failure_of("https://models.example")
        assert "407" in reported
        assert reported.endswith("(retryable: False)")
    reported = await failure_of("http://models.example")  # the first one is gone
    assert reported.endswith("(retryable: True)")


@pytest.mark.parametrize(
    "proxy",
    [
        f"nonsense://me:{PASSWORD}@proxy.example",
        f"http://me:{PASSWORD}@proxy.example:port",
        f"socks5://me:{PASSWORD}@proxy.example",
    ],
)
async def test_an_invalid_proxy_is_reported(monkeypatch: pytest.MonkeyPatch, proxy: str) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    reported = await failure_of("https://models.example", ConfigError)
    assert reported.startswith("invalid proxy or certificate settings in the environment")


# -- facts -------------------------------------------------------------------------


async def test_facts_of_a_refused_connection() -> None:
    async with host() as (_, port):
        pass
    assert await facts_of(f"http://127.0.0.1:{port}") == ("connection_refused", f"127.0.0.1:{port}")
    assert await facts_of(f"http://[::1]:{port}") == ("connection_refused", f"[::1]:{port}")


class _NoSuchName(trio.abc.HostnameResolver):
    """Knows no name: no test asks a server."""

    async def getaddrinfo(self, *_: object, **__: object) -> NoReturn:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    async def getnameinfo(self, sockaddr: object, flags: int) -> NoReturn:
        raise AssertionError


async def test_facts_of_an_unknown_name() -> None:
    trio.socket.set_custom_hostname_resolver(_NoSuchName())
    assert await facts_of("http://models.example") == ("name_not_found", "models.example")


async def test_facts_of_a_name_that_none_can_have() -> None:
    assert await facts_of("http://models..example") == ("name_not_found", "models..example")


async def test_facts_of_a_proxy_that_asks_for_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    async with host() as (_, port), proxy_to(port, refuses=True) as (_, proxy_port):
        monkeypatch.setenv("HTTPS_PROXY", f"http://me:{PASSWORD}@127.0.0.1:{proxy_port}")
        assert await facts_of("https://models.example") == ("proxy_login", f"127.0.0.1:{proxy_port}")


@needs_openssl
async def test_facts_of_an_untrusted_certificate(certificates: Certificates) -> None:
    async with host() as (_, port), tls_before(port, certificates) as tls_port:
        assert await facts_of(f"https://127.0.0.1:{tls_port}") == ("certificate_untrusted", "")


@needs_openssl
async def test_facts_of_an_expired_certificate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path, days=-1)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    end = openssl(tmp_path, "x509", "-in", "cert.pem", "-noout", "-enddate", "-dateopt", "iso_8601")
    async with host() as (_, port), tls_before(port, certificates) as tls_port:
        facts = await facts_of(f"https://127.0.0.1:{tls_port}")
    assert facts == ("certificate_expired", end.strip().removeprefix("notAfter=").partition(" ")[0])


# -- authorities -----------------------------------------------------------------------


@needs_openssl
@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "SSL_CERT_DIR"])
@pytest.mark.parametrize("name", ["127.0.0.1", "localhost"])
async def test_an_authority_of_the_environment_is_trusted(
    monkeypatch: pytest.MonkeyPatch, certificates: Certificates, variable: str, name: str
) -> None:
    named = certificates.authority if variable == "SSL_CERT_FILE" else certificates.as_folder()
    async with host() as (_, port), tls_before(port, certificates) as tls_port:
        monkeypatch.setenv(variable, str(named))
        assert await ask(f"https://{name}:{tls_port}") == "hello"


@needs_openssl
async def test_other_certificates_are_refused(certificates: Certificates) -> None:
    async with host() as (server, port), tls_before(port, certificates) as tls_port:
        reported = await failure_of(f"https://127.0.0.1:{tls_port}")
        assert "SSL_CERT_FILE" in reported
        assert reported.endswith("(retryable: False)")
        assert server.requests == []


@needs_openssl
async def test_nor_one_for_another_name(monkeypatch: pytest.MonkeyPatch, certificates: Certificates) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    async with host() as (server, port), tls_before(port, certificates) as tls_port, proxy_to(tls_port) as (_, proxy):
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy}")
        assert "models.elsewhere" in await failure_of("https://models.elsewhere")
        assert server.requests == []


@needs_openssl
async def test_proxy_to_a_host_with_private_authority(
    monkeypatch: pytest.MonkeyPatch, certificates: Certificates
) -> None:
    async with (
        host() as (server, port),
        tls_before(port, certificates) as tls_port,
        proxy_to(tls_port) as (proxy, proxy_port),
    ):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy_port}")
        assert await ask("https://models.example") == "hello"
        assert proxy.asked == ["CONNECT models.example:443 HTTP/1.1"]
        assert KEY.encode() not in b"".join(proxy.heads)
        assert len(server.requests) == 1


async def test_missing_certificate_authorities_are_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "none.pem"))
    assert "(SSL_CERT_FILE, SSL_CERT_DIR)" in await failure_of("https://models.example", ConfigError)
    (tmp_path / "none.pem").write_text("nonsense")
    assert "certificate settings" in await failure_of("https://models.example", ConfigError)
