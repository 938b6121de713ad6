"""Each way in which a turn may end early, and what its host sees."""

from collections.abc import Awaitable, Callable

import attrs
import trio
import trio.testing

import engine
from engine.events import CallSettled, Settlement
from engine.options import PermissionOptions, Ports
from engine.permission import AllowAll
from engine.testing import ScriptedProvider, SlowStore, TrioClock, call, done, text


@attrs.frozen
class Nothing:
    """Do something that takes ten seconds."""


@engine.tool
async def slow(args: Nothing, ctx: engine.ToolContext) -> str:
    await trio.sleep(10)
    return "done"


@engine.tool
async def stubborn(args: Nothing, ctx: engine.ToolContext) -> str:
    with trio.CancelScope(shield=True):
        await trio.sleep(10)
    return "done"


Way = Callable[[engine.Session, SlowStore], Awaitable[None]]


async def user(session: engine.Session, store: SlowStore) -> None:
    async with session.prompt("go") as turn:
        await trio.sleep(1)
        turn.cancel()
        await turn.wait()


async def host_scope(session: engine.Session, store: SlowStore) -> None:
    with trio.CancelScope() as scope:
        async with session.prompt("go"):
            await trio.sleep(1)
            scope.cancel(reason="the host gives up")
            await trio.sleep(10)
    print("   the scope caught it:", scope.cancelled_caught)


async def host_deadline(session: engine.Session, store: SlowStore) -> None:
    with trio.move_on_after(1) as scope:
        await session.run("go")
    print("   the scope caught it:", scope.cancelled_caught)


async def own_deadline(session: engine.Session, store: SlowStore) -> None:
    await session.run("go", settings=engine.Settings(limits=engine.Limits(seconds=1)))


async def leaving(session: engine.Session, store: SlowStore) -> None:
    async with session.prompt("go"):
        await trio.sleep(1)


async def error(session: engine.Session, store: SlowStore) -> None:
    try:
        async with session.prompt("go"):
            await trio.sleep(1)
            raise ValueError("mine")
    except ValueError as caught:
        print(f"   out of the block came {caught!r}")


async def interrupt(session: engine.Session, store: SlowStore) -> None:
    try:
        async with session.prompt("go"):
            await trio.sleep(1)
            raise KeyboardInterrupt  # as Ctrl-C does
    except KeyboardInterrupt as caught:
        print(f"   out of the block came {caught!r}")


async def full_disk(session: engine.Session, store: SlowStore) -> None:
    async with session.prompt("go") as turn:
        await trio.sleep(1)
        store.hangs = True
        turn.cancel()
        await turn.wait()


async def play(way: Way, tool: str) -> None:
    model = ScriptedProvider([[*text("I will."), *call(tool, {}, id="1"), *done("calls")]])
    store = SlowStore()
    async with engine.open_engine(
        model=model,
        tools=[slow, stubborn],
        permissions=PermissionOptions(approver=AllowAll()),
        store=store,
        ports=Ports(clock=TrioClock()),
    ) as eng:
        session = await eng.create_session()
        await way(session, store)
        left_at = trio.current_time()
        for event in session.events():
            if isinstance(event, CallSettled):
                print(f"   {event.time:.2f} the call is {describe(event.settlement)}")
            elif isinstance(event, engine.TurnEnded):
                unsaved = "" if event.result.durable else ", not confirmed by the store"
                print(f"   {event.time:.2f} the turn is {event.result.stop_reason}: {event.result.detail}{unsaved}")
        print(f"   {left_at:.2f} the block is left")


def describe(settlement: Settlement) -> str:
    unknown = ", outcome unknown" if settlement.outcome_unknown else ""
    return f"{settlement.status}, {settlement.reason}{unknown}"


WAYS: list[tuple[str, Way, str]] = [
    ("the user cancels", user, "slow"),
    ("the host's scope is cancelled", host_scope, "slow"),
    ("the host's deadline passes", host_deadline, "slow"),
    ("the turn's own limit of seconds is reached", own_deadline, "slow"),
    ("the block is left", leaving, "slow"),
    ("the body raises", error, "slow"),
    ("Ctrl-C", interrupt, "slow"),
    ("the user cancels a tool that will not stop", user, "stubborn"),
    ("the user cancels while the disk hangs", full_disk, "slow"),
]


if __name__ == "__main__":
    for title, way, tool in WAYS:
        print(title)
        trio.run(play, way, tool, clock=trio.testing.MockClock(autojump_threshold=0))
