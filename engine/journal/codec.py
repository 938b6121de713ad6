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
`decode_received` instead, which hands on what it can't know as `Unknown`.

Equal values give equal bytes. They are ASCII, so that any text survives: control
characters, and surrogates without their partner, which providers do send. (A pair of
surrogates comes back as the one character it stands for.) Numbers that JSON doesn't
have are the strings "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

import json
import math
import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Literal, NoReturn, TypeAlias, TypeVar, get_args, get_origin

import attrs
from cattrs import Converter, transform_error
from cattrs.errors import BaseValidationError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from engine.core import events as ev
from engine.core.errors import JournalCorrupt
from engine.core.events import DURABLE_TYPES, LIVE_TYPES, Durable, Live
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    FilePart,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    TextPart,
    Transcript,
    UserMessage,
)
from engine.journal.state import Busy, Idle, Resync, Retry, SessionState, Status, Waiting

Json: TypeAlias = "dict[str, Any]"
Upcaster: TypeAlias = Callable[[Json], Json]
T = TypeVar("T")

SHOWN_CHARS: Final = 200

# Tags are in files and in other people's programs: they stay, whatever a class is called.
TAGS: Final[Mapping[type, str]] = {
    ev.SessionCreated: "session_created",
    ev.SessionTitled: "session_titled",
    ev.InputAdmitted: "input_admitted",
    ev.InputPromoted: "input_promoted",
    ev.PromptBlocked: "prompt_blocked",
    ev.NudgeAdded: "nudge_added",
    ev.PromptSet: "prompt_set",
    ev.PromptUpdated: "prompt_updated",
    ev.TurnStarted: "turn_started",
    ev.TurnResumed: "turn_resumed",
    ev.StepStarted: "step_started",
    ev.StepReceived: "step_received",
    ev.StepEnded: "step_ended",
    ev.LoopContinued: "loop_continued",
    ev.RetryScheduled: "retry_scheduled",
    ev.RecoveryAsked: "recovery_asked",
    ev.RecoveryAnswered: "recovery_answered",
    ev.ModelSwitched: "model_switched",
    ev.TurnEnded: "turn_ended",
    ev.PartStarted: "part_started",
    ev.PartEnded: "part_ended",
    ev.PartReplaced: "part_replaced",
    ev.PartDiscarded: "part_discarded",
    ev.CallAnnounced: "call_announced",
    ev.CallQueued: "call_queued",
    ev.CallJudged: "call_judged",
    ev.CallChanged: "call_changed",
    ev.CallStarted: "call_started",
    ev.CallSettled: "call_settled",
    ev.CallDelivered: "call_delivered",
    ev.ContextChanged: "context_changed",
    ev.PermissionAsked: "permission_asked",
    ev.PermissionAnswered: "permission_answered",
    ev.QuestionAsked: "question_asked",
    ev.QuestionAnswered: "question_answered",
    ev.CompactionStarted: "compaction_started",
    ev.CompactionEnded: "compaction_ended",
    ev.HistoryReplaced: "history_replaced",
    ev.SnapshotTaken: "snapshot_taken",
    ev.TurnUndone: "turn_undone",
    ev.TurnRedone: "turn_redone",
    ev.BackgroundStarted: "background_started",
    ev.BackgroundEnded: "background_ended",
    ev.DoomDetected: "doom_detected",
    ev.Notice: "notice",
    ev.TextDelta: "text_delta",
    ev.ReasoningDelta: "reasoning_delta",
    ev.ArgumentsDelta: "arguments_delta",
    ev.CallProgress: "call_progress",
    ev.CallHeartbeat: "call_heartbeat",
    TextPart: "text",
    ReasoningPart: "reasoning",
    CallPart: "call",
    ProviderPart: "provider",
    ImagePart: "image",
    FilePart: "file",
    UserMessage: "user",
    AssistantMessage: "assistant",
    ResultsMessage: "results",
    Idle: "idle",
    Busy: "busy",
    Retry: "retry",
    Waiting: "waiting",
    SessionState: "session_state",
    Resync: "resync",
}
_EVENTS: Final = {TAGS[kind]: kind for kind in (*DURABLE_TYPES, *LIVE_TYPES)}
_MESSAGES: Final = {TAGS[kind]: kind for kind in get_args(Message)}
_STATUSES: Final = {TAGS[kind]: kind for kind in get_args(Status)}
_RECEIVED: Final = {**_EVENTS, TAGS[Resync]: Resync}


