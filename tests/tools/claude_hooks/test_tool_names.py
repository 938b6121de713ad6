"""Tools and arguments as hooks know them, and back."""

import json
from pathlib import Path

import pytest

from engine.tools.claude_hooks.tool_names import arguments_of, input_of, names_of


@pytest.mark.parametrize(
    ("tool", "names"),
    [
        ("bash", ("Bash", "bash")),
        ("read", ("Read", "read")),
        ("multi_edit", ("MultiEdit", "multi_edit", "Edit")),
        ("apply_patch", ("apply_patch", "Edit", "Write")),
        ("task", ("Task", "task", "Agent")),
        ("mcp__github__search", ("mcp__github__search",)),
        ("", ("",)),
    ],
)
def test_tool_is_found_by_any_name(tool: str, names: tuple[str, ...]) -> None:
    assert names_of(tool) == names


@pytest.mark.parametrize(
    ("tool", "arguments", "told"),
    [
        ("bash", {"command": "ls", "timeout": 1.5}, {"command": "ls", "timeout": 1500}),
        ("bash", {"command": "ls"}, {"command": "ls"}),
        ("read", {"path": "a/../b.py", "limit": 5}, {"file_path": "/project/b.py", "limit": 5}),
        ("write", {"path": "/etc/passwd", "content": "x"}, {"file_path": "/etc/passwd", "content": "x"}),
        ("list", {"path": "."}, {"path": "/project"}),
        ("list", {}, {}),
        ("read", {"path": "~/.ssh/id"}, {"file_path": str(Path.home() / ".ssh/id")}),
        ("read", {"path": "~nobody-of-that-name/a"}, {"file_path": "/project/~nobody-of-that-name/a"}),
        ("read", {"path": " "}, {"file_path": " "}),
        ("bash", {"command": "ls", "background": True}, {"command": "ls", "run_in_background": True}),
        ("task", {"agent": "explore", "prompt": "x"}, {"subagent_type": "explore", "prompt": "x"}),
        ("skill", {"name": "pdf"}, {"skill": "pdf"}),
        ("bash_output", {"name": "web"}, {"bash_id": "web"}),
        ("bash_stop", {"name": "web"}, {"shell_id": "web"}),
        ("grep", {"pattern": "x", "path": "src"}, {"pattern": "x", "path": "/project/src"}),
        ("read", {"path": 5}, {}),
        ("bash", {"timeout": "long"}, {"timeout": "long"}),
        ("mine", {"path": "a", "timeout": 1}, {"path": "a", "timeout": 1}),
    ],
)
def test_arguments_for_a_hook(tool: str, arguments: object, told: object) -> None:
    assert input_of(tool, json.dumps(arguments), "/project") == told


def test_guard_sees_the_path_to_be_opened(tmp_path: Path) -> None:
    """Above a link is not what stands before it."""
    (tmp_path / "far" / "folder").mkdir(parents=True)
    (tmp_path / "project" / "sub").mkdir(parents=True)
    (tmp_path / "project" / "link").symlink_to(tmp_path / "far" / "folder")

    def told(path: str) -> object:
        return input_of("read", json.dumps({"path": path}), str(tmp_path / "project"))["file_path"]

    assert told("link/../secret") == str(tmp_path / "far" / "secret")
    assert told("sub/../plain") == str(tmp_path / "project" / "plain")
    assert told("link/file") == str(tmp_path / "project" / "link" / "file")
    assert told("gone/../plain") == str(tmp_path / "project" / "plain")


@pytest.mark.parametrize("arguments", ["", "null", "[]", "{", "5", "[" * 100_000])
def test_non_object_arguments_become_empty(arguments: str) -> None:
    assert input_of("bash", arguments, "/project") == {}


@pytest.mark.parametrize(
    ("tool", "before", "changed", "after"),
    [
        (
            "bash",
            {"command": "ls", "timeout": 1.5},
            {"command": "ls -l", "timeout": 1500},
            {"command": "ls -l", "timeout": 1.5},
        ),
        ("bash", {"command": "ls"}, {"command": "ls", "timeout": 2000}, {"command": "ls", "timeout": 2.0}),
        ("read", {"path": "b.py"}, {"file_path": "/project/b.py", "limit": 1}, {"path": "b.py", "limit": 1}),
        ("read", {"path": "b.py"}, {"file_path": "/tmp/b.py"}, {"path": "/tmp/b.py"}),
        ("list", {}, {"path": "/project/src"}, {"path": "/project/src"}),
        (
            "bash",
            {"command": "ls", "background": True},
            {"command": "ls", "run_in_background": False},
            {"command": "ls", "background": False},
        ),
        ("read", {"path": "b.py", "limit": 5}, {}, {}),
        ("mine", {"path": "a"}, {"path": "b"}, {"path": "b"}),
    ],
)
def test_changed_arguments_replace_only_translated_ones(
    tool: str, before: object, changed: dict[str, object], after: object
) -> None:
    assert json.loads(arguments_of(tool, changed, json.dumps(before), "/project")) == after


@pytest.mark.parametrize(
    "tool", ["bash", "read", "write", "edit", "multi_edit", "list", "glob", "grep", "task", "skill", "mine"]
)
def test_unchanged_arguments_stay_identical(tool: str) -> None:
    arguments = json.dumps(
        {"path": "a/../b", "timeout": 0.1, "pattern": "ü", "command": "x", "name": "n", "agent": "a"}
    )
    told = input_of(tool, arguments, "/project/dir")
    assert json.loads(arguments_of(tool, told, arguments, "/project/dir")) == json.loads(arguments)
