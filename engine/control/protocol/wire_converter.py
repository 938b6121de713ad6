"""Between the classes of the protocol and JSON, by cattrs: strict for what clients send, tolerant for what they get.

A client's typing error must not pass, so an unknown field is refused, and the nearest one is named. A server may
be newer than its client, so the client ignores fields that it does not know.

A value of the engine that has a tag (an event, a message, a status, a state) is the document of `journal/codec`, unchanged.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeVar, cast, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.errors import (
    AttributeValidationNote,
    BaseValidationError,
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
)
from cattrs.gen import make_dict_unstructure_fn

from engine.control.protocol.bounds import Bounds
from engine.core.errors import JournalCorrupt
from engine.core.schema import Json
from engine.journal.codec import Unknown, document_of, read_document
from engine.journal.json_converter import TAGS, is_tagged_union, make_converter
from engine.journal.json_text import to_json_text

_NAME_CHARS: Final = 100
# Of one field of params. An error in each of a million items would be reported by a million exceptions.
MOST_ITEMS: Final = 1000

T = TypeVar("T")
Reader = Callable[[Any, Any], Any]


@attrs.frozen
class Elided:
    """In place of an event that is larger than the subscriber wants.

    Attributes:
        of: the event's type.
        seq: its number; None: it is live.
        bytes: its size.
        href: where to read it, relative to the server's address.
    """

    of: str
    seq: int | None
    bytes: int
    href: str


@attrs.frozen(kw_only=True)
class Params:
    """The base of what clients send; a field that has its default is left out."""


@attrs.frozen
class BadParams(Exception):  # it becomes an answer
    """Something in the JSON does not fit its class.

    Attributes:
        path: where it is: `attachments[0].data`.
        problem: what is wrong with it.
        nearest: a name that may have been meant; empty: there is none.
    """

    path: str
    problem: str
    nearest: str = ""

    def __str__(self) -> str:
        hint = f"; did you mean {self.nearest}?" if self.nearest else ""
        return f"{self.path}: {self.problem}{hint}" if self.path else f"{self.problem}{hint}"


# -- the converters ----------------------------------------------------------------------


def _document_reader(kind: Any, converter: Converter) -> Reader:
    allowed = _kinds_in(kind)

    def read(value: Any, _: object) -> Any:
        if value is None and type(None) in allowed:
            return None
        if type(value) is not dict:
            raise ValueError(f"expected an object, got {type(value).__name__}")
        document = cast("dict[str, Any]", value)
        if Elided in allowed and document.get("type") == "elided":
            return converter.structure({name: item for name, item in document.items() if name != "type"}, Elided)
        try:
            event = read_document(document)
        except JournalCorrupt as error:
            raise ValueError(str(error)) from error
        # A type that this version can't know is kept as it is, where any may come.
        if type(event) not in allowed:
            raise ValueError(f"unexpected type {document['type']!r}")
        return event

    return read


def _kinds_in(kind: Any) -> frozenset[Any]:
    return frozenset(get_args(kind) or (kind,))


def _is_document(kind: Any) -> bool:
    return kind in TAGS or is_tagged_union(kind) or (Elided in get_args(kind) and Unknown in get_args(kind))


def _is_bounded(kind: Any) -> bool:
    return get_origin(kind) is Annotated and any(isinstance(extra, Bounds) for extra in get_args(kind)[1:])


def _bounded_reader(kind: Any, converter: Converter) -> Reader:
    inner, *extras = get_args(kind)
    read_inner = converter.get_structure_hook(inner)
    bounds = [extra for extra in extras if isinstance(extra, Bounds)]

    def read(value: Any, _: object) -> Any:
        read_value = read_inner(value, inner)
        for bound in bounds:
            bound.check(read_value)
        return read_value

    return read


def _optional_reader(kind: Any, converter: Converter) -> Reader:
    (inner,) = [arg for arg in get_args(kind) if arg is not type(None)]
    read_inner = converter.get_structure_hook(inner)
    return lambda value, _: None if value is None else read_inner(value, inner)


def _is_optional(kind: Any) -> bool:
    return not _is_document(kind) and type(None) in get_args(kind) and len(get_args(kind)) == 2


def _text_or_number(value: Any, _: object) -> str | int:
    if type(value) not in {str, int}:
        raise ValueError(f"expected a text or a whole number, got {type(value).__name__}")
    return cast("str | int", value)


def _write_elided(value: Elided) -> dict[str, Json]:
    return {"type": "elided", **attrs.asdict(value)}


def _write_unknown(value: Unknown) -> object:
    return cast("object", json.loads(value.raw))


def _make(*, strict: bool) -> Converter:
    made = make_converter(strict=strict)
    made.register_structure_hook_factory(_is_optional, _optional_reader)
    made.register_structure_hook_factory(_is_bounded, _bounded_reader)
    made.register_structure_hook_func(lambda kind: kind is object, lambda value, _: value)
    made.register_structure_hook_func(lambda kind: kind == str | int, _text_or_number)
    made.register_structure_hook_factory(_is_document, _document_reader)
    made.register_unstructure_hook_func(lambda kind: kind in TAGS, document_of)
    made.register_unstructure_hook_factory(
        lambda kind: isinstance(kind, type) and issubclass(kind, Params),
        lambda kind, converter: make_dict_unstructure_fn(kind, converter, _cattrs_omit_if_default=True),
    )
    made.register_unstructure_hook(Elided, _write_elided)
    made.register_unstructure_hook(Unknown, _write_unknown)
    return made


_STRICT: Final = _make(strict=True)
_TOLERANT: Final = _make(strict=False)


# -- to JSON and back --------------------------------------------------------------------


def write_value(value: object) -> str:
    """Return a value of the protocol as JSON text."""
    return to_json_text(_STRICT.unstructure(value))


def to_json(value: object) -> Json:
    """Return a value of the protocol as JSON."""
    return cast("Json", _STRICT.unstructure(value))


def read_params(value: Json, kind: type[T]) -> T:
    """Return what a client sent; None stands for no params at all. Raises `BadParams`."""
    for name, item in value.items() if isinstance(value, dict) else ():
        if isinstance(item, list) and len(item) > MOST_ITEMS:
            raise BadParams(name[:_NAME_CHARS], f"expected at most {MOST_ITEMS} items")
    return read_with(_STRICT, {} if value is None else value, kind)


def read_received(value: Json, kind: type[T]) -> T:
    """Return what a server sent, which may be newer: unknown fields are ignored. Raises `BadParams`."""
    return read_with(_TOLERANT, value, kind)


def read_with(converter: Converter, value: Json, kind: type[T]) -> T:
    """Return an object of JSON as a value, read by that converter. Raises `BadParams`."""
    if not isinstance(value, dict):
        raise BadParams("", "expected an object")
    try:
        return converter.structure(value, kind)
    except (BaseValidationError, ValueError, TypeError, KeyError) as error:
        raise _described(error, "") from error


def _described(error: BaseException, path: str) -> BadParams:
    """Return the first problem in what cattrs reports, with its place."""
    match error:
        case ClassValidationError():
            noted, others = error.group_exceptions()
            if others:
                return _described(others[0], path)
            first, note = noted[0]
            return _described(first, _joined(path, note))
        case IterableValidationError():
            noted_items, other_items = error.group_exceptions()
            if other_items:
                return _described(other_items[0], path)
            first, item_note = noted_items[0]
            return _described(first, f"{path}[{item_note.index}]")
        case ForbiddenExtraKeysError():
            # Cut, since a name may be as long as a message, and is compared with others.
            name = min(error.extra_fields)[:_NAME_CHARS]
            names = [field.name for field in attrs.fields(cast("type[attrs.AttrsInstance]", error.cl))]
            nearest = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
            return BadParams(f"{path}.{name}".lstrip("."), "there is no such field", "".join(nearest))
        case KeyError():
            return BadParams(path, "the field is missing")
        case _:
            return BadParams(path, str(error)[:200])


def _joined(path: str, note: AttributeValidationNote) -> str:
    return f"{path}.{note.name}".lstrip(".")
