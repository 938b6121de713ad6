"""The exit codes of `engine run`: a scripted run for each stop reason, and for each code."""

import json
import os
import re
import signal
import sqlite3
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import attrs
import pytest

from engine.cli.terminal.exit_codes import MEANINGS, STOP_CODES
from engine.cli.turn.turn_summary import exit_code
from engine.core.events import STOP_REASONS, StopReason, TurnResult
from tests.cli.conftest import Quick, Start
from tests.cli.test_print_schema import RESULT, check_lines

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]


def hook(event: str, command: str) -> str:
    return f'[[hooks.{event}]]\nhooks = [{{ type = "command", command = {json.dumps(command)} }}]\n'


@attrs.frozen
class Run:
    """A task, its flags, and the configuration."""

    task: str
    flags: tuple[str, ...] = ()
    config: str = ""


RUNS: Mapping[StopReason, Run] = {
    "completed": Run("hello"),
    "doom_loop": Run("loops", ("--yes",)),
    "hook_stopped": Run("hello", config=hook("Stop", "echo '{\"continue\": false}'")),
    "stop_hook_limit": Run("say a || b || c || d || e", config=hook("Stop", "echo more >&2; exit 2")),
    "step_limit": Run("work 5", ("--yes", "--max-steps", "2")),
    "token_budget": Run("hello", ("--max-tokens", "100")),
    "cost_limit": Run("hello", ("--max-cost", "0.001")),
    "blocking_limit": Run(
        "hello",
        config=hook("PreCompact", "exit 2") + '[models."anthropic/claude-sonnet-5-5"]\ncontext = 3000\noutput = 100\n',
    ),
    "deadline": Run("slow", ("--timeout", "1")),
    "prompt_too_long": Run("overflows"),
    "compaction_ineffective": Run(
        "hello", config='[models."anthropic/claude-sonnet-5-5"]\ncontext = 3000\noutput = 100\n'
    ),
    "output_limit": Run("cut", ("--max-output", "100")),
    "incomplete": Run("empty"),
    "refusal": Run("refuses"),
    "content_filter": Run("filtered"),
    "rate_limited": Run("limited 3600"),
    "auth_failed": Run("refused"),
    "provider_error": Run("fails"),
}
# How the others are reached, and where that is tested.
OTHERS: Mapping[StopReason, str] = {
    "aborted": "a signal: tests/cli/test_run.py; a reader that has gone: below",
    "permission_rejected": "a user at a terminal: tests/cli/test_terminal.py",
    "diminishing": "a token target, which only programs set: below",
    "internal_error": "a fault of the engine: below",
}


def test_every_stop_reason_has_a_row() -> None:
    assert {*RUNS, *OTHERS} == set(STOP_REASONS) == set(STOP_CODES)
    assert set(STOP_CODES.values()) <= set(MEANINGS)


@pytest.mark.parametrize("reason", RUNS)
def test_stop_reason_has_its_code(quick: Quick, tmp_path: Path, reason: StopReason) -> None:
    run = RUNS[reason]
    (tmp_path / "config.toml").write_text(run.config)
    ended = quick("run", run.task, *run.flags, "--config", "config.toml", "--output", "stream-json")
    # All of it fits the schema, and the record has the exit code.
    record = check_lines(ended.stdout, ended.code)[-1]
    assert (record["stop_reason"], ended.code) == (reason, STOP_CODES[reason])
    assert (record["error"] is None) == (reason == "completed")


@pytest.mark.parametrize("reason", OTHERS)
def test_other_reasons_have_theirs(reason: StopReason) -> None:
    assert exit_code(TurnResult(stop_reason=reason), None) == STOP_CODES[reason]
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        expected = 128 + number if reason == "aborted" else STOP_CODES[reason]
        assert exit_code(TurnResult(stop_reason=reason), number) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("reason", "code"), [("diminishing", 1), ("internal_error", 70)])
def test_reasons_that_no_flag_leads_to(engine: Start, reason: StopReason, code: int) -> None:
    program = (sys.executable, "-m", "tests.cli.planted", reason)
    command = engine("run", "say a || b || c || d || e || f", "--output", "json", program=program)
    assert command.wait() == code
    record = json.loads(next(line for line in command.output.splitlines() if line.startswith("{")))
    assert RESULT.problem(record) is None
    assert (record["stop_reason"], record["exit_code"]) == (reason, code)
    if reason == "internal_error":
        assert re.fullmatch(r"Internal error E-[0-9a-f]{8}; the session is saved", record["error"]["message"])
        assert record["error"]["next"] == "engine doctor --bundle"


