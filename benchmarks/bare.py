"""The baselines: what bare trio takes for the same tasks, handoffs and waits."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import trio


class BareStep:
    """The skeleton of a step: a nursery, a reader, a worker, their events, and somebody who watches.

    It has the checkpoints of a step with one call and no more: the model's `open`,
    two `receive`, `aclose`, the tool's own, the store's flush.
    """

    def __init__(self) -> None:
        self.watched = trio.lowlevel.ParkingLot()
        self.gate: trio.Event | None = None

    async def run(self) -> None:
        over, settled = trio.Event(), trio.Event()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._read, nursery, over, settled)
            await over.wait()
            await settled.wait()
        await trio.lowlevel.checkpoint()
        self.watched.unpark_all()

    async def _read(self, nursery: trio.Nursery, over: trio.Event, settled: trio.Event) -> None:
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        nursery.start_soon(self._work, settled)
        self.watched.unpark_all()
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()
        over.set()

    async def _work(self, settled: trio.Event) -> None:
        await trio.lowlevel.checkpoint_if_cancelled()
        if self.gate is not None:
            await self.gate.wait()
        else:
            await trio.lowlevel.checkpoint()
        settled.set()
        self.watched.unpark_all()

    async def watch(self) -> None:
        """Be woken as a cursor is."""
        while True:
            await self.watched.park()


async def bare_turn(step: BareStep, steps: int) -> None:
    """Run *steps* of them as a turn does: a loop task in a nursery, and a watcher."""
    async with trio.open_nursery() as turn:
        turn.start_soon(step.watch)
        over = trio.Event()
        turn.start_soon(_loop, step, steps, over)
        await over.wait()
        turn.cancel_scope.cancel(reason="the bare turn is over")


async def _loop(step: BareStep, steps: int, over: trio.Event) -> None:
    for _ in range(steps):
        await step.run()
    over.set()


def channel_seconds(events: Sequence[object]) -> float:
    """Return the CPU seconds that *events* take through a memory channel, one by one."""

    async def main() -> float:
        send, receive = trio.open_memory_channel[object](math.inf)
        began = time.process_time()
        for event in events:
            send.send_nowait(event)
        send.close()
        count = 0
        async for _ in receive:
            count += 1
        took = time.process_time() - began
        assert count == len(events)
        return took

    return trio.run(main)


def cancel_seconds(tasks: int) -> float:
    """Return the seconds from the cancel of a nursery with sleeping tasks until it is left."""

    async def main() -> float:
        began = 0.0
        async with trio.open_nursery() as nursery:
            for _ in range(tasks):
                nursery.start_soon(trio.sleep_forever)
            await trio.testing.wait_all_tasks_blocked()
            began = time.perf_counter()
            nursery.cancel_scope.cancel(reason="benchmark")
        return time.perf_counter() - began

    return trio.run(main)


def grace_seconds(tasks: int, grace: float) -> float:
    """Return how long it takes to give up after *grace* on tasks that will not stop."""

    async def main() -> float:
        release = trio.Event()
        began = 0.0
        took = 0.0
        async with trio.open_nursery() as nursery:
            for _ in range(tasks):
                nursery.start_soon(_stubborn, release)
            await trio.testing.wait_all_tasks_blocked()
            began = time.perf_counter()
            nursery.cancel_scope.cancel(reason="benchmark")
            with trio.CancelScope(shield=True, deadline=trio.current_time() + grace):
                await trio.sleep_forever()
            took = time.perf_counter() - began
            release.set()
        return took

    return trio.run(main)


async def _stubborn(release: trio.Event) -> None:
    with trio.CancelScope(shield=True):
        await release.wait()


def parallel_seconds(gaps: Sequence[float], work: float) -> float:
    """Return how long it takes to start a task of *work* seconds after each of *gaps*, until all are done."""

    async def main() -> float:
        began = time.perf_counter()
        async with trio.open_nursery() as nursery:
            for gap in gaps:
                await trio.sleep(gap)
                nursery.start_soon(trio.sleep, work)
        return time.perf_counter() - began

    return trio.run(main)
