"""The client against servers that are newer, faulty, silent or closing, each message written by the test."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from engine.client import Client, Offline, Online, Refusal, SessionHead, SessionStream
from engine.client.control_client import connect_to
from engine.core.errors import AlreadyAnswered, ConfigError, EngineError, ServerOffline, Unauthorized
from engine.core.events import SessionTitled
from engine.journal.codec import Unknown
from engine.journal.state import Resync
from engine.session.answer_types import Once
from tests.support.scripted_control import HEARTBEAT, ScriptedConnection, ScriptedControl


@asynccontextmanager
async def connected() -> AsyncGenerator[tuple[Client, ScriptedConnection, ScriptedControl]]:
    server = ScriptedControl.make()
    connections: list[ScriptedConnection] = []

    async def welcome() -> None:
        connections.append(await server.connections.receive())
        await connections[0].welcome()

    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(welcome)
            async with connect_to(server) as client:
                yield client, connections[0], server


async def outcome_of(request: Callable[[], Awaitable[object]], into: list[object]) -> None:
    try:
        into.append(await request())
    except EngineError as error:
        into.append(error)


async def step(stream: SessionStream, *errors: type[Exception]) -> None:
    """Let the stream go on; it may end with one of *errors*."""
    with suppress(StopAsyncIteration, *errors):
        await stream.__anext__()


async def test_unknown_event_is_kept_and_repaired(autojump_clock: MockClock) -> None:
    """A newer server's event: kept as it came, counted, and the state is taken anew at the end of the turn."""
    async with connected() as (client, connection, _), trio.open_nursery() as nursery:
        nursery.start_soon(connection.subscribed)
        connection_note = connection.resync
        nursery.start_soon(_soon, lambda: connection_note("s1", 4, "p4"))
        async with client.session("ses_1").watch() as stream:
            assert isinstance(await stream.__anext__(), SessionHead)
            assert isinstance(await stream.__anext__(), Resync)
            connection.titled("s1", 5, "New", type="session_coloured", v=7)
            unknown = await stream.__anext__()
            assert isinstance(unknown, Unknown)
            assert "session_coloured" in unknown.raw
            connection.titled("s1", 6, "Newer", colour="a field of a newer server")
            assert isinstance(await stream.__anext__(), SessionTitled)
            assert stream.state is not None
            assert (stream.state.title, stream.state.seq) == ("Newer", 6)
            connection.titled("s1", 7, "", type="turn_ended", turn_id="turn_1", result=_RESULT)
            await stream.__anext__()
            nursery.start_soon(step, stream)
            await connection.take("unsubscribe")
            assert (await connection.subscribed("s2", 7))["after"] == ""
            connection.resync("s2", 7, "p7")
        assert (client.unknown_events, client.healed) == (1, 0)


_RESULT: dict[str, Any] = {
    "stop_reason": "completed",
    "detail": "",
    "during": None,
    "reset_at": None,
    "text": "",
    "output": None,
    "usage": {},
    "cost": 0.0,
    "steps": 1,
    "durable": True,
}


async def _soon(call: Callable[[], None]) -> None:
    await wait_all_tasks_blocked()
    call()


async def test_missing_event_is_noticed_by_the_head(autojump_clock: MockClock) -> None:
    async with connected() as (client, connection, _), trio.open_nursery() as nursery:
        nursery.start_soon(connection.subscribed)
        nursery.start_soon(_soon, lambda: connection.resync("s1", 4, "p4"))
        async with client.session("ses_1").watch() as stream:
            for _ in range(2):
                await stream.__anext__()
            # An event may just be on its way: only the second tick proves that one is missing.
            for time in (1.0, 2.0):
                assert client.healed == 0
                connection.note("tick", time=time, heads={"s1": 5})
                assert (await connection.take("tock"))["params"] == {"time": time}
                await wait_all_tasks_blocked()
            assert client.healed == 1
            nursery.start_soon(step, stream)
            await connection.take("unsubscribe")
            assert (await connection.subscribed("s2", 5))["after"] == ""
            connection.resync("s2", 5, "p5")


async def test_agreeing_heads_heal_nothing(autojump_clock: MockClock) -> None:
    async with connected() as (client, connection, _), trio.open_nursery() as nursery:
        nursery.start_soon(connection.subscribed)
        nursery.start_soon(_soon, lambda: connection.resync("s1", 4, "p4"))
        async with client.session("ses_1").watch():
            for seq in (4, 5):
                connection.note("tick", time=1.0, heads={"s1": seq})
                await connection.take("tock")
            connection.titled("s1", 5, "There it is")
            for _ in range(3):
                connection.note("tick", time=1.0, heads={"s1": 5})
                await connection.take("tock")
            await wait_all_tasks_blocked()
        assert client.healed == 0


