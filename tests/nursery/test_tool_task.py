"""A call's own task: whatever its tool does, the call is settled, its siblings go on, and so does the session."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.errors import ConfigError, ToolError
from engine.core.events import CallHeartbeat, CallProgress, CallQueued, CallSettled, CallStarted, Notice
from engine.core.settings import Settings
from engine.testing.fakes import SlowStore
from engine.testing.script import Answer, Pause, call, done, text
from engine.tools.tool import Tool
from tests.support.bench import Bench, Job, Nothing
from tests.support.world import about, world

DONE: Answer = [*text("Done."), *done()]


class Rude(BaseException):
    """Neither an Exception nor one of those that must pass."""


class Mute(Exception):
    def __str__(self) -> NoReturn:
        raise RuntimeError("no text for you")


class MuteForGood(Exception):
    def __str__(self) -> NoReturn:
        raise Rude


class MuteToolError(ToolError):
    def __str__(self) -> NoReturn:
        raise RuntimeError("no text for you")


class NotText(Exception):
    def __str__(self) -> str:
        return 5  # type: ignore[return-value]  # noqa: PLE0307  # the point of it


class WildGroup(BaseExceptionGroup[BaseException]):
    """A group that can't be split."""

    def derive(self, excs: object) -> NoReturn:
        raise RuntimeError("can't be split")


RAISED: dict[str, Callable[[], BaseException]] = {
    "ValueError": lambda: ValueError("it broke"),
    "ToolError": lambda: ToolError("no such file"),
    "AssertionError": AssertionError,
    "MemoryError": MemoryError,
    "RecursionError": RecursionError,
    "StopIteration": StopIteration,
    "StopAsyncIteration": StopAsyncIteration,
    "TooSlowError": trio.TooSlowError,
    "our-own": lambda: ConfigError("a tool that uses the engine badly"),
    "BaseException": BaseException,
    "custom-base": Rude,
    "group": lambda: ExceptionGroup("two", [ValueError("one"), KeyError("two")]),
    "base-group": lambda: BaseExceptionGroup("two", [ValueError("one"), Rude()]),
    "nested-group": lambda: BaseExceptionGroup("out", [ExceptionGroup("in", [ToolError("deep")]), Rude()]),
    "unsplittable-group": lambda: WildGroup("wild", [ValueError("one"), Rude()]),
    "raising-str": Mute,
    "base-raising-str": MuteForGood,
    "raising-str-tool-error": MuteToolError,
    "str-is-no-str": NotText,
    "raising-str-in-a-group": lambda: ExceptionGroup("two", [Mute(), MuteToolError()]),
    "endless-text": lambda: ValueError("x" * 10_000_000),
    "surrogates": lambda: ValueError("\ud800"),
}


@pytest.mark.parametrize("kind", RAISED)
@pytest.mark.parametrize("late", [False, True], ids=["at-once", "later"])
async def test_a_tool_may_raise_anything(autojump_clock: MockClock, kind: str, late: bool) -> None:
    bench = Bench()

    @engine.tool(read_only=True)
    async def bad(args: Nothing, ctx: engine.ToolContext) -> str:
        if late:
            await trio.sleep(1)
        error = RAISED[kind]()
        raise error

    first = [
        *call("read", {"name": "before", "seconds": 2}, id="1"),
        *call("bad", {}, id="2"),
        *call("read", {"name": "after", "seconds": 2}, id="3"),
        *done("calls"),
    ]
    async with world(first, DONE, tools=[bad, *bench.tools()]) as w:
        played = await w.play()
        assert played.statuses == ["completed", "error", "completed"]
        assert (played.stop_reason, played.result.text) == ("completed", "Done.")
        told = played.settlements[1].text
        assert told
        assert len(told) < 10_000
        await w.goes_on()


async def test_tool_error_is_plain_and_others_have_types(
    autojump_clock: MockClock,
) -> None:
    @engine.tool(read_only=True)
    async def plain(args: Nothing, ctx: engine.ToolContext) -> str:
        raise ToolError("there is no file a.py")

    @engine.tool(read_only=True)
    async def odd(args: Nothing, ctx: engine.ToolContext) -> str:
        raise KeyError("a.py")

    first = [*call("plain", {}, id="1"), *call("odd", {}, id="2"), *done("calls")]
    async with world(first, DONE, tools=[plain, odd]) as w:
        played = await w.play()
    assert [s.text for s in played.settlements] == ["there is no file a.py", "KeyError: 'a.py'"]


