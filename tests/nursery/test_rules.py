"""The twelve rules found by breaking prototypes (DESIGN 4.1), each held by tests of its name.

Rules 5 and 11 need threads and processes; most of theirs are in `tests/os`.
"""

import json
import signal
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Protocol

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.core.deferred import Deferred
from engine.core.errors import CursorInUse, SessionBusy, TurnNotEnded
from engine.core.events import (
    CallHeartbeat,
    CallSettled,
    LoopContinued,
    Notice,
    PartEnded,
    TextDelta,
    TurnEnded,
)
from engine.core.llm_types import StreamEvent
from engine.core.messages import TextPart
from engine.core.settings import Limits, Settings
from engine.journal.fold import fold
from engine.journal.log import RING
from engine.journal.position import Position
from engine.journal.state import Resync
from engine.session.engine_options import ContextOptions, PermissionOptions
from engine.session.session import Session
from engine.session.turn import Turn
from engine.testing.cancellation.everywhere import cancel_everywhere
from engine.testing.cancellation.injections import Injection
from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.fake_tools import STUBBORN, FakeTools
from engine.testing.fakes import SlowStore
from engine.testing.harness import Scenario, play
from engine.testing.invariants import check_transcript
from engine.testing.script import Break, Pause, call, done, text
from engine.testing.scripted_provider import ScriptedAnswer, ScriptedProvider
from engine.tools.tool import Tool

STUBBORN_CALL = call("look", {"manner": "stubborn"}, id="s")


def looks(*seconds: float) -> list[StreamEvent]:
    return [event for n, s in enumerate(seconds) for event in call("look", {"key": f"k{n}", "seconds": s}, id=f"l{n}")]


def opened(
    *script: ScriptedAnswer,
    tools: tuple[Tool, ...] = (),
    settings: Settings | None = None,
    store: SlowStore | None = None,
) -> engine.Engine:
    """Return an engine over a script, with the fake tools, in which everything is allowed."""
    from engine.permission.allow_all import AllowAll

    last: ScriptedAnswer = [*text("That is all."), *done()]
    return engine.open_engine(
        model=ScriptedProvider([*script, last, last, last]),
        tools=(*FakeTools().tools(), *tools),
        settings=settings,
        permissions=PermissionOptions(approver=AllowAll()),
        store=store or SlowStore(),
    )


def settlements(session: Session) -> list[tuple[str, str | None, bool]]:
    return [
        (e.settlement.status, e.settlement.reason, e.settlement.outcome_unknown)
        for e in session.events()
        if isinstance(e, CallSettled)
    ]


async def cancel_at(turn: Turn, seconds: float) -> None:
    await trio.sleep(seconds)
    turn.cancel()


# -- 1: the cleanup ---------------------------------------------------------------------------


async def test_rule_01_settled_deferred_in_cancelled_scope() -> None:
    deferred = Deferred[int]()
    assert deferred.settle(1)
    with trio.CancelScope() as scope:
        scope.cancel(reason="test")
        with pytest.raises(trio.Cancelled):
            await deferred.wait()
    # That is why nobody may decide by whether `wait` returned: the slot has the value all the while.
    assert deferred.is_settled
    assert deferred.value == 1
    assert not deferred.settle(2)
    assert (deferred.value, deferred.dropped) == (1, 1)


