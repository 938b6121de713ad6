"""Sockets that a server is given, or opens: what they must be, and who has the port."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.control.service.listening_sockets import ListeningSockets, port_holder
from engine.core.errors import ConfigError
from tests.conftest import NOBODY

pytestmark = pytest.mark.os


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


def tcp() -> int:
    return socket.create_server(("127.0.0.1", 0)).detach()


def not_listening() -> int:
    made = socket.socket()
    made.bind(("127.0.0.1", 0))
    return made.detach()


def datagram() -> int:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM).detach()


def file() -> int:
    return os.open(os.devnull, os.O_RDONLY)


async def test_adopted_sockets_keep_their_places(tmp_path: Path) -> None:
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(tmp_path / "s"))
    made.listen()
    web, local = tcp(), made.detach()
    sockets = ListeningSockets.adopt([("http", web), ("control", local)])
    assert sockets.named == [("http", web), ("control", local)]
    assert sockets.control_path == str(tmp_path / "s")
    assert not os.get_inheritable(web)
    await sockets.complete("127.0.0.1", 0, tmp_path / "other")
    assert sockets.named == [("http", web), ("control", local)]
    sockets.close()
    assert (tmp_path / "s").exists()  # it is the manager's
    assert not is_open(web)


@pytest.mark.parametrize(
    ("name", "make", "error"),
    [
        ("web", tcp, "'web' is not known"),
        ("control", tcp, "'control' is of the family AF_INET"),
        ("http", not_listening, "not a stream socket that listens"),
        ("http", datagram, "not a stream socket that listens"),
        ("http", file, "'http' is no socket"),
    ],
)
async def test_other_descriptors_are_refused_and_closed(name: str, make: Callable[[], int], error: str) -> None:
    good, bad, rest = tcp(), make(), tcp()
    with pytest.raises(ConfigError, match=error):
        ListeningSockets.adopt([("http", good), (name, bad), ("http", rest)])
    assert [is_open(each) for each in (good, bad, rest)] == [False, False, False]


async def test_own_sockets_are_opened_and_removed(tmp_path: Path) -> None:
    (tmp_path / "s").touch()  # of a dead server
    sockets = ListeningSockets()
    await sockets.complete("127.0.0.1", 0, tmp_path / "s")
    assert (tmp_path / "s").stat().st_mode & 0o777 == 0o600
    host, port = sockets.address
    assert port_holder(port).endswith(f"(process {os.getpid()})")
    with pytest.raises(ConfigError, match=rf"port {port}: .*; .* \(process {os.getpid()}\) listens there"):
        await ListeningSockets().complete(host, port, None)
    sockets.close()
    assert not (tmp_path / "s").exists()
    assert port_holder(port) == ""


async def test_t16_path_of_another_user_is_refused(tmp_path: Path, not_root: None) -> None:
    """In a folder like /tmp, where each user removes only what is their own."""
    if os.getuid() != 0:
        pytest.skip("only root can be another user")
    path = tmp_path / "shared" / "control.sock"
    os.seteuid(0)
    path.parent.mkdir()
    path.parent.chmod(0o1777)
    theirs = socket.socket(socket.AF_UNIX)
    with theirs:
        theirs.bind(os.fspath(path))
        theirs.listen()
        os.seteuid(NOBODY)
        sockets = ListeningSockets()
        with pytest.raises(ConfigError, match=rf"can't listen at {path}: Operation not permitted"):
            await sockets.complete("127.0.0.1", 0, path)
        sockets.close()
        assert path.owner() == "root"


async def test_long_path_is_an_error(tmp_path: Path) -> None:
    sockets = ListeningSockets()
    with pytest.raises(ConfigError, match="can't listen at"):
        await sockets.complete("127.0.0.1", 0, tmp_path / ("x" * 120))
    sockets.close()
