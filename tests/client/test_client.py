"""The client against a real server, over each way to connect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import engine
import engine.client
from engine.client import Offline, Online, SessionHead
from engine.control.listen import ServeOptions
from engine.control.protocol.error_kinds import Refusal
from engine.control.protocol.handshake import WireLimits
from engine.control.service.server_discovery import server_folder
from engine.core.errors import (
    AlreadyAnswered,
    ConfigError,
    ServerOffline,
    SessionBusy,
    SessionNotFound,
    TurnOver,
    Unauthorized,
)
from engine.core.events import CallStarted, InputAdmitted, PermissionAsked, TextDelta, TurnEnded
from engine.core.ids import SessionId
from engine.core.messages import ImagePart, UserMessage
from engine.journal.state import Resync
from engine.session.engine_options import PermissionOptions
from engine.testing import SlowStore
from engine.testing.script import Answer, call, done, text
from tests.support.client_world import (
    FOR_EVER,
    TRANSPORTS,
    ClientWorld,
    Transport,
    client_world,
    items_until,
    numbers_of,
)
from tests.support.served_engine import served, wait_forever

ASKS: list[Answer] = [[*call("wait_forever", id="c1"), *done("calls")], [*text("Done."), *done()]]
WAITS: dict[str, Any] = {"tools": [engine.tool(wait_forever)]}


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_whole_turn_over_each_transport(folder: Path, transport: Transport) -> None:
    async with client_world(folder, transport, store=folder / "s.db") as world, world.client("ada") as client:
        session = await client.create_session(cwd=folder)
        assert [row.id for row in await client.list(cwd=folder)] == [session.id]
        async with session.watch(from_start=True) as stream:
            turn = await session.prompt("Hi")
            items = await items_until(stream, TurnEnded)
            assert isinstance(items[0], SessionHead)
            assert "".join(item.text for item in items if isinstance(item, TextDelta)) == "Hello."
            assert (await turn.wait()).text == "Hello."
            assert session.state == (await world.engine.open_session(session.id)).state
            saved = stream.position
        again = await session.prompt("More")
        async with session.watch(after=saved) as stream:
            more = await items_until(stream, TurnEnded)
        assert {item.turn_id for item in more if isinstance(item, TurnEnded)} == {again.id}
        numbers = numbers_of([*items, *more])
        assert numbers == list(range(1, len(numbers) + 1))
        assert client.healed == 0


async def test_large_attachments_come_over_the_socket(folder: Path) -> None:
    image = await engine.attach(b"\x89PNG\r\n\x1a\n" + bytes(5 << 20))
    async with client_world(folder, "unix", repeat=True) as world, world.client() as client:
        session = await client.create_session(cwd=folder)
        turn = await session.prompt("Look", attachments=[image, await engine.attach(b"GIF89a")])
        await turn.wait()
        message = (await world.engine.open_session(session.id)).state.transcript[0]
        assert isinstance(message, UserMessage)
        assert [part.media_type for part in message.parts if isinstance(part, ImagePart)] == ["image/png", "image/gif"]
        assert image in message.parts
        await session.queue("Again", attachments=[image])
        with pytest.raises(ConfigError, match="has 33,554,433 bytes; this server takes 33,554,432"):
            await session.prompt("Look", attachments=[ImagePart(data="A" * 44739244, media_type="image/png")])
        with pytest.raises(Refusal, match="larger than the 1,048,576 bytes"):
            await session.prompt("a" * (1 << 20), attachments=[image])


async def test_upload_is_sent_again_after_a_cut(folder: Path, autojump_clock: MockClock) -> None:
    image = await engine.attach(b"\x89PNG\r\n\x1a\n" + bytes(40_000))
    limits = WireLimits(message_bytes=24_000)
    async with client_world(folder, "pair", limits=limits, seconds=FOR_EVER) as world, world.client() as client:
        uploads = world.uploads
        assert uploads is not None

        async def cut_in_the_middle() -> None:
            while uploads.size < 10_000:
                await trio.lowlevel.checkpoint()
            world.cut()

        session = await client.create_session(cwd=folder)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cut_in_the_middle)
            await (await session.prompt("Look", attachments=[image])).wait()
        message = (await world.engine.open_session(session.id)).state.transcript[0]
        assert isinstance(message, UserMessage)
        assert image in message.parts
        assert uploads.size == 40_008


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_lost_connection_loses_nothing(folder: Path, transport: Transport) -> None:
    script: list[Answer] = [[*text("One two three.", pieces=3), *done()]]
    async with client_world(folder, transport, *script, repeat=True) as world, world.client() as client:
        session = await client.create_session(cwd=folder)
        async with session.watch() as stream:
            items = await items_until(stream, Resync)
            await session.prompt("Hi")
            items += await items_until(stream, TurnEnded)
            world.cut()
            items += await items_until(stream, Offline)
            turn = await session.prompt("More")
            items += await items_until(stream, TurnEnded)
        kinds = [type(item) for item in items if isinstance(item, (Resync, Offline, Online))]
        assert kinds == [Resync, Offline, Online]
        assert items[-1].turn_id == turn.id
        numbers = numbers_of(items)
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert session.state == (await world.engine.open_session(session.id)).state
        assert client.healed == 0


async def test_snapshot_brings_the_whole_transcript(folder: Path) -> None:
    async with client_world(folder, "pair") as world, world.client() as client:
        session = await client.create_session(cwd=folder)
        for number in range(60):
            await (await session.prompt(f"Number {number}")).wait()
        async with session.watch() as stream:
            await items_until(stream, Resync)
            assert session.state is not None
            assert len(session.state.transcript) == 120
            assert session.state == (await world.engine.open_session(session.id)).state


async def test_second_answer_learns_of_the_first(folder: Path) -> None:
    async with (
        client_world(folder, "pair", *ASKS, **WAITS, permissions=PermissionOptions()) as world,
        world.client("ada") as ada,
        world.client("bob") as bob,
    ):
        session = await ada.create_session(cwd=folder)
        async with session.watch(from_start=True) as stream:
            turn = await session.prompt("Go")
            asked = (await items_until(stream, PermissionAsked))[-1]
            await bob.session(session.id).reply(asked.request_id, engine.Reject("No."))
            with pytest.raises(AlreadyAnswered) as late:
                await session.reply(asked.request_id, engine.Once())
            assert (late.value.answer, late.value.by) == ("reject", "bob")
        assert (await turn.wait()).text == "Done."


async def test_errors_are_those_of_the_library(folder: Path) -> None:
    async with client_world(folder, "pair", *ASKS, **WAITS) as world, world.client() as client:
        with pytest.raises(SessionNotFound):
            await client.session("ses_none").head()
        with pytest.raises(SessionNotFound):
            async with client.session("ses_none").watch() as nothing:
                await nothing.__anext__()
        session = await client.create_session(cwd=folder)
        async with session.watch(from_start=True) as stream:
            turn = await session.prompt("Go")
            await items_until(stream, CallStarted)
            with pytest.raises(SessionBusy):
                await session.prompt("Again")
            with pytest.raises(TurnOver):
                await session.turn("turn_other").cancel()
            assert await turn.cancel() is not None
            assert (await turn.wait()).stop_reason == "aborted"
            assert await turn.cancel() is None


@pytest.mark.parametrize("method", ["nothing", "subscribe", "hello", "session.get"])
async def test_requests_outside_of_the_protocol_are_refused(folder: Path, method: str) -> None:
    async with client_world(folder, "pair") as world, world.client() as client:
        with pytest.raises(ConfigError):
            await client.request(method, session="ses_1")


async def test_same_key_starts_one_turn(folder: Path) -> None:
    async with client_world(folder, "pair") as world, world.client() as client:
        session = await client.create_session(cwd=folder, key="k")
        assert (await client.create_session(cwd=folder, key="k")).id == session.id
        first = await session.prompt("Hi", key="p")
        assert (await session.prompt("Hi", key="p")).id == first.id
        with pytest.raises(engine.EngineError):
            await session.prompt("Other", key="p")


async def test_role_is_lowered(folder: Path) -> None:
    async with client_world(folder, "pair") as world, world.client(role="read") as client:
        with pytest.raises(Unauthorized) as refused:
            await client.create_session(cwd=folder)
        assert (refused.value.role, refused.value.needed) == ("read", "full")


async def test_wrong_token_is_final(folder: Path) -> None:
    async with served(folder) as server:
        with pytest.raises(Unauthorized):
            async with engine.client.connect(server.at.url, "wrong"):
                raise AssertionError


async def test_no_server_is_reported_at_once(folder: Path) -> None:
    for url in ["http://127.0.0.1:9", f"unix:{folder / 'nothing.sock'}"]:
        with pytest.raises(ServerOffline, match="no server answers"):
            async with engine.client.connect(url):
                raise AssertionError


@pytest.mark.parametrize("url", ["127.0.0.1:80", "ftp://x", "http://", "http://u:p@h", "unix:relative", "http://h:x"])
async def test_useless_addresses_are_refused(url: str) -> None:
    with pytest.raises(ConfigError):
        async with engine.client.connect(url):
            raise AssertionError


async def test_body_raises_its_own_error(folder: Path) -> None:
    async with client_world(folder, "pair") as world:
        with pytest.raises(KeyError):
            async with world.client():
                raise KeyError


async def test_server_of_the_store_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(folder))
    monkeypatch.setenv("ENGINE_STORE", str(folder / "s.db"))
    monkeypatch.delenv("ENGINE_URL", raising=False)
    with pytest.raises(ServerOffline, match="no server runs"):
        async with engine.client.connect():
            raise AssertionError
    options = ServeOptions(folder=server_folder(str(folder / "s.db")))
    async with served(folder, options=options, store=folder / "s.db") as server, engine.client.connect() as client:
        assert await client.list() == ()
        monkeypatch.setenv("ENGINE_URL", server.at.url)
        monkeypatch.setenv("ENGINE_TOKEN", server.at.token)
        async with engine.client.connect() as other:
            assert other.server.server == client.server.server


async def test_input_is_durable_when_it_is_answered(folder: Path) -> None:
    store = SlowStore(delay=0.2)
    async with client_world(folder, "pair", *ASKS, **WAITS, store=store) as world, world.client() as client:
        session = await client.create_session(cwd=folder)
        async with session.watch(from_start=True) as stream:
            turn = await session.prompt("Go")
            assert store.durable[session.id] >= await admitted(world, session.id)
            await items_until(stream, CallStarted)
            await turn.steer("Hurry.")
            assert store.durable[session.id] >= await admitted(world, session.id)
            await session.queue("Next")
            assert store.durable[session.id] >= await admitted(world, session.id)


async def admitted(world: ClientWorld, session_id: SessionId) -> int:
    """Return the number of the event that admitted the newest input."""
    events = (await world.engine.open_session(session_id)).events()
    return max(event.seq or 0 for event in events if isinstance(event, InputAdmitted))