async def test_exception_group_lists_all_its_errors(autojump_clock: MockClock) -> None:
    @engine.tool(read_only=True)
    async def fan(args: Nothing, ctx: engine.ToolContext) -> str:
        async def fail(what: str) -> None:
            raise ValueError(what)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(fail, "one")
            nursery.start_soon(fail, "two")
        return "never"

    async with world([*call("fan", {}, id="1"), *done("calls")], DONE, tools=[fan]) as w:
        played = await w.play()
    assert "ValueError: one" in played.settlements[0].text
    assert "ValueError: two" in played.settlements[0].text


@pytest.mark.parametrize("kind", [SystemExit, KeyboardInterrupt])
async def test_interrupt_propagates_after_the_call_is_settled(
    autojump_clock: MockClock, kind: type[BaseException]
) -> None:
    @engine.tool(read_only=True)
    async def leave(args: Nothing, ctx: engine.ToolContext) -> str:
        await trio.sleep(1)
        raise kind

    bench = Bench()
    first = [*call("read", {"name": "a", "seconds": 9}, id="1"), *call("leave", {}, id="2"), *done("calls")]
    async with world(first, tools=[leave, *bench.tools()]) as w:
        with pytest.raises(kind):
            await w.session.run("go")
        settled = [e.settlement for e in w.session.events() if isinstance(e, CallSettled)]
        assert [s.status for s in settled] == ["aborted", "aborted"]
        last = w.session.state.last_result
        assert last is not None
        assert last.stop_reason == "aborted"
        await w.goes_on()


async def test_interrupt_in_a_group_propagates_as_interrupt(autojump_clock: MockClock) -> None:
    @engine.tool(read_only=True)
    async def leave(args: Nothing, ctx: engine.ToolContext) -> str:
        raise BaseExceptionGroup("mixed", [ValueError("x"), SystemExit(3)])

    async with world([*call("leave", {}, id="1"), *done("calls")], tools=[leave]) as w:
        with pytest.raises(SystemExit) as caught:
            await w.session.run("go")
        assert caught.value.code == 3
        await w.goes_on()


async def test_error_while_cancelled_does_not_hide_the_cancel(autojump_clock: MockClock) -> None:
    @engine.tool(read_only=True)
    async def spiteful(args: Nothing, ctx: engine.ToolContext) -> str:
        try:
            await trio.sleep(60)
        finally:
            raise ValueError("not so fast")

    async with world([*call("spiteful", {}, id="1"), *done("calls")], tools=[spiteful]) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            result = await turn.wait()
        assert result.stop_reason == "aborted"
        assert trio.current_time() == about(1)
        await w.goes_on()


async def test_cancel_in_a_group_propagates(autojump_clock: MockClock) -> None:
    @engine.tool(read_only=True)
    async def mixed(args: Nothing, ctx: engine.ToolContext) -> str:
        async def spiteful() -> None:
            try:
                await trio.sleep(60)
            finally:
                raise ValueError("not so fast")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 60)
            nursery.start_soon(spiteful)
        return "never"

    async with world([*call("mixed", {}, id="1"), *done("calls")], tools=[mixed]) as w:
        with trio.move_on_after(1) as host:
            await w.session.run("go")
        assert host.cancelled_caught, "a host's cancel always comes out"
        (settled,) = [e.settlement for e in w.session.events() if isinstance(e, CallSettled)]
        assert (settled.status, settled.reason) == ("aborted", "cancelled")
        await w.goes_on()


async def test_a_result_reached_within_the_grace_is_kept(autojump_clock: MockClock) -> None:
    @engine.tool(read_only=True)
    async def nearly(args: Nothing, ctx: engine.ToolContext) -> str:
        with trio.CancelScope(shield=True, deadline=trio.current_time() + 10):
            await trio.sleep(1.1)
        return "finished its work"

    async with world([*call("nearly", {}, id="1"), *done("calls")], tools=[nearly]) as w:
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            await turn.wait()
            assert trio.current_time() == about(1.1)
        (settled,) = [e.settlement for e in w.session.events() if isinstance(e, CallSettled)]
        assert (settled.status, settled.text) == ("completed", "finished its work")
        await w.goes_on()


