"""Arguments of a call: JSON text to an attrs instance, strictly, or a text which asks to rewrite them.

cattrs does it, with hooks that accept what the schema of the class says
(`core/schema.py`), and no more: its default hooks would turn 5 into "5", and a text into the
list of its letters. All issues are reported at once, each with its place: the model then
needs one more attempt and not five. Errors with only one possible meaning are
repaired by `parse_kindly` (`core/coerce.py`), which reports what it repaired.
"""

from __future__ import annotations

import enum
import json
import sys
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Final, Literal, NoReturn, TypeVar, Union

import attrs
from cattrs import Converter
from cattrs.errors import BaseValidationError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn

from engine.core.coerce import coerce
from engine.core.errors import InvalidArguments
from engine.core.value_base import Value

MAX_ISSUES = 5
MAX_ISSUE_CHARS = 100
SHOWN_CHARS = 200
# After so many invalid items of an array, the rest is not checked: each error takes time, and the first five are shown.
_MOST_WRONG: Final = 100

A = TypeVar("A", bound=attrs.AttrsInstance)
Hook = Callable[[object, object], object]


@attrs.frozen
class Parsed(typing.Generic[A]):
    """Valid arguments, and the repairs that made them valid; *text* is their JSON after the repairs."""

    arguments: A
    text: str
    mended: tuple[str, ...] = ()


def parse(cls: type[A], arguments: str) -> A:
    """Return *arguments* as an instance of *cls*. Raises `InvalidArguments`, whose text is for the model."""
    return structure(cls, _loaded(arguments))


def parse_kindly(cls: type[A], arguments: str) -> Parsed[A]:
    """Return the same, after repairs where only one meaning is possible. Raises `InvalidArguments`."""
    value = _loaded(arguments)
    try:
        return Parsed(_converter.structure(value, cls), arguments)
    except Exception as error:  # noqa: BLE001  # validators and converters are the tool author's
        wrong = error
    mended, notes = coerce(cls, value)
    if notes:
        with suppress(Exception):
            return Parsed(_converter.structure(mended, cls), json.dumps(mended, ensure_ascii=False), notes)
    # The issues of the original, not of the repaired value, which the model has never seen.
    raise _invalid(wrong)


def structure(cls: type[A], value: dict[str, object]) -> A:
    """Return a JSON object as an instance of *cls*. Raises `InvalidArguments`."""
    try:
        return _converter.structure(value, cls)
    except Exception as error:  # noqa: BLE001  # validators and converters are the tool author's
        wrong = error
    raise _invalid(wrong)


def _invalid(error: Exception) -> InvalidArguments:
    """Return an error that lists all issues; its cause is the first exception that the class itself raised."""
    issues = list(_issues(error, ""))
    lines = [f"{issue.text}{issue.hint()}"[:MAX_ISSUE_CHARS] for issue in issues[:MAX_ISSUES]]
    more = f"\n(and {len(issues) - MAX_ISSUES} more)" if len(issues) > MAX_ISSUES else ""
    invalid = InvalidArguments("\n".join(lines) + more)
    invalid.__cause__ = next((issue.cause for issue in issues if issue.cause is not None), None)
    return invalid


