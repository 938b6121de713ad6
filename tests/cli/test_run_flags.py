"""What single flags of `engine run` do."""

import json
import os
import shlex
import socket
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Quick

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]


def test_ephemeral_session_is_not_saved(quick: Quick, tmp_path: Path) -> None:
    assert quick("run", "--ephemeral", "hello").code == 0
    assert not (tmp_path / "data").exists()
    ended = quick("run", "--ephemeral", "--continue", "hello")
    assert ended.code == 2
    assert b"\nNext: leave out --ephemeral" in ended.stderr


def test_resume_without_id_takes_the_newest(quick: Quick) -> None:
    assert quick("run", "remember one").code == 0
    assert b"one" in quick("run", "remember two", "--resume").stdout


def test_added_directory_counts_as_inside(quick: Quick, tmp_path: Path) -> None:
    project, other = tmp_path / "project", tmp_path / "other"
    for folder in (project, other):
        folder.mkdir()
    (other / "x.txt").write_text("words")
    task = ("run", "--cwd", "project", "bash cat ../other/x.txt")
    assert quick(*task).code == 3
    assert quick(*task, "--add-dir", "other").code == 0
    # A rule may still forbid a part of it.
    ended = quick(*task, "--add-dir", "other", "--rule", f"deny outside {other}/x.txt")
    assert b"Denied" in ended.stderr
    assert f"Further directories of this task:\n- {other}" in quick("run", "echo", "--add-dir", "other").stdout.decode()


@pytest.mark.parametrize(("flag", "forced"), [("always", ""), ("auto", "1")])
def test_forced_colours_are_on_standard_error(quick: Quick, flag: str, forced: str) -> None:
    ended = quick("run", "--yes", "bash true", "--color", flag, FORCE_COLOR=forced)
    assert ended.stdout == b"All done.\n"
    assert "\x1b[32m✓\x1b[0m bash  true" in ended.stderr.decode()


@pytest.mark.parametrize(
    ("terminal", "no_color", "is_painted"), [("xterm", "", True), ("xterm", "1", False), ("dumb", "", False)]
)
def test_terminal_gets_colours_unless_switched_off(
    quick: Quick, terminal: str, no_color: str, is_painted: bool
) -> None:
    ours, theirs = os.openpty()
    with os.fdopen(ours, "rb", buffering=0) as reader:
        task = ("run", "--yes", "bash true")
        assert quick(*task, stdin=theirs, stdout=theirs, stderr=theirs, TERM=terminal, NO_COLOR=no_color).code == 0
        os.close(theirs)
        output = reader.read(65_536)
    assert b"All done." in output
    assert (b"\x1b[32m" in output) is is_painted
    assert terminal != "dumb" or b"\x1b" not in output


# ---- a structured answer ---------------------------------------------------------------------------------------------

COUNT = '{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": false}'


@pytest.mark.parametrize(
    ("schema", "answer", "printed"),
    [
        (COUNT, '{"n": 3}', '{"n": 3}'),
        (COUNT, '```json\n{"n": 3}\n```', '{"n": 3}'),
        ('{"type": "array", "items": {"type": "string"}}', '{"value": ["a"]}', '["a"]'),
        ('{"type": "array", "items": {"type": "string"}}', '["a"]', '["a"]'),
        ('{"enum": [null]}', "null", "null"),
        # The first answer does not fit; the model is asked once more.
        (COUNT, 'three || {"n": 3}', '{"n": 3}'),
    ],
)
def test_value_alone_is_printed(quick: Quick, tmp_path: Path, schema: str, answer: str, printed: str) -> None:
    ended = quick("run", f"say {answer}", "--schema", schema, "-o", "out.json")
    assert (ended.code, ended.stdout.decode()) == (0, f"{printed}\n")
    assert (tmp_path / "out.json").read_text() == printed
    record = json.loads(quick("run", f"say {answer}", "--schema", schema, "--output", "json").stdout)
    assert record["output"] == json.loads(printed)


def test_schema_may_come_from_file_or_pipe(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "schema.json").write_text(COUNT)
    assert quick("run", 'say {"n": 1}', "--schema", "schema.json").stdout == b'{"n": 1}\n'
    with (tmp_path / "schema.json").open() as file:
        assert quick("run", 'say {"n": 2}', "--schema", "-", stdin=file.fileno()).stdout == b'{"n": 2}\n'


def test_answer_that_does_not_fit_twice_is_a_failure(quick: Quick) -> None:
    ended = quick("run", 'say three || {"n": "three"} || {"n": 3}', "--schema", COUNT)
    assert (ended.code, ended.stdout) == (10, b"")
    assert 'the answer does not fit the schema: n must be of type integer, not "three"' in ended.stderr.decode()
    record = json.loads(quick("run", "say three || four", "--schema", COUNT, "--output", "json").stdout)
    assert (record["exit_code"], record["text"], record["output"]) == (10, "four", None)


