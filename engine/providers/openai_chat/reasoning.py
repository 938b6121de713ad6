"""Thinking in a chat answer, with what its host needs to accept it again.

Theory of operation. A gateway gives thinking as a list of *details* beside its plain
text: pieces of text or of a summary, each perhaps with a signature, and encrypted ones
without any. A piece comes in many deltas. They are put together here, one block of
thinking for each piece of text, and kept in the block's signature, as JSON, without the
text itself, which the transcript has. When the thinking goes back, `parts_to_send` puts
the text in again. LiteLLM has a list of its own, `thinking_blocks`, in Anthropic's form.

Thinking without anything signed or encrypted has no signature: the text is all there is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import attrs

from engine.core.llm_types import ReasoningChunk, ReasoningDone, ReasoningStarted, StreamEvent
from engine.core.messages import ReasoningPart
from engine.providers.wire.untrusted_json import Json, as_list, as_object, dumps, loads, text

Field = Literal["reasoning_details", "thinking_blocks"]
FIELDS: tuple[Field, ...] = ("reasoning_details", "thinking_blocks")

# Where the visible text of a detail stands.
_VISIBLE = ("text", "summary", "thinking")
_SECRET = ("signature", "data")


@attrs.define(eq=False)
class ReasoningBlock:
    """A block of thinking that is open."""

    id: str
    field: Field = "reasoning_details"
    details: list[Json] = attrs.field(factory=list[Json])
    # Of `details`, the one that the text is of.
    _text: Json | None = attrs.field(default=None, init=False)

    def open(self, out: list[StreamEvent]) -> None:
        """Announce it."""
        out.append(ReasoningStarted(self.id))

    def grow(self, piece: str, out: list[StreamEvent]) -> None:
        """Add visible text."""
        if piece:
            out.append(ReasoningChunk(self.id, piece))

    def accepts(self, detail: Json) -> bool:
        """Whether *detail* is a part of this block: another piece of text is another block."""
        return self._text is None or not visible_name(detail) or _is_continuation(self._text, detail)

    def add_detail(self, detail: Json, field: Field) -> None:
        """Take what stands beside the text."""
        self.field = field
        name = visible_name(detail)
        if self._text is not None and name and _is_continuation(self._text, detail):
            self._text.update({word: value for word, value in detail.items() if value and word != name})
            return
        rest = {word: value for word, value in detail.items() if word != name}
        self.details.append(rest)
        if name:
            self._text = rest

    def close(self, out: list[StreamEvent]) -> None:
        """End it."""
        is_signed = any(detail.get(name) for detail in self.details for name in _SECRET)
        signature = dumps({"field": self.field, "details": self.details}) if is_signed else None
        out.append(ReasoningDone(self.id, signature))


def visible_name(detail: Json) -> str:
    """Return the name of the member that holds a detail's text; empty: it has none."""
    for name in _VISIBLE:
        if isinstance(detail.get(name), str):
            return name
    return ""


def visible_text(details: Sequence[Json]) -> str:
    """Return all text of *details*."""
    return "".join(text(detail, visible_name(detail)) for detail in details)


def details_of(delta: Json) -> tuple[Field, list[Json]]:
    """Return the details of a delta, and the name of their list."""
    for field in FIELDS:
        if details := [as_object(each) for each in as_list(delta.get(field))]:
            return field, details
    return "reasoning_details", []


def _is_continuation(before: Json, detail: Json) -> bool:
    """Whether *detail* adds to *before*: the same piece of text."""
    return (
        before.get("type") == detail.get("type")
        and before.get("index") == detail.get("index")
        and (not detail.get("id") or before.get("id") in {None, detail.get("id")})
        # Nothing is added to what was signed, but a signature that is told again.
        and (not before.get("signature") or before.get("signature") == detail.get("signature"))
    )


# -- on its way back -------------------------------------------------------------------


def reasoning_members(thoughts: Sequence[ReasoningPart]) -> Json:
    """Return the members of a message that hold thinking as its host gave it; empty: there is nothing signed."""
    out: Json = {}
    for part in thoughts:
        field, details = _parse_signature(part)
        if details:
            out.setdefault(field, [])
            out[field] += _with_text(details, part.text)
    return out


def is_signed(part: ReasoningPart) -> bool:
    """Whether *part* has what only its host understands."""
    return bool(_parse_signature(part)[1])


def as_details(part: ReasoningPart) -> Iterator[Json]:
    """Yield *part* in the form of gateways, be it signed or not."""
    _, details = _parse_signature(part)
    if details:
        yield from _with_text(details, part.text)
    elif part.text:
        yield {"type": "reasoning.text", "text": part.text, "format": "unknown"}


def _parse_signature(part: ReasoningPart) -> tuple[str, list[Json]]:
    try:
        kept = as_object(loads(part.signature or "{}"))
    except ValueError:
        return "", []
    field = text(kept, "field")
    return field, [as_object(each) for each in as_list(kept.get("details"))] if field in FIELDS else []


def _with_text(details: list[Json], visible: str) -> Iterator[Json]:
    names = {"reasoning.text": "text", "reasoning.summary": "summary", "thinking": "thinking"}
    for detail in details:
        name = names.get(text(detail, "type"))
        yield detail | {name: visible} if name else detail