def _loaded(arguments: str) -> dict[str, object]:
    try:
        # Some hosts send no text at all for a call without arguments.
        value: object = json.loads(arguments or "{}", parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        shown = arguments[:SHOWN_CHARS]
        raise InvalidArguments(f"the arguments are not valid JSON ({error}). They begin with: {shown}") from error
    if not isinstance(value, dict):
        raise InvalidArguments(f"the arguments must be a JSON object, not {_name_of(value)}")
    return typing.cast("dict[str, object]", value)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


# -- what is wrong -------------------------------------------------------------------------


@attrs.frozen(eq=False, repr=False)
class _Issue(Value):
    """One issue: a text for the model, and the exception of the class, if that was the cause.

    A *hint* takes time to compute, and there may be thousands of issues: it is computed for the ones that are shown.
    """

    text: str
    cause: BaseException | None = None
    hint: Callable[[], str] = str


class _Mismatch(Exception):  # it never leaves this module
    """A value has another type than the schema requires."""


class _Several(Exception):  # the same
    """Several items of an array or an object are invalid, each with its place."""

    def __init__(self, errors: list[tuple[str, Exception]]) -> None:
        super().__init__(errors)
        self.found = errors


def _issues(error: BaseException, path: str) -> Iterator[_Issue]:
    """Yield all issues in *error*, each with its place."""
    match error:
        case BaseValidationError():
            for inner in error.exceptions:
                name = _field_of(inner)
                yield from _issues(inner, path if name is None else _joined(path, name))
        case _Several():
            for place, inner in error.found:
                yield from _issues(inner, path + place)
        case ForbiddenExtraKeysError():
            yield from _extra_fields(error, path)
        case _Mismatch():
            yield _Issue(f"{path}: {error}")
        case KeyError() if _field_of(error) is not None:
            yield _Issue(f"{path}: is required")
        case _:
            yield _Issue(f"{path}: {_describe_value(error)}" if path else _describe_value(error), error)


def _extra_fields(error: ForbiddenExtraKeysError, path: str) -> Iterator[_Issue]:
    """Yield an issue for each field that the class does not have."""
    fields = [field.alias or field.name for field in attrs.fields(error.cl) if field.init]
    for name in sorted(error.extra_fields, key=str):
        # A model may write a name of any length; it is shown cut.
        shown = str(name)[:MAX_ISSUE_CHARS]
        yield _Issue(f"{_joined(path, shown)}: no such field; ", hint=partial(_hint, shown, fields))


def _field_of(error: BaseException) -> str | None:
    """Return the field that cattrs notes on an error of one."""
    for note in getattr(error, "__notes__", ()):
        name = getattr(note, "name", None)
        if isinstance(name, str):
            return name
    return None


def _joined(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _hint(name: str, fields: Sequence[str]) -> str:
    import difflib

    close = difflib.get_close_matches(name, fields, n=2, cutoff=0.6)
    return f"did you mean {' or '.join(close)}?" if close else f"there are: {', '.join(fields) or 'none'}"


def _describe_value(error: BaseException) -> str:
    """Return the message of a validator; the exceptions of attrs' own validators also hold the field and the value."""
    if error.args and isinstance(error.args[0], str):
        return error.args[0]
    return f"{type(error).__name__}: {error}"


# -- hooks -----------------------------------------------------------------------------------


def _make_converter() -> Converter:
    made = Converter(forbid_extra_keys=True, detailed_validation=True)
    for kind, hook in ((str, _exactly(str)), (bool, _exactly(bool)), (int, _whole), (float, _fraction)):
        made.register_structure_hook(kind, _for(kind, hook))
    made.register_structure_hook_func(lambda hint: hint in {None, types.NoneType}, _exactly(types.NoneType))
    # Later ones are asked first.
    for applies_to, make in (
        (attrs.has, _object_hook),
        (_of({dict, Mapping}), _mapping_hook),
        (_of({list, Sequence, tuple}), _array_hook),
        (_is_enum, _enum_hook),
        (_of({Literal}), _literal_hook),
        (_of({Union, types.UnionType}), _union_hook),
        (_of({Annotated}), _annotated_hook),
    ):
        made.register_structure_hook_factory(applies_to, make)
    return made


def _for(kind: type, hook: Hook) -> Hook:
    """Return *hook* for *kind* itself: cattrs asks it for an enumeration of texts or numbers as well."""

    def chosen(value: object, hint: object) -> object:
        return hook(value, hint) if hint is kind else _enum_hook(hint)(value, hint)

    return chosen


def _of(origins: set[object]) -> Callable[[object], bool]:
    return lambda hint: typing.get_origin(hint) in origins


def _hook_of(hint: object) -> Hook:
    return typing.cast("Hook", _converter.get_structure_hook(typing.cast("type", hint)))


def _is_enum(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, enum.Enum)


def _exactly(kind: type) -> Hook:
    def hook(value: object, _: object) -> object:
        return value if type(value) is kind else _mismatch(_type_name(kind), value)

    return hook


def _whole(value: object, _: object) -> object:
    if type(value) is float and value.is_integer():
        return int(value)  # JSON knows one kind of number: 5.0 is an integer to a schema
    return value if type(value) is int else _mismatch("integer", value)


def _fraction(value: object, _: object) -> object:
    if type(value) is int and abs(value) <= sys.float_info.max:
        return float(value)
    return value if type(value) is float else _mismatch("number", value)


def _annotated_hook(hint: object) -> Hook:
    inner = typing.get_args(hint)[0]
    hook = _hook_of(inner)
    return lambda value, _: hook(value, inner)


def _object_hook(cls: object) -> Hook:
    made = make_dict_structure_fn(typing.cast("type[object]", cls), _converter, _cattrs_use_alias=True)
    read = typing.cast("Hook", made)

    def hook(value: object, _: object) -> object:
        if not isinstance(value, dict):
            _mismatch("object", value)
        return read(typing.cast("dict[str, object]", value), cls)

    return hook


def _array_hook(hint: object) -> Hook:
    is_list = typing.get_origin(hint) is list
    inner = typing.get_args(hint)[0]
    read = _hook_of(inner)

    def hook(value: object, _: object) -> object:
        if not isinstance(value, list):
            _mismatch("array", value)
        items = enumerate(typing.cast("list[object]", value))
        items_read = _read_all(((f"[{number}]", item) for number, item in items), read, inner)
        return items_read if is_list else tuple(items_read)

    return hook


def _mapping_hook(hint: object) -> Hook:
    inner = typing.get_args(hint)[1]
    read = _hook_of(inner)

    def hook(value: object, _: object) -> object:
        if not isinstance(value, dict):
            _mismatch("object", value)
        mapping = typing.cast("dict[str, object]", value)
        items = _read_all(((f".{name}", item) for name, item in mapping.items()), read, inner)
        return dict(zip(mapping, items, strict=True))

    return hook


def _read_all(items: Iterable[tuple[str, object]], hook: Hook, hint: object) -> list[object]:
    """Read items with their places. Raises one error with the issues of all of them."""
    values: list[object] = []
    wrong: list[tuple[str, Exception]] = []
    for place, item in items:
        try:
            values.append(hook(item, hint))
        except Exception as error:  # noqa: BLE001  # validators are the tool author's; each error is reported with its place
            wrong.append((place, error))
            if len(wrong) == _MOST_WRONG:
                break
    if wrong:
        raise _Several(wrong)
    return values


def _enum_hook(hint: object) -> Hook:
    members = typing.cast("type[enum.Enum]", hint)
    return _choice_hook({member.value: member for member in members})


def _literal_hook(hint: object) -> Hook:
    return _choice_hook({choice: choice for choice in typing.get_args(hint)})


def _choice_hook(choices: Mapping[object, object]) -> Hook:
    shown = " or ".join(json.dumps(choice) for choice in choices)

    def hook(value: object, _: object) -> object:
        # Not a lookup: True == 1 == 1.0 in Python, but not in JSON.
        for choice, member in choices.items():
            if type(choice) is type(value) and choice == value:
                return member
        return _mismatch(shown, value, got=json.dumps(value))

    return hook


def _union_hook(hint: object) -> Hook:
    members = [(member, _hook_of(member)) for member in typing.get_args(hint)]
    expected = " or ".join(dict.fromkeys(_type_name(member) for member, _ in members))

    def hook(value: object, _: object) -> object:
        nearest: Exception | None = None
        for member, read in members:
            try:
                return read(value, member)
            except Exception as error:  # noqa: BLE001  # another member may fit
                if nearest is None and _type_name(member) == _name_of(value):
                    nearest = error  # the right type: its own error is more useful than "expected one of"
        if nearest is None:
            return _mismatch(expected, value)
        raise nearest

    return hook


def _mismatch(expected: str, value: object, *, got: str | None = None) -> NoReturn:
    raise _Mismatch(f"expected {expected}, got {got or _name_of(value)}")


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


def _type_name(hint: object) -> str:
    """Return the kind of JSON value that *hint* asks for, in a word."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _type_name(args[0])
    if hint in _NAMES:
        return _NAMES[hint]
    if origin is Literal:
        return " or ".join(json.dumps(choice) for choice in args)
    if origin in {list, Sequence, tuple}:
        return "array"
    if _is_enum(hint):
        return " or ".join(json.dumps(member.value) for member in typing.cast("type[enum.Enum]", hint))
    return "object"


_converter: Final = _make_converter()
