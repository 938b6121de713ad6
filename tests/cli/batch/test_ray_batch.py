"""`engine batch --on ray` with a real cluster on this machine: workers, heads and runners that die."""

import os
import signal
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

import pytest

from engine.process.crash_cleanup import find_dead_owners
from tests.cli.batch.test_batch_command import by_id, rows, write_tasks
from tests.cli.conftest import Quick, Start
from tests.cli.forked import Ended
from tests.cli.processes import Command
from tests.support.ray_world import TOKEN, needs_ray, processes_of, ray_folder, wait_until

pytestmark = [pytest.mark.os, pytest.mark.slow, needs_ray, pytest.mark.timeout(240)]

UNATTENDED = ("--yes", "--min-free", "0")


@pytest.fixture
def folder() -> Generator[str]:
    with ray_folder() as folder:
        yield folder


@pytest.fixture
def on_ray(engine: Start, folder: str, tmp_path: Path) -> Callable[[str], Command]:
    """Start a batch on a cluster of its own; a head that is gone is waited for for two seconds."""

    def start(names: str) -> Command:
        return engine(
            "batch",
            names,
            *("--on", "ray:local", "--cpus", "1", "--memory", "100M", "--retry-delay", "0.1", *UNATTENDED),
            RAY_AUTH_TOKEN=TOKEN,
            RAY_TMPDIR=folder,
            RAY_gcs_rpc_server_reconnect_timeout_s="2",
            XDG_CACHE_HOME=str(tmp_path / "cache"),
        )

    return start


@pytest.fixture
def here(quick: Quick, tmp_path: Path) -> Callable[[str], Ended]:
    """Run the same batch without a cluster."""
    return lambda names: quick("batch", names, *UNATTENDED, XDG_CACHE_HOME=str(tmp_path / "cache"))


def task(folder: Path, name: str, *, waits: bool = False) -> Mapping[str, str]:
    """A task whose command has an effect, says so, and waits for a file."""
    wait = f"; until test -e {folder}/go; do sleep 0.05; done" if waits else ""
    return {"id": name, "prompt": f"bash echo $$ >> {folder}/{name}.ran{wait}"}


def ran(folder: Path, name: str) -> list[int]:
    """The processes in which a task's command ran."""
    path = folder / f"{name}.ran"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def everything(folder: Path) -> bytes:
    """All that a batch has written."""
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_the_task_of_a_killed_worker_is_continued(
    on_ray: Callable[[str], Command], folder: str, tmp_path: Path
) -> None:
    names = write_tasks(tmp_path, task(tmp_path, "one", waits=True), task(tmp_path, "two"))
    command = on_ray(names)
    wait_until(
        lambda: ran(tmp_path, "one") and len(rows_so_far(tmp_path)) == 1, "the first task runs, the second is over"
    )
    workers = processes_of(folder, "ray::run_order")
    assert len(workers) == 1
    os.kill(workers[0], signal.SIGKILL)
    assert command.wait(120) == 0
    first, second = (row for row in rows(tmp_path) if row["id"] == "one")
    assert (first["status"], first["error"]["class"]) == ("infra", "worker_lost")
    assert (second["status"], second["attempt"], second["continued"]) == ("finished", 2, True)
    # Not run twice, and nothing of it is left.
    (pid,) = ran(tmp_path, "one")
    wait_until(lambda: not Path(f"/proc/{pid}").exists(), "the command has outlived its worker")
    assert TOKEN.encode() not in everything(tmp_path / "tasks.results") + command.output.encode()
    assert "127.0.0.1" not in command.output


def rows_so_far(folder: Path) -> list[str]:
    ledger = folder / "tasks.results" / "results.jsonl"
    return ledger.read_text().splitlines() if ledger.exists() else []


def test_interrupted_batch_goes_on_elsewhere(
    on_ray: Callable[[str], Command], here: Callable[[str], Ended], folder: str, tmp_path: Path
) -> None:
    names = write_tasks(tmp_path, *(task(tmp_path, name, waits=True) for name in ("one", "two", "three")))
    command = on_ray(names)
    wait_until(lambda: ran(tmp_path, "one") and ran(tmp_path, "two"), "two tasks run")
    command.send(signal.SIGINT)
    assert command.wait(60) == 130
    assert {row["status"] for row in rows(tmp_path)} == {"cancelled"}
    assert not processes_of(folder)
    # The same ledger without the cluster: what was begun is continued.
    (tmp_path / "go").touch()
    assert here(names).code == 0
    assert {name: row["status"] for name, row in by_id(tmp_path).items()} == dict.fromkeys(
        ("one", "two", "three"), "finished"
    )
    assert [len(ran(tmp_path, name)) for name in ("one", "two", "three")] == [1, 1, 1]


def test_lost_head_leaves_a_whole_ledger(on_ray: Callable[[str], Command], folder: str, tmp_path: Path) -> None:
    names = write_tasks(
        tmp_path, *(task(tmp_path, name, waits=name != "two") for name in ("one", "two", "three", "four"))
    )
    command = on_ray(names)
    wait_until(lambda: ran(tmp_path, "one") and len(rows_so_far(tmp_path)) == 1, "a task runs, another is over")
    (head,) = processes_of(folder, "gcs_server")
    os.kill(head, signal.SIGKILL)
    assert command.wait(120) == 3
    found = dict(by_id(tmp_path))
    assert found.pop("two")["status"] == "finished"
    assert {(row["status"], row["error"]["class"]) for row in found.values()} == {("infra", "worker_lost")}
    assert "the cluster can't be reached" in command.output


def test_killed_runner_leaves_nothing_running(
    on_ray: Callable[[str], Command], here: Callable[[str], Ended], folder: str, tmp_path: Path, *, is_full: bool
) -> None:
    if not is_full:
        pytest.skip("one more cluster: under make full")
    names = write_tasks(tmp_path, task(tmp_path, "one", waits=True))
    command = on_ray(names)
    wait_until(lambda: ran(tmp_path, "one"), "the task runs")
    command.send(signal.SIGKILL)
    wait_until(lambda: not processes_of(folder), "the cluster has outlived its runner")
    assert not find_dead_owners()
    (tmp_path / "go").touch()
    assert here(names).code == 0
    assert len(ran(tmp_path, "one")) == 1


def test_without_ray_the_extra_is_named(quick: Quick, tmp_path: Path) -> None:
    missing = tmp_path / "missing" / "ray"
    missing.mkdir(parents=True)
    (missing / "__init__.py").write_text("raise ModuleNotFoundError('ray')")
    names = write_tasks(tmp_path, task(tmp_path, "one"))
    ended = quick("batch", names, "--on", "ray", *UNATTENDED, PYTHONPATH=str(missing.parent))
    assert (ended.code, b"pip install 'nursery-engine[ray]'" in ended.stderr) == (2, True)
