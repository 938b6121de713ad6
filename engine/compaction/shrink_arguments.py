"""Shorten the arguments of old calls. The result is JSON that every wire format accepts."""

from __future__ import annotations

import json
from typing import Final, cast

from engine.compaction.shorten import truncate_middle

# Replaces the middle of a long argument, or of all arguments.
_CUT: Final = "[cleared to make room: {:,} characters, which the tool was given]"
_ALL: Final = "cleared"
# Many short values can be long together; beyond this multiple of the limit, all arguments are replaced.
_TOGETHER: Final = 6
# Values that are nested deeper are left alone.
_DEEPEST: Final = 32


def shorten_arguments(arguments: str, most: int) -> str:
    """Return a call's *arguments* with values of more than *most* characters truncated in the middle."""
    if len(arguments) <= most:
        return arguments
    try:
        parsed: object = json.loads(arguments)
        is_object = isinstance(parsed, dict)
        result = _json(_shorter(parsed, most, 0)) if is_object else ""
    except (ValueError, RecursionError):
        is_object, result = False, ""
    if not is_object:
        # Arguments that are no JSON object were sent as `{}`, and still are.
        result = truncate_middle(arguments, most, _CUT)
    elif len(result) > _TOGETHER * most:
        result = _json({_ALL: truncate_middle(arguments, most, _CUT)})
    # Escapes and notes may have made it longer.
    return min(arguments, result, key=len)


def _shorter(value: object, most: int, depth: int) -> object:
    if isinstance(value, str):
        return truncate_middle(value, most, _CUT)
    # `json` itself allows a depth at which this recursion would fail.
    if depth > _DEEPEST:
        return value
    if isinstance(value, dict):
        named = cast("dict[str, object]", value)
        return {name: _shorter(each, most, depth + 1) for name, each in named.items()}
    if isinstance(value, list):
        return [_shorter(each, most, depth + 1) for each in cast("list[object]", value)]
    return value


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