async def test_rule_01_end_is_announced_despite_stubborn_tool(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with opened([*STUBBORN_CALL, *done("calls")]) as eng, trio.open_nursery() as nursery:
        session = await eng.create_session()
        began = trio.current_time()
        async with session.prompt("go") as turn:
            nursery.start_soon(cancel_at, turn, 0.5)
            events = [event async for event in turn]
            ended = trio.current_time() - began
            # The session is idle, and takes the next prompt, while the tool is still running.
            assert (await session.run("again")).stop_reason == "completed"
        left = trio.current_time() - began
    assert ended == pytest.approx(0.75)
    assert left == pytest.approx(STUBBORN)
    assert settlements(session) == [("aborted", "cancelled", True)]
    assert [e.code for e in events if isinstance(e, Notice)] == ["overstaying"]


async def test_rule_01_late_result_changes_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with opened([*STUBBORN_CALL, *done("calls")]) as eng, trio.open_nursery() as nursery:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            nursery.start_soon(cancel_at, turn, 0.5)
            await turn.wait()
            at_end = session.events()
        assert session.events() == at_end


async def test_rule_01_internal_error_ends_one_turn(autojump_clock: trio.testing.MockClock) -> None:
    class BrokenKeeper:
        async def prune(self, view: object) -> None:
            raise RuntimeError("a bug")

        async def collapse(self, view: object, *, forced: bool) -> None:
            await trio.lowlevel.checkpoint()

        async def compact(self, view: object, summariser: object, wish: object) -> None:
            await trio.lowlevel.checkpoint()

        def wants_compaction(self, view: object) -> bool:
            return False

        def is_blocked(self, view: object) -> bool:
            return False

    model = ScriptedProvider([[*text("fine"), *done()]], repeat=True)
    async with engine.open_engine(model=model, context=ContextOptions(keeper=BrokenKeeper())) as eng:
        session = await eng.create_session()
        result = await session.run("go")
        assert (result.stop_reason, result.detail) == ("internal_error", "RuntimeError: a bug")
        other = await session.run("go", settings=Settings(auto_compact=False))
        assert other.stop_reason == "completed"


# -- 2: nothing ordinary escapes into the step's nursery -------------------------------------------


async def test_rule_02_broken_stream_leaves_tools_running(autojump_clock: trio.testing.MockClock) -> None:
    async with opened([*looks(2.0), Pause(0.5), Break()]) as eng:
        session = await eng.create_session()
        result = await session.run("go")
    assert result.stop_reason == "completed"
    assert settlements(session) == [("completed", None, False)]
    reasons = [e.reason for e in session.events() if isinstance(e, LoopContinued)]
    assert reasons == ["resume_after_break"]


@attrs.frozen
class Nothing:
    """No arguments."""


class Weird(BaseException):
    """Not an Exception."""


@pytest.mark.parametrize(
    "raised",
    [
        ValueError("plain"),
        ExceptionGroup("several", [ValueError("a"), KeyError("b")]),
        BaseExceptionGroup("nested", [ExceptionGroup("inner", [ValueError("a")]), Weird("w")]),
        Weird("alone"),
        StopAsyncIteration(),
    ],
    ids=repr,
)
async def test_rule_02_tool_exception_is_a_settlement(
    raised: BaseException, autojump_clock: trio.testing.MockClock
) -> None:
    @engine.tool(read_only=True)
    async def explode(args: Nothing, ctx: engine.ToolContext) -> str:
        await trio.sleep(0.1)
        raise raised

    script = [*call("explode", {}, id="x"), *looks(0.5), *done("calls")]
    async with opened(script, tools=(explode,)) as eng:
        session = await eng.create_session()
        result = await session.run("go")
    assert result.stop_reason == "completed"
    assert settlements(session) == [("error", None, False), ("completed", None, False)]


async def test_rule_02_group_with_a_cancel_is_split(autojump_clock: trio.testing.MockClock) -> None:
    @engine.tool(read_only=True)
    async def both(args: Nothing, ctx: engine.ToolContext) -> str:
        async def fail_when_cancelled() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("in the clean-up")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail_when_cancelled)
            nursery.start_soon(trio.sleep_forever)
        return "never"

    async with opened([*call("both", {}, id="x"), *done("calls")], tools=(both,)) as eng:
        session = await eng.create_session()
        with trio.move_on_after(0.5) as scope:
            await session.run("go")
        assert scope.cancelled_caught
        assert session.state.last_result is not None
        assert session.state.last_result.stop_reason == "aborted"


# -- 3: session.prompt is a class ---------------------------------------------------------------------


async def test_rule_03_body_error_is_unchanged(autojump_clock: trio.testing.MockClock) -> None:
    async with opened([*looks(5), *done("calls")]) as eng:
        session = await eng.create_session()
        error = ValueError("mine")
        with pytest.raises(ValueError, match="mine") as caught:
            async with session.prompt("go"):
                await trio.sleep(1)
                raise error
        assert caught.value is error
        assert settlements(session) == [("aborted", "cancelled", False)]


async def test_rule_03_host_cancel_is_one_cancelled(autojump_clock: trio.testing.MockClock) -> None:
    async with opened([*looks(5, 5), *STUBBORN_CALL, *done("calls")]) as eng:
        session = await eng.create_session()
        seen: list[BaseException] = []
        with trio.move_on_after(1):
            try:
                await session.run("go")
            except BaseException as error:
                seen.append(error)
                raise
        assert [type(error) for error in seen] == [trio.Cancelled]


