"""Engines with five servers each, ended in every way that a user or a machine ends them: no server outlives them (AT5)."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

from engine.process.kill_tree import find_marked
from engine.process.procfs import ProcessId, is_alive
from tests.conftest import REPOSITORY
from tests.mcp.serving import LIAR

pytestmark = [
    pytest.mark.os,
    pytest.mark.slow,
    # In full, fifty engines with their servers start on a machine that may have other work.
    pytest.mark.timeout(1_200),
    pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc"),
]

SERVERS = 5
# So that about forty processes live at once.
BATCH = 6
COMMAND = (sys.executable, "-m", "engine", "mcp", "serve")


@attrs.frozen
class Started:
    """An engine, and the other end of its terminal, if it has one."""

    process: subprocess.Popen[bytes]
    terminal: int | None = None

    def close_terminal(self) -> None:
        assert self.terminal is not None
        os.close(self.terminal)


def servers_of(*engines: Started) -> list[ProcessId]:
    """Return the servers of engines, which may have ended."""
    pids = {str(each.process.pid) for each in engines}
    return find_marked(lambda mark: mark.startswith("mcp.s") and mark.split(".")[2] in pids)


@contextmanager
def engines(folder: Path, count: int, *, terminal: bool) -> Generator[list[Started]]:
    """Start engines over the same configuration; those that are left are killed."""
    started: list[Started] = []
    try:
        for _ in range(count):
            started.append(_start(environment(folder), folder, terminal=terminal))  # noqa: PERF401  # none is lost if one fails
        yield started
    finally:
        for each in started:
            each.process.kill()
            each.process.wait()
            for stream in (each.process.stdin, each.process.stdout):
                if stream is not None:
                    stream.close()
        for left in servers_of(*started):
            os.kill(left.pid, signal.SIGKILL)


def _start(env: Mapping[str, str], folder: Path, *, terminal: bool) -> Started:
    if not terminal:
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        return Started(subprocess.Popen(COMMAND, cwd=folder, env=env, stdin=pipe, stdout=pipe, stderr=none))
    ours, theirs = pty.openpty()
    # A session of its own, whose terminal this is: closing it hangs up.
    script = 'exec "$@" </dev/tty >/dev/null 2>&1'
    command = ("setsid", "-c", "sh", "-c", script, "sh", *COMMAND, "--http")
    process = subprocess.Popen(command, cwd=folder, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    return Started(process, ours)


def environment(folder: Path) -> dict[str, str]:
    """Return the variables of an engine with the servers in its configuration."""
    config = folder / "config/engine/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    arguments = json.dumps([str(LIAR), json.dumps({"stays": True})])
    tables = [
        f'[mcp.servers.s{number}]\ncommand = "{sys.executable}"\nargs = {arguments}\n' for number in range(SERVERS)
    ]
    config.write_text("\n".join(tables))
    return {
        **os.environ,
        "PYTHONPATH": str(REPOSITORY),
        "ANTHROPIC_API_KEY": "test-key-0123456789",
        "ENGINE_MODEL": "anthropic/claude-sonnet-5-5",
        "HOME": str(folder / "home"),
        **{f"XDG_{kind}_HOME": str(folder / kind.lower()) for kind in ("CONFIG", "STATE", "DATA", "CACHE")},
    }


def wait_until(holds: Callable[[], bool]) -> None:
    """Wait for what comes with certainty."""
    begin = time.monotonic()
    while not holds():
        assert time.monotonic() - begin < 200
        time.sleep(0.05)


def has_servers(engine: Started, count: int) -> Callable[[], bool]:
    return lambda: len(servers_of(engine)) >= count


def none_left(processes: Sequence[ProcessId]) -> Callable[[], bool]:
    return lambda: not any(map(is_alive, processes))


@pytest.mark.parametrize("how", ["TERM", "KILL", "terminal", "start"])
def test_no_server_outlives_its_engine(tmp_path: Path, how: str, is_full: bool) -> None:
    left = 13 if is_full else 1
    while left > 0:
        count = min(left, BATCH)
        left -= count
        with engines(tmp_path, count, terminal=how == "terminal") as started:
            if how == "start":
                # Somewhere between its first line and its last server.
                for number, each in enumerate(started):
                    wait_until(has_servers(each, number % SERVERS))
            else:
                wait_until(lambda: len(servers_of(*started)) == SERVERS * len(started))
            ours = servers_of(*started)
            for each in started:
                if how == "terminal":
                    each.close_terminal()
                else:
                    each.process.send_signal(signal.SIGKILL if how == "KILL" else signal.SIGTERM)
            for each in started:
                each.process.wait(timeout=200)
            if how == "KILL":
                # Nobody is left to end them but the next engine.
                with engines(tmp_path, 1, terminal=False) as (later,):
                    wait_until(none_left(ours))
                    later.process.terminate()
                    later.process.wait(timeout=200)
            else:
                wait_until(none_left(ours))
                assert servers_of(*started) == []
