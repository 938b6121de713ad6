"""JSON schema from an attrs class, the same bytes each time."""

from __future__ import annotations

import enum
import json
import types
import typing
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Literal, TypeAlias, Union

import attrs

from engine.core.errors import ConfigError
from engine.core.value_base import Value

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"
Schema: TypeAlias = dict[str, Json]


@attrs.frozen(eq=False, repr=False)
class Doc(Value):
    """A field's description; put it into `Annotated`."""

    text: str


def doc(text: str) -> Doc:
    """Describe a field to the model: `query: Annotated[str, engine.doc("words to look for")]`."""
    return Doc(text)


_PRIMITIVES: dict[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


@lru_cache(maxsize=512)
def schema_of(cls: type[attrs.AttrsInstance]) -> str:
    """Return the JSON schema of an attrs class as JSON text. Raises `ConfigError` for a type it can't express."""
    try:
        return json.dumps(_object(cls), separators=(",", ":"))
    except RecursionError as error:
        raise ConfigError(f"{cls.__name__}: a tool's arguments can't hold themselves") from error


def _object(cls: type[attrs.AttrsInstance]) -> Schema:
    hints = hints_of(cls)
    properties: Schema = {}
    required: list[Json] = []
    for field in attrs.fields(cls):
        if not field.init:
            continue
        where = f"{cls.__name__}.{field.name}"
        schema = _of(hints[field.name], where)
        if field.default is attrs.NOTHING:
            required.append(field.alias or field.name)
        elif isinstance(field.default, (str, int, float, bool)):
            schema["default"] = field.default
        properties[field.alias or field.name] = schema
    out: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        out["required"] = required
    return out


@lru_cache(maxsize=512)
def hints_of(cls: type) -> Mapping[str, object]:
    """Return the resolved annotations of a class, `Annotated` kept."""
    try:
        return typing.get_type_hints(cls, include_extras=True)
    except NameError as error:
        raise ConfigError(f"can't resolve the annotations of {cls.__name__}: {error}") from error


def _of(hint: object, where: str) -> Schema:
    if typing.get_origin(hint) is Annotated:
        return _annotated(hint, where)
    if hint in _PRIMITIVES:
        return {"type": _PRIMITIVES[hint]}
    if hint is None or hint is type(None):
        return {"type": "null"}
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _enumerated([member.value for member in hint], where)
    if isinstance(hint, type) and attrs.has(hint):
        nested = _object(hint)
        if hint.__doc__ and not hint.__doc__.startswith("Method generated"):
            nested["description"] = " ".join(hint.__doc__.split())
        return nested
    return _generic(hint, where)


def _annotated(hint: object, where: str) -> Schema:
    """Return the schema of an annotated type; the last `Doc` describes it."""
    inner, *extras = typing.get_args(hint)
    schema = _of(inner, where)
    for extra in extras:
        if isinstance(extra, Doc):
            schema["description"] = extra.text
    return schema


def _generic(hint: object, where: str) -> Schema:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return _enumerated(list(args), where)
    if origin in {Union, types.UnionType}:
        return {"anyOf": [_of(arg, where) for arg in args]}
    if origin in {list, Sequence} or (origin is tuple and len(args) == 2 and args[1] is Ellipsis):
        return {"type": "array", "items": _of(args[0], where)}
    if origin in {dict, Mapping} and args[0] is str:
        return {"type": "object", "additionalProperties": _of(args[1], where)}
    raise ConfigError(f"{where}: a tool's arguments can't have the type {hint!r}")


def _enumerated(values: list[object], where: str) -> Schema:
    kinds = {_PRIMITIVES.get(type(value)) for value in values}
    if len(kinds) != 1 or None in kinds:
        raise ConfigError(f"{where}: choices must be all strings or all numbers, not {values!r}")
    return {"type": kinds.pop(), "enum": typing.cast("list[Json]", values)}
