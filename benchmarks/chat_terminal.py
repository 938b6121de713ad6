"""`engine chat` on a pseudo-terminal, for the figure `chat`."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parent.parent


class ChatHost:
    """A scripted model's host, as a process."""

    def __enter__(self) -> Self:
        """Start it."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.chat_host"], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


class ChatTerminal:
    """A chat. `output` is what it has written; `began` is when it was started."""

    def __init__(self, host: str, folder: Path, *arguments: str) -> None:
        """Start it, with its files in that folder."""
        self.output = b""
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("ENGINE_")},
            **{f"XDG_{name}_HOME": str(folder / name) for name in ("CONFIG", "STATE", "DATA", "CACHE")},
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm-256color",
            "HOME": str(folder),
            "ANTHROPIC_API_KEY": "benchmark-key-0123456789",
            "ANTHROPIC_BASE_URL": host,
            "ENGINE_MODEL": "anthropic/claude-sonnet-5-5",
        }
        self.began = time.perf_counter()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "engine", "chat", *arguments],
            cwd=folder,
            env=environment,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )
        os.close(theirs)

    def __enter__(self) -> Self:
        """Return it."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def type(self, keys: str) -> None:
        """Press keys."""
        os.write(self._ours, keys.encode())

    def enter(self, line: str) -> None:
        """Type a line, and press Enter once it is shown."""
        self.read_until(line, lambda: self.type(line))
        self.type("\r")

    def read_until(self, text: str, begin: object = None, seconds: float = 120) -> float:
        """Call *begin*, and read until *text* has come after that; return how many seconds it took."""
        at, began = len(self.output), time.perf_counter()
        if callable(begin):
            begin()
        else:
            at = 0
        while text.encode() not in self.output[max(0, at) :]:
            self.read(began + seconds - time.perf_counter())
        return time.perf_counter() - began

    def read(self, seconds: float) -> bytes:
        """Read once, what comes within that time. Raises `TimeoutError`."""
        if not select.select([self._ours], [], [], max(0.0, seconds))[0]:
            raise TimeoutError(self.output[-2_000:])
        data = os.read(self._ours, 65_536)
        self.output += data
        return data

    def read_for(self, seconds: float) -> bytes:
        """Read for so long, and return what came."""
        at, until = len(self.output), time.perf_counter() + seconds
        while select.select([self._ours], [], [], max(0.0, until - time.perf_counter()))[0]:
            self.read(0.0)
        return self.output[at:]

    def forget(self) -> None:
        """Forget what was written."""
        self.output = b""

    def switches(self) -> dict[str, int]:
        """Return how often each of its threads has waited and been woken."""
        tasks = Path(f"/proc/{self._process.pid}/task")
        return {task.name: _switches(task) for task in tasks.iterdir()}

    def cpu_seconds(self) -> float:
        """Return the processor time that it has used."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        """Return how much memory it has."""
        status = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return int(next(line for line in status if line.startswith("VmRSS")).split()[1]) / 1_024


def _switches(task: Path) -> int:
    lines = (task / "status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("voluntary_ctxt_switches")).split()[1])
