"""The schema as TypeScript declarations, for the page's client."""

from __future__ import annotations

from typing import cast

from engine.core.events import DURABLE_TYPES, LIVE_TYPES
from engine.core.schema import Json
from engine.journal.json_text import to_json_text

Node = dict[str, Json]

_HEAD = """\
// Written by `make surface` from the classes of engine/control/protocol: change those.

/** A number that JSON doesn't have comes as a text. */
export type Float = number | "NaN" | "Infinity" | "-Infinity";
export type RetryAdvice = "no" | "later" | "same_key";
export type Role = "read" | "answer" | "full";
"""
_NAMES = {"string": "string", "integer": "number", "number": "number", "boolean": "boolean", "null": "null"}


def declarations(schema: Node) -> str:
    """Return the text of the `.d.ts` file."""
    parts = [_HEAD]
    parts.append(_unions(schema))
    for name, node in _object(schema, "$defs").items():
        parts.append(_interface(name, cast("Node", node)))
    rows = [
        f"  {to_json_text(name)}: {{ params: {type_text(_object(_object(schema, 'x-methods'), name)['params'])};"
        f" result: {type_text(_object(_object(schema, 'x-methods'), name)['result'])} }};\n"
        for name in _object(schema, "x-methods")
    ]
    parts.append(f"export interface Methods {{\n{''.join(rows)}}}\n")
    for side, title in (("server", "ServerNotifications"), ("client", "ClientNotifications")):
        notes = _object(_object(schema, "x-notifications"), side)
        lines = [f"  {to_json_text(name)}: {type_text(node)};\n" for name, node in notes.items()]
        parts.append(f"export interface {title} {{\n{''.join(lines)}}}\n")
    return "\n".join(parts)


def _unions(schema: Node) -> str:
    """Return what has no class of its own: events of all kinds, errors, close codes."""
    errors = _object(schema, "x-errors")
    lines = [
        f"export type DurableEvent = {' | '.join(kind.__name__ for kind in DURABLE_TYPES)};",
        f"export type LiveEvent = {' | '.join(kind.__name__ for kind in LIVE_TYPES)};",
        "/** An event, by its `type`. */",
        "export type Event = DurableEvent | LiveEvent;",
        f"export type CloseCode = {' | '.join(_object(schema, 'x-close-codes'))};",
        "/** The `data` of an error, by its `kind`; `error` names the engine's class where there is one. */",
        f"export type ErrorData =\n{chr(10).join(_error_data(kind, cast('Node', row)) for kind, row in errors.items())};",
        'export type ErrorKind = ErrorData["kind"];',
    ]
    return "\n".join(lines) + "\n"


def _error_data(kind: str, row: Node) -> str:
    facts = "".join(f" {fact}?: unknown;" for fact in cast("list[str]", row["facts"]))
    meaning = str(row["meaning"]).replace("*/", "* /")
    return f"  /** {meaning} */\n  | {{ kind: {to_json_text(kind)}; retry: RetryAdvice; error?: string;{facts} }}"


def _object(node: Node, name: str) -> Node:
    return cast("Node", node[name])


def _interface(name: str, node: Node) -> str:
    required = cast("list[str]", node.get("required", []))
    lines: list[str] = []
    for field, inner in _object(node, "properties").items():
        if text := cast("Node", inner).get("description"):
            lines.append(f"  /** {str(text).replace('*/', '* /')} */\n")
        lines.append(f"  {field}{'' if field in required else '?'}: {type_text(inner)};\n")
    head = f"/** {str(node['description']).replace('*/', '* /')} */\n" if "description" in node else ""
    return f"{head}export interface {name} {{\n{''.join(lines)}}}\n"


def type_text(node: Json) -> str:
    """Return the type that a schema describes."""
    match node:
        case {"$ref": str() as target}:
            return target.rpartition("/")[2]
        case {"const": value}:
            return to_json_text(value)
        case {"enum": list() as values}:
            return " | ".join(map(to_json_text, values))
        case {"anyOf": [{"type": "number"}, {"enum": ["NaN", *_]}]}:
            return "Float"
        case {"anyOf": list() as members}:
            return " | ".join(map(type_text, members))
        case {"type": "array", "prefixItems": list() as members}:
            return f"[{', '.join(map(type_text, members))}]"
        case {"type": "array", "items": items}:
            return f"({inner})[]" if " " in (inner := type_text(items)) else f"{inner}[]"
        case {"type": "object", "additionalProperties": items}:
            return f"{{ [name: string]: {type_text(items)} }}"
        case {"type": str() as name}:
            return _NAMES[name]
        case _:
            return "unknown"
