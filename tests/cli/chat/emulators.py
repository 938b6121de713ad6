"""Terminals for the chat: tmux and xterm.js, which wrap rows again when their width changes, and pyte, which cuts them."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, cast

import pyte
import pytest

from tests.cli.processes import Command
from tests.support.javascript import NODE, PACKAGES, node_process

needs_tmux = pytest.mark.skipif(shutil.which("tmux") is None, reason="there is no tmux")
needs_xterm = pytest.mark.skipif(
    NODE is None or not (PACKAGES / "@xterm").exists(), reason="there is no node, or `make packages` was not run"
)


class Emulator(Protocol):
    """A terminal with the chat on it."""

    def type(self, keys: str) -> None: ...

    def resize(self, columns: int, rows: int) -> None: ...

    def lines(self) -> list[str]:
        """All lines, from the beginning of the scrollback, those that it has wrapped joined."""
        ...


def wait_for(emulator: Emulator, is_there: Callable[[list[str]], bool], seconds: float = 60) -> list[str]:
    """Return the lines once they are as they should be; or fail."""
    deadline = time.monotonic() + seconds
    while not is_there(lines := emulator.lines()):
        assert time.monotonic() < deadline, "\n".join(lines)
        time.sleep(0.05)
    return lines


def shows(text: str) -> Callable[[list[str]], bool]:
    return lambda lines: any(text in line for line in lines)


class Tmux:
    """A tmux server of its own, with one window."""

    def __init__(self, command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> None:
        self._cwd, self._env = cwd, {name: value for name, value in env.items() if name not in {"TMUX", "TERM"}}
        self.socket = cwd / "tmux"
        # The limit of the history is read when a window is made.
        options = ("set-option -g history-limit 100000", "set-option -g remain-on-exit on")
        (cwd / "tmux.conf").write_text("\n".join([*options, ""]))
        self.run("new-session", "-d", "-x", "100", "-y", "30", *command)

    def run(self, *arguments: str) -> str:
        # Also within a tmux of the developer's.
        command = ["tmux", "-S", str(self.socket), "-f", str(self._cwd / "tmux.conf"), *arguments]
        return subprocess.run(
            command, cwd=self._cwd, env=self._env, capture_output=True, text=True, check=True, timeout=30
        ).stdout

    def type(self, keys: str) -> None:
        self.run("send-keys", "-l", keys)

    def resize(self, columns: int, rows: int) -> None:
        self.run("resize-window", "-x", str(columns), "-y", str(rows))

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.run("capture-pane", "-p", "-J", "-S", "-").splitlines()]


class Xterm:
    """The command on a pseudo-terminal, shown by xterm.js."""

    def __init__(self, command: Command, process: "subprocess.Popen[str]") -> None:
        self._command, self._process = command, process
        self._fed = 0

    def type(self, keys: str) -> None:
        self._command.type(keys)

    def resize(self, columns: int, rows: int) -> None:
        # What the program wrote before belongs to the old size.
        self._feed()
        self._send({"columns": columns, "rows": rows})
        self._command.resize(columns, rows)

    def lines(self) -> list[str]:
        self._feed()
        self._send({})
        assert self._process.stdout is not None
        return [line.rstrip() for line in json.loads(self._process.stdout.readline())]

    def _feed(self) -> None:
        self._command.read_for(0)
        self._send({"data": self._command.output[self._fed :]})
        self._fed = len(self._command.output)

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{json.dumps(message)}\n")
        self._process.stdin.flush()


class Pyte:
    """The command on a pseudo-terminal, shown by pyte. Only its width can change: lower, it forgets lines."""

    def __init__(self, command: Command) -> None:
        self._command = command
        self._screen = pyte.HistoryScreen(100, 30, history=100_000, ratio=0.5)
        self._stream = pyte.Stream(self._screen)
        self._fed = 0

    def type(self, keys: str) -> None:
        self._command.type(keys)

    def resize(self, columns: int, rows: int) -> None:
        del rows
        self._feed()
        self._screen.resize(columns=columns)
        self._command.resize(columns, 30)

    def lines(self) -> list[str]:
        self._feed()
        history = [cast("Mapping[int, pyte.screens.Char]", line) for line in self._screen.history.top]
        older = ["".join(line[at].data for at in range(max(line, default=-1) + 1)).rstrip() for line in history]
        return [*older, *(line.rstrip() for line in self._screen.display)]

    def _feed(self) -> None:
        self._command.read_for(0)
        self._stream.feed(self._command.output[self._fed :])
        self._fed = len(self._command.output)


@contextmanager
def tmux(command: Sequence[str], *, cwd: Path, env: Mapping[str, str]) -> Generator[Tmux]:
    """A tmux with *command* in its window; it's gone when the block ends."""
    server = Tmux(command, cwd=cwd, env={**os.environ, **env})
    try:
        yield server
    finally:
        server.run("kill-server")


@contextmanager
def xterm(command: Command) -> Generator[Xterm]:
    with node_process("terminal.mjs") as process:
        yield Xterm(command, process)
