"""An open content block of a Converse response."""

from __future__ import annotations

from base64 import b64decode, b64encode

import attrs

from engine.core.llm_types import Cited, ReasoningChunk, ReasoningDone, StreamEvent, ToolCallChunk
from engine.core.messages import Citation
from engine.providers.wire.untrusted_json import Json, as_list, as_object, dumps, loads, text


@attrs.define(eq=False)
class ConverseBlock:
    """A content block that is still open.

    Attributes:
        kind: "text", "reasoning", "call", "item" (collected, and emitted whole), or "unknown".
        id: the id of its events.
        member: its kind in the start event; empty if it had none.
        content: the content of the start event.
    """

    kind: str
    id: str
    member: str = ""
    content: Json = attrs.field(factory=dict[str, object])
    _pieces: list[str] = attrs.field(factory=list[str], init=False)
    _redacted: list[str] = attrs.field(factory=list[str], init=False)
    _results: list[object] = attrs.field(factory=list[object], init=False)

    def add_reasoning(self, delta: Json, out: list[StreamEvent]) -> None:
        """Add reasoning text, its signature, or redacted reasoning."""
        if piece := text(delta, "text"):
            out.append(ReasoningChunk(self.id, piece))
        if piece := text(delta, "signature"):
            self._pieces.append(piece)
        # Base64, and each delta is padded by itself.
        if piece := text(delta, "redactedContent"):
            self._redacted.append(piece)

    def add_citation(self, citation: Json, out: list[StreamEvent]) -> None:
        """Add a citation."""
        if citation:
            out.append(Cited(self.id, _citation(citation)))

    def add_delta(self, value: object, out: list[StreamEvent]) -> None:
        """Add a delta of a block that had a start event."""
        match self.kind, self.member:
            case "call", _:
                if piece := text(as_object(value), "input"):
                    self._pieces.append(piece)
                    out.append(ToolCallChunk(self.id, piece))
            case "item", "toolUse":
                self._pieces.append(text(as_object(value), "input"))
            case "item", "image":
                self._pieces.append(text(as_object(as_object(value).get("source")), "bytes"))
            case "item", _:
                _add_results(self._results, as_list(value))
            case _:
                pass

    def reasoning_done(self) -> ReasoningDone:
        """Return the end of the reasoning."""
        return ReasoningDone(self.id, "".join(self._pieces) or None, _join_base64(self._redacted) or None)

    def arguments(self) -> object:
        """Parse the arguments of a call; empty ones are `{}`, invalid ones None."""
        document = "".join(self._pieces)
        try:
            return loads(document) if document.strip() else {}
        except ValueError:
            return None

    @property
    def has_pieces(self) -> bool:
        """Whether there were deltas."""
        return bool(self._pieces)

    def to_content(self) -> Json | None:
        """Return an item as the content block of a request; None if its arguments are invalid."""
        match self.member:
            case "toolUse":
                arguments = self.arguments()
                return None if arguments is None else {self.member: self.content | {"input": arguments}}
            case "toolResult":
                return {self.member: self.content | {"content": self._results}}
            case _:
                return {self.member: self.content | {"source": {"bytes": _join_base64(self._pieces)}}}


def _citation(raw: Json) -> Citation:
    web = as_object(as_object(raw.get("location")).get("web"))
    return Citation(
        url=text(web, "url"),
        title=text(raw, "title") or text(raw, "source") or text(web, "domain"),
        quote="".join(text(as_object(each), "text") for each in as_list(raw.get("sourceContent"))),
        raw=dumps(raw),
    )


def _add_results(results: list[object], more: list[object]) -> None:
    """Add the results of a hosted tool; adjacent texts are joined."""
    last = as_object(results[-1]) if results else {}
    if more and last.keys() == {"text"} and as_object(more[0]).keys() == {"text"}:
        results[-1] = {"text": text(last, "text") + text(as_object(more[0]), "text")}
        more = more[1:]
    results += more


def _join_base64(pieces: list[str]) -> str:
    """Join *pieces*, each of which is complete base64, into one base64 text."""
    if len(pieces) < 2:
        return "".join(pieces)
    try:
        return b64encode(b"".join(b64decode(piece, validate=True) for piece in pieces)).decode()
    except ValueError:
        return "".join(pieces)
