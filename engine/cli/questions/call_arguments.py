"""Which sub-agent a call has started, as its arguments say. Pure."""

from __future__ import annotations

import json
from typing import Final, cast

from engine.tools.tool_text import main_argument

_MAX_TASK_CHARS: Final = 100


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