async def test_ended_subscription_is_renewed(autojump_clock: MockClock) -> None:
    """The session was closed at the server, which has no such subscription any more."""
    async with connected() as (client, connection, _), trio.open_nursery() as nursery:
        nursery.start_soon(connection.subscribed)
        nursery.start_soon(_soon, lambda: connection.resync("s1", 4, "p4"))
        async with client.session("ses_1").watch() as stream:
            for _ in range(2):
                await stream.__anext__()
            connection.note("tick", time=1.0, heads={})
            await connection.take("tock")
            nursery.start_soon(step, stream)
            assert (await connection.subscribed("s2", 4))["after"] == "p4"


async def test_silent_server_is_offline_after_two_beats_and_a_half(autojump_clock: MockClock) -> None:
    async with connected() as (client, connection, server), trio.open_nursery() as nursery:
        nursery.start_soon(connection.subscribed)
        nursery.start_soon(_soon, lambda: connection.resync("s1", 4, "p4"))
        async with client.session("ses_1").watch() as stream:
            for _ in range(2):
                await stream.__anext__()
            since = trio.current_time()
            offline = await stream.__anext__()
            assert isinstance(offline, Offline)
            assert 2.5 * HEARTBEAT <= trio.current_time() - since <= 2.6 * HEARTBEAT
            again = await server.connections.receive()
            await again.welcome(instance="another")
            nursery.start_soon(again.subscribed)
            online = await stream.__anext__()
            assert online == Online(is_new_server=True)


@pytest.mark.parametrize("code", [1001, 1005, 1006, 1011, 1012, 1013, 4408, 4429])
async def test_client_comes_back_after(autojump_clock: MockClock, code: int) -> None:
    async with connected() as (client, connection, server):
        connection.close(code)
        again = await server.connections.receive()
        await again.welcome()
        await client.wait_online()
        assert client.is_online


@pytest.mark.parametrize("code", [1000, 1002, 1003, 1009, 4400, 4401, 4403, 4999])
async def test_client_stops_after(autojump_clock: MockClock, code: int) -> None:
    async with connected() as (client, connection, server):
        connection.close(code, "because")
        with pytest.raises(Unauthorized if code in {4401, 4403} else ServerOffline, match="because"):
            await client.list()
        with pytest.raises(Unauthorized if code in {4401, 4403} else ServerOffline, match="because"):
            async with client.session("ses_1").watch() as stream:
                await stream.__anext__()
                await stream.__anext__()
        with pytest.raises(trio.WouldBlock):
            server.connections.receive_nowait()


async def test_server_of_other_versions_is_final(autojump_clock: MockClock) -> None:
    server = ScriptedControl.make()

    async def refuse() -> None:
        connection = await server.connections.receive()
        connection.fail(await connection.take("hello"), -32012, "unsupported", min=7, max=9)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(refuse)
        with pytest.raises(Refusal) as refused:
            async with connect_to(server):
                raise AssertionError
        assert refused.value.facts["min"] == 7


async def test_full_server_is_tried_again(autojump_clock: MockClock) -> None:
    async with connected() as (client, connection, server):
        connection.close(1006)
        full = await server.connections.receive()
        full.fail(await full.take("hello"), -32010, "rate_limited", retry_after=5.0)
        await (await server.connections.receive()).welcome()
        await client.wait_online()


async def test_server_without_an_answer_to_hello_is_given_up(autojump_clock: MockClock) -> None:
    with pytest.raises(ServerOffline, match="did not answer"):
        async with connect_to(ScriptedControl.make()):
            raise AssertionError


async def test_newer_hello_is_understood(autojump_clock: MockClock) -> None:
    server = ScriptedControl.make()

    async def welcome() -> None:
        connection = await server.connections.receive()
        await connection.welcome(colour="blue", capabilities={"telepathy": True}, events={"session_coloured": 3})
        connection.note("telepathy", thought="hm")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(welcome)
        async with connect_to(server) as client:
            assert client.server.capabilities == {"telepathy": True}


async def test_cancelled_read_is_cancelled_there(autojump_clock: MockClock) -> None:
    async with connected() as (client, connection, _):
        with trio.move_on_after(1):
            await client.list()
        request = await connection.take("session.list")
        assert (await connection.take("rpc.cancel"))["params"] == {"id": request["id"]}


async def test_cancelled_write_sends_nothing_more(autojump_clock: MockClock) -> None:
    async with connected() as (client, connection, _):
        with trio.move_on_after(1):
            await client.session("ses_1").prompt("Hi")
        await connection.take("prompt")
        nothing = trio.CancelScope(deadline=trio.current_time() + 5)
        with nothing:
            await connection.take("nothing")
        assert nothing.cancelled_caught