@pytest.mark.parametrize(
    ("flags", "error"),
    [
        (("--schema", '{"$ref": "https://example.com/x"}'), "--schema: the schema refers to another document"),
        (("--schema", "nowhere.json"), "--schema: can't read nowhere.json: No such file or directory"),
        (("--schema", "{"), "--schema: the schema is not JSON"),
        (("--max-wait", "0"), "--max-wait: must be a time above 0"),
        (("-q", "-v"), "--quiet and --verbose exclude each other"),
        (("--debug-log", "nowhere/x"), "--debug-log: can't write nowhere/x: No such file or directory"),
    ],
)
def test_wrong_flag_sends_nothing(quick: Quick, flags: tuple[str, ...], error: str) -> None:
    ended = quick("run", "hello", *flags)
    assert (ended.code, ended.stdout) == (2, b"")
    assert error in ended.stderr.decode()


# ---- waits -----------------------------------------------------------------------------------------------------------


def test_silent_host_ends_within_max_wait(quick: Quick) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        began = time.monotonic()
        ended = quick(
            "run", "hello", "--max-wait", "1", ANTHROPIC_BASE_URL=f"http://127.0.0.1:{silent.getsockname()[1]}"
        )
    assert ended.code == 8
    assert time.monotonic() - began < 30


def test_rate_limit_beyond_max_wait_ends_at_once(quick: Quick) -> None:
    began = time.time()
    ended = quick("run", "limited 3600", "--output", "json")
    record = json.loads(ended.stdout)
    assert ended.code == record["exit_code"] == 7
    assert began + 3_500 < record["reset_at"] < began + 3_700
    # A wait within the limit is made.
    ended = quick("run", "limited 0.2", "--max-wait", "0.5")
    assert (ended.code, b"; retry 1 of 5 in 0.20 s" in ended.stderr) == (7, True)


# ---- what is reported ------------------------------------------------------------------------------------------------


def test_verbose_run_reports_each_request(quick: Quick) -> None:
    ended = quick("run", "-v", "--yes", "bash true")
    line = "· request to anthropic/claude-sonnet-5-5: 1,000 tokens in, 50 out, $0.0025, "
    assert ended.stderr.decode().count(line) == 2
    assert ended.stdout == b"All done.\n"


def test_debug_log_has_no_secret_and_one_reader(quick: Quick, tmp_path: Path) -> None:
    log = tmp_path / "debug.log"
    log.touch(0o644)
    key = "test-key-0123456789"
    ended = quick("run", "-vv", "--yes", f"bash echo {key}; printf '\\33[2J'", "--debug-log", "debug.log")
    assert ended.stdout == b"All done.\n"
    assert log.stat().st_mode & 0o777 == 0o600
    for text in (log.read_text(), ended.stderr.decode()):
        assert "DEBUG engine.events: {" in text
        assert "HTTP Request: POST" in text
        assert "\x1b" not in text
    assert key not in log.read_text()


# ---- limits ----------------------------------------------------------------------------------------------------------


def test_cost_limit_ends_with_one_notice(quick: Quick) -> None:
    ended = quick("run", "work 30", "--yes", "--max-cost", "0.05", "--output", "json", "-v")
    record = json.loads(ended.stdout)
    assert (ended.code, record["stop_reason"]) == (4, "cost_limit")
    # One answer at most: here each costs as much.
    assert 0 <= record["cost"]["overshoot_usd"] < 0.0025
    ended = quick("run", "work 30", "--yes", "--max-cost", "0.05")
    assert ended.stderr.decode().count("of $0.0500 spent") == 1


def test_prompt_beyond_a_limit_is_not_sent(quick: Quick) -> None:
    for flags in (("--max-cost", "0.001"), ("--max-tokens", "100")):
        record = json.loads(quick("run", "hello", *flags, "--output", "json").stdout)
        assert (record["exit_code"], record["steps"], record["cost"]["usd"], record["text"]) == (4, 0, 0.0, "")


def test_limits_may_be_configured(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[defaults]\nmax_steps = 1\nheadless_cost = 0.001\n")
    ended = quick("run", "work 5", "--yes", "--config", "config.toml", "--output", "json")
    assert json.loads(ended.stdout)["stop_reason"] == "cost_limit"
    # Without a user, that is the limit unless there is another one; and a flag counts for more than the configuration.
    ended = quick("run", "work 5", "--yes", "--config", "config.toml", "--max-cost", "1", "--output", "json")
    assert json.loads(ended.stdout)["stop_reason"] == "step_limit"
    ended = quick("run", "work 5", "--yes", "--config", "config.toml", "--max-cost", "1", "--max-steps", "9")
    assert ended.code == 0


def test_cost_limit_needs_a_price(quick: Quick, tmp_path: Path) -> None:
    task = ("run", "hello", "--model", "anthropic/claude-of-tomorrow", "--max-cost", "1")
    ended = quick(*task)
    assert (ended.code, ended.stdout) == (2, b"")
    # What it says to do works as it stands.
    advice = ended.stderr.decode().rpartition("Next: engine run ")[2].strip()
    assert quick(*task, *shlex.split(advice)).code == 0
    (tmp_path / "config.toml").write_text('models."anthropic/claude-of-tomorrow".prices = { input = 1.0 }')
    assert quick(*task, "--config", "config.toml").code == 0
    # The guard of runs without a user is no promise: it asks for no price.
    assert quick(*task[:4]).code == 0
