"""Repairs a value by a JSON Schema where it can mean only one thing (T16); `core/coerce` does the same by a class. Pure."""

from __future__ import annotations

import json
import math
import re
from typing import Final, cast

from engine.core.errors import ConfigError
from engine.json_schema.keywords import TYPES, JsonValue
from engine.json_schema.parse_schema import JsonSchema

# At most 18 digits: no model means a larger number, and converting a very long one takes quadratic time.
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,18}")
_BOOLS: Final = {"true": True, "false": False}
_MAX_REFERENCES: Final = 8


def repair(schema: JsonSchema, value: dict[str, JsonValue]) -> tuple[dict[str, JsonValue], tuple[str, ...]]:
    """Return *value* repaired, and a note for each repair."""
    notes: list[str] = []
    return _members(schema, _resolved(schema, schema.root), value, "", notes), tuple(notes)


def _members(
    whole: JsonSchema, schema: dict[str, JsonValue], value: dict[str, JsonValue], path: str, notes: list[str]
) -> dict[str, JsonValue]:
    properties = schema.get("properties")
    required = schema.get("required")
    out = dict(value)
    for name, part in properties.items() if isinstance(properties, dict) else ():
        if name not in out:
            continue
        where = f"{path}.{name}" if path else name
        inner = _resolved(whole, part)
        is_required = isinstance(required, list) and name in required
        if out[name] is None and not is_required and _types(inner) and "null" not in _types(inner):
            notes.append(f"{where}: null was taken for leaving it out")
            del out[name]
        else:
            out[name] = _value(whole, inner, out[name], where, notes)
    return out


def _value(whole: JsonSchema, schema: dict[str, JsonValue], value: JsonValue, path: str, notes: list[str]) -> JsonValue:
    types = _types(schema)
    if types and not any(TYPES[name](value) for name in types):
        for name in types:
            if (mended := _converted(name, value)) is not None:
                notes.append(f"{path}: {_taken(name, value, mended)}")
                value = mended
                break
    if isinstance(value, dict):
        return _members(whole, schema, value, path, notes)
    if isinstance(value, list) and "items" in schema:
        inner = _resolved(whole, schema["items"])
        return [_value(whole, inner, item, f"{path}[{number}]", notes) for number, item in enumerate(value)]
    return value


def _converted(kind: str, value: JsonValue) -> JsonValue:
    """Return *value* as that type; None if it can't mean one."""
    if kind == "array":
        decoded = _decoded(value)
        if isinstance(decoded, list):
            return decoded
        return None if value is None else [value]
    if not isinstance(value, str):
        return None
    match kind:
        case "integer":
            return int(value) if _WHOLE.fullmatch(value.strip()) else None
        case "number":
            return _number(value)
        case "boolean":
            return _BOOLS.get(value.strip().lower())
        case "object":
            decoded = _decoded(value)
            return decoded if isinstance(decoded, dict) else None
        case _:
            return None


def _taken(kind: str, value: JsonValue, mended: JsonValue) -> str:
    if kind == "array" and mended == [value]:
        return "a single value was taken for a list of one"
    if kind in {"array", "object"}:
        return f"JSON text was taken for the {'list' if kind == 'array' else 'object'} in it"
    return f"the text {json.dumps(value)} was taken for {json.dumps(mended)}"


def _types(schema: dict[str, JsonValue]) -> list[str]:
    kind = schema.get("type")
    return cast("list[str]", kind if isinstance(kind, list) else [] if kind is None else [kind])


def _resolved(whole: JsonSchema, schema: JsonValue) -> dict[str, JsonValue]:
    for _ in range(_MAX_REFERENCES):
        if not isinstance(schema, dict) or not isinstance(reference := schema.get("$ref"), str):
            break
        try:
            schema = whole.resolve(reference)
        except ConfigError:
            break
    return schema if isinstance(schema, dict) else {}


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _decoded(value: JsonValue) -> JsonValue:
    if not isinstance(value, str) or value.lstrip()[:1] not in {"[", "{"}:
        return None
    try:
        return cast("JsonValue", json.loads(value))
    except (ValueError, RecursionError):
        return None
