"""Defects found by reading: each test is named for what was wrong."""

from collections.abc import Callable, Sequence
from functools import partial

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.core.errors import ConfigError, SessionBusy, StoreError
from engine.core.events import (
    CallDelivered,
    CallSettled,
    Durable,
    Notice,
    PermissionAnswered,
    PermissionAsked,
    SharedContext,
    TurnEnded,
)
from engine.core.ids import SessionId
from engine.core.llm_types import (
    ModelInfo,
    ModelRequest,
    StreamEvent,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
)
from engine.core.permission_types import Approver
from engine.core.protocols import Model, ModelStream
from engine.journal.fold import fold
from engine.nursery.cleanup import until_parked
from engine.permission.allow_all import AllowAll
from engine.permission.policy import Policy
from engine.session.engine_options import PermissionOptions
from engine.session.session import Session, live_session
from engine.testing.fake_tools import FakeTools
from engine.testing.fakes import SlowStore
from engine.testing.script import Pause, call, done, text
from engine.testing.scripted_provider import ScriptedAnswer, ScriptedProvider
from engine.tools.call_values import Need, ToolOutput
from engine.tools.tool import Tool, tool
from engine.tools.tool_context import ToolContext

LAST: ScriptedAnswer = [*text("That is all."), *done()]


@attrs.frozen
class Nothing:
    """No arguments."""


def opened(
    *script: ScriptedAnswer,
    tools: tuple[Tool, ...] = (),
    store: SlowStore | None = None,
    model: Model | None = None,
    approver: Approver | None = None,
) -> engine.Engine:
    return engine.open_engine(
        model=model or ScriptedProvider([*script, LAST, LAST, LAST]),
        tools=(*FakeTools().tools(), *tools),
        permissions=PermissionOptions(approver=approver or AllowAll()),
        store=store or SlowStore(),
    )


def events_of(session: Session, kind: type[Durable]) -> list[Durable]:
    return [event for event in session.events() if isinstance(event, kind)]


def statuses(session: Session) -> list[tuple[str, str | None]]:
    return [
        (event.settlement.status, event.settlement.reason)
        for event in session.events()
        if isinstance(event, CallSettled)
    ]


def check_ended(session: Session) -> None:
    """The last turn has its one end, the session is idle, and what was written folds to the same."""
    assert isinstance(session.events()[-1], TurnEnded)
    assert session.state.turn is None
    assert fold(session.events()) == session.state
    assert len(events_of(session, CallSettled)) == len(events_of(session, CallDelivered))


@attrs.define(eq=False)
class Wrapped:
    """A model whose streams are made to misbehave."""

    model: ScriptedProvider
    wrap: Callable[[ModelStream], ModelStream]
    times: int = 1

    @property
    def info(self) -> ModelInfo:
        return self.model.info

    async def open(self, request: ModelRequest) -> ModelStream:
        stream = await self.model.open(request)
        self.times -= 1
        return self.wrap(stream) if self.times >= 0 else stream


@attrs.define(eq=False)
class Stream:
    """A stream that does what the one in it does."""

    inner: ModelStream

    async def receive(self) -> Sequence[StreamEvent]:
        return await self.inner.receive()

    async def aclose(self) -> None:
        await self.inner.aclose()


# -- the store -----------------------------------------------------------------------------------


@pytest.mark.parametrize("good", range(1, 12))
async def test_store_refusing_an_event_still_ends_the_turn(good: int, autojump_clock: trio.testing.MockClock) -> None:
    class Refusing(SlowStore):
        count = 0

        def put(self, event: Durable) -> None:
            self.count += 1
            if self.count > good:
                raise StoreError("the sink has failed")
            super().put(event)

    async with opened([*text("hi"), *call("look", id="a"), *done("calls")], store=Refusing()) as eng:
        session = await eng.create_session()
        result = await session.run("go")
        check_ended(session)
        assert (result.stop_reason, result.durable) == ("completed", False)
        assert (await session.run("again")).stop_reason == "completed"


async def test_flush_with_foreign_error_still_ends_the_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Broken(SlowStore):
        async def flushed(self, session_id: SessionId, seq: int) -> None:
            await trio.lowlevel.checkpoint()
            raise OSError("no space left")

    async with opened(store=Broken()) as eng:
        session = await eng.create_session()
        result = await session.run("go")
        check_ended(session)
    assert (result.stop_reason, result.durable) == ("completed", False)
    assert [e.code for e in session.events() if isinstance(e, Notice)] == ["not_durable"]


# -- the end of a turn -----------------------------------------------------------------------------


