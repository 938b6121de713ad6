"""What runs when: retries, folders for one, gates, the end of a batch. The runner has no engine."""

import json
import math
import resource
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from engine.batch.attempt_row import AttemptError, AttemptRow
from engine.batch.attempt_runner import Attempt
from engine.batch.batch_events import BatchEvent, BatchTotals, Report, TaskEnded, TaskStarted
from engine.batch.batch_scheduler import BatchOptions, BatchOutcome, run_batch
from engine.batch.batch_status import DONE_STATUSES, INFRA_CLASSES, STATUSES, BatchStatus, InfraClass
from engine.batch.batch_task import BadLine, BatchTask
from engine.batch.result_ledger import ResultLedger
from engine.batch.task_file import TaskList
from engine.core.errors import ConfigError, StoreError

pytestmark = pytest.mark.os

Ending = BatchStatus | InfraClass


@attrs.define
class EndingRunner:
    """Ends each attempt as it is told, after a moment.

    Attributes:
        endings: of a task's attempts, the last one for ever.
        attempts: what it was asked to run.
        together: the tasks that ran at once, for each start.
    """

    endings: dict[str, list[Ending]] = attrs.field(factory=dict[str, list[Ending]])
    attempts: list[Attempt] = attrs.field(factory=list[Attempt])
    together: list[frozenset[str]] = attrs.field(factory=list[frozenset[str]])
    removed: list[str] = attrs.field(factory=list[str])
    seconds: float = 0.01
    _running: set[str] = attrs.field(factory=set[str])

    async def run(self, attempt: Attempt, *, report: Report, stop: trio.Event) -> AttemptRow:
        name = attempt.task.id
        self.attempts.append(attempt)
        self._running.add(name)
        self.together.append(frozenset(self._running))
        with trio.move_on_after(self.seconds):
            await stop.wait()
        self._running.discard(name)
        endings = self.endings.get(name, ["finished"])
        ending: Ending = endings[min(sum(each.task.id == name for each in self.attempts), len(endings)) - 1]
        if stop.is_set():
            ending = "cancelled"
        kind = next((each for each in INFRA_CLASSES if each == ending), None)
        status: BatchStatus = "infra"
        for each in STATUSES:
            if each == ending:
                status = each
        return AttemptRow(
            id=name,
            attempt=attempt.number,
            status=status,
            session=f"session of {name}",
            error=None if kind is None else AttemptError(kind=kind, message="oh"),
            retries=attempt.retries,
            task_hash=attempt.task.hash,
            config_hash=attempt.config_hash,
        )

    async def remove_folders(self, tasks: Sequence[BatchTask]) -> None:
        await trio.lowlevel.checkpoint()
        self.removed += [task.id for task in tasks]


def listed(*tasks: BatchTask, bad: Sequence[BadLine] = ()) -> TaskList:
    return TaskList(tasks=tasks, bad=tuple(bad))


def task(name: str, **fields: Any) -> BatchTask:
    return BatchTask(id=name, prompt=fields.pop("prompt", f"do {name}"), **fields)


def play(
    folder: Path,
    tasks: TaskList,
    runner: EndingRunner,
    *,
    stop: trio.Event | None = None,
    report: Report = lambda _event: None,
    **options: Any,
) -> BatchOutcome:
    fields: dict[str, Any] = {"name": "b", "results": folder, "retry_delay": 0.001, **options}
    how = BatchOptions(**fields)

    async def main() -> BatchOutcome:
        return await run_batch(tasks, runner, how, stop=trio.Event() if stop is None else stop, report=report)

    return trio.run(main)


def statuses(folder: Path) -> list[tuple[str, str]]:
    with ResultLedger.open(folder / "results.jsonl") as ledger:
        return [(row.id, row.status) for row in ledger.rows()]


@pytest.mark.parametrize("status", STATUSES)
def test_only_results_are_done(tmp_path: Path, status: BatchStatus) -> None:
    ending: Ending = "store" if status == "infra" else status
    play(tmp_path, listed(task("a", attempts=1)), EndingRunner({"a": [ending]}))
    again = EndingRunner()
    play(tmp_path, listed(task("a")), again)
    assert len(again.attempts) == (0 if status in DONE_STATUSES else 1)
    if status in DONE_STATUSES:
        play(tmp_path, listed(task("a")), again, retry=frozenset({status}))
        assert [attempt.number for attempt in again.attempts] == [2]


