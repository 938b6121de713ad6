"""Redirects: followed on the same host with the same request, and to no other, since that would get the key."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING

import attrs
import pytest
import trio

from engine.core.errors import ProviderProtocolError
from tests.providers.http.test_http_model import CANARY, STREAM, ask, model_at, reply_of, words

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

ANSWER = reply_of("text/event-stream", STREAM)


@attrs.define(eq=False)
class Gateway:
    """A real server on this machine: it answers each path as it is told, and keeps what it gets."""

    replies: dict[str, bytes]
    url: str = ""
    heads: list[bytes] = attrs.field(factory=list[bytes], init=False)
    bodies: list[bytes] = attrs.field(factory=list[bytes], init=False)

    @property
    def paths(self) -> list[str]:
        return [head.split()[1].decode() for head in self.heads]

    async def serve(self, stream: trio.SocketStream) -> None:
        data = b""
        async with stream:
            async for piece in stream:
                data += piece
                while b"\r\n\r\n" in data:
                    head, _, rest = data.partition(b"\r\n\r\n")
                    size = next(
                        int(line[15:]) for line in head.lower().split(b"\r\n") if line[:15] == b"content-length:"
                    )
                    if len(rest) < size:
                        break
                    self.heads.append(head)
                    self.bodies.append(rest[:size])
                    data = rest[size:]
                    await stream.send_all(self.replies[self.paths[-1]])


@asynccontextmanager
async def gateway(**replies: bytes) -> AsyncGenerator[Gateway]:
    served = Gateway({f"/{path.replace('_', '/')}": reply for path, reply in replies.items()})
    async with trio.open_nursery() as nursery:
        (listener, *_) = await nursery.start(partial(trio.serve_tcp, served.serve, 0, host="127.0.0.1"))
        served.url = f"http://127.0.0.1:{listener.socket.getsockname()[1]}"
        yield served
        nursery.cancel_scope.cancel(reason="the test is over")


def redirect(target: str, status: int = 307) -> bytes:
    return b"HTTP/1.1 %d Moved\r\nlocation: %b\r\ncontent-length: 0\r\n\r\n" % (status, target.encode())


@pytest.mark.parametrize("status", [307, 308])
async def test_redirect_on_the_same_host_is_followed(status: int) -> None:
    async with gateway(v1_messages=redirect("/eu/v1", status), eu_v1=redirect("v2", status), eu_v2=ANSWER) as host:
        model = model_at(host.url)
        assert words(await ask(model)) == "hello"
        await model.aclose()
    assert host.paths == ["/v1/messages", "/eu/v1", "/eu/v2"]
    assert len(set(host.bodies)) == 1
    assert host.bodies[0]
    assert all(head.startswith(b"POST ") and CANARY.encode() in head for head in host.heads)


async def test_redirect_to_the_full_address_of_the_same_host() -> None:
    async with gateway(eu=ANSWER) as host:
        host.replies["/v1/messages"] = redirect(f"{host.url}/eu#part")
        model = model_at(host.url)
        assert words(await ask(model)) == "hello"
        await model.aclose()
    assert host.paths == ["/v1/messages", "/eu"]


@pytest.mark.parametrize("kind", ["port", "name", "scheme", "user", "scheme-less"])
async def test_no_other_host_gets_the_key(kind: str) -> None:
    async with gateway(eu=ANSWER) as other, gateway() as host:
        target = {
            "port": f"{other.url}/eu",
            "name": f"{host.url.replace('127.0.0.1', 'localhost')}/eu",
            "scheme": f"{host.url.replace('http:', 'https:')}/eu",
            "user": f"{host.url.replace('//', '//me:secret@')}/eu",
            "scheme-less": f"{other.url.removeprefix('http:')}/eu",
        }[kind]
        host.replies |= {"/v1/messages": redirect(target), "/eu": ANSWER}
        model = model_at(host.url)
        with pytest.raises(ProviderProtocolError, match="HTTP 307 and redirects to"):
            await ask(model)
        await model.aclose()
    assert host.paths == ["/v1/messages"]
    assert other.paths == []


@pytest.mark.parametrize("status", [301, 302, 303])
async def test_redirect_that_changes_the_request_is_reported(status: int) -> None:
    async with gateway(v1_messages=redirect("/eu", status), eu=ANSWER) as host:
        model = model_at(host.url)
        with pytest.raises(ProviderProtocolError, match=f"HTTP {status} and redirects to /eu"):
            await ask(model)
        await model.aclose()
    assert host.paths == ["/v1/messages"]


async def test_circle_of_redirects_ends() -> None:
    async with gateway(v1_messages=redirect("/v1/messages")) as host:
        model = model_at(host.url)
        with pytest.raises(ProviderProtocolError, match="HTTP 307 and redirects to /v1/messages"):
            await ask(model)
        await model.aclose()
    assert len(host.paths) == 4
