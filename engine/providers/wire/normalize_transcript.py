"""Normalizes a transcript for a wire format: the rules that every host needs.

Messages go in one at a time; items come out and never change afterwards, so their encoded bytes stay valid as the
transcript grows. For any input, the output guarantees:

- every call is followed by exactly one result, and every result has a call: a missing result is stated as text, a
  surplus one is dropped;
- no item is empty, and none holds an empty text;
- reasoning comes from the model that will read it: another model's reasoning becomes plain text without its
  signature, and another provider's own items are dropped;
- media are of kinds that the host accepts in that place: others become a sentence, and media that a result cannot
  hold follow in a user message.

An assistant message is buffered until what follows it is known: its results, or more of the same message after a
pause.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import assert_never

import attrs

from engine.core.errors import ConfigError
from engine.core.ids import PartId
from engine.core.lazy import regex
from engine.core.llm_types import ToolSchema
from engine.core.messages import (
    AssistantMessage,
    AssistantPart,
    CallPart,
    CallResult,
    FilePart,
    ImagePart,
    MediaPart,
    Message,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    UserMessage,
    UserPart,
)
from engine.core.value_base import Value
from engine.providers.wire.quirks import MediaKind, Quirks
from engine.providers.wire.untrusted_json import Json, is_object, loads, to_bytes

NO_RESULT = Settlement(status="aborted", text="(no result was recorded)")
NO_OUTPUT = "(no output)"
# Anthropic's pattern, the strictest; ids that look escaped are excluded, so that escaping stays injective.
_SAFE_ID = regex(r"(?!x-)[A-Za-z0-9_-]{1,64}")
_UNSAFE_IN_TOOL = regex(r"[^A-Za-z0-9_-]")
# The limit of OpenAI and others.
_LONGEST_TOOL = 64
# Cheap: only arguments with such a sequence are parsed and written again.
_MAYBE_SURROGATE = regex(r"\\u[dD]|[\ud800-\udfff]")


@attrs.frozen(eq=False, repr=False)
class UserItem(Value):
    """A message of the user, or of the engine on their behalf. Never empty."""

    parts: tuple[UserPart, ...]


@attrs.frozen(eq=False, repr=False)
class AssistantItem(Value):
    """The model's consecutive messages. Never empty.

    Attributes:
        parts: in order.
        is_paused: the provider paused here, at the end of the transcript: the model continues it.
        defers: the request has deferred tools.
    """

    parts: tuple[AssistantPart, ...]
    is_paused: bool = False
    defers: bool = False

    @property
    def calls(self) -> tuple[CallPart, ...]:
        """The calls, in order."""
        return tuple(part for part in self.parts if isinstance(part, CallPart))


@attrs.frozen(eq=False, repr=False)
class CallWithResult(Value):
    """A call and its one result.

    Attributes:
        found: the deferred tools that the result refers to.
    """

    call: CallPart
    settlement: Settlement
    found: tuple[ToolSchema, ...] = ()

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """Images and files of the result that the host accepts in a result."""
        return (*self.settlement.images, *self.settlement.files)

    @property
    def text(self) -> str:
        """The result's text; never empty unless there are media."""
        settled_text = self.settlement.text
        return settled_text if settled_text.strip() or self.media else NO_OUTPUT

    @property
    def is_error(self) -> bool:
        """Whether the call failed."""
        return self.settlement.status != "completed"


@attrs.frozen(eq=False, repr=False)
class ResultsItem(Value):
    """The results of all calls of the preceding item, in call order.

    Attributes:
        defers: the request has deferred tools.
    """

    answered: tuple[CallWithResult, ...]
    defers: bool = False


TranscriptItem = UserItem | AssistantItem | ResultsItem


@attrs.frozen(eq=False, repr=False)
class _PendingMessage(Value):
    message: AssistantMessage
    has_reasoning: bool


