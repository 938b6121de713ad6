"""The limits of a whole batch, and of its requests to model hosts: money, tokens, a minute's requests."""

from collections import Counter
from pathlib import Path

import pytest

from tests.cli.batch.test_batch_command import rows, write_tasks
from tests.cli.conftest import Quick

pytestmark = pytest.mark.os

UNKNOWN = "anthropic/nobody-knows-its-price"


def tasks(folder: Path, count: int) -> str:
    return write_tasks(folder, *({"id": f"t{number}", "prompt": "hello"} for number in range(count)))


def statuses(folder: Path) -> Counter[str]:
    """How many tasks ended in each way, by their newest row."""
    return Counter({row["id"]: row["status"] for row in rows(folder)}.values())


def test_money_is_for_all_tasks_and_all_runs(quick: Quick, tmp_path: Path) -> None:
    arguments = ("batch", tasks(tmp_path, 16), "--jobs", "2")
    ended = quick(*arguments, "--max-cost", "0.03")
    assert ended.code == 3
    assert b"stopped early: the limit of the batch: " in ended.stdout
    found = rows(tmp_path)
    # The host reports less than the prompt's estimate, which must fit.
    assert 1 <= statuses(tmp_path)["finished"] < 16
    assert {row["stop_reason"] for row in found if row["status"] == "stopped"} <= {"cost_limit"}
    assert sum(row["cost"] for row in found) <= 0.03 + 2 * max(row["cost"] for row in found)
    # What is spent stays spent.
    assert quick(*arguments, "--max-cost", "0.03").code == 3
    assert sum(row["cost"] for row in rows(tmp_path)) <= 0.03 + 2 * max(row["cost"] for row in found)
    assert quick(*arguments, "--max-cost", "1", "--retry", "stopped").code == 0
    assert statuses(tmp_path) == {"finished": 16}


def test_tokens_are_for_all_tasks(quick: Quick, tmp_path: Path) -> None:
    ended = quick("batch", tasks(tmp_path, 6), "--jobs", "1", "--max-tokens", "10000")
    assert ended.code == 3
    assert b"tokens were used" in ended.stdout
    assert 1 <= statuses(tmp_path)["finished"] < 6
    assert {row["stop_reason"] for row in rows(tmp_path) if row["status"] == "stopped"} <= {"token_budget"}


def test_money_without_prices_needs_tokens(quick: Quick, tmp_path: Path) -> None:
    arguments = ("batch", tasks(tmp_path, 1), "--model", UNKNOWN, "--max-cost", "1")
    ended = quick(*arguments)
    assert ended.code == 2
    assert f"the cost of {UNKNOWN} is unknown".encode() in ended.stderr
    assert b"Next: add --max-tokens N" in ended.stderr
    assert not (tmp_path / "tasks.results" / "results.jsonl").exists()
    assert quick(*arguments, "--max-tokens", "100000").code == 0
    (row,) = rows(tmp_path)
    assert (row["cost"], row["cost_known"]) == (0.0, False)


def test_price_of_a_tasks_own_model_counts(quick: Quick, tmp_path: Path) -> None:
    write_tasks(tmp_path, {"prompt": "hello"}, {"prompt": "hello", "model": UNKNOWN})
    ended = quick("batch", "tasks.jsonl", "--max-cost", "1")
    assert (ended.code, UNKNOWN.encode() in ended.stderr) == (2, True)


def test_third_request_of_a_minute_waits(quick: Quick, tmp_path: Path) -> None:
    """It waits for longer than its task may take."""
    ended = quick("batch", tasks(tmp_path, 3), "--rpm", "2", "--jobs", "3", "--timeout", "3")
    assert ended.code == 1
    assert statuses(tmp_path) == {"finished": 2, "timeout": 1}


@pytest.mark.parametrize(
    "flags",
    [
        ("--reserve", "100%"),
        ("--reserve", "-1%"),
        ("--reserve", "much"),
        ("--rpm", "0"),
        ("--tpm", "1.5"),
        ("--max-cost", "-1"),
        ("--max-tokens", "none"),
    ],
    ids=" ".join,
)
def test_impossible_limits_are_refused(quick: Quick, tmp_path: Path, flags: tuple[str, str]) -> None:
    ended = quick("batch", tasks(tmp_path, 1), *flags)
    assert (ended.code, flags[0].encode() in ended.stderr) == (2, True)


def test_reserve_is_a_share(quick: Quick, tmp_path: Path) -> None:
    for share in ("20%", "0.2", "0"):
        assert quick("batch", tasks(tmp_path, 1), "--tpm", "100000", "--reserve", share).code == 0
