"""The set of built-in tools, and their texts."""

import json
import re
from importlib.resources import files

import pytest

from engine.tools import call_values
from engine.tools.builtin import bash, bash_output, question, todo, web_fetch, web_search
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.builtin.skill import skill_tool
from engine.tools.builtin.task_jobs import task_tools
from engine.tools.call_values import GRACE
from engine.tools.output import truncate
from engine.tools.read import line_window as read_window
from engine.tools.registry import Registry
from engine.tools.search import search_arguments
from engine.tools.tool_text import counted, description, metadata
from engine.web import address_guard

SEARCH = {"BRAVE_API_KEY": "any"}
CONFIGURED = (*builtin_tools(SEARCH), skill_tool([]), *task_tools(()))
TOOLS = {tool.name: tool for tool in CONFIGURED}


def test_builtin_tools_make_a_registry() -> None:
    assert Registry.of(CONFIGURED).names == tuple(sorted(TOOLS))


def test_default_tools_are_sorted_and_stable() -> None:
    assert tuple(tool.name for tool in builtin_tools({})) == (
        "apply_patch",
        "bash",
        "bash_output",
        "bash_stop",
        "context",
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
        "web_fetch",
        "write",
    )
    assert builtin_tools({}) == builtin_tools({})


def test_web_search_needs_a_configured_service() -> None:
    names = [tool.name for tool in builtin_tools(SEARCH)]
    assert names == sorted([*(tool.name for tool in builtin_tools({})), "web_search"])
    assert [tool.description for tool in builtin_tools(SEARCH)] == [tool.description for tool in builtin_tools(SEARCH)]


def test_tools_and_descriptions_match() -> None:
    """The others are added where commands are confined, or where tools come and go."""
    texts = {path.name for path in files("engine.tools.descriptions").iterdir() if path.name.endswith(".txt")}
    assert texts == {f"{name}.txt" for name in TOOLS} | {
        "bash_boxed.txt",
        "bash_confined.txt",
        "tool_search.txt",
        "tool_use.txt",
    }


@pytest.mark.parametrize("name", TOOLS)
def test_descriptions_are_complete_and_machine_independent(name: str) -> None:
    assert not re.search(r"[$]|(^|\s)/\w", TOOLS[name].description)


@pytest.mark.parametrize("name", TOOLS)
def test_every_argument_is_described(name: str) -> None:
    properties = json.loads(TOOLS[name].schema.schema)["properties"]
    assert all(field.get("description") for field in properties.values())


def test_limits_in_descriptions_match_the_code() -> None:
    assert f"{bash.DEFAULT_TIMEOUT:g} seconds, or up to {bash.MAX_TIMEOUT:g}" in TOOLS["bash"].description
    assert (
        f"{truncate.SHOWN_OF_COMMAND.lines} lines and {truncate.SHOWN_OF_COMMAND.size} bytes"
        in TOOLS["bash"].description
    )
    assert f"At most {call_values.MAX_JOBS} run" in TOOLS["bash"].description
    assert f"up to {bash_output.MAX_WAIT:g} seconds" in TOOLS["bash_output"].description
    assert f"{call_values.DEFAULT_JOB_LINES} lines" in TOOLS["bash_output"].description
    assert f"{call_values.RECENT_BYTES // 1024} KiB" in TOOLS["bash_output"].description
    assert f"{read_window.MAX_LINES} lines and {read_window.MAX_BYTES} bytes" in TOOLS["read"].description
    assert f"{read_window.MAX_LINE_CHARS} characters" in TOOLS["read"].description
    assert f"{search_arguments.MAX_ENTRIES} entries" in TOOLS["list"].description
    assert f"{search_arguments.MAX_BYTES} bytes" in TOOLS["grep"].description
    assert f"{search_arguments.MAX_LINE_CHARS} characters" in TOOLS["grep"].description
    assert f"{search_arguments.TIMEOUT:g} seconds" in TOOLS["grep"].description
    assert f"{question.MAX_QUESTIONS} questions" in TOOLS["question"].description
    assert f"{question.MAX_CHOICES} answers" in TOOLS["question"].description
    assert f"{todo.MAX_TODOS} todos, each of at most {todo.MAX_CHARS} characters" in TOOLS["todo_write"].description
    assert f"larger than {web_fetch.MAX_BYTES // 1024 // 1024} MiB" in TOOLS["web_fetch"].description
    assert f"followed, {address_guard.MAX_REDIRECTS} at most" in TOOLS["web_fetch"].description
    times = f"{web_fetch.DEFAULT_TIMEOUT:g} seconds, or up to {web_fetch.MAX_TIMEOUT:g}"
    assert times in TOOLS["web_fetch"].description
    assert f"most {web_search.MAX_COUNT} results" in TOOLS["web_search"].description
    assert f"{web_search.MAX_QUERY_CHARS} characters" in TOOLS["web_search"].description


def test_declarations() -> None:
    looking = {"bash_output", "glob", "grep", "list", "read", "task_output"}
    talking = {"context", "plan_exit", "question", "skill", "todo_read", "todo_write"}
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


def test_each_tool_names_its_required_right() -> None:
    """By these the rules hide them."""
    by_right: dict[str, set[str]] = {}
    for tool in CONFIGURED:
        by_right.setdefault(tool.permission, set()).add(tool.name)
    assert by_right == {
        "edit": {"apply_patch", "edit", "multi_edit", "write"},
        "read": {"glob", "grep", "list", "read"},
        "bash": {"bash"},
        "bash_output": {"bash_output"},
        "bash_stop": {"bash_stop"},
        "context": {"context"},
        "task_output": {"task_output"},
        "task_stop": {"task_stop"},
        "web": {"web_fetch", "web_search"},
        "question": {"plan_exit", "question"},
        "todo": {"todo_read", "todo_write"},
        "task": {"task"},
        "skill": {"skill"},
    }
