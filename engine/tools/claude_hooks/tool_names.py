"""Tools and arguments by the names that Claude Code's hooks know them by.

A hook that was written for it looks for `Bash` and `tool_input.file_path`; ours are
`bash` and `path`. What a hook changes is translated back.
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
    """What one of our tools is called there.

    Attributes:
        name: its name.
        also: further names under which a matcher finds it, so that what guards edits guards all of them.
        paths: arguments that name a file, and what they are called; they are sent absolute.
        others: further arguments that are called otherwise.
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
    """Return the names under which a matcher finds a tool; the first is the one that a hook reads."""
    names = _TOOLS.get(tool)
    return (tool,) if names is None else tuple(dict.fromkeys((names.name, tool, *names.also)))


def input_of(tool: str, arguments: str, cwd: str) -> Json:
    """Return a call's arguments, JSON text of ours, as a hook expects them."""
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
    """Return what a hook put in place of *arguments*, as JSON text of ours; what it left alone is as it was."""
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
    """Return where a tool finds *path*: a hook that guards a file must look at the same one."""
    try:
        target = resolve(cwd, path)
    except ToolError:  # no path at all; the call will say so
        return path
    plain = os.path.normpath(target)
    if ".." not in target.parts:
        return plain
    real = os.path.realpath(target)  # what is above a link is not what stands before it
    return plain if os.path.realpath(plain) == real else real


def _object(arguments: str) -> Json:
    """Return JSON text as an object; empty for what is none."""
    try:
        value: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return {}
    return cast("Json", value) if isinstance(value, dict) else {}
