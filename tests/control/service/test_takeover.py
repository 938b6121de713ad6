"""Listening sockets and the lock pass from a server to its successor, whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from engine.control.service.listening_sockets import ListeningSockets, open_control
from engine.control.service.server_discovery import ServerLock, ServerRunning
from engine.control.service.takeover import SOCKET_NAME, hand_over, take_over
from engine.core.errors import ConfigError
from tests.conftest import CountRuns
from tests.support.cancel_at import CancelAt
from tests.support.cancelled_server import open_files

pytestmark = pytest.mark.os


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a short name: the path of a Unix socket has at most some 100 characters."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)


class Predecessor:
    """A server that may be taken over; `has_stopped` says whether it was, `has_ended` whether it waits no more."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.lock = ServerLock.acquire(folder)
        self.sockets = ListeningSockets()
        self.accepting = trio.CancelScope()
        self.has_stopped = False
        self.has_ended = False

    def stop(self) -> None:
        self.has_stopped = True

    async def serve(self, listener: trio.SocketListener) -> None:
        try:
            stream: trio.SocketStream | None = None
            with self.accepting:
                stream = await listener.accept()
            if stream is not None:
                await hand_over(stream, self.lock, self.sockets, self.stop)
        finally:
            self.has_ended = True


@asynccontextmanager
async def predecessor(folder: Path) -> AsyncGenerator[Predecessor]:
    with trio.fail_after(30):
        server = Predecessor(folder)
        await server.sockets.complete("127.0.0.1", 0, folder / "control.sock")
        async with open_control(folder / SOCKET_NAME) as listener, trio.open_nursery() as nursery:
            nursery.start_soon(server.serve, listener)  # noqa: ASYNC113  # it listens already
            yield server
            nursery.cancel_scope.cancel()
        server.sockets.close()


async def test_successor_has_everything(folder: Path) -> None:
    async with predecessor(folder) as server:
        address = server.sockets.address
        inherited = await take_over(folder)
        assert server.has_stopped
        assert (inherited.sockets.address, inherited.sockets.control_path) == (address, str(folder / "control.sock"))
        server.lock.close()
        with pytest.raises(ServerRunning):
            ServerLock.acquire(folder)
        # A connection that came before the successor accepts waits for it.
        client = await trio.open_tcp_stream(*address)
        server.sockets.own_path = None
        server.sockets.close()
        accepted = await inherited.sockets.http[0].accept()
        for stream in (client, accepted):
            await stream.aclose()
        inherited.sockets.close()
        inherited.lock.close()
        ServerLock.acquire(folder).close()


async def test_successor_that_dies_changes_nothing(folder: Path) -> None:
    async with predecessor(folder) as server:
        async with await trio.open_unix_socket(str(folder / SOCKET_NAME)) as stream:
            _, ancillary, *_ = await stream.socket.recvmsg(1024, 1024)
            for _, _, content in ancillary:
                for start in range(0, len(content), 4):
                    os.close(int.from_bytes(content[start : start + 4], "little"))
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert not server.has_stopped
        with pytest.raises(ServerRunning):
            ServerLock.acquire(folder)
        server.lock.close()


@pytest.mark.parametrize("answer", [b"", b"{}", b"[]", b'{"names": ["http"]}', b'{"names": []}', b"\xff"])
async def test_damaged_message_is_an_error(folder: Path, answer: bytes) -> None:
    async def answer_once(listener: trio.SocketListener) -> None:
        async with await listener.accept() as stream:
            if answer:
                await stream.send_all(answer)

    async with open_control(folder / SOCKET_NAME) as listener, trio.open_nursery() as nursery:
        nursery.start_soon(answer_once, listener)
        with pytest.raises(ConfigError):
            await take_over(folder)


async def test_missing_server_is_an_error(folder: Path) -> None:
    with pytest.raises(ConfigError, match="not handed over"):
        await take_over(folder)


def test_cancelled_successor_leaves_nothing_open(folder: Path, count_runs: CountRuns) -> None:
    outcomes: set[tuple[bool, bool]] = set()

    async def scenario(at: CancelAt) -> None:
        is_taken = False
        async with predecessor(folder) as server:
            with at.scope():
                inherited = await take_over(folder)
                is_taken = True
                inherited.sockets.close()
                inherited.lock.close()
            await trio.testing.wait_all_tasks_blocked()
            # If the successor has not connected by now, it never will.
            server.accepting.cancel()
            while not (server.has_stopped or server.has_ended):
                await trio.sleep(0.001)
            if not server.has_stopped:
                # It still is the server.
                with pytest.raises(ServerRunning):
                    ServerLock.acquire(folder)
            server.lock.close()
            outcomes.add((is_taken, server.has_stopped))

    def play(step: int | None) -> CancelAt:
        at = CancelAt(step)
        trio.run(scenario, at, instruments=[at])
        return at

    steps = play(None).steps
    before = open_files()
    for step in range(steps):
        play(step)
    assert open_files() <= before
    assert {(True, True), (False, False)} <= outcomes
    assert (True, False) not in outcomes
    count_runs(steps)
