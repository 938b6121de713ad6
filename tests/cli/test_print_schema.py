"""`engine schema`: what the program prints fits it, whatever else tries to print."""

import json
import sys
import tomllib
from pathlib import Path
from typing import Any

import attrs
import pytest

from engine.cli.print_schema import line_schema, result_schema, schema_named
from engine.cli.turn.record_types import InitRecord, RunResult
from engine.cli.turn.run_record import failure_record, record_text
from engine.core.errors import ConfigError
from engine.json_schema.parse_schema import JsonSchema, parse_schema
from engine.settings_file.config_file import read_config
from scripts.run_reference import files
from tests.cli.conftest import Quick
from tests.cli.processes import REPOSITORY

RESULT = parse_schema(json.dumps(result_schema()))
LINE = parse_schema(json.dumps(line_schema()))
CONFIG = parse_schema(json.dumps(schema_named("config")))
EXAMPLES = sorted((REPOSITORY / "docs" / "examples").glob("*.toml"))


def check_lines(output: bytes, code: int) -> list[dict[str, Any]]:
    """Every byte belongs to a line of JSON that fits; `init` comes first and `result` last, with the exit code."""
    assert output.endswith(b"\n")
    lines = [json.loads(line) for line in output.decode().splitlines()]
    assert [problem for line in lines if (problem := LINE.problem(line))] == []
    assert [line["type"] for line in lines if line["type"] in {"init", "result"}] == ["init", "result"]
    assert (lines[0]["type"], lines[-1]["type"], lines[-1]["exit_code"]) == ("init", "result", code)
    return lines


def test_documentation_is_what_the_classes_say() -> None:
    assert [path.name for path, text in files().items() if path.read_text("utf-8") != text] == []


@pytest.mark.parametrize("schema", [RESULT, LINE, CONFIG])
def test_schema_refuses_other_values(schema: JsonSchema) -> None:
    assert schema.problem([])
    assert schema.problem({"type": "result", "schema": 1, "exit_code": "0"})


def test_failure_record_has_all_fields() -> None:
    record = json.loads(record_text(failure_record(["no such model", "Next: engine models"], 2)))
    assert RESULT.problem(record) is None
    assert set(record) == {field.name for field in attrs.fields(RunResult)}
    assert (record["error"]["message"], record["error"]["next"]) == ("no such model", "engine models")


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_configuration_of_the_documentation_fits(path: Path) -> None:
    assert CONFIG.problem(tomllib.loads(path.read_text())) is None


@pytest.mark.parametrize(
    "text",
    [
        "[nope]",
        "[defaults]\nmodell = 'x/y'",
        "[hosts.x]\nparallel = 'many'",
        "[formatters.x]\ntimeout = 3",
        "version = 9",
    ],
)
def test_configuration_that_is_refused_does_not_fit(text: str) -> None:
    with pytest.raises(ConfigError):
        read_config(text.encode(), "config.toml")
    assert CONFIG.problem(tomllib.loads(text))


# ---- what the program prints -----------------------------------------------------------------------------------------

pytestmark = [pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

# `test_exit_codes` looks at one for each stop reason.
RUNS: list[tuple[tuple[str, ...], int]] = [
    (("write", "--yes"), 0),
    (("write",), 3),
    (("delegate explore look", "--yes"), 0),
    (("say a || b", "--schema", '{"type": "array"}', "-vv"), 10),
]


@pytest.mark.os
@pytest.mark.parametrize(("arguments", "code"), RUNS, ids=lambda value: str(value)[:30])
def test_lines_and_records_fit_the_schema(quick: Quick, arguments: tuple[str, ...], code: int) -> None:
    ended = quick("run", *arguments, "--output", "stream-json")
    assert ended.code == code, ended.stderr
    lines = check_lines(ended.stdout, code)
    # Strict: a field that the schema does not name would go unnoticed above.
    assert set(lines[0]) == {field.name for field in attrs.fields(InitRecord)}
    assert set(lines[-1]) == {field.name for field in attrs.fields(RunResult)}
    assert RESULT.problem(lines[-1]) is None


@pytest.mark.os
@pytest.mark.parametrize(
    "flags", [("--model", "nope"), ("--attach", "nowhere"), ("--no-such-flag",), ("--max-steps", "0")]
)
def test_wrong_usage_prints_a_record(quick: Quick, flags: tuple[str, ...]) -> None:
    for mode in ("json", "stream-json"):
        ended = quick("run", "hello", "--output", mode, *flags)
        record = json.loads(ended.stdout)
        assert (ended.code, record["exit_code"], RESULT.problem(record)) == (2, 2, None)
        assert record["error"]["message"]


HOSTILE_HOOK = """
[[hooks.PreToolUse]]
hooks = [{ type = "command", command = "echo from the hook; echo to stderr >&2" }]
[[hooks.SessionStart]]
hooks = [{ type = "command", command = "printf 'no json {'" }]
"""


@pytest.mark.os
def test_hostile_prints_stay_off_standard_output(quick: Quick, tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(HOSTILE_HOOK)
    script = "echo out; echo err >&2; printf '\\0\\33[2J\\r\\n{'; echo x > /proc/self/fd/1"
    ended = quick("run", "--config", "config.toml", "--yes", f"bash {script}", "--output", "stream-json", "-vv")
    check_lines(ended.stdout, 0)
    ended = quick("run", "--config", "config.toml", "--yes", f"bash {script}", "--output", "json", "-vv")
    assert RESULT.problem(json.loads(ended.stdout)) is None
    ended = quick("run", "--config", "config.toml", "--yes", f"bash {script}", "-vv")
    assert ended.stdout == b"All done.\n"