@pytest.mark.parametrize(
    "returned",
    [
        None,
        5,
        b"bytes",
        ["a list"],
        engine.ToolOutput(text=5),  # type: ignore[arg-type]
        engine.ToolOutput(text=None),  # type: ignore[arg-type]
        engine.ToolOutput(text="x", images=("no image",)),  # type: ignore[arg-type]
        engine.ToolOutput(text="x", images=None),  # type: ignore[arg-type]
        engine.ToolOutput(text="x", metadata={}),  # type: ignore[arg-type]
        engine.ToolOutput(text="x", stop=7),  # type: ignore[arg-type]
    ],
    ids=repr,
)
async def test_invalid_tool_result_is_an_explained_error(autojump_clock: MockClock, returned: object) -> None:
    @engine.tool(read_only=True)
    async def odd(args: Nothing, ctx: engine.ToolContext) -> str:
        return returned  # type: ignore[return-value]  # the point of it

    async with world([*call("odd", {}, id="1"), *done("calls")], DONE, tools=[odd]) as w:
        played = await w.play()
        assert played.statuses == ["error"]
        assert "must" in played.settlements[0].text
        assert isinstance(played.settlements[0].text, str)
        assert played.stop_reason == "completed"
        await w.goes_on()


async def test_unknown_tool_is_an_error_with_hint(autojump_clock: MockClock) -> None:
    bench = Bench()
    first = [
        *call("reed", {}, id="1"),
        *call("xyzzy", {}, id="2"),
        *call("READ", {"name": "a"}, id="3"),
        *done("calls"),
    ]
    async with world(first, DONE, tools=bench.tools()) as w:
        played = await w.play()
    assert played.statuses == ["error", "error", "completed"]
    assert "Did you mean read?" in played.settlements[0].text
    assert "read, write" in played.settlements[1].text


@pytest.mark.parametrize(
    "arguments",
    ['{"name" 5 6}', "[]", "5", '"text"', "null", '{"name": 5}', '{"title": "x"}', '{"name": "x", "seconds": "long"}'],
)
async def test_invalid_arguments_run_nothing(autojump_clock: MockClock, arguments: str) -> None:
    bench = Bench()
    first = [*call("read", arguments, id="1"), *done("calls")]
    async with world(first, DONE, tools=bench.tools()) as w:
        played = await w.play()
        assert bench.log == []
        assert played.statuses == ["error"]
        assert "Call it again with arguments that fit its schema" in played.settlements[0].text
        assert played.all(CallStarted) == []
        assert played.one(CallQueued).arguments == arguments
        await w.goes_on()


async def test_context_describes_the_call(autojump_clock: MockClock) -> None:
    saw: list[tuple[str, str, str, str]] = []

    @engine.tool(read_only=True)
    async def look(args: Nothing, ctx: engine.ToolContext) -> str:
        saw.append((ctx.session_id, ctx.turn_id, ctx.call_id, ctx.cwd))
        return "ok"

    async with world([*call("look", {}, id="1"), *done("calls")], DONE, tools=[look]) as w:
        played = await w.play()
    started = played.one(CallStarted)
    assert saw == [(w.session.id, started.turn_id, started.call_id, "/opt")]


async def test_progress_is_live_and_kept_for_aborts(autojump_clock: MockClock) -> None:
    @engine.tool(read_only=True)
    async def chatty(args: Nothing, ctx: engine.ToolContext) -> str:
        for n in range(100):
            ctx.progress(f"line {n}", output=f"output {n}\n")
            await trio.sleep(1)
        return "never"

    shown: list[str] = []
    async with world([*call("chatty", {}, id="1"), *done("calls")], tools=[chatty]) as w:
        async with w.session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, CallProgress):
                    assert event.seq is None
                    shown.append(event.message)
                    if event.message == "line 2":
                        turn.cancel()
        assert shown == ["line 0", "line 1", "line 2"]
        (settled,) = [e.settlement for e in w.session.events() if isinstance(e, CallSettled)]
        assert "output 0\noutput 1\noutput 2\n" in settled.text


async def test_long_output_keeps_its_newest_part(autojump_clock: MockClock) -> None:
    @engine.tool(read_only=True, timeout=5)
    async def chatty(args: Nothing, ctx: engine.ToolContext) -> str:
        for n in range(2_000):
            ctx.progress(output=f"line {n} {'x' * 100}\n")
        await trio.sleep(60)
        return "never"

    async with world([*call("chatty", {}, id="1"), *done("calls")], DONE, tools=[chatty]) as w:
        played = await w.play()
    told = played.settlements[0].text
    assert "line 1999 " in told
    assert "line 0 " not in told
    assert len(told) < 40_000


