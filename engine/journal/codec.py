"""JSON of events, messages and state, for the store and for the wire: the same text in both places.

Every document is an object that begins with its `type`, from a closed set, and the
version `v` of its shape:

    {"type":"call_started","v":1,"session_id":"s1",…,"seq":7,"call_id":"c1"}

Inside a document, every member of a union (a part, a message, a status) carries its
`type` too; the version of the document covers all that it holds. A document of an
older version is lifted to the present one, step by step, by the *upcasters*, as soon
as it is read; so the rest of the engine knows one shape of each event only.

Reading is strict. What is not JSON, has an unknown type, a wrong or missing field or
one too many is a `JournalCorrupt`. A client that may be older than its server uses
`decode_received` instead: it ignores fields that it can't know, and hands on the rest as `Unknown`.

Equal values give equal bytes. They are ASCII, so that any text survives: control
characters, and surrogates without their partner, which providers do send. (A pair of
surrogates comes back as the one character it stands for.) Numbers that JSON doesn't
have are the strings "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import json
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final, NoReturn, TypeAlias, get_args

import attrs
from cattrs import transform_error
from cattrs.errors import BaseValidationError, ForbiddenExtraKeysError

from engine.core.errors import JournalCorrupt
from engine.core.events import DURABLE_TYPES, LIVE_TYPES, Durable, Live
from engine.core.messages import Message
from engine.core.value_base import Value
from engine.journal.json_converter import SHOWN_CHARS, TAGS, Json, UnknownWord, reader_of, writer_of
from engine.journal.json_text import to_json_text
from engine.journal.state import Resync, SessionState, Status

Upcaster: TypeAlias = Callable[[Json], Json]

_EVENTS: Final = {TAGS[kind]: kind for kind in (*DURABLE_TYPES, *LIVE_TYPES)}
_MESSAGES: Final = {TAGS[kind]: kind for kind in get_args(Message)}
_STATUSES: Final = {TAGS[kind]: kind for kind in get_args(Status)}
_RECEIVED: Final = {**_EVENTS, TAGS[Resync]: Resync}
_DOCUMENTS: Final = {**_RECEIVED, **_MESSAGES, **_STATUSES, TAGS[SessionState]: SessionState}


@attrs.frozen(eq=False, repr=False)
class Schema(Value):
    """Which versions there are, and how to get from one to the next.

    Attributes:
        versions: of each type, by its tag; one that is not named is at 1.
        upcasters: by tag and version, a function that takes the document as it was
            in that version and returns it as it is in the next. It may change the `type`.
    """

    versions: Mapping[str, int] = attrs.field(factory=dict[str, int])
    upcasters: Mapping[tuple[str, int], Upcaster] = attrs.field(factory=dict[tuple[str, int], Upcaster])

    def version(self, tag: str) -> int:
        """Return the present version of a type."""
        return self.versions.get(tag, 1)

    def lifted(self, document: Json) -> Json:
        """Return *document* in the newest shape that the upcasters lead to. Raises `JournalCorrupt`."""
        while True:
            tag, version = document["type"], document["v"]
            upcaster = self.upcasters.get((tag, version))
            if upcaster is None:
                return document
            try:
                document = {**upcaster(document), "v": version + 1}
            except (LookupError, TypeError, ValueError, AttributeError) as error:
                raise JournalCorrupt(f"{tag} can't be lifted from version {version}: {error!r}") from error


PRESENT: Final = Schema()


@attrs.frozen(eq=False, repr=False)
class Unknown(Value):
    """Something that this version can't know: a new type, or a newer version of one. `raw` is all of it."""

    type: str
    raw: str


# -- the documents -----------------------------------------------------------------------


def encode_event(event: Durable | Live, *, schema: Schema = PRESENT) -> str:
    """Return *event* as JSON text."""
    return _encode(event, schema)


def decode_event(text: str | bytes, *, schema: Schema = PRESENT) -> Durable | Live:
    """Return the event that *text* holds. Raises `JournalCorrupt`."""
    return typing.cast("Durable | Live", _decode(text, _EVENTS, schema))


def decode_received(text: str | bytes, *, schema: Schema = PRESENT) -> Durable | Live | Resync | Unknown:
    """Return what a server sent to a client that may be older than itself.

    Fields that are not known here are ignored, at every depth. A newer version is read as the newest one that is
    known, if it fits. What has an unknown type, or an unknown word in a fixed set of them, is `Unknown`.

    Raises `JournalCorrupt` for what no server sends: no JSON, no type, or a known version that lacks a field or has a
    wrong one.
    """
    return typing.cast("Durable | Live | Resync | Unknown", _received(_document(text), _RECEIVED, schema))


def read_document(document: Json, *, schema: Schema = PRESENT) -> object:
    """Return the event, message, status or state in a document that a server sent: see `decode_received`."""
    return _received(_checked(document), _DOCUMENTS, schema)


def encode_message(message: Message) -> str:
    """Return *message* as JSON text."""
    return _encode(message, PRESENT)


