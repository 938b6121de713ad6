"""One step in the real loop: T3 (waiting for calls), C1 and C2 (when they start), C3 (siblings), C4 (shared context)."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

import engine
from engine.compaction.compaction_policy import NoKeeper
from engine.core.errors import ToolError
from engine.core.events import (
    CallAnnounced,
    CallDelivered,
    CallHeartbeat,
    CallQueued,
    CallSettled,
    CallStarted,
    ContextChanged,
    Notice,
    SharedContext,
    StepEnded,
    StepStarted,
    TextDelta,
    TurnEnded,
)
from engine.core.llm_types import TextChunk, TextDone, TextStarted, ToolCallChunk, ToolCallStarted
from engine.core.messages import ResultsMessage
from engine.core.settings import Settings
from engine.journal.state import Busy, Idle
from engine.session.turn import Turn
from engine.testing.script import Answer, Pause, ScriptItem, call, done, spread, text
from engine.tools.tool import Tool, assessed_by
from tests.support.bench import Bench, Job
from tests.support.world import Played, Seen, about, world

DONE: Answer = [*text("Done."), *done()]


def calls(tool: str, *jobs: tuple[str, float]) -> list[ScriptItem]:
    """Calls of one tool, each a job's name and seconds."""
    return [
        item for name, seconds in jobs for item in call(tool, {"name": name, "seconds": seconds}, id=f"{tool}{name}")
    ]


# -- T3: waiting ---------------------------------------------------------------------------------


