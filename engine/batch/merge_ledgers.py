"""Merges the ledgers of all shards into one, beside which the files of the shards stand."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, cast

import attrs

from engine.batch.attempt_row import AttemptRow, DamagedRow, decode_row
from engine.batch.batch_identity import IDENTITY_NAME
from engine.batch.batch_summary import SUMMARY_NAME, batch_summary, write_summary
from engine.batch.batch_tally import BatchTally
from engine.batch.ledger_lock import LedgerLock
from engine.batch.result_ledger import LEDGER_NAME
from engine.batch.shard import Shard
from engine.core.errors import ConfigError, StoreError
from engine.core.value_base import Value
from engine.snapshots.snapshot_dir import write_atomically

# What rows name, relative to their ledger.
FILE_FOLDERS: Final = ("logs", "outputs", "patches", "sessions")
_MAX_NAMED: Final = 5


@attrs.frozen(kw_only=True, eq=False, repr=False)
class MergedBatch(Value):
    """What the ledgers of all shards come to.

    Attributes:
        name: the batch's.
        tally: of all rows.
        tasks: how many tasks the shards have, as far as they have said so.
        shards: how many shards the batch has.
        missing: the numbers of those without a ledger.
        damaged: how many lines are no rows.
    """

    name: str
    tally: BatchTally
    tasks: int
    shards: int
    missing: tuple[int, ...]
    damaged: int


@attrs.frozen(kw_only=True, eq=False)
class _ShardLedger:
    """The ledger of a shard: its file and its whole lines."""

    shard: Shard
    path: Path
    lines: Sequence[bytes]


def merge_ledgers(folders: Sequence[Path], target: Path, *, allow_changed: bool = False) -> MergedBatch:
    """Write the ledger and the summary of the whole batch to *target*; return what they come to. It blocks.

    Run again, it takes in what the shards have written since. The ledgers of the shards are only read.

    Args:
        folders: of the shards' ledgers: one that all of them share, or one of each.
        target: where the ledger goes. Files of shards in other folders are copied there.
        allow_changed: mix results of different configurations.

    Raises:
        ConfigError: there are no such ledgers, they don't belong together, or *target* has rows that are in none of them.
        StoreError: a file can't be read or written.
    """
    try:
        ledgers = _choose(list(_read(folders)))
        name = _common_name(folders) or target.name
        tally, damaged = _fold(ledgers, allow_changed=allow_changed)
        target.mkdir(parents=True, exist_ok=True)
        _write(ledgers, target)
        tasks = max(len(tally.records), sum(_task_count(ledger) for ledger in ledgers))
        write_summary(target, batch_summary(name, tally, tasks=tasks), SUMMARY_NAME)
    except OSError as error:
        raise StoreError(f"{error.filename or target}: {error.strerror or error}") from error
    count = ledgers[0].shard.count
    missing = sorted({*range(1, count + 1)} - {ledger.shard.number for ledger in ledgers})
    return MergedBatch(name=name, tally=tally, tasks=tasks, shards=count, missing=tuple(missing), damaged=damaged)


def _write(ledgers: Sequence[_ShardLedger], target: Path) -> None:
    """Write the merged ledger, and the files that its rows name. Raises `ConfigError`, `StoreError`, `OSError`."""
    lines = [line for ledger in ledgers for line in ledger.lines]
    lock = LedgerLock.take((target / LEDGER_NAME).with_suffix(".lock"))
    try:
        _check_target(target / LEDGER_NAME, lines)
        for folder in {ledger.path.parent for ledger in ledgers}:
            _copy_files(folder, target)
        write_atomically(target / LEDGER_NAME, b"".join(b"%s\n" % line for line in lines))
    finally:
        lock.close()


def _common_name(folders: Sequence[Path]) -> str:
    """Return the name of the batch; empty: the folders don't say. Raises `ConfigError` if there are several."""
    names = sorted({name for folder in folders if (name := _batch_name(folder))})
    if len(names) > 1:
        raise ConfigError(f"these are the results of several batches: {', '.join(names)}\nNext: merge each alone")
    return names[0] if names else ""


