"""Parking: a turn that only waits outlives its engine, and goes on in another; nothing is run twice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.core.errors import (
    CallNotFound,
    ConfigError,
    NothingParked,
    RequestNotFound,
    SessionBusy,
    StoreError,
    TurnNotEnded,
    TurnParked,
)
from engine.core.events import (
    CallDelivered,
    CallQueued,
    CallSettled,
    CallStarted,
    ContextChanged,
    Durable,
    PermissionAnswered,
    PermissionAsked,
    QuestionAsked,
    StepEnded,
    StepReceived,
    StepStarted,
    TurnEnded,
    TurnResumed,
    TurnStarted,
)
from engine.core.ids import SessionId
from engine.core.messages import ResultsMessage, Settlement, Usage
from engine.core.settings import Limits, Settings
from engine.journal.closing_events import SUPERSEDED
from engine.journal.fold import fold
from engine.journal.state import Idle, Waiting
from engine.session.engine_options import PermissionOptions
from engine.session.session import live_session
from engine.session.turn import start_turn
from engine.testing.fakes import SlowStore
from engine.testing.invariants import Evidence, Seen, check
from engine.testing.script import call, done, text
from tests.support.parked import FINE, Approve, Do, Home, asks, do, look, office, question, seen

pytestmark = pytest.mark.usefixtures("autojump_clock")

NO_RESULT = "no call 'x' waits for a result: it has one, was cancelled, or was never asked for"


async def verify(home: Home, session: engine.Session) -> None:
    """Check all promises, on what a subscriber from the beginning is shown."""
    cursor = session.subscribe(after=0)
    events: list[Seen] = list(iter(cursor.try_next, None))
    stored = await home.store.load(session.id)
    found = Evidence(events=events, transcript=session.state.transcript, stored=stored, state=session.state)
    assert check(found) == []
    assert fold(stored) == session.state


def results(session: engine.Session) -> dict[str, Settlement]:
    calls = {e.call_id: e.arguments for e in session.events() if isinstance(e, CallQueued)}
    given = [r for m in session.state.transcript if isinstance(m, ResultsMessage) for r in m.results]
    return {calls[result.call_id]: result.settlement for result in given}


def kinds(events: Sequence[object], *wanted: type[Durable]) -> list[str]:
    return [type(event).__name__ for event in events if isinstance(event, wanted)]


# ---- a permission ----------------------------------------------------------------------------------------------------


async def test_waiting_turn_resumes_in_another_engine() -> None:
    home = Home([asks(*look("a"), *do("b"), *do("c")), FINE])
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        turn = eng.start_turn(session, "go")
        (*_, asked) = await seen(turn, PermissionAsked)
        before = live_session(session).journal.seq
    with pytest.raises(TurnParked, match=r"session\.resume"):
        await turn.wait()
    with pytest.raises(TurnNotEnded):
        _ = turn.result
    with pytest.raises(TurnParked):
        async for _ in turn:
            pass
    # It was left as it stood: nothing was settled, withdrawn, or ended.
    stored = await home.store.load(session.id)
    assert len(stored) == before
    assert kinds(stored, StepReceived, PermissionAsked, PermissionAnswered, StepEnded, TurnEnded) == [
        "PermissionAsked",  # while the answer still came
        "StepReceived",
    ]
    assert home.done == []
    assert isinstance(asked, PermissionAsked)

    async with home.open() as eng:
        session = await eng.open_session(session.id)
        waiting = session.state.status
        assert waiting == Waiting((asked.request_id,))
        with pytest.raises(TurnParked, match="resume"):
            await session.reply(asked.request_id, engine.Once())
        with pytest.raises(RequestNotFound):
            await session.reply("another", engine.Once())
        async with session.resume() as resumed:
            assert resumed.id == turn.id
            async for event in resumed:
                if isinstance(event, PermissionAsked):
                    assert event.request_id != asked.request_id
                    await resumed.reply(event.request_id, engine.Once())
        assert (resumed.result.stop_reason, resumed.result.text, resumed.result.steps) == ("completed", "All done.", 2)
        assert home.done == ["b", "c"]
        assert session.state.status == Idle()
        assert [s.text for s in results(session).values()] == ["saw a", "did b", "did c"]
        own = [event for event in session.events() if event.turn_id == turn.id]
        assert kinds(own, TurnStarted, TurnResumed, StepStarted, StepReceived, StepEnded, TurnEnded) == [
            *("TurnStarted", "StepStarted", "StepReceived", "TurnResumed", "StepEnded"),
            *("StepStarted", "StepEnded", "TurnEnded"),
        ]
        assert (await session.run("next", settings=Settings())).stop_reason == "provider_error"  # the script is over
        await verify(home, session)


async def test_killed_engine_can_be_resumed() -> None:
    home = Home([asks(*do("a")), FINE])
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        async with session.prompt("go") as turn:  # a block's own turn may be killed as well
            await seen(turn, PermissionAsked)
            await home.kill(session.id)
    assert home.done == []
    async with home.open() as eng:
        session = await eng.open_session(session.id)
        turn = eng.resume_turn(session)
        (*_, asked) = await seen(turn, PermissionAsked)
        assert isinstance(asked, PermissionAsked)
        await session.reply(asked.request_id, engine.Once())
        assert (await turn.wait()).stop_reason == "completed"
        assert home.done == ["a"]
        await verify(home, session)


async def test_a_turn_may_be_parked_again_and_again() -> None:
    home = Home([asks(*do("a")), asks(*do("b")), FINE])
    session_id = await home.parked(PermissionAsked)
    for _ in range(3):
        async with home.open() as eng:
            turn = eng.resume_turn(await eng.open_session(session_id))
            await seen(turn, PermissionAsked)
    async with home.open() as eng:
        session = await eng.open_session(session_id)
        async with session.resume() as turn:
            async for event in turn:
                if isinstance(event, PermissionAsked):
                    await turn.reply(event.request_id, engine.Once())
        assert turn.result.steps == 3
        assert home.done == ["a", "b"]
        assert len(kinds(session.events(), TurnResumed)) == 4
        await verify(home, session)


async def test_the_rules_of_today_hold() -> None:
    home = Home([asks(*do("a"), *do("b")), FINE])
    session_id = await home.parked(PermissionAsked)
    async with home.open() as eng:
        session = await eng.open_session(session_id, rules=["deny do *"])
        async with session.resume() as turn:
            await turn.wait()
        assert turn.result.stop_reason == "completed"
        assert {s.status for s in results(session).values()} == {"denied"}
        assert home.done == []


async def test_a_tool_that_is_gone_is_refused() -> None:
    home = Home([asks(*do("a")), FINE])
    session_id = await home.parked(PermissionAsked)
    async with home.open(tools=[]) as eng:
        session = await eng.open_session(session_id)
        async with session.resume() as turn:
            await turn.wait()
        (settled,) = results(session).values()
        assert (settled.status, home.done) == ("error", [])
        assert "no tool" in settled.text
        await verify(home, session)


async def test_usage_before_parking_is_counted() -> None:
    usage = Usage(input=100, output=10)
    first = [*text("One."), *do("a"), *done("calls", usage=usage)]
    second = [*text("Two."), *do("b"), *done("calls", usage=usage)]
    home = Home([first, second, FINE], settings=Settings(limits=Limits(steps=2), wrap_up=False))
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        turn = eng.start_turn(session, "go")
        (*_, asked) = await seen(turn, PermissionAsked)
        assert isinstance(asked, PermissionAsked)
        await session.reply(asked.request_id, engine.Once())
        await seen(turn, PermissionAsked)
    async with home.open() as eng:
        session = await eng.open_session(session.id)
        async with session.resume() as turn:
            async for event in turn:
                if isinstance(event, PermissionAsked):
                    await turn.reply(event.request_id, engine.Once())
        result = turn.result
        assert (result.stop_reason, result.steps, result.usage, result.text) == ("step_limit", 2, usage + usage, "Two.")
        assert session.state.usage == usage + usage
        await verify(home, session)


async def test_context_changes_before_parking_are_kept() -> None:
    home = Home([asks(*look("a"), *do("b")), FINE])
    session_id = await home.parked(PermissionAsked)
    async with home.open() as eng:
        session = await eng.open_session(session_id)
        assert session.state.context.get("seen") == '"a"'
        assert kinds(session.events(), ContextChanged) == ["ContextChanged"]


# ---- a question, a result from outside -------------------------------------------------------------------------------


async def test_open_question_is_asked_again() -> None:
    home = Home([asks(*question("This?", "That?")), FINE])
    session_id = await home.parked(QuestionAsked)
    async with home.open() as eng:
        session = await eng.open_session(session_id)
        assert session.state.turn is not None
        with pytest.raises(TurnParked):
            await session.answer(session.state.turn.waiting[0], "yes")
        async with session.resume() as turn:
            async for event in turn:
                if isinstance(event, QuestionAsked):
                    await turn.answer(event.request_id, "yes")
        (settled,) = results(session).values()
        assert settled.text.count("Answer: yes") == 2
        assert kinds(session.events(), CallStarted, TurnResumed) == [
            "CallStarted",
            "TurnResumed",
            "CallStarted",
        ]
        await verify(home, session)


async def test_external_result_may_follow_a_restart() -> None:
    home = Home([asks(*office("the trip")), FINE])
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        turn = eng.start_turn(session, "go")
        (*_, started) = await seen(turn, CallStarted)
        assert isinstance(started, CallStarted)
        for wrong in ("x", ""):
            with pytest.raises(CallNotFound):
                await session.settle(wrong, "approved")
    async with home.open() as eng:
        session = await eng.open_session(session.id)
        with pytest.raises(TurnParked, match="resume"):
            await session.settle(started.call_id, "approved")
        with pytest.raises(CallNotFound):
            await session.settle("x", "approved")
        turn = eng.resume_turn(session)
        await seen(turn, CallStarted)
        await session.settle(started.call_id, "approved", metadata='{"by":"Ann"}')
        stored = await home.store.load(session.id)
        expected = Settlement(status="completed", text="approved", metadata='{"by":"Ann"}')
        assert [event.settlement for event in stored if isinstance(event, CallSettled)] == [expected]
        with pytest.raises(CallNotFound):
            await session.settle(started.call_id, "approved")
        assert (await turn.wait()).stop_reason == "completed"
        await verify(home, session)


@pytest.mark.parametrize("steps", range(8))
async def test_result_during_closing_is_stored_or_refused(steps: int) -> None:
    home = Home([asks(*office("the trip")), FINE])
    outcome: list[object] = []

    async def bring(call_id: str) -> None:
        try:
            await session.settle(call_id, "approved")
            outcome.append("taken")
        except TurnParked:
            outcome.append("refused")

    async with trio.open_nursery() as nursery:
        with trio.fail_after(60):
            async with home.open() as eng:
                session = await eng.create_session(cwd="/opt")
                (*_, started) = await seen(eng.start_turn(session, "go"), CallStarted)
                assert isinstance(started, CallStarted)
                nursery.start_soon(bring, started.call_id)
                for _ in range(steps):
                    await trio.lowlevel.checkpoint()
            while not outcome:
                await trio.sleep(0.1)
    settled = [event.settlement.text for event in await home.store.load(session.id) if isinstance(event, CallSettled)]
    assert (outcome, settled) in [(["taken"], ["approved"]), (["refused"], [])]
    async with home.open() as eng:
        session = await eng.open_session(session.id)
        assert (session.state.turn is not None) == (outcome == ["refused"])


async def test_a_result_from_outside_may_report_failure() -> None:
    home = Home([asks(*office("a"), *office("b", id="o2")), FINE])
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, CallStarted):
                    await trio.testing.wait_all_tasks_blocked()
                    await session.settle(event.call_id, "no", failed=True)
        assert [(s.status, s.failed, s.text) for s in results(session).values()] == [("completed", True, "no")] * 2


async def test_second_wait_for_a_result_is_the_tools_error() -> None:
    """The first wait keeps its slot: its result still comes."""

    @engine.tool(read_only=True)
    async def twice(args: Do, ctx: engine.ToolContext) -> engine.ToolOutput:
        found: list[engine.ToolOutput] = []

        async def wait() -> None:
            found.append(await ctx.result_from_outside())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(RuntimeError, match="waits for a result from outside already"):
                await ctx.result_from_outside()
        return found[0]

    home = Home([asks(*call("twice", {"key": "a"}, id="t")), FINE])
    async with home.open(tools=[twice]) as eng:
        session = await eng.create_session(cwd="/opt")
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, CallStarted):
                    await trio.testing.wait_all_tasks_blocked()
                    await trio.testing.wait_all_tasks_blocked()
                    await session.settle(event.call_id, "booked")
        assert [(s.status, s.text) for s in results(session).values()] == [("completed", "booked")]


@pytest.mark.parametrize(
    ("call_id", "text", "more"),
    [(1, "x", {}), ("x", None, {}), ("x", "y", {"failed": 1}), ("x", "y", {"metadata": b""})],
)
async def test_nonsense_for_a_result(call_id: object, text: object, more: dict[str, object]) -> None:
    home = Home([])
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        with pytest.raises(ConfigError, match=r"session\.settle takes"):
            await session.settle(call_id, text, **more)  # type: ignore[arg-type]  # nonsense


async def test_call_waiting_for_result_is_cancelled_with_turn() -> None:
    home = Home([asks(*office("the trip"))])
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        async with session.prompt("go") as turn:
            (*_, started) = await seen(turn, CallStarted)
            turn.cancel()
            await turn.wait()
        assert isinstance(started, CallStarted)
        (settled,) = results(session).values()
        assert (settled.status, settled.reason) == ("aborted", "cancelled")
        with pytest.raises(CallNotFound):
            await session.settle(started.call_id, "too late")


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("_time", range(4))  # the order of tasks that are woken together is random
async def test_settling_agrees_with_the_record_of_a_cancel(is_first: bool, _time: int) -> None:
    """A cancel in the same breath: what `settle` says is what the record says."""
    outcome = "completed"
    home = Home([asks(*office("the trip"))])
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        async with session.prompt("go") as turn:
            (*_, started) = await seen(turn, CallStarted)
            assert isinstance(started, CallStarted)
            await trio.testing.wait_all_tasks_blocked()
            async with trio.open_nursery() as nursery:
                if is_first:
                    turn.cancel()
                else:
                    nursery.start_soon(cancel_soon, turn)
                try:
                    await session.settle(started.call_id, "approved")
                except CallNotFound:
                    outcome = "aborted"
        assert [settled.status for settled in results(session).values()] == [outcome]
        assert outcome == "aborted" or not is_first


async def cancel_soon(turn: engine.Turn) -> None:
    turn.cancel()


async def test_settling_raises_if_the_result_is_not_durable() -> None:
    store = SlowStore()
    home = Home([asks(*office("the trip")), FINE], store=store)
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        async with session.prompt("go") as turn:
            (*_, started) = await seen(turn, CallStarted)
            assert isinstance(started, CallStarted)
            await trio.testing.wait_all_tasks_blocked()
            store.fails = True
            with pytest.raises(StoreError, match="in the record"):
                await session.settle(started.call_id, "approved")
            store.fails = False
            await turn.wait()
        assert [settled.text for settled in results(session).values()] == ["approved"]


# ---- what ends it ----------------------------------------------------------------------------------------------------


async def test_a_new_prompt_ends_a_parked_turn() -> None:
    home = Home([asks(*look("a"), *question("Which?"), *do("b")), FINE])
    session_id = await home.parked(QuestionAsked)
    async with home.open() as eng:
        session = await eng.open_session(session_id)
        assert (await session.run("something else")).stop_reason == "completed"
        ended = [event.result for event in session.events() if isinstance(event, TurnEnded)]
        assert [(r.stop_reason, r.detail, r.during) for r in ended] == [
            ("aborted", SUPERSEDED, "waiting"),
            ("completed", "", None),
        ]
        assert [(s.status, s.reason, s.outcome_unknown) for s in results(session).values()] == [
            ("completed", None, False),
            ("aborted", "cancelled", False),
            ("aborted", "not_executed", False),
        ]
        assert home.done == []
        await verify(home, session)
        with pytest.raises(NothingParked):
            async with session.resume():
                pass


async def test_queued_input_waits_for_a_parked_turn() -> None:
    home = Home([asks(*do("a")), FINE, [*text("And that."), *done()]])
    session_id = await home.parked(PermissionAsked)
    async with home.open() as eng:
        session = await eng.open_session(session_id)
        session.inputs.queue("then this")
        await trio.testing.wait_all_tasks_blocked()
        watcher = session.subscribe()
        async with session.resume() as turn:
            (*_, asked) = await seen(turn, PermissionAsked)
            assert isinstance(asked, PermissionAsked)
            await turn.reply(asked.request_id, engine.Once())
            await turn.wait()
        ends = 0
        async for event in watcher:
            ends += isinstance(event, TurnEnded)
            if ends == 2:
                break
        assert session.state.last_result is not None
        assert session.state.last_result.text == "And that."


async def test_a_resumed_turn_may_be_cancelled() -> None:
    home = Home([asks(*do("a"))])
    session_id = await home.parked(PermissionAsked)
    async with home.open() as eng:
        session = await eng.open_session(session_id)
        async with session.resume() as turn:
            await seen(turn, PermissionAsked)
            with pytest.raises(SessionBusy):
                start_turn(session.resume())
            turn.cancel()
        assert turn.result.stop_reason == "aborted"
        assert home.done == []
        await verify(home, session)


# ---- what is not parked ----------------------------------------------------------------------------------------------


async def ended_by_closing(home: Home, until: type[Durable], *, times: int = 1) -> engine.TurnResult:
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        turn = eng.start_turn(session, "go")
        await seen(turn, until, times=times)
    assert kinds(await home.store.load(session.id), TurnEnded, CallDelivered)[-1:] == ["TurnEnded"]
    return await turn.wait()


async def test_a_turn_that_works_is_ended() -> None:
    result = await ended_by_closing(Home([asks(*look("a", 9.0), *question("Which?"))]), CallStarted)
    assert (result.stop_reason, result.during) == ("aborted", "tools")


async def test_turn_with_a_running_call_is_not_parked() -> None:
    both = asks(*office("a"), *look("b", 9.0))
    assert (await ended_by_closing(Home([both]), CallStarted, times=2)).stop_reason == "aborted"


async def test_parking_can_be_switched_off() -> None:
    result = await ended_by_closing(Home([asks(*do("a"))], settings=Settings(park=False)), PermissionAsked)
    assert (result.stop_reason, result.during) == ("aborted", "waiting")


async def test_a_turn_in_a_block_is_ended() -> None:
    home = Home([asks(*do("a"))])
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        async with session.prompt("go") as turn:
            await seen(turn, PermissionAsked)
    assert turn.result.stop_reason == "aborted"


async def test_turn_without_persistent_store_is_ended() -> None:
    home = Home([])
    from engine.testing.scripted_provider import ScriptedProvider

    async with engine.open_engine(
        model=ScriptedProvider([asks(*do("a"))]),
        tools=home.tools(),
        permissions=PermissionOptions(approver=home.approver),
    ) as eng:
        session = await eng.create_session(cwd="/opt")
        turn = eng.start_turn(session, "go")
        await seen(turn, PermissionAsked)
    assert (await turn.wait()).stop_reason == "aborted"


async def test_opening_without_parking_ends_the_turn() -> None:
    home = Home([asks(*do("a"))])
    session_id = await home.parked(PermissionAsked)
    async with home.open(settings=Settings(park=False)) as eng:
        session = await eng.open_session(session_id)
        assert session.state.status == Idle()
        await verify(home, session)


# ---- hosts that are cancelled ----------------------------------------------------------------------------------------


async def left_by_cancelling(home: Home, until: type[Durable]) -> engine.Turn:
    turns: list[engine.Turn] = []
    with trio.CancelScope() as scope:
        async with home.open() as eng:
            session = await eng.create_session(cwd="/opt")
            turns.append(eng.start_turn(session, "go"))
            await seen(turns[0], until)
            scope.cancel(reason="the server stops")
            await trio.sleep_forever()
    assert scope.cancelled_caught
    return turns[0]


async def test_a_cancelled_host_parks_as_well() -> None:
    home = Home([asks(*do("a")), FINE])
    turn = await left_by_cancelling(home, PermissionAsked)
    with pytest.raises(TurnParked):
        await turn.wait()
    session_id = next(iter(home.models[0].requests)).session_id
    assert kinds(await home.store.load(SessionId(session_id)), PermissionAnswered, TurnEnded) == []


async def test_a_cancelled_host_ends_a_turn_that_works() -> None:
    home = Home([asks(*look("a", 9.0))])
    assert (await (await left_by_cancelling(home, CallStarted)).wait()).stop_reason == "aborted"


def test_an_external_tool_is_declared_by_its_class() -> None:
    from engine.tools.external import external_tool

    tool = external_tool("office", Approve)
    assert (tool.name, tool.resumable, tool.read_only, tool.permission) == ("office", True, False, "office")
    assert tool.description == "Have a person in the office approve something."
    with pytest.raises(ConfigError, match="attrs class"):
        external_tool("office", cast("type[attrs.AttrsInstance]", dict))
