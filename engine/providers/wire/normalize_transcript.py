"""The transcript put in order for a wire format: T22's transforms that hold for all.

Messages go in one by one, items come out, and an item that came out never changes:
so what was encoded of it stays true when the transcript grows. What comes out keeps
these promises, whatever went in:

- every call is followed by exactly one result, and no result is without its call: a
  missing one says so, one too many is left out;
- no item is empty, and none holds an empty text;
- reasoning is that of the model that will read it; another model's is plain text, and
  loses its signature. So does a provider's own item lose its place;
- media are those that the host reads there; others are a sentence which says so, and
  what it can't read in a result follows in a user's message.

An item of the model is held back until what follows is known (its results, or more of
the same answer after a pause).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

import attrs

from engine.core.errors import ConfigError
from engine.core.ids import PartId
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
from engine.providers.wire.quirks import MediaKind, Quirks
from engine.providers.wire.untrusted_json import Json, is_object, loads, to_bytes

NO_RESULT = Settlement(status="aborted", text="(no result was recorded)")
NO_OUTPUT = "(no output)"
_SAFE_ID = re.compile(r"(?!x-)[A-Za-z0-9_-]{1,64}")
_UNSAFE_IN_TOOL = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST_TOOL = 64
_MAYBE_SURROGATE = re.compile(r"\\u[dD]|[\ud800-\udfff]")


@attrs.frozen
class UserItem:
    """What the user says, or the engine in their place. Never empty."""

    parts: tuple[UserPart, ...]


@attrs.frozen
class AssistantItem:
    """What the model said until somebody else spoke. Never empty.

    Attributes:
        parts: in order.
        is_paused: the provider paused it, and it is the transcript's end: the model goes on with it.
    """

    parts: tuple[AssistantPart, ...]
    is_paused: bool = False

    @property
    def calls(self) -> tuple[CallPart, ...]:
        """The calls, in their order."""
        return tuple(part for part in self.parts if isinstance(part, CallPart))


@attrs.frozen
class Answered:
    """A call and its one result."""

    call: CallPart
    settlement: Settlement

    @property
    def media(self) -> tuple[MediaPart, ...]:
        """Images and files of the result, as far as the host reads them there."""
        return (*self.settlement.images, *self.settlement.files)

    @property
    def text(self) -> str:
        """The result's text; never empty if there is nothing beside it."""
        told = self.settlement.text
        return told if told.strip() or self.media else NO_OUTPUT

    @property
    def is_error(self) -> bool:
        """Whether the call did not do what it was for."""
        return self.settlement.status != "completed"


@attrs.frozen
class ResultsItem:
    """The results of all calls of the item before it, in call order."""

    answered: tuple[Answered, ...]


Item = UserItem | AssistantItem | ResultsItem


@attrs.frozen
class _Held:
    message: AssistantMessage
    has_reasoning: bool


