"""A server that tests kill and start again."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from subprocess import Popen

import attrs
import trio

from tests.support.processes import python_process, read_line


@attrs.define
class KilledServer:
    """A server process that can be killed and started again, at the same place.

    Attributes:
        work: for how many seconds a call of its tool runs.
    """

    folder: Path
    port: int
    stack: ExitStack
    work: float = 0.1
    process: Popen[str] | None = None
    url: str = ""
    token: str = ""
    started: float = 0.0

    def start(self, *how: str) -> None:
        arguments = [
            "-m",
            "tests.support.served_process",
            str(self.folder / "s.db"),
            str(self.folder / "run"),
            str(self.port),
            str(self.work),
            *how,
        ]
        self.process = self.stack.enter_context(python_process(*arguments))
        self.url, self.token = read_line(self.process), read_line(self.process)
        self.started = time.monotonic()

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def drain(self) -> None:
        """End it in order."""
        assert self.process is not None
        self.process.terminate()
        assert self.process.wait(60) == 0

    def hand_over(self) -> None:
        """Let another one take its place."""
        before = self.process
        assert before is not None
        self.start("takeover")
        assert before.wait(60) == 0


@asynccontextmanager
async def killed_server(folder: Path, *, work: float = 0.1) -> AsyncGenerator[KilledServer]:
    """Start such a server in a folder."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with ExitStack() as stack, trio.fail_after(100):
        server = KilledServer(folder, port, stack, work)
        await trio.to_thread.run_sync(server.start)
        yield server
