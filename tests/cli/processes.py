"""The command as a real process: on pipes or on a terminal, spoken to and listened to with a time limit."""

from __future__ import annotations

import codecs
import fcntl
import itertools
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from tests.cli.forked import Fork

REPOSITORY = Path(__file__).resolve().parent.parent.parent
_numbers = itertools.count(1)


def token() -> str:
    """Something to sleep for a day, by which the sleeper is found."""
    return f"86401.{os.getpid():07}{next(_numbers):04}"


def sleepers(of: str) -> list[int]:
    """The living processes with that token as an argument: looked for without the means of the engine."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if of.encode() in arguments and state not in {"Z", "X"}:
            found.append(int(entry.name))
    return found


def await_sleepers(of: str, count: int, seconds: float = 30) -> None:
    """Wait until so many run: a process is forked a while before it sleeps."""
    deadline = time.monotonic() + seconds
    while len(sleepers(of)) != count:
        assert time.monotonic() < deadline, f"{len(sleepers(of))} processes run, not {count}"
        time.sleep(0.02)


def set_size(terminal: int, columns: int, rows: int) -> None:
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Command:
    """`engine …`, running.

    `output` is what it has written so far, to standard output and standard error.
    """

    def __init__(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        terminal: bool = False,
        program: Sequence[str] = (sys.executable, "-m", "engine"),
        stdin: int = subprocess.DEVNULL,
    ) -> None:
        self.output = ""
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._ours, theirs = pty.openpty() if terminal else os.pipe()
        command = [*program, *arguments]
        # Colours have tests of their own; elsewhere they would stand between the words.
        environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "TERM": "xterm", "NO_COLOR": "1", **env}
        if terminal:
            set_size(theirs, 100, 30)
        self.process = self._start(command, cwd, environment, theirs if terminal else stdin, theirs)
        os.close(theirs)

    def _start(
        self, command: Sequence[str], cwd: Path, env: Mapping[str, str], stdin: int, output: int
    ) -> subprocess.Popen[bytes] | Fork:
        return subprocess.Popen(
            command,
            cwd=cwd,
            env=env,
            stdin=stdin,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # The terminal becomes its controlling one, so that Ctrl-C and a hang-up reach it.
            preexec_fn=(lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if stdin == output else None,  # noqa: PLW1509
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hang_up()
        self.process.kill()
        self.process.wait()

    def read_until(self, text: str, seconds: float = 40, *, after: int = 0, or_else: str | None = None) -> None:
        """Read until *text* (or the other one) has come, behind the first *after* characters; or fail."""
        deadline = time.monotonic() + seconds
        while text not in self.output[after:] and (or_else is None or or_else not in self.output[after:]):
            assert self._read(deadline), f"{text!r} did not come; this did:\n{self.output[after:]}"

    def read_for(self, seconds: float) -> str:
        """Read for so long, and return what came."""
        before, deadline = len(self.output), time.monotonic() + seconds
        while self._read(deadline):
            pass
        return self.output[before:]

    def type(self, keys: str) -> None:
        data = memoryview(keys.encode())
        while data:
            # The terminal takes what there is room for; the program may write in the meantime.
            readable, writable, _ = select.select([self._ours], [self._ours], [])
            if readable:
                self._read(time.monotonic())
            if writable:
                data = data[os.write(self._ours, data[:1_000]) :]

    def resize(self, columns: int, rows: int) -> None:
        set_size(self._ours, columns, rows)

    def answer(self, line: str) -> None:
        """Type a line as the answer to a question, on purpose: with Tab, when it comes makes no difference."""
        self.type(f"\t{line}\n")

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def hang_up(self) -> None:
        """Close our end of the pipe or the terminal."""
        if self._ours >= 0:
            os.close(self._ours)
            self._ours = -1

    def wait(self, seconds: float = 40) -> int:
        """Read to the end; return the exit code, negative if a signal killed it."""
        deadline = time.monotonic() + seconds
        while self._ours >= 0 and self._read(deadline):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _read(self, deadline: float) -> bool:
        ready, _, _ = select.select([self._ours], [], [], max(0, deadline - time.monotonic()))
        if not ready:
            return False
        try:
            data = os.read(self._ours, 65_536)
        except OSError:  # the terminal's last user has gone
            return False
        self.output += self._utf8.decode(data)
        return bool(data)