async def test_modifier_with_base_exception_still_ends_the_turn(
    autojump_clock: trio.testing.MockClock,
) -> None:
    class Odd(BaseException):
        pass

    def modify(context: SharedContext) -> SharedContext:
        raise Odd

    @tool(read_only=True)
    async def odd(args: Nothing, ctx: ToolContext) -> ToolOutput:
        """Return a modifier that fails."""
        await trio.lowlevel.checkpoint()
        return ToolOutput(text="ok", modify=modify)

    script = [*call("odd", id="a"), *call("look", {"seconds": 5}, id="b"), *done("calls")]
    async with opened(script, tools=(odd,)) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            await turn.wait()
        check_ended(session)
    assert statuses(session) == [("completed", None), ("aborted", "cancelled")]


async def test_system_exit_of_a_modifier_leaves_the_engine() -> None:
    """Not taken for the modifier's failure: the program wants to end."""

    def modify(context: SharedContext) -> SharedContext:
        raise SystemExit(3)

    @tool(read_only=True)
    async def leaving(args: Nothing, ctx: ToolContext) -> ToolOutput:
        """Return a modifier that ends the program."""
        await trio.lowlevel.checkpoint()
        return ToolOutput(text="ok", modify=modify)

    async def main() -> None:
        async with opened([*call("leaving", id="a"), *done("calls")], tools=(leaving,)) as eng:
            await (await eng.create_session()).run("go")

    with pytest.RaisesGroup(SystemExit, flatten_subgroups=True, allow_unwrapped=True):
        await main()


async def test_shielded_tools_question_is_closed(autojump_clock: trio.testing.MockClock) -> None:
    answers: list[str] = []

    @tool(read_only=True)
    async def asks(args: Nothing, ctx: ToolContext) -> str:
        """Ask as it is cancelled, and once more after the turn."""
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 100):
                answers.append((await ctx.ask(Need(permission="tidy")))[0])
                answers.append((await ctx.ask(Need(permission="tidy")))[0])

    async with opened([*call("asks", id="a"), *done("calls")], tools=(asks,), approver=Policy()) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
            await turn.wait()
            assert len(live_session(session).questions) == 0
        check_ended(session)
    assert answers == ["withdrawn", "withdrawn"]
    assert len(events_of(session, PermissionAsked)) == len(events_of(session, PermissionAnswered)) == 1


async def test_sub_agent_cannot_start_after_turn_end(autojump_clock: trio.testing.MockClock) -> None:
    @tool(read_only=True)
    async def late(args: Nothing, ctx: ToolContext) -> str:
        """Start a sub-agent when nobody is there any more."""
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 100):
                await trio.sleep(1)
                await ctx.run_agent("too late")

    model = ScriptedProvider([[*call("late", id="a"), *done("calls")], LAST])
    async with opened(tools=(late,), model=model) as eng:
        session = await eng.create_session()
        watcher = session.subscribe()
        async with session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
        seen = list(iter(watcher.try_next, None))
    assert isinstance(seen[-1], TurnEnded)
    assert len(model.requests) == 1


# -- a call's start ----------------------------------------------------------------------------------


async def test_timed_out_call_never_runs(autojump_clock: trio.testing.MockClock) -> None:
    @tool(timeout=0.5)
    async def change(args: Nothing, ctx: ToolContext) -> str:
        """Change something."""
        await trio.lowlevel.checkpoint()
        return "changed"

    # It waits for the store for longer than its timeout and its grace.
    async with opened([*call("change", id="a"), *done("calls")], tools=(change,), store=SlowStore(delay=2)) as eng:
        session = await eng.create_session()
        await session.run("go")
    assert statuses(session) == [("completed", None)]


async def test_unexecuted_call_never_runs(autojump_clock: trio.testing.MockClock) -> None:
    ran: list[float] = []

    @tool()
    async def change(args: Nothing, ctx: ToolContext) -> str:
        """Change something."""
        ran.append(trio.current_time())
        await trio.lowlevel.checkpoint()
        return "changed"

    class Shielded(SlowStore):
        async def flushed(self, session_id: SessionId, seq: int) -> None:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                await trio.sleep(1)

    async with opened([*call("change", id="a"), *done("calls")], tools=(change,), store=Shielded()) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            await trio.sleep(0.5)
            turn.cancel()
    assert statuses(session) == [("aborted", "not_executed")]
    assert ran == []


async def test_cancelled_kept_by_a_tool_is_contained(autojump_clock: trio.testing.MockClock) -> None:
    @tool(read_only=True)
    async def keeps(args: Nothing, ctx: ToolContext) -> str:
        """Raise a Cancelled where nothing is cancelled."""
        kept: trio.Cancelled | None = None
        with trio.CancelScope() as scope:
            scope.cancel(reason="test")
            try:
                await trio.sleep_forever()
            except trio.Cancelled as error:
                kept = error
                raise
        assert kept is not None
        raise kept

    script = [*call("keeps", id="a"), Pause(1), *call("look", id="b"), *done("calls")]
    async with opened(script, tools=(keeps,)) as eng:
        session = await eng.create_session()
        assert (await session.run("go")).stop_reason == "completed"
    assert statuses(session) == [("error", None), ("completed", None)]


