"""A content block of a Converse answer while it is open, and what is known only at its end."""

from __future__ import annotations

from base64 import b64decode, b64encode

import attrs

from engine.core.llm_types import Cited, ReasoningChunk, ReasoningDone, StreamEvent, ToolCallChunk
from engine.core.messages import Citation
from engine.providers.wire.untrusted_json import Json, as_list, as_object, dumps, loads, text


@attrs.define(eq=False)
class ConverseBlock:
    """A content block that is open.

    Attributes:
        kind: "text", "reasoning", "call", "item" (gathered, and handed on whole), or "unknown".
        id: of its events.
        member: what its start calls it; empty: it had none.
        content: what came with its start.
    """

    kind: str
    id: str
    member: str = ""
    content: Json = attrs.field(factory=dict[str, object])
    _pieces: list[str] = attrs.field(factory=list[str], init=False)
    _redacted: list[str] = attrs.field(factory=list[str], init=False)
    _results: list[object] = attrs.field(factory=list[object], init=False)

    def add_reasoning(self, delta: Json, out: list[StreamEvent]) -> None:
        """Take more of the thinking, its signature, or thinking that nobody may read."""
        if piece := text(delta, "text"):
            out.append(ReasoningChunk(self.id, piece))
        if piece := text(delta, "signature"):
            self._pieces.append(piece)
        if piece := text(delta, "redactedContent"):
            self._redacted.append(piece)

    def add_citation(self, citation: Json, out: list[StreamEvent]) -> None:
        """Take a source of the text."""
        if citation:
            out.append(Cited(self.id, _citation(citation)))

    def add_delta(self, value: object, out: list[StreamEvent]) -> None:
        """Take more of what had a start."""
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
        """Return the end of the thinking."""
        return ReasoningDone(self.id, "".join(self._pieces) or None, _join_base64(self._redacted) or None)

    def arguments(self) -> object:
        """Return the arguments of a call, parsed; none are `{}`, and None is what is no JSON."""
        document = "".join(self._pieces)
        try:
            return loads(document) if document.strip() else {}
        except ValueError:
            return None

    @property
    def has_pieces(self) -> bool:
        """Whether there is more to it than came with its start."""
        return bool(self._pieces)

    def to_content(self) -> Json | None:
        """Return an item as the content block that a request would hold; None for one that is broken."""
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
    """Add what a host's tool told; a text goes on where the last one ended."""
    last = as_object(results[-1]) if results else {}
    if more and last.keys() == {"text"} and as_object(more[0]).keys() == {"text"}:
        results[-1] = {"text": text(last, "text") + text(as_object(more[0]), "text")}
        more = more[1:]
    results += more


def _join_base64(pieces: list[str]) -> str:
    """Return one base64 text for all *pieces*, each of which is one by itself."""
    if len(pieces) < 2:
        return "".join(pieces)
    try:
        return b64encode(b"".join(b64decode(piece, validate=True) for piece in pieces)).decode()
    except ValueError:
        return "".join(pieces)
