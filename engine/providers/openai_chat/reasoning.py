"""Reasoning in a chat response, with the data that its host needs to accept it again.

A gateway sends reasoning as a list of *details*, in addition to the plain text: pieces of text or of a summary, some
with a signature, and encrypted ones without text. A piece comes in many deltas. They are assembled here, one reasoning
block for each piece of text, and kept in the block's signature, as JSON, without the text itself, which the transcript
has. `reasoning_members` puts the text back. LiteLLM has its own list, `thinking_blocks`, in Anthropic's form.

Reasoning without signed or encrypted parts has no signature: the text is all there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import attrs

from engine.core.llm_types import ReasoningChunk, ReasoningDone, ReasoningStarted, StreamEvent
from engine.core.messages import ReasoningPart
from engine.providers.wire.untrusted_json import Json, as_list, as_object, dumps, loads_object, text

Field = Literal["reasoning_details", "thinking_blocks"]
FIELDS: tuple[Field, ...] = ("reasoning_details", "thinking_blocks")

# Members with the visible text of a detail.
_VISIBLE = ("text", "summary", "thinking")
_SECRET = ("signature", "data")


@attrs.define(eq=False, repr=False)
class ReasoningBlock:
    """An open reasoning block."""

    id: str
    field: Field = "reasoning_details"
    details: list[Json] = attrs.field(factory=list[Json])
    # The detail that the text belongs to.
    _text: Json | None = attrs.field(default=None, init=False)

    def open(self, out: list[StreamEvent]) -> None:
        """Start the block."""
        out.append(ReasoningStarted(self.id))

    def grow(self, piece: str, out: list[StreamEvent]) -> None:
        """Append visible text."""
        if piece:
            out.append(ReasoningChunk(self.id, piece))

    def accepts(self, detail: Json) -> bool:
        """Whether *detail* belongs to this block: another piece of text is another block."""
        return self._text is None or not visible_name(detail) or _is_continuation(self._text, detail)

    def add_detail(self, detail: Json, field: Field) -> None:
        """Add the members of *detail* other than its text."""
        self.field = field
        name = visible_name(detail)
        # A later delta of the same piece: its signature comes last.
        if self._text is not None and name and _is_continuation(self._text, detail):
            self._text.update({word: value for word, value in detail.items() if value and word != name})
            return
        rest = {word: value for word, value in detail.items() if word != name}
        self.details.append(rest)
        if name:
            self._text = rest

    def close(self, out: list[StreamEvent]) -> None:
        """End the block."""
        # Without host data the text alone is enough to send it back.
        is_signed = any(detail.get(name) for detail in self.details for name in _SECRET)
        signature = dumps({"field": self.field, "details": self.details}) if is_signed else None
        out.append(ReasoningDone(self.id, signature))


def visible_name(detail: Json) -> str:
    """Return the member with a detail's text; empty if it has none."""
    for name in _VISIBLE:
        if isinstance(detail.get(name), str):
            return name
    return ""


def visible_text(details: Sequence[Json]) -> str:
    """Return the text of all *details*."""
    return "".join(text(detail, visible_name(detail)) for detail in details)


def details_of(delta: Json) -> tuple[Field, list[Json]]:
    """Return the name of the list of details in a delta, and its details."""
    for field in FIELDS:
        if details := [as_object(each) for each in as_list(delta.get(field))]:
            return field, details
    return "reasoning_details", []


def _is_continuation(before: Json, detail: Json) -> bool:
    """Whether *detail* continues *before*, as the same piece of text."""
    return (
        before.get("type") == detail.get("type")
        and before.get("index") == detail.get("index")
        and (not detail.get("id") or before.get("id") in {None, detail.get("id")})
        # A signed piece is complete; only its signature may be repeated.
        and (not before.get("signature") or before.get("signature") == detail.get("signature"))
    )


# -- sending it back -------------------------------------------------------------------


def reasoning_members(thoughts: Sequence[ReasoningPart]) -> Json:
    """Return reasoning in the host's own form; empty if none of it is signed."""
    out: Json = {}
    for part in thoughts:
        field, details = _parse_signature(part)
        if details:
            out.setdefault(field, [])
            out[field] += _with_text(details, part.text)
    return out


def is_signed(part: ReasoningPart) -> bool:
    """Whether *part* has data of its host."""
    return bool(_parse_signature(part)[1])


def as_details(part: ReasoningPart) -> Iterator[Json]:
    """Yield *part* as details, signed or not."""
    _, details = _parse_signature(part)
    if details:
        yield from _with_text(details, part.text)
    elif part.text:
        yield {"type": "reasoning.text", "text": part.text, "format": "unknown"}


def _parse_signature(part: ReasoningPart) -> tuple[str, list[Json]]:
    kept = loads_object(part.signature or "")
    field = text(kept, "field")
    return field, [as_object(each) for each in as_list(kept.get("details"))] if field in FIELDS else []


def _with_text(details: list[Json], visible: str) -> Iterator[Json]:
    names = {"reasoning.text": "text", "reasoning.summary": "summary", "thinking": "thinking"}
    for detail in details:
        name = names.get(text(detail, "type"))
        yield detail | {name: visible} if name else detail
