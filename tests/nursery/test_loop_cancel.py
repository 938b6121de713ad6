"""Cancels by name: lost, stale, while something is waited for, during the clean-up, twice. Every instant is in properties/."""

from __future__ import annotations

import pytest
import trio
import trio.lowlevel
import trio.testing
from trio.testing import MockClock

import engine
from engine.core.events import (
    CallSettled,
    CallStarted,
    Ending,
    EventBase,
    PartEnded,
    PermissionAnswered,
    PermissionAsked,
    RetryScheduled,
    StepEnded,
    StepStarted,
    TurnEnded,
    TurnEnding,
    TurnResult,
    TurnStarted,
)
from engine.core.llm_types import TextChunk, TextStarted
from engine.core.messages import AssistantMessage, TextPart
from engine.core.settings import Limits, Settings
from engine.journal.state import Idle
from engine.permission.policy import Policy
from engine.testing.fakes import SlowStore
from engine.testing.script import Answer, Break, Pause, call, done, reasoning, text
from engine.tools.tool import Tool
from tests.support.bench import Bench, Nothing
from tests.support.world import World, about, said, world

DONE: Answer = [*text("Done."), *done()]
SLOW: Answer = [TextStarted("t"), TextChunk("t", "Half"), Pause(60), *done()]


def working(seconds: float = 60.0, tool: str = "read") -> Answer:
    return [*call(tool, {"name": "a", "seconds": seconds}, id="1"), *done("calls")]


def settlements(w: World) -> list[str]:
    return [e.settlement.reason or e.settlement.status for e in w.session.events() if isinstance(e, CallSettled)]


def kinds(w: World, *of: type[EventBase]) -> list[str]:
    return [type(e).__name__ for e in w.session.events() if isinstance(e, of)]


# -- announced -------------------------------------------------------------------------------------


async def test_every_watcher_learns_of_a_cancel_first(autojump_clock: MockClock) -> None:
    async with world(working(), tools=Bench().tools()) as w:
        before = w.session.subscribe()
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            watcher = w.session.subscribe()
            turn.cancel()
            turn.cancel()
            first = watcher.try_next()
            assert isinstance(first, TurnEnding)
            assert (first.cause, first.detail) == ("user", "cancelled by the user")
            assert first.until == pytest.approx(first.time + 0.25)
            state = w.session.state.turn
            assert state is not None
            assert state.ending == Ending(
                cause="user", detail="cancelled by the user", until=first.until, at=first.time
            )
            assert w.session.subscribe(after=w.session.state.seq).try_next() == first
        announced = []
        while (event := before.try_next()) is not None:
            announced += [event] if isinstance(event, (TurnEnding, TurnEnded)) else []
        assert announced[0] == first
        assert [type(event) for event in announced] == [TurnEnding, TurnEnded]
        # The record has it, too: who finds the turn later knows when it was cancelled, and by whom.
        assert w.session.events()[-1] == announced[-1]
        assert isinstance(announced[-1], TurnEnded)
        assert announced[-1].ending == state.ending


