"""`engine worker` and `engine fleet` as processes that share a database: tasks, drains, a rolling update, kills."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cli.conftest import Quick, Start
from tests.cli.processes import Command, await_sleepers, token
from tests.store.server import shared_server

pytestmark = [pytest.mark.os, pytest.mark.slow]
READY = "Ctrl-C drains it"


@pytest.fixture
def url() -> Iterator[str]:
    """The address of an empty database."""
    server = shared_server()
    name = server.name()
    server.do(f"CREATE DATABASE {name}")
    yield server.url(name)
    server.do(f"DROP DATABASE {name} WITH (FORCE)")


class Answered(NamedTuple):
    """How a command has ended, and what it has written."""

    code: int
    out: str
    err: str


Run = Callable[..., Answered]


@pytest.fixture
def run(quick: Quick) -> Run:
    """Run a command to its end."""

    def run(*arguments: str) -> Answered:
        ended = quick(*arguments)
        return Answered(ended.code, ended.stdout.decode(), ended.stderr.decode())

    return run


def documents(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def stop_reasons(run: Run, url: str, session: str) -> list[str]:
    """How the turns of a session ended."""
    exported = run("sessions", "export", session, "--format", "json", "--store", url)
    assert exported.code == 0, exported.err
    events = json.loads(exported.out)["sessions"][0]["events"]
    return [event["result"]["stop_reason"] for event in events if event["type"] == "turn_ended"]


def await_true(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.1)


def has_words(log: Path, count: int) -> bool:
    return len(log.read_text().split()) >= count


def worker(engine: Start, url: str, *flags: str) -> Command:
    command = engine("worker", "--yes", "--store", url, *flags)
    command.read_until(READY)
    return command


def test_worker_runs_what_is_enqueued(engine: Start, run: Run, url: str, tmp_path: Path) -> None:
    assert run("fleet", "tasks", "--store", url).out == "no task waits or runs\n"
    for _ in range(2):
        added = run("fleet", "enqueue", "--key", "k1", "--cwd", str(tmp_path), "hello", "--store", url)
        assert (added.code, added.out) == (0, "k1\n")
    assert run("fleet", "enqueue", "--key", "k1", "something else", "--store", url).code == 1
    model = ("--model", "anthropic/claude-haiku-4-5", "--agent", "plan")
    added = run("fleet", "enqueue", "--json", *model, "hello", "--store", url)
    (task,) = documents(added.out)
    assert (task["state"], task["model"], task["agent"]) == ("waiting", "anthropic/claude-haiku-4-5", "plan")
    assert run("fleet", "cancel", task["key"], "--store", url).code == 0
    refused = run("fleet", "cancel", task["key"], "--store", url)
    assert (refused.code, "has ended: cancelled" in refused.err) == (1, True)
    assert run("fleet", "cancel", "none", "--store", url).code == 2

    command = worker(engine, url, "--slots", "2", "--attempts", "1", "--drain", "5")
    waited = run("fleet", "enqueue", "--wait", "hello", "--store", url)
    assert (waited.code, waited.out) == (0, "Hello, wörld.\nTwo lines.\n")
    missing = run("fleet", "enqueue", "--wait", "--cwd", "/no/such/folder", "hello", "--store", url)
    assert (missing.code, "/no/such/folder is none" in missing.err) == (1, True)
    listed = documents(run("fleet", "tasks", "--ended", "--json", "--store", url).out)
    assert sorted(task["outcome"] for task in listed) == ["cancelled", "completed", "completed", "failed"]
    assert len(documents(run("fleet", "tasks", "--ended", "--limit", "1", "--json", "--store", url).out)) == 1

    (first,) = [task for task in listed if task["key"] == "k1"]
    more = run("fleet", "enqueue", "--wait", "--resume", first["session_id"], "hello", "--store", url)
    assert (more.code, more.out) == (0, "The script is over.\n")
    assert run("fleet", "enqueue", "--resume", "nonsense", "hello", "--store", url).code == 2
    status = json.loads(run("fleet", "status", "--json", "--store", url).out)
    assert status["outcomes"] == {"cancelled": 1, "completed": 3, "failed": 1}
    assert [each["pid"] for each in status["engines"]] == [command.process.pid]
    assert status["notification_seconds"] is not None
    assert "3 completed" in run("fleet", "status", "--store", url).out

    command.send(signal.SIGTERM)
    assert command.wait() == 0
    status = json.loads(run("fleet", "--json", "--store", url).out)
    assert (status["engines"], status["leases"]) == ([], {"held": 0, "expired": 0})


def test_file_has_no_queue(run: Run) -> None:
    for arguments in (("worker",), ("fleet", "enqueue", "hello"), ("fleet", "status")):
        refused = run(*arguments, "--store", "sessions.db")
        assert refused.code == 2
        assert "a fleet shares a PostgreSQL database" in refused.err


def test_rolling_update_ends_every_task(engine: Start, run: Run, url: str, tmp_path: Path) -> None:
    """Three workers are replaced one by one under tasks, some of which take longer than the drain."""
    log = tmp_path / "log"
    log.touch()
    keys = [f"t{number:02}" for number in range(9)]
    for number, key in enumerate(keys):
        # Each is to be done once, whoever does it.
        prompt = f"bash echo {key} >> {log}; sleep {number % 3 * 3}"
        assert run("fleet", "enqueue", "--key", key, prompt, "--store", url).code == 0
    workers = [worker(engine, url, "--slots", "1", "--drain", "0.5") for _ in range(3)]
    for number in range(3):
        await_true(partial(has_words, log, 2 * number + 1))
        workers.append(worker(engine, url, "--slots", "1", "--drain", "0.5"))
        workers[number].send(signal.SIGTERM)
        assert workers[number].wait() == 0
    await_true(lambda: not documents(run("fleet", "tasks", "--json", "--store", url).out))
    for command in workers[3:]:
        command.send(signal.SIGTERM)
        assert command.wait() == 0
    ended = documents(run("fleet", "tasks", "--ended", "--json", "--store", url).out)
    assert {task["key"]: task["outcome"] for task in ended} == dict.fromkeys(keys, "completed")
    # No call was repeated that had begun.
    assert sorted(log.read_text().split()) == keys
    reasons = [reason for task in ended for reason in stop_reasons(run, url, task["session_id"])]
    assert set(reasons) == {"aborted", "completed"}


def test_killed_worker_loses_its_task_at_once(engine: Start, run: Run, url: str) -> None:
    sleep = token()
    assert run("fleet", "enqueue", "--key", "a", f"bash sleep {sleep}", "--store", url).code == 0
    first = worker(engine, url)
    await_sleepers(sleep, 1)
    (task,) = documents(run("fleet", "tasks", "--json", "--store", url).out)
    assert task["state"] == "running"
    assert "runs the task 'a'" in run("fleet", "cancel", "a", "--store", url).err
    first.process.kill()
    first.wait()
    second = worker(engine, url)
    # The key is known, so this only waits.
    waited = run("fleet", "enqueue", "--wait", "--json", "--key", "a", f"bash sleep {sleep}", "--store", url)
    (task,) = documents(waited.out)
    assert (waited.code, task["outcome"], task["attempts"]) == (0, "completed", 2)
    assert stop_reasons(run, url, task["session_id"]) == ["aborted", "completed"]
    await_sleepers(sleep, 0)
    second.send(signal.SIGINT)
    assert second.wait() == 0


def test_second_signal_stops_at_once(engine: Start, run: Run, url: str) -> None:
    sleep = token()
    assert run("fleet", "enqueue", "--key", "a", f"bash sleep {sleep}", "--store", url).code == 0
    command = worker(engine, url, "--drain", "300")
    await_sleepers(sleep, 1)
    command.send(signal.SIGTERM)
    command.read_until("a task has 300 s to end")
    command.send(signal.SIGTERM)
    assert command.wait() == 0
    await_sleepers(sleep, 0)
    (task,) = documents(run("fleet", "tasks", "--json", "--store", url).out)
    assert (task["state"], task["attempts"], task["detail"]) == ("waiting", 0, "its worker was stopped")
