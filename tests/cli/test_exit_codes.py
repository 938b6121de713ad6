"""The exit codes of `engine run`: a scripted run for each stop reason, and for each code."""

import json
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path

import attrs
import pytest

from engine.cli.terminal.exit_codes import MEANINGS, STOP_CODES
from engine.cli.turn.turn_summary import exit_code
from engine.core.events import STOP_REASONS, StopReason, TurnResult
from tests.cli.conftest import Quick
from tests.cli.test_print_schema import check_lines

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]


def stop_hook(command: str) -> str:
    return f'[[hooks.Stop]]\nhooks = [{{ type = "command", command = {json.dumps(command)} }}]\n'


@attrs.frozen
class Run:
    """A task, its flags, and the configuration."""

    task: str
    flags: tuple[str, ...] = ()
    config: str = ""


RUNS: Mapping[StopReason, Run] = {
    "completed": Run("hello"),
    "doom_loop": Run("loops", ("--yes",)),
    "hook_stopped": Run("hello", config=stop_hook("echo '{\"continue\": false}'")),
    "stop_hook_limit": Run("say a || b || c || d || e", config=stop_hook("echo more >&2; exit 2")),
    "step_limit": Run("work 5", ("--yes", "--max-steps", "2")),
    "token_budget": Run("hello", ("--max-tokens", "100")),
    "cost_limit": Run("hello", ("--max-cost", "0.001")),
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
    "diminishing": "a token target, which only programs set: tests/nursery/test_loop_stop_reasons.py",
    "blocking_limit": "a window that summaries can't empty: tests/nursery/test_loop_stop_reasons.py",
    "internal_error": "a fault of the engine: tests/nursery/test_loop_stop_reasons.py",
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


def test_output_that_can_not_be_written(quick: Quick) -> None:
    with open("/dev/full", "wb") as full:  # noqa: PTH123 - a device
        assert quick("run", "hello", stdout=full.fileno()).code == 74
    assert quick("run", "hello", "-o", "nowhere/x").code == 74


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