async def test_rule_03_falling_off_the_block_cancels(autojump_clock: trio.testing.MockClock) -> None:
    async with opened([*looks(5), *done("calls")], [*looks(5), *done("calls")]) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            await trio.sleep(1)
        assert (turn.result.stop_reason, turn.result.detail) == ("aborted", "the block was left before the turn's end")
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, CallHeartbeat):
                    break
        assert turn.result.stop_reason == "aborted"


async def test_rule_03_turn_cancel_leaves_the_body_alone(autojump_clock: trio.testing.MockClock) -> None:
    async with opened([*looks(5), *done("calls")]) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            turn.cancel()
            await trio.sleep(1)
            reached = True
        assert reached
        assert turn.result.stop_reason == "aborted"


async def test_rule_03_misuse_raises_typed_errors(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with opened([*looks(1), *done("calls")]) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn, trio.open_nursery() as nursery:

            async def consume() -> None:
                async for _ in turn:
                    pass

            with pytest.raises(TurnNotEnded, match="has not ended"):
                _ = turn.result
            nursery.start_soon(consume)
            await trio.sleep(0.5)
            with pytest.raises(CursorInUse, match="subscribe"):
                await turn.__anext__()
        assert turn.result.stop_reason == "completed"


# -- 4: the first cause wins --------------------------------------------------------------------------------


async def test_rule_04_first_cause_wins_host_cancel_propagates(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with opened([*looks(5), *done("calls")], [*looks(5), *done("calls")]) as eng:
        session = await eng.create_session()
        turn = session.prompt("go")
        with trio.CancelScope() as host:
            async with turn:
                await trio.sleep(1)
                turn.cancel()
                host.cancel(reason="second")
                await trio.sleep(1)
        assert host.cancelled_caught
        assert turn.result.detail == "cancelled by the user"


@pytest.mark.parametrize(
    ("own", "host", "reason"), [(1.0, 2.0, "deadline"), (2.0, 1.0, "aborted"), (1.0, 1.0, "deadline")]
)
async def test_rule_04_earlier_deadline_is_the_cause(
    own: float, host: float, reason: str, autojump_clock: trio.testing.MockClock
) -> None:
    async with opened([*looks(5), *done("calls")], settings=Settings(limits=Limits(seconds=own))) as eng:
        session = await eng.create_session()
        with trio.move_on_after(host) as scope:
            await session.run("go")
            await trio.sleep(5)
        assert scope.cancelled_caught
        assert session.state.last_result is not None
        assert session.state.last_result.stop_reason == reason


def test_rule_04_earlier_of_two_passed_deadlines() -> None:
    """Both have passed when trio looks: the loop was blocked meanwhile, as far as its clock can tell."""
    clock = trio.testing.MockClock(autojump_threshold=0)

    @engine.tool(read_only=True)
    async def block(args: Nothing, ctx: engine.ToolContext) -> str:
        clock.jump(0.4)
        await trio.sleep(5)
        return "never"

    async def main(own: float, host: float) -> str:
        script = [*call("block", {}, id="b"), *done("calls")]
        async with opened(script, tools=(block,), settings=Settings(limits=Limits(seconds=own))) as eng:
            session = await eng.create_session()
            with trio.move_on_after(host):
                await session.run("go")
                await trio.sleep(5)
            assert session.state.last_result is not None
            return session.state.last_result.stop_reason

    assert trio.run(main, 0.1, 0.3, clock=clock) == "deadline"
    assert trio.run(main, 0.3, 0.1, clock=clock) == "aborted"


# -- 5: the store, as far as it needs no thread ----------------------------------------------------------------


async def test_rule_05_hanging_disk_delays_end_five_seconds(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = SlowStore()
    async with opened([Pause(100)], store=store) as eng:
        session = await eng.create_session()
        began = trio.current_time()
        turn = session.prompt("go")
        with trio.move_on_after(1) as scope:
            async with turn:
                await trio.sleep(0.5)
                store.hangs = True
                await turn.wait()
        assert scope.cancelled_caught
        assert trio.current_time() - began == pytest.approx(1 + 5)
        assert not turn.result.durable
        ended = session.events()[-1]
        assert isinstance(ended, TurnEnded)
        assert not ended.result.durable
        store.hangs = False
        assert (await session.run("again")).durable


async def test_rule_05_hanging_disk_does_not_block_turns(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Neither at the start of a tool that changes something, nor at the end of a step; however many there are."""
    store = SlowStore()
    steps: list[ScriptedAnswer] = [
        [*call("work", {"key": str(number)}, id=f"c{number}"), *done("calls")] for number in range(5)
    ]
    async with opened(*steps, [*text("I could not."), *done()], store=store) as eng:
        session = await eng.create_session()
        store.hangs = True
        began = trio.current_time()
        result = await session.run("go")
        assert (result.stop_reason, result.durable) == ("completed", False)
        # Once for as long as the settings say, a moment at each barrier after that: the other starts, the last step, the
        # end. A step that has changed nothing has none.
        assert trio.current_time() - began == pytest.approx(5.5 + 0.5 * 6)
        assert [status for status, _, _ in settlements(session)] == ["error"] * 5  # not executed
        (told,) = [event.text for event in session.events() if isinstance(event, Notice)]
        assert told == "the store failed: StoreError: it has not answered for 5.5 s"
        store.hangs = False
        began = trio.current_time()
        assert (await session.run("again")).durable
        assert trio.current_time() == began


# -- 6: held append ------------------------------------------------------------------------------------------------


async def test_rule_06_end_is_visible_only_when_durable(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = SlowStore(delay=1.0)
    async with opened([*text("hello"), *done()], store=store) as eng, trio.open_nursery() as nursery:
        session = await eng.create_session()
        watcher = session.subscribe()

        async def queue_while_it_is_held() -> None:
            while not isinstance(session.events()[-1], TurnEnded):
                await trio.sleep(0.1)
            session.inputs.queue("later")
            seen: list[object] = []
            while (event := watcher.try_next()) is not None:
                seen.append(event)
            # The end, and the input behind it, are in the journal, and nobody sees them yet.
            assert not any(isinstance(event, TurnEnded) for event in seen)
            assert [type(e).__name__ for e in session.events()[-2:]] == ["TurnEnded", "InputAdmitted"]
            assert seen[-1] is session.events()[-3]

        async with session.prompt("go") as turn:
            nursery.start_soon(queue_while_it_is_held)
            async for event in turn:
                if isinstance(event, TurnEnded):
                    assert event.seq is not None
                    assert store.durable[session.id] >= event.seq
        following = [watcher.try_next(), watcher.try_next()]
        assert [type(event).__name__ for event in following] == ["TurnEnded", "InputAdmitted"]


# -- 7: only durable events take a number ------------------------------------------------------------------------------


async def test_rule_07_deltas_have_places_not_numbers(autojump_clock: trio.testing.MockClock) -> None:
    async with opened([*text("one two three", pieces=3), *done()]) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            events = [event async for event in turn]
    deltas = [event for event in events if isinstance(event, TextDelta)]
    assert [delta.seq for delta in deltas] == [None, None, None]
    offset = 0
    for delta in deltas:
        assert delta.offset == offset
        offset += len(delta.text)
    numbers = [event.seq for event in session.events()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert {delta.after for delta in deltas} <= set(numbers)


async def test_rule_07_cursor_of_another_epoch_gets_resync(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with opened([*text("hello"), *done()]) as eng:
        session = await eng.create_session()
        cursor = session.subscribe(after=Position(epoch="before the restart", seq=3))
        first = cursor.try_next()
        assert isinstance(first, Resync)
        assert first.state == session.state
        await session.run("go")
        seen = []
        while (event := cursor.try_next()) is not None:
            seen.append(event)
        assert not any(isinstance(event, Resync) for event in seen)
        assert fold([event for event in seen if not isinstance(event, Resync)], first.state) == session.state
        assert isinstance(session.subscribe(after=10_000).try_next(), Resync)


# -- 8: batches on the hot path -------------------------------------------------------------------------------------------


async def test_rule_08_reader_yields_once_per_chunk(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Steps(trio.abc.Instrument):
        count = 0

        def before_task_step(self, task: trio.lowlevel.Task) -> None:
            self.count += task.name == "model stream"

    async def reader_steps(batch: int) -> int:
        steps = Steps()
        model = ScriptedProvider([[*text("x" * 1_000, pieces=1_000), *done()]], batch=batch)
        async with engine.open_engine(model=model) as eng:
            session = await eng.create_session()
            trio.lowlevel.add_instrument(steps)
            try:
                await session.run("go")
            finally:
                trio.lowlevel.remove_instrument(steps)
        return steps.count

    assert await reader_steps(batch=2_000) < 10
    assert await reader_steps(batch=1) > 1_000


async def test_rule_08_slow_cursor_gets_merged_deltas(
    autojump_clock: trio.testing.MockClock,
) -> None:
    whole = "x" * (4 * RING)
    async with opened([*text(whole, pieces=len(whole)), *text("y" * 10, id="second", pieces=10), *done()]) as eng:
        session = await eng.create_session()
        slow = session.subscribe()
        await session.run("go")
        seen = []
        while (event := slow.try_next()) is not None:
            seen.append(event)
    assert not any(isinstance(event, Resync) for event in seen)
    durable = [event for event in seen if not isinstance(event, Resync) and event.seq is not None]
    assert durable == list(session.events()[1:])
    texts: dict[str, str] = {}
    for event in seen:
        if isinstance(event, TextDelta):
            assert event.offset == len(texts.get(event.part_id, ""))
            texts[event.part_id] = texts.get(event.part_id, "") + event.text
    ends = {e.part.id: e.part.text for e in durable if isinstance(e, PartEnded) and isinstance(e.part, TextPart)}
    assert texts == ends
    assert len(seen) < 100


async def test_rule_08_cancelled_wait_loses_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with opened([*text("abc", pieces=3), *looks(0.4), *done("calls")]) as eng, trio.open_nursery() as nursery:
        session = await eng.create_session()
        watcher = session.subscribe()
        nursery.start_soon(session.run, "go")
        seen: list[object] = []
        while not seen or not isinstance(seen[-1], TurnEnded):
            with trio.move_on_after(0.01):
                seen.append(await watcher.__anext__())
    assert [e for e in seen if getattr(e, "seq", None) is not None] == list(session.events()[1:])


# -- 9: injection ---------------------------------------------------------------------------------------------------------


def test_rule_09_same_seed_same_run() -> None:
    scenario = Scenario(script=[[*looks(0.3, 0.2, 0.1), *done("calls")]])
    one, two, other = play(scenario, seed=1), play(scenario, seed=1), play(scenario, seed=2)
    assert one.points.names == two.points.names
    assert one.seen == two.seen
    assert one.points.names != other.points.names


def test_rule_09_points_surround_steps_and_ports() -> None:
    run = play(Scenario(script=[[*looks(0.1), *done("calls")]]))
    kinds = {name.split()[0] for name in run.points.names}
    assert {
        "before",
        "after",
        "journal.append",
        "journal.appended",
        "ledger.settle",
        "ledger.settled",
        "store.put",
        "store.flush",
        "store.flushed",
        "model.open",
        "model.opened",
        "model.receive",
    } <= kinds


def test_rule_09_cancel_that_never_fired_is_failure() -> None:
    run = play(Scenario(script=[[*text("a"), *done()]]), injection=Injection(way="user", point=10_000))
    assert any("did not fire" in problem for problem in run.problems)


# -- 10: KeyboardInterrupt --------------------------------------------------------------------------------------------------


class Trace(Protocol):
    def __call__(self, frame: FrameType, event: str, arg: object, /) -> "Trace | None": ...


@attrs.define(eq=False)
class LineInterrupt:
    """Raises SIGINT when the n-th line of the engine's own code is about to run."""

    strike_at: int
    lines: int = 0
    where: str = ""

    def trace(self, frame: FrameType, event: str, _: object) -> Trace | None:
        name = frame.f_code.co_filename
        if "/engine/" not in name or "/testing/" in name:
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.strike_at:
                self.where = f"{Path(name).name}:{frame.f_lineno}"
                signal.raise_signal(signal.SIGINT)
        return self.trace


def test_rule_10_interrupt_at_any_line_keeps_record() -> None:
    assert threading.current_thread() is threading.main_thread()

    async def main(store: SlowStore, interrupt: LineInterrupt) -> None:
        async with opened([*text("ab", pieces=2), *looks(0.3), *done("calls")], store=store) as eng:
            session = await eng.create_session()
            sys.settrace(interrupt.trace)
            try:
                async with session.prompt("go") as turn:
                    async for _ in turn:
                        pass
            finally:
                sys.settrace(None)

    def run(strike_at: int) -> tuple[LineInterrupt, SlowStore, bool]:
        interrupt, store = LineInterrupt(strike_at), SlowStore()
        # With one schedule for all runs, every line that one of them runs is reached by the others.
        seed_scheduler(0)
        try:
            trio.run(main, store, interrupt, clock=trio.testing.MockClock(autojump_threshold=0))
        except KeyboardInterrupt:
            return interrupt, store, True
        finally:
            sys.settrace(None)
        return interrupt, store, False

    run(strike_at=-1)  # what is cached, is cached from here on
    whole, _, _ = run(strike_at=-1)
    assert whole.lines > 1_000
    step = max(1, whole.lines // 400)
    for strike_at in range(1, whole.lines, step):
        interrupt, store, raised = run(strike_at)
        assert raised, f"the interrupt at {interrupt.where} was swallowed"
        for events in store._events.values():
            state = fold(events)
            assert state.turn is None, f"an interrupt at {interrupt.where} left the turn open"
            assert check_transcript(state.transcript) == [], interrupt.where


# -- 12: shared limits, heartbeats, blocking tools, two prompts -----------------------------------------------------------------


async def test_rule_12_sub_agent_limit_ends_its_owner(
    autojump_clock: trio.testing.MockClock,
) -> None:
    root = [*call("sub", {"key": "do it"}, id="1"), *done("calls")]
    child = [*looks(0.1), *done("calls")]
    script = [root, child, child, child, child]
    limits = Settings(limits=Limits(steps=3), wrap_up=False)
    async with opened(*script, settings=limits) as eng:
        session = await eng.create_session()
        watcher = session.subscribe()
        result = await session.run("go", settings=limits)
        assert result.stop_reason == "step_limit"
        ends = []
        while (event := watcher.try_next()) is not None:
            if isinstance(event, TurnEnded):
                ends.append((len(event.path), event.result.stop_reason))
    assert ends == [(2, "step_limit"), (1, "step_limit")]


async def test_rule_12_heartbeats_are_live_only(autojump_clock: trio.testing.MockClock) -> None:
    async with opened([*looks(0.9), *done("calls")]) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            beats = [event async for event in turn if isinstance(event, CallHeartbeat)]
    assert [round(beat.elapsed, 2) for beat in beats] == [0.25, 0.5, 0.75]
    assert not any(isinstance(event, CallHeartbeat) for event in session.events())
    assert all(beat.seq is None for beat in beats)


def test_rule_12_blocking_tool_is_named() -> None:
    clock = trio.testing.MockClock(autojump_threshold=0)

    @engine.tool(read_only=True)
    async def hog(args: Nothing, ctx: engine.ToolContext) -> str:
        await trio.sleep(0.05)
        clock.jump(1.0)  # as if it had blocked the loop
        return "done"

    async def main() -> list[str]:
        async with opened([*call("hog", {}, id="h"), *done("calls")], tools=(hog,)) as eng:
            session = await eng.create_session()
            await session.run("go")
            return [e.text for e in session.events() if isinstance(e, Notice) and e.code == "loop_blocked"]

    (notice,) = trio.run(main, clock=clock)
    assert "hog" in notice
    assert "to_thread" in notice


async def test_rule_12_second_prompt_is_refused(autojump_clock: trio.testing.MockClock) -> None:
    async with opened([*looks(1), *done("calls")]) as eng:
        session = await eng.create_session()
        async with session.prompt("one") as turn:
            with pytest.raises(SessionBusy, match=r"session\.inputs\.queue"):
                async with session.prompt("two"):
                    raise AssertionError("must not be entered")
            await turn.wait()
        assert turn.result.stop_reason == "completed"
        assert (await session.run("three")).stop_reason == "completed"


def test_three_sub_agent_levels_end_within_one_grace() -> None:
    root = [*call("sub", {"key": "one"}, id="1"), *done("calls")]
    child = [*text("child says"), *call("sub", {"key": "two"}, id="1"), *done("calls")]
    deep = [*text("deep says"), *STUBBORN_CALL, *done("calls")]
    scenario = Scenario(script=[root, child, deep], settings=Settings(agent_depth=2))
    base = play(scenario)
    point = next(n for n, name in enumerate(base.points.names) if name.startswith("after call look"))
    run = play(scenario, injection=Injection(way="user", point=point))
    assert run.problems == []
    texts = [e.settlement for e in run.seen if isinstance(e, CallSettled)]
    # The innermost tool would not stop; the calls around it have their child's words, and a known outcome.
    assert [settlement.outcome_unknown for settlement in texts] == [True, False, False]
    assert "deep says" in texts[1].text
    assert "child says" in texts[2].text
    assert json.dumps([settlement.status for settlement in texts]) == '["aborted", "aborted", "aborted"]'
    report = cancel_everywhere(scenario, ways=("user", "host"), every=20)
    assert report.runs > 20
