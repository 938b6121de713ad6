"""Shards of a batch, and their merge."""

import json
from pathlib import Path

import pytest

from engine.batch.attempt_row import AttemptRow, encode_row
from engine.batch.batch_status import BatchStatus
from engine.batch.batch_task import BadLine, BatchTask
from engine.batch.merge_ledgers import merge_ledgers
from engine.batch.shard import Shard
from engine.batch.task_file import TaskList
from engine.core.errors import ConfigError


def tasks(*names: str, folder: str = "") -> tuple[BatchTask, ...]:
    return tuple(BatchTask(id=name, prompt="p", cwd=folder, in_place=bool(folder)) for name in names)


def row(name: str, attempt: int = 1, status: BatchStatus = "finished", config: str = "c") -> bytes:
    return encode_row(AttemptRow(id=name, attempt=attempt, status=status, config_hash=config)).encode()


def write_shard(folder: Path, shard: str, *rows: bytes, end: bytes = b"") -> Path:
    folder.mkdir(exist_ok=True)
    (folder / Shard.parse(shard).ledger_name).write_bytes(b"".join(b"%s\n" % line for line in rows) + end)
    return folder


def merged_ids(folder: Path) -> list[str]:
    return [json.loads(line)["id"] for line in (folder / "results.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 20])
def test_shards_share_out_all_tasks(count: int) -> None:
    every = TaskList(tasks=tasks(*map(str, range(13))), bad=(BadLine(line=1, id="x", message="m"),))
    parts = [Shard(number, count).part(every) for number in range(1, count + 1)]
    assert sorted(task.id for part in parts for task in part.tasks) == sorted(task.id for task in every.tasks)
    sizes = [len(part.tasks) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert [len(part.bad) for part in parts] == [1] + [0] * (count - 1)


def test_tasks_of_one_folder_are_in_one_shard() -> None:
    every = TaskList(tasks=(*tasks("a", "b", "c", folder="/one"), *tasks("d", folder="/two"), *tasks("e")), bad=())
    parts = [{task.id for task in Shard(number, 2).part(every).tasks} for number in (1, 2)]
    assert parts == [{"a", "b", "c", "e"}, {"d"}]


@pytest.mark.parametrize("text", ["0/2", "3/2", "1/0", "1", "a/b", "1/2/3", "-1/2", "1/10001", "1/ 2", ""])
def test_wrong_shards_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the first of eight"):
        Shard.parse(text)


def test_merge_names_what_is_missing_and_takes_it_in_later(tmp_path: Path) -> None:
    write_shard(tmp_path, "1/3", row("a"), row("d", status="infra"), end=b'{"id": "torn"')
    write_shard(tmp_path, "2/3", row("b"), b"no row")
    first = merge_ledgers([tmp_path], tmp_path)
    assert (first.missing, first.damaged, first.shards) == ((3,), 1, 3)
    assert first.tally.counts == {"finished": 2, "infra": 1}
    write_shard(tmp_path, "3/3", row("c"))
    write_shard(tmp_path, "1/3", row("a"), row("d", status="infra"), row("d", 2))
    second = merge_ledgers([tmp_path], tmp_path)
    assert (second.missing, second.tally.counts) == ((), {"finished": 4})
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert (summary["tasks"], summary["retried"]) == (4, ["d"])


def test_merge_of_several_folders_brings_their_files(tmp_path: Path) -> None:
    one, two = write_shard(tmp_path / "one", "1/2", row("a")), write_shard(tmp_path / "two", "2/2", row("b"))
    (two / "patches").mkdir()
    (two / "patches" / "b.1.patch").write_text("diff")
    merged = merge_ledgers([one, two], tmp_path / "merged")
    assert merged.tally.counts == {"finished": 2}
    assert merged_ids(tmp_path / "merged") == ["a", "b"]
    assert (tmp_path / "merged/patches/b.1.patch").read_text() == "diff"
    assert not (one / "results.jsonl").exists()


def test_older_copy_of_a_ledger_counts_once(tmp_path: Path) -> None:
    one, two = write_shard(tmp_path / "one", "1/1", row("a")), write_shard(tmp_path / "two", "1/1", row("a"), row("b"))
    assert merge_ledgers([one, two], one).tally.rows == 2


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    def refused(words: str, *folders: Path) -> None:
        with pytest.raises(ConfigError, match=words):
            merge_ledgers(folders, tmp_path / "target")
        assert not (tmp_path / "target" / "results.jsonl").exists()

    refused("no ledger", write_shard(tmp_path / "none", "1/1").parent)
    counts = write_shard(write_shard(tmp_path / "counts", "1/2", row("a")), "2/3", row("b"))
    refused("2 and 3 shards", counts)
    twice = write_shard(write_shard(tmp_path / "twice", "1/2", row("a")), "2/2", row("a"))
    refused("several shards: a", twice)
    mixed = write_shard(write_shard(tmp_path / "mixed", "1/2", row("a")), "2/2", row("b", config="d"))
    refused("different configurations", mixed)
    assert merge_ledgers([mixed], tmp_path / "mixed", allow_changed=True).tally.rows == 2
    one, two = write_shard(tmp_path / "x", "1/1", row("a")), write_shard(tmp_path / "y", "1/1", row("b"))
    refused("different rows of shard 1", one, two)
    same = write_shard(tmp_path / "same", "1/1", row("a"))
    for folder, name in ((one, "first"), (same, "second")):
        (folder / "batch.json").write_text(json.dumps({"id": name, "name": name}))
    refused("several batches: first, second", one, same)


def test_rows_of_no_shard_are_never_lost(tmp_path: Path) -> None:
    write_shard(tmp_path, "1/1", row("a"))
    (tmp_path / "results.jsonl").write_bytes(row("other") + b"\n")
    with pytest.raises(ConfigError, match="in no shard"):
        merge_ledgers([tmp_path], tmp_path)
    assert merged_ids(tmp_path) == ["other"]
