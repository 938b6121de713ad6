"""T6 in the real loop: circles are found across steps, before the call starts, and escalate: nudge, ask, stop."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable

import attrs
import pytest
from trio.testing import MockClock

import engine
from engine.core.errors import ToolError
from engine.core.events import (
    CallSettled,
    CallStarted,
    DoomDetected,
    PermissionAnswered,
    PermissionAsked,
    TurnEnded,
)
from engine.core.hooks import StopDecision, Stopping
from engine.core.llm_types import ModelRequest
from engine.core.settings import Settings
from engine.session.answer_types import Answer as Reply
from engine.session.turn import Turn
from engine.testing.fakes import SlowStore
from engine.testing.script import Answer, call, done, reasoning, text
from engine.tools.tool import Tool
from tests.support.world import Played, React, Seen, said, world

DONE: Answer = [*text("Done."), *done()]
HEADLESS = Settings(headless="deny")


@attrs.frozen(kw_only=True)
class Poll:
    """Look at something."""

    what: str = ""
    n: int = 0


def tools(results: Callable[[str], str] = lambda what: f"{what}: nothing new") -> tuple[Tool, ...]:
    async def poll(args: Poll, ctx: engine.ToolContext) -> str:
        return results(args.what)

    @engine.tool(read_only=True)
    async def fail(args: Poll, ctx: engine.ToolContext) -> str:
        raise ToolError(f"no {args.what} here")

    return engine.tool(name="look", read_only=True)(poll), engine.tool(name="watch", read_only=True)(poll), fail


def step(tool: str, arguments: str) -> Answer:
    return [*call(tool, arguments, id="1"), *done("calls")]


def steps(*what: tuple[str, str]) -> list[Answer]:
    return [step(tool, arguments) for tool, arguments in what]


SAME = ("look", '{"what": "a"}')


def replies(*answers: Reply) -> React:
    """Answer the questions, one after the other."""
    left = list(answers)

    async def react(turn: Turn, event: Seen) -> None:
        if isinstance(event, PermissionAsked):
            await turn.reply(event.request_id, left.pop(0))

    return react


def found(played: Played) -> list[tuple[str, str]]:
    return [(e.kind, e.action) for e in played.all(DoomDetected)]


# -- what is a circle --------------------------------------------------------------------------------


async def test_t6_third_identical_step_is_detected(
    autojump_clock: MockClock,
) -> None:
    async with world(*steps(SAME, SAME, SAME), DONE, tools=tools()) as w:
        played = await w.play()
    order = played.order(CallStarted, DoomDetected)
    assert order == ["CallStarted", "CallStarted", "DoomDetected", "CallStarted"]
    assert found(played) == [("repeat", "nudge")]
    assert [("going in circles" in s.text) for s in played.settlements] == [False, False, True]
    assert "nothing new" in played.settlements[2].text, "the result itself is still there"
    assert played.stop_reason == "completed"


async def test_t6_text_between_calls_hides_no_loop(autojump_clock: MockClock) -> None:
    script = [
        [*reasoning(f"Hm {n}."), *text(f"Let me see ({n})."), *call("look", '{"what": "a"}', id=f"{n}"), *done("calls")]
        for n in range(3)
    ]
    async with world(*script, DONE, tools=tools()) as w:
        played = await w.play()
    assert found(played) == [("repeat", "nudge")]


async def test_t6_the_order_of_keys_makes_no_difference(autojump_clock: MockClock) -> None:
    one, other = '{"what": "a", "n": 2}', '{ "n":2, "what":"a" }'
    async with world(*steps(("look", one), ("look", other), ("look", one)), DONE, tools=tools()) as w:
        played = await w.play()
    assert found(played) == [("repeat", "nudge")]


@pytest.mark.parametrize("period", [1, 2, 3, 4])
async def test_t6_cycle_is_found_at_its_third_round(autojump_clock: MockClock, period: int) -> None:
    names = ["alpha", "bravo", "charlie", "delta"][:period]
    cycle = [("look", f'{{"what": "{name}"}}') for name in names]
    async with world(*steps(*cycle, *cycle, *cycle), DONE, tools=tools()) as w:
        played = await w.play()
    assert found(played) == [("repeat", "nudge")]
    nudged = [i for i, s in enumerate(played.settlements) if "going in circles" in s.text]
    assert nudged == [3 * period - 1]


async def test_t6_two_tools_in_turns_are_a_cycle(autojump_clock: MockClock) -> None:
    cycle = [("look", '{"what": "a"}'), ("watch", '{"what": "a"}')]
    async with world(*steps(*cycle * 3), DONE, tools=tools()) as w:
        played = await w.play()
    assert found(played) == [("repeat", "nudge")]


async def test_t6_other_arguments_each_time_are_no_circle(autojump_clock: MockClock) -> None:
    names = ["src/engine.py", "README", "docs/tutorial/first.md", "tests", "pyproject", "Makefile of the project"]
    calls = [("look", f'{{"what": "{name}"}}') for name in names]
    async with world(*steps(*calls), DONE, tools=tools()) as w:
        played = await w.play()
    assert found(played) == []


async def test_t6_same_call_with_other_results_is_progress(autojump_clock: MockClock) -> None:
    counter = itertools.count()
    async with world(*steps(*[SAME] * 5), DONE, tools=tools(lambda what: f"{next(counter)} of 5 done")) as w:
        played = await w.play()
    assert found(played) == []
    assert played.statuses == ["completed"] * 5


async def test_t6_cycle_with_changing_result_is_progress(autojump_clock: MockClock) -> None:
    counter = itertools.count()
    cycle = [("look", '{"what": "a"}'), ("look", '{"what": "b"}')]

    def result(what: str) -> str:
        return f"tests: {next(counter)} fail" if what == "b" else "same"

    async with world(*steps(*cycle * 4), DONE, tools=tools(result)) as w:
        played = await w.play()
    assert found(played) == []


async def test_t6_three_equal_calls_in_one_message(autojump_clock: MockClock) -> None:
    first = [item for n in range(3) for item in call("look", '{"what": "a"}', id=f"{n}")]
    async with world([*first, *done("calls")], DONE, tools=tools()) as w:
        played = await w.play()
    assert found(played) == [("repeat", "nudge")]


async def test_t6_streak_of_errors_is_detected(autojump_clock: MockClock) -> None:
    names = ["one", "some other", "a third thing", "yet another one", "fifth element", "number six"]
    calls = [("fail", f'{{"what": "{name}"}}') for name in names]
    async with world(*steps(*calls), DONE, tools=tools()) as w:
        played = await w.play()
    assert found(played) == [("errors", "nudge")]
    assert "going in circles" in played.settlements[5].text


async def test_t6_success_ends_a_streak_of_errors(autojump_clock: MockClock) -> None:
    names = ["one", "some other", "a third thing", "yet another one"]
    calls = [("fail", f'{{"what": "{name}"}}') for name in names]
    async with world(*steps(*calls, SAME, *calls), DONE, tools=tools()) as w:
        played = await w.play()
    assert found(played) == []


async def test_t6_similar_arguments_get_nudges_only(autojump_clock: MockClock) -> None:
    """The same words with a number that counts up, and the same answer each time."""
    calls = [("look", f'{{"what": "the build log of the nightly job", "n": {n}}}') for n in range(12)]
    async with world(*steps(*calls), DONE, tools=tools()) as w:
        played = await w.play()
    assert found(played) == [("near_repeat", "nudge")]
    assert (played.stop_reason, set(played.statuses)) == ("completed", {"completed"})


async def test_t6_similar_concurrent_reads_are_no_loop(autojump_clock: MockClock) -> None:
    first = [item for n in range(9) for item in call("look", f'{{"what": "src/module_{n}.py"}}', id=f"{n}")]
    async with world([*first, *done("calls")], DONE, tools=tools(lambda what: f"text of {what}")) as w:
        played = await w.play()
    assert found(played) == []


# -- what is done about it ---------------------------------------------------------------------------------


async def test_t6_escalates_from_nudge_to_question_to_stop(autojump_clock: MockClock) -> None:
    async with world(*steps(*[SAME] * 9), DONE, tools=tools()) as w:
        played = await w.play(react=replies(engine.Once()))
        assert found(played) == [("repeat", "nudge"), ("repeat", "ask"), ("repeat", "stop")]
        asked = played.one(PermissionAsked)
        assert (asked.permission, asked.tool) == ("doom_loop", "look")
        assert played.statuses == ["completed"] * 4 + ["not_executed"]
        assert len(played.all(CallStarted)) == 4
        assert (played.stop_reason, "look" in played.result.detail) == ("doom_loop", True)
        await w.goes_on()


async def test_t6_question_precedes_the_call(autojump_clock: MockClock) -> None:
    async with world(*steps(*[SAME] * 4), DONE, tools=tools()) as w:
        played = await w.play(react=replies(engine.Once()))
    order = played.order(CallStarted, PermissionAsked, PermissionAnswered)
    assert order == ["CallStarted"] * 3 + ["PermissionAsked", "PermissionAnswered", "CallStarted"]
    assert played.stop_reason == "completed"


@pytest.mark.parametrize("answer", [engine.Reject(), engine.Reject(feedback="Enough of that.")], ids=["bare", "told"])
async def test_t6_rejection_stops_the_turn(autojump_clock: MockClock, answer: engine.Reject) -> None:
    async with world(*steps(*[SAME] * 9), tools=tools()) as w:
        played = await w.play(react=replies(answer))
        assert played.stop_reason == "doom_loop"
        assert played.statuses == ["completed"] * 3 + ["not_executed"]
        await w.goes_on()


async def test_t6_always_ends_the_guard_per_call(autojump_clock: MockClock) -> None:
    other = ("look", '{"what": "b"}')
    script = steps(*[SAME] * 12, *[other] * 3)
    async with world(*script, DONE, tools=tools()) as w:
        played = await w.play(react=replies(engine.Always()))
        assert played.stop_reason == "doom_loop"
        assert found(played)[:2] == [("repeat", "nudge"), ("repeat", "ask")]
        assert played.statuses[:14] == ["completed"] * 14, "all of the one that is allowed, and two of the other"


async def test_t6_headless_stops_instead_of_asking(autojump_clock: MockClock) -> None:
    async with world(*steps(*[SAME] * 9), DONE, tools=tools()) as w:
        played = await w.play(settings=HEADLESS)
        assert found(played) == [("repeat", "nudge"), ("repeat", "ask")]
        assert played.all(PermissionAsked) == []
        assert (played.stop_reason, len(played.all(CallStarted))) == ("doom_loop", 3)
        await w.goes_on()


async def test_t6_session_run_is_headless(autojump_clock: MockClock) -> None:
    async with world(*steps(*[SAME] * 9), DONE, tools=tools()) as w:
        result = await w.session.run("go")
    assert result.stop_reason == "doom_loop"


async def test_t6_new_user_input_begins_a_new_window(autojump_clock: MockClock) -> None:
    async with world(*steps(SAME, SAME), DONE, *steps(SAME, SAME), DONE, tools=tools()) as w:
        first, second = await w.play(), await w.play()
    assert (found(first), found(second)) == ([], [])


async def test_t6_a_steer_begins_a_new_window(autojump_clock: MockClock) -> None:
    seen = 0

    async def steer(turn: Turn, event: Seen) -> None:
        nonlocal seen
        if isinstance(event, CallSettled):
            seen += 1
            if seen == 2:
                turn.steer("look again, please")

    async with world(*steps(*[SAME] * 4), DONE, tools=tools()) as w:
        played = await w.play(react=steer)
    assert found(played) == []
    assert len(played.all(CallStarted)) == 4


async def test_t6_stop_settles_running_siblings(autojump_clock: MockClock) -> None:
    alone = step(*SAME)
    both = [*call("look", '{"what": "b"}', id="1"), *call("look", '{"what": "a"}', id="2"), *done("calls")]
    async with world(alone, alone, alone, [*both], DONE, tools=tools()) as w:
        played = await w.play(settings=HEADLESS)
        assert set(played.statuses) <= {"completed", "not_executed", "cancelled"}
        assert played.order(TurnEnded) == ["TurnEnded"]
        await w.goes_on()


# -- monologue ---------------------------------------------------------------------------------------------------


def rambling(times: int) -> Iterable[Callable[[ModelRequest], Answer]]:
    return [lambda request: [*text("I will begin now."), *done()] for _ in range(times)]


async def test_t6_repeated_text_is_nudged_and_stopped(autojump_clock: MockClock) -> None:
    """Something keeps the turn going (a token target, here), but the model says the same thing each time."""
    settings = Settings(token_target=1_000_000, headless="deny")
    async with world(*rambling(20)) as w:
        played = await w.play(settings=settings)
        assert found(played)[0] == ("monologue", "nudge")
        assert found(played)[-1][0] == "monologue"
        assert played.stop_reason in {"doom_loop", "diminishing"}
        await w.goes_on()


async def test_t6_monologue_nudge_reaches_the_model(autojump_clock: MockClock) -> None:
    async def block(stopping: Stopping) -> StopDecision:
        return StopDecision(verdict="block", reason="not yet")

    settings = Settings(stop_hook_limit=10)
    hooks = engine.Hooks(stop=(block,))
    async with world(*rambling(20), settings=settings, hooks=hooks) as w:
        played = await w.play()
        assert found(played) == [("monologue", "nudge"), ("monologue", "ask")]
        assert played.stop_reason == "doom_loop"
        assert [any("circles" in said(m) for m in r.transcript) for r in w.requests] == [False, False, False, True]


# -- what counts as the same result ------------------------------------------------------------------


async def test_t6_durations_are_no_progress(autojump_clock: MockClock) -> None:
    """What the command produced is compared, not the whole text with its duration."""
    count = itertools.count(1)

    @engine.tool(read_only=True)
    async def look(args: Poll, ctx: engine.ToolContext) -> engine.ToolOutput:
        return engine.ToolOutput(text=f"red [exit code 1, 0.{next(count)} s]", produced="red [exit code 1]")

    async with world(*steps(*[SAME] * 9), DONE, tools=[look]) as w:
        played = await w.play(settings=HEADLESS)
    assert (played.stop_reason, len(w.requests)) == ("doom_loop", 4)
    assert played.settlements[0].text == "red [exit code 1, 0.1 s]"


async def test_t6_engine_failures_are_no_loop(autojump_clock: MockClock) -> None:
    """A store that is down fails every call that changes something, whatever the model tries."""

    @engine.tool
    async def write(args: Poll, ctx: engine.ToolContext) -> str:
        raise AssertionError("it can't be recorded, so it must not run")

    async with world(*steps(*[("write", '{"what": "a"}')] * 20), DONE, tools=[write], store=SlowStore(fails=True)) as w:
        played = await w.play(settings=HEADLESS)
    assert {s.text.split(",")[0] for s in played.settlements} == {"Not executed: the store could not record it"}
    assert played.stop_reason == "completed"
    assert played.all(DoomDetected) == []
