"""The display of `engine batch`: on a terminal, in a log, for programs, and where its predictions go."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import pyte
import pytest
import trio
from trio.testing import MockClock

from engine.batch.attempt_row import AttemptRow
from engine.batch.batch_events import BatchStarted, BatchTotals, TaskEnded, TaskStarted
from engine.cli.batch.batch_display import BatchDisplay
from engine.cli.batch.batch_options import BatchCommand
from engine.cli.batch.batch_reports import open_reports
from engine.cli.chat.display.live_region import LiveRegion
from engine.cli.terminal.output import Output
from engine.core.errors import StoreError
from tests.cli.batch.test_batch_command import needs_git, repository
from tests.cli.conftest import Quick, Start

TASKS = ("--task", "hello", "--task", "hello")


def screen_of(output: str) -> str:
    """What a terminal of 100 columns and 30 rows shows."""
    screen = pyte.Screen(100, 30)
    pyte.Stream(screen).feed(output)
    return "\n".join(line.rstrip() for line in screen.display).rstrip()


@pytest.mark.os
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_terminal_shows_what_runs_and_what_has_ended(engine: Start, tmp_path: Path) -> None:
    go = tmp_path / "go"
    command = engine(
        "batch", "--task", "hello", "--task", f"bash until [ -e {go} ]; do sleep 0.05; done", "--yes", terminal=True
    )
    command.read_until("task-2  tools")
    command.read_until("finished  task-1")
    command.read_until("1 of 2 done")
    shown = screen_of(command.output)
    assert "✓ finished  task-1" in shown
    assert shown.count("task-2") == 1
    go.touch()
    assert command.wait() == 0
    shown = screen_of(command.output)
    assert [line for line in shown.splitlines() if line.startswith("  task-")] == []
    assert "2 of 2 done · finished 2" in shown
    assert "✓ finished  task-2" in shown


@pytest.mark.os
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_ctrl_c_leaves_a_clean_terminal(engine: Start, tmp_path: Path) -> None:
    command = engine("batch", "--task", f"bash until [ -e {tmp_path}/go ]; do sleep 0.05; done", "--yes", terminal=True)
    command.read_until("task-1  tools")
    command.send(signal.SIGINT)
    assert command.wait() == 130
    shown = screen_of(command.output)
    assert "stopping; Ctrl-C once more exits at once" in shown
    assert "■ cancelled  task-1" in shown
    assert "\n  task-1" not in shown


@pytest.mark.os
def test_log_has_counts_and_no_control_characters(quick: Quick) -> None:
    said = quick("batch", *TASKS).stderr.decode()
    assert said.splitlines()[0] == "batch: 2 tasks"
    assert said.splitlines()[-1].startswith("2 of 2 done · finished 2")
    assert not [line for line in said.splitlines() if not line.isprintable()]
    assert quick("batch", *TASKS, "--quiet", "--name", "b").stderr == b""


@pytest.mark.os
def test_json_is_the_events_and_the_end(quick: Quick, tmp_path: Path) -> None:
    ended = quick("batch", *TASKS, "--json")
    events: Sequence[dict[str, Any]] = [json.loads(line) for line in ended.stdout.splitlines()]
    assert [event["type"] for event in events].count("task_ended") == 2
    assert [events[0]["type"], *(event["type"] for event in events[-2:])] == [
        "batch_started",
        "batch_totals",
        "batch_ended",
    ]
    assert (events[-1]["exit_code"], events[-1]["summary"]["counts"]) == (0, {"finished": 2})
    rows = [json.loads(line) for line in (tmp_path / "batch.results" / "results.jsonl").read_text().splitlines()]
    assert [event["row"] for event in events if event["type"] == "task_ended"] == rows
    assert ended.stderr == b""


@pytest.mark.os
def test_predictions_follow_the_ledger(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "tasks.jsonl").write_text('{"id":"a","prompt":"hello"}\n{"id":"b","prompt":"refused","attempts":1}\n')
    assert quick("batch", "tasks.jsonl", "--predictions", "p.jsonl").code == 3
    whole = (tmp_path / "p.jsonl").read_bytes()
    assert [json.loads(line)["instance_id"] for line in whole.splitlines()] == ["a"]
    # As after a crash between the two files.
    (tmp_path / "p.jsonl").write_bytes(whole[:20])
    assert quick("batch", "tasks.jsonl", "--predictions", "p.jsonl").code == 3
    assert (tmp_path / "p.jsonl").read_bytes() == whole


@pytest.mark.os
def test_predictions_that_cant_be_written_are_reported(quick: Quick, tmp_path: Path) -> None:
    ended = quick("batch", *TASKS, "--predictions", "no/p.jsonl")
    assert (ended.code, ended.stderr.startswith(b"engine batch: no/p.jsonl can't be written")) == (2, True)
    assert not (tmp_path / "batch.results" / "results.jsonl").exists()
    assert quick("batch", *TASKS, "--predictions", "/dev/zero").code == 2


async def test_lost_patch_is_reported_at_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command = BatchCommand.parse([*TASKS, "--predictions", "p.jsonl", "--quiet"])
    row = AttemptRow(id="a", attempt=1, status="finished")
    async with open_reports(command, tuple, tmp_path / "results.jsonl") as reports:
        reports.report(BatchStarted(name="b", tasks=2, done=0, jobs=1))
        reports.report(TaskEnded(row=row))
        reports.report(TaskEnded(row=attrs.evolve(row, id="b", patch="lost.patch")))
    with pytest.raises(StoreError, match=r"^p\.jsonl: No such file or directory\nNext: "):
        reports.check(Path("p.jsonl"))
    assert [line["instance_id"] for line in map(json.loads, (await trio.Path("p.jsonl").read_text()).splitlines())] == [
        "a"
    ]


@pytest.mark.os
def test_formats_are_read_as_they_say(quick: Quick, tmp_path: Path) -> None:
    task = tmp_path / "harbor" / "hello"
    task.mkdir(parents=True)
    (task / "task.toml").write_text("[agent]\ntimeout_sec = 60\n")
    (task / "instruction.md").write_text("hello\n")
    assert quick("batch", "harbor").code == 0
    assert '"id": "hello"' in (tmp_path / "harbor.results" / "results.jsonl").read_text()
    for arguments, words in (
        (("harbor", "--format", "swebench"), "is a directory"),
        (("harbor/hello/task.toml", "--format", "harbor"), "is no directory of Harbor tasks"),
        ((".",), "no directory in it has a task.toml"),
        (("harbor/hello/instruction.md",), "line 1: it is no JSON"),
    ):
        ended = quick("batch", *arguments)
        assert (ended.code, words in ended.stderr.decode()) == (2, True)


def test_log_has_a_line_each_half_minute(tmp_path: Path) -> None:
    async def main() -> None:
        with (tmp_path / "log").open("w") as file:
            output = Output.to(file)
            display = BatchDisplay(output, "lines", LiveRegion(output.width))
            async with trio.open_nursery() as nursery:
                nursery.start_soon(display.run)
                display.feed(BatchStarted(name="b", tasks=900, done=0, jobs=8))
                for number in range(300):
                    display.feed(TaskStarted(id=str(number), attempt=1))
                    display.feed(TaskEnded(row=AttemptRow(id=str(number), attempt=1, status="passed")))
                    waiting = 900 - number - 1
                    counts = BatchTotals(
                        tasks=900,
                        counts={"passed": number + 1},
                        running=0,
                        waiting=waiting,
                        cost=0.0,
                        tokens=0,
                        seconds=1.0,
                    )
                    display.feed(counts)
                    await trio.sleep(0.35)
                nursery.cancel_scope.cancel(reason="the test has seen enough")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(output.run)
                await output.drain()
                nursery.cancel_scope.cancel(reason="all is written")

    trio.run(main, clock=MockClock(autojump_threshold=0))
    lines = (tmp_path / "log").read_text().splitlines()
    assert lines[0] == "b: 900 tasks"
    assert [line.split(" · ")[0] for line in lines[1:]] == [
        "86 of 900 done",
        "172 of 900 done",
        "258 of 900 done",
    ]


@needs_git
@pytest.mark.os
def test_rows_of_swebench_become_predictions(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "clones").mkdir()
    repository(tmp_path / "clones" / "org__name")
    row = {"instance_id": "org__name-1", "repo": "org/name", "base_commit": "HEAD", "problem_statement": "It fails."}
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(row)}\n")
    arguments = ("batch", "rows.jsonl", "--format", "swebench", "--predictions", "p.jsonl")
    assert quick(*arguments).code == 2
    assert quick(*arguments, "--repos", "clones").code == 0
    (line,) = (tmp_path / "p.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "instance_id": "org__name-1",
        "model_name_or_path": "anthropic/claude-sonnet-5-5",
        "model_patch": "",
    }