@attrs.define(eq=False)
class Arranger:
    """Arranges one transcript for one model.

    Attributes:
        model: who will read it.
        quirks: what its host reads.
        reasoning_from: of the messages before this one, all thinking is left out.
    """

    model: str
    quirks: Quirks
    reasoning_from: int = 0
    _count: int = attrs.field(default=0, init=False)
    _held: list[_Held] = attrs.field(factory=list["_Held"], init=False)
    _has_begun: bool = attrs.field(default=False, init=False)

    def feed(self, message: Message) -> list[Item]:
        """Take the next message; return the items which that completes."""
        self._count += 1
        match message:
            case AssistantMessage():
                out = self._settle({}) if self._has_calls() else []
                self._held.append(_Held(message, self._count > self.reasoning_from))
                return self._noted(out)
            case ResultsMessage():
                # Results of nothing: what is held may go on, or be the end.
                return self._noted(self._settle(_by_call(message.results))) if self._has_calls() else []
            case UserMessage():
                said = self._user(message.parts)
                return self._noted([*self._settle({}), *said]) if said else []
            case _:
                assert_never(message)

    def pending(self) -> list[Item]:
        """Return the items that the end of the transcript completes. Changes nothing.

        Raises `ConfigError` where the transcript ends with the model's own words, other
        than by a pause: to go on in mid-sentence is what no transcript of ours means, and
        newer models refuse it; and for a transcript with nothing in it.
        """
        out = self._settled({}, at_end=True)
        if out and isinstance(last := out[-1], AssistantItem) and not last.is_paused:
            raise ConfigError("the transcript ends with the model's own words: append a user message or results")
        if not self._has_begun:
            self._check_beginning(out)
            if not out:
                raise ConfigError("nothing to send: the transcript has no text, image or result in it")
        return out

    def _has_calls(self) -> bool:
        return any(held.message.calls for held in self._held)

    def _noted(self, out: list[Item]) -> list[Item]:
        if not self._has_begun:
            self._check_beginning(out)
        self._has_begun = self._has_begun or bool(out)
        return out

    def _check_beginning(self, out: list[Item]) -> None:
        if out and not isinstance(out[0], UserItem):
            raise ConfigError("the transcript begins with the model: put a user message before it")

    def _settle(self, results: dict[str, CallResult]) -> list[Item]:
        out = self._settled(results)
        self._held.clear()
        return out

    def _settled(self, results: dict[str, CallResult], *, at_end: bool = False) -> list[Item]:
        parts = tuple(part for held in self._held for part in self._assistant_parts(held))
        if not parts:
            return []
        item = AssistantItem(parts, is_paused=at_end and self._held[-1].message.finish == "pause")
        if not item.calls:
            return [item]
        item = attrs.evolve(item, is_paused=False)
        answered = [Answered(call, _settlement(results.get(call.call_id))) for call in item.calls]
        return [item, *self._results(answered)]

    def _assistant_parts(self, held: _Held) -> Iterator[AssistantPart]:
        parts = held.message.parts
        for place, part in enumerate(parts):
            match part:
                case TextPart():
                    if part.text.strip():
                        yield part
                    elif self.quirks.space_between_reasoning and held.has_reasoning and self._is_between(parts, place):
                        yield attrs.evolve(part, text=" ")
                case ReasoningPart():
                    if held.has_reasoning:
                        yield from self._reasoning(part)
                case CallPart():
                    yield attrs.evolve(part, tool=safe_tool(part.tool))
                case ProviderPart():
                    if _provider(part.model) == _provider(self.model):
                        yield part
                case _:
                    assert_never(part)

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
            yield TextPart(id=part.id, text=part.text)

    def _user(self, parts: Iterable[UserPart]) -> list[Item]:
        kept = tuple(self._user_parts(parts))
        return [UserItem(kept)] if kept else []

    def _user_parts(self, parts: Iterable[UserPart]) -> Iterator[UserPart]:
        for part in parts:
            if isinstance(part, TextPart):
                if part.text.strip():
                    yield part
            elif self._reads(part, self.quirks.user_media):
                yield part
            else:
                yield TextPart(id=PartId("media"), text=_not_readable(part))

    def _results(self, answered: Sequence[Answered]) -> list[Item]:
        kept: list[Answered] = []
        moved: list[UserPart] = []
        for each in answered:
            here = [part for part in each.media if self._reads(part, self.quirks.result_media)]
            elsewhere = [part for part in each.media if part not in here]
            told = each.settlement.text
            if elsewhere:
                what = f"what {each.call.tool} shows follows in the next message"
                told = f"{told}\n({what})" if told.strip() else f"({what})"
                moved.append(TextPart(id=PartId("media"), text=f"What {each.call.tool} shows:"))
                moved += self._user_parts(elsewhere)
            images = tuple(part for part in here if isinstance(part, ImagePart))
            files = tuple(part for part in here if isinstance(part, FilePart))
            settlement = attrs.evolve(each.settlement, text=told, images=images, files=files)
            kept.append(Answered(each.call, settlement))
        items: list[Item] = [ResultsItem(tuple(kept))]
        return [*items, UserItem(tuple(moved))] if moved else items

    def _reads(self, part: MediaPart, kinds: frozenset[MediaKind]) -> bool:
        kind = media_kind(part.media_type)
        return bool(part.data) and kind in kinds and (kind != "image" or part.media_type in self.quirks.image_types)


# -- what encoders need besides ------------------------------------------------------


def media_kind(media_type: str) -> MediaKind | None:
    """Return which kind of media *media_type* is; None for others."""
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
    """Return *call_id* in characters that every host allows; different ids stay different.

    Almost all ids pass unchanged. One that has other characters, or looks as if it
    had been through here already, is spelt out behind an `x-`.
    """
    if _SAFE_ID.fullmatch(call_id):
        return call_id
    return "x-" + "".join(char if char.isascii() and char.isalnum() else f"_{ord(char):x}_" for char in call_id)


def safe_tool(name: str) -> str:
    """Return a tool's name as hosts allow it: another host's model may have asked for anything."""
    return _UNSAFE_IN_TOOL.sub("_", name)[:_LONGEST_TOOL] or "unknown"


def arguments_of(call: CallPart) -> str:
    """Return the arguments as the JSON text of an object; broken ones as `{}`, for the result says what was wrong."""
    try:
        value = loads(call.arguments, parse_float=_finite, parse_constant=_finite) if call.complete else None
    except ValueError:
        return "{}"
    if not is_object(value):
        return "{}"
    # Half a character, escaped or not, would have the whole request refused.
    if _MAYBE_SURROGATE.search(call.arguments):
        return to_bytes(value).decode()
    return call.arguments.strip()


def schema_of(document: str, whose: str) -> Json:
    """Return a JSON schema, parsed; raise `ConfigError` for what is none."""
    try:
        schema = loads(document)
    except ValueError as error:
        raise ConfigError(f"the schema of the {whose} is not valid JSON: {error}") from error
    if not is_object(schema) or not schema:
        raise ConfigError(f"the schema of the {whose} must be a JSON object that is not empty")
    return schema


def _finite(literal: str) -> float:
    """Return the number; what Python reads but JSON can't say (NaN, 1e999) is a `ValueError`."""
    value = float(literal)
    if not math.isfinite(value):
        raise ValueError(literal)
    return value


def _by_call(results: Iterable[CallResult]) -> dict[str, CallResult]:
    found: dict[str, CallResult] = {}
    for result in results:
        found.setdefault(result.call_id, result)
    return found


def _settlement(result: CallResult | None) -> Settlement:
    return NO_RESULT if result is None else result.settlement


def _provider(model: str) -> str:
    return model.rpartition("/")[0]


def _not_readable(part: MediaPart) -> str:
    name = f" {part.name!r}" if isinstance(part, FilePart) and part.name else ""
    what = media_kind(part.media_type) or "file"
    if not part.data:
        return f"(The {what}{name} that stood here is empty. Tell the user.)"
    return f"(A {what}{name} of type {part.media_type} stood here, which this model can't read. Tell the user.)"
