"""The blocks of a chat response, whose boundaries are not on the wire.

Text is a block until something else comes; it stays open to the end, for later citations. Reasoning ends where anything
else begins. Provider items stand between blocks.
"""

from __future__ import annotations

import attrs

from engine.core.llm_types import ProviderItem, StreamEvent, TextChunk, TextDone, TextStarted
from engine.providers.openai_chat.citations import CitationCollector
from engine.providers.openai_chat.reasoning import ReasoningBlock, details_of, visible_text
from engine.providers.wire.untrusted_json import Json, as_object, dumps, text


@attrs.define(eq=False, repr=False)
class AnswerBlocks:
    """The blocks of one response.

    Attributes:
        sources: its citations.
    """

    sources: CitationCollector = attrs.field(factory=CitationCollector, init=False)
    _ids: set[str] = attrs.field(factory=set[str], init=False)
    _text: str | None = attrs.field(default=None, init=False)
    _is_text_interrupted: bool = attrs.field(default=False, init=False)
    _reasoning: ReasoningBlock | None = attrs.field(default=None, init=False)

    def new_id(self, own: str = "") -> str:
        """Return the host's id of a call, else a number; always unique."""
        number = len(self._ids)
        new = own if own and own not in self._ids else f"{own}.{number}" if own else str(number)
        while new in self._ids:
            new += "."
        self._ids.add(new)
        return new

    def add_text(self, piece: str, out: list[StreamEvent]) -> None:
        """Append to the text."""
        if self._text is None or self._is_text_interrupted:
            self._open_text(out)
            assert self._text is not None
        out.append(TextChunk(self._text, piece))

    def add_reasoning(self, piece: str, out: list[StreamEvent]) -> None:
        """Append to the reasoning."""
        if piece:
            self._open_reasoning(out).grow(piece, out)

    def add_reasoning_delta(self, delta: Json, out: list[StreamEvent]) -> None:
        """Add the reasoning of a delta, from any of its members; text in two members counts once."""
        plain = text(delta, "reasoning_content") or text(delta, "reasoning")
        field, details = details_of(delta)
        # OpenRouter sends the same text as `reasoning` and in the details.
        is_twice = not plain or plain == visible_text(details)
        if not is_twice:
            self.add_reasoning(plain, out)
        for detail in details:
            if is_twice and self._reasoning is not None and not self._reasoning.accepts(detail):
                self.end_reasoning(out)
            thought = self._open_reasoning(out)
            if is_twice:
                thought.grow(visible_text([detail]), out)
            thought.add_detail(detail, field)

    def annotate(self, annotations: list[object], out: list[StreamEvent]) -> None:
        """Add annotations of the message: they belong to the text, before or after them."""
        self.sources.annotate(annotations, self._text, out)

    def add_item(self, kind: str, data: Json, out: list[StreamEvent]) -> None:
        """Emit a provider item at its position."""
        self.end_reasoning(out)
        self._is_text_interrupted = True
        out.append(ProviderItem(self.new_id(), kind, dumps(data)))

    def add_signed_item(self, value: object, out: list[StreamEvent]) -> None:
        """Emit Google's signature of a text or a call; other members are ignored."""
        extra = as_object(value)
        if as_object(extra.get("google")).get("thought_signature"):
            self.add_item("extra_content", extra, out)

    def end_reasoning(self, out: list[StreamEvent]) -> None:
        """End the reasoning: something else begins."""
        if self._reasoning is not None:
            self._reasoning.close(out)
            self._reasoning = None

    def end(self, out: list[StreamEvent]) -> int:
        """End all blocks; return how many citations have no text."""
        self.end_reasoning(out)
        left = self.sources.finish(self._text, out)
        if self._text is not None:
            out.append(TextDone(self._text))
        return left

    def _open_text(self, out: list[StreamEvent]) -> None:
        self.end_reasoning(out)
        if self._text is not None:
            out.append(TextDone(self._text))
        self._text, self._is_text_interrupted = self.new_id(), False
        out.append(TextStarted(self._text))
        self.sources.flush(self._text, out)

    def _open_reasoning(self, out: list[StreamEvent]) -> ReasoningBlock:
        if self._reasoning is None:
            self._reasoning = ReasoningBlock(self.new_id())
            self._reasoning.open(out)
            self._is_text_interrupted = True
        return self._reasoning
