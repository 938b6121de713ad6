"""Several clients that prompt, steer, cancel and answer at any time, are cut off and stop reading: all see the same."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, Literal, cast, get_args

import attrs
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

import engine
from engine.client import Client, RemoteSession, SessionStream
from engine.core.errors import (
    AlreadyAnswered,
    InputConflict,
    RequestNotFound,
    ServerOffline,
    SessionBusy,
    TurnOver,
)
from engine.core.events import (
    Delta,
    Durable,
    PartDiscarded,
    PartEnded,
    PartReplaced,
    PartStarted,
    PermissionAsked,
    TurnStarted,
)
from engine.journal.state import Resync
from engine.session.engine_options import PermissionOptions
from engine.session.session import Session
from engine.testing import FakeTools
from engine.testing.script import Answer, Pause, call, done, reasoning, text
from tests.support.client_world import ClientWorld, PairAddress, client_world
from tests.support.scribe import open_parts

# Asked about, a sub-agent, pauses in which a client may do something; over and over.
SCRIPT: list[Answer] = [
    [
        *reasoning("Hm.", pieces=2),
        Pause(0.2),
        *text("Let me look.", pieces=3),
        *call("work", {"seconds": 0.3}, id="1"),
        *done("calls"),
    ],
    [*text("And now", pieces=2), Pause(0.3), *call("sub", {"key": "look below"}, id="2"), *done("calls")],
    [*text("Below.", pieces=2), Pause(0.1), *done()],
    [Pause(0.1), *text("All done.", pieces=4), *done()],
]
CLIENTS = 3
# What comes too late, or is too much at once. Anything else is a fault.
EXPECTED = (SessionBusy, TurnOver, RequestNotFound, AlreadyAnswered, InputConflict, ServerOffline)
Deed = Literal["prompt", "queue", "steer", "cancel", "allow", "refuse", "rename", "cut", "stall", "watch again"]


@attrs.define(eq=False)
class Watcher:
    """A stream of a session, read by a task of its own, and what it has shown."""

    stream: SessionStream
    durable: list[tuple[str, int | None]] = attrs.field(factory=list)
    begins_with_all: bool = True
    turn_id: str = "none yet"
    asked: list[str] = attrs.field(factory=list)
    texts: dict[str, str] = attrs.field(factory=dict)
    may_read: trio.Event = attrs.field(factory=trio.Event)

    async def run(self) -> None:
        async with self.stream as stream:
            async for item in stream:
                self.take(item)
                await self.may_read.wait()

    def take(self, item: object) -> None:
        if isinstance(item, get_args(Durable)):
            event = cast("Durable", item)
            self.durable.append((event.session_id, event.seq))
        match item:
            case Resync():
                self.durable, self.begins_with_all = [], False
                states = (item.state, *(each.state for each in item.descendants))
                self.texts = {part.part_id: part.text for state in states for part in open_parts(state)}
            case TurnStarted() if len(item.path) == 1:
                self.turn_id = str(item.turn_id)
            case PermissionAsked():
                self.asked.append(item.request_id)
            case PartStarted() | PartReplaced():
                self.texts[item.part_id] = ""
            case PartDiscarded():
                self.texts.pop(item.part_id, None)
            case PartEnded():
                shown = self.texts.pop(item.part.id)
                assert shown == getattr(item.part, "arguments", getattr(item.part, "text", None))
            case _ if isinstance(item, get_args(Delta)):
                delta = cast("Delta", item)
                assert delta.offset == len(self.texts[delta.part_id])
                self.texts[delta.part_id] += delta.text
            case _:
                pass


@attrs.define(eq=False)
class User:
    """A client with a connection of its own, which watches the session twice."""

    client: Client
    address: PairAddress
    session: RemoteSession
    nursery: trio.Nursery
    watchers: list[Watcher] = attrs.field(factory=list)
    refusals: Counter[str] = attrs.field(factory=Counter)

    def watch(self, **where: Any) -> None:
        watcher = Watcher(self.session.watch(**where))
        watcher.may_read.set()
        self.watchers.append(watcher)
        self.nursery.start_soon(watcher.run)

    def do(self, deed: Deed, number: int) -> None:
        """Do something. Not a checkpoint: what takes time goes on by itself."""
        watcher = self.watchers[number % len(self.watchers)]
        turn = self.session.turn(watcher.turn_id)
        deeds: dict[Deed, Callable[[], Coroutine[Any, Any, object]]] = {
            # A few keys, so that requests are repeated, also by other clients and with another text.
            "prompt": partial(self.session.prompt, f"Prompt {number}", key=f"p{number % 5}"),
            "queue": partial(self.session.queue, f"Later {number % 3}", key=f"q{number % 3}"),
            "steer": partial(turn.steer, f"Left {number}", key=f"s{number % 4}"),
            "cancel": turn.cancel,
            "rename": partial(self.client.request, "session.rename", session_id=self.session.id, title=f"T{number}"),
        }
        if deed in deeds:
            self.nursery.start_soon(self.attempt, deeds[deed])
        elif deed in {"allow", "refuse"} and watcher.asked:
            answer = engine.Once() if deed == "allow" else engine.Reject("Not this.")
            self.nursery.start_soon(self.attempt, partial(self.session.reply, watcher.asked[-1], answer))
        elif deed == "cut":
            self.address.cut()
        elif deed == "stall" and watcher.may_read.is_set():
            watcher.may_read = trio.Event()
        elif deed == "watch again":
            self.watch(from_start=number % 2 == 0, interval=number % 50)

    async def attempt(self, deed: Callable[[], Coroutine[Any, Any, object]]) -> None:
        try:
            await deed()
        except EXPECTED as error:
            self.refusals[type(error).__name__] += 1


async def until_idle(session: Session) -> None:
    """End what runs. What was queued behind it waits, after a cancel."""
    while session.state.turn is not None:
        session.cancel(session.state.turn.turn_id)
        await trio.sleep(0.5)


async def check(users: list[User], session: Session) -> None:
    """Wait until every stream has shown everything; compare them with the record, and with each other."""
    record: list[tuple[str, int | None]] = []
    cursor = session.subscribe(after=0)
    while (event := cursor.try_next()) is not None:
        if isinstance(event, get_args(Durable)):
            record.append((event.session_id, event.seq))
    for watcher in (each for user in users for each in user.watchers):
        watcher.may_read.set()
        while watcher.stream.state is None or watcher.stream.state.seq != session.state.seq:
            await trio.sleep(0.5)
        expected = record if watcher.begins_with_all else record[len(record) - len(watcher.durable) :]
        assert watcher.durable == expected
        assert watcher.stream.state == session.state
    for user in users:
        assert (user.client.healed, user.client.unknown_events) == (0, 0)


async def interleave(deeds: list[tuple[Deed, int, int, float]]) -> Counter[str]:
    async with client_world(
        Path("unused"),
        "pair",
        *SCRIPT,
        repeat=True,
        tools=FakeTools().tools(),
        permissions=PermissionOptions(rules=("ask work *",)),
        seconds=math.inf,
    ) as world:
        return await interleave_in(world, deeds)


async def interleave_in(world: ClientWorld, deeds: list[tuple[Deed, int, int, float]]) -> Counter[str]:
    assert world.pair is not None
    session = await world.engine.create_session(cwd=Path("/"))
    async with AsyncExitStack() as stack:
        addresses = [PairAddress(world.pair.server, world.pair.nursery) for _ in range(CLIENTS)]
        clients = [
            await stack.enter_async_context(world.client(f"client{number}", address=address))
            for number, address in enumerate(addresses)
        ]
        nursery = await stack.enter_async_context(trio.open_nursery())
        users = [
            User(client, address, client.session(session.id), nursery)
            for client, address in zip(clients, addresses, strict=True)
        ]
        for user in users:
            user.watch(from_start=True)
            user.watch(interval=0)
        for deed, who, number, pause in deeds:
            users[who].do(deed, number)
            await trio.sleep(pause)
        for watcher in (each for user in users for each in user.watchers):
            watcher.may_read.set()
        await trio.sleep(5)
        await until_idle(session)
        await session.rename("The end")
        await check(users, session)
        nursery.cancel_scope.cancel()
    return sum((user.refusals for user in users), Counter())


DEEDS = st.lists(
    st.tuples(
        st.sampled_from([*get_args(Deed), "prompt", "allow", "steer"]),
        st.integers(0, CLIENTS - 1),
        st.integers(0, 59),
        st.sampled_from([0.0, 0.01, 0.1, 0.3, 1.0]),
    ),
    min_size=1,
    max_size=40,
)


@given(deeds=DEEDS)
def test_all_clients_see_the_same(deeds: list[tuple[Deed, int, int, float]]) -> None:
    trio.run(interleave, deeds, clock=MockClock(autojump_threshold=0))