@attrs.frozen
class Schema:
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


@attrs.frozen
class Unknown:
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

    Raises `JournalCorrupt` for what no server sends: no JSON, no type, or a known
    version with the wrong fields.
    """
    document = schema.lifted(_document(text))
    tag = document["type"]
    if tag not in _RECEIVED or document["v"] > schema.version(tag):
        raw = text if isinstance(text, str) else text.decode()
        return Unknown(type=tag, raw=raw)
    return typing.cast("Durable | Live | Resync", _structured(document, _RECEIVED, schema))


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

_to_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False, check_circular=False).encode


def _encode(value: object, schema: Schema) -> str:
    kind: Any = type(value)  # (mypy takes a type[object] for unhashable)
    tag = TAGS.get(kind)
    if tag is None:
        raise TypeError(f"there is no JSON of a {kind.__name__}")
    document: Json = {"type": tag, "v": schema.version(tag), **_writer(kind)(value)}
    try:
        return _to_json(document)
    except ValueError:
        return _to_json(_finite(document))


def _finite(value: Any) -> Any:
    """Return *value* with strings in place of the numbers that JSON doesn't have."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in typing.cast("Json", value).items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in typing.cast("list[Any]", value)]
    return value


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
    document = typing.cast("Json", parsed)
    tag, version = document.get("type"), document.get("v")
    if type(tag) is not str or type(version) is not int or version < 1:
        raise JournalCorrupt(f"this has no type and version: {_shown(text)}")
    return document


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _structured(document: Json, kinds: Mapping[str, type], schema: Schema) -> object:
    tag, version = document.pop("type"), document.pop("v")
    kind = kinds.get(tag)
    if kind is None:
        raise JournalCorrupt(f"the type {tag!r} is not known here")
    if version > schema.version(tag):
        raise JournalCorrupt(f"{tag} has version {version}; this engine knows {schema.version(tag)}: it is older")
    if version < schema.version(tag):
        raise JournalCorrupt(f"{tag} has version {version}, and nothing leads from there to {schema.version(tag)}")
    try:
        return _reader(kind)(document, kind)
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


# -- the converter -----------------------------------------------------------------------


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in {typing.Union, types.UnionType}


def _is_tagged_union(kind: Any) -> bool:
    return _is_union(kind) and all(arg in TAGS or arg is types.NoneType for arg in get_args(kind))


def _is_literal(kind: Any) -> bool:
    """Tell whether *kind* is a `Literal`, or a union of such."""
    if _is_union(kind):
        return all(get_origin(arg) is Literal for arg in get_args(kind))
    return get_origin(kind) is Literal


def _is_tuple(kind: Any) -> bool:
    return get_origin(kind) is tuple


def _exactly(value: Any, kind: type[T]) -> T:
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value


def _an_object(value: Any) -> Json:
    return _exactly(value, typing.cast("type[Json]", dict))


def _a_list(value: Any) -> list[Any]:
    return _exactly(value, typing.cast("type[list[Any]]", list))


_NOT_IN_JSON: Final = frozenset({"NaN", "Infinity", "-Infinity"})


def _a_float(value: Any, _: object) -> float:
    if type(value) is int or (type(value) is str and value in _NOT_IN_JSON):
        return float(value)
    return _exactly(value, float)


def _literal_reader(kind: Any) -> Callable[[Any, Any], Any]:
    members = [get_args(arg) for arg in get_args(kind)] if _is_union(kind) else [get_args(kind)]
    allowed = frozenset(value for group in members for value in group)

    def read(value: Any, _: object) -> Any:
        if type(value) is not str or value not in allowed:
            raise ValueError(f"expected one of {', '.join(sorted(allowed))}, got {value!r}"[:SHOWN_CHARS])
        return value

    return read


