"""Translate tools and arguments to the names that Claude Code's hooks expect, and back.

A hook written for Claude Code looks for `Bash` and `tool_input.file_path`; ours are `bash` and `path`. What a hook
changes is translated back.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Final, cast

import attrs

from engine.core.errors import ToolError
from engine.files.text_files import resolve

Json = dict[str, object]


@attrs.frozen(kw_only=True)
class _Names:
    """Claude Code's names for one of our tools.

    Attributes:
        name: the tool's name.
        also: further names that match it, so that a guard for edits guards all tools that edit.
        paths: arguments that are paths, and their names there; they are sent as absolute paths.
        others: further arguments with other names.
        milliseconds: arguments that we count in seconds.
    """

    name: str
    also: tuple[str, ...] = ()
    paths: Mapping[str, str] = {}
    others: Mapping[str, str] = {}
    milliseconds: tuple[str, ...] = ()


_FILE: Final = {"path": "file_path"}
_FOLDER: Final = {"path": "path"}
_TOOLS: Final[Mapping[str, _Names]] = {
    "bash": _Names(name="Bash", others={"background": "run_in_background"}, milliseconds=("timeout",)),
    "read": _Names(name="Read", paths=_FILE),
    "write": _Names(name="Write", paths=_FILE),
    "edit": _Names(name="Edit", paths=_FILE),
    "multi_edit": _Names(name="MultiEdit", also=("Edit",), paths=_FILE),
    "apply_patch": _Names(name="apply_patch", also=("Edit", "Write")),
    "list": _Names(name="LS", paths=_FOLDER),
    "glob": _Names(name="Glob", paths=_FOLDER),
    "grep": _Names(name="Grep", paths=_FOLDER),
    "task": _Names(name="Task", also=("Agent",), others={"agent": "subagent_type"}),
    "web_fetch": _Names(name="WebFetch"),
    "web_search": _Names(name="WebSearch"),
    "todo_write": _Names(name="TodoWrite"),
    "todo_read": _Names(name="TodoRead"),
    "bash_output": _Names(name="BashOutput", others={"name": "bash_id"}),
    "bash_stop": _Names(name="KillShell", also=("KillBash",), others={"name": "shell_id"}),
    "skill": _Names(name="Skill", others={"name": "skill"}),
    "question": _Names(name="AskUserQuestion"),
    "plan_exit": _Names(name="ExitPlanMode"),
}


def names_of(tool: str) -> tuple[str, ...]:
    """Return the names that a matcher may use for a tool; the first is sent to hooks."""
    names = _TOOLS.get(tool)
    return (tool,) if names is None else tuple(dict.fromkeys((names.name, tool, *names.also)))


def input_of(tool: str, arguments: str, cwd: str) -> Json:
    """Translate a call's arguments, JSON text, for hooks."""
    mapping, renamed = _TOOLS.get(tool), _object(arguments)
    if mapping is None:
        return renamed
    for ours, theirs in mapping.paths.items():
        if isinstance(path := renamed.pop(ours, None), str):
            renamed[theirs] = _absolute(cwd, path)
    for ours, theirs in mapping.others.items():
        if ours in renamed:
            renamed[theirs] = renamed.pop(ours)
    for name in mapping.milliseconds:
        if isinstance(seconds := renamed.get(name), (int, float)):
            renamed[name] = round(seconds * 1_000)
    return renamed


def arguments_of(tool: str, changed: Json, arguments: str, cwd: str) -> str:
    """Translate a hook's changed arguments back to JSON text; values that it left alone stay exactly as they were."""
    mapping, sent, before = _TOOLS.get(tool), input_of(tool, arguments, cwd), _object(arguments)
    tool_input = dict(changed)
    if mapping is not None:
        for ours, theirs in mapping.paths.items():
            if theirs in tool_input:
                path = tool_input.pop(theirs)
                tool_input[ours] = before.get(ours) if path == sent.get(theirs) else path
        for ours, theirs in mapping.others.items():
            if theirs in tool_input:
                tool_input[ours] = tool_input.pop(theirs)
        for name in mapping.milliseconds:
            if isinstance(value := tool_input.get(name), (int, float)):
                tool_input[name] = before.get(name) if value == sent.get(name) else value / 1_000
    return json.dumps(tool_input, ensure_ascii=False)


def _absolute(cwd: str, path: str) -> str:
    """Return the path that the tool will use: a guard must check that file, and no other."""
    try:
        target = resolve(cwd, path)
    except ToolError:  # not a path; the call will fail on it
        return path
    plain = os.path.normpath(target)
    if ".." not in target.parts:
        return plain
    real = os.path.realpath(target)  # `link/..` is the parent of the link's target, not the folder of the link
    return plain if os.path.realpath(plain) == real else real


def _object(arguments: str) -> Json:
    """Parse a JSON object; empty if it is none."""
    try:
        value: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return {}
    return cast("Json", value) if isinstance(value, dict) else {}
