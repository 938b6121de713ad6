"""The ledger: whole after any crash, of one runner at a time, and never a row too long."""

import json
import multiprocessing
import os
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import attrs
import pytest
import trio

from engine.batch.attempt_row import (
    MAX_ROW_BYTES,
    AttemptError,
    AttemptRow,
    DamagedRow,
    decode_digest,
    decode_row,
    encode_row,
    infra_class,
)
from engine.batch.batch_summary import batch_summary
from engine.batch.batch_tally import BatchTally
from engine.batch.result_ledger import ResultLedger
from engine.core.errors import ConfigError, StoreError
from engine.core.messages import Usage

pytestmark = pytest.mark.os

ROW = AttemptRow(
    id="a",
    attempt=2,
    status="infra",
    stop_reason="provider_error",
    check="failed",
    session="batch_1",
    continued=True,
    base_commit="abc",
    patch="patches/a.2.patch",
    output='{"x": [1, null]}',
    usage=Usage(input=3, output=4),
    cost=0.25,
    cost_known=False,
    times={"setup": 1.5, "model": 2.0},
    error=AttemptError(kind="store", message="gone"),
    retries=("setup: no",),
    notes=("no patch",),
    denied=1,
    steps=2,
    model="h/m",
    config_hash="c",
    task_hash="t",
    prompt_hash="p",
    host="here",
    shard="1/2",
    ended=5.5,
)


def written(path: Path, *rows: AttemptRow) -> Sequence[AttemptRow]:
    """Append rows, and read all of them."""

    async def main() -> Sequence[AttemptRow]:
        with ResultLedger.open(path) as ledger:
            async with trio.open_nursery() as nursery:
                for row in rows:
                    nursery.start_soon(ledger.append, row)
            return list(ledger.rows())

    return trio.run(main)


def test_a_row_comes_back_as_it_was() -> None:
    assert decode_row(encode_row(ROW)) == ROW
    assert infra_class(ROW) == "store"
    for output in (None, json.dumps("é\n"), "0", "[]"):
        row = attrs.evolve(ROW, output=output)
        assert decode_row(encode_row(row)) == row


def test_a_row_of_a_newer_engine_is_read() -> None:
    assert decode_row(json.dumps({**json.loads(encode_row(ROW)), "novelty": 1})) == ROW


@pytest.mark.parametrize(
    "line",
    [
        "",
        "nonsense",
        "[]",
        "{}",
        '{"id": 1, "attempt": 1, "status": "infra"}',
        '{"id": "a", "attempt": 1, "status": "well"}',
    ],
)
def test_other_lines_are_no_rows(line: str) -> None:
    with pytest.raises(DamagedRow):
        decode_row(line)


def test_a_row_is_never_too_long() -> None:
    long = attrs.evolve(
        ROW,
        output=json.dumps("\u2028" * 20_000),
        error=AttemptError(kind="store", message="é" * 9_000),
        retries=("é" * 9_000,) * 50,
    )
    line = encode_row(long)
    assert len(line) <= MAX_ROW_BYTES
    assert "\n" not in line
    error = decode_row(line).error
    assert error is not None
    assert len(error.message) == 2_000


def test_torn_end_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    written(path, ROW)
    whole = path.read_bytes()
    second = whole.replace(b'"a"', b'"b"')
    for end in range(len(second)):
        path.write_bytes(whole + second[:end])
        rows = written(path)
        assert rows == [ROW]
        assert path.read_bytes() == whole
    path.write_bytes(second[:-1])
    assert written(path, ROW) == [ROW]


def test_a_damaged_line_costs_no_other(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    written(path, ROW)
    path.write_bytes(path.read_bytes() + b"\0\0\0\n")
    with ResultLedger.open(path) as ledger:
        assert list(ledger.rows()) == [ROW]
        assert ledger.damaged == [2]


def test_rows_at_once_are_all_written(tmp_path: Path) -> None:
    rows = [attrs.evolve(ROW, id=str(number)) for number in range(50)]
    assert sorted(row.id for row in written(tmp_path / "results.jsonl", *rows)) == sorted(row.id for row in rows)


def test_a_second_runner_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    with ResultLedger.open(path), pytest.raises(ConfigError, match=f"process {os.getpid()} on"):
        ResultLedger.open(path)
    ResultLedger.open(path).__exit__(None, None, None)


def _hold(path: Path, ready: Connection) -> None:
    with ResultLedger.open(path):
        ready.send("held")
        ready.recv()


def test_the_lock_of_a_killed_runner_is_free(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=_hold, args=(path, theirs))
    process.start()
    try:
        assert ours.poll(60)
        with pytest.raises(ConfigError):
            ResultLedger.open(path)
    finally:
        process.kill()
        process.join()
    assert written(path, ROW) == [ROW]


def test_a_runner_of_another_host_holds_its_lease(tmp_path: Path) -> None:
    path = tmp_path / "results.jsonl"
    lock = path.with_suffix(".lock")
    lock.write_text('{"host": "elsewhere", "pid": 7}')
    with pytest.raises(ConfigError, match="process 7 on elsewhere"):
        ResultLedger.open(path)
    # A minute after it was last seen.
    os.utime(lock, (lock.stat().st_atime, lock.stat().st_mtime - 61))
    assert written(path, ROW) == [ROW]


def test_a_ledger_that_cannot_be_written_is_an_error(tmp_path: Path, not_root: None) -> None:
    path = tmp_path / "results.jsonl"
    path.touch(mode=0o400)
    with pytest.raises(StoreError, match="Permission denied"):
        ResultLedger.open(path)
    # Nothing holds the lock.
    path.chmod(0o600)
    assert written(path, ROW) == [ROW]


def test_a_full_disk_leaves_whole_rows(tmp_path: Path) -> None:
    """On the device that is always full: no row is written, all tasks learn of it, and it is said that the disk is full."""
    path = tmp_path / "results.jsonl"
    path.symlink_to("/dev/full")

    async def main() -> list[StoreError]:
        errors: list[StoreError] = []

        async def append(ledger: ResultLedger) -> None:
            try:
                await ledger.append(ROW)
            except StoreError as error:
                errors.append(error)

        with pytest.raises(StoreError), ResultLedger.open(path) as ledger:
            async with trio.open_nursery() as nursery:
                for _ in range(3):
                    nursery.start_soon(append, ledger)
        return errors

    errors = trio.run(main)
    assert [error.is_full for error in errors] == [True] * 3


def test_sums_need_no_more_than_the_digest() -> None:
    rows = [
        ROW,
        attrs.evolve(ROW, id="b", status="passed", error=None),
        attrs.evolve(ROW, attempt=3, status="passed", error=None),
    ]
    whole, digests = BatchTally(), BatchTally()
    for row in rows:
        whole.feed(row)
        digests.feed(decode_digest(encode_row(row)))
    assert batch_summary("b", whole, tasks=2) == batch_summary("b", digests, tasks=2)
    assert attrs.asdict(whole.records["a"]) == attrs.asdict(digests.records["a"])