def _read(folders: Sequence[Path]) -> Iterator[_ShardLedger]:
    for folder in folders:
        if not folder.is_dir():
            raise ConfigError(f"{folder} is no folder of results\nNext: name the --results-dir of the shards")
        for path in sorted(folder.glob("results-*-of-*.jsonl")):
            shard = Shard.of_ledger(path.name)
            if shard is not None:
                # A line without its end is still being written, or was never finished.
                yield _ShardLedger(shard=shard, path=path, lines=path.read_bytes().split(b"\n")[:-1])


def _choose(ledgers: Sequence[_ShardLedger]) -> list[_ShardLedger]:
    """Return one ledger for each shard, in their order. Raises `ConfigError`."""
    if not ledgers:
        raise ConfigError("there is no ledger of a shard\nNext: run engine batch with --shard first")
    counts = {ledger.shard.count for ledger in ledgers}
    if len(counts) > 1:
        shown = " and ".join(str(count) for count in sorted(counts))
        raise ConfigError(f"these are ledgers of a batch of {shown} shards\nNext: merge the shards of one batch")
    chosen: dict[int, _ShardLedger] = {}
    for ledger in ledgers:
        number = ledger.shard.number
        other = chosen.setdefault(number, ledger)
        longer, shorter = (ledger, other) if len(ledger.lines) > len(other.lines) else (other, ledger)
        # The same ledger twice: one is a copy, perhaps of an earlier time.
        if longer.lines[: len(shorter.lines)] != shorter.lines:
            raise ConfigError(
                f"{other.path} and {ledger.path} have different rows of shard {number}\nNext: leave out the wrong one"
            )
        chosen[number] = longer
    return [chosen[number] for number in sorted(chosen)]


def _fold(ledgers: Sequence[_ShardLedger], *, allow_changed: bool) -> tuple[BatchTally, int]:
    """Return the sums of all rows, and how many lines are none. Raises `ConfigError` if they don't belong together."""
    tally, damaged = BatchTally(), 0
    shards: dict[str, int] = {}
    twice: set[str] = set()
    configurations: set[str] = set()
    for ledger in ledgers:
        for row, is_damaged in map(_row, ledger.lines):
            damaged += is_damaged
            if row is None:
                continue
            if shards.setdefault(row.id, ledger.shard.number) != ledger.shard.number:
                twice.add(row.id)
            if row.status != "bad_task":
                configurations.add(row.config_hash)
            tally.feed(row)
    if twice:
        shown = ", ".join(sorted(twice)[:_MAX_NAMED])
        raise ConfigError(
            f"{len(twice)} tasks have rows in several shards: {shown}\n"
            "Next: give all shards the same file of tasks, and begin in a new --results-dir"
        )
    if len(configurations) > 1 and not allow_changed:
        raise ConfigError(
            f"the shards were run with {len(configurations)} different configurations\nNext: add --allow-changed to mix them"
        )
    return tally, damaged


def _row(line: bytes) -> tuple[AttemptRow | None, bool]:
    try:
        return decode_row(line), False
    except DamagedRow:
        return None, True


def _check_target(path: Path, lines: Sequence[bytes]) -> None:
    """Raise `ConfigError` if the ledger there has rows that would be lost."""
    if not path.exists():
        return
    known = frozenset(lines)
    if any(line and line not in known for line in path.read_bytes().split(b"\n")[:-1]):
        raise ConfigError(f"{path} has rows that are in no shard\nNext: choose another folder with --results-dir")


def _copy_files(source: Path, target: Path) -> None:
    if source.resolve() == target.resolve():
        return
    for name in FILE_FOLDERS:
        if (source / name).is_dir():
            shutil.copytree(source / name, target / name, dirs_exist_ok=True)


def _task_count(ledger: _ShardLedger) -> int:
    """Return how many tasks a shard has; 0: it has not said so yet."""
    count = _document(ledger.path.with_name(ledger.shard.summary_name)).get("tasks")
    return count if isinstance(count, int) else 0


def _batch_name(folder: Path) -> str:
    name = _document(folder / IDENTITY_NAME).get("name")
    return name if isinstance(name, str) else ""


def _document(path: Path) -> Mapping[str, object]:
    try:
        document: object = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return cast("Mapping[str, object]", document) if isinstance(document, dict) else {}