async def test_nothing_is_shown_after_settlement(autojump_clock: MockClock) -> None:
    @engine.tool(read_only=True)
    async def stubborn(args: Nothing, ctx: engine.ToolContext) -> str:
        with trio.CancelScope(shield=True):
            for n in range(20):
                ctx.progress(f"still here {n}")
                await trio.sleep(1)
        return "late"

    async with world([*call("stubborn", {}, id="1"), *done("calls")], tools=[stubborn]) as w:
        watcher = w.session.subscribe()
        async with w.session.prompt("go") as turn:
            await trio.sleep(1.5)
            turn.cancel()
        seen = []
        while (event := watcher.try_next()) is not None:
            seen.append(event)
    ended = next(i for i, e in enumerate(seen) if isinstance(e, CallSettled))
    assert not [
        e for e in seen[ended:] if isinstance(e, CallProgress | CallHeartbeat | CallSettled) and e is not seen[ended]
    ]
    assert seen[-1].__class__.__name__ == "TurnEnded"


async def test_overdue_tool_is_recorded_and_named(autojump_clock: MockClock) -> None:
    @engine.tool(read_only=True, timeout=2)
    async def stubborn(args: Nothing, ctx: engine.ToolContext) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(10)
        return "late"

    async with world([*call("stubborn", {}, id="1"), *done("calls")], DONE, tools=[stubborn]) as w:
        played = await w.play()
        (settled,) = played.settlements
        assert (settled.status, settled.reason, settled.outcome_unknown) == ("aborted", "timeout", True)
        # At its timeout and its grace.
        assert played.one(CallSettled).time == about(2.25)
        assert [n.code for n in played.all(Notice)] == ["overstaying"]
        assert played.stop_reason == "completed"
        await w.goes_on()


# -- before the body ------------------------------------------------------------------------------


def changing(log: list[str]) -> Tool:
    @engine.tool
    async def change(args: Nothing, ctx: engine.ToolContext) -> str:
        """Change something."""
        log.append("changed")
        return "changed"

    return change


def looking(log: list[str]) -> Tool:
    @engine.tool(read_only=True)
    async def look(args: Nothing, ctx: engine.ToolContext) -> str:
        """Change nothing."""
        log.append("looked")
        return "looked"

    return look


async def test_start_is_durable_before_a_changing_call(
    autojump_clock: MockClock,
) -> None:
    store = SlowStore(delay=3)
    entered: list[tuple[float, int]] = []

    @engine.tool
    async def change(args: Nothing, ctx: engine.ToolContext) -> str:
        entered.append((trio.current_time(), store.durable[ctx.session_id]))
        return "ok"

    async with world([*call("change", {}, id="1"), *done("calls")], DONE, tools=[change], store=store) as w:
        played = await w.play()
    started = played.one(CallStarted)
    assert started.seq is not None
    assert [at for at, _ in entered] == [about(3)]
    assert [durable >= started.seq for _, durable in entered] == [True]


async def test_unrecorded_changing_call_does_not_run(autojump_clock: MockClock) -> None:
    log: list[str] = []
    store = SlowStore(fails=True)
    first = [*call("change", {}, id="1"), *call("look", {}, id="2"), *done("calls")]
    async with world(first, DONE, tools=[changing(log), looking(log)], store=store) as w:
        played = await w.play()
        assert log == ["looked"]
        assert played.statuses == ["error", "completed"]
        assert "Not executed: the store could not record it" in played.settlements[0].text
        assert (played.stop_reason, played.result.durable) == ("completed", False)
        assert [n.code for n in played.all(Notice)] == ["not_durable"]
        store.fails = False
        await w.goes_on()


async def test_worker_started_during_a_cancel_has_no_effect(autojump_clock: MockClock) -> None:
    """Rule 4: a task started in a cancelled nursery runs up to its first checkpoint, so that comes first."""
    log: list[str] = []

    async def cancel_when_queued(turn: engine.Turn) -> None:
        async for event in turn:
            if isinstance(event, CallQueued):
                turn.cancel()

    first = [*call("look", {}, id="1"), Pause(1), *done("calls")]
    async with world(first, tools=[looking(log)], settings=Settings()) as w:
        async with w.session.prompt("go") as turn:
            await cancel_when_queued(turn)
        started = [e for e in w.session.events() if isinstance(e, CallStarted)]
        assert len(log) == len(started)


async def test_a_job_takes_its_arguments_defaults(autojump_clock: MockClock) -> None:
    saw: list[Job] = []

    @engine.tool(read_only=True)
    async def look(args: Job, ctx: engine.ToolContext) -> str:
        saw.append(args)
        return "ok"

    async with world([*call("look", "", id="1"), *done("calls")], DONE, tools=[look]) as w:
        await w.play()
    assert saw == [Job()]
