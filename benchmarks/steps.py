"""Figure `steps`: what the engine itself costs per step, early and late in a turn."""

from __future__ import annotations

import gc
import time
from collections.abc import Sequence

import trio

import engine
from benchmarks.bare import BareStep, bare_turn
from benchmarks.kit import echo, goodbye, one_call, scripted
from benchmarks.report import Figure, Row, interleaved, median, seconds
from engine.testing.script import Answer

EARLY = (4, 24)
LATE = (1_850, 2_150)
SHORT_TURNS = 20
ROUNDS = 5


def marks_of(steps: int) -> list[float]:
    """Run a turn of *steps* steps with one call each; return the CPU time at each request."""
    marks: list[float] = []

    def answer(n: int) -> Answer:
        marks.append(time.process_time())
        return one_call("echo", n) if n < steps else goodbye()

    async def main() -> None:
        async with engine.open_engine(model=scripted(answer), tools=[echo]) as eng:
            session = await eng.create_session()
            async with session.prompt("go") as turn:
                settled = 0
                async for event in turn:
                    settled += isinstance(event, engine.CallSettled)
            assert turn.result.stop_reason == "completed", turn.result
            assert settled == steps

    trio.run(main)
    return marks


def per_step(marks: Sequence[float], window: tuple[int, int]) -> float:
    """Return the mean cost of the steps of a window."""
    first, last = window
    return (marks[last] - marks[first]) / (last - first)


def early() -> float:
    """Return the cost of a step around step 10: the mean over several turns."""
    return sum(per_step(marks_of(EARLY[1] + 2), EARLY) for _ in range(SHORT_TURNS)) / SHORT_TURNS


def late() -> float:
    """Return the cost of a step around step 2,000."""
    gc.collect()
    return per_step(marks_of(LATE[1] + 2), LATE)


def bare() -> float:
    """Return the cost of the same number of bare nurseries, tasks and events."""
    steps = LATE[1] - LATE[0]

    async def main() -> float:
        began = time.process_time()
        await bare_turn(BareStep(), steps)
        return time.process_time() - began

    return trio.run(main) / steps


def measure() -> list[Row]:
    marks_of(50)
    at_10, at_2000, of_trio = interleaved(ROUNDS, early, late, bare)
    cost, base = median(at_2000), median(of_trio)
    growth = median(late / early for early, late in zip(at_10, at_2000, strict=True))
    return [
        Row(
            name="steps: CPU per step at step 2,000, versus bare trio",
            measured=seconds(cost),
            baseline=seconds(base),
            ratio=cost / base,
            target="≤ 1 ms",
            ok=cost <= 1e-3,
        ),
        Row(
            name="steps: the same, versus step 10",
            measured=seconds(cost),
            baseline=seconds(median(at_10)),
            ratio=growth,
            target="ratio ≤ 1.20",
            ok=growth <= 1.2,
        ),
    ]


FIGURE = Figure(
    name="steps",
    about="the engine's own CPU per step, flat from step 10 to step 2,000",
    measure=measure,
    workload=lambda: marks_of(2_000),
)
