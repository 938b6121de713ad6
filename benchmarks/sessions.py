"""Figure `sessions`: a thousand sessions in the middle of a turn, in one process.

Each count is measured in a process of its own, memory and speed apart, since
tracing memory slows everything. As a program, `python -m benchmarks.sessions`
measures one count and prints what it found.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal

import attrs
import trio
import trio.testing

import engine
from benchmarks.bare import BareStep, bare_turn
from benchmarks.importing import ROOT
from benchmarks.kit import Number, echo, goodbye, one_call, scripted
from benchmarks.report import Figure, Row, kilobytes, median, rate, seconds
from engine.session.session import live_session
from engine.store.sqlite.store import open_sqlite_store
from engine.testing.script import Answer, done, text

COUNTS = (250, 500, 1_000)
# Steps of each session after the one in which its call waits.
STEPS = 5
ROUNDS = 3
# Deltas of a turn, as a long one has them.
DELTAS = 20_000
STATM = Path("/proc/self/statm")
PAGE = 4096
# Idle sessions with a store.
RESTING = 100

Kind = Literal["engine", "bare"]
# "tuned": with the collector's thresholds raised, as a host with so many sessions should.
Mode = Literal["memory", "speed", "tuned"]
TUNED = (50_000, 20, 50)


@attrs.frozen(kw_only=True)
class Found:
    """What one process measured, per session.

    Attributes:
        traced: bytes that Python allocated for it, while its call is running.
        resident: bytes by which the process grew for it; 0 where that can't be told.
        step: CPU seconds of a step.
    """

    traced: float = 0.0
    resident: float = 0.0
    step: float = 0.0


async def with_engine(count: int, at_gate: Callable[[], Awaitable[None]]) -> None:
    """Bring *count* sessions to a running call, call *at_gate*, then let all go on to their ends."""
    gate = trio.Event()

    @engine.tool(read_only=True)
    async def wait(args: Number, ctx: engine.ToolContext) -> str:  # noqa: ARG001
        """Wait until all sessions are there."""
        await gate.wait()
        return str(args.n)

    def answer(n: int) -> Answer:
        if n == 0:
            return one_call("wait", n)
        return one_call("echo", n) if n <= STEPS else goodbye()

    ended = 0

    async def converse(session: engine.Session) -> None:
        nonlocal ended
        async with session.prompt("go") as turn:
            async for event in turn:
                ended += isinstance(event, engine.TurnEnded)

    async with engine.open_engine(model=scripted([]), tools=[wait, echo]) as eng, trio.open_nursery() as nursery:
        for _ in range(count):
            session = await eng.create_session(model=scripted(answer))
            nursery.start_soon(converse, session)
        await trio.testing.wait_all_tasks_blocked()
        await at_gate()
        gate.set()
    assert ended == count


async def with_trio(count: int, at_gate: Callable[[], Awaitable[None]]) -> None:
    """Do the same with the skeletons of turns."""
    gate = trio.Event()

    async def converse() -> None:
        step = BareStep()
        step.gate = gate
        await bare_turn(step, STEPS + 2)

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(converse)
        await trio.testing.wait_all_tasks_blocked()
        await at_gate()
        gate.set()


def measure_here(kind: Kind, mode: Mode, count: int) -> Found:
    """Measure one count in this process."""
    run = with_engine if kind == "engine" else with_trio
    # For memory, time stands still: how many heartbeats there were by then would depend on the machine.
    clock = trio.testing.MockClock() if mode == "memory" else None
    return trio.run(_measured, run, mode, count, clock=clock)


async def _measured(
    run: Callable[[int, Callable[[], Awaitable[None]]], Awaitable[None]], mode: Mode, count: int
) -> Found:
    await run(5, trio.lowlevel.checkpoint)
    gc.collect()
    if mode == "tuned":
        gc.set_threshold(*TUNED)
    found = Found()
    began = 0.0
    resident = _resident()
    if mode == "memory":
        tracemalloc.start()

    async def at_gate() -> None:
        nonlocal found, began
        gc.collect()
        traced = tracemalloc.get_traced_memory()[0] if mode == "memory" else 0
        found = Found(traced=traced / count, resident=(_resident() - resident) / count)
        began = time.process_time()
        await trio.lowlevel.checkpoint()

    await run(count, at_gate)
    return attrs.evolve(found, step=(time.process_time() - began) / (count * (STEPS + 1)))


def idle_bytes() -> tuple[float, float]:
    """Return what an idle session keeps after a turn of `DELTAS` deltas, and how much of it is the text."""
    answer = "word " * DELTAS

    async def converse(eng: engine.Engine) -> int:
        model = scripted([[*text(answer, pieces=DELTAS), *done()]], batch=200)
        session = await eng.create_session(model=model)
        async with session.prompt("go") as turn:
            async for _ in turn:
                pass
        # The script is no part of a session.
        model.script = []
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    async def main() -> int:
        async with engine.open_engine(model=scripted([])) as eng:
            # The first one warms up; the engine keeps both.
            before = await converse(eng)
            return await converse(eng) - before

    tracemalloc.start()
    try:
        return trio.run(main), sys.getsizeof(answer)
    finally:
        tracemalloc.stop()


def resting_bytes(turns: int) -> float:
    """Return what an idle session costs that has had so many short turns, with a store on disk."""

    async def main(folder: str) -> float:
        store = await open_sqlite_store(Path(folder) / "sessions.db")
        async with engine.open_engine(model=scripted([]), store=store) as eng:

            async def converse() -> engine.Session:
                session = await eng.create_session(cwd=folder, model=scripted([goodbye()] * turns))
                for _ in range(turns):
                    await session.run("go")
                return session

            kept = [await converse() for _ in range(RESTING // 4)]
            gc.collect()
            before = tracemalloc.get_traced_memory()[0]
            kept += [await converse() for _ in range(RESTING)]
            # The store is to have written all.
            await store.flushed(kept[-1].id, live_session(kept[-1]).journal.seq)
            gc.collect()
            return (tracemalloc.get_traced_memory()[0] - before) / RESTING

    tracemalloc.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            return trio.run(main, folder)
    finally:
        tracemalloc.stop()


def _resident() -> int:
    return int(STATM.read_text().split()[1]) * PAGE if STATM.exists() else 0


def in_child(kind: Kind, mode: Mode, count: int) -> Found:
    """Measure one count in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.sessions", kind, mode, str(count)]
    told = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=600).stdout
    return Found(**json.loads(told))


