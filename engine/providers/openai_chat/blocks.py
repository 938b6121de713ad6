"""The blocks of a chat answer: nothing on the wire says where one begins or ends.

Text is a block until something else comes; it stays open to the end all the same, for
what may still be said of it, the sources it cites. Thinking ends where anything else
begins. What only the host understands stands between them.
"""

from __future__ import annotations

import attrs

from engine.core.llm_types import ProviderItem, StreamEvent, TextChunk, TextDone, TextStarted
from engine.providers.openai_chat.citations import Sources
from engine.providers.openai_chat.reasoning import Thought, details_of, shown
from engine.providers.wire.untrusted_json import Json, as_object, dumps, text


@attrs.define(eq=False)
class Blocks:
    """The blocks of one answer.

    Attributes:
        sources: what its text cites.
    """

    sources: Sources = attrs.field(factory=Sources, init=False)
    _ids: set[str] = attrs.field(factory=set[str], init=False)
    _text: str | None = attrs.field(default=None, init=False)
    _is_text_behind: bool = attrs.field(default=False, init=False)
    _thought: Thought | None = attrs.field(default=None, init=False)

    def new_id(self, own: str = "") -> str:
        """Return the host's id of a call, or else a number; never the same one twice."""
        number = len(self._ids)
        new = own if own and own not in self._ids else f"{own}.{number}" if own else str(number)
        while new in self._ids:
            new += "."
        self._ids.add(new)
        return new

    def say(self, piece: str, out: list[StreamEvent]) -> None:
        """Add to the text."""
        if self._text is None or self._is_text_behind:
            self._open_text(out)
            assert self._text is not None
        out.append(TextChunk(self._text, piece))

    def think(self, piece: str, out: list[StreamEvent]) -> None:
        """Add to the thinking."""
        if piece:
            self._open_thought(out).grow(piece, out)

    def think_delta(self, delta: Json, out: list[StreamEvent]) -> None:
        """Add what a delta holds of thinking, in whatever members: the same text twice is taken once."""
        plain = text(delta, "reasoning_content") or text(delta, "reasoning")
        field, details = details_of(delta)
        is_twice = not plain or plain == shown(details)
        if not is_twice:
            self.think(plain, out)
        for detail in details:
            if is_twice and self._thought is not None and not self._thought.takes(detail):
                self.end_thought(out)
            thought = self._open_thought(out)
            if is_twice:
                thought.grow(shown([detail]), out)
            thought.note(detail, field)

    def annotate(self, annotations: list[object], out: list[StreamEvent]) -> None:
        """Take annotations of the message: they belong to the text, be it before or after them."""
        self.sources.annotate(annotations, self._text, out)

    def keep(self, kind: str, data: Json, out: list[StreamEvent]) -> None:
        """Hand on what only the host understands, in its place."""
        self.end_thought(out)
        self._is_text_behind = True
        out.append(ProviderItem(self.new_id(), kind, dumps(data)))

    def keep_signed(self, value: object, out: list[StreamEvent]) -> None:
        """Hand on what Google signs a text or a call with; it says other things in the same place."""
        extra = as_object(value)
        if as_object(extra.get("google")).get("thought_signature"):
            self.keep("extra_content", extra, out)

    def end_thought(self, out: list[StreamEvent]) -> None:
        """Something else begins."""
        if self._thought is not None:
            self._thought.close(out)
            self._thought = None

    def end(self, out: list[StreamEvent]) -> int:
        """End them all; return how many sources there are that belong to no text."""
        self.end_thought(out)
        left = self.sources.finish(self._text, out)
        if self._text is not None:
            out.append(TextDone(self._text))
        return left

    def _open_text(self, out: list[StreamEvent]) -> None:
        self.end_thought(out)
        if self._text is not None:
            out.append(TextDone(self._text))
        self._text, self._is_text_behind = self.new_id(), False
        out.append(TextStarted(self._text))
        self.sources.flush(self._text, out)

    def _open_thought(self, out: list[StreamEvent]) -> Thought:
        if self._thought is None:
            self._thought = Thought(self.new_id())
            self._thought.open(out)
            self._is_text_behind = True
        return self._thought
