"""Connections that are cut at each event, or at any byte: what the client has at the end is what it would have had."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, get_args

import attrs
import pytest
import trio
from trio.testing import MockClock

from engine.client import Client, Offline, Online, RemoteSession
from engine.core.errors import Overloaded, ServerOffline
from engine.core.events import Durable, TurnEnded, TurnRedone, TurnUndone
from engine.core.messages import Usage
from engine.journal.state import Resync
from engine.testing import FakeTools
from engine.testing.fault_proxy import CutKind
from engine.testing.script import Answer, Fail, call, done, reasoning, text
from tests.support.client_world import FOR_EVER, ClientWorld, Transport, client_world

# A tool, two at once, a failure of the host, a sub-agent; then a turn that summarises; then one more, which is undone
# and redone.
SCRIPT: list[Answer] = [
    [
        *reasoning("Hm, well.", pieces=2),
        *text("Let me look.", pieces=3),
        *call("work", {"seconds": 0.1}, id="1"),
        *done("calls"),
    ],
    [*call("look", {"seconds": 0.2}, id="2"), *call("look", {"seconds": 0.1}, id="3"), *done("calls")],
    [Fail(Overloaded("busy", retryable=True))],
    [*call("sub", {"key": "look below"}, id="4"), *done("calls")],
    [*text("I am the sub-agent.", pieces=2), *done()],
    [*text("All done.", pieces=2), *done(usage=Usage(input=50, output=5))],
    [*text("What was before.", pieces=2), *done()],
    [*text("Again.", pieces=2), *done()],
]


@attrs.define
class Watched:
    """What a client has seen."""

    session: RemoteSession
    items: list[Any] = attrs.field(factory=list)

    @property
    def durable(self) -> list[tuple[str, int]]:
        return [(item.session_id, item.seq) for item in self.items if isinstance(item, get_args(Durable))]

    def kinds(self, *kinds: type) -> list[str]:
        return [type(item).__name__ for item in self.items if isinstance(item, kinds)]


async def drive(world: ClientWorld, client: Client, folder: Path, after: Callable[[int], None]) -> Watched:
    """Run three turns, undo and redo the last, and watch all of it; *after* is called after each item."""
    session = await client.create_session(cwd=folder)
    watched = Watched(session)
    turns = 0
    async with session.watch(from_start=True) as stream, trio.open_nursery() as nursery:
        await session.prompt("Go")
        async for item in stream:
            watched.items.append(item)
            if isinstance(item, TurnEnded) and len(item.path) == 1:
                turns += 1
                if turns == 1:
                    nursery.start_soon(compact, client, session)
                elif turns == 2:
                    nursery.start_soon(session.prompt, "Once more")
                else:
                    nursery.start_soon(partial(client.request, "undo", session_id=session.id, force=True))
            elif isinstance(item, TurnUndone):
                nursery.start_soon(partial(client.request, "redo", session_id=session.id, force=True))
            after(len(watched.items))
            if isinstance(item, TurnRedone):
                break
    await check(world, watched, client)
    return watched


async def compact(client: Client, session: RemoteSession) -> None:
    """Summarise the history. The request has no key: if the connection is lost, it is the caller who has to look."""
    while True:
        try:
            await client.request("compact", session_id=session.id)
        except ServerOffline:
            if session.state is not None and session.state.turns < 2 and (await session.head()).turn is None:
                continue
        return


async def check(world: ClientWorld, watched: Watched, client: Client) -> None:
    """Compare what was seen with the server's record."""
    live = await world.engine.open_session(watched.session.id)
    record = []
    cursor = live.subscribe(after=0)
    while (event := cursor.try_next()) is not None:
        if isinstance(event, get_args(Durable)):
            record.append((event.session_id, event.seq))
    assert watched.durable == record
    assert watched.session.state == live.state
    assert client.healed == client.unknown_events == 0


def tools() -> dict[str, Any]:
    return {"tools": FakeTools().tools()}


async def cut_after_item(number: int | None, folder: Path) -> Watched:
    async with client_world(folder, "pair", *SCRIPT, **tools(), seconds=FOR_EVER) as world, world.client() as client:
        return await drive(world, client, folder, lambda seen: world.cut() if seen == number else None)


async def test_cut_at_any_event_changes_nothing(folder: Path, autojump_clock: MockClock, is_full: bool) -> None:
    del autojump_clock
    whole = await cut_after_item(None, folder)
    assert len(set(whole.durable)) == len(whole.durable) > 60
    assert len({session_id for session_id, _ in whole.durable}) == 2
    for number in range(1, len(whole.items), 1 if is_full else 9):
        seen = await cut_after_item(number, folder)
        assert [seq for _, seq in seen.durable] == [seq for _, seq in whole.durable]
        assert seen.kinds(Resync) == []
        assert seen.kinds(Offline, Online) in ([], ["Offline", "Online"]), number


@pytest.fixture
def quick_clock() -> MockClock:
    """Real time, but the pauses between attempts to connect are shorter."""
    return MockClock(rate=10)


@pytest.mark.parametrize("transport", ["websocket", "unix"])
@pytest.mark.parametrize("kind", get_args(CutKind)[:2])
async def test_cut_at_any_byte_changes_nothing(
    folder: Path, quick_clock: MockClock, transport: Transport, kind: CutKind, is_full: bool
) -> None:
    del quick_clock
    numbers = random.Random(f"{transport} {kind}")
    for number in range(40 if is_full else 1):
        place = folder / str(number)
        place.mkdir()
        async with client_world(place, transport, *SCRIPT, **tools(), seconds=1200) as world:
            assert world.proxy is not None
            world.proxy.cut_kind = kind
            world.proxy.largest_piece = 700
            async with world.client() as client:
                # Not the connection that has just been made: it is cut by hand, the next ones by the proxy.
                world.proxy.cuts = [numbers.randint(1, 12_000) for _ in range(6)]
                world.cut()
                await drive(world, client, place, lambda seen: None)
                assert world.proxy.accepted > 2
