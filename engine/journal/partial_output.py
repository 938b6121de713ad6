"""Drafts: the text of open parts, kept by the store before it stands in any durable event.

A delta is only live: its text appears again when its part ends. So that a kill
takes no more than the last tenth of a second of an answer, the text of open parts is
handed to the store at times; once a part is over, the store forgets its drafts. They
are no events: they have no place in the order, and cursors don't show them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol, runtime_checkable

import attrs

from engine.core import events as ev
from engine.core.ids import PartId, SessionId
from engine.journal.fold import apply
from engine.journal.open_text import OpenText
from engine.journal.state import SessionState

# Less than the tenth of a second that is promised: writing takes its time as well.
SAVE_INTERVAL = 0.075


@runtime_checkable
class DraftStore(Protocol):
    """A store that keeps drafts."""

    def save_draft(self, delta: ev.Delta) -> None:
        """Keep *delta* until its part is over, in order with what is put. Never blocks, not a checkpoint."""
        ...

    def delete_drafts(self, session_id: SessionId, part_id: PartId) -> None:
        """Forget the drafts of a part. Never blocks, not a checkpoint."""
        ...

    async def drafts(self, session_id: SessionId) -> Sequence[ev.Delta]:
        """Return the drafts of a session, those of a part in their order. A checkpoint. Raises `StoreError`."""
        ...


@runtime_checkable
class PacedDrafts(Protocol):
    """A draft store that says how often it wants drafts, since others use its database as well."""

    def draft_interval(self) -> float:
        """Return in how many seconds a stream should save its next draft. Not a checkpoint; must not raise."""
        ...


@attrs.define(eq=False, repr=False)
class DraftSaver:
    """What the store has of the open parts of one journal."""

    _store: DraftStore
    _paced: PacedDrafts | None = attrs.field(init=False)
    _saved: dict[PartId, int] = attrs.field(factory=dict[PartId, int], init=False)
    _has_failed: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self._paced = self._store if isinstance(self._store, PacedDrafts) else None

    def interval(self) -> float:
        """Return in how many seconds to save again. Not a checkpoint."""
        return SAVE_INTERVAL if self._paced is None else self._paced.draft_interval()

    def save(self, texts: Iterable[OpenText], *, after: int, time: float) -> None:
        """Save by how much open parts have grown since the last call. Not a checkpoint.

        Args:
            texts: of the open parts.
            after: the number of the last durable event.
            time: now.
        """
        for text in texts:
            saved = self._saved.get(text.part_id, 0)
            if text.length > saved:
                self._saved[text.part_id] = text.length
                self._call_store(partial(self._store.save_draft, text.rest(offset=saved, after=after, time=time)))

    def note(self, event: ev.Durable) -> None:
        """Delete the drafts of a part that ended or started over. Not a checkpoint."""
        match event:
            case ev.PartEnded():
                self._forget(event.session_id, event.part.id)
            case ev.PartReplaced() | ev.PartDiscarded():
                self._forget(event.session_id, event.part_id)
            case _:
                pass

    def _forget(self, session_id: SessionId, part_id: PartId) -> None:
        if self._saved.pop(part_id, None) is not None:
            self._call_store(partial(self._store.delete_drafts, session_id, part_id))

    def _call_store(self, order: Callable[[], None]) -> None:
        if self._has_failed:
            return
        try:
            order()
        except Exception:  # noqa: BLE001  # a port's; waiting for a durable event reports it
            self._has_failed = True


def with_drafts(state: SessionState, events: Sequence[ev.Durable], drafts: Iterable[ev.Delta]) -> SessionState:
    """Return the fold of *events* with the text that open parts had when the engine was killed."""
    turn = state.turn
    if turn is None or turn.step is None:
        return state
    starts = _text_starts(events, {part.part_id for part in turn.step.parts if part.part is None})
    length = dict.fromkeys(starts, 0)
    for draft in drafts:
        # A kill may come between the end of a part and the removal of its drafts.
        is_of_it = draft.part_id in starts and draft.after >= starts[draft.part_id]
        if is_of_it and draft.offset <= length[draft.part_id]:
            state = apply(state, draft)
            length[draft.part_id] = draft.offset + len(draft.text)
    return state


def _text_starts(events: Sequence[ev.Durable], parts: set[PartId]) -> dict[PartId, int]:
    """Return after which event the present text of each of *parts* begins."""
    starts = dict.fromkeys(parts, 0)
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        if isinstance(event, ev.StepStarted):
            break
        if isinstance(event, ev.PartReplaced) and starts.get(event.part_id) == 0:
            starts[event.part_id] = event.seq or 0
    return starts
