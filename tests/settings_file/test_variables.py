"""The variables of the environment: one table, which the reference repeats, and no variable besides."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from engine.cli.command_table.find_command import all_specs, parse_arguments
from engine.core.errors import ConfigError
from engine.settings_file.variables import FOR_CHILDREN, VARIABLES
from scripts.variable_reference import PAGE, with_tables

ENGINE = Path(__file__).resolve().parents[2] / "engine"
NAMES = {variable.name for variable in (*VARIABLES, *FOR_CHILDREN)}


def test_reference_has_every_variable() -> None:
    page = PAGE.read_text("utf-8")
    assert with_tables(page) == page, "run `make surface`"
    assert all(f"| `{name}` |" in page for name in NAMES)


def test_source_reads_no_other_variable() -> None:
    names = {
        name
        for path in ENGINE.rglob("*.py")
        for name in re.findall(r"[\"'$](ENGINE_[A-Z_]+)\b", path.read_text("utf-8"))
    }
    assert names <= NAMES
    assert {flag.variable for spec in all_specs() for flag in spec.flags if flag.variable} <= NAMES


def test_flag_is_stronger_than_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MAX_COST", "2.5"), ("NO_INPUT", "1"), ("COLOR", "never"), ("LOG", "debug.log")):
        monkeypatch.setenv(f"ENGINE_{name}", value)
    args = parse_arguments("run", ["task"])
    assert (args.max_cost, args.no_input, args.color, args.debug_log) == (2.5, True, "never", Path("debug.log"))
    assert parse_arguments("run", ["task", "--max-cost", "3", "--color", "always"]).max_cost == 3
    monkeypatch.setenv("ENGINE_NO_INPUT", "0")
    assert parse_arguments("run", ["task"]).no_input is False


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "ENGINE_MAX_COST",
            "much",
            "ENGINE_MAX_COST must be a number above 0, not 'much'\nNext: unset ENGINE_MAX_COST",
        ),
        ("ENGINE_NO_INPUT", "perhaps", "ENGINE_NO_INPUT must be 1 or 0, not 'perhaps'"),
        ("ENGINE_COLOR", "blue", "ENGINE_COLOR must be always, never or auto, not 'blue'"),
    ],
)
def test_invalid_variables(monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        parse_arguments("run", ["task"])
    assert str(caught.value).startswith(message)
