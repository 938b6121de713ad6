"""Members that a user, or a row of the table of hosts, adds to every request body."""

from __future__ import annotations

from engine.core.errors import ConfigError
from engine.providers.wire.quirks import Quirks
from engine.providers.wire.untrusted_json import Json, as_list, is_object, loads


def parse_extra_body(quirks: Quirks, *reserved: str) -> Json:
    """Parse `extra_body`. Raises `ConfigError` if it is not a JSON object or has a member in *reserved*."""
    if not quirks.extra_body:
        return {}
    try:
        extra = loads(quirks.extra_body)
    except ValueError as error:
        raise ConfigError(f"extra_body is not valid JSON: {error}") from error
    if not is_object(extra) or not extra.keys().isdisjoint(reserved):
        raise ConfigError(f"extra_body must be a JSON object without {' or '.join(map(repr, reserved))}")
    return extra


def merge_json(own: Json, extra: Json) -> Json:
    """Merge *extra* into *own*: objects recursively, lists by concatenation; else *extra* wins."""
    out = dict(own)
    for name, value in extra.items():
        mine: object = out.get(name)
        if is_object(mine) and is_object(value):
            out[name] = merge_json(mine, value)
        elif as_list(mine) and as_list(value):
            out[name] = [*as_list(mine), *as_list(value)]
        else:
            out[name] = value
    return out
