"""The scenarios: each starts an agent once, and returns figures by name."""

from __future__ import annotations

import os
import secrets
import signal
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final

import attrs

from benchmarks.peers.agents import Agent, Place
from benchmarks.peers.model_host import Exchange, ModelHost, Reply

Plan = Callable[[Agent, Path], Sequence[Reply]]

_LIMIT: Final = 240.0
_STEPS: Final = 220
_DELTAS: Final = 20_000
_PARALLEL: Final = 5
# A real model's first byte takes longer. Without it, figures would be of what an agent loads for its first answer.
_THINKING: Final = 0.5
# Once a call has been sent; the command runs by then.
_BEFORE_CANCEL: Final = 1.5
_PATIENCE: Final = 15.0


class Unmeasurable(Exception):
    """The agent did not do what the model asked for."""


@attrs.define
class Run:
    """A process that runs an agent, and the host that it asks."""

    process: subprocess.Popen[bytes]
    host: ModelHost
    began: float
    output: Path

    def exchange(self, number: int) -> Exchange:
        """Wait until a request was answered. Raises `Unmeasurable` if it does not come."""
        end = time.monotonic() + _LIMIT
        while time.monotonic() < end:
            found = self.host.exchanges[number : number + 1]
            if found and found[0].ended:
                return found[0]
            if not found and self.process.poll() is not None:
                break
            time.sleep(0.005)
        raise self.failed(f"request {number + 1} did not come")

    def exited(self) -> float:
        """Wait for the end of the process; return when it was."""
        try:
            self.process.wait(_LIMIT)
        except subprocess.TimeoutExpired:
            raise self.failed("it did not exit") from None
        return time.monotonic()

    def failed(self, what: str) -> Unmeasurable:
        """Return an error that quotes the end of its output."""
        tail = self.output.read_text(errors="replace").strip()[-300:]
        return Unmeasurable(f"{what}; its output ends with {tail!r}")


@contextmanager
def _running(agent: Agent, installed: Path, make_plan: Plan) -> Generator[Run]:
    """Start *agent* with an empty home, in a small project. No process of it is left after the block."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        home, project = folder / "home", folder / "project"
        for each in (home, project):
            each.mkdir()
        for path in _files(project):
            path.write_text("one\ntwo\nthree\n")
        for arguments in (
            ["init", "-q"],
            ["add", "."],
            ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one"],
        ):
            subprocess.run(["/usr/bin/env", "git", *arguments], cwd=project, check=True)
        plan = list(make_plan(agent, project))
        if agent.ending is not None:
            plan[-1] = attrs.evolve(plan[-1], calls=(agent.ending,))
        with ModelHost(plan).serving() as host:
            place = Place(home=home, project=project, url=host.url, installed=installed)
            command, env = agent.command(place), agent.environment(place)
            with (folder / "output").open("wb") as output:
                began = time.monotonic()
                process = subprocess.Popen(
                    command,
                    cwd=project,
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            try:
                yield Run(process, host, began, folder / "output")
            finally:
                _kill(_tree(process.pid))
                process.wait()


def loop(agent: Agent, installed: Path) -> Mapping[str, float]:
    """220 steps with one small read each."""
    with _running(agent, installed, _reads) as run:
        run.exchange(_STEPS)
        ended = run.exited()
        exchanges = run.host.exchanges
        steps = [(after.began - step.ended) * 1000 for step, after in pairwise(exchanges)]
        early, late = statistics.median(steps[10:30]), statistics.median(steps[190:210])
        return {
            "first request ms": (exchanges[0].began - run.began) * 1000,
            "step ms at 20": early,
            "step ms at 200": late,
            "growth ms per 100 steps": (late - early) / 1.8,
            "answer to exit ms": (ended - exchanges[-1].ended) * 1000,
        }


def memory(agent: Agent, installed: Path) -> Mapping[str, float]:
    """The most that the processes have at one time, in the same 220 steps."""
    peak = 0
    with _running(agent, installed, _reads) as run:
        while run.process.poll() is None and time.monotonic() < run.began + _LIMIT:
            peak = max(peak, sum(map(_resident, _tree(run.process.pid))))
            time.sleep(0.05)
        run.exchange(_STEPS)
    return {"peak MB": peak / 1e6}


def stream(agent: Agent, installed: Path) -> Mapping[str, float]:
    """20,000 deltas in one answer, until the process has exited."""

    def plan(*_: object) -> Sequence[Reply]:
        return [Reply(deltas=_DELTAS, thinks=_THINKING)]

    with _running(agent, installed, plan) as run:
        exchange = run.exchange(0)
        return {"deltas per s": _DELTAS / (run.exited() - exchange.answered)}


def parallel(agent: Agent, installed: Path) -> Mapping[str, float]:
    """Five calls of `sleep 1` in one answer, which begins half a second after the request."""

    def plan(agent: Agent, _: Path) -> Sequence[Reply]:
        # Not the same five times: an agent may take that for a model that goes in circles.
        calls = [agent.run(f"sleep 1.{'0' * number}") for number in range(_PARALLEL)]
        return [Reply(calls=calls, thinks=_THINKING), Reply()]

    with _running(agent, installed, plan) as run:
        return {"five sleeps: ms over 1 s": (run.exchange(1).began - run.exchange(0).ended) * 1000 - 1000}


def cancel(agent: Agent, installed: Path) -> Mapping[str, float]:
    """Ctrl-C while `sleep 30` runs: SIGINT to the process group, as a terminal sends it."""
    # Found by its argument, whoever is its parent by then.
    token = f"30.{secrets.randbelow(10**9):09}"

    def plan(agent: Agent, _: Path) -> Sequence[Reply]:
        return [Reply(calls=[agent.run(f"sleep {token}")]), Reply()]

    with _running(agent, installed, plan) as run:
        run.exchange(0)
        end = time.monotonic() + _PATIENCE
        while not _sleepers(token):
            if time.monotonic() > end:
                raise run.failed("the command did not run")
            time.sleep(0.01)
        time.sleep(_BEFORE_CANCEL)
        sent = time.monotonic()
        os.killpg(run.process.pid, signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            run.process.wait(_PATIENCE)
        took = time.monotonic() - sent
        time.sleep(0.5)
        left = _sleepers(token)
        _kill(left)
        return {"Ctrl-C to exit ms": took * 1000, "orphans": len(left)}


SCENARIOS: Final = {each.__name__: each for each in (loop, stream, parallel, cancel, memory)}


def _reads(agent: Agent, folder: Path) -> Sequence[Reply]:
    return [*(Reply(calls=[agent.read(path)]) for path in _files(folder)), Reply()]


def _files(folder: Path) -> list[Path]:
    """Return a file for each step: an agent may stop a model that does the same again and again."""
    return [folder / f"small{number}.txt" for number in range(_STEPS)]


# -- processes, from /proc --------------------------------------------------------------------


def _tree(root: int) -> list[int]:
    """Return a process and its descendants, and what else is in its session."""
    parents: dict[int, tuple[int, int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError, ValueError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = (int(fields[1]), int(fields[3]))
    found = {root}
    grew = True
    while grew:
        more = {pid for pid, (parent, session) in parents.items() if parent in found or session == root} - found
        found |= more
        grew = bool(more)
    return sorted(found)


def _resident(pid: int) -> int:
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _sleepers(token: str) -> list[int]:
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if (entry / "cmdline").read_bytes().split(b"\0")[:2] == [b"sleep", token.encode()]:
                    found.append(int(entry.name))
    return found


def _kill(pids: Iterable[int]) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
