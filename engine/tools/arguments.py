"""Arguments of a call: JSON text to an attrs instance, strictly, or a text which asks to rewrite them.

What is accepted is what the schema of the class says (`tools/schema.py`), and no
more: nothing is turned into something else, so that a text where a list of texts
belongs is an error and not a list of its letters. All that is wrong is told at
once, each with its place: the model then needs one more attempt and not five.
"""

from __future__ import annotations

import difflib
import enum
import json
import sys
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Annotated, Literal, NoReturn, TypeVar, Union

import attrs

from engine.errors import InvalidArguments
from engine.tools.schema import hints_of

MAX_ISSUES = 5
MAX_ISSUE_CHARS = 100
SHOWN_CHARS = 200

A = TypeVar("A", bound=attrs.AttrsInstance)


def parse(cls: type[A], arguments: str) -> A:
    """Return *arguments* as an instance of *cls*. Raises `InvalidArguments`, whose text is for the model."""
    try:
        # A call without arguments streams nothing at all at some hosts.
        value: object = json.loads(arguments or "{}", parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        shown = arguments[:SHOWN_CHARS]
        raise InvalidArguments(f"the arguments are not valid JSON ({error}). They begin with: {shown}") from error
    if not isinstance(value, dict):
        raise InvalidArguments(f"the arguments must be a JSON object, not {_name_of(value)}")
    return structure(cls, typing.cast("dict[str, object]", value))


def structure(cls: type[A], value: dict[str, object]) -> A:
    """Return a JSON object as an instance of *cls*. Raises `InvalidArguments`."""
    issues: list[_Issue] = []
    made = _read_object(cls, value, "", issues)
    if isinstance(made, cls):
        return made
    told = [issue.text[:MAX_ISSUE_CHARS] for issue in issues]
    more = f"\n(and {len(told) - MAX_ISSUES} more)" if len(told) > MAX_ISSUES else ""
    raise InvalidArguments("\n".join(told[:MAX_ISSUES]) + more) from next((i.cause for i in issues if i.cause), None)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


# -- reading -----------------------------------------------------------------------------


@attrs.frozen
class _Issue:
    """Something that is wrong: a text for the model, and the exception of the class, if it was that."""

    text: str
    cause: Exception | None = None


class _Wrong:
    """Stands for a value that could not be read."""


_WRONG = _Wrong()


@attrs.frozen
class _Field:
    name: str
    hint: object
    required: bool


@lru_cache(maxsize=512)
def _fields_of(cls: type[attrs.AttrsInstance]) -> Mapping[str, _Field]:
    hints = hints_of(cls)
    fields = [field for field in attrs.fields(cls) if field.init]
    return {
        name: _Field(name, hints[field.name], field.default is attrs.NOTHING)
        for field in fields
        for name in (field.alias or field.name,)
    }


def _read_object(cls: type[attrs.AttrsInstance], value: object, path: str, issues: list[_Issue]) -> object:
    if not isinstance(value, dict):
        return _mismatch("object", value, path, issues)
    given = typing.cast("dict[str, object]", value)
    fields = _fields_of(cls)
    before = len(issues)
    found: dict[str, object] = {}
    for name, field in fields.items():
        if name in given:
            found[name] = _read(field.hint, given[name], f"{path}.{name}" if path else name, issues)
        elif field.required:
            issues.append(_Issue(f"{path}.{name}: is required" if path else f"{name}: is required"))
    issues.extend(_Issue(_unknown(name, fields, path)) for name in given if name not in fields)
    if len(issues) > before:
        return _WRONG
    try:
        return cls(**found)
    except Exception as error:  # noqa: BLE001  # validators and converters are the tool author's
        issues.append(_Issue(f"{path}: {_said(error)}" if path else _said(error), error))
        return _WRONG


def _unknown(name: str, fields: Mapping[str, _Field], path: str) -> str:
    close = difflib.get_close_matches(name, fields, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(fields) or 'none'}"
    return f"{path}.{name}: no such field; {hint}" if path else f"{name}: no such field; {hint}"


def _said(error: Exception) -> str:
    """Return what a validator said; attrs' own carry the field and the value besides."""
    if error.args and isinstance(error.args[0], str):
        return error.args[0]
    return f"{type(error).__name__}: {error}"


def _read(hint: object, value: object, path: str, issues: list[_Issue]) -> object:
    """Return *value* as what *hint* says, or `_WRONG`, having added why to *issues*. It mirrors `schema._of`."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _read(args[0], value, path, issues)
    if origin in {Union, types.UnionType}:
        return _read_union(args, value, path, issues)
    if origin is Literal:
        return _read_choice({choice: choice for choice in args}, value, path, issues)
    if origin in {list, Sequence, tuple}:
        return _read_array(list if origin is list else tuple, args[0], value, path, issues)
    if origin in {dict, Mapping}:
        return _read_mapping(args[1], value, path, issues)
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return _read_choice({member.value: member for member in hint}, value, path, issues)
    if isinstance(hint, type) and attrs.has(hint):
        return _read_object(hint, value, path, issues)
    return _read_primitive(hint, value, path, issues)


def _read_primitive(hint: object, value: object, path: str, issues: list[_Issue]) -> object:
    if hint is float and type(value) is int and abs(value) <= sys.float_info.max:
        return float(value)
    if hint is int and type(value) is float and value.is_integer():
        return int(value)  # JSON knows one kind of number: 5.0 is an integer to a schema
    if type(value) is (types.NoneType if hint is None else hint):
        return value
    return _mismatch(_wanted(hint), value, path, issues)


def _read_choice(choices: Mapping[object, object], value: object, path: str, issues: list[_Issue]) -> object:
    for choice, meant in choices.items():
        if type(choice) is type(value) and choice == value:
            return meant
    shown = " or ".join(json.dumps(choice) for choice in choices)
    return _mismatch(shown, value, path, issues, got=json.dumps(value))


def _read_array(
    make: Callable[[list[object]], object], item: object, value: object, path: str, issues: list[_Issue]
) -> object:
    if not isinstance(value, list):
        return _mismatch("array", value, path, issues)
    before = len(issues)
    items = typing.cast("list[object]", value)
    found = [_read(item, one, f"{path}[{index}]", issues) for index, one in enumerate(items)]
    return _WRONG if len(issues) > before else make(found)


def _read_mapping(item: object, value: object, path: str, issues: list[_Issue]) -> object:
    if not isinstance(value, dict):
        return _mismatch("object", value, path, issues)
    before = len(issues)
    items = typing.cast("dict[str, object]", value).items()
    found = {name: _read(item, one, f"{path}.{name}", issues) for name, one in items}
    return _WRONG if len(issues) > before else found


def _read_union(members: Sequence[object], value: object, path: str, issues: list[_Issue]) -> object:
    nearest: list[_Issue] | None = None
    for member in members:
        found: list[_Issue] = []
        read = _read(member, value, path, found)
        if not found:
            return read
        if nearest is None and _wanted(member) == _name_of(value):
            nearest = found  # the right kind of value: say what is wrong inside it
    if nearest is None:
        return _mismatch(" or ".join(dict.fromkeys(map(_wanted, members))), value, path, issues)
    issues.extend(nearest)
    return _WRONG


def _mismatch(wanted: str, value: object, path: str, issues: list[_Issue], *, got: str | None = None) -> _Wrong:
    issues.append(_Issue(f"{path}: expected {wanted}, got {got or _name_of(value)}"))
    return _WRONG


# -- the words of a schema -----------------------------------------------------------------

_NAMES: dict[object, str] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    list: "array",
    dict: "object",
    types.NoneType: "null",
    None: "null",
}


def _name_of(value: object) -> str:
    return _NAMES.get(type(value), type(value).__name__)


def _wanted(hint: object) -> str:
    """Return the kind of JSON value that *hint* asks for, in a word."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _wanted(args[0])
    if hint in _NAMES:
        return _NAMES[hint]
    if origin is Literal:
        return " or ".join(json.dumps(choice) for choice in args)
    if origin in {list, Sequence, tuple}:
        return "array"
    if isinstance(hint, type) and issubclass(hint, enum.Enum):
        return " or ".join(json.dumps(member.value) for member in hint)
    return "object"
