"""Foreign JSON, read without trust: what has the wrong shape is as good as absent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

Json = dict[str, Any]


def loads(
    document: str | bytes,
    *,
    parse_float: Callable[[str], object] | None = None,
    parse_constant: Callable[[str], object] | None = None,
) -> object:
    """Return the value of *document*; raise `ValueError`, whatever is wrong with it."""
    try:
        return cast("object", json.loads(document, parse_float=parse_float, parse_constant=parse_constant))
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def dumps(value: object) -> str:
    """Return *value* as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def as_object(value: object) -> Json:
    """Return *value* if it is an object, else an empty one."""
    return cast("Json", value) if isinstance(value, dict) else {}


def text(parent: Json, name: str) -> str:
    """Return the string called *name*, or the empty one."""
    value: object = parent.get(name)
    return value if isinstance(value, str) else ""


def number(parent: Json, name: str, default: int) -> int:
    """Return the whole number called *name*, or *default*."""
    value: object = parent.get(name)
    return value if isinstance(value, int) else default
