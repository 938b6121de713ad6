"""The transcript, in a form that belongs to no provider.

All values are immutable. Foreign JSON (a call's arguments, a provider's opaque item) is kept as text, so that it can be
sent back byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, overload

import attrs

from engine.core.ids import CallId, MessageId, PartId
from engine.core.value_base import Value

CallStatus = Literal["completed", "error", "denied", "aborted"]
AbortReason = Literal["cancelled", "timeout", "not_executed", "interrupted_by_crash"]
# An "engine" message is written by the engine, for the model. A "summary" replaces the earlier history. A
# "continue" message asks the model to go on after a summary; no user wrote it.
Origin = Literal["user", "steer", "queue", "engine", "summary", "continue"]
FinishReason = Literal[
    "stop", "calls", "length", "pause", "refusal", "content_filter", "overflow", "malformed", "unknown"
]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Usage(Value):
    """Tokens as counted by the host.

    Attributes:
        input: prompt tokens that came from no cache.
        output: all generated tokens, reasoning among them.
        cache_read: prompt tokens read from a cache.
        cache_write: prompt tokens written to a cache.
        reasoning: the part of `output` that was reasoning.
    """

    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0
    reasoning: int = 0

    @property
    def total(self) -> int:
        """Everything that passed through the model."""
        return self.input + self.output + self.cache_read + self.cache_write

    @property
    def prompt(self) -> int:
        """The tokens of the request, whether they came from a cache or not."""
        return self.input + self.cache_read + self.cache_write

    @property
    def cache_share(self) -> float:
        """How much of the prompt was read from a cache, from 0 to 1."""
        return self.cache_read / self.prompt if self.prompt else 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input=self.input + other.input,
            output=self.output + other.output,
            cache_read=self.cache_read + other.cache_read,
            cache_write=self.cache_write + other.cache_write,
            reasoning=self.reasoning + other.reasoning,
        )


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Citation(Value):
    """A source that the model cites.

    Attributes:
        url: its address; empty for a document in the request.
        title: its title.
        quote: the cited words, if the host reports them.
        raw: the host's own record of it, as JSON text.
    """

    url: str = ""
    title: str = ""
    quote: str = ""
    raw: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TextPart(Value):
    """Visible text, and the sources it names."""

    id: PartId
    text: str
    citations: tuple[Citation, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ReasoningPart(Value):
    """Thinking, with the data that the host needs to accept it again."""

    id: PartId
    text: str
    signature: str | None = None
    redacted: str | None = None
    model: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallPart(Value):
    """A tool invocation that the model asked for.

    Attributes:
        arguments: the JSON text as received; broken if not `complete`.
        provider_id: the host's own id, which need not be unique.
        complete: whether all of the arguments arrived.
    """

    id: PartId
    call_id: CallId
    tool: str
    arguments: str
    provider_id: str = ""
    complete: bool = True


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ProviderPart(Value):
    """An item that only its provider understands (a hosted tool's work, say)."""

    id: PartId
    kind: str
    data: str
    model: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ImagePart(Value):
    """An image, as base64."""

    media_type: str
    data: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class FilePart(Value):
    """A file other than an image (a PDF, a recording), as base64."""

    media_type: str
    data: str
    name: str = ""


AssistantPart = TextPart | ReasoningPart | CallPart | ProviderPart
MediaPart = ImagePart | FilePart
UserPart = TextPart | ImagePart | FilePart


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Settlement(Value):
    """How a call ended; the model reads `text`.

    Attributes:
        status: the terminal state.
        text: the result, the error, or why there is none.
        reason: why it was aborted.
        outcome_unknown: it did not stop in time, or lost its process: its side effects are unknown.
        images: shown to the model with the text.
        files: the same, other than images.
        failed: it completed, but what it ran reports failure (a non-zero exit).
        metadata: JSON for clients, never sent to the model.
        tools: the names of tools that it shows to the model.
    """

    status: CallStatus
    text: str
    reason: AbortReason | None = None
    outcome_unknown: bool = False
    images: tuple[ImagePart, ...] = ()
    files: tuple[FilePart, ...] = ()
    failed: bool = False
    metadata: str = ""
    tools: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallResult(Value):
    """A settled call, as it appears in the transcript."""

    call_id: CallId
    tool: str
    settlement: Settlement


@attrs.frozen(kw_only=True, eq=False, repr=False)
class UserMessage(Value):
    """Input of the user, or of the engine, according to `origin`.

    Attributes:
        parts: what the model reads.
        display: what a client shows instead, if different.
    """

    id: MessageId
    parts: tuple[UserPart, ...]
    origin: Origin = "user"
    display: str | None = None

    @property
    def text(self) -> str:
        """The text as its author would recognise it."""
        if self.display is not None:
            return self.display
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AssistantMessage(Value):
    """What the model wrote in one step."""

    id: MessageId
    parts: tuple[AssistantPart, ...]
    model: str
    finish: FinishReason | None = None

    @property
    def text(self) -> str:
        """The visible text."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def calls(self) -> tuple[CallPart, ...]:
        """The calls, in the order in which they were announced."""
        return tuple(part for part in self.parts if isinstance(part, CallPart))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ResultsMessage(Value):
    """The results of the assistant message before it, in call order."""

    id: MessageId
    results: tuple[CallResult, ...]


Message = UserMessage | AssistantMessage | ResultsMessage


class _Items(list[Message]):
    """A list that can be weakly referenced, and is compared by identity."""

    __slots__ = ("__weakref__",)

    def __hash__(self) -> int:  # type: ignore[override]  # a list has none; this one is a key by identity
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


class Transcript(Sequence[Message]):
    """An immutable sequence of messages with cheap appending.

    `append` returns a new transcript. Successive versions share one list and
    differ in length, so appending costs the same in a session of any size; a second branch from the same point makes a
    copy. (A tuple would be copied completely in each step.)
    """

    __slots__ = ("_items", "_length")

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._items: _Items = _Items(messages)
        self._length = len(self._items)

    @property
    def lineage(self) -> object:
        """An object that all versions of this transcript share, and no other transcript has.

        Of two transcripts with the same lineage, the shorter one is the beginning of
        the longer one. It can be weakly referenced, so caches can use it as a key.
        """
        return self._items

    def first(self, count: int) -> Transcript:
        """Return the version of this transcript with that many messages; it has the same lineage."""
        shorter = Transcript.__new__(Transcript)
        shorter._items = self._items
        shorter._length = min(count, self._length)
        return shorter

    def append(self, *messages: Message) -> Transcript:
        """Return this transcript followed by *messages*."""
        # The list is shared if this is the longest version so far: no version looks beyond its own length.
        items = self._items if len(self._items) == self._length else _Items(self._items[: self._length])
        items.extend(messages)
        longer = Transcript.__new__(Transcript)
        longer._items = items
        longer._length = len(items)
        return longer

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice[int | None, int | None, int | None]) -> tuple[Message, ...]: ...
    def __getitem__(self, index: int | slice[int | None, int | None, int | None]) -> Message | tuple[Message, ...]:
        if isinstance(index, slice):
            return tuple(self._items[i] for i in range(*index.indices(self._length)))
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(index)
        return self._items[position]

    def __iter__(self) -> Iterator[Message]:
        return (self._items[i] for i in range(self._length))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Transcript):
            return NotImplemented
        return self[:] == other[:]

    def __hash__(self) -> int:
        return hash(self[:])

    def __repr__(self) -> str:
        return f"Transcript({list(self)!r})"