def _union_reader(kind: Any) -> Callable[[Any, Any], Any]:
    kinds = {TAGS[arg]: arg for arg in get_args(kind) if arg is not types.NoneType}
    optional = types.NoneType in get_args(kind)

    def read(value: Any, _: object) -> Any:
        if value is None and optional:
            return None
        tag = _an_object(value).get("type")
        if type(tag) is not str or tag not in kinds:
            raise ValueError(f"expected the type {' or '.join(kinds)}, got {tag!r}"[:SHOWN_CHARS])
        return _converter.structure(value, kinds[tag])

    return read


def _member_reader(kind: type) -> Callable[[Any, Any], Any]:
    read_fields, expected = _fields_reader(kind), TAGS[kind]

    def read(value: Any, _: object) -> Any:
        fields = {**_an_object(value)}
        tag = fields.pop("type", None)
        if tag != expected:
            raise ValueError(f"expected the type {expected}, got {tag!r}"[:SHOWN_CHARS])
        return read_fields(fields, kind)

    return read


def _fields_reader(kind: Any) -> Callable[[Any, Any], Any]:
    structure = make_dict_structure_fn(kind, _converter)

    def read(value: Any, _: object) -> Any:
        return structure(_an_object(value), kind)

    return read


def _tuple_reader(kind: Any) -> Callable[[Any, Any], Any]:
    args = get_args(kind)
    if len(args) == 2 and args[1] is Ellipsis:
        items: Any = list.__class_getitem__(args[0])
        as_list = _converter.get_structure_hook(items)
        return lambda value, _: tuple(as_list(_a_list(value), items))

    def read(value: Any, _: object) -> Any:
        if len(_a_list(value)) != len(args):
            raise ValueError(f"expected {len(args)} values, got {len(value)}")
        return tuple(_converter.structure(item, arg) for item, arg in zip(value, args, strict=True))

    return read


def _member_writer(kind: Any) -> Callable[[Any], Json]:
    write_fields: Callable[[Any], Json] = make_dict_unstructure_fn(kind, _converter)
    tag = TAGS[kind]
    return lambda value: {"type": tag, **write_fields(value)}


def _write_transcript(transcript: Transcript) -> list[Any]:
    return [_converter.unstructure(message) for message in transcript]


def _read_transcript(value: Any, _: object) -> Transcript:
    return Transcript(_converter.structure(value, tuple[Message, ...]))


def _make_converter() -> Converter:
    made = Converter(forbid_extra_keys=True)
    made.register_structure_hook_factory(attrs.has, _fields_reader)
    # Later ones are asked first: a member of a union is an attrs class too.
    made.register_structure_hook_factory(lambda kind: kind in TAGS, _member_reader)
    made.register_unstructure_hook_factory(lambda kind: kind in TAGS, _member_writer)
    made.register_structure_hook_factory(_is_tagged_union, _union_reader)
    made.register_structure_hook_factory(_is_literal, _literal_reader)
    made.register_structure_hook_factory(_is_tuple, _tuple_reader)
    made.register_structure_hook(Transcript, _read_transcript)
    made.register_unstructure_hook(Transcript, _write_transcript)
    made.register_structure_hook(str, _exactly)
    made.register_structure_hook(int, _exactly)
    made.register_structure_hook(bool, _exactly)
    made.register_structure_hook(float, _a_float)
    # 1 is a good float to Python, but equal values shall be equal bytes.
    made.register_unstructure_hook(float, float)
    return made


_converter: Final = _make_converter()


# Generated code for each kind of document, at its first use: for all of them it takes 50 ms, and a turn needs a third.
@cache
def _writer(kind: type) -> Callable[[Any], Json]:
    return make_dict_unstructure_fn(kind, _converter)


@cache
def _reader(kind: type) -> Callable[[Any, Any], Any]:
    return _fields_reader(kind)
