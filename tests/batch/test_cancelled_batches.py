"""A batch that is cancelled at any point: its ledger is whole, and the next run brings it to the same end."""

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from engine.batch.attempt_row import AttemptError, AttemptRow
from engine.batch.attempt_run import LocalWorld
from engine.batch.attempt_runner import Attempt
from engine.batch.batch_events import Report
from engine.batch.batch_scheduler import BatchOptions, run_batch
from engine.batch.batch_task import BatchTask
from engine.batch.local_runner import LocalRunner
from engine.batch.task_file import TaskList
from engine.batch.work_folder import WorkFolders
from engine.core.settings import Settings
from engine.process.secret_names import SecretVariables
from engine.session.engine import open_engine
from engine.session.engine_options import PermissionOptions
from engine.testing.cancellation.everywhere import cancel_everywhere
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from tests.conftest import CountRuns

pytestmark = [pytest.mark.os, pytest.mark.slow]

Batch = Callable[[], Coroutine[Any, Any, None]]


def tasks(count: int, **fields: Any) -> TaskList:
    return TaskList(tasks=tuple(BatchTask(id=f"t{n}", prompt=f"task {n}", **fields) for n in range(count)), bad=())


def rows(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (results / "results.jsonl").read_text().splitlines()]


@attrs.define
class PlainRunner:
    """Does what a runner promises, without an engine; its sessions outlive it.

    Attributes:
        begun: how often each attempt was begun from nothing.
        ended: the attempts whose session has a result.
        faulty: the tasks whose first attempt fails.
    """

    faulty: frozenset[str] = frozenset()
    begun: Counter[tuple[str, int]] = attrs.field(factory=Counter[tuple[str, int]])
    ended: set[tuple[str, int]] = attrs.field(factory=set[tuple[str, int]])
    removed: list[str] = attrs.field(factory=list[str])

    async def run(self, attempt: Attempt, *, report: Report, stop: trio.Event) -> AttemptRow:
        key = attempt.task.id, attempt.number
        await trio.lowlevel.checkpoint()
        continued = key in self.ended
        if not continued:
            self.begun[key] += 1
            await trio.sleep(0.001)
            self.ended.add(key)
        await trio.lowlevel.checkpoint()
        fails = attempt.task.id in self.faulty and attempt.number == 1
        return AttemptRow(
            id=attempt.task.id,
            attempt=attempt.number,
            status="infra" if fails else "finished",
            error=AttemptError(kind="setup", message="not yet") if fails else None,
            continued=continued,
            task_hash=attempt.task.hash,
            config_hash=attempt.config_hash,
        )

    async def remove_folders(self, tasks: Sequence[BatchTask]) -> None:
        await trio.lowlevel.checkpoint()
        self.removed += [task.id for task in tasks]


@contextmanager
def plain_batch() -> Generator[Batch]:
    folder = Path(tempfile.mkdtemp(prefix="batch-"))
    runner = PlainRunner(faulty=frozenset({"t1"}))
    options = BatchOptions(name="b", results=folder / "r", jobs=2, retry_delay=0.001)

    async def batch() -> None:
        await run_batch(tasks(3), runner, options, stop=trio.Event())

    try:
        yield batch
        trio.run(batch)
        ends = Counter((row["id"], row["status"]) for row in rows(options.results))
        assert ends == {(name, "finished"): 1 for name in ("t0", "t1", "t2")} | {("t1", "infra"): 1}
        assert set(runner.removed) == {"t0", "t1", "t2"}
        assert json.loads((options.results / "summary.json").read_text())["counts"] == {"finished": 3}
    finally:
        shutil.rmtree(folder)


def test_cancelled_scheduler_loses_no_row(count_runs: CountRuns, *, is_full: bool) -> None:
    report = cancel_everywhere(plain_batch, repeatable=False, every=1 if is_full else 12)
    count_runs(report.runs)


@attrs.frozen
class Mark:
    """What to write."""

    text: str


@contextmanager
def engine_batch() -> Generator[Batch]:
    """Two tasks with a call that writes a line each, in a real engine over a real store."""
    folder = Path(tempfile.mkdtemp(prefix="batch-"))
    effects = folder / "effects"
    effects.touch()

    @tool
    async def mark(args: Mark, ctx: ToolContext) -> str:
        """Write a line."""
        await trio.lowlevel.checkpoint()
        with effects.open("a") as file:
            file.write(f"{args.text}\n")
        await trio.lowlevel.checkpoint()
        return "written"

    def answer(request: Any) -> Answer:
        if any(type(message).__name__ == "AssistantMessage" for message in request.transcript):
            return [*text("All done."), *done()]
        return [
            *call("mark", {"text": str(request.transcript[0])[:2_000].split("task ")[1][:1]}, id="c"),
            *done("calls"),
        ]

    async def batch() -> None:
        async with open_engine(
            model=ScriptedProvider([answer], repeat=True),
            tools=[mark],
            store=folder / "s.db",
            permissions=PermissionOptions(profile="full"),
        ) as eng:
            world = LocalWorld(
                eng=eng,
                folders=WorkFolders(folder / "work"),
                settings=Settings(headless="deny", park=False),
                secrets=SecretVariables(),
            )
            options = BatchOptions(name="b", results=folder / "r", jobs=2)
            await run_batch(tasks(2), LocalRunner(world), options, stop=trio.Event())

    try:
        yield batch
        trio.run(batch)
        ends = Counter((row["id"], row["status"], row["output"]) for row in rows(folder / "r"))
        assert ends == {("t0", "finished", "All done."): 1, ("t1", "finished", "All done."): 1}
        written = Counter(effects.read_text().split())
        assert max(written.values(), default=0) <= 1
        assert not any((folder / "work").iterdir())
    finally:
        shutil.rmtree(folder)


def test_cancelled_batch_does_nothing_twice(count_runs: CountRuns, *, is_full: bool) -> None:
    report = cancel_everywhere(engine_batch, by=("scope",), repeatable=False, every=1 if is_full else 40)
    count_runs(report.runs)