@pytest.mark.parametrize("kind", INFRA_CLASSES)
def test_faults_are_retried_and_continue_the_session(tmp_path: Path, kind: InfraClass) -> None:
    runner = EndingRunner({"a": [kind, kind, "passed"]})
    play(tmp_path, listed(task("a")), runner)
    if kind == "provider_auth":  # it would be wrong again
        assert len(runner.attempts) == 1
        return
    assert [attempt.number for attempt in runner.attempts] == [1, 2, 3]
    assert [attempt.session for attempt in runner.attempts] == ["", "session of a", "session of a"]
    assert runner.attempts[2].retries == (f"{kind}: oh",) * 2
    assert runner.removed == ["a"]


def test_retries_end(tmp_path: Path) -> None:
    runner = EndingRunner({"a": ["disk"], "b": ["disk"]})
    outcome = play(tmp_path, listed(task("a"), task("b", attempts=2)), runner, fresh=True)
    assert Counter(attempt.task.id for attempt in runner.attempts) == {"a": 4, "b": 2}
    assert {attempt.session for attempt in runner.attempts} == {""}
    assert (outcome.left, runner.removed) == (2, [])


def test_agents_failures_are_not_retried(tmp_path: Path) -> None:
    runner = EndingRunner({name: [name] for name in DONE_STATUSES})
    play(tmp_path, listed(*map(task, sorted(DONE_STATUSES))), runner)
    assert len(runner.attempts) == len(DONE_STATUSES)


@pytest.mark.parametrize(("keep", "removed"), [("none", {"good", "bad"}), ("failed", {"good"}), ("all", set[str]())])
def test_folders_are_removed_after_the_row(tmp_path: Path, keep: str, removed: set[str]) -> None:
    runner = EndingRunner({"good": ["passed"], "bad": ["failed"], "none": ["store"]})
    play(tmp_path, listed(*map(task, ("good", "bad", "none"))), runner, keep=keep)
    assert set(runner.removed) == removed


def test_tasks_in_one_folder_never_run_together(tmp_path: Path) -> None:
    tasks = [task(f"{folder}{number}", cwd=folder, in_place=True) for number in range(4) for folder in "xy"]
    runner = EndingRunner()
    play(tmp_path, listed(*tasks, task("z")), runner, jobs=9)
    assert len(runner.attempts) == 9
    for together in runner.together:
        assert max(Counter(name[0] for name in together).values()) == 1
    assert max(map(len, runner.together)) > 1


def test_at_most_so_many_run_at_once(tmp_path: Path) -> None:
    runner = EndingRunner()
    totals: list[BatchTotals] = []

    def report(event: BatchEvent) -> None:
        if isinstance(event, BatchTotals):
            totals.append(event)

    play(tmp_path, listed(*(task(str(number)) for number in range(20))), runner, jobs=3, report=report)
    assert max(map(len, runner.together)) <= 3
    assert (totals[-1].counts, totals[-1].running, totals[-1].waiting) == ({"finished": 20}, 0, 0)


def test_a_stop_records_what_ran(tmp_path: Path) -> None:
    stop, started = trio.Event(), list[str]()

    def report(event: BatchEvent) -> None:
        if isinstance(event, TaskStarted):
            started.append(event.id)
        if len(started) == 2:
            stop.set()

    runner = EndingRunner(seconds=math.inf)
    outcome = play(tmp_path, listed(*map(task, "abcd")), runner, jobs=2, stop=stop, report=report)
    assert sorted(statuses(tmp_path)) == sorted((name, "cancelled") for name in started)
    assert (outcome.left, outcome.reason) == (4, "")
    # What was cancelled is continued.
    again = EndingRunner()
    play(tmp_path, listed(*map(task, "abcd")), again)
    assert {attempt.task.id for attempt in again.attempts if attempt.session} == set(started)


@attrs.define
class CountingGate:
    """Opens for so many looks."""

    looks: int

    def blocked(self) -> str:
        self.looks -= 1
        return "" if self.looks > 0 else "no money"


def test_a_closed_gate_ends_the_batch(tmp_path: Path) -> None:
    runner = EndingRunner()
    outcome = play(tmp_path, listed(*map(task, "abcdef")), runner, jobs=1, gates=(CountingGate(5),))
    assert 0 < len(runner.attempts) < 6
    assert (outcome.reason, outcome.left) == ("no money", 6 - len(runner.attempts))


