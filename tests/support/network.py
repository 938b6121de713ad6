"""Networks on the loopback: a proxy, a host behind TLS, an authority that signs its certificate."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import attrs
import trio

OPENSSL = shutil.which("openssl")
BROKEN = (trio.BrokenResourceError, trio.ClosedResourceError, OSError)


async def splice(one: trio.abc.Stream, other: trio.abc.Stream) -> None:
    """Let two connections speak to each other until one has left; close both."""

    async def pass_on(source: trio.abc.Stream, sink: trio.abc.Stream) -> None:
        with suppress(*BROKEN):
            while data := await source.receive_some(65_536):
                await sink.send_all(data)
        nursery.cancel_scope.cancel(reason="one side has left")

    async with one, other, trio.open_nursery() as nursery:
        nursery.start_soon(pass_on, one, other)
        nursery.start_soon(pass_on, other, one)


@attrs.define
class Proxy:
    """An HTTP proxy that takes every host to one port of this machine.

    Attributes:
        upstream: that port.
        asked: the first lines of the requests it was sent.
        heads: their whole heads.
    """

    upstream: int
    asked: list[str] = attrs.field(factory=list[str])
    heads: list[bytes] = attrs.field(factory=list[bytes])
    refuses: bool = False

    async def handle(self, stream: trio.SocketStream) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (data := await stream.receive_some()):
                return
            head += data
        self.heads.append(head)
        self.asked.append(head.split(b"\r\n")[0].decode())
        if self.refuses:
            await stream.send_all(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
            return
        upstream = await trio.open_tcp_stream("127.0.0.1", self.upstream)
        if head.startswith(b"CONNECT"):
            await stream.send_all(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            await upstream.send_all(head)
        await splice(stream, upstream)


@asynccontextmanager
async def proxy_to(upstream: int, *, refuses: bool = False) -> AsyncGenerator[tuple[Proxy, int]]:
    """Run a proxy; give it and its port."""
    proxy = Proxy(upstream, refuses=refuses)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, proxy.handle, 0, host="127.0.0.1"))
        yield proxy, listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel(reason="the test is over")


@attrs.frozen
class Certificates:
    """An authority of our own, and what it signed for `models.example`, `localhost` and 127.0.0.1."""

    folder: Path

    @property
    def authority(self) -> Path:
        return self.folder / "ca.pem"

    def server_context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(self.folder / "cert.pem", self.folder / "key.pem")
        return context

    def as_folder(self) -> Path:
        """Return a folder of authorities, as `SSL_CERT_DIR` wants it."""
        name = openssl(self.folder, "x509", "-hash", "-noout", "-in", "ca.pem").strip()
        hashed = self.folder / "hashed"
        hashed.mkdir(exist_ok=True)
        shutil.copy(self.authority, hashed / f"{name}.0")
        return hashed


def openssl(folder: Path, *arguments: str) -> str:
    assert OPENSSL is not None
    ran = subprocess.run([OPENSSL, *arguments], cwd=folder, check=True, capture_output=True, text=True, timeout=60)
    return ran.stdout


def make_certificates(folder: Path, *, days: int = 2) -> Certificates:
    """Make them; the server's is valid for so many *days*, and has expired if that is less than 0."""
    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        folder,
        "req",
        "-x509",
        *new_key,
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-days",
        "2",
        "-subj",
        "/CN=An authority",
        # Python 3.13 verifies strictly: an authority must say that it signs certificates.
        "-addext",
        "keyUsage=critical,keyCertSign,cRLSign",
    )
    openssl(folder, "req", *new_key, "-keyout", "key.pem", "-out", "csr.pem", "-subj", "/CN=models.example")
    (folder / "names").write_text(
        "subjectAltName=DNS:models.example,DNS:localhost,IP:127.0.0.1\nauthorityKeyIdentifier=keyid\n"
    )
    signing = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", str(days), "-extfile", "names")
    openssl(folder, "x509", "-req", "-in", "csr.pem", *signing, "-out", "cert.pem")
    return Certificates(folder)


@asynccontextmanager
async def tls_before(upstream: int, certificates: Certificates) -> AsyncGenerator[int]:
    """Put TLS before a port of this machine; give the port that speaks it."""

    async def handle(stream: trio.SSLStream[trio.SocketStream]) -> None:
        with suppress(*BROKEN):
            await stream.do_handshake()
            await splice(stream, await trio.open_tcp_stream("127.0.0.1", upstream))

    async with trio.open_nursery() as nursery:
        serve = partial(trio.serve_ssl_over_tcp, handle, 0, certificates.server_context(), host="127.0.0.1")
        listeners = await nursery.start(serve)
        yield listeners[0].transport_listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel(reason="the test is over")
