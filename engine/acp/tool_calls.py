"""How tool calls look in an editor: kind, title, files, and changes of files. Pure."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Final, cast

from engine.core.messages import Settlement
from engine.core.schema import Json
from engine.export.sanitize import one_line
from engine.tools.tool_text import main_argument

_KINDS: Final[Mapping[str, str]] = {
    "read": "read",
    "list": "read",
    "bash_output": "read",
    "mcp_read": "read",
    "edit": "edit",
    "multi_edit": "edit",
    "write": "edit",
    "apply_patch": "edit",
    "glob": "search",
    "grep": "search",
    "web_search": "search",
    "tool_search": "search",
    "bash": "execute",
    "bash_stop": "execute",
    "web_fetch": "fetch",
    "todo_write": "think",
    "todo_read": "think",
    "task": "think",
    "plan_exit": "switch_mode",
}
_STATUS: Final[Mapping[str, str]] = {
    "completed": "completed",
    "error": "failed",
    "denied": "failed",
    "aborted": "failed",
}
_TITLE_CHARS: Final = 200
# An editor keeps and draws all of it; the rest of a long result is in the session.
MAX_RESULT_CHARS: Final = 65_536
_HUNK: Final = re.compile(r"@@ -\d+,(\d+) \+\d+,(\d+) @@")


def kind_of(tool: str) -> str:
    """Return the protocol's kind of a tool."""
    return _KINDS.get(tool, "other")


def title_of(tool: str, arguments: str = "", agent: str = "") -> str:
    """Return a call in one line: the tool and what it is about; *agent* is the sub-agent whose call it is."""
    about = main_argument(arguments)
    prefix = f"{agent}: " if agent else ""
    return one_line(f"{prefix}{tool} {about}".strip(), _TITLE_CHARS)


def raw_input(arguments: str) -> Json:
    """Return the arguments as JSON; as a text where they are none."""
    try:
        return cast("Json", json.loads(arguments or "{}"))
    except (ValueError, RecursionError):
        return arguments


def locations_of(arguments: str, cwd: str) -> list[Json]:
    """Return the file that a call names, so that the editor can follow it."""
    values = raw_input(arguments)
    path = values.get("path") if isinstance(values, dict) else None
    if not isinstance(path, str) or not path or "\0" in path:
        return []
    location: dict[str, Json] = {"path": os.path.normpath(os.path.join(cwd, path))}  # noqa: PTH118  # pure
    line = values.get("offset") if isinstance(values, dict) else None
    if isinstance(line, int) and line > 0:
        location["line"] = line
    return [location]


def text_content(text: str) -> dict[str, Json]:
    """Return a text as content of a call."""
    return {"type": "content", "content": {"type": "text", "text": _cut(text)}}


def diff_content(diff: str, cwd: str) -> list[Json]:
    """Return unified diffs, as the engine makes them, as changes for the editor: one for each hunk."""
    return [
        {"type": "diff", "path": path, "oldText": old, "newText": new}
        for path, old, new in _hunks(diff[: 4 * MAX_RESULT_CHARS], cwd)
    ]


def settled_update(tool: str, settlement: Settlement, cwd: str) -> dict[str, Json]:
    """Return what is new about a call that has ended."""
    diffs = diff_content(_diff_in(settlement.metadata), cwd) if kind_of(tool) == "edit" else []
    images: list[Json] = [
        {"type": "content", "content": {"type": "image", "data": image.data, "mimeType": image.media_type}}
        for image in settlement.images
    ]
    output: dict[str, Json] = {"status": settlement.status}
    if settlement.reason is not None:
        output["reason"] = settlement.reason
    if settlement.outcome_unknown:
        output["outcomeUnknown"] = True
    status = "failed" if settlement.failed else _STATUS[settlement.status]
    content = [*diffs, *images]
    if not diffs or status != "completed":
        content.insert(0, text_content(settlement.text))
    return {"status": status, "content": content, "rawOutput": output}


def _diff_in(metadata: str) -> str:
    try:
        facts: object = json.loads(metadata or "{}")
    except ValueError:
        return ""
    diff = cast("dict[str, object]", facts).get("diff") if isinstance(facts, dict) else None
    return diff if isinstance(diff, str) else ""


def _hunks(diff: str, cwd: str) -> Iterator[tuple[str, str | None, str]]:
    """Yield the file, the old and the new text of each hunk; None as the old text of a new file."""
    lines = iter(diff.splitlines(keepends=True))
    before = path = ""
    for line in lines:
        if line.startswith("--- "):
            before = line[4:].rstrip("\n")
        elif line.startswith("+++ "):
            after = line[4:].rstrip("\n")
            path = before if after == os.devnull else after
        elif (hunk := _HUNK.match(line)) is not None and path:
            old, new = _sides(lines, int(hunk[1]), int(hunk[2]))
            yield os.path.normpath(os.path.join(cwd, path)), None if before == os.devnull else old, new  # noqa: PTH118  # pure


def _sides(lines: Iterator[str], old_count: int, new_count: int) -> tuple[str, str]:
    """Return the old and the new text of a hunk with so many lines; a diff may be cut within it."""
    old, new = list[str](), list[str]()
    for line in lines:
        sign, text = line[:1], line[1:]
        if sign in {" ", "-"}:
            old.append(text)
        if sign in {" ", "+"}:
            new.append(text)
        if sign not in {" ", "-", "+", "\\"} or (len(old) >= old_count and len(new) >= new_count):
            break
    return "".join(old), "".join(new)


def _cut(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARS:
        return text
    half = MAX_RESULT_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters are not shown …]\n{text[-half:]}"
