"""A turn whose engine died goes on in another one: from each point of its record, and no call is run a second time."""

from __future__ import annotations

import attrs
import pytest
import trio.testing

import engine
from engine.core.events import (
    CallSettled,
    CallStarted,
    Durable,
    InputPromoted,
    Notice,
    PromptBlocked,
    StepEnded,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from engine.core.hooks import Hooks, PromptDecision, Prompted
from engine.core.messages import UserMessage
from engine.core.settings import Settings
from engine.fleet.recovery import take_over
from engine.journal.interrupted_turn import GO_ON, MOST_RESUMES
from engine.journal.state import SessionState
from engine.session.engine_options import FileOptions
from engine.testing.scripted_provider import ScriptedProvider
from tests.conftest import CountRuns
from tests.fleet.interrupted import AUTO, DEAD, SESSION, home_of, recovered, started, whole_turn
from tests.support.parked import FINE, Home, problems

pytestmark = pytest.mark.slow


def run(function: object, *arguments: object) -> object:
    clock = trio.testing.MockClock(autojump_threshold=0)
    return trio.run(function, *arguments, clock=clock, strict_exception_groups=True)  # type: ignore[arg-type]


def begin_of(events: list[Durable]) -> int:
    """Return how many events there are up to the turn's first one."""
    return next(index for index, event in enumerate(events) if isinstance(event, TurnStarted)) + 1


def test_taker_goes_on_from_every_event(count_runs: CountRuns) -> None:
    """Each prefix of the journal is what some kill leaves: between the flush of a start and that of its result, too."""

    async def main() -> int:
        home, events = await whole_turn()
        interrupted = 0
        for length in range(begin_of(events), len(events)):
            left = events[:length]
            after = await recovered(left, home.ids)
            assert after.problems == [], length
            ended = [event for event in after.events if isinstance(event, TurnEnded)]
            assert len(ended) == 1, length
            # Only where the prompt itself was lost is there nothing to go on with.
            assert (after.turn is None) == (length < begin_of(events) + 1), length
            assert ended[0].result.stop_reason == ("aborted" if after.turn is None else "completed"), (
                length,
                ended[0].result,
            )
            open_calls = started(left) - {event.call_id for event in left if isinstance(event, CallSettled)}
            for event in after.events[length:]:
                if isinstance(event, CallSettled) and event.call_id in open_calls:
                    assert event.settlement.reason == "interrupted_by_crash"
                    assert event.settlement.outcome_unknown
                    interrupted += 1
                assert not (isinstance(event, CallStarted) and event.call_id in started(left)), length
            async with after.home.open() as eng:
                assert await problems(after.home, await eng.open_session(SESSION)) == [], length
        assert interrupted > 5
        return len(events)

    count = run(main)
    assert isinstance(count, int)
    count_runs(count, "kills of an engine whose turn another one goes on with")


async def _state(home: Home) -> SessionState:
    async with home.open() as eng:
        session = await eng.open_session(SESSION)
        return session.state


def test_taker_that_dies_is_taken_over(is_full: bool, count_runs: CountRuns) -> None:
    async def main() -> int:
        home, events = await whole_turn()
        runs = 0
        for length in range(begin_of(events) + 1, len(events), 1 if is_full else 9):
            first = await recovered(events[:length], home.ids)
            for cut in range(length + 1, len(first.events), 1 if is_full else 7):
                second = await recovered(first.events[:cut], home.ids)
                assert second.problems == [], (length, cut)
                ended = [event.result for event in second.events if isinstance(event, TurnEnded)]
                assert [result.stop_reason for result in ended] == ["completed"], (length, cut)
                runs += 1
        return runs

    runs = run(main)
    assert isinstance(runs, int)
    count_runs(runs, "kills of an engine that goes on with another one's turn")


def test_turn_that_ends_each_engine_is_left() -> None:
    """Three engines may have died by chance, at the same step. A fourth does not try."""

    async def main() -> None:
        home, events = await whole_turn()
        cut = next(index for index, event in enumerate(events) if isinstance(event, CallStarted)) + 1
        after = await recovered(events[:cut], home.ids)
        for resumes in range(MOST_RESUMES + 1):
            assert after.problems == []
            assert (after.turn is None) == (resumes == MOST_RESUMES)
            at = next((i for i, e in enumerate(after.events) if isinstance(e, TurnResumed) and i >= cut), None)
            if at is not None:
                cut = at + 1
                after = await recovered(after.events[:cut], home.ids)
        (notice,) = (event for event in after.events[cut:] if isinstance(event, Notice))
        assert "3 engines in a row have ended at this point of it. Next: send a prompt" in notice.text

    run(main)


def test_steps_in_between_allow_more_resumes() -> None:
    async def main() -> None:
        home, left = await whole_turn()
        after = await recovered(left[: begin_of(left) + 2], home.ids)
        for _ in range(MOST_RESUMES + 2):
            assert after.turn is not None
            assert after.problems == []
            new = [index for index, event in enumerate(after.events) if isinstance(event, TurnResumed)][-1]
            ends = [i for i, e in enumerate(after.events) if i > new and isinstance(e, StepEnded)]
            after = await recovered(after.events[: ends[0] + 1], home.ids)

    run(main)


def test_unmarked_turn_is_ended_with_a_notice() -> None:
    async def main() -> None:
        home, events = await whole_turn(Settings())
        cut = next(index for index, event in enumerate(events) if isinstance(event, CallStarted)) + 1
        after = await recovered(events[:cut], home.ids, settings=Settings())
        assert after.turn is None
        assert after.problems == []
        (notice,) = (event for event in after.events[cut:] if isinstance(event, Notice))
        assert notice.code == "interrupted"
        assert "process 7 on elsewhere" in notice.text
        assert "it is not marked to be resumed" in notice.text

    run(main)


def test_missing_folder_leaves_the_turn_to_its_user() -> None:
    async def main() -> None:
        home, events = await whole_turn()
        cut = next(index for index, event in enumerate(events) if isinstance(event, CallStarted)) + 1
        takeover = attrs.evolve(DEAD, obstacle="there is no folder /opt")
        after = await recovered(events[:cut], home.ids, takeover=takeover)
        assert after.turn is None
        (notice,) = (event for event in after.events[cut:] if isinstance(event, Notice))
        assert "there is no folder /opt" in notice.text

    run(main)


def test_model_hears_of_the_takeover_once() -> None:
    async def main() -> None:
        home, events = await whole_turn()
        cut = next(index for index, event in enumerate(events) if isinstance(event, CallStarted)) + 1
        after = await recovered(events[:cut], home.ids)
        state = await _state(after.home)
        said = [message.text for message in state.transcript if isinstance(message, UserMessage)]
        assert said == ["go", GO_ON]
        turns = {event.turn_id for event in after.events if event.turn_id is not None}
        assert len(turns) == 1

    run(main)


def test_hooks_judge_a_prompt_that_they_had_not() -> None:
    """Killed while a hook looks at the prompt, the turn goes on with that look."""

    async def main() -> None:
        home, events = await whole_turn()
        cut = next(i for i, e in enumerate(events) if isinstance(e, InputPromoted)) + 1
        seen: list[str] = []

        async def judge(prompt: Prompted) -> PromptDecision:
            seen.append(prompt.text)
            return PromptDecision(verdict="block", reason="not today")

        survivor = home_of(events[:cut], home.ids)
        eng = engine.open_engine(
            model=ScriptedProvider([FINE]),
            settings=AUTO,
            hooks=Hooks(user_prompt=(judge,)),
            store=survivor.store,
            files=FileOptions(spill="/dev/null"),
        )
        async with eng:
            turn = await take_over(eng, SESSION, DEAD)
            assert turn is not None
            assert (await turn.wait()).stop_reason == "hook_stopped"
        assert seen == ["go"]
        # And again, killed right after it was blocked: that is not forgotten.
        stored = list(await survivor.store.load(SESSION))
        blocked = next(i for i, e in enumerate(stored) if isinstance(e, PromptBlocked)) + 1
        after = await recovered(stored[:blocked], home.ids)
        assert after.turn is None
        (notice,) = (event for event in after.events[blocked:] if isinstance(event, Notice))
        assert "a hook has blocked its prompt" in notice.text

    run(main)
