"""Closed schemas for hosts that constrain decoding (`strict`).

OpenAI's hosts enforce a schema token by token only if every object lists all its properties and requires them. A
schema that is nearly so is closed here. One with optional properties cannot be closed without changing its meaning:
the host then treats it as a hint.
"""

from __future__ import annotations

from engine.providers.wire.untrusted_json import Json, as_list, as_object

_TYPE_KEYWORDS = frozenset({"type", "enum", "const", "anyOf", "$ref"})
_SUPPORTED = _TYPE_KEYWORDS | {
    "properties",
    "required",
    "additionalProperties",
    "items",
    "$defs",
    "title",
    "description",
}
_MAX_DEPTH = 10


def close_schema(schema: Json) -> Json | None:
    """Return *schema* closed for strict mode; None if that would change its meaning."""
    try:
        return _close(schema, 0) if schema.get("type") == "object" else None
    except ValueError:
        return None


def _close(schema: Json, depth: int) -> Json:
    if depth > _MAX_DEPTH or not _SUPPORTED.issuperset(schema) or _TYPE_KEYWORDS.isdisjoint(schema):
        raise ValueError("not supported in strict mode")
    out = dict(schema)
    if "properties" in schema or "object" in (schema.get("type"), *as_list(schema.get("type"))):
        out |= {"properties": {}, "required": _closed_names(schema), "additionalProperties": False}
    for word in ("properties", "$defs"):
        if word in schema:
            out[word] = {name: _close(as_object(each), depth + 1) for name, each in as_object(schema[word]).items()}
    if "anyOf" in schema:
        out["anyOf"] = [_close(as_object(each), depth + 1) for each in as_list(schema["anyOf"])]
    if "items" in schema:
        out["items"] = _close(as_object(schema["items"]), depth + 1)
    return out


def _closed_names(schema: Json) -> list[str]:
    """Return the properties of an object; raise `ValueError` if it allows others, or one of them is optional."""
    names = list(as_object(schema.get("properties")))
    # An object without `additionalProperties` can be closed.
    if {*as_list(schema.get("required"))} != {*names} or schema.get("additionalProperties", False) is not False:
        raise ValueError("an object with optional or additional properties")
    return names
