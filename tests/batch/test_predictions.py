"""Predictions for SWE-bench: a line for each result, none for what has none, and nothing lost by a crash."""

import json
from pathlib import Path

import pytest

from engine.batch.attempt_row import AttemptError, AttemptRow, encode_row
from engine.batch.batch_status import BatchStatus
from engine.batch.predictions import PredictionsFile


def row(task_id: str, status: BatchStatus = "finished", patch: str = "") -> AttemptRow:
    return AttemptRow(id=task_id, attempt=1, status=status, patch=patch, model="anthropic/claude")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    (tmp_path / "a.patch").write_text("--- a\n+++ b\n")
    return tmp_path


def lines(results: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in (results / "predictions.jsonl").read_text().splitlines()]


def ledger(results: Path, *rows: AttemptRow) -> Path:
    (results / "results.jsonl").write_text("".join(f"{encode_row(row)}\n" for row in rows))
    return results / "results.jsonl"


def opened(results: Path) -> PredictionsFile:
    return PredictionsFile.open(results / "predictions.jsonl", results)


def test_result_is_a_line_with_its_patch(results: Path) -> None:
    file = opened(results)
    file.add(row("a", patch="a.patch"))
    file.add(row("b", "stopped"))
    file.close()
    assert lines(results) == [
        {"instance_id": "a", "model_name_or_path": "anthropic/claude", "model_patch": "--- a\n+++ b\n"},
        {"instance_id": "b", "model_name_or_path": "anthropic/claude", "model_patch": ""},
    ]


@pytest.mark.parametrize("status", ["infra", "cancelled", "bad_task"])
def test_attempt_without_result_leaves_no_line(results: Path, status: BatchStatus) -> None:
    file = opened(results)
    file.add(AttemptRow(id="a", attempt=1, status=status, error=AttemptError(kind="disk", message="full")))
    file.add_missing(ledger(results, row("b", status)))
    file.close()
    assert lines(results) == []


def test_torn_line_is_removed_and_added_again(results: Path) -> None:
    file = opened(results)
    file.add(row("a", patch="a.patch"))
    file.close()
    path = results / "predictions.jsonl"
    whole = path.read_bytes()
    for end in range(len(whole)):
        path.write_bytes(whole[:end])
        file = opened(results)
        file.add_missing(ledger(results, row("a", patch="a.patch")))
        file.close()
        assert path.read_bytes() == whole


def test_missing_results_are_added_once(results: Path) -> None:
    rows = ledger(results, row("a", "infra"), row("a", patch="a.patch"), row("b"))
    with rows.open("a") as torn:
        torn.write("torn")
    for _ in range(2):
        file = opened(results)
        file.add_missing(rows)
        file.close()
    assert [line["instance_id"] for line in lines(results)] == ["a", "b"]


def test_lines_of_others_stay(results: Path) -> None:
    path = results / "predictions.jsonl"
    path.write_text('{"instance_id":"x"}\nno JSON\n[1]\n')
    file = opened(results)
    file.add_missing(ledger(results, row("x"), row("b")))
    file.close()
    assert path.read_text().startswith('{"instance_id":"x"}\nno JSON\n[1]\n{"instance_id": "b"')
