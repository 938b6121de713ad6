"""A program that is interrupted at random instants: `python -m tests.os.interrupted SEED TIMES`."""

import contextlib
import os
import random
import signal
import sys
import threading
import time

import trio

from engine.process.run_tree import FinishedProcess, run_tree
from tests.os import trees


class Attempt:
    """One run of trio, and a thread that interrupts it, often twice."""

    def __init__(self, dice: random.Random) -> None:
        self.script = trees.STUBBORN[dice.choice(list(trees.STUBBORN))]
        self.shape = dice.choice([self.in_main, self.in_child, self.beside_a_busy_main])
        self.first = dice.choice([0.005, 0.02, 0.1]) * dice.random()
        self.second = dice.choice([0.001, 0.01, 0.1]) * dice.random()
        self.runs = threading.Event()
        self.is_over = False

    async def in_main(self) -> None:
        self.runs.set()
        await run_tree(
            trees.bash(self.script),
            cwd="/",
            marker=trees.marker(),
            on_output=lambda _: None,
            on_finish=self.over,
        )

    async def in_child(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.in_main)
            await trio.sleep_forever()

    async def beside_a_busy_main(self) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.in_main)
            while True:
                await trio.lowlevel.checkpoint()

    def over(self, _: FinishedProcess) -> None:
        self.is_over = True

    def interrupt(self) -> None:
        self.runs.wait()
        time.sleep(self.first)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(self.second)
        if not self.is_over:
            os.kill(os.getpid(), signal.SIGINT)

    def run(self) -> bool:
        """Return whether the interrupt came out of `trio.run`."""
        thread = threading.Thread(target=self.interrupt)
        thread.start()
        was_interrupted = False
        try:
            trio.run(self.shape)
        except* KeyboardInterrupt:
            was_interrupted = True
        with contextlib.suppress(KeyboardInterrupt):  # a second one which was late
            thread.join()
        thread.join()
        return was_interrupted


def main(seed: str, times: str) -> None:
    interrupted = left = 0
    dice = random.Random(int(seed))
    for _ in range(int(times)):
        interrupted += Attempt(dice).run()
        for pid in trees.alive():
            left += 1
            os.kill(pid, signal.SIGKILL)
        left += len(trees.children())
    print(f"{interrupted} interrupted, {left} left")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
