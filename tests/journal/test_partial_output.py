"""Drafts: what the store has of open parts, and what is made of it after a kill."""

from __future__ import annotations

import attrs

from engine.core.events import (
    Delta,
    PartDiscarded,
    PartEnded,
    PartReplaced,
    PartStarted,
    SessionCreated,
    SharedContext,
    StepStarted,
    TextDelta,
    TurnStarted,
)
from engine.core.ids import MessageId, PartId, SessionId, TurnId
from engine.core.messages import TextPart
from engine.journal.log import Journal, TurnJournal
from engine.journal.partial_output import SAVE_INTERVAL, DraftSaver, with_drafts
from engine.journal.state import OpenPart
from engine.store.memory import MemoryStore
from tests.support.scribe import new_journal

M, P, Q = MessageId("m"), PartId("p"), PartId("q")


@attrs.define(eq=False)
class DraftingStore(MemoryStore):
    """Keeps drafts in a list; with a fault, it takes none."""

    kept: list[Delta] = attrs.field(factory=list[Delta])
    forgotten: list[PartId] = attrs.field(factory=list[PartId])
    has_failed: bool = False

    def save_draft(self, delta: Delta) -> None:
        if self.has_failed:
            raise OSError("no disk")
        self.kept.append(delta)

    def delete_drafts(self, session_id: SessionId, part_id: PartId) -> None:
        self.forgotten.append(part_id)

    async def drafts(self, session_id: SessionId) -> list[Delta]:
        return self.kept


def begun(*parts: PartId) -> tuple[Journal, TurnJournal, DraftingStore]:
    store = DraftingStore(epoch="e")
    journal = attrs.evolve(new_journal(), store=store, drafts=DraftSaver(store))
    journal.append(SessionCreated(context=SharedContext(cwd="/"), model="m"))
    turn = TurnJournal(journal, TurnId("t"))
    turn.append(TurnStarted())
    turn.append(StepStarted(step=1, attempt=1, message_id=M, model="m"))
    for part_id in parts:
        turn.append(PartStarted(message_id=M, part_id=part_id, kind="text"))
    return journal, turn, store


def after_kill(journal: Journal, store: DraftingStore) -> dict[PartId, str]:
    state = with_drafts(journal.state, journal.events(), store.kept)
    assert state.turn is not None
    assert state.turn.step is not None
    return {part.part_id: part.text for part in state.turn.step.parts}


def save(journal: Journal) -> None:
    assert journal.draft_interval == SAVE_INTERVAL
    journal.save_drafts()


def test_new_text_since_the_last_draft_is_saved() -> None:
    journal, turn, store = begun(P, Q)
    save(journal)
    turn.append_delta(P, "one ", 1.0)
    turn.append_delta(P, "two ", 1.0)
    save(journal)
    save(journal)
    turn.append_delta(Q, "beside", 1.0)
    turn.append_delta(P, "three", 1.0)
    save(journal)
    assert [(d.part_id, d.offset, d.text) for d in store.kept] == [
        (P, 0, "one two "),
        (P, 8, "three"),
        (Q, 0, "beside"),
    ]
    assert all(isinstance(delta, TextDelta) and delta.after == journal.seq for delta in store.kept)
    assert after_kill(journal, store) == {P: "one two three", Q: "beside"}


def test_drafts_are_forgotten_once_their_part_is_over() -> None:
    journal, turn, store = begun(P, Q)
    turn.append(PartStarted(message_id=M, part_id=PartId("short"), kind="text"))
    turn.append_delta(P, "one", 1.0)
    turn.append_delta(Q, "two", 1.0)
    save(journal)
    turn.append(PartEnded(message_id=M, part=TextPart(id=P, text="one")))
    turn.append(PartDiscarded(message_id=M, part_id=Q, reason="failed"))
    turn.append(PartEnded(message_id=M, part=TextPart(id=PartId("short"), text="")))
    assert store.forgotten == [P, Q]
    # A kill between the end of the part and the removal: what is known of it stands.
    assert after_kill(journal, store) == {P: "one", PartId("short"): ""}


def test_restarted_part_drops_its_old_draft() -> None:
    journal, turn, store = begun(P)
    turn.append_delta(P, "wrong", 1.0)
    save(journal)
    turn.append(PartReplaced(message_id=M, part_id=P))
    assert store.forgotten == [P]
    assert after_kill(journal, store) == {P: ""}
    turn.append_delta(P, "right", 1.0)
    save(journal)
    assert after_kill(journal, store) == {P: "right"}


def test_draft_that_does_not_follow_is_ignored() -> None:
    journal, turn, store = begun(P)
    turn.append_delta(P, "one", 1.0)
    save(journal)
    store.kept.append(attrs.evolve(store.kept[0], offset=7, text="far"))
    store.kept.append(attrs.evolve(store.kept[0], part_id=PartId("unknown")))
    assert after_kill(journal, store) == {P: "one"}


def test_session_without_open_step_has_no_drafts() -> None:
    journal, _, store = begun(P)
    idle = attrs.evolve(journal.state, turn=None)
    assert with_drafts(idle, journal.events(), store.kept) is idle


def test_failing_store_costs_only_the_drafts() -> None:
    journal, turn, store = begun(P)
    store.has_failed = True
    turn.append_delta(P, "one", 1.0)
    save(journal)
    turn.append(PartEnded(message_id=M, part=TextPart(id=P, text="one")))
    assert (store.kept, store.forgotten) == ([], [])
    state = journal.state
    assert state.turn is not None
    assert state.turn.step is not None
    assert state.turn.step.parts == (OpenPart(part_id=P, kind="text", text="one", part=TextPart(id=P, text="one")),)