async def test_t3_five_safe_calls_take_one_second(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [*calls("read", *[(name, 1.0) for name in "abcde"]), *done("calls")]
    async with world(first, DONE, tools=bench.tools()) as w:
        played = await w.play()
    assert autojump_clock.current_time() == about(1.0)
    assert played.statuses == ["completed"] * 5


async def test_t3_streamed_calls_end_with_critical_path(autojump_clock: MockClock) -> None:
    bench = Bench()
    announced = [item for name in "abcde" for item in (*calls("read", (name, 1.0)), Pause(0.5))]
    async with world([*announced[:-1], *done("calls")], DONE, tools=bench.tools()) as w:
        await w.play()
    assert [began for began, _ in bench.spans.values()] == pytest.approx([0, 0.5, 1.0, 1.5, 2.0])
    assert autojump_clock.current_time() == about(3.0)


async def test_t3_early_exception_settles_and_delays_nothing(
    autojump_clock: MockClock,
) -> None:
    @engine.tool(read_only=True)
    async def hasty(args: Job, ctx: engine.ToolContext) -> str:
        raise ValueError("at once")

    first = [*call("hasty", {}, id="1"), *done("calls")]
    async with world(first, DONE, tools=[hasty]) as w:
        played = await w.play()
    assert played.statuses == ["error"]
    assert "ValueError: at once" in played.settlements[0].text
    assert (played.stop_reason, autojump_clock.current_time()) == ("completed", 0)


async def test_t3_long_tool_sends_heartbeats(autojump_clock: MockClock) -> None:
    @engine.tool
    async def build(args: Job, ctx: engine.ToolContext) -> str:
        """Compile for ten minutes."""
        for minute in range(10):
            ctx.progress(f"minute {minute}")
            await trio.sleep(60)
        return "built"

    async with world([*call("build", {}, id="1"), *done("calls")], DONE, tools=[build]) as w:
        played = await w.play()
    assert [s.text for s in played.settlements] == ["built"]
    beats = played.all(CallHeartbeat)
    # One for each round of 0.25 s that ended without an answer.
    assert len(beats) in {2399, 2400}
    assert [b.elapsed for b in beats[:4]] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert beats[0].last_progress == "minute 0"
    assert beats[-1].last_progress == "minute 9"
    assert all(b.seq is None for b in beats), "heartbeats are live only"
    assert {b.tool for b in beats} == {"build"}


async def test_record_says_which_calls_run_alone(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [
        *calls("read", ("a", 0.5)),
        *call("write", {"name": "b"}, id="w"),
        *call("nothing", {}, id="n"),
        *done("calls"),
    ]
    async with world(first, DONE, tools=bench.tools()) as w:
        played = await w.play()
    assert [(queued.tool, queued.safe) for queued in played.all(CallQueued)] == [
        ("read", True),
        ("write", False),
        ("nothing", False),
    ]
    assert {started.parallel for started in played.all(StepStarted)} == {10}


async def test_t3_heartbeat_counts_pending_inputs(autojump_clock: MockClock) -> None:
    bench = Bench()

    async def steer(turn: Turn, event: Seen) -> None:
        if isinstance(event, CallStarted):
            turn.steer("also this")

    first = [*calls("read", ("a", 0.9)), *done("calls")]
    async with world(first, DONE, tools=bench.tools()) as w:
        played = await w.play(react=steer)
    assert [b.pending_inputs for b in played.all(CallHeartbeat)] == [1, 1, 1]


async def test_t3_only_started_calls_send_heartbeats(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [*calls("read", ("a", 0.9), ("b", 0.4)), *calls("write", ("c", 0.3)), *done("calls")]
    async with world(first, DONE, tools=bench.tools()) as w:
        played = await w.play()
    named = {e.call_id: e.arguments for e in played.all(CallQueued)}
    beats = [(named[b.call_id][10:11], b.time) for b in played.all(CallHeartbeat)]
    assert beats == [("a", about(0.25)), ("b", about(0.25)), ("a", about(0.5)), ("a", about(0.75)), ("c", about(1.15))]


async def test_t3_overdue_call_is_recorded_beside_another(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()

    @engine.tool(read_only=True, timeout=2)
    async def stubborn(args: Job, ctx: engine.ToolContext) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(20)
        return "late"

    first = [*calls("read", ("long", 30.0)), *calls("stubborn", ("x", 0)), *done("calls")]
    async with world(first, DONE, tools=[stubborn, *bench.tools()]) as w:
        played = await w.play()
    settled = played.all(CallSettled)
    assert [(e.settlement.reason, e.time) for e in settled] == [("timeout", about(2.25)), (None, about(30))]
    assert played.statuses == ["completed", "timeout"]


async def test_t3_declared_longer_cleanup_is_awaited(autojump_clock: MockClock) -> None:
    cleaned: list[float] = []

    @engine.tool(grace=0.5)
    async def careful(args: Job, ctx: engine.ToolContext) -> str:
        """Need 0.4 s to let go."""
        try:
            await trio.sleep(60)
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 1):
                await trio.sleep(0.4)
            cleaned.append(trio.current_time())
        return "never"

    async with world([*call("careful", {}, id="1"), *done("calls")], tools=[careful]) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            result = await turn.wait()
            assert trio.current_time() == about(1.4)
            assert cleaned == [about(1.4)]
        assert (result.stop_reason, result.during) == ("aborted", "tools")
        (settled,) = [e for e in w.session.events() if isinstance(e, CallSettled)]
        assert (settled.settlement.reason, settled.settlement.outcome_unknown) == ("cancelled", False)
        assert settled.time == about(1.4)
        await w.goes_on()


async def test_t3_tool_ignoring_cancel_is_abandoned(autojump_clock: MockClock) -> None:
    gone: list[float] = []

    @engine.tool
    async def stubborn(args: Job, ctx: engine.ToolContext) -> str:
        """Shield yourself for ten seconds."""
        ctx.progress("working", output="line 1\n")
        with trio.CancelScope(shield=True):
            await trio.sleep(10)
        gone.append(trio.current_time())
        return "too late"

    async with world([*call("stubborn", {}, id="1"), *done("calls")], tools=[stubborn]) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            result = await turn.wait()
            assert trio.current_time() == about(1.25)
            assert (result.stop_reason, result.during) == ("aborted", "tools")
            assert w.session.state.status == Idle()
            assert gone == []
            # The session is idle and takes the next prompt while the tool is still there.
            await w.goes_on()
            assert gone == []
        assert gone == [about(10)]
        events = w.session.events()
        (settled,) = [e.settlement for e in events if isinstance(e, CallSettled)]
        assert (settled.status, settled.reason, settled.outcome_unknown) == ("aborted", "cancelled", True)
        assert "line 1" in settled.text
        assert "too late" not in repr(events), "a late result changes nothing"
        (told,) = [e for e in events if isinstance(e, Notice) and e.code == "overstaying"]
        assert "stubborn" in told.text


async def test_t3_step_leaves_no_tasks(autojump_clock: MockClock) -> None:
    bench = Bench()
    left: list[set[str]] = []

    async def look(turn: Turn, event: Seen) -> None:
        if isinstance(event, StepEnded):
            root = trio.lowlevel.current_root_task()
            assert root is not None
            left.append({name for name in task_names(root) if name.startswith(("call ", "model stream"))})

    first = [*calls("read", ("a", 1), ("b", 2)), *calls("write", ("c", 1)), *done("calls")]
    # Between two steps, this keeper lets others run: else who looks would see the tasks of the next one.
    async with world(first, DONE, tools=bench.tools(), keeper=NoKeeper()) as w:
        await w.play(react=look)
    assert left == [set(), set()]


def task_names(task: trio.lowlevel.Task) -> list[str]:
    children = [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return [task.name, *[name for child in children for name in task_names(child)]]


async def test_t3_session_with_running_call_is_never_idle(autojump_clock: MockClock) -> None:
    bench = Bench()
    seen: list[object] = []

    async def look(turn: Turn, event: Seen) -> None:
        if not isinstance(event, TurnEnded):
            seen.append(w.session.state.status)

    async with world([*calls("read", ("a", 1)), *done("calls")], DONE, tools=bench.tools()) as w:
        await w.play(react=look)
        assert set(map(type, seen)) == {Busy}
        assert w.session.state.status == Idle()


async def test_t3_own_timeout_ends_a_call(autojump_clock: MockClock) -> None:
    @engine.tool(timeout=5)
    async def slow(args: Job, ctx: engine.ToolContext) -> str:
        """Take longer than is good."""
        ctx.progress(output="so far\n")
        await trio.sleep(60)
        return "never"

    async with world([*call("slow", {}, id="1"), *done("calls")], DONE, tools=[slow]) as w:
        played = await w.play()
    assert played.statuses == ["timeout"]
    assert "so far" in played.settlements[0].text
    assert "5 s" in played.settlements[0].text
    assert (played.stop_reason, autojump_clock.current_time()) == ("completed", about(5))


# -- C1: starts and delivery ------------------------------------------------------------------------


async def test_c1_call_starts_before_the_next_arguments_arrive(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [
        # Not a whole number of rounds: the last heartbeat would race with the end of the call.
        *calls("read", ("one", 0.9)),
        ToolCallStarted("2", "read"),
        Pause(5),
        ToolCallChunk("2", '{"name": "two"}'),
        Pause(5),
        *call("read", {"name": "three"}, id="3"),
        *done("calls"),
    ]
    async with world(first, DONE, tools=bench.tools()) as w:
        played = await w.play()
    assert bench.spans["one"] == (0.0, about(0.9))  # while the stream went on
    order = [type(e).__name__ for e in played.own if getattr(e, "call_id", None) == first_call(played)]
    assert order[:4] == ["CallAnnounced", "CallQueued", "CallJudged", "CallStarted"]
    assert order[4:] == ["CallHeartbeat"] * 3 + ["CallSettled", "CallDelivered"]
    assert bench.began["three"] == about(10)
    # Call 2's end never came: it was cut off, and is not run.
    assert played.statuses == ["completed", "error", "completed"]
    assert "two" not in bench.began


def first_call(played: Played) -> str:
    return played.all(CallAnnounced)[0].call_id


async def test_c1_results_are_delivered_in_call_order(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    first = [*calls("read", ("one", 2), ("two", 3), ("three", 1)), *done("calls")]
    async with world(first, DONE, tools=bench.tools()) as w:
        played = await w.play()
    asked = [e.call_id for e in played.all(CallAnnounced)]
    settled = [e.call_id for e in played.all(CallSettled)]
    delivered = [e.call_id for e in played.all(CallDelivered)]
    assert settled == [asked[2], asked[0], asked[1]]
    assert delivered == asked
    results = w.requests[1].transcript[-1]
    assert isinstance(results, ResultsMessage)
    assert [r.settlement.text for r in results.results] == ["did one", "did two", "did three"]


async def test_c1_result_is_delivered_as_early_as_possible(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [*calls("read", ("one", 1), ("two", 3), ("three", 2)), *done("calls")]
    async with world(first, DONE, tools=bench.tools()) as w:
        played = await w.play()
    assert [e.time for e in played.all(CallDelivered)] == pytest.approx([1, 3, 3])


async def test_c1_call_queued_after_abort_never_runs(autojump_clock: MockClock) -> None:
    bench = Bench()
    ignoring: list[ScriptItem] = [
        *calls("write", ("one", 60), ("two", 60)),
        TextStarted("t"),
        TextChunk("t", "And "),
        Pause(10),
        *calls("write", ("three", 60)),
    ]
    async with world([*ignoring, *done("calls")], tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            await turn.wait()
        events = w.session.events()
        settled = [e.settlement.reason for e in events if isinstance(e, CallSettled)]
        assert sorted(settled, key=str) == ["cancelled", "not_executed"]
        assert bench.log == ["+one", "-one"]
        await w.goes_on()


async def test_c1_cancel_during_arguments_settles_not_executed(
    autojump_clock: MockClock,
) -> None:
    bench = Bench()
    first = [ToolCallStarted("1", "read"), ToolCallChunk("1", '{"name": '), Pause(60), *done("calls")]
    async with world(first, tools=bench.tools()) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            result = await turn.wait()
        assert (result.stop_reason, result.during) == ("aborted", "streaming")
        (settled,) = [e.settlement for e in w.session.events() if isinstance(e, CallSettled)]
        assert settled.reason == "not_executed"
        await w.goes_on()


# -- C2: what may run together --------------------------------------------------------------------------


async def test_c2_safe_safe_unsafe_safe_timeline(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [
        *calls("read", ("r1", 1), ("r2", 2)),
        *calls("write", ("b", 1)),
        *calls("read", ("r3", 1)),
        *done("calls"),
    ]
    async with world(first, DONE, tools=bench.tools()) as w:
        await w.play()
    assert bench.spans == {
        "r1": (0, about(1)),
        "r2": (0, about(2)),
        "b": (about(2), about(3)),
        "r3": (about(3), about(4)),
    }


async def test_c2_at_most_10_safe_calls_run(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [*calls("read", *[(f"n{i}", 1.0) for i in range(25)]), *done("calls")]
    async with world(first, DONE, tools=bench.tools()) as w:
        played = await w.play()
    assert bench.most == 10
    assert autojump_clock.current_time() == about(3)
    assert [s.text for s in played.settlements] == [f"did n{i}" for i in range(25)]


async def test_c2_settings_limit_concurrency(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [*calls("read", *[(f"n{i}", 1.0) for i in range(6)]), *done("calls")]
    async with world(first, DONE, tools=bench.tools(), settings=Settings(parallel=2)) as w:
        await w.play()
    assert (bench.most, autojump_clock.current_time()) == (2, about(3))


async def test_c2_failing_predicate_serialises_calls(autojump_clock: MockClock) -> None:
    bench = Bench()

    def unsure(args: Job) -> bool:
        raise RuntimeError("who knows")

    @engine.tool(read_only=True, safe=unsure)
    async def odd(args: Job, ctx: engine.ToolContext) -> str:
        return await bench.work(args)

    async with world([*calls("odd", ("a", 1), ("b", 1)), *done("calls")], DONE, tools=[odd]) as w:
        played = await w.play()
    assert bench.log == ["+a", "-a", "+b", "-b"]
    assert played.statuses == ["completed", "completed"]


async def test_c2_safety_depends_on_parsed_arguments(autojump_clock: MockClock) -> None:
    bench = Bench()

    def short(args: Job) -> bool:
        return args.seconds < 2

    @engine.tool(read_only=True, safe=short)
    async def work(args: Job, ctx: engine.ToolContext) -> str:
        return await bench.work(args)

    jobs = calls("work", ("a", 1), ("b", 1), ("long", 3), ("c", 1), ("d", 1))
    async with world([*jobs, *done("calls")], DONE, tools=[work]) as w:
        await w.play()
    assert {name: span[0] for name, span in bench.spans.items()} == pytest.approx(
        {"a": 0, "b": 0, "long": 1, "c": 4, "d": 4}
    )


async def test_c2_invalid_call_blocks_others_only_briefly(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [*calls("read", ("a", 1)), *call("read", "no json", id="x"), *calls("read", ("b", 1)), *done("calls")]
    async with world(first, DONE, tools=bench.tools()) as w:
        played = await w.play()
    assert played.statuses == ["completed", "error", "completed"]
    assert "Call it again" in played.settlements[1].text
    assert bench.log == ["+a", "-a", "+b", "-b"]


jobs = st.lists(st.tuples(st.sampled_from(["read", "write"]), st.integers(0, 3)), min_size=1, max_size=8)


@given(jobs=jobs, batch=st.sampled_from([1, 2, 3, 7]))
def test_c2_streaming_and_batch_schedules_are_identical(jobs: list[tuple[str, int]], batch: int) -> None:
    def schedule(batch: int) -> tuple[list[str], dict[str, tuple[float, float]]]:
        bench = Bench()
        items = [item for i, (tool, seconds) in enumerate(jobs) for item in calls(tool, (f"{tool[0]}{i}", seconds))]

        async def main() -> None:
            async with world([*items, *done("calls")], DONE, tools=bench.tools(), batch=batch) as w:
                await w.play()

        trio.run(main, clock=MockClock(autojump_threshold=0))
        return sorted(bench.log), bench.spans

    assert schedule(batch) == schedule(10_000)


@given(jobs=jobs, gap=st.sampled_from([0.1, 0.7]))
def test_c2_unsafe_calls_never_overlap_or_overtake(jobs: list[tuple[str, int]], gap: float) -> None:
    bench = Bench()
    items = [item for i, (tool, seconds) in enumerate(jobs) for item in calls(tool, (f"{i}", seconds))]

    async def main() -> None:
        async with world([*spread(items, gap), *done("calls")], DONE, tools=bench.tools()) as w:
            await w.play()

    trio.run(main, clock=MockClock(autojump_threshold=0))
    began = [bench.began[str(i)] for i in range(len(jobs))]
    assert began == sorted(began)
    for i, (tool, _) in enumerate(jobs):
        for later in range(i + 1, len(jobs)):
            if "write" in {tool, jobs[later][0]}:
                assert bench.began[str(later)] >= bench.ended[str(i)]


async def test_c1_assessment_does_not_delay_the_stream(autojump_clock: MockClock) -> None:
    """Whether a long command only reads takes time to tell: not the reader's."""
    bench = Bench()

    async def assess(args: Job, cwd: str) -> bool:
        await trio.sleep(5)
        if args.name == "broken":
            raise OSError("no idea")
        return args.name != "alone"

    tools = [assessed_by(tool, assess) for tool in bench.tools()]
    first = [
        *calls("read", ("one", 10), ("two", 10), ("alone", 10), ("broken", 10)),
        *text("still streaming"),
        *done("calls"),
    ]
    async with world(first, DONE, tools=tools) as w:
        played = await w.play()
    assert [(e.text, e.time) for e in played.all(TextDelta)][:1] == [("still streaming", about(0))]
    began = [bench.began[key] for key in ("one", "two", "alone", "broken")]
    assert began == [about(5), about(5), about(15), about(25)]
    assert played.statuses == ["completed"] * 4


# -- C3: siblings ------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Shell:
    """Run a command."""

    command: str = ""
    seconds: float = 0.0
    code: int = 0


def shell_tools(log: list[str]) -> tuple[Tool, ...]:
    async def run(args: Shell, ctx: engine.ToolContext) -> engine.ToolOutput:
        log.append(args.command)
        await trio.sleep(args.seconds)
        if args.code == 99:
            raise ToolError("no such command")
        return engine.ToolOutput(text=f"{args.command} printed", failed=args.code != 0)

    shell = engine.tool(name="shell", chain=True)(run)
    quick = engine.tool(name="quick", read_only=True, chain=True)(run)
    other = engine.tool(name="other")(run)
    return shell, quick, other


@pytest.mark.parametrize("tool", ["shell", "quick"])
async def test_c3_failed_call_leaves_siblings_alone(autojump_clock: MockClock, tool: str) -> None:
    log: list[str] = []
    first = [
        *call(tool, {"command": "false", "code": 1}, id="1"),
        *call(tool, {"command": "sleepy", "seconds": 3}, id="2"),
        *done("calls"),
    ]
    async with world(first, DONE, tools=shell_tools(log)) as w:
        played = await w.play()
    assert [s.text for s in played.settlements] == ["false printed", "sleepy printed"]
    assert [(s.status, s.failed) for s in played.settlements] == [("completed", True), ("completed", False)]
    assert log == ["false", "sleepy"]


async def test_c3_error_leaves_siblings_alone(autojump_clock: MockClock) -> None:
    log: list[str] = []
    first = [
        *call("quick", {"command": "a", "seconds": 3}, id="1"),
        *call("quick", {"command": "b", "code": 99}, id="2"),
        *call("nosuch", {}, id="3"),
        *call("quick", {"command": "c"}, id="4"),
        *done("calls"),
    ]
    async with world(first, DONE, tools=shell_tools(log)) as w:
        played = await w.play()
    assert played.statuses == ["completed", "error", "error", "completed"]


@pytest.mark.parametrize("code", [1, 99], ids=["exit-code", "error"])
async def test_c3_chain_mode_stops_only_chained_calls(autojump_clock: MockClock, code: int) -> None:
    log: list[str] = []
    first = [
        *call("shell", {"command": "before"}, id="0"),
        *call("shell", {"command": "false", "code": code}, id="1"),
        *call("shell", {"command": "after"}, id="2"),
        *call("other", {"command": "independent"}, id="3"),
        Pause(1),
        *call("shell", {"command": "announced later"}, id="4"),
        *done("calls"),
    ]
    async with world(first, DONE, tools=shell_tools(log), settings=Settings(chain=True)) as w:
        played = await w.play()
        assert log == ["before", "false", "independent"]
        failed = "completed" if code == 1 else "error"
        assert played.statuses == ["completed", failed, "not_executed", "completed", "not_executed"]
        told = played.settlements[2].text
        for part in ("Not executed", "shell", "failed", "The tool itself is fine"):
            assert part in told
        assert played.settlements[4].text == told
        assert played.stop_reason == "completed", "the turn is never cancelled by a sibling"


async def test_c3_chain_mode_lets_running_siblings_finish(autojump_clock: MockClock) -> None:
    log: list[str] = []
    first = [
        *call("quick", {"command": "long", "seconds": 5}, id="1"),
        *call("quick", {"command": "false", "code": 1, "seconds": 1}, id="2"),
        *call("shell", {"command": "after"}, id="3"),
        *done("calls"),
    ]
    async with world(first, DONE, tools=shell_tools(log), settings=Settings(chain=True)) as w:
        played = await w.play()
    assert played.statuses == ["completed", "completed", "not_executed"]
    assert log == ["long", "false"]


async def test_c3_chain_mode_stops_calls_that_only_read(autojump_clock: MockClock) -> None:
    log: list[str] = []
    first = [
        *call("quick", {"command": "false", "code": 1, "seconds": 1}, id="1"),
        *call("quick", {"command": "after"}, id="2"),
        *done("calls"),
    ]
    async with world(first, DONE, tools=shell_tools(log), settings=Settings(chain=True)) as w:
        played = await w.play()
    assert log == ["false"]
    assert played.statuses == ["completed", "not_executed"]


async def test_c3_chain_mode_ends_with_its_message(autojump_clock: MockClock) -> None:
    log: list[str] = []
    broken = [*call("shell", {"command": "false", "code": 1}, id="1"), *done("calls")]
    again = [*call("shell", {"command": "again"}, id="1"), *done("calls")]
    async with world(broken, again, DONE, tools=shell_tools(log), settings=Settings(chain=True)) as w:
        played = await w.play()
    assert log == ["false", "again"]
    assert played.statuses == ["completed", "completed"]


# -- C4: the shared context ----------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Change:
    """Append a name to the shared list, after some seconds."""

    name: str
    seconds: float = 0.0
    fail: bool = False


def append(name: str) -> Callable[[SharedContext], SharedContext]:
    return lambda shared: shared.with_value("list", shared.get("list") + name)


def context_tools(saw: dict[str, str]) -> tuple[Tool, ...]:
    async def change(args: Change, ctx: engine.ToolContext) -> engine.ToolOutput:
        saw[args.name] = ctx.shared.get("list")
        await trio.sleep(args.seconds)
        if args.fail:
            raise ToolError("no")
        return engine.ToolOutput(text="changed", modify=append(args.name))

    return engine.tool(name="together", read_only=True)(change), engine.tool(name="alone")(change)


def changes(*what: tuple[str, str, float]) -> list[ScriptItem]:
    return [
        item
        for tool, name, seconds in what
        for item in call(tool, {"name": name, "seconds": seconds}, id=f"{tool}{name}")
    ]


async def test_c4_modifiers_apply_in_call_order(autojump_clock: MockClock) -> None:
    saw: dict[str, str] = {}
    first = [*changes(("together", "1", 2), ("together", "2", 1)), *done("calls")]
    async with world(first, DONE, tools=context_tools(saw)) as w:
        played = await w.play()
    assert w.session.state.context.get("list") == "12"
    assert [dict(e.values)["list"] for e in played.all(ContextChanged)] == ["1", "12"]


async def test_c4_batch_calls_see_no_other_modification(autojump_clock: MockClock) -> None:
    saw: dict[str, str] = {}
    first = [
        *changes(("together", "1", 0)),
        Pause(5),
        *changes(("together", "2", 0)),
        *done("calls"),
    ]
    async with world(first, DONE, tools=context_tools(saw)) as w:
        await w.play()
    assert saw == {"1": "", "2": ""}, "though the first had ended long before the second arrived"
    assert w.session.state.context.get("list") == "12"


async def test_c4_a_serial_calls_modifier_applies_at_once(autojump_clock: MockClock) -> None:
    saw: dict[str, str] = {}
    first = [*changes(("alone", "1", 0), ("alone", "2", 0), ("together", "3", 0), ("together", "4", 0)), *done("calls")]
    async with world(first, DONE, tools=context_tools(saw)) as w:
        await w.play()
    assert saw == {"1": "", "2": "1", "3": "12", "4": "12"}
    assert w.session.state.context.get("list") == "1234"


async def test_c4_the_next_batch_sees_the_merged_context(autojump_clock: MockClock) -> None:
    saw: dict[str, str] = {}
    first = [
        *changes(("together", "1", 2), ("together", "2", 1), ("alone", "3", 0), ("together", "4", 0)),
        *done("calls"),
    ]
    second = [*changes(("together", "5", 0)), *done("calls")]
    async with world(first, second, DONE, tools=context_tools(saw)) as w:
        await w.play()
        assert saw == {"1": "", "2": "", "3": "12", "4": "123", "5": "1234"}
        w.will_say([*changes(("together", "6", 0)), *done("calls")], DONE)
        await w.play()
    assert saw["6"] == "12345", "and the next turn, too"


async def test_c4_working_directory_can_be_modified(autojump_clock: MockClock) -> None:
    saw: list[str] = []

    @engine.tool
    async def cd(args: Job, ctx: engine.ToolContext) -> engine.ToolOutput:
        return engine.ToolOutput(text="moved", modify=lambda shared: attrs.evolve(shared, cwd=f"/{args.name}"))

    @engine.tool(read_only=True)
    async def pwd(args: Job, ctx: engine.ToolContext) -> str:
        saw.append(ctx.cwd)
        return ctx.cwd

    first = [
        *call("pwd", {}, id="1"),
        *call("cd", {"name": "there"}, id="2"),
        *call("pwd", {}, id="3"),
        *done("calls"),
    ]
    async with world(first, DONE, tools=[cd, pwd]) as w:
        await w.play()
    assert saw == ["/opt", "/there"]


async def test_c4_modifier_of_failed_call_is_dropped(autojump_clock: MockClock) -> None:
    saw: dict[str, str] = {}
    first = [
        *call("together", {"name": "1", "fail": True}, id="1"),
        *changes(("together", "2", 1), ("together", "3", 60)),
        *done("calls"),
    ]
    async with world(first, tools=context_tools(saw)) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(5)
            turn.cancel()
            await turn.wait()
        assert w.session.state.context.get("list") == "2"
        await w.goes_on()


@pytest.mark.parametrize(
    "bad",
    [lambda shared: 1 / 0, lambda shared: None, lambda: None, "not callable"],
    ids=["raises", "returns-none", "wrong-arity", "not-callable"],
)
async def test_c4_failing_modifier_is_reported(autojump_clock: MockClock, bad: object) -> None:
    @engine.tool(read_only=True)
    async def wrong(args: Job, ctx: engine.ToolContext) -> engine.ToolOutput:
        return engine.ToolOutput(text="result", modify=bad)  # type: ignore[arg-type]  # the point of the test

    saw: dict[str, str] = {}
    first = [*call("wrong", {}, id="1"), *changes(("together", "2", 0)), *done("calls")]
    async with world(first, DONE, tools=[wrong, *context_tools(saw)]) as w:
        played = await w.play()
        assert played.stop_reason == "completed"
        assert w.session.state.context.get("list") == "2"
        await w.goes_on()


@given(
    what=st.lists(st.tuples(st.sampled_from(["together", "alone"]), st.integers(0, 3)), min_size=1, max_size=7),
    batch=st.sampled_from([1, 4, 1000]),
    gap=st.sampled_from([0.0, 0.6]),
)
def test_c4_context_depends_only_on_call_order(what: list[tuple[str, int]], batch: int, gap: float) -> None:
    """Whatever the durations and the chunks of the stream, a call sees the changes of all batches before its own."""
    saw: dict[str, str] = {}
    names = "abcdefg"[: len(what)]
    items = changes(*[(tool, name, seconds) for name, (tool, seconds) in zip(names, what, strict=True)])
    script = [*spread(items, gap), *done("calls")] if gap else [*items, *done("calls")]
    found: list[str] = []

    async def main() -> None:
        async with world(script, DONE, tools=context_tools(saw), batch=batch) as w:
            await w.play()
            found.append(w.session.state.context.get("list"))

    trio.run(main, clock=MockClock(autojump_threshold=0))
    assert found == [names]
    expected, begin = {}, 0
    for index, (name, (tool, _)) in enumerate(zip(names, what, strict=True)):
        if tool == "alone" or (index and what[index - 1][0] == "alone"):
            begin = index
        expected[name] = names[:begin]
    assert saw == expected


# -- the step's record -------------------------------------------------------------------------------------------


async def test_c1_every_call_passes_its_states_in_order(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [*calls("read", ("a", 1)), *calls("write", ("b", 1)), *done("calls")]
    async with world(first, DONE, tools=bench.tools()) as w:
        played = await w.play()
    for call_id in [e.call_id for e in played.all(CallAnnounced)]:
        kinds = (CallAnnounced, CallQueued, CallStarted, CallSettled, CallDelivered)
        moves = [type(e) for e in played.own if isinstance(e, kinds) and e.call_id == call_id]
        assert tuple(moves) == kinds


async def test_the_open_step_shows_in_the_sessions_state(autojump_clock: MockClock) -> None:
    bench = Bench()
    states: list[list[str]] = []

    async def look(turn: Turn, event: Seen) -> None:
        step = w.session.state.turn and w.session.state.turn.step
        if isinstance(event, CallHeartbeat) and step:
            states.append([c.state for c in step.calls])

    half: list[ScriptItem] = [TextStarted("t"), TextChunk("t", "Hi"), TextDone("t")]
    first = [*half, *calls("write", ("a", 0.3), ("b", 0.3)), *done("calls")]
    async with world(first, DONE, tools=bench.tools()) as w:
        await w.play(react=look)
    assert states == [["running", "queued"], ["delivered", "running"]]
