"""Figure `parallel`: safe calls that run while the stream still announces others."""

from __future__ import annotations

import time

import trio

import engine
from benchmarks.bare import parallel_seconds
from benchmarks.kit import Number, goodbye, scripted
from benchmarks.report import Figure, Row, interleaved, median, seconds
from engine.testing.script import Pause, ScriptItem, call, done

WORK = 1.0
# The first call is announced at once, the last after two seconds.
GAPS = (0.0, 0.5, 0.5, 0.5, 0.5)
ROUNDS = 3


@engine.tool(read_only=True, safe=True)
async def work(args: Number, ctx: engine.ToolContext) -> str:  # noqa: ARG001
    """Work for a second."""
    await trio.sleep(WORK)
    return str(args.n)


def through_engine() -> float:
    """Return the seconds from the prompt to the end of a turn with five calls."""
    answer: list[ScriptItem] = []
    for n, gap in enumerate(GAPS):
        answer += [Pause(gap), *call("work", {"n": n}, id=f"c{n}")]

    async def main() -> float:
        model = scripted([[*answer, *done("calls")], goodbye()])
        async with engine.open_engine(model=model, tools=[work]) as eng:
            session = await eng.create_session()
            began = time.perf_counter()
            async with session.prompt("go") as turn:
                delivered = [e.settlement.text async for e in turn if isinstance(e, engine.CallSettled)]
            took = time.perf_counter() - began
        assert delivered == [str(n) for n in range(len(GAPS))]
        return took

    return trio.run(main)


def measure() -> list[Row]:
    measured, baseline = interleaved(ROUNDS, through_engine, lambda: parallel_seconds(GAPS, WORK))
    took, base = median(measured), median(baseline)
    path = sum(GAPS) + WORK
    return [
        Row(
            name=f"parallel: five 1 s calls over 2 s of stream (critical path {path:g} s)",
            measured=seconds(took),
            baseline=seconds(base),
            ratio=took / base,
            target="≤ 5% over the path",
            ok=took <= 1.05 * path,
        )
    ]


FIGURE = Figure(
    name="parallel",
    about="five 1-second safe calls announced over 2 s of stream",
    measure=measure,
    workload=through_engine,
)