@attrs.define(eq=False, repr=False)
class TranscriptNormalizer:
    """Normalizes one transcript for one model.

    Attributes:
        model: the model that will read it.
        quirks: what its host accepts.
        reasoning_from: reasoning in messages before this index is dropped.
        deferred: the tools that the host shows only once a result refers to them, by name.
    """

    model: str
    quirks: Quirks
    reasoning_from: int = 0
    deferred: Mapping[str, ToolSchema] = attrs.field(factory=dict[str, ToolSchema])
    _count: int = attrs.field(default=0, init=False)
    _pending_messages: list[_PendingMessage] = attrs.field(factory=list["_PendingMessage"], init=False)
    _has_output: bool = attrs.field(default=False, init=False)

    def feed(self, message: Message) -> list[TranscriptItem]:
        """Add a message; return the items that it completes."""
        self._count += 1
        match message:
            case AssistantMessage():
                # Calls without results: the transcript is from a crashed engine, or a host has edited it.
                out = self._flush({}) if self._has_calls() else []
                self._pending_messages.append(_PendingMessage(message, self._count > self.reasoning_from))
                return self._checked(out)
            case ResultsMessage():
                # Results without calls: the buffered message may still continue.
                return self._checked(self._flush(_by_call(message.results))) if self._has_calls() else []
            case UserMessage():
                items = self._user(message.parts)
                return self._checked([*self._flush({}), *items]) if items else []
            case _:
                assert_never(message)

    def pending(self) -> list[TranscriptItem]:
        """Return the items that the end of the transcript completes. Changes nothing.

        Raises `ConfigError` if the transcript is empty, or ends with an assistant message that was not paused: newer
        models refuse to continue one, and no transcript of the engine means that.
        """
        out = self._items_of_pending({}, at_end=True)
        if out and isinstance(last := out[-1], AssistantItem) and not last.is_paused:
            raise ConfigError("the transcript ends with an assistant message: append a user message or results")
        if not self._has_output:
            self._check_beginning(out)
            if not out:
                raise ConfigError("nothing to send: the transcript has no text, image or result")
        return out

    def _has_calls(self) -> bool:
        return any(held.message.calls for held in self._pending_messages)

    def _checked(self, out: list[TranscriptItem]) -> list[TranscriptItem]:
        if not self._has_output:
            self._check_beginning(out)
        self._has_output = self._has_output or bool(out)
        return out

    def _check_beginning(self, out: list[TranscriptItem]) -> None:
        if out and not isinstance(out[0], UserItem):
            raise ConfigError("the transcript begins with an assistant message: put a user message first")

    def _flush(self, results: dict[str, CallResult]) -> list[TranscriptItem]:
        out = self._items_of_pending(results)
        self._pending_messages.clear()
        return out

    def _items_of_pending(self, results: dict[str, CallResult], *, at_end: bool = False) -> list[TranscriptItem]:
        parts = tuple(part for held in self._pending_messages for part in self._assistant_parts(held))
        if not parts:
            return []
        is_paused = at_end and self._pending_messages[-1].message.finish == "pause"
        item = AssistantItem(parts, is_paused, bool(self.deferred))
        if not item.calls:
            return [item]
        item = attrs.evolve(item, is_paused=False)
        answered = [self._with_references(call, _settlement(results.get(call.call_id))) for call in item.calls]
        return [item, *self._results(answered)]

    def _with_references(self, call: CallPart, settlement: Settlement) -> CallWithResult:
        """Return a call with its result, and the tools that it refers to: only such that requests have."""
        found = tuple(self.deferred[name] for name in settlement.tools if name in self.deferred)
        # All or none: where there are references, the host shows no text, which alone tells of a tool that came late.
        return CallWithResult(call, settlement, found if len(found) == len(settlement.tools) else ())

    def _assistant_parts(self, held: _PendingMessage) -> Iterator[AssistantPart]:
        for place, part in enumerate(held.message.parts):
            match part:
                case TextPart():
                    yield from self._assistant_text(part, held, place)
                case ReasoningPart():
                    if held.has_reasoning:
                        yield from self._reasoning(part)
                case CallPart():
                    yield attrs.evolve(part, tool=safe_tool(part.tool))
                case ProviderPart():
                    # Such items are only readable by the host that made them: encrypted reasoning, its own tools.
                    if _provider(part.model) == _provider(self.model):
                        yield part
                case _:
                    assert_never(part)

    def _assistant_text(self, part: TextPart, held: _PendingMessage, place: int) -> Iterator[AssistantPart]:
        """Yield a text unless it is blank; as a space where the host needs one between two parts of reasoning."""
        if part.text.strip():
            yield part
        elif self.quirks.space_between_reasoning and held.has_reasoning and self._is_between(held.message.parts, place):
            yield attrs.evolve(part, text=" ")

    def _is_between(self, parts: Sequence[AssistantPart], place: int) -> bool:
        around = (*parts[max(0, place - 1) : place], *parts[place + 1 : place + 2])
        return len(around) == 2 and all(
            isinstance(part, ReasoningPart) and part.model == self.model and (part.signature or part.redacted)
            for part in around
        )

    def _reasoning(self, part: ReasoningPart) -> Iterator[AssistantPart]:
        if part.model == self.model:
            yield part
        elif part.text.strip():
            # Unsigned, it would be refused as reasoning; its content may still help the model.
            yield TextPart(id=part.id, text=part.text)

    def _user(self, parts: Iterable[UserPart]) -> list[TranscriptItem]:
        kept = tuple(self._user_parts(parts))
        return [UserItem(kept)] if kept else []

    def _user_parts(self, parts: Iterable[UserPart]) -> Iterator[UserPart]:
        for part in parts:
            if isinstance(part, TextPart):
                if part.text.strip():
                    yield part
            elif self._can_read(part, self.quirks.user_media):
                yield part
            else:
                yield TextPart(id=PartId("media"), text=_unreadable_note(part))

    def _results(self, answered: Sequence[CallWithResult]) -> list[TranscriptItem]:
        kept: list[CallWithResult] = []
        moved: list[UserPart] = []
        for each in answered:
            here = [part for part in each.media if self._can_read(part, self.quirks.result_media)]
            elsewhere = [part for part in each.media if part not in here]
            if elsewhere:
                moved.append(TextPart(id=PartId("media"), text=f"Media of {each.call.tool}:"))
                moved += self._user_parts(elsewhere)
            kept.append(_with_media(each, here, has_moved=bool(elsewhere)))
        items: list[TranscriptItem] = [ResultsItem(tuple(kept), bool(self.deferred))]
        return [*items, UserItem(tuple(moved))] if moved else items

    def _can_read(self, part: MediaPart, kinds: frozenset[MediaKind]) -> bool:
        kind = media_kind(part.media_type)
        # Hosts accept PNG, JPEG, GIF and WebP; few accept HEIC or SVG.
        return bool(part.data) and kind in kinds and (kind != "image" or part.media_type in self.quirks.image_types)


