"""Figure `runs`: what one cancelled run of the test kit costs."""

from __future__ import annotations

import time

import trio
import trio.testing

from benchmarks.bare import BareStep, bare_turn
from benchmarks.report import Figure, Row, interleaved, median, seconds
from engine.testing.cancellation.everywhere import cancel_everywhere
from engine.testing.harness import Scenario
from engine.testing.script import call, done, text

ROUNDS = 5
# Only each so many-th point: enough runs for a mean, in few seconds.
EVERY = 7
# The turn itself, and the next prompt that every run ends with.
STEPS = 3

SCENARIO = Scenario(
    script=[
        [
            *text("Let me look.", pieces=3),
            *call("look", {"key": "a", "seconds": 0.1}, id="1"),
            *call("work", {"key": "b", "seconds": 0.5}, id="2"),
            *done("calls"),
        ],
        [*text("That is all."), *done()],
    ]
)


def cancelled_run() -> float:
    """Return the CPU seconds of one cancelled run, its checks included: the mean of an enumeration."""
    began = time.process_time()
    report = cancel_everywhere(SCENARIO, every=EVERY)
    return (time.process_time() - began) / report.runs


def bare_run() -> float:
    """Return the CPU seconds of a bare trio run of as many bare steps on a mock clock, cancelled at its end."""
    runs = 50
    began = time.process_time()
    for _ in range(runs):
        trio.run(bare_turn, BareStep(), STEPS, clock=trio.testing.MockClock(autojump_threshold=0))
    return (time.process_time() - began) / runs


def measure() -> list[Row]:
    cancelled_run()
    measured, baseline = interleaved(ROUNDS, cancelled_run, bare_run)
    took, base = median(measured), median(baseline)
    return [
        Row(
            name="runs: CPU of a cancelled run, its checks included",
            measured=seconds(took),
            baseline=seconds(base),
            ratio=took / base,
            target="≤ 8 ms",
            ok=took <= 8e-3,
        )
    ]


FIGURE = Figure(
    name="runs",
    about="one cancelled run of engine.testing.cancel_everywhere",
    measure=measure,
    workload=cancelled_run,
)
