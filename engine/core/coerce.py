"""Repairs a call's arguments (T16) where they can mean only one thing.

A number in quotes, a list or an object as JSON text, a single value instead of a list,
null for an optional field. Each repair is noted. Nothing else is guessed: the model gets
the other errors back and corrects them itself.
"""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Union, cast

import attrs

from engine.core.lazy import regex
from engine.core.schema import hints_of

# At most 18 digits: no model means a larger number, and converting a very long one takes quadratic time.
_WHOLE = regex(r"[+-]?[0-9]{1,18}")
_BOOLS = {"true": True, "false": False}


def coerce(cls: type[attrs.AttrsInstance], value: dict[str, object]) -> tuple[dict[str, object], tuple[str, ...]]:
    """Return *value* repaired, and a note for each repair."""
    notes: list[str] = []
    return _object(cls, value, "", notes), tuple(notes)


def _object(cls: type[attrs.AttrsInstance], value: dict[str, object], path: str, notes: list[str]) -> dict[str, object]:
    hints = hints_of(cls)
    out = dict(value)
    for field in attrs.fields(cls):
        name = field.alias or field.name
        if not field.init or name not in out:
            continue
        where = f"{path}.{name}" if path else name
        hint = hints[field.name]
        if out[name] is None and field.default is not attrs.NOTHING and not _takes_null(hint):
            notes.append(f"{where}: null was taken for leaving it out")
            del out[name]
        else:
            out[name] = _value(hint, out[name], where, notes)
    return out


def _value(hint: object, value: object, path: str, notes: list[str]) -> object:
    if isinstance(hint, type) and hint in _KINDS:  # first, since most fields are, and this check is the fastest
        return _primitive(hint, value, path, notes)
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _value(args[0], value, path, notes)
    if origin in {Union, types.UnionType}:
        return _union(args, value, path, notes)
    if origin in {list, Sequence, tuple}:
        return _array(args[0], value, path, notes)
    if origin in {dict, Mapping} or (isinstance(hint, type) and attrs.has(hint)):
        return _nested(hint, value, path, notes)
    return _primitive(hint, value, path, notes)


def _primitive(hint: object, value: object, path: str, notes: list[str]) -> object:
    if hint is str or not isinstance(value, str):
        return value
    coerced: object = None
    if hint is int and _WHOLE.fullmatch(value.strip()):
        coerced = int(value)
    elif hint is float:
        coerced = _number(value)
    elif hint is bool:
        coerced = _BOOLS.get(value.strip().lower())
    if coerced is None:
        return value
    notes.append(f"{path}: the text {json.dumps(value)} was taken for {json.dumps(coerced)}")
    return coerced


def _array(item: object, value: object, path: str, notes: list[str]) -> object:
    if isinstance(value, str) and isinstance(decoded := _decoded(value), list):
        notes.append(f"{path}: JSON text was taken for the list in it")
        value = cast("object", decoded)
    if value is None:
        return value
    if not isinstance(value, list):
        notes.append(f"{path}: a single value was taken for a list of one")
        value = [value]
    items = cast("list[object]", value)
    return [_value(item, one, f"{path}[{number}]", notes) for number, one in enumerate(items)]


def _nested(hint: object, value: object, path: str, notes: list[str]) -> object:
    if isinstance(value, str) and isinstance(decoded := _decoded(value), dict):
        notes.append(f"{path}: JSON text was taken for the object in it")
        value = cast("object", decoded)
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, object]", value)
    if isinstance(hint, type) and attrs.has(hint):
        return _object(hint, fields, path, notes)
    inner = typing.get_args(hint)[1]
    return {name: _value(inner, one, f"{path}.{name}", notes) for name, one in fields.items()}


def _union(members: Sequence[object], value: object, path: str, notes: list[str]) -> object:
    """Repair *value* for the first member for which that helps, unless a member takes it unchanged."""
    if any(_takes(member, value) for member in members):
        return value
    for member in members:
        own_notes: list[str] = []
        mended = _value(member, value, path, own_notes)
        if own_notes and _takes(member, mended):
            notes += own_notes
            return mended
    return value


_KINDS: dict[object, tuple[type, ...]] = {str: (str,), int: (int,), float: (int, float), bool: (bool,)}


def _takes(hint: object, value: object) -> bool:
    """Tell whether *value* has the type that *hint* requires; its items are not checked here."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _takes(args[0], value)
    if hint is None or hint is types.NoneType:
        return value is None
    if hint in _KINDS:
        return isinstance(value, _KINDS[hint]) and (
            hint is bool or not isinstance(value, bool)
        )  # a bool is an int in Python
    if origin in {list, Sequence, tuple}:
        return isinstance(value, list)
    if origin in {dict, Mapping} or (isinstance(hint, type) and attrs.has(hint)):
        return isinstance(value, dict)
    return isinstance(value, (str, int, float))  # choices


def _takes_null(hint: object) -> bool:
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _takes_null(args[0])
    if origin in {Union, types.UnionType}:
        return any(_takes_null(member) for member in args)
    return hint is None or hint is types.NoneType


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _decoded(text: str) -> object:
    if text.lstrip()[:1] not in {"[", "{"}:
        return None
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return None
