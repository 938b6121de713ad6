"""One engine of the figure `fleet`, in a process of its own: `python -m benchmarks.fleet_engine DSN SESSIONS SECONDS`.

Its sessions run turns of `STEPS` steps, one after the other, with a model that answers at once. It prints "ready", begins at a line
of input, and prints what it has done in that time as JSON. With `SECONDS` 0 it measures memory: of idle sessions, and of
sessions with a running call.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from pathlib import Path

import attrs
import trio
import trio.testing

import engine
from benchmarks.kit import Number, echo, goodbye, one_call, scripted
from benchmarks.storing import watched
from engine.core.events import StepEnded
from engine.store.postgres.open import open_postgres_store
from engine.testing.script import Answer

STEPS = 8
# Sessions whose memory is measured.
COUNTED = 100
PAGE = 4096


@attrs.frozen(kw_only=True)
class EngineRun:
    """What one engine has done.

    Attributes:
        steps: how many steps ended.
        turns: how many turns ended.
        events: how many events were stored.
        commits: how many transactions.
        commit_seconds: how long they took together.
        cpu: CPU seconds of the process.
        seconds: of the run.
        stall: the longest time that the loop stood still.
    """

    steps: int = 0
    turns: int = 0
    events: int = 0
    commits: int = 0
    commit_seconds: float = 0.0
    cpu: float = 0.0
    seconds: float = 0.0
    stall: float = 0.0


def answer(n: int) -> Answer:
    """Ask for a call in each step but the last of a turn."""
    return goodbye() if n % STEPS == STEPS - 1 else one_call("echo", n)


async def run(dsn: str, sessions: int, seconds: float) -> EngineRun:
    """Run turns in all sessions for so long."""
    store = await open_postgres_store(dsn)
    steps = turns = events = 0

    async def converse(session: engine.Session) -> None:
        nonlocal steps, turns, events
        while trio.current_time() < until:
            async with session.prompt("go") as turn:
                async for event in turn:
                    steps += isinstance(event, StepEnded)
                    events += getattr(event, "seq", None) is not None
            turns += 1

    async with engine.open_engine(model=scripted([]), tools=[echo], store=store) as eng:
        opened = [await eng.create_session(model=scripted(answer)) for _ in range(sessions)]
        for session in opened:
            await session.run("go")
        gc.freeze()
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        health, cpu, began = store.health(), time.process_time(), time.perf_counter()
        until = trio.current_time() + seconds
        async with watched() as stall, trio.open_nursery() as nursery:
            for session in opened:
                nursery.start_soon(converse, session)
        after = store.health()
        return EngineRun(
            steps=steps,
            turns=turns,
            events=events,
            commits=after.commits - health.commits,
            commit_seconds=after.seconds - health.seconds,
            cpu=time.process_time() - cpu,
            seconds=time.perf_counter() - began,
            stall=max(stall),
        )


async def memory(dsn: str) -> dict[str, float]:
    """Return how many bytes the process grows for an idle session, and for one with a running call."""
    gate = trio.Event()

    @engine.tool(read_only=True)
    async def wait(args: Number, ctx: engine.ToolContext) -> str:  # noqa: ARG001
        """Wait until all are counted."""
        await gate.wait()
        return ""

    store = await open_postgres_store(dsn)
    async with engine.open_engine(model=scripted([]), tools=[wait], store=store) as eng, trio.open_nursery() as nursery:

        async def session() -> engine.Session:
            return await eng.create_session(model=scripted([goodbye(), one_call("wait", 1), goodbye()]))

        for _ in range(COUNTED // 4):
            await (await session()).run("go")
        before = _resident()
        idle = [await session() for _ in range(COUNTED)]
        for each in idle:
            await each.run("go")
        at_rest = _resident()
        for each in idle:
            nursery.start_soon(each.run, "go")
        await trio.sleep(1)
        await trio.testing.wait_all_tasks_blocked(0.05)
        active = _resident()
        gate.set()
    return {"idle": (at_rest - before) / COUNTED, "active": (active - before) / COUNTED, "process": before}


def _resident() -> float:
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


def main(dsn: str, sessions: str, seconds: str) -> None:
    if float(seconds) == 0:
        print(json.dumps(trio.run(memory, dsn)))
    else:
        print(json.dumps(attrs.asdict(trio.run(run, dsn, int(sessions), float(seconds)))))


if __name__ == "__main__":
    main(*sys.argv[1:])