def decode_message(text: str | bytes, *, schema: Schema = PRESENT) -> Message:
    """Return the message that *text* holds. Raises `JournalCorrupt`."""
    return typing.cast("Message", _decode(text, _MESSAGES, schema))


def encode_status(status: Status) -> str:
    """Return *status* as JSON text."""
    return _encode(status, PRESENT)


def decode_status(text: str | bytes, *, schema: Schema = PRESENT) -> Status:
    """Return the status that *text* holds. Raises `JournalCorrupt`."""
    return typing.cast("Status", _decode(text, _STATUSES, schema))


def encode_state(state: SessionState) -> str:
    """Return *state* as JSON text."""
    return _encode(state, PRESENT)


def decode_state(text: str | bytes, *, schema: Schema = PRESENT) -> SessionState:
    """Return the state that *text* holds. Raises `JournalCorrupt`."""
    return typing.cast("SessionState", _decode(text, {TAGS[SessionState]: SessionState}, schema))


def encode_resync(resync: Resync) -> str:
    """Return *resync* as JSON text."""
    return _encode(resync, PRESENT)


def decode_resync(text: str | bytes, *, schema: Schema = PRESENT) -> Resync:
    """Return the resync that *text* holds. Raises `JournalCorrupt`."""
    return typing.cast("Resync", _decode(text, {TAGS[Resync]: Resync}, schema))


# -- writing -----------------------------------------------------------------------------


def _encode(value: object, schema: Schema) -> str:
    return to_json_text(document_of(value, schema=schema))


def document_of(value: object, *, schema: Schema = PRESENT) -> Json:
    """Return what the JSON text of an event, a message, a status or a state holds."""
    kind: Any = type(value)  # Any, since mypy considers a type[object] unhashable
    tag = TAGS.get(kind)
    if tag is None:
        raise TypeError(f"there is no JSON of a {kind.__name__}")
    return {"type": tag, "v": schema.version(tag), **writer_of(kind)(value)}


# -- reading -----------------------------------------------------------------------------


def _decode(text: str | bytes, kinds: Mapping[str, type], schema: Schema) -> object:
    return _structured(schema.lifted(_document(text)), kinds, schema)


def _document(text: str | bytes) -> Json:
    try:
        parsed: object = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise JournalCorrupt(f"this is not JSON ({error}): {_shown(text)}") from error
    if not isinstance(parsed, dict):
        raise JournalCorrupt(f"this is no JSON object: {_shown(text)}")
    return _checked(typing.cast("Json", parsed))


def _checked(document: Json) -> Json:
    tag, version = document.get("type"), document.get("v")
    if type(tag) is not str or type(version) is not int or version < 1:
        raise JournalCorrupt(f"this has no type and version: {_shown(str(document))}")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _received(document: Json, kinds: Mapping[str, type], schema: Schema) -> object:
    document = schema.lifted(document)
    tag = document["type"]
    if tag not in kinds:
        return Unknown(type=tag, raw=to_json_text(document))
    is_newer = document["v"] > schema.version(tag)
    known = {**document, "v": schema.version(tag)} if is_newer else document
    try:
        return _structured(known, kinds, schema, strict=False)
    except JournalCorrupt as error:
        if is_newer or _has_unknown_word(error.__cause__):
            return Unknown(type=tag, raw=to_json_text(document))
        raise


def _has_unknown_word(error: BaseException | None) -> bool:
    """Tell whether one of the reasons is a word that a newer engine may have added."""
    if isinstance(error, BaseExceptionGroup):
        return any(map(_has_unknown_word, typing.cast("BaseExceptionGroup[BaseException]", error).exceptions))
    return isinstance(error, UnknownWord)


def _structured(document: Json, kinds: Mapping[str, type], schema: Schema, *, strict: bool = True) -> object:
    fields = {**document}
    tag, version = fields.pop("type"), fields.pop("v")
    kind = kinds.get(tag)
    if kind is None:
        raise JournalCorrupt(f"the type {tag!r} is not known here")
    if version > schema.version(tag):
        raise JournalCorrupt(f"{tag} has version {version}; this engine knows {schema.version(tag)}: it is older")
    if version < schema.version(tag):
        raise JournalCorrupt(
            f"{tag} has version {version}, and there is no migration from there to {schema.version(tag)}"
        )
    try:
        return reader_of(kind, strict=strict)(fields, kind)
    except (BaseValidationError, ValueError, TypeError) as error:
        issues = "; ".join(transform_error(error, path=tag, format_exception=_described))
        raise JournalCorrupt(issues[: 5 * SHOWN_CHARS]) from error


def _described(error: BaseException, _: type | None) -> str:
    if isinstance(error, ForbiddenExtraKeysError):
        return f"unknown fields: {', '.join(sorted(error.extra_fields))}"
    if isinstance(error, KeyError):
        return f"missing field: {error.args[0]}"
    return str(error)


def _shown(text: str | bytes) -> str:
    return repr(text[:SHOWN_CHARS])
