"""What closing does: to watchers, to finished sub-agents, to ports that fail, and to ends that are being saved."""

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.core.errors import StoreError
from engine.core.events import CallSettled, TurnEnded
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.testing import FakeTools, ScriptedProvider, SlowStore, call, done, text

SUB = [*call("sub", {"key": "do it"}, id="1"), *done("calls")]
OK = [*text("ok"), *done()]


def opened(*script: object, store: SlowStore | None = None) -> engine.Engine:
    return engine.open_engine(
        model=ScriptedProvider([*script, OK, OK]),  # type: ignore[list-item]  # answers
        tools=FakeTools().tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        store=store or SlowStore(),
    )


async def test_watcher_ends_complete_at_engine_close(
    autojump_clock: trio.testing.MockClock,
) -> None:
    seen: list[object] = []
    async with trio.open_nursery() as nursery:

        async def watch(session: engine.Session) -> None:
            seen.extend([event async for event in session.subscribe()])

        async with opened(OK) as eng:
            session = await eng.create_session()
            nursery.start_soon(watch, session)
            await trio.testing.wait_all_tasks_blocked()
            await session.run("go")
    assert isinstance(seen[-1], TurnEnded)
    assert [e for e in seen if getattr(e, "seq", None) is not None] == list(session.events()[1:])


async def test_finished_sub_agent_is_in_the_store(autojump_clock: trio.testing.MockClock) -> None:
    async with opened(SUB) as eng:
        session = await eng.create_session()
        watcher = session.subscribe(after=0)
        await session.run("go")
        children = set()
        while (event := watcher.try_next()) is not None:
            children.add(event.session_id)
        (child_id,) = children - {session.id}
        child = await eng.open_session(child_id)
        assert child.state.parent_id == session.id
        assert child.state.last_result is not None
        assert child.state.last_result.stop_reason == "completed"


async def test_saving_child_does_not_delay_its_parent(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = SlowStore(delay=2.0)
    async with opened(SUB, store=store) as eng:
        session = await eng.create_session()
        watcher = session.subscribe()
        async with session.prompt("go") as turn:
            # The child's step is flushed at 2, its end would be at 4.
            await trio.sleep(3)
            turn.cancel()
            await turn.wait()
        events = []
        while (event := watcher.try_next()) is not None:
            events.append(event)
    ends = [event for event in events if isinstance(event, TurnEnded)]
    assert [len(event.path) for event in ends] == [2, 1]
    assert [event.result.durable for event in ends] == [False, True]
    (settled,) = [event.settlement for event in events if isinstance(event, CallSettled)]
    assert not settled.outcome_unknown


@attrs.define(eq=False)
class BrokenStore(SlowStore):
    async def aclose(self) -> None:
        raise OSError("the disk is gone")


async def test_store_close_error_hides_no_body_error(
    autojump_clock: trio.testing.MockClock,
) -> None:
    with pytest.raises(StoreError, match="the disk is gone"):
        async with opened(store=BrokenStore()):
            pass
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        async with opened(store=BrokenStore()):
            raise error
    assert caught.value is error


def test_progress_from_a_thread_explains_itself() -> None:
    @attrs.frozen
    class Nothing:
        """Nothing."""

    @engine.tool(name="threaded", read_only=True)
    async def threaded(args: Nothing, ctx: engine.ToolContext) -> str:
        await ctx.to_thread(lambda: trio.from_thread.run_sync(ctx.progress, "half way"))
        await ctx.to_thread(ctx.progress, "all the way")
        return "never"

    async def main() -> list[str]:
        script = [*call("threaded", {}, id="t"), *done("calls")]
        async with engine.open_engine(model=ScriptedProvider([script, OK]), tools=(threaded,)) as eng:
            session = await eng.create_session()
            await session.run("go")
            return [e.settlement.text for e in session.events() if isinstance(e, CallSettled)]

    (told,) = trio.run(main)
    assert "from_thread.run_sync" in told


async def test_close_error_is_noted_on_the_body_error(autojump_clock: trio.testing.MockClock) -> None:
    class Broken(SlowStore):
        async def aclose(self) -> None:
            raise StoreError("the disk is full")

    with pytest.raises(ValueError, match="mine") as raised:
        async with opened(OK, store=Broken()):
            raise ValueError("mine")
    assert "the disk is full" in "".join(raised.value.__notes__)
