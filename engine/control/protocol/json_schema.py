"""The schema of the protocol, from its classes: one document of JSON Schema 2020-12."""

from __future__ import annotations

import functools
import hashlib
import inspect
import re
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Final, Literal, NewType, get_args, get_origin

import attrs

from engine.control.protocol.bounds import Bounds
from engine.control.protocol.error_kinds import CLOSE_CODES, ERROR_KINDS
from engine.control.protocol.handshake import HIGHEST, LOWEST
from engine.control.protocol.method_table import CLIENT_NOTES, METHODS, SERVER_NOTES
from engine.control.protocol.wire_converter import MOST_ITEMS, Elided, Params
from engine.core.messages import Transcript
from engine.core.schema import Json, hints_of
from engine.journal.codec import PRESENT, Unknown
from engine.journal.json_converter import TAGS
from engine.journal.json_text import to_json_text

Node = dict[str, Json]

_PRIMITIVES: Final[Mapping[object, Node]] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    bool: {"type": "boolean"},
    # JSON has no NaN and no infinity.
    float: {"anyOf": [{"type": "number"}, {"enum": ["NaN", "Infinity", "-Infinity"]}]},
    type(None): {"type": "null"},
    object: {},
}


def protocol_schema() -> Node:
    """Return the whole schema: under `$defs` every class, under `x-` what JSON Schema has no words for."""
    maker = SchemaMaker()
    methods: Node = {}
    for method in METHODS.values():
        methods[method.name] = {
            "summary": method.summary,
            "params": maker.of(method.params),
            "result": maker.of(method.result),
            "role": method.role,
            "errors": list(method.errors),
        }
    notes: Node = {name: maker.of(kind) for name, kind in SERVER_NOTES.items()}
    client_notes: Node = {name: maker.of(kind) for name, kind in CLIENT_NOTES.items()}
    defs = dict(sorted(maker.defs.items()))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:engine:control:{HIGHEST}",
        "title": "The control protocol of the engine",
        "x-protocol": {"min": LOWEST, "max": HIGHEST},
        "x-methods": methods,
        "x-notifications": {"server": notes, "client": client_notes},
        "x-errors": {
            row.kind: {"code": row.code, "retry": row.retry, "facts": list(row.facts), "meaning": row.meaning}
            for row in ERROR_KINDS.values()
        },
        "x-close-codes": {str(row.code): {"meaning": row.meaning, "is_final": row.is_final} for row in CLOSE_CODES},
        "$defs": typing.cast("Json", defs),
    }


@functools.cache
def schema_text() -> str:
    """Return the schema as it is packaged and served."""
    return to_json_text(protocol_schema()) + "\n"


@functools.cache
def schema_digest() -> str:
    """Return the SHA-256 of `schema_text`: clients that have that schema know this server."""
    return hashlib.sha256(schema_text().encode()).hexdigest()


def event_versions() -> dict[str, int]:
    """Return the version of each type of document."""
    return {tag: PRESENT.version(tag) for tag in sorted(TAGS.values())}


def field_notes(kind: type) -> dict[str, str]:
    """Return what the docstring of a class and of its bases says of each field."""
    texts: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        _, _, listed = inspect.cleandoc(base.__dict__.get("__doc__") or "").partition("Attributes:\n")
        for names, text in re.findall(r"^ {4}(\w[\w, ]*): (.*(?:\n {8}.*)*)", listed, flags=re.MULTILINE):
            texts |= {name.strip(): " ".join(text.split()) for name in names.split(",")}
    return texts


def summary_of(kind: type) -> str:
    """Return the first line of a class's docstring, without what attrs writes there itself."""
    text = inspect.cleandoc(kind.__dict__.get("__doc__") or "").split("\n\n")[0]
    return "" if text.startswith("Method generated") else " ".join(text.split())


@attrs.define
class SchemaMaker:
    """Makes the schema of annotations; classes go to `defs`, once each.

    Attributes:
        defs: the classes so far, by name.
    """

    defs: dict[str, Json] = attrs.field(factory=dict[str, Json])

    def of(self, hint: object) -> Node:
        """Return the schema of an annotation."""
        if hint in _PRIMITIVES:
            return dict(_PRIMITIVES[hint])
        if isinstance(hint, NewType):
            return self.of(hint.__supertype__)
        if hint is Transcript:
            from engine.core.messages import Message

            return {"type": "array", "items": self.of(Message)}
        if isinstance(hint, type) and attrs.has(hint):
            return self._reference(hint)
        return self._generic(hint)

    def _generic(self, hint: object) -> Node:
        origin, args = get_origin(hint), get_args(hint)
        if origin is Annotated:
            return self.of(args[0]) | _limits(args[1:], is_text=args[0] is str)
        if origin is Literal:
            return {"enum": list(args)}
        if origin in {typing.Union, types.UnionType}:
            return {"anyOf": [self.of(arg) for arg in args]}
        if origin is tuple and args[1:] == (Ellipsis,):
            return {"type": "array", "items": self.of(args[0])}
        if origin is tuple:
            return {"type": "array", "prefixItems": [self.of(arg) for arg in args], "items": False}
        if origin in {dict, Mapping}:
            return {"type": "object", "additionalProperties": self.of(args[1])}
        raise TypeError(f"the schema has no words for {hint!r}")

    def _reference(self, kind: type[attrs.AttrsInstance]) -> Node:
        name = kind.__name__
        if name not in self.defs:
            self.defs[name] = {}  # it may hold itself
            self.defs[name] = self._class(kind)
        return {"$ref": f"#/$defs/{name}"}

    def _class(self, kind: type[attrs.AttrsInstance]) -> Node:
        if kind is Unknown:
            return {
                "description": "An event of a newer server.",
                "type": "object",
                "properties": {"type": {"type": "string"}, "v": {"type": "integer"}},
                "required": ["type", "v"],
            }
        properties: Node = {}
        required: list[Json] = []
        tag = "elided" if kind is Elided else TAGS.get(kind)
        if tag is not None:
            properties["type"] = {"const": tag}
            required.append("type")
        if kind in TAGS:
            properties["v"] = {"type": "integer", "description": "Where it is not a part of another document."}
        hints, notes = hints_of(kind), field_notes(kind)
        for field in attrs.fields(kind):
            node = self.of(hints[field.name])
            properties[field.name] = node | {"description": notes[field.name]} if field.name in notes else node
            if field.default is attrs.NOTHING or not issubclass(kind, Params):
                required.append(field.name)
        out: Node = {"type": "object", "properties": properties}
        if required:
            out["required"] = required
        if issubclass(kind, Params):
            _close(out)
        if summary := summary_of(kind):
            out["description"] = summary
        return out


def _close(node: Node) -> None:
    """Add what is checked of params only: unknown fields, and how long lists are."""
    node["additionalProperties"] = False
    for inner in typing.cast("dict[str, Node]", node["properties"]).values():
        if inner.get("type") == "array":
            inner["maxItems"] = MOST_ITEMS


def _limits(extras: tuple[object, ...], *, is_text: bool) -> Node:
    out: Node = {}
    for extra in extras:
        if isinstance(extra, Bounds):
            low, high = ("minLength", "maxLength") if is_text else ("minimum", "maximum")
            out |= {low: _number(extra.least), high: _number(extra.most)}
            if extra.pattern:
                out["pattern"] = f"^{extra.pattern}$"
    return out


def _number(value: float) -> Json:
    return int(value) if value == int(value) else value
