"""Converts a `SessionChange` to values for the tables `sessions`, `spent` and `texts`, the same in every database."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

from engine.core.ids import SessionId
from engine.store.projection import IndexedText, RemovedText, SessionChange, storable

# Only the beginning of each text is indexed: a pasted log would make the index larger than the journal.
INDEXED_CHARS: Final = 65_536
# Per batch, so that sums stay within SQLite's integers.
_MAX_COUNT: Final = 1 << 48


def session_values(change: SessionChange) -> dict[str, str | float | None]:
    """Return what *change* adds to a session's row, by the parameter names of the upsert."""
    usage, step_model, title = change.spending.usage, change.spending.step_model, change.texts.new_title
    # Clamped: one event with absurd counts must not block all others.
    return {
        "id": change.session_id,
        "parent": change.parent,
        "root": storable(change.root),
        "title": change.texts.first_prompt,
        "cwd": storable(change.cwd),
        "model": storable(change.model),
        "created": finite(change.created),
        "updated": finite(change.updated),
        "seq": change.last,
        "messages": change.messages,
        "turns": change.turns,
        "is_busy": change.is_busy,
        "asked": change.open_questions,
        "asked_anew": change.is_questions_reset,
        "stop_reason": change.stop_reason,
        "input": _clamped(usage.input),
        "output": _clamped(usage.output),
        "cache_read": _clamped(usage.cache_read),
        "cache_write": _clamped(usage.cache_write),
        "reasoning": _clamped(usage.reasoning),
        "cost": finite(change.spending.cost),
        "given_title": "" if title is None else title.title,
        "titled_by": "" if title is None else title.by,
        "forked_from": None if change.forked_from is None else storable(change.forked_from),
        "agent": storable(change.agent),
        "step_model": None if step_model is None else storable(step_model),
    }


def spending_values(change: SessionChange) -> Iterator[tuple[str | float | None, ...]]:
    """Yield what *change* adds to the table `spent`, in the order of its columns, and the session's id last."""
    for (slot, model), spent in change.spending.amounts.items():
        usage = spent.usage
        sums = (usage.input, usage.output, usage.cache_read, usage.cache_write, usage.reasoning)
        yield (
            slot,
            storable(change.root),
            None if model is None else storable(model),
            spent.steps,
            *map(_clamped, sums),
            finite(spent.cost),
            change.session_id,
        )


def finite(value: float) -> float:
    """Return *value*; 0 for NaN and infinities."""
    return value if math.isfinite(value) else 0.0


def _clamped(value: int) -> int:
    return max(0, min(value, _MAX_COUNT))


class TextTable(Protocol):
    """The table of searchable texts in one database."""

    def add(self, texts: Sequence[tuple[SessionId, IndexedText]]) -> None:
        """Add texts, in order."""
        ...

    def remove(self, session_id: SessionId, removed: RemovedText) -> None:
        """Remove the texts of a message, or of one part of it."""
        ...

    def remove_title(self, session_id: SessionId) -> None:
        """Remove the text of the session's title."""
        ...

    def titled_by(self, session_id: SessionId) -> str:
        """Return whether the user or a model set the title, from the session's row, which is already written."""
        ...


def write_texts(table: TextTable, changes: Iterable[SessionChange]) -> None:
    """Add and remove texts in order; consecutive additions become one call."""
    added: list[tuple[SessionId, IndexedText]] = []
    for change in changes:
        for text in change.texts.changes:
            if isinstance(text, RemovedText):
                # Collected, because one statement for many rows is much cheaper; but a removal must find what came
                # before it.
                table.add(added)
                added = []
                table.remove(change.session_id, text)
            elif isinstance(text, IndexedText):
                added.append((change.session_id, text))
            elif table.titled_by(change.session_id) == text.by:
                table.remove_title(change.session_id)
                if text.title:
                    added.append((change.session_id, IndexedText(text.seq, "title", "", "", text.time, text.title)))
    table.add(added)
