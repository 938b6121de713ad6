"""Slow, split, stalled and silent connections; clients that leave, come back, and come all at once."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import engine
from engine.client import Offline, Online, RemoteSession
from engine.core.events import (
    CallStarted,
    PartStarted,
    PermissionAsked,
    TextDelta,
    TurnEnded,
    TurnEnding,
    TurnStarted,
)
from engine.journal.state import Resync
from engine.session.engine_options import PermissionOptions
from engine.testing import FakeTools
from engine.testing.script import Answer, Pause, call, done, spread, text
from tests.support.client_world import FOR_EVER, PairAddress, Transport, client_world, items_until, numbers_of
from tests.support.processes import python_process, read_line
from tests.support.served_engine import served

WORK: list[Answer] = [
    [*spread(text("Let me look.", pieces=5), 0.05), *call("work", {"seconds": 0.2}, id="1"), *done("calls")],
    [*spread(text("Done.", pieces=5), 0.05), *done()],
]
SLOW: list[Answer] = [[*text("Well"), Pause(60), *text(" then.", id="2"), *done()]]
HEARTBEAT = 15.0


def tools() -> dict[str, Any]:
    return {"tools": FakeTools().tools()}


@pytest.fixture
def clock() -> MockClock:
    """Real time, which a test may put forward."""
    return MockClock(rate=1)


@pytest.mark.parametrize("transport", ["websocket", "unix"])
async def test_slow_and_split_bytes_change_nothing(folder: Path, transport: Transport) -> None:
    async with client_world(folder, transport, *WORK, **tools()) as world:
        assert world.proxy is not None
        world.proxy.largest_piece, world.proxy.delay = 400, 0.001
        async with world.client() as client:
            session = await client.create_session(cwd=folder)
            async with session.watch(from_start=True) as stream:
                await session.prompt("Go")
                items = await items_until(stream, TextDelta)
                world.proxy.stall()
                await trio.sleep(0.1)
                world.proxy.resume()
                items += await items_until(stream, TurnEnded)
            assert numbers_of(items) == list(range(1, len(numbers_of(items)) + 1))
            assert session.state == (await world.engine.open_session(session.id)).state
            assert client.healed == 0
            assert world.proxy.accepted == 1


@pytest.mark.slow
@pytest.mark.parametrize("transport", ["websocket", "unix"])
async def test_cable_that_is_pulled_is_noticed(folder: Path, clock: MockClock, transport: Transport) -> None:
    async with client_world(folder, transport, *WORK, **tools(), seconds=1000) as world, world.client() as client:
        assert world.proxy is not None
        session = await client.create_session(cwd=folder)
        async with session.watch(from_start=True) as stream:
            await session.prompt("Go")
            items = await items_until(stream, CallStarted)
            world.proxy.cut("silent")
            live = await world.engine.open_session(session.id)
            while live.state.turn is not None:
                await trio.sleep(0.01)
            # What has come before the cut may still be taken; then there is silence.
            clock.jump(2.5 * HEARTBEAT + 0.1)
            items += await items_until(stream, Offline)
            items += await items_until(stream, TurnEnded)
        assert [type(item) for item in items if isinstance(item, (Offline, Online, Resync))] == [Offline, Online]
        assert numbers_of(items) == list(range(1, len(numbers_of(items)) + 1))
        assert session.state == live.state
        assert client.healed == 0


@pytest.mark.os
@pytest.mark.slow
async def test_t25_suspended_client_goes_on(tmp_path: Path, clock: MockClock) -> None:
    """As on a machine that sleeps: for the client no time passes, and the server has long closed the connection."""
    words = [f"{number} " for number in range(2_000)]
    script: list[Answer] = [
        [*text("Well, "), *call("work", {"seconds": 90}, id="1"), *done("calls")],
        [*text("".join(words), pieces=500), *done()],
    ]
    async with served(tmp_path, *script, **tools(), seconds=3_000) as server, server.unix() as owner:
        await owner.hello("owner")
        session_id = await owner.new_session(tmp_path)
        with python_process(
            "-m", "tests.support.watching_client", server.at.url, server.at.token, session_id
        ) as process:
            await owner.result("prompt", session_id=session_id, text="Go", key="p1")
            lines = [await trio.to_thread.run_sync(read_line, process) for _ in range(5)]
            process.send_signal(signal.SIGSTOP)
            while len((await owner.result("clients"))["clients"]) > 1:
                clock.jump(HEARTBEAT)
                await trio.testing.wait_all_tasks_blocked(0.02)
                await owner.send(json.dumps({"jsonrpc": "2.0", "method": "tock", "params": {}}))
            clock.jump(90)
            session = await server.engine.open_session(session_id)
            while session.state.turn is not None:
                await trio.sleep(0.01)
            process.send_signal(signal.SIGCONT)
            while not lines[-1].startswith("healed"):
                lines.append(await trio.to_thread.run_sync(read_line, process))
    numbers = [int(line) for line in lines if line.isdigit()]
    assert numbers == list(range(1, session.state.seq + 1))
    assert lines[-2:] == [f"text Well, {''.join(words)}", "healed 0"]
    assert [line for line in lines[:-2] if not line.isdigit()] == ["offline", "online"]


async def record_of(folder: Path, leave_after: int | None) -> list[tuple[str, int]]:
    """Run a turn, which a client watches up to so many items, or not at all; return the record."""
    async with client_world(folder, "pair", *WORK, **tools(), seconds=FOR_EVER) as world:
        async with world.client() as client:
            session = await client.create_session(cwd=folder)
            if leave_after is None:
                await session.prompt("Go")
            else:
                async with session.watch(from_start=True) as stream:
                    await session.prompt("Go")
                    for _ in range(leave_after):
                        item = await stream.__anext__()
                        if isinstance(item, TurnEnded):
                            break
        live = await world.engine.open_session(session.id)
        while live.state.turn is not None:
            await trio.sleep(0.1)
        return [(type(event).__name__, event.seq or 0) for event in live.events()]


async def test_detaching_at_any_event_changes_no_turn(folder: Path, autojump_clock: MockClock, is_full: bool) -> None:
    unwatched = await record_of(folder, None)
    assert unwatched[-1][0] == "TurnEnded"
    for leave_after in range(1, 40, 1 if is_full else 6):
        assert await record_of(folder, leave_after) == unwatched, leave_after


@pytest.mark.parametrize("comes_back", [True, False])
async def test_turn_of_a_client_that_leaves_for_good_is_cancelled(
    folder: Path, clock: MockClock, comes_back: bool
) -> None:
    async with client_world(folder, "pair", *SLOW, seconds=1000) as world, world.client("bob") as bob:
        async with world.client("ada") as ada:
            session = await ada.create_session(cwd=folder)
            async with bob.session(session.id).watch() as stream:
                await session.prompt("Go", on_disconnect="cancel", linger=20)
                await items_until(stream, PartStarted)
            if comes_back:
                first_end = ada.end
                world.cut()
                while ada.end is first_end:
                    await trio.sleep(0.01)
                await ada.wait_online()
                clock.jump(21)
                await trio.testing.wait_all_tasks_blocked(0.01)
                head = await session.head()
                assert head.turn is not None
                assert head.ending is None
        async with bob.session(session.id).watch() as stream:
            while len((await bob.request("clients")).clients) > 1:  # type: ignore[attr-defined]  # its row says so
                await trio.sleep(0.01)
            clock.jump(21)
            ending = (await items_until(stream, TurnEnding))[-1]
            assert ending.by == "ada"
            assert (await items_until(stream, TurnEnded))[-1].result.stop_reason == "aborted"


async def test_prompt_cut_off_at_any_step_starts_one_turn(folder: Path, autojump_clock: MockClock) -> None:
    async with client_world(folder, "pair", *SLOW, repeat=True, seconds=FOR_EVER) as world:
        for steps in range(16):
            async with world.client() as client:
                session = await client.create_session(cwd=folder)
                turns: set[str] = set()

                async def prompt(session: RemoteSession, turns: set[str]) -> None:
                    turns.add((await session.prompt("Go", key="the same")).id)

                async with trio.open_nursery() as nursery:
                    # Two at once, with the same key; and the connection is lost at some step.
                    nursery.start_soon(prompt, session, turns)
                    nursery.start_soon(prompt, session, turns)
                    for _ in range(steps):
                        await trio.lowlevel.checkpoint()
                    world.cut()
                live = await world.engine.open_session(session.id)
                assert turns == {event.turn_id for event in live.events() if isinstance(event, TurnStarted)}
                assert len(turns) == 1


async def test_question_of_a_sub_agent_is_seen_and_answered_later(folder: Path) -> None:
    script: list[Answer] = [
        [*call("sub", {"key": "look below"}, id="1"), *done("calls")],
        [*call("work", {}, id="2"), *done("calls")],
        [*text("Done below."), *done()],
        [*text("Done."), *done()],
    ]
    opening: dict[str, Any] = {**tools(), "permissions": PermissionOptions()}
    async with client_world(folder, "pair", *script, **opening) as world:
        async with world.client("ada") as ada:
            session = await ada.create_session(cwd=folder)
            async with session.watch() as stream:
                turn = await session.prompt("Go")
                while True:
                    asked = (await items_until(stream, PermissionAsked))[-1]
                    if len(asked.path) > 1:
                        break
                    await session.reply(asked.request_id, engine.Once())
        # Everybody has gone; a client that comes later finds the question in both places.
        async with world.client("bob") as bob:
            session = bob.session(session.id)
            assert [each.request_id for each in (await session.head()).asked] == [asked.request_id]
            async with session.watch() as stream:
                resync = (await items_until(stream, Resync))[-1]
                assert [each.request_id for each in resync.open_questions] == [asked.request_id]
                assert [each.depth for each in resync.descendants] == [1]
                await session.reply(asked.request_id, engine.Once())
                await items_until(stream, TurnEnded)
            assert (await bob.session(session.id).turn(turn.id).wait()).text == "Done."


async def test_many_clients_come_back_apart(folder: Path, autojump_clock: MockClock, is_full: bool) -> None:
    count = 1000 if is_full else 100
    async with client_world(folder, "pair", seconds=FOR_EVER) as world, trio.open_nursery() as nursery:
        assert world.pair is not None
        ready = trio.Event()
        online = 0
        back: list[float] = []
        cut_at = 0.0

        # A server takes no more than 256 connections of one token.
        addresses = [PairAddress(world.pair.server, world.nursery, login=f"t{number}") for number in range(8)]

        async def one(address: PairAddress) -> None:
            nonlocal online
            async with world.client(address=address) as client:
                online += 1
                if online == count:
                    ready.set()
                first_end = client.end
                while client.end is first_end:
                    await trio.sleep(0.01)
                await client.wait_online()
                back.append(trio.current_time() - cut_at)

        for number in range(count):
            nursery.start_soon(one, addresses[number % 8])
        await ready.wait()
        cut_at = trio.current_time()
        for address in addresses:
            address.cut()
        while len(back) < count:
            await trio.sleep(0.1)
        assert max(back) < 10
        # No tenth of a second has more than half of them.
        tenths = [int(seconds * 10) for seconds in back]
        assert max(tenths.count(tenth) for tenth in set(tenths)) < count / 2
