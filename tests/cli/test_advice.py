"""What a run advises at its end works when it is pasted; and failures that are made to happen, in text and in JSON."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Quick, Start
from tests.cli.forked import Ended
from tests.cli.processes import REPOSITORY

pytestmark = [pytest.mark.os]

PRICED = '[models."anthropic/claude-sonnet-5-5"]\nprices = { input = 100.0, output = 100.0 }\n'


def advised(ended: Ended) -> list[str]:
    """The arguments of the first command that is advised."""
    line = next(line for line in ended.stderr.decode().splitlines() if "Next: " in line)
    name, *arguments = shlex.split(line.partition("Next: ")[2])
    assert name == "engine", line
    return arguments


def lines(ended: Ended) -> list[str]:
    """Its notes without their signs, but for the closing line."""
    found = [line.removeprefix("· ").removeprefix("engine run: ") for line in ended.stderr.decode().splitlines()]
    return [line for line in found if not line.startswith(("Stopped after", "Done in"))]


@pytest.mark.parametrize(
    ("task", "flags", "code"),
    [
        ("work 3", ("--yes", "--max-steps", "2"), 4),
        ("slow", ("--timeout", "1"), 4),
        ("empty", (), 8),
        ("say a || b", ("--max-cost", "0.000001"), 4),
        ("bash touch made", (), 3),
    ],
)
def test_advice_of_a_stopped_run_continues_it(quick: Quick, task: str, flags: tuple[str, ...], code: int) -> None:
    stopped = quick("run", task, *flags)
    assert stopped.code == code
    session = json.loads(quick("sessions", "list", "--json").stdout)[0]["id"]
    again = quick(*advised(stopped), "--output", "json")
    record = json.loads(again.stdout)
    # Whatever comes of it: it went on in that session, and the model was asked unless a limit forbids it.
    assert (record["session_id"], record["steps"] > 0 or again.code == 4) == (session, True)


@pytest.mark.parametrize(
    ("command", "is_analysed"),
    [
        ("rm -f ../elsewhere; echo $(date)", True),
        ("cat ../elsewhere", True),
        ("touch 'a * [b] name'", True),
        ("python3 -c 'print(1)'", False),
    ],
)
def test_denied_call_names_what_allows_it(quick: Quick, tmp_path: Path, command: str, is_analysed: bool) -> None:
    (tmp_path.parent / "elsewhere").write_text("x")
    denied = json.loads(quick("run", f"bash {command}", "--output", "json").stdout)["denied"]
    flags = [call["allow_with"] for call in denied]
    assert len(flags) == 1
    if not is_analysed:
        assert flags == [None]
        return
    again = quick("run", f"bash {command}", "--output", "json", *shlex.split(flags[0]))
    assert (again.code, json.loads(again.stdout)["denied"]) == (0, [])


def test_session_in_another_directory_is_named(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    stopped = quick("run", "work 3", "--yes", "--max-steps", "2", "--cwd", "other", "--store", "s.db")
    arguments = advised(stopped)
    assert arguments[:2] == ["run", "--resume"]
    assert arguments[3:] == ["--store", str(tmp_path / "s.db"), "--max-steps", "4"]
    assert quick(*arguments, "--yes").code == 0


def test_completed_session_needs_a_task(quick: Quick) -> None:
    quick("run", "hello")
    ended = quick("run", "--continue")
    assert (ended.code, advised(ended)[:2]) == (2, ["run", "--resume"])
    assert quick(*advised(ended)).code == 0
    assert b"--ephemeral" in quick("run", "work 2", "--yes", "--max-steps", "1", "--ephemeral").stderr


# ---- failures that really happen: the same words at the end of a run and in its record -------------------------------


def error_of(ended: Ended) -> dict[str, str]:
    error = json.loads(ended.stdout)["error"]
    assert json.loads(ended.stdout)["exit_code"] == ended.code
    assert isinstance(error, dict)
    return error


def test_cost_limit_of_a_priced_model(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(PRICED)
    arguments = ("run", "work 9", "--yes", "--config", "c.toml", "--max-cost")
    # The first request does not fit; later, what was spent leaves no room for one more.
    for limit, words in (
        ("0.3", r"\$0\.00 spent; the next request takes about \$0\.\d\d"),
        ("1", r"\$0\.\d\d spent.*"),
    ):
        text, record = quick(*arguments, limit), quick(*arguments, limit, "--output", "json")
        what, advice = lines(text)[-2:]
        assert re.fullmatch(rf"Stopped at \${float(limit):.2f} \(limit\); {words}", what)
        assert float(advice.removeprefix("Next: engine run --continue --max-cost ")) >= 2 * float(limit)
        error = error_of(record)
        assert (error["code"], error["message"], error["next"]) == ("cost_limit", what, advice[6:])


@pytest.mark.slow
def test_session_that_is_open_in_another_engine(engine: Start, quick: Quick) -> None:
    first = engine("run", "--stream", "slow")
    first.read_until("word word")
    text, record = quick("run", "--continue", "hello"), quick("run", "--continue", "hello", "--output", "json")
    session = json.loads(quick("sessions", "list", "--json").stdout)[0]["id"]
    assert lines(text) == [
        f"Session {session} is open in process {first.process.pid}",
        f"Next: engine attach {session}",
        f'or: engine run --resume {session} --fork "TASK"',
    ]
    error = error_of(record)
    assert (record.code, error["code"], error["message"]) == (11, "session_busy", lines(text)[0])
    assert quick("run", "--resume", session, "--fork", "hello").code == 0


def has_small_disks() -> bool:
    if (unshare := shutil.which("unshare")) is None:
        return False
    return (
        subprocess.run(
            [unshare, "-Urm", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
        ).returncode
        == 0
    )


@pytest.mark.slow
@pytest.mark.skipif(not has_small_disks(), reason="needs a mount namespace for a disk that is full")
@pytest.mark.parametrize(
    ("size", "written"), [("60k", 0), ("500k", 1_000_001)], ids=["before the turn", "while the answer comes"]
)
def test_disk_that_is_full(host: str, tmp_path: Path, size: str, written: int) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    script = (
        f'mount -t tmpfs -o size={size} none {disk} && exec "$0" -m engine run --store {disk}/s.db --output "$1" flood'
    )
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "HOME": str(tmp_path), "ANTHROPIC_BASE_URL": host}
    environment |= {"ANTHROPIC_API_KEY": "test-key-0123456789", "ENGINE_MODEL": "anthropic/claude-sonnet-5-5"}
    ends = []
    for mode in ("text", "json"):
        command = ["unshare", "-Urm", "sh", "-c", script, sys.executable, mode]
        ended = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, timeout=60, check=False)
        ends.append(Ended(ended.returncode, ended.stdout, ended.stderr))
    text, record = ends
    words = [
        f"Cannot save the session: disk full at {disk}/s.db",
        "Next: free some space",
        'or: engine run --ephemeral "TASK"',
    ]
    assert (text.code, record.code) == (74, 74)
    assert lines(text)[-3:] == words
    # One record, whenever the disk was found to be full; the answer was paid for, and is there.
    error = error_of(record)
    assert (error["code"], error["message"], error["next"]) == ("disk_full", words[0], words[1][6:])
    assert len(text.stdout) == written
