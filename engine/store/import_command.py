"""The command that imports whole sessions: all of them in one transaction, or none."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from engine.core.errors import StoreError
from engine.core.events import Durable
from engine.core.ids import SessionId
from engine.journal.codec import Schema, encode_event
from engine.journal.json_converter import TAGS
from engine.store.backend import EventRow
from engine.store.leases import session_elsewhere
from engine.store.projection import SessionChange
from engine.store.write_commands import WriteCommand, WriteTransaction, take_lease


@attrs.define(eq=False)
class ImportSessions(WriteCommand):
    """Writes complete journals of new sessions.

    Attributes:
        error: why none was written.
    """

    journals: Sequence[Sequence[Durable]]
    schema: Schema
    error: StoreError | None = attrs.field(default=None, init=False)
    _rows: Sequence[EventRow] | None = attrs.field(default=None, init=False)

    def run(self, at: WriteTransaction) -> None:
        """Write all of them, or none if one exists already."""
        ids = [journal[0].session_id for journal in self.journals]
        self.error = self._claim_all(at, ids)
        if self.error is not None:
            return
        if self._rows is None:
            # Encoded here, in the writer's thread, since it may take seconds; and once, even if the transaction is retried.
            self._rows = [_row(event, self.schema) for journal in self.journals for event in journal]
        at.tables.write(self._rows, [_change(journal) for journal in self.journals])
        for session_id in ids:
            at.tables.release_lease(at.owner, session_id)
            at.forget(session_id, refused=True)

    def _claim_all(self, at: WriteTransaction, ids: Sequence[SessionId]) -> StoreError | None:
        """Claim all of them, so that no other engine creates one in the meantime. Return None, or the error."""
        leases = at.tables.leases_of(ids, at.owner)
        for number, session_id in enumerate(ids):
            holder = take_lease(at.tables, at.owner, session_id, leases.get(session_id))
            is_there = holder is None and at.tables.last_seq(session_id) > 0
            if holder is None and not is_there:
                continue
            for claimed in ids[: number + is_there]:
                if not at.owner.holds(leases.get(claimed)):
                    at.tables.release_lease(at.owner, claimed)
            why = "it exists already" if holder is None else str(session_elsewhere(session_id, holder))
            return StoreError(f"session {session_id} can't be imported: {why}")
        return None


def _row(event: Durable, schema: Schema) -> EventRow:
    tag = TAGS[type(event)]
    return EventRow(event, event.seq or 0, tag, schema.version(tag), encode_event(event, schema=schema))


def _change(journal: Sequence[Durable]) -> SessionChange:
    change = SessionChange.of(journal[0], 1)
    for event in journal:
        change.add(event, event.seq or 0)
    return change
