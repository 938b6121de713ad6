"""Figure `points`: what `cancel_everywhere` adds to a run of any Trio function, and a thousand runs of a small one."""

from __future__ import annotations

import time

import trio
import trio.testing

from benchmarks.report import Figure, Row, interleaved, median, seconds
from engine.testing.cancellation.everywhere import cancel_everywhere

ROUNDS = 5
BARE_RUNS = 100
THOUSAND = 1_000


async def small() -> None:
    """Run three tasks with some checkpoints each."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 1)
        nursery.start_soon(trio.sleep, 2)
        for _ in range(6):
            await trio.sleep(0.5)


def cancelled_run() -> float:
    """Return the CPU seconds of one cancelled run, its checks included: the mean of an enumeration under ten schedules."""
    began = time.process_time()
    report = cancel_everywhere(small, by=("scope",), schedules=10)
    return (time.process_time() - began) / report.runs


def bare_run() -> float:
    """Return the CPU seconds of a bare run of Trio that is cancelled half-way."""

    async def cancelled() -> None:
        with trio.move_on_after(1.4):
            await small()

    began = time.process_time()
    for _ in range(BARE_RUNS):
        trio.run(cancelled, clock=trio.testing.MockClock(autojump_threshold=0))
    return (time.process_time() - began) / BARE_RUNS


def thousand_runs() -> float:
    """Return the CPU seconds of at least a thousand cancelled runs."""
    began = time.process_time()
    runs = 0
    while runs < THOUSAND:
        runs += cancel_everywhere(small, by=("scope", "deadline")).runs
    return time.process_time() - began


def measure() -> list[Row]:
    cancelled_run()
    measured, baseline = interleaved(ROUNDS, cancelled_run, bare_run)
    took, base = median(measured), median(baseline)
    thousand = thousand_runs()
    return [
        Row(
            name="points: CPU of a cancelled run of a small function",
            measured=seconds(took),
            baseline=seconds(base),
            ratio=took / base,
            target="≤ 1 ms more",
            ok=took - base <= 1e-3,
        ),
        Row(
            name="points: a thousand such runs",
            measured=seconds(thousand),
            baseline=seconds(base * THOUSAND),
            ratio=thousand / (base * THOUSAND),
            target="≤ 3 s",
            ok=thousand <= 3.0,
        ),
    ]


FIGURE = Figure(
    name="points",
    about="engine.testing.cancel_everywhere with a function of Trio",
    measure=measure,
    workload=cancelled_run,
)
