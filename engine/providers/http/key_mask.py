"""Hides our own keys in an answer: a host that quotes what it was sent must not write them into the record.

A key that comes in several chunks is found as well: an end of a chunk that may be the beginning of one is held back until
more has come, or the block ends. Short beginnings are not held back, since many words begin like a key; it is remembered that
they were passed on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final
from urllib.parse import quote

import attrs

from engine.core.llm_types import (
    Cited,
    Finished,
    Ping,
    ProviderItem,
    ReasoningChunk,
    ReasoningDone,
    StreamEvent,
    TextChunk,
    TextDone,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
    Unread,
)
from engine.core.messages import Citation

# A server on this machine may want any word for a key, such as "lm-studio", which an answer may contain.
_SHORTEST: Final = 16
# From this length on a possible beginning is held back. A cancelled answer loses it.
_HELD: Final = 4
_SHOWN: Final = "[key]"

_Chunk = TextChunk | ReasoningChunk | ToolCallChunk
_CHUNKS: Final[dict[type[object], type[_Chunk]]] = {
    TextDone: TextChunk,
    ReasoningDone: ReasoningChunk,
    ToolCallDone: ToolCallChunk,
}


@attrs.define(eq=False, repr=False)
class KeyMask:
    """A filter for the events of one answer. Nothing here is a checkpoint."""

    _keys: tuple[str, ...]
    _any: re.Pattern[str]
    # By block: what may be the beginning of a key, and how much of that was passed on.
    _ends: dict[tuple[type[_Chunk], str], tuple[str, int]] = attrs.field(init=False)

    @classmethod
    def of(cls, secrets: Iterable[str]) -> KeyMask | None:
        """Return a filter for these secrets; None if none of them is long enough to be recognized."""
        forms = {form for one in secrets if len(one) >= _SHORTEST for form in (one, quote(one, safe=""))}
        if not forms:
            return None
        keys = tuple(sorted(forms, key=len, reverse=True))
        return cls(keys, re.compile("|".join(map(re.escape, keys))))

    def __attrs_post_init__(self) -> None:
        self._ends = {}

    def apply(self, events: Sequence[StreamEvent]) -> list[StreamEvent]:
        """Return events without keys. It may hold back an end of the last one: see `finish`."""
        out: list[StreamEvent] = []
        for event in events:
            if isinstance(event, _Chunk):
                out += self._chunk(event)
                continue
            if isinstance(event, TextDone | ReasoningDone | ToolCallDone):
                out += self._rest((_CHUNKS[type(event)], event.id))
            out.append(self._without(event))
        # A batch without events would mean that the answer is over.
        return out or ([Ping()] if events else [])

    def finish(self) -> list[StreamEvent]:
        """Return what was held back: the answer is over, or has failed."""
        return [event for block in tuple(self._ends) for event in self._rest(block)]

    def _chunk(self, event: _Chunk) -> Sequence[_Chunk]:
        block = (type(event), event.id)
        tail, passed = self._ends.pop(block, ("", 0))
        tail += event.text
        shown = ""
        # `in` is much faster than the regular expression, and hardly any answer contains a key.
        if any(key in tail for key in self._keys):
            shown, tail = self._hidden(tail, passed)
            passed = 0
        overlap = max(_overlap(tail, key) for key in self._keys)
        begin = len(tail) - overlap
        until = max(passed, begin if overlap >= _HELD else len(tail))
        shown += tail[passed:until]
        if overlap:
            self._ends[block] = (tail[begin:], max(0, until - begin))
        if shown == event.text:
            return (event,)
        return (attrs.evolve(event, text=shown),) if shown else ()

    def _hidden(self, text: str, passed: int) -> tuple[str, str]:
        """Return what is shown of *text* up to its last key, and the rest. Its first characters have been *passed* on."""
        pieces: list[str] = []
        at = passed
        for match in self._any.finditer(text):
            pieces += [text[at : match.start()], _SHOWN]
            at = match.end()
        return "".join(pieces), text[at:]

    def _rest(self, block: tuple[type[_Chunk], str]) -> Sequence[_Chunk]:
        kind, name = block
        text, passed = self._ends.pop(block, ("", 0))
        return (kind(name, text[passed:]),) if text[passed:] else ()

    def _without(self, event: StreamEvent) -> StreamEvent:
        match event:
            case Cited(id=block, citation=citation):
                texts = {field.name: getattr(citation, field.name) for field in attrs.fields(Citation)}
                return Cited(block, Citation(**{name: self._any.sub(_SHOWN, text) for name, text in texts.items()}))
            case TextDone(id=block, text=text):
                return TextDone(block, self._hide(text))
            case ReasoningDone(id=block, signature=signature, redacted=redacted):
                return ReasoningDone(block, self._hide(signature), self._hide(redacted))
            case ToolCallStarted(id=block, tool=tool):
                return ToolCallStarted(block, self._any.sub(_SHOWN, tool))
            case ToolCallDone(id=block, arguments=arguments, tool=tool):
                return ToolCallDone(block, self._hide(arguments), self._hide(tool))
            case ProviderItem(id=block, kind=kind, data=data):
                return ProviderItem(block, kind, self._any.sub(_SHOWN, data))
            case Finished(reason=reason, raw=raw, detail=detail, response_id=own, response_model=model):
                own, model = self._any.sub(_SHOWN, own), self._any.sub(_SHOWN, model)
                return Finished(reason, self._hide(raw), self._any.sub(_SHOWN, detail), own, model)
            case Unread(kind=kind, count=count):
                return Unread(self._any.sub(_SHOWN, kind), count)
            case _:
                return event

    def _hide(self, text: str | None) -> str | None:
        return None if text is None else self._any.sub(_SHOWN, text)


def _overlap(text: str, key: str) -> int:
    """Return how many characters at the end of *text* are the beginning of *key*."""
    start = len(text) - min(len(text), len(key) - 1)
    while (start := text.find(key[0], start)) >= 0:
        if key.startswith(text[start:]):
            return len(text) - start
        start += 1
    return 0