async def test_stray_cancelled_of_a_stream_fails_the_request(autojump_clock: trio.testing.MockClock) -> None:
    class Stray(Stream):
        async def receive(self) -> Sequence[StreamEvent]:
            batch = await self.inner.receive()
            if batch:
                return batch
            kept: trio.Cancelled | None = None
            with trio.CancelScope() as scope:
                scope.cancel(reason="test")
                try:
                    await trio.sleep_forever()
                except trio.Cancelled as error:
                    kept = error
                    raise
            assert kept is not None
            raise kept

    @tool(read_only=True)
    async def slow(args: Nothing, ctx: ToolContext) -> str:
        """Work longer than the stream."""
        await trio.sleep(2)
        return "finished"

    model = ScriptedProvider([[*call("slow", id="a")]])
    async with opened(model=Wrapped(model, Stray), tools=(slow,)) as eng:
        session = await eng.create_session()
        result = await session.run("go")
        check_ended(session)
    assert result.stop_reason != "completed"
    assert statuses(session) == [("completed", None)]


async def test_a_failing_park_leaves_no_shield(autojump_clock: trio.testing.MockClock) -> None:
    def fail() -> bool:
        raise ValueError("park")

    with pytest.raises(ExceptionGroup), trio.move_on_after(1):
        await until_parked(partial(trio.sleep, 60), fail)
    assert trio.current_time() < 2


def test_endless_grace_still_has_a_deadline() -> None:
    async def tidies(args: Nothing, ctx: ToolContext) -> str:
        """Clean up for ever."""
        await trio.sleep_forever()

    with pytest.raises(ConfigError, match="grace"):
        tool(grace=float("inf"))(tidies)


# -- the model ---------------------------------------------------------------------------------------


async def test_batch_after_a_cancel_delivers_every_call(autojump_clock: trio.testing.MockClock) -> None:
    class Uncancellable(Stream):
        async def receive(self) -> Sequence[StreamEvent]:
            with trio.CancelScope(shield=True, deadline=trio.current_time() + 5):
                return await self.inner.receive()
            return []

    late = [ToolCallChunk("a", "{}"), ToolCallDone("a"), *text("more"), *done("calls")]
    model = ScriptedProvider([[ToolCallStarted("a", "look"), Pause(1), *late]], batch=10)
    async with opened(model=Wrapped(model, Uncancellable)) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            await trio.sleep(0.9)
            turn.cancel()
        check_ended(session)
    assert turn.result.text == "more"
    assert statuses(session) == [("aborted", "not_executed")]


async def test_error_during_cancel_is_no_internal_error(autojump_clock: trio.testing.MockClock) -> None:
    class Noisy(Stream):
        async def receive(self) -> Sequence[StreamEvent]:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._fail_when_cancelled)
                await trio.sleep_forever()

        async def _fail_when_cancelled(self) -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise OSError("reset by peer")

    async with opened(model=Wrapped(ScriptedProvider([LAST]), Noisy)) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            await trio.sleep(1)
            turn.cancel()
        check_ended(session)
    assert turn.result.stop_reason == "aborted"
    assert events_of(session, Notice) == []


# -- the engine --------------------------------------------------------------------------------------


async def test_concurrently_opened_session_has_one_log(autojump_clock: trio.testing.MockClock) -> None:
    store = SlowStore()
    async with opened(store=store) as eng:
        first = await eng.create_session()
        await first.run("go")
    found: list[Session] = []
    async with opened(store=store) as eng:

        async def open_one() -> None:
            found.append(await eng.open_session(first.id))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(open_one)
            nursery.start_soon(open_one)
        assert found[0] is found[1]
        async with found[0].prompt("one"):
            with pytest.raises(SessionBusy):
                await found[1].run("two")


async def test_store_closes_after_host_turns_are_saved(autojump_clock: trio.testing.MockClock) -> None:
    order: list[str] = []

    class Noting(SlowStore):
        async def flushed(self, session_id: SessionId, seq: int) -> None:
            await super().flushed(session_id, seq)
            order.append("flushed")

        async def aclose(self) -> None:
            order.append("closed")
            await super().aclose()

    async def use(session: Session) -> None:
        async with session.prompt("go") as turn:
            await turn.wait()

    script = [*call("look", {"manner": "cleans_up"}, id="a"), Pause(20), *done("calls")]
    async with trio.open_nursery() as nursery:
        async with opened(script, store=Noting(delay=0.1)) as eng:
            session = await eng.create_session()
            nursery.start_soon(use, session)
            await trio.sleep(1)
    assert order == ["flushed", "closed"]
    check_ended(session)
