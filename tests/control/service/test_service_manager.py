"""What a service manager passes to a server in its environment, and what it is told."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from engine.control.service.service_manager import ServiceManager
from engine.core.errors import ConfigError

pytestmark = pytest.mark.os
OWN = str(os.getpid())


@pytest.mark.parametrize(
    ("variables", "sockets", "watchdog"),
    [
        ({}, (), None),
        ({"LISTEN_PID": "1", "LISTEN_FDS": "2", "WATCHDOG_PID": "1", "WATCHDOG_USEC": "5"}, (), None),
        ({"LISTEN_PID": OWN, "LISTEN_FDS": "2", "LISTEN_FDNAMES": "control:http"}, (("control", 3), ("http", 4)), None),
        ({"LISTEN_PID": OWN, "LISTEN_FDS": "0"}, (), None),
        ({"WATCHDOG_USEC": "2500000"}, (), 2.5),
        ({"WATCHDOG_USEC": "2500000", "WATCHDOG_PID": OWN}, (), 2.5),
    ],
)
def test_variables_are_read_and_removed(
    variables: dict[str, str], sockets: tuple[tuple[str, int], ...], watchdog: float | None
) -> None:
    environment = {**variables, "PATH": "/bin"}
    manager = ServiceManager.take(environment)
    assert (manager.sockets, manager.watchdog) == (sockets, watchdog)
    assert environment == {"PATH": "/bin"}


@pytest.mark.parametrize(
    "variables",
    [
        {"LISTEN_PID": OWN, "LISTEN_FDS": "many"},
        {"LISTEN_PID": OWN, "LISTEN_FDS": "1000000"},
        {"LISTEN_PID": OWN, "LISTEN_FDS": "-1"},
        {"WATCHDOG_USEC": "1e6"},
    ],
)
def test_damaged_variables_are_errors(variables: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"LISTEN_FDS|WATCHDOG_USEC"):
        ServiceManager.take(dict(variables))


@pytest.mark.parametrize("prefix", ["", "@"])
def test_messages_reach_the_manager(prefix: str) -> None:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        path = str(Path(folder) / "notify")
        manager.bind(f"\0{path}" if prefix else path)
        ServiceManager(address=f"{prefix}{path}").notify("READY=1", "STATUS=serves")
        assert manager.recv(100) == b"READY=1\nSTATUS=serves"


def test_manager_that_is_gone_is_no_error(tmp_path: Path) -> None:
    ServiceManager(address=str(tmp_path / "nothing")).notify("READY=1")
    ServiceManager().notify("READY=1")


async def test_signs_of_life_come_in_time(autojump_clock: MockClock) -> None:
    del autojump_clock
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        path = str(Path(folder) / "notify")
        manager.bind(path)
        with trio.move_on_after(5):
            await ServiceManager(address=path, watchdog=2).keep_alive()
        manager.setblocking(False)
        for _ in range(5):
            assert manager.recv(100) == b"WATCHDOG=1"
        await ServiceManager(address=path).keep_alive()  # none is expected
