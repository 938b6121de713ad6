"""Undo a compaction: the journal has the history before it, and what came since."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from engine.core.events import Durable, HistoryReplaced, TurnRedone, TurnUndone
from engine.core.ids import TurnId
from engine.core.messages import Message, Transcript
from engine.journal.fold import apply
from engine.journal.state import SessionState


@attrs.frozen
class _Record:
    """A compaction that can be undone: the history before it, the history that it made, and its turn."""

    before: Transcript
    messages: tuple[Message, ...]
    turn_id: TurnId | None


def undo_compaction(events: Iterable[Durable]) -> tuple[Message, ...] | str:
    """Return the history of a session without its last compaction, or the reason why that is impossible."""
    state = SessionState()
    log = _CompactionLog()
    for event in events:
        before = state
        state = apply(state, event)
        log.feed(event, before.transcript)
    if not log.records:
        return "there is no compaction to undo"
    last = log.records[-1]
    now = state.transcript
    # Clearing old results since changes messages, but not their ids.
    if [message.id for message in now[: len(last.messages)]] != [message.id for message in last.messages]:
        return "the last compaction can't be undone: the history was changed in other ways since"
    return (*last.before, *now[len(last.messages) :])


@attrs.define(eq=False)
class _CompactionLog:
    """The compactions that can be undone, oldest first."""

    records: list[_Record] = attrs.field(factory=list[_Record], init=False)
    # A compaction that was undone with its turn counts again if the turn is redone.
    _undone: dict[TurnId, list[_Record]] = attrs.field(factory=dict[TurnId, list[_Record]], init=False)

    def feed(self, event: Durable, before: Transcript) -> None:
        match event:
            case HistoryReplaced(kind="compact"):
                self.records.append(_Record(before, event.messages, event.turn_id))
            case HistoryReplaced(kind="restore"):
                del self.records[-1:]
            case HistoryReplaced(kind="fork" | "import"):
                # The history of another session: what was there before is not this session's to put back.
                self.records.clear()
            case TurnUndone(undone=turn_id):
                self._undone[turn_id] = [one for one in self.records if one.turn_id == turn_id]
                self.records = [one for one in self.records if one.turn_id != turn_id]
            case TurnRedone(redone=turn_id):
                self.records += self._undone.pop(turn_id, [])
            case _:
                pass