async def test_write_is_repeated_with_its_key(autojump_clock: MockClock) -> None:
    async with connected() as (client, connection, server), trio.open_nursery() as nursery:
        seen: list[object] = []
        nursery.start_soon(outcome_of, lambda: client.session("ses_1").prompt("Hi"), seen)
        first = await connection.take("prompt")
        connection.close(1006)
        again = await server.connections.receive()
        await again.welcome()
        second = await again.take("prompt")
        assert first["params"] == second["params"]
        again.fail(second, -32010, "rate_limited", retry_after=2.0)
        again.answer(third := await again.take("prompt"), {"turn_id": "turn_1", "input_id": "x", "seq": 1})
        assert third["params"] == first["params"]
        await wait_all_tasks_blocked()
        assert repr(seen) == "[<RemoteTurn turn_1>]"


async def test_write_without_a_key_is_not_repeated(autojump_clock: MockClock) -> None:
    async with connected() as (client, connection, server), trio.open_nursery() as nursery:
        seen: list[object] = []
        remove = {"session_id": "ses_1", "confirm": "ses_1"}
        nursery.start_soon(outcome_of, lambda: client.request("session.delete", **remove), seen)
        await connection.take("session.delete")
        connection.close(1006)
        await (await server.connections.receive()).welcome()
        await wait_all_tasks_blocked()
        assert "not known whether session.delete was done" in str(seen)


@pytest.mark.parametrize(
    ("by", "answer", "is_own"), [("client", "once", True), ("bob", "once", False), ("client", "reject", False)]
)
async def test_own_answer_counts_after_a_lost_connection(
    autojump_clock: MockClock, by: str, answer: str, is_own: bool
) -> None:
    async with connected() as (client, connection, server), trio.open_nursery() as nursery:
        seen: list[object] = []
        nursery.start_soon(outcome_of, lambda: client.session("ses_1").reply("ask_1", Once()), seen)
        await connection.take("permission.reply")
        connection.close(1006)
        again = await server.connections.receive()
        await again.welcome()
        facts = {"error": "AlreadyAnswered", "answer": answer, "by": by, "seq": 7}
        again.fail(await again.take("permission.reply"), -32007, "already_settled", **facts)
        await wait_all_tasks_blocked()
        assert (seen == [None]) == is_own
        assert is_own or isinstance(seen[0], AlreadyAnswered)


async def test_slow_reader_ends_its_subscription_and_goes_on(autojump_clock: MockClock) -> None:
    async with connected() as (client, connection, _), trio.open_nursery() as nursery:
        nursery.start_soon(connection.subscribed)
        nursery.start_soon(_soon, lambda: connection.resync("s1", 0, "p0"))
        async with client.session("ses_1").watch() as stream:
            for seq in range(1, 101):
                connection.titled("s1", seq, f"{seq}")
            await connection.take("unsubscribe")
            await wait_all_tasks_blocked()
            titles: list[str] = []

            async def go_on() -> None:
                # What was dropped comes again, from where the last message was kept.
                after = int((await connection.subscribed("s2", 100))["after"].removeprefix("p"))
                for seq in range(after + 1, 101):
                    connection.titled("s2", seq, f"{seq}")

            nursery.start_soon(go_on)
            while len(titles) < 100:
                item = await stream.__anext__()
                if isinstance(item, SessionTitled):
                    titles.append(item.title)
            assert titles == [f"{seq}" for seq in range(1, 101)]
        assert client.healed == 0


async def test_unreadable_events_become_a_snapshot(autojump_clock: MockClock) -> None:
    async with connected() as (client, connection, _), trio.open_nursery() as nursery:
        nursery.start_soon(connection.subscribed)
        nursery.start_soon(_soon, lambda: connection.resync("s1", 0, "p0"))
        async with client.session("ses_1").watch() as stream:
            for _ in range(2):
                await stream.__anext__()
            connection.note("events", sub="s1", position="p1", events="nonsense")
            # The failure may reach this one, too: that depends on which task runs first.
            nursery.start_soon(step, stream, Refusal)
            await connection.take("unsubscribe")
            await connection.subscribed("s2")
            connection.note("resync", sub="s2", snapshot="nonsense")
            await wait_all_tasks_blocked()
            with pytest.raises(Refusal, match="can't be read"):
                await stream.__anext__()


async def test_large_request_is_not_sent(autojump_clock: MockClock) -> None:
    async with connected() as (client, connection, _):
        with pytest.raises(Refusal, match="larger"):
            await client.session("ses_1").prompt("x" * (1 << 20))
        with pytest.raises(ConfigError):
            await client.request("prompt", session_id="ses_1")
        with pytest.raises(trio.WouldBlock):
            connection._from_client.receive_nowait()
