"""The processes of figure `control`: a server and its clients."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import attrs
import httpx

from benchmarks.control_server import Stream

ROOT: Final = Path(__file__).resolve().parent.parent
# In seconds; everything here takes less.
_PATIENCE: Final = 300.0
# Of each of them a server lets in 256 connections.
TOKENS: Final = 48
_PAGE: Final = os.sysconf("SC_PAGESIZE")


@attrs.define
class Child:
    """A process of the benchmark."""

    process: subprocess.Popen[str]

    def read(self) -> dict[str, Any]:
        """Return its next line."""
        assert self.process.stdout is not None
        assert select.select([self.process.stdout], [], [], _PATIENCE)[0], "a process of the benchmark says nothing"
        line = self.process.stdout.readline()
        assert line, "a process of the benchmark has ended"
        facts: dict[str, Any] = json.loads(line)
        return facts

    @property
    def has_line(self) -> bool:
        """Whether `read` would return at once."""
        assert self.process.stdout is not None
        return bool(select.select([self.process.stdout], [], [], 0)[0])

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Close its input, and wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(30)

    @property
    def resident(self) -> int:
        """The bytes of memory that it uses."""
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * _PAGE

    @property
    def files(self) -> int:
        """The number of its open files."""
        return len(list(Path(f"/proc/{self.process.pid}/fd").iterdir()))

    @property
    def cpu(self) -> float:
        """The seconds of CPU that its threads have used."""
        tasks = Path(f"/proc/{self.process.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


@contextmanager
def child(module: str, *arguments: str) -> Generator[Child]:
    """Run a module of the benchmark."""
    command = [sys.executable, "-m", f"benchmarks.{module}", *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, stdin=pipe, stdout=pipe, text=True) as process:
        try:
            yield Child(process)
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


@attrs.define
class Served(Child):
    """The server."""

    port: int
    tokens: list[str]
    link: str
    _number: int = 0

    def request(self, method: str, **params: object) -> dict[str, Any]:
        """Return the result of a request."""
        document = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        answer = httpx.post(
            f"http://127.0.0.1:{self.port}/v1/rpc",
            json=document,
            headers={"Authorization": f"Bearer {self.tokens[0]}"},
            trust_env=False,
            timeout=60,
        )
        answer.raise_for_status()
        result: dict[str, Any] = answer.json()["result"]
        return result

    def session(self) -> str:
        self._number += 1
        session_id: str = self.request("session.create", cwd="/", key=f"k{self._number}")["row"]["id"]
        return session_id

    def prompt(self, session_id: str, stream: Stream) -> str:
        self._number += 1
        turn_id: str = self.request("prompt", session_id=session_id, text=stream.prompt, key=f"p{self._number}")[
            "turn_id"
        ]
        return turn_id

    def ended(self, session_id: str, turn_id: str) -> tuple[dict[str, Any], dict[str, float]]:
        """Wait for the end of a turn; return its result, and how late its stream was read."""
        while (found := self.request("wait", session_id=session_id, turn_id=turn_id, timeout=30))["state"] != "over":
            pass
        result: dict[str, Any] = found["result"]
        return result, json.loads("{" + result["text"].rpartition("{")[2])

    @contextmanager
    def clients(self, kind: str, **options: object) -> Generator[Child]:
        """Run clients; the first line of the process has been read."""
        every = {"port": self.port, "tokens": self.tokens, **options}
        with child("control_clients", kind, json.dumps(every)) as process:
            process.read()
            yield process


@contextmanager
def served(folder: str, **options: object) -> Generator[Served]:
    """Run a server."""
    with child("control_server", json.dumps({"folder": folder, **options})) as process:
        facts = process.read()
        yield Served(process.process, facts["port"], facts["tokens"], facts["link"])


@contextmanager
def new_server(**options: object) -> Generator[Served]:
    with tempfile.TemporaryDirectory() as folder, served(folder, **options) as server:
        yield server
