"""Texts about tools and their calls: descriptions, summaries, counts, what identifies a call."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import Final, cast

_DESCRIPTIONS: Final = Path(__file__).with_name("descriptions")
# The arguments that identify a call best, in this order.
_MAIN_ARGUMENTS: Final = ("command", "path", "pattern", "query", "url", "prompt")


def description(tool: str, **values: float | str) -> str:
    """Return the description of *tool*, from its text file.

    The limits in the text come from the code, as *values*. Raises `KeyError` for a placeholder without a value,
    `ValueError` for a value without a placeholder.
    """
    template = Template((_DESCRIPTIONS / f"{tool}.txt").read_text("utf-8"))
    unused = values.keys() - set(template.get_identifiers())
    if unused:
        raise ValueError(f"{tool}.txt has no placeholder for {', '.join(sorted(unused))}")
    texts = {name: value if isinstance(value, str) else f"{value:g}" for name, value in values.items()}
    return template.substitute(texts).strip()


def metadata(summary: str, **facts: str | float | bool | None) -> str:
    """Return a result's metadata as JSON; clients show *summary* in one line, and the model never sees it."""
    return json.dumps({"summary": summary, **facts})


def counted(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: `1 line`, `2 lines`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def main_argument(arguments: str) -> str:
    """Return the argument that identifies a call: its command, its path."""
    try:
        parsed: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(parsed, dict):
        return arguments
    return _main_text(cast("dict[str, object]", parsed)) or (arguments if parsed else "")


def path_argument(arguments: str) -> str:
    """Return the path that a call names; empty if it names none."""
    try:
        parsed: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return ""
    path = cast("dict[str, object]", parsed).get("path") if isinstance(parsed, dict) else None
    return path if isinstance(path, str) else ""


def _main_text(values: Mapping[str, object]) -> str:
    """Return the text that identifies a call best, also inside of lists of objects; empty if there is none."""
    # For unknown tools, the first text argument is the best guess.
    for name in (*_MAIN_ARGUMENTS, *values):
        value = values.get(name)
        if isinstance(value, str) and value.strip():
            return value
    lists = [cast("list[object]", value) for value in values.values() if isinstance(value, list)]
    inner = [item for items in lists for item in items]
    texts = (_main_text(cast("dict[str, object]", item)) if isinstance(item, dict) else "" for item in inner)
    return next(filter(None, texts), "")
