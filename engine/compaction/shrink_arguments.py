"""Shorten the arguments of old calls. The result is JSON that every wire format accepts."""

from __future__ import annotations

import json
from typing import Final, cast

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
        result = _cut(arguments, most)
    elif len(result) > _TOGETHER * most:
        result = _json({_ALL: _cut(arguments, most)})
    return min(arguments, result, key=len)


def _shorter(value: object, most: int, depth: int) -> object:
    if isinstance(value, str):
        return _cut(value, most)
    if depth > _DEEPEST:
        return value
    if isinstance(value, dict):
        named = cast("dict[str, object]", value)
        return {name: _shorter(each, most, depth + 1) for name, each in named.items()}
    if isinstance(value, list):
        return [_shorter(each, most, depth + 1) for each in cast("list[object]", value)]
    return value


def _cut(text: str, most: int) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]}\n{_CUT.format(len(text) - 2 * half)}\n{text[-half:]}"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
