"""A compaction cancelled at each of its steps: the old history or the new one, never anything between (promises 1 to 9)."""

from __future__ import annotations

import pytest
import trio

from engine.compaction.compaction_policy import Keeper
from engine.core.errors import ContextOverflow, Overloaded
from engine.core.events import CompactionEnded, CompactionStarted, HistoryReplaced
from engine.core.hooks import Compacted, Compacting, CompactionDecision, Context, Hooks
from engine.core.llm_types import ModelInfo
from engine.testing.cancellation.everywhere import cancel_everywhere
from engine.testing.cancellation.injections import Injection
from engine.testing.harness import Run, Scenario, play
from engine.testing.script import Fail, Pause, call, done, text
from tests.conftest import CountRuns
from tests.support.histories import summary, words

SMALL = ModelInfo(name="scripted/model", context=4_000, output=400)
TALK = [*text(words(2_500)), *call("look", {"key": "a", "seconds": 0.1}, id="1"), *done("calls")]
# After this one, the next request does not fit.
LOOK = [*text(words(1_200)), *call("look", {"key": "b", "seconds": 0.2}, id="2"), *done("calls")]
SUMMARY = [Pause(0.3), *text(summary(done="- looked"), pieces=3), Pause(0.3), *done()]


async def _slow(compacting: Compacting) -> CompactionDecision:
    await trio.sleep(0.2)
    return CompactionDecision(instructions="mind the ports")


async def _slow_after(compacted: Compacted) -> Context:
    await trio.sleep(0.2)
    return Context(context="said by a hook")


HOOKS = Hooks(before_compaction=(_slow,), after_compaction=(_slow_after,))
SCENARIOS = {
    "foreseen": Scenario(script=[TALK, LOOK, SUMMARY], model=SMALL, keeper=Keeper, hooks=HOOKS),
    "repaired, then taken out": Scenario(
        script=[TALK, LOOK, [*text("no form"), *done()], [*text("still none"), Pause(0.2), *done()]],
        model=SMALL,
        keeper=Keeper,
    ),
    "asked for again": Scenario(
        script=[TALK, LOOK, [Fail(Overloaded("busy", retryable=True))], SUMMARY], model=SMALL, keeper=Keeper
    ),
    "after an overflow": Scenario(
        script=[TALK, LOOK, [Fail(ContextOverflow("too long"))], SUMMARY],
        model=ModelInfo(name="scripted/model", context=40_000, output=400),
        keeper=Keeper,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENARIOS)
def test_a_compaction_may_be_cancelled_at_every_point(name: str, is_full: bool, count_runs: CountRuns) -> None:
    report = cancel_everywhere(SCENARIOS[name], ways=("user", "host"), every=1 if is_full else 3)
    report_mixed = cancel_everywhere(
        SCENARIOS[name], ways=("host_deadline", "user_then_host", "leave"), every=10 if is_full else 20
    )
    count_runs(report.runs + report_mixed.runs)
    base = play(SCENARIOS[name])
    assert next(e.outcome for e in base.seen if isinstance(e, CompactionEnded)) == "compacted", "it was really done"


@pytest.mark.slow
def test_cancel_keeps_the_old_or_new_history() -> None:
    scenario = SCENARIOS["foreseen"]
    points = len(play(scenario).points.names)
    outcomes: set[tuple[str, ...]] = set()
    for point in range(0, points, 3):
        run = play(scenario, injection=Injection(way="user", point=point))
        assert run.problems == []
        outcomes.add(_what_happened(run))
    assert outcomes == {
        (),
        ("CompactionStarted", "cancelled"),
        ("CompactionStarted", "HistoryReplaced", "compacted"),
    }


def _what_happened(run: Run) -> tuple[str, ...]:
    """What a subscriber saw of the compaction of the first turn."""
    found: list[str] = []
    for event in run.seen:
        if isinstance(event, CompactionEnded):
            found.append(event.outcome)
            break
        if isinstance(event, (CompactionStarted, HistoryReplaced)):
            found.append(type(event).__name__)
    return tuple(found)