@pytest.mark.slow
def test_fault_of_a_command_is_no_failed_task(engine: Start) -> None:
    command = engine("run", "hello", program=(sys.executable, "-m", "tests.cli.planted", "crash"))
    assert command.wait() == 70
    assert "RuntimeError: a planted fault in the command" in command.output
    assert re.search(r"\nengine run: Internal error E-[0-9a-f]{8}\nNext: engine doctor --bundle\n$", command.output)
    command = engine("run", "hello", "--json", program=(sys.executable, "-m", "tests.cli.planted", "crash"))
    assert command.wait() == 70
    record = json.loads(next(line for line in command.output.splitlines() if line.startswith("{")))
    assert RESULT.problem(record) is None
    error = record["error"]
    assert (record["exit_code"], error["code"], error["next"]) == (70, "internal", "engine doctor --bundle")


def test_output_that_can_not_be_written(quick: Quick) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        assert quick("run", "hello", stdout=full.fileno()).code == 74
    for mode in ("json", "stream-json"):
        ended = quick("run", "hello", "-o", "nowhere/x", "--output", mode)
        assert (ended.code, json.loads(ended.stdout.splitlines()[-1])["exit_code"]) == (74, 74)
    ended = quick("run", "hello", "-o", "nowhere/x")
    assert (ended.code, ended.stdout.decode()) == (74, "Hello, wörld.\nTwo lines.\n")


@pytest.mark.parametrize(
    ("code", "arguments", "key"),
    [
        (2, ("hello", "--model", "nope"), "key"),
        (2, ("hello", "--resume", "nope"), "key"),
        (2, ("hello", "--nope"), "key"),
        (6, ("hello",), ""),
        (10, ("say four", "--schema", '{"type": "integer"}'), "key"),
    ],
)
def test_codes_without_a_stop_reason(quick: Quick, code: int, arguments: tuple[str, ...], key: str) -> None:
    for mode in ("json", "stream-json"):
        ended = quick("run", *arguments, "--output", mode, ANTHROPIC_API_KEY=key)
        record = json.loads(ended.stdout.splitlines()[-1])
        assert RESULT.problem(record) is None
        assert (ended.code, record["exit_code"]) == (code, code)


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGINT, signal.SIGTERM])
def test_signal_is_in_the_record(engine: Start, number: signal.Signals) -> None:
    command = engine("run", "slow", "--output", "stream-json")
    command.read_until('"text_delta"')
    command.send(number)
    code = command.wait()
    record = json.loads(next(line for line in reversed(command.output.splitlines()) if line.startswith("{")))
    assert (code, record["exit_code"], record["stop_reason"]) == (128 + number, 128 + number, "aborted")


def test_session_that_is_open_elsewhere(engine: Start, quick: Quick) -> None:
    command = engine("run", "slow", "--output", "stream-json")
    command.read_until('"text_delta"')
    session = json.loads(command.output.splitlines()[0])["session_id"]
    ended = quick("run", "hello", "--resume", session, "--output", "json")
    record = json.loads(ended.stdout)
    assert (ended.code, record["exit_code"], record["error"]["code"]) == (11, 11, "session_busy")
    assert record["error"]["next"] == f"engine attach {session}"


def test_reader_that_has_gone(quick: Quick) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    ended = quick("run", "slow", "--stream", stdout=writer)
    os.close(writer)
    assert ended.code == 141


def test_call_without_a_user_to_ask(quick: Quick) -> None:
    for flags, code in (((), 3), (("--deny-ok",), 0)):
        ended = quick("run", "write", *flags, "--output", "json")
        assert ended.code == json.loads(ended.stdout)["exit_code"] == code


@pytest.mark.parametrize(
    "command", ["run hello", "chat --accessible", "sessions list", "sessions show x", "serve", "mcp serve"]
)
def test_stores_that_can_not_be_used(quick: Quick, tmp_path: Path, command: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "text.db").write_text("no database" * 100)
    assert quick("run", "hello", "--store", "newer.db").code == 0
    content = bytearray((tmp_path / "newer.db").read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    (tmp_path / "damaged.db").write_bytes(content)
    with closing(sqlite3.connect(tmp_path / "newer.db")) as store:
        store.execute("PRAGMA user_version = 9999")
    for name, code in (("folder", 74), ("text.db/s.db", 74), ("damaged.db", 74), ("text.db", 2), ("newer.db", 2)):
        ended = quick(*command.split(), "--store", name)
        words = ended.stderr.decode()
        assert (ended.code, ended.stdout) == (code, b""), words
        assert f"the store {tmp_path / name}" in words
        assert "\nNext: " in words
        assert ("engine sessions repair" in words) == (name == "damaged.db")
