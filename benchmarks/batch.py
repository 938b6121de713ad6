"""Figure `batch`: what `engine batch` adds to each task, what a long ledger costs, and how long the loop stalls."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs
import trio

import engine
from benchmarks.kit import goodbye, scripted
from benchmarks.report import Figure, Row, seconds
from engine.batch.attempt_row import AttemptRow, encode_row
from engine.batch.attempt_run import LocalWorld
from engine.batch.attempt_runner import Attempt
from engine.batch.batch_events import BatchEvent, Report, TaskEnded
from engine.batch.batch_scheduler import BatchOptions, run_batch
from engine.batch.batch_task import BatchTask
from engine.batch.local_runner import LocalRunner
from engine.batch.task_file import TaskList
from engine.batch.work_folder import WorkFolders
from engine.core.settings import Settings
from engine.process.procfs import own_memory
from engine.process.secret_names import SecretVariables
from engine.testing.scripted_provider import ScriptedProvider

TASKS = 10_000
JOBS = 20
ROWS = 100_000
TURNS = 200


@attrs.frozen
class InstantRunner:
    """Runs nothing: what is left is the scheduler and the ledger."""

    async def run(self, attempt: Attempt, *, report: Report, stop: trio.Event) -> AttemptRow:
        await trio.lowlevel.checkpoint()
        return AttemptRow(id=attempt.task.id, attempt=attempt.number, status="finished", task_hash=attempt.task.hash)

    async def remove_folders(self, tasks: Sequence[BatchTask]) -> None:
        await trio.lowlevel.checkpoint()


def tasks(count: int) -> TaskList:
    return TaskList(tasks=tuple(BatchTask(id=f"t{n}", prompt="go") for n in range(count)), bad=())


@attrs.define
class Samples:
    """What is seen at each end of a task: CPU seconds, and bytes of memory at every hundredth."""

    cpu: list[float] = attrs.field(factory=list[float])
    memory: list[int] = attrs.field(factory=list[int])

    def feed(self, event: BatchEvent) -> None:
        if isinstance(event, TaskEnded):
            self.cpu.append(time.process_time())
            if len(self.cpu) % 100 == 0:
                self.memory.append(own_memory(os.getpid()))


def scheduled(count: int) -> float:
    """Return the CPU seconds per task of the scheduler and the ledger alone."""
    folder = Path(tempfile.mkdtemp(prefix="bench-batch-"))
    try:
        options = BatchOptions(name="b", results=folder, jobs=JOBS)
        began = time.process_time()
        trio.run(partial(run_batch, tasks(count), InstantRunner(), options, stop=trio.Event()))
        return (time.process_time() - began) / count
    finally:
        shutil.rmtree(folder)


@attrs.define(eq=False)
class LongestStep(trio.abc.Instrument):
    """The longest that any task kept the loop for itself, in CPU seconds of its thread: other programs don't count."""

    seconds: float = 0.0
    _began: float = 0.0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._began = time.thread_time()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self.seconds = max(self.seconds, time.thread_time() - self._began)


def turned(count: int, jobs: int) -> tuple[Samples, float]:
    """Run scripted turns in a real engine over a store; return samples, and the longest stall of the loop."""
    folder = Path(tempfile.mkdtemp(prefix="bench-batch-"))
    samples, longest = Samples(), LongestStep()
    model = ScriptedProvider([goodbye()], batch=1_000, repeat=True)

    def feed(event: BatchEvent) -> None:
        samples.feed(event)
        # It keeps all requests, which is not memory of the batch.
        model.requests.clear()

    async def main() -> None:
        async with engine.open_engine(model=model, store=folder / "s.db") as eng:
            # What is imported at the first turn is another figure.
            await (await eng.create_session(cwd=folder)).run("go")
            longest.seconds = 0.0
            world = LocalWorld(
                eng=eng,
                folders=WorkFolders(folder / "work"),
                settings=Settings(headless="deny", park=False),
                secrets=SecretVariables(),
            )
            options = BatchOptions(name="b", results=folder / "r", jobs=jobs)
            await run_batch(tasks(count), LocalRunner(world), options, stop=trio.Event(), report=feed)

    try:
        trio.run(main, instruments=[longest])
    finally:
        shutil.rmtree(folder)
    return samples, longest.seconds


def bare_turns(count: int) -> float:
    """Return the CPU seconds of a session with one turn, without a batch around it."""
    folder = Path(tempfile.mkdtemp(prefix="bench-batch-"))

    async def main() -> float:
        async with engine.open_engine(model=scripted(lambda _n: goodbye()), store=folder / "s.db") as eng:
            began = time.process_time()
            for _ in range(count):
                session = await eng.create_session(cwd=folder)
                await session.run("go")
                await eng.close_session(session.id)
            return (time.process_time() - began) / count

    try:
        return trio.run(main)
    finally:
        shutil.rmtree(folder)


def resumed(rows: int) -> float:
    """Return the seconds until a batch with a long ledger, in which everything is done, is over."""
    folder = Path(tempfile.mkdtemp(prefix="bench-batch-"))
    try:
        listed = tasks(rows)
        with (folder / "results.jsonl").open("w", encoding="ascii") as file:
            for task in listed.tasks:
                row = AttemptRow(
                    id=task.id,
                    attempt=1,
                    status="finished",
                    task_hash=task.hash,
                    output='"a usual answer"',
                    times={"setup": 0.5, "model": 20.25},
                )
                file.write(f"{encode_row(row)}\n")
        gc.collect()
        began = time.process_time()
        trio.run(partial(run_batch, listed, InstantRunner(), BatchOptions(name="b", results=folder), stop=trio.Event()))
        return time.process_time() - began
    finally:
        shutil.rmtree(folder)


def measure() -> list[Row]:
    # First: later, what the others have left makes collections of garbage longer.
    _, stall = turned(TURNS, TURNS)
    own = scheduled(TASKS)
    bare = bare_turns(500)
    samples, _ = turned(TASKS, JOBS)
    whole = (samples.cpu[-1] - samples.cpu[999]) / (TASKS - 1_000)
    growth = (samples.memory[-1] - samples.memory[9]) / 1_048_576
    opened = resumed(ROWS)
    return [
        Row(
            name=f"batch: CPU per task of the scheduler and the ledger, {TASKS:,} tasks",
            measured=seconds(own),
            target="≤ 5 ms",
            ok=own <= 0.005,
        ),
        Row(
            name="batch: CPU per task with a scripted turn, versus a session and a turn without a batch",
            measured=seconds(whole),
            baseline=seconds(bare),
            ratio=whole / bare,
            target="≤ 5 ms more",
            ok=whole - bare <= 0.005,
        ),
        Row(
            name=f"batch: memory from task 1,000 to task {TASKS:,}",
            measured=f"{growth:+.1f} MiB",
            target="≤ 8 MiB",
            ok=growth <= 8,
        ),
        Row(
            name=f"batch: CPU to begin with a ledger of {ROWS:,} rows",
            measured=seconds(opened),
            target="≤ 2 s",
            ok=opened <= 2,
        ),
        Row(
            name=f"batch: longest stall of the loop, {TURNS} turns at once, CPU",
            measured=seconds(stall),
            target="≤ 50 ms",
            ok=stall <= 0.05,
        ),
    ]


FIGURE = Figure(
    name="batch",
    about="what a batch adds to each task, its memory, a long ledger, many turns at once",
    measure=measure,
    workload=lambda: turned(500, JOBS),
)
