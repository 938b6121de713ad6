"""The arguments of old calls, made shorter: what stays is JSON that every wire format takes."""

from __future__ import annotations

import json
from typing import Final, cast

# Stands in an argument, or for all of them, in the place of what was there.
_CUT: Final = "[cleared to make room: {:,} characters, which the tool was given]"
_ALL: Final = "cleared"
# Many short values are long together; beyond so many times the length of one, they go as a whole.
_TOGETHER: Final = 6
# Deeper than that, nobody cuts anything.
_DEEPEST: Final = 32


def shorter(arguments: str, most: int) -> str:
    """Return a call's *arguments* with what is longer than *most* characters cut in the middle; at best, the same."""
    if len(arguments) <= most:
        return arguments
    try:
        given: object = json.loads(arguments)
        is_object = isinstance(given, dict)
        found = _json(_shorter(given, most, 0)) if is_object else ""
    except (ValueError, RecursionError):
        is_object, found = False, ""
    if not is_object:
        # Hosts get `{}` in the place of what is no object, and do so now.
        found = _cut(arguments, most)
    elif len(found) > _TOGETHER * most:
        found = _json({_ALL: _cut(arguments, most)})
    return min(arguments, found, key=len)


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