async def test_finished_turn_announces_no_end(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        watcher = w.session.subscribe()
        await w.session.run("go")
        seen = []
        while (event := watcher.try_next()) is not None:
            seen.append(type(event))
        assert TurnEnding not in seen
        ended = w.session.events()[-1]
        assert isinstance(ended, TurnEnded)
        assert ended.ending is None


async def test_longest_declared_grace_is_announced(autojump_clock: MockClock) -> None:
    @engine.tool(read_only=True, grace=2.0)
    async def patient(args: Nothing, ctx: engine.ToolContext) -> str:
        """Wait."""
        await trio.sleep(60)
        return ""

    script = [*call("patient", {}, id="1"), *call("read", {"name": "a", "seconds": 60}, id="2"), *done("calls")]
    async with world(script, tools=(patient, *Bench().tools())) as w, w.session.prompt("go") as turn:
        await trio.sleep(1)
        watcher = w.session.subscribe()
        turn.cancel()
        first = watcher.try_next()
        assert isinstance(first, TurnEnding)
        assert first.until == pytest.approx(first.time + 2.0)


@pytest.mark.parametrize("way", ["host", "limit", "left"])
async def test_end_by_others_is_announced(way: str, autojump_clock: MockClock) -> None:
    limits = Limits(seconds=1.0) if way == "limit" else Limits()
    async with world(working(), tools=Bench().tools(), settings=Settings(limits=limits)) as w:
        watcher = w.session.subscribe()
        with trio.CancelScope() as host:
            async with w.session.prompt("go") as turn:
                await trio.sleep(0.5)
                if way == "host":
                    host.cancel(reason="the test")
                if way != "left":
                    await turn.wait()
        seen = []
        while (event := watcher.try_next()) is not None:
            seen.append(event)
        (index,) = [n for n, event in enumerate(seen) if isinstance(event, TurnEnding)]
        assert getattr(seen[index], "cause", "") == way
        # Nothing of the call's end comes before it.
        assert not any(isinstance(event, CallSettled) for event in seen[:index])


# -- lost cancels ----------------------------------------------------------------------------------


async def test_lost_cancel_before_the_start(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        turn = w.session.prompt("go")
        turn.cancel()
        async with turn:
            result = await turn.wait()
        assert (result.stop_reason, result.during) == ("aborted", "waiting")
        assert w.requests == [], "no request went out"
        assert kinds(w, TurnStarted, StepStarted, TurnEnded) == ["TurnStarted", "TurnEnded"]
        await w.goes_on()


async def test_lost_cancel_between_start_and_first_step(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        async with w.session.prompt("go") as turn:
            turn.cancel()
            events = [event async for event in turn]
        assert turn.result.stop_reason == "aborted"
        assert w.requests == []
        assert isinstance(events[-1], TurnEnded)
        await w.goes_on()


async def test_lost_cancel_in_the_engines_nursery(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        turn = w.engine.start_turn(w.session, "go")
        turn.cancel()
        assert (await turn.wait()).stop_reason == "aborted"
        assert w.requests == []
        await w.goes_on()


async def test_lost_cancel_of_the_host_before_the_start(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        turn = w.session.prompt("go")
        with trio.CancelScope() as host:
            host.cancel(reason="the test")
            async with turn:
                await turn.wait()
        assert host.cancelled_caught
        assert turn.result.stop_reason == "aborted"
        assert w.requests == []
        await w.goes_on()


async def test_prompt_of_an_immediately_cancelled_turn_is_kept(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        turn = w.session.prompt("first")
        turn.cancel()
        async with turn:
            await turn.wait()
        await w.play("second")
        assert [said(m) for m in w.requests[0].transcript] == ["first", "second"]


# -- stale cancels ------------------------------------------------------------------------------------


async def test_stale_cancel_does_not_reach_the_next_turn(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(DONE, working(5), DONE, tools=bench.tools()) as w:
        async with w.session.prompt("one") as old:
            await old.wait()
        async with w.session.prompt("two") as new:
            await trio.sleep(1)
            old.cancel()
            await trio.sleep(1)
            old.cancel()
            assert (await new.wait()).stop_reason == "completed"
        assert old.result.stop_reason == "completed"


async def test_second_stale_cancel_does_not_reach_next_turn(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(60), working(5), DONE, tools=bench.tools()) as w:
        async with w.session.prompt("one") as old:
            await trio.sleep(1)
            old.cancel()
            await old.wait()
            new = w.engine.start_turn(w.session, "two")
            old.cancel()
            await trio.sleep(1)
            old.cancel()
        old.cancel()
        assert (await new.wait()).stop_reason == "completed"


async def test_stale_cancel_between_last_event_and_block_end(autojump_clock: MockClock) -> None:
    async with world(DONE) as w:
        async with w.session.prompt("go") as turn:
            async for _ in turn:
                pass
            turn.cancel()
        assert turn.result.stop_reason == "completed"
        await w.goes_on()


async def test_late_reply_and_skip_miss_the_next_turn(autojump_clock: MockClock) -> None:
    async with world(DONE, [Break()], DONE) as w:
        async with w.session.prompt("one") as old:
            await old.wait()
        async with w.session.prompt("two") as new:
            await trio.sleep(0.5)
            old.skip_wait()
            await new.wait()
        assert trio.current_time() == about(2), "the retry's delay was kept"


# -- while something is waited for ------------------------------------------------------------------------


async def test_cancel_while_waiting_for_a_permission(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(tool="write"), tools=bench.tools(), approver=Policy()) as w:
        async with w.session.prompt("go") as turn:
            await trio.testing.wait_all_tasks_blocked()
            assert kinds(w, PermissionAsked) == ["PermissionAsked"]
            turn.cancel()
        assert (turn.result.stop_reason, turn.result.during) == ("aborted", "waiting")
        assert (settlements(w), bench.log) == (["not_executed"], [])
        (answered,) = [e for e in w.session.events() if isinstance(e, PermissionAnswered)]
        assert answered.answer == "withdrawn"
        assert trio.current_time() == 0
        await w.goes_on()


async def test_cancel_while_waiting_for_a_retry_delay(autojump_clock: MockClock) -> None:
    async with world([Break()], DONE) as w:
        async with w.session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, RetryScheduled):
                    turn.cancel()
        assert (turn.result.stop_reason, turn.result.during) == ("aborted", "waiting")
        assert trio.current_time() == 0, "it returns at once"
        assert len(w.requests) == 1
        assert w.session.state.status == Idle()
        await w.goes_on()


async def test_cancel_while_a_start_is_being_stored(autojump_clock: MockClock) -> None:
    bench = Bench()
    store = SlowStore(delay=3)
    async with world(working(tool="write"), tools=bench.tools(), store=store) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            assert kinds(w, CallStarted) == ["CallStarted"]
            turn.cancel()
            result = await turn.wait()
        assert (result.stop_reason, result.durable) == ("aborted", True)
        assert trio.current_time() == about(4), "its own flush is all that was waited for"
        assert (settlements(w), bench.log) == (["not_executed"], [])
        await w.goes_on()


async def test_cancel_while_a_step_end_is_being_stored(autojump_clock: MockClock) -> None:
    bench = Bench()
    store = SlowStore(delay=3)
    async with world(working(0, tool="write"), DONE, tools=bench.tools(), store=store) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(3 + 1)
            turn.cancel()
            result = await turn.wait()
        assert (result.stop_reason, result.durable, settlements(w)) == ("aborted", True, ["completed"])
        assert len(w.requests) == 1
        assert kinds(w, StepEnded, TurnEnded) == ["StepEnded", "TurnEnded"]
        await w.goes_on()


async def test_steps_that_only_read_wait_rarely(autojump_clock: MockClock) -> None:
    bench = Bench()
    store = SlowStore(delay=3)
    reads = [[*call("read", {"name": f"a{n}", "seconds": 0.0}, id="1"), *done("calls")] for n in range(8)]
    async with world(*reads, DONE, tools=bench.tools(), store=store) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            assert len(w.requests) == 8, "none of them has waited, but the eighth does"
            await trio.sleep(3)
            assert len(w.requests) == 9
            result = await turn.wait()
        assert (result.stop_reason, result.durable) == ("completed", True)
        await w.goes_on()


async def test_cancel_while_the_turn_end_is_being_stored(autojump_clock: MockClock) -> None:
    store = SlowStore(delay=3)
    async with world(DONE, store=store) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(3 + 1)
            turn.cancel()
            result = await turn.wait()
            assert trio.current_time() == about(6)
        assert (result.stop_reason, result.durable) == ("completed", True)
        await w.goes_on()


async def test_cancel_while_waiting_for_a_store_that_hangs(autojump_clock: MockClock) -> None:
    store = SlowStore(hangs=True)
    async with world(DONE, store=store) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            result = await turn.wait()
            assert trio.current_time() == about(1 + 5), "then it ends without"
        assert (result.stop_reason, result.durable) == ("aborted", False)
        store.hangs = False
        await w.goes_on()


async def test_cancel_before_the_model_answers(autojump_clock: MockClock) -> None:
    async with world([Pause(60), *DONE]) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            result = await turn.wait()
            assert trio.current_time() == about(1)
        assert (result.stop_reason, result.during, result.text) == ("aborted", "streaming", "")
        await w.goes_on()


async def test_cancel_during_an_answer_keeps_its_text(autojump_clock: MockClock) -> None:
    slow: Answer = [*reasoning("Hm."), *SLOW]
    async with world(slow) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
        assert (turn.result.stop_reason, turn.result.during, turn.result.text) == ("aborted", "streaming", "Half")
        last = w.session.state.transcript[-1]
        assert isinstance(last, AssistantMessage)
        assert [p.text for p in last.parts if isinstance(p, TextPart)] == ["Half"]
        assert len([e for e in w.session.events() if isinstance(e, PartEnded)]) == 2
        await w.goes_on()
        assert "Half" in [said(m) for m in w.requests[-1].transcript], "and it is in the next request"


async def test_cancel_of_reasoning_alone_leaves_no_message(autojump_clock: MockClock) -> None:
    thinking: Answer = [*reasoning("Hm, hm."), Pause(60), *done()]
    async with world(thinking) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
        assert [type(m).__name__ for m in w.session.state.transcript] == ["UserMessage"]
        await w.goes_on()


async def test_cancel_during_tools_settles_all_at_once(autojump_clock: MockClock) -> None:
    bench = Bench()
    many = [item for n in range(100) for item in call("read", {"name": f"n{n}", "seconds": 60}, id=f"{n}")]
    settings = engine.Settings(parallel=100)
    async with world([*many, *done("calls")], tools=bench.tools(), settings=settings) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            assert bench.running == 100
            turn.cancel()
            await turn.wait()
            assert trio.current_time() == about(1)
        assert (bench.running, settlements(w)) == (0, ["cancelled"] * 100)
        await w.goes_on()


# -- twice, and during the clean-up -----------------------------------------------------------------------------


def careful(seconds: float, log: list[float]) -> Tool:
    @engine.tool(read_only=True, grace=1.0)
    async def careful(args: Nothing, ctx: engine.ToolContext) -> str:
        """Need some time to let go."""
        try:
            await trio.sleep(60)
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(seconds)
            log.append(trio.current_time())
        return "never"

    return careful


CAREFUL: Answer = [*call("careful", {}, id="1"), *done("calls")]


async def test_cancel_twice(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(), tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            turn.cancel()
            events = [event async for event in turn]
            turn.cancel()
        turn.cancel()
        assert [type(e) for e in events].count(TurnEnded) == 1
        assert (turn.result.stop_reason, settlements(w)) == ("aborted", ["cancelled"])
        await w.goes_on()


async def test_cancel_during_the_clean_up_does_nothing(autojump_clock: MockClock) -> None:
    log: list[float] = []
    async with world(CAREFUL, tools=[careful(0.5, log)]) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            await trio.sleep(0.2)
            turn.cancel()
            assert (await turn.wait()).stop_reason == "aborted"
            assert log == [about(1.5)]
        assert settlements(w) == ["cancelled"]
        await w.goes_on()


async def test_host_cancels_during_clean_up_of_user_cancel(autojump_clock: MockClock) -> None:
    log: list[float] = []
    async with world(CAREFUL, tools=[careful(0.5, log)]) as w:
        turn = w.session.prompt("go")
        with trio.CancelScope() as host:
            async with turn:
                await trio.sleep(1)
                turn.cancel()
                await trio.sleep(0.2)
                host.cancel(reason="the test")
                await turn.wait()
        assert host.cancelled_caught, "a host's cancel always comes out"
        assert log == [about(1.5)]
        assert turn.result.detail == "cancelled by the user", "the first cause is the cause"
        assert settlements(w) == ["cancelled"]
        await w.goes_on()


async def test_user_cancels_during_clean_up_of_host_cancel(autojump_clock: MockClock) -> None:
    log: list[float] = []
    async with world(CAREFUL, tools=[careful(0.5, log)]) as w:

        async def run(host: trio.CancelScope) -> None:
            with host:
                async with w.session.prompt("go") as turn:
                    turns.append(turn)
                    await turn.wait()

        turns: list[engine.Turn] = []
        host = trio.CancelScope()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run, host)
            await trio.sleep(1)
            host.cancel(reason="the test")
            await trio.sleep(0.2)
            turns[0].cancel()
        assert host.cancelled_caught
        assert turns[0].result.detail == "the host cancelled"
        await w.goes_on()


async def test_host_deadline_during_last_flush_saves_the_end(
    autojump_clock: MockClock,
) -> None:
    store = SlowStore(delay=3)
    async with world(DONE, store=store) as w:
        turn = w.session.prompt("go")
        with trio.move_on_after(4) as host:
            async with turn:
                await turn.wait()
        assert host.cancelled_caught
        assert (turn.result.stop_reason, turn.result.durable) == ("completed", True)
        assert trio.current_time() == about(6)
        await w.goes_on()


async def test_cancel_during_another_with_a_stubborn_tool(autojump_clock: MockClock) -> None:
    @engine.tool(read_only=True)
    async def stubborn(args: Nothing, ctx: engine.ToolContext) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(10)
        return "late"

    async with world([*call("stubborn", {}, id="1"), *done("calls")], tools=[stubborn]) as w:
        turn = w.session.prompt("go")
        with trio.CancelScope() as host:
            async with turn:
                await trio.sleep(1)
                turn.cancel()
                await turn.wait()
                assert trio.current_time() == about(1.25)
                host.cancel(reason="the test")
                turn.cancel()
        assert host.cancelled_caught
        assert trio.current_time() == about(10), "the block is left when the task has really gone"
        assert kinds(w, TurnEnded) == ["TurnEnded"]
        await w.goes_on()


# -- who cancels, and what comes out of the block ----------------------------------------------------------------------


async def test_user_cancel_does_not_raise(autojump_clock: MockClock) -> None:
    bench = Bench()
    went_on = False
    async with world(working(), tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            await trio.sleep(5)
            went_on = True
        assert went_on
        assert trio.current_time() == about(6)
        await w.goes_on()


@pytest.mark.parametrize("seed", range(12))
async def test_host_cancel_reports_where_the_turn_was(autojump_clock: MockClock, seed: int) -> None:
    """Trio wakes the cancelled tasks in no order."""
    bench = Bench()
    read = call("read", {"name": "a", "seconds": 60}, id="1")
    cases: list[tuple[Answer, str, str]] = [
        (SLOW, "streaming", "AllowAll"),
        ([*read, Pause(60), *done("calls")], "streaming", "AllowAll"),
        (working(), "tools", "AllowAll"),
        (working(tool="write"), "waiting", "Policy"),
        ([Break()], "waiting", "AllowAll"),
    ]
    for script, during, approver in cases:
        asking = Policy() if approver == "Policy" else None
        async with world(script, tools=bench.tools(), approver=asking) as w:
            turn = w.session.prompt("go")
            with trio.move_on_after(1):
                async with turn:
                    await turn.wait()
            assert (turn.result.stop_reason, turn.result.during) == ("aborted", during)


async def test_host_cancel_propagates_after_clean_up(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(), tools=bench.tools()) as w:
        turn = w.session.prompt("go")
        with trio.move_on_after(1) as host:
            async with turn:
                async for _ in turn:
                    pass
        assert host.cancelled_caught
        assert turn.result == w.session.state.last_result
        assert (turn.result.stop_reason, turn.result.during) == ("aborted", "tools")
        assert (settlements(w), bench.running) == (["cancelled"], 0)
        await w.goes_on()


async def test_leaving_the_block_early_ends_the_turn(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(), tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, CallStarted):
                    break
        assert (turn.result.stop_reason, settlements(w)) == ("aborted", ["cancelled"])
        assert trio.current_time() == 0
        await w.goes_on()


async def test_falling_off_the_block_ends_the_turn(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(), tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn:
            pass
        assert turn.result.stop_reason == "aborted"
        await w.goes_on()


class Mine(BaseException):
    """A host's own."""


async def body(turn: engine.Turn, error: BaseException) -> None:
    async with turn:
        await trio.sleep(1)
        raise error


@pytest.mark.parametrize(
    "error",
    [ValueError("mine"), Mine(), KeyError("x"), ExceptionGroup("mine", [ValueError()]), SystemExit(3)],
    ids=repr,
)
async def test_body_exception_propagates_after_settlement(autojump_clock: MockClock, error: BaseException) -> None:
    bench = Bench()
    async with world(working(), tools=bench.tools()) as w:
        turn = w.session.prompt("go")
        with pytest.raises(type(error)) as caught:
            await body(turn, error)
        assert caught.value is error
        assert (turn.result.stop_reason, settlements(w)) == ("aborted", ["cancelled"])
        await w.goes_on()


async def test_a_tool_may_cancel_its_own_turn(autojump_clock: MockClock) -> None:
    turns: list[engine.Turn] = []

    @engine.tool(read_only=True)
    async def stop_all(args: Nothing, ctx: engine.ToolContext) -> str:
        turns[0].cancel()
        await trio.lowlevel.checkpoint()
        return "never"

    async with world([*call("stop_all", {}, id="1"), *done("calls")], tools=[stop_all]) as w:
        async with w.session.prompt("go") as turn:
            turns.append(turn)
            result = await turn.wait()
        assert (result.stop_reason, settlements(w)) == ("aborted", ["cancelled"])
        await w.goes_on()


async def test_cancelling_a_wait_leaves_the_turn_alone(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(5), DONE, tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn:
            with trio.move_on_after(1):
                await turn.wait()
            with trio.move_on_after(1):
                async for _ in turn:
                    pass
            assert (await turn.wait()).stop_reason == "completed"
        await w.goes_on()


async def test_a_cancelled_iteration_loses_no_event(autojump_clock: MockClock) -> None:
    bench = Bench()
    seen: list[object] = []
    async with world(working(5), DONE, tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn:
            while not turn_is_over(turn):
                with trio.move_on_after(0.1):
                    async for event in turn:
                        seen.append(event)  # noqa: PERF401  # a comprehension would lose what came before the cancel
        durable = [e for e in seen if isinstance(e, EventBase) and e.seq is not None]
        assert [e.seq for e in durable] == list(range(2, 2 + len(durable)))
        assert isinstance(seen[-1], TurnEnded)


def turn_is_over(turn: engine.Turn) -> bool:
    try:
        return bool(turn.result.stop_reason)
    except engine.EngineError:
        return False


async def test_engine_close_ends_turns_in_its_nursery(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(), tools=bench.tools()) as w:
        turn = w.engine.start_turn(w.session, "go")
        await trio.sleep(1)
    assert (turn.result.stop_reason, turn.result.detail) == ("aborted", "the engine was closed")
    assert (settlements(w), bench.running) == (["cancelled"], 0)
    assert trio.current_time() == about(1)


async def test_cancelled_engine_leaves_nothing_unsettled(autojump_clock: MockClock) -> None:
    bench = Bench()
    turns: list[engine.Turn] = []
    worlds: list[World] = []
    with trio.move_on_after(1) as host:
        async with world(working(), tools=bench.tools()) as w:
            worlds.append(w)
            turns.append(w.engine.start_turn(w.session, "go"))
            await trio.sleep_forever()
    assert host.cancelled_caught
    assert turns[0].result.stop_reason == "aborted"
    assert (settlements(worlds[0]), bench.running) == (["cancelled"], 0)


async def test_two_turns_are_left_in_reverse_order(autojump_clock: MockClock) -> None:
    bench = Bench()
    async with world(working(3), SLOW, DONE, tools=bench.tools()) as w:
        other = await w.engine.create_session()
        async with w.session.prompt("outer") as outer:
            await trio.sleep(1)
            async with other.prompt("inner") as inner:
                await trio.sleep(1)
            assert inner.result.stop_reason == "aborted"
            assert (await outer.wait()).stop_reason == "completed"
        await w.goes_on()


# -- at each event ---------------------------------------------------------------------------------------------------------


async def test_cancel_at_each_event_keeps_session_usable(autojump_clock: MockClock) -> None:
    script: list[Answer] = [
        [*reasoning("Hm."), *text("Look."), *call("read", {"name": "a", "seconds": 1}, id="1"), *done("calls")],
        [*call("write", {"name": "b"}, id="1"), *call("read", {"name": "c"}, id="2"), Pause(1), Break()],
        DONE,
    ]

    async def cancelled_at(index: int) -> tuple[int, TurnResult]:
        bench = Bench()
        count = 0
        async with world(*script, tools=bench.tools()) as w:
            events = []
            async with w.session.prompt("go") as turn:
                async for event in turn:
                    events.append(event)
                    count += 1
                    if count == index:
                        turn.cancel()
                        turn.cancel()
            await w.check(w.session, events)
            assert bench.running == 0
            await w.goes_on()
        return count, turn.result

    count, whole = await cancelled_at(-1)
    assert whole.stop_reason == "completed"
    assert count > 40
    for index in range(1, count):
        _, result = await cancelled_at(index)
        assert result.stop_reason in {"aborted", "completed"}
        assert index > 3 or result.stop_reason == "aborted"
