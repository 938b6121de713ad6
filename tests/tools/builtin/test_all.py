"""The set of built-in tools, and their texts."""

import json
import re
from importlib.resources import files

import pytest

from engine.tools import jobs
from engine.tools.builtin import bash, bash_output, grep, grep_report, long_lines, read_window
from engine.tools.builtin import list as list_module
from engine.tools.builtin.all import builtin_tools
from engine.tools.builtin.texts import counted, description, metadata
from engine.tools.registry import Registry
from engine.tools.spec import GRACE

TOOLS = {tool.name: tool for tool in builtin_tools()}


def test_they_make_a_registry() -> None:
    assert Registry.of(builtin_tools()).names == (
        "apply_patch",
        "bash",
        "bash_output",
        "bash_stop",
        "edit",
        "glob",
        "grep",
        "list",
        "multi_edit",
        "plan_exit",
        "question",
        "read",
        "todo_read",
        "todo_write",
        "write",
    )


def test_each_has_one_text_and_each_text_its_tool() -> None:
    texts = {path.name for path in files("engine.tools.builtin").iterdir() if path.name.endswith(".txt")}
    # Those that need a configuration of their own are made by their modules.
    assert texts - {"skill.txt", "task.txt", "web_fetch.txt", "web_search.txt"} == {f"{name}.txt" for name in TOOLS}


@pytest.mark.parametrize("name", TOOLS)
def test_a_text_has_no_placeholder_left_and_no_machine_in_it(name: str) -> None:
    assert not re.search(r"[$]|(^|\s)/\w", TOOLS[name].description)


@pytest.mark.parametrize("name", TOOLS)
def test_every_argument_is_described(name: str) -> None:
    properties = json.loads(TOOLS[name].schema.schema)["properties"]
    assert all(field.get("description") for field in properties.values())


def test_the_limits_in_the_texts_are_those_of_the_code() -> None:
    assert f"{bash.DEFAULT_TIMEOUT:g} seconds, or up to {bash.MAX_TIMEOUT:g}" in TOOLS["bash"].description
    assert f"{bash.SHOWN.lines} lines and {bash.SHOWN.size} bytes" in TOOLS["bash"].description
    assert f"At most {jobs.MAX_RUNNING} run" in TOOLS["bash"].description
    assert f"up to {bash_output.MAX_WAIT:g} seconds" in TOOLS["bash_output"].description
    assert f"{bash_output.DEFAULT_LIMIT} lines" in TOOLS["bash_output"].description
    assert f"{jobs.RECENT_BYTES // 1024} KiB" in TOOLS["bash_output"].description
    assert f"{read_window.MAX_LINES} lines and {read_window.MAX_BYTES} bytes" in TOOLS["read"].description
    assert f"{read_window.MAX_LINE_CHARS} characters" in TOOLS["read"].description
    assert f"{list_module.MAX_ENTRIES} entries" in TOOLS["list"].description
    assert f"{grep_report.MAX_BYTES} bytes" in TOOLS["grep"].description
    assert f"{long_lines.MAX_LINE_CHARS} characters" in TOOLS["grep"].description
    assert f"{grep.TIMEOUT:g} seconds" in TOOLS["grep"].description


def test_what_they_declare() -> None:
    looking = {"bash_output", "glob", "grep", "list", "read"}
    talking = {"plan_exit", "question", "todo_read", "todo_write"}
    assert {name for name, tool in TOOLS.items() if tool.read_only} == looking | talking
    assert {name for name, tool in TOOLS.items() if tool.chain} == {"bash"}
    assert {tool.grace for tool in TOOLS.values()} == {GRACE}


def test_a_placeholder_without_a_value_is_an_error() -> None:
    with pytest.raises(KeyError):
        description("bash", default_timeout=1.0)


def test_a_value_without_a_placeholder_is_an_error() -> None:
    with pytest.raises(ValueError, match="no placeholder for speed"):
        description("list", max_entries=1, speed=2)


def test_metadata_is_json_with_a_summary() -> None:
    assert json.loads(metadata("exit 0", exit_code=0)) == {"summary": "exit 0", "exit_code": 0}


def test_counting() -> None:
    assert [counted(n, "line") for n in (0, 1, 1234)] == ["0 lines", "1 line", "1,234 lines"]
    assert counted(2, "entry", "entries") == "2 entries"
