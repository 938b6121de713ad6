"""What the arguments of a call tell a user: the one that identifies the call, and which sub-agent it has started. Pure."""

from __future__ import annotations

import json
from typing import Final, cast

# The arguments that identify a call best, in this order.
_MAIN_ARGUMENTS: Final = ("command", "path", "pattern", "query", "url", "prompt")
_MAX_TASK_CHARS: Final = 100


def main_argument(arguments: str) -> str:
    """Return the argument that identifies a call: its command, its path."""
    try:
        parsed: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(parsed, dict):
        return arguments
    values = cast("dict[str, object]", parsed)
    # For unknown tools, the first text argument is the best guess.
    for name in (*_MAIN_ARGUMENTS, *values):
        value = values.get(name)
        if isinstance(value, str) and value.strip():
            return value
    return arguments if values else ""


def requester_of(path: tuple[str, ...], task_arguments: str) -> str:
    """Return which sub-agent asks: `sub-agent explore: find the tests`; empty if the session itself does.

    Args:
        path: the path of the question's event: a session for each level of sub-agents.
        task_arguments: the arguments of the call that started the sub-agent, as JSON text.
    """
    if len(path) <= 1:
        return ""
    try:
        parsed = cast("object", json.loads(task_arguments or "{}"))
    except (ValueError, RecursionError):
        parsed = {}
    # The arguments are the model's: anything may be missing or of another type.
    name = cast("dict[str, object]", parsed).get("agent", "") if isinstance(parsed, dict) else ""
    who = f"sub-agent {name}" if isinstance(name, str) and name else "a sub-agent"
    work = " ".join(main_argument(task_arguments).split())
    shown = work if len(work) <= _MAX_TASK_CHARS else f"{work[:_MAX_TASK_CHARS]}…"
    return f"{who}: {shown}" if shown else who
