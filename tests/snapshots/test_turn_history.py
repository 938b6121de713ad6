"""What a record says of its turns."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from engine.core.events import (
    Durable,
    Notice,
    SnapshotTaken,
    StepEnded,
    TurnEnded,
    TurnRedone,
    TurnResult,
    TurnStarted,
    TurnUndone,
)
from engine.core.ids import MessageId, TurnId
from engine.core.messages import Usage
from engine.snapshots.turn_history import PastTurn, TurnHistory, UndoneTurnRecord, turn_history

CRASHED = "it crashed"


def read(*events: Durable) -> TurnHistory:
    numbered = [attrs.evolve(event, time=float(number)) for number, event in enumerate(events)]
    return turn_history(numbered, CRASHED)


def turn(name: str, *trees: str, detail: str = "", between: Sequence[Durable] = ()) -> list[Durable]:
    turn_id = TurnId(name)
    taken = [SnapshotTaken(step=step, tree=tree, turn_id=turn_id) for step, tree in enumerate(trees)]
    result = TurnResult(stop_reason="completed", detail=detail)
    return [TurnStarted(turn_id=turn_id), *taken, *between, TurnEnded(turn_id=turn_id, result=result)]


def missed() -> Notice:
    return Notice(level="info", code="snapshot_missed", text="")


def test_turns_come_and_go() -> None:
    one, two = turn("1", "a", "b"), turn("2")
    undo, redo = TurnUndone(undone=TurnId("2"), keep=0), TurnRedone(redone=TurnId("2"))
    first = PastTurn(turn_id=TurnId("1"), begins=0, trees=("a", "b"), until=3.0, ended=3.0)
    second = PastTurn(turn_id=TurnId("2"), begins=4, began=4.0, until=5.0, ended=5.0)
    assert read(*one, *two).done == (first, second)
    undone = read(*one, *two, undo)
    assert (undone.done, undone.undone) == ((first,), (UndoneTurnRecord(turn=second, at=6, files=(), saved=()),))
    again = read(*one, *two, undo, redo)
    assert (again.done, again.undone) == ((first, second), ())
    third = read(*one, *two, undo, *turn("3"))
    assert [t.turn_id for t in third.done] == ["1", "3"]
    assert third.undone == ()
    assert [t.turn_id for t in third.turns] == ["1", "2", "3"]
    assert third.last_tree == "b"


def test_attempts_belong_to_the_next_undo() -> None:
    attempts = [SnapshotTaken(step=0, tree="x"), SnapshotTaken(step=0, tree="y")]
    undo = TurnUndone(undone=TurnId("1"), keep=0, files=("f",))
    assert read(*turn("1", "a"), *attempts).saved == ("x", "y")
    told = read(*turn("1", "a"), *attempts, undo)
    assert (told.saved, told.undone[0].saved, told.undone[0].files) == ((), ("x", "y"), ("f",))
    restored = Notice(level="info", code="files_restored", text="")
    assert read(*turn("1", "a"), attempts[0], restored, attempts[1]).saved == ("y",)


def test_a_redone_turn_knows_what_it_has_left() -> None:
    undo = TurnUndone(undone=TurnId("1"), keep=0, files=("f", "g"))
    after = SnapshotTaken(step=0, tree="after")
    redo = TurnRedone(redone=TurnId("1"), files=("f",))
    redone = read(*turn("1", "a"), undo, after, redo).done[0]
    assert (redone.redone, redone.tree_redone) == (("f",), "after")
    nothing = read(*turn("1", "a"), undo, after, attrs.evolve(redo, files=())).done[0]
    assert (nothing.redone, nothing.tree_redone) == (None, "")


def test_missed_changes_and_their_time() -> None:
    assert read(*turn("1", "a", between=[missed()])).done[0].is_last_change_missed
    after = SnapshotTaken(step=1, tree="b", turn_id=TurnId("1"))
    assert not read(*turn("1", "a", between=[missed(), after])).done[0].is_last_change_missed
    limited = Notice(level="warning", code="snapshot_limited", text="")
    for notice in (missed(), limited, attrs.evolve(limited, code="snapshot_failed")):
        assert read(*turn("1", between=[notice])).done[0].has_no_snapshot
        assert not read(*turn("1", "a", between=[notice])).done[0].has_no_snapshot
    assert not read(*turn("1", between=[attrs.evolve(limited, level="info")])).done[0].has_no_snapshot
    closed = StepEnded(
        step=1, message_id=MessageId("m"), results_id=MessageId("r"), finish=None, usage=Usage(), cost=0.0
    )
    crashed = read(*turn("1", "a", between=[closed], detail=CRASHED)).done[0]
    # What closes the record of a crash is written later.
    assert (crashed.is_last_change_missed, crashed.until, crashed.ended) == (True, 1.0, 3.0)


def test_nonsense_events_are_skipped() -> None:
    undo, redo = TurnUndone(undone=TurnId("x"), keep=0), TurnRedone(redone=TurnId("x"))
    ended = TurnEnded(result=TurnResult(stop_reason="completed"))
    assert read(undo, redo, ended, missed()) == TurnHistory(turns=(), done=(), undone=(), saved=(), last_tree="")