def test_changed_tasks_are_refused(tmp_path: Path) -> None:
    play(tmp_path, listed(task("a"), task("b")), EndingRunner({"b": ["store"]}))
    changed = listed(task("a", prompt="another"), task("b"))
    with pytest.raises(ConfigError, match="1 tasks have changed since they were run: a"):
        play(tmp_path, changed, EndingRunner())
    runner = EndingRunner()
    play(tmp_path, changed, runner, allow_changed=True)
    assert [(attempt.task.id, attempt.session) for attempt in runner.attempts] == [("a", ""), ("b", "session of b")]


def test_a_changed_configuration_is_refused(tmp_path: Path) -> None:
    play(tmp_path, listed(task("a"), task("b")), EndingRunner({"b": ["store"]}), config_hash="1")
    with pytest.raises(ConfigError, match="another configuration"):
        play(tmp_path, listed(task("a"), task("b")), EndingRunner(), config_hash="2")
    # With nothing to run, nothing is mixed.
    assert play(tmp_path, listed(task("a")), EndingRunner(), config_hash="2").left == 0
    runner = EndingRunner()
    play(tmp_path, listed(task("a"), task("b")), runner, config_hash="2", allow_changed=True)
    # The session of the other configuration is not continued.
    assert [(attempt.task.id, attempt.session) for attempt in runner.attempts] == [("b", "")]


def test_changed_tasks_without_results_just_run(tmp_path: Path) -> None:
    play(tmp_path, listed(task("a", attempts=1)), EndingRunner({"a": ["store"]}))
    runner = EndingRunner()
    play(tmp_path, listed(task("a", prompt="another")), runner)
    assert [attempt.session for attempt in runner.attempts] == [""]


def test_bad_lines_have_one_row(tmp_path: Path) -> None:
    bad = [BadLine(line=2, id="b", message="it is no JSON"), BadLine(line=3, id="a", message="that of line 1")]
    for _ in range(2):
        assert play(tmp_path, listed(task("a"), bad=bad), EndingRunner()).bad == 2
    assert statuses(tmp_path) == [("b", "bad_task"), ("a", "finished")]
    # Corrected, it runs.
    play(tmp_path, listed(task("a"), task("b")), EndingRunner())
    assert statuses(tmp_path)[-1] == ("b", "finished")


def test_rows_are_on_disk_when_reported(tmp_path: Path) -> None:
    seen: list[int] = []

    def report(event: BatchEvent) -> None:
        if isinstance(event, TaskEnded):
            seen.append(len((tmp_path / "results.jsonl").read_text().splitlines()))

    play(tmp_path, listed(*map(task, "abc")), EndingRunner(), jobs=1, report=report)
    assert seen == [1, 2, 3]


@contextmanager
def largest_file(size: int) -> Generator[None]:
    """No file of this process gets larger, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_ends_the_batch_between_rows(tmp_path: Path) -> None:
    tasks = listed(*(task(str(number)) for number in range(20)))
    with largest_file(2_000), pytest.raises(StoreError, match="File too large"):
        play(tmp_path, tasks, EndingRunner(), jobs=2)
    written = statuses(tmp_path)
    assert 0 < len(written) < 20
    assert (tmp_path / "results.jsonl").read_bytes().endswith(b"}\n")
    play(tmp_path, tasks, EndingRunner(), jobs=2)
    assert Counter(statuses(tmp_path)) == Counter((str(number), "finished") for number in range(20))


def test_the_summary_is_of_all_rows(tmp_path: Path) -> None:
    endings: dict[str, list[Ending]] = {"a": ["passed"], "b": ["store", "passed"], "c": ["failed"], "d": ["store"]}
    play(tmp_path, listed(*map(task, "abcd")), EndingRunner(endings))
    (tmp_path / "summary.json").unlink()
    play(tmp_path, listed(*map(task, "abc")), EndingRunner())
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["counts"] == {"passed": 2, "failed": 1, "infra": 1}
    assert summary["without_retried"]["counts"] == {"passed": 1, "failed": 1}
    assert (summary["pass_rate"], summary["without_retried"]["pass_rate"]) == (0.666667, 0.5)
    assert [(fault["id"], fault["class"]) for fault in summary["infra"]] == [("d", "store")]
