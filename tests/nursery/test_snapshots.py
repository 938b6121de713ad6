"""The snapshots of a turn: when they are taken, what is in the record, and what a cancel leaves."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import attrs
import pytest
import trio

from engine.core.events import CallAnnounced, CallStarted, Notice, SnapshotTaken, TurnEnded
from engine.core.snapshot_types import SnapshotResult
from engine.testing.cancellation.injections import Injection
from engine.testing.fakes import ScriptedSnapshots
from engine.testing.harness import Run, Scenario, play
from engine.testing.script import Answer, call, done
from engine.testing.turn_points import Way

LOOK = call("look", {"key": "look", "seconds": 0.1}, id="1")
WORK = call("work", {"key": "work", "seconds": 0.1}, id="2")


def played(
    snapshots: ScriptedSnapshots, *answers: Answer, injection: Injection | None = None
) -> tuple[Run, list[object]]:
    run = play(Scenario(script=list(answers), snapshots=lambda: snapshots), injection=injection)
    assert run.problems == []
    ended = next(index for index, event in enumerate(run.seen) if isinstance(event, TurnEnded) and len(event.path) == 1)
    return run, list(run.seen[:ended])


def told(events: Sequence[object]) -> list[object]:
    """Return the snapshots by their steps, the calls by their tools, the notices by their codes."""
    found: list[object] = []
    tools = {event.call_id: event.tool for event in events if isinstance(event, CallAnnounced)}
    for event in events:
        match event:
            case SnapshotTaken():
                found.append(event.step)
            case CallStarted():
                found.append(tools[event.call_id])
            case Notice():
                found.append(event.code)
            case _:
                pass
    return found


def test_snapshots_surround_changing_steps() -> None:
    snapshots = ScriptedSnapshots()
    again = call("work", {"key": "again"}, id="3")
    _, events = played(
        snapshots,
        [*LOOK, *WORK, *done("calls")],
        [*call("look", {"key": "x"}, id="4"), *done("calls")],
        [*again, *done("calls")],
    )
    assert told(events) == ["look", 0, "work", 1, "look", "work", 3]
    assert snapshots.completed == ["tree1", "tree2", "tree3"]


def test_none_for_a_turn_that_only_reads() -> None:
    snapshots = ScriptedSnapshots()
    played(snapshots, [*LOOK, *done("calls")])
    assert snapshots.completed == []


def test_a_sub_agents_changes_are_the_turns() -> None:
    snapshots = ScriptedSnapshots(seconds=0.1)
    _, events = played(snapshots, [*call("sub", {"key": "do"}, id="1"), *done("calls")], [*WORK, *done("calls")])
    taken = [event for event in events if isinstance(event, SnapshotTaken)]
    assert [(event.step, len(event.path)) for event in taken] == [(0, 1), (1, 1)]
    starts = [index for index, event in enumerate(events) if isinstance(event, CallStarted) and len(event.path) == 2]
    assert events.index(taken[0]) < starts[0]


@pytest.mark.parametrize(
    ("snapshots", "code"),
    [(ScriptedSnapshots(fails=True), "snapshot_failed"), (ScriptedSnapshots(seconds=100), "snapshot_limited")],
    ids=["fails", "is slow"],
)
def test_failing_snapshot_is_reported_once(snapshots: ScriptedSnapshots, code: str) -> None:
    more = call("work", {"key": "more"}, id="3")
    run, events = played(
        snapshots, [*WORK, *more, *done("calls")], [*call("work", {"key": "x"}, id="4"), *done("calls")]
    )
    assert told(events) == [code, "work", "work", "work"]
    assert run.result is not None
    assert run.result.stop_reason == "completed"


@attrs.define(eq=False)
class Endless(ScriptedSnapshots):
    """Snapshots that keep to no limit."""

    async def take(self, cwd: str, *, owner: str, paths: Collection[str] = (), within: float) -> SnapshotResult:
        await trio.sleep_forever()
        raise AssertionError


def test_snapshot_without_a_limit_holds_nothing_up() -> None:
    run, events = played(Endless(), [*WORK, *done("calls")])
    assert told(events) == ["snapshot_failed", "work"]
    assert run.result is not None
    assert run.result.stop_reason == "completed"


@pytest.mark.slow
@pytest.mark.parametrize("way", ["user", "host"])
def test_cancelled_snapshot_is_recorded_only_if_complete(way: Way, is_full: bool) -> None:
    answers: list[Answer] = [[*LOOK, *WORK, *done("calls")], [*call("work", {"key": "x"}, id="3"), *done("calls")]]
    base, _ = played(ScriptedSnapshots(seconds=0.1), *answers)
    missed = 0
    for point in range(0, len(base.points.names), 1 if is_full else 3):
        snapshots = ScriptedSnapshots(seconds=0.1)
        _, events = played(snapshots, *answers, injection=Injection(way=way, point=point))
        story = told(events)
        trees = [event.tree for event in events if isinstance(event, SnapshotTaken)]
        assert trees == snapshots.completed[: len(trees)]
        # No change without a snapshot before it, and none after the last one that nobody would know of.
        if "work" in story:
            assert story.index(0) < story.index("work")
        last = max((index for index, what in enumerate(story) if what == "work"), default=-1)
        if last >= 0 and not any(isinstance(what, int) for what in story[last:]):
            assert "snapshot_missed" in story
            missed += 1
    assert missed > 3
