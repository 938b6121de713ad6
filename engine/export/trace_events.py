"""What the lanes need of a session's events: a small part of them, with long texts cut off. Pure.

The picture itself is made by `engine/control/page/lanes/`, from these events in the file and from the live ones on the page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from heapq import merge
from typing import Final, TypeAlias, cast

from engine.core.events import Durable
from engine.journal.codec import document_of

Document: TypeAlias = "dict[str, object]"

# Characters of a text. The page keeps half of it (KEPT in lane-rows.js), so it draws the same from the whole text.
MOST_CHARS: Final = 800
_BASE: Final = ("type", "session_id", "turn_id", "path", "time", "seq")
# The fields that are kept of each event; an event that is not listed changes nothing in the picture.
_FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "session_created": ("agent", "parent_id", "parent_call_id"),
    "turn_started": ("call_id",),
    "turn_resumed": (),
    "turn_ended": ("result", "ending"),
    "turn_undone": ("undone",),
    "turn_redone": ("redone",),
    "input_admitted": ("input_id", "mode", "message", "by"),
    "input_promoted": ("input_id",),
    "step_started": ("step", "attempt", "model", "parallel"),
    "step_received": (),
    "step_ended": ("finish", "usage", "cost", "kept"),
    "retry_scheduled": ("attempt", "message", "next_at"),
    "recovery_asked": ("request_id", "message"),
    "recovery_answered": ("request_id", "answer", "by"),
    "part_started": ("message_id", "part_id"),
    "part_ended": ("message_id", "part"),
    "part_discarded": ("message_id", "part_id"),
    "call_announced": ("call_id", "tool"),
    "call_queued": ("call_id", "tool", "arguments", "safe"),
    "call_judged": ("call_id", "verdict", "source"),
    "call_started": ("call_id",),
    "call_settled": ("call_id", "settlement"),
    "call_delivered": ("call_id",),
    "permission_asked": ("request_id", "call_id", "permission", "patterns", "detail"),
    "permission_answered": ("request_id", "answer", "feedback", "by"),
    "question_asked": ("request_id", "call_id", "question"),
    "question_answered": ("request_id", "outcome", "answers", "by"),
    "compaction_started": ("trigger",),
    "compaction_ended": ("outcome", "detail"),
    "doom_detected": ("detail",),
    "model_switched": ("model",),
    "notice": ("level", "text"),
    "background_started": ("work_id", "kind", "name", "detail"),
    "background_ended": ("work_id",),
}
_RESULT: Final = ("stop_reason", "detail", "usage", "cost", "steps")
_SETTLEMENT: Final = ("status", "reason", "outcome_unknown", "failed", "text")


def trace_events(journals: Sequence[Sequence[Durable]]) -> list[Document]:
    """Return what the lanes need of *journals*, in the order of time; the events of each session stay in their order."""
    streams = [_timed(journal, number) for number, journal in enumerate(journals)]
    return [document for _, _, document in merge(*streams, key=lambda item: item[:2])]


def _timed(journal: Iterable[Durable], number: int) -> Iterator[tuple[float, int, Document]]:
    """Yield documents with times that never go back, so that merging keeps their order."""
    latest = 0.0
    for event in journal:
        # Before it is turned into JSON: most of a long session is text that no lane shows.
        document = _brief(document_of(event))
        if document is not None:
            latest = max(latest, event.time)
            yield latest, number, document


def _brief(document: Document) -> Document | None:
    fields = _FIELDS.get(cast("str", document["type"]))
    if fields is None:
        return None
    kept = {name: document[name] for name in _BASE}
    for name in fields:
        reduce = _REDUCED.get(name, cut)
        kept[name] = reduce(document[name])
    return kept


def cut(value: object) -> object:
    """Return *value* with the texts in it cut off."""
    if isinstance(value, str):
        return value[:MOST_CHARS]
    if isinstance(value, dict):
        return {name: cut(item) for name, item in cast("Document", value).items()}
    if isinstance(value, list | tuple):
        return [cut(item) for item in cast("Sequence[object]", value)[:MOST_CHARS]]
    return value


def _select(*names: str) -> Callable[[object], object]:
    def select(value: object) -> object:
        return cut({name: cast("Document", value)[name] for name in names})

    return select


def _message_text(value: object) -> object:
    """Return a message as what a client shows of it."""
    message = cast("Document", value)
    shown = message["display"]
    if shown is None:
        parts = cast("Sequence[Document]", message["parts"])
        shown = "\n".join(str(part.get("text", "")) for part in parts)
    return {"display": cut(shown)}


_REDUCED: Final[Mapping[str, Callable[[object], object]]] = {
    "message": lambda value: cut(value) if isinstance(value, str) else _message_text(value),
    "part": _select("id"),
    "result": _select(*_RESULT),
    "settlement": _select(*_SETTLEMENT),
}