# -- helpers for encoders ------------------------------------------------------


def media_kind(media_type: str) -> MediaKind | None:
    """Return the kind of media of *media_type*; None for others."""
    if media_type == "application/pdf":
        return "pdf"
    match media_type.partition("/")[0]:
        case "image":
            return "image"
        case "audio":
            return "audio"
        case "video":
            return "video"
        case _:
            return None


def safe_id(call_id: str) -> str:
    """Escape *call_id* to characters that every host allows; distinct ids stay distinct.

    Almost all ids pass unchanged. An id with other characters, or one that looks escaped, is escaped after `x-`.
    """
    if _SAFE_ID.fullmatch(call_id):
        return call_id
    return "x-" + "".join(char if char.isascii() and char.isalnum() else f"_{ord(char):x}_" for char in call_id)


def safe_tool(name: str) -> str:
    """Return a tool's name as hosts allow it: another model may have called anything."""
    return _UNSAFE_IN_TOOL.sub("_", name)[:_LONGEST_TOOL] or "unknown"


def arguments_of(call: CallPart) -> str:
    """Return the arguments as a JSON object; invalid ones as `{}`: the result says what was wrong."""
    try:
        value = (
            loads(call.arguments, parse_float=_finite_number, parse_constant=_finite_number) if call.complete else None
        )
    except ValueError:
        return "{}"
    if not is_object(value):
        return "{}"
    # A lone surrogate, escaped or not, makes hosts refuse the whole request.
    if _MAYBE_SURROGATE.search(call.arguments):
        return to_bytes(value).decode()
    return call.arguments.strip()


def schema_of(document: str, whose: str) -> Json:
    """Parse a JSON schema. Raises `ConfigError` if it is not a non-empty object."""
    try:
        schema = loads(document)
    except ValueError as error:
        raise ConfigError(f"the schema of the {whose} is not valid JSON: {error}") from error
    if not is_object(schema) or not schema:
        raise ConfigError(f"the schema of the {whose} must be a non-empty JSON object")
    return schema


def _with_media(answered: CallWithResult, media: Sequence[MediaPart], *, has_moved: bool) -> CallWithResult:
    """Return a result with only this media; its text refers to the next message if some has moved there."""
    text = answered.settlement.text
    if has_moved:
        what = f"the media of {answered.call.tool} follow in the next message"
        text = f"{text}\n({what})" if text.strip() else f"({what})"
    images = tuple(part for part in media if isinstance(part, ImagePart))
    files = tuple(part for part in media if isinstance(part, FilePart))
    return attrs.evolve(answered, settlement=attrs.evolve(answered.settlement, text=text, images=images, files=files))


def _finite_number(literal: str) -> float:
    """Parse a number. Raises `ValueError` for NaN and infinities, which JSON has not."""
    value = float(literal)
    if not math.isfinite(value):
        raise ValueError(literal)
    return value


def _by_call(results: Iterable[CallResult]) -> dict[str, CallResult]:
    by_call: dict[str, CallResult] = {}
    # The first result of an id counts: it is the one that the model was shown.
    for result in results:
        by_call.setdefault(result.call_id, result)
    return by_call


def _settlement(result: CallResult | None) -> Settlement:
    return NO_RESULT if result is None else result.settlement


def _provider(model: str) -> str:
    return model.rpartition("/")[0]


def _unreadable_note(part: MediaPart) -> str:
    name = f" {part.name!r}" if isinstance(part, FilePart) and part.name else ""
    what = media_kind(part.media_type) or "file"
    if not part.data:
        return f"(This {what}{name} is empty. Tell the user.)"
    return f"(This {what}{name} has the type {part.media_type}, which this model cannot read. Tell the user.)"
