"""The JSON objects of values, by cattrs: a tag for each member of a union, and readers that accept nothing else.

A reader and a writer are generated for each kind of document when it is first used: for all kinds that takes 50 ms, and
a turn needs a third of them.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args, get_origin

import attrs
from cattrs import Converter
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

from engine.core import events as ev
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
from engine.journal.position import Position, decode_position, encode_position
from engine.journal.state import Busy, Idle, Resync, Retry, SessionState, Waiting

Json: TypeAlias = "dict[str, Any]"
T = TypeVar("T")

SHOWN_CHARS: Final = 200

# Tags are in stored files and in clients: a tag stays the same when its class is renamed.
TAGS: Final[Mapping[type, str]] = {
    ev.SessionCreated: "session_created",
    ev.SessionTitled: "session_titled",
    ev.InputAdmitted: "input_admitted",
    ev.InputPromoted: "input_promoted",
    ev.InputEdited: "input_edited",
    ev.InputRemoved: "input_removed",
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
    ev.SessionConfigured: "session_configured",
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
    ev.TurnEnding: "turn_ending",
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


class UnknownWord(ValueError):
    """A tag, or one of a fixed set of words, that a newer engine may have added."""


def _is_union(kind: Any) -> bool:
    return get_origin(kind) in {typing.Union, types.UnionType}


def is_tagged_union(kind: Any) -> bool:
    """Return whether *kind* is a union whose members all have tags."""
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
            message = f"expected one of {', '.join(sorted(allowed))}, got {value!r}"[:SHOWN_CHARS]
            raise UnknownWord(message) if type(value) is str else ValueError(message)
        return value

    return read


def _union_reader(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    kinds = {TAGS[arg]: arg for arg in get_args(kind) if arg is not types.NoneType}
    optional = types.NoneType in get_args(kind)

    def read(value: Any, _: object) -> Any:
        if value is None and optional:
            return None
        tag = _an_object(value).get("type")
        if type(tag) is not str or tag not in kinds:
            message = f"expected the type {' or '.join(kinds)}, got {tag!r}"[:SHOWN_CHARS]
            raise UnknownWord(message) if type(tag) is str else ValueError(message)
        return converter.structure(value, kinds[tag])

    return read


def _member_reader(kind: type, converter: Converter) -> Callable[[Any, Any], Any]:
    read_fields, expected = _fields_reader(kind, converter), TAGS[kind]

    def read(value: Any, _: object) -> Any:
        fields = {**_an_object(value)}
        tag = fields.pop("type", None)
        if tag != expected:
            raise ValueError(f"expected the type {expected}, got {tag!r}"[:SHOWN_CHARS])
        return read_fields(fields, kind)

    return read


def _fields_reader(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    structure = make_dict_structure_fn(kind, converter)

    def read(value: Any, _: object) -> Any:
        return structure(_an_object(value), kind)

    return read


def _tuple_reader(kind: Any, converter: Converter) -> Callable[[Any, Any], Any]:
    args = get_args(kind)
    if len(args) == 2 and args[1] is Ellipsis:
        items: Any = list.__class_getitem__(args[0])
        as_list = converter.get_structure_hook(items)
        return lambda value, _: tuple(as_list(_a_list(value), items))

    def read(value: Any, _: object) -> Any:
        if len(_a_list(value)) != len(args):
            raise ValueError(f"expected {len(args)} values, got {len(value)}")
        return tuple(converter.structure(item, arg) for item, arg in zip(value, args, strict=True))

    return read


def _member_writer(kind: Any, converter: Converter) -> Callable[[Any], Json]:
    write_fields: Callable[[Any], Json] = make_dict_unstructure_fn(kind, converter)
    tag = TAGS[kind]
    return lambda value: {"type": tag, **write_fields(value)}


def _read_position(value: Any, _: object) -> Position:
    return decode_position(_exactly(value, str))


def make_converter(*, strict: bool) -> Converter:
    """Return a converter of the engine's values. A strict one refuses fields that it does not know."""
    made = Converter(forbid_extra_keys=strict)
    made.register_structure_hook_factory(attrs.has, _fields_reader)
    # Later ones are asked first: a member of a union is an attrs class too.
    made.register_structure_hook_factory(lambda kind: kind in TAGS, _member_reader)
    made.register_unstructure_hook_factory(lambda kind: kind in TAGS, _member_writer)
    made.register_structure_hook_factory(is_tagged_union, _union_reader)
    made.register_structure_hook_factory(_is_literal, _literal_reader)
    made.register_structure_hook_factory(_is_tuple, _tuple_reader)
    made.register_structure_hook(Transcript, lambda value, _: Transcript(made.structure(value, tuple[Message, ...])))
    made.register_unstructure_hook(Transcript, lambda transcript: [made.unstructure(message) for message in transcript])
    made.register_structure_hook(Position, _read_position)
    made.register_unstructure_hook(Position, encode_position)
    made.register_structure_hook(str, _exactly)
    made.register_structure_hook(int, _exactly)
    made.register_structure_hook(bool, _exactly)
    made.register_structure_hook(float, _a_float)
    # 1 is a good float to Python, but equal values shall be equal bytes.
    made.register_unstructure_hook(float, float)
    return made


_converter: Final = make_converter(strict=True)


@cache
def writer_of(kind: type) -> Callable[[Any], Json]:
    """Return what turns a value of *kind* into the fields of its document."""
    return make_dict_unstructure_fn(kind, _converter)


@cache
def reader_of(kind: type, *, strict: bool = True) -> Callable[[Any, Any], Any]:
    """Return what turns the fields of a document into a value of *kind*. It raises what cattrs raises.

    If it is not *strict*, it ignores fields that it does not know.
    """
    return _fields_reader(kind, _converter if strict else _tolerant())


@cache
def _tolerant() -> Converter:
    # Made when it is first used: only clients need it.
    return make_converter(strict=False)
