"""A server's certificate, and another one in its place while it serves."""

from __future__ import annotations

import shutil
import ssl
from pathlib import Path

import pytest
import trio

from engine.control.listen import ServeOptions
from engine.control.service.tls_files import TlsFiles
from engine.core.errors import ConfigError
from tests.support.network import OPENSSL, make_certificates
from tests.support.served_engine import served

pytestmark = [
    pytest.mark.os,
    pytest.mark.skipif(OPENSSL is None, reason="certificates are made by the program openssl"),
]


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A certificate and its key."""
    made = tmp_path / "made"
    made.mkdir()
    make_certificates(made)
    return made / "cert.pem", made / "key.pem"


async def certificate_of(port: int) -> bytes | None:
    """Connect, and return the certificate that the server shows."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    stream = await trio.open_ssl_over_tcp_stream("127.0.0.1", port, ssl_context=context)
    async with stream:
        await stream.send_all(f"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        assert bytes(await stream.receive_some()).startswith(b"HTTP/1.1 200")
        shown = stream.getpeercert(binary_form=True)
    assert shown is None or isinstance(shown, bytes)
    return shown


async def test_new_connections_get_the_new_certificate(tmp_path: Path, files: tuple[Path, Path]) -> None:
    tls = TlsFiles(*files)
    async with served(tmp_path, options=ServeOptions(tls=tls)) as server:
        first = await certificate_of(server.port)
        replace(tmp_path, files)
        assert await certificate_of(server.port) == first
        tls.reload()
        assert await certificate_of(server.port) not in {first, None}


def replace(tmp_path: Path, files: tuple[Path, Path]) -> None:
    other = tmp_path / "other"
    other.mkdir()
    make_certificates(other)
    for path in files:
        shutil.copy(other / path.name, path)


def test_useless_files_leave_the_old_certificate(tmp_path: Path, files: tuple[Path, Path]) -> None:
    tls = TlsFiles(*files)
    before = tls.context
    certificate, key = files
    for content in ("", "nonsense", (certificate).read_text()):
        key.write_text(content)
        with pytest.raises(ConfigError, match=r"cert\.pem"):
            tls.reload()
    key.unlink()
    with pytest.raises(ConfigError, match="No such file"):
        tls.reload()
    assert tls.context is before
    with pytest.raises(ConfigError):
        TlsFiles(tmp_path / "missing", tmp_path / "missing")