_BESIDE: tuple[tuple[Kind, Mode], ...] = (("engine", "tuned"), ("bare", "speed"))


def measure() -> list[Row]:
    few, _, most = COUNTS
    kinds: tuple[Kind, ...] = ("engine", "bare")
    runs: list[tuple[Kind, Mode, int]] = [("engine", "speed", count) for count in COUNTS]
    runs.extend((kind, mode, count) for kind, mode in _BESIDE for count in (few, most))
    speeds: dict[tuple[Kind, Mode, int], list[Found]] = {run: [] for run in runs}
    for _ in range(ROUNDS):
        for run in runs:
            speeds[run].append(in_child(*run))
    step = {run: median(found.step for found in founds) for run, founds in speeds.items()}
    resident = {kind: median(found.resident for found in speeds[kind, "speed", most]) for kind in kinds}
    traced = {count: in_child("engine", "memory", count).traced for count in COUNTS}
    bare = in_child("bare", "memory", most).traced
    return [
        _compared(
            f"sessions: memory of each of {most:,} mid-turn (tracemalloc)",
            traced[most],
            bare,
            kilobytes,
        ),
        _compared("sessions: the same, resident (RSS)", resident["engine"], resident["bare"], kilobytes),
        _compared(f"sessions: an idle one after {DELTAS:,} deltas, versus their text", *idle_bytes(), kilobytes),
        *(_resting(turns) for turns in (0, 3)),
        _compared(
            f"sessions: steps over all {most:,}, each with a call and a watcher",
            1 / step["engine", "speed", most],
            1 / step["bare", "speed", most],
            rate,
        ),
        *(
            _compared(
                f"sessions: memory of each of {count:,}, versus {few}",
                traced[count],
                traced[few],
                kilobytes,
                linear=True,
            )
            for count in COUNTS[1:]
        ),
        *(
            _compared(
                f"sessions: CPU of a step with {count:,}, versus {few}",
                step["engine", "speed", count],
                step["engine", "speed", few],
                seconds,
                linear=True,
            )
            for count in COUNTS[1:]
        ),
        _compared(
            f"sessions: the same of bare trio with {most:,}, versus {few}",
            step["bare", "speed", most],
            step["bare", "speed", few],
            seconds,
        ),
        _compared(
            f"sessions: CPU of a step with {most:,}, versus {few}, collector tuned",
            step["engine", "tuned", most],
            step["engine", "tuned", few],
            seconds,
        ),
    ]


def _resting(turns: int) -> Row:
    cost = resting_bytes(turns)
    return Row(
        name=f"sessions: an idle one with a store, after {turns} turns",
        measured=kilobytes(cost),
        baseline="",
        ratio=None,
        target="≤ 20 kB",
        ok=cost <= 20_000,
    )


def _compared(
    name: str, measured: float, baseline: float, shown: Callable[[float], str], *, linear: bool = False
) -> Row:
    ratio = measured / baseline if baseline else None
    return Row(
        name=name,
        measured=shown(measured),
        baseline=shown(baseline),
        ratio=ratio,
        target="linear: ratio ≤ 1.20" if linear else "",
        ok=ratio is not None and ratio <= 1.2 if linear else None,
    )


FIGURE = Figure(
    name="sessions",
    about="1,000 sessions each mid-turn: memory, throughput, growth",
    measure=measure,
    workload=lambda: measure_here("engine", "speed", COUNTS[-1]),
)


def _main(kind: str, mode: str, count: str) -> None:
    kinds: dict[str, Kind] = {"engine": "engine", "bare": "bare"}
    modes: dict[str, Mode] = {"memory": "memory", "speed": "speed", "tuned": "tuned"}
    print(json.dumps(attrs.asdict(measure_here(kinds[kind], modes[mode], int(count)))))


if __name__ == "__main__":
    _main(*sys.argv[1:])
