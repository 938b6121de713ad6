"""A server that is killed and started again under a client: it is back soon, and nothing durable is lost."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import pytest
import trio

import engine
import engine.client
from engine.client import Offline, Online, RemoteSession, SessionStream
from engine.core.errors import RequestNotFound, TurnParked
from engine.core.events import PermissionAsked, TextDelta, TurnEnded, TurnStarted
from engine.journal.state import Resync
from tests.support.client_world import items_until, numbers_of
from tests.support.killed_server import killed_server

How = Literal["kill", "drain", "hand_over"]
pytestmark = [pytest.mark.os, pytest.mark.slow]


async def allow_all(session: RemoteSession, stream: SessionStream, turn_id: str, most: int = 10_000) -> list[Any]:
    """Allow what is asked, up to the end of a turn, for so many items at most; return them."""
    items: list[Any] = []
    async for item in stream:
        items.append(item)
        if isinstance(item, PermissionAsked):
            # It may be of the past, in a stream that begins with the first event.
            with suppress(RequestNotFound):
                await session.reply(item.request_id, engine.Once())
        if len(items) == most or (isinstance(item, TurnEnded) and item.turn_id == turn_id):
            break
    return items


@pytest.mark.parametrize(("is_local", "sampled"), [(True, PermissionAsked), (False, TurnStarted)])
async def test_client_is_back_after_a_kill(folder: Path, is_full: bool, is_local: bool, sampled: type) -> None:
    for kind in (TurnStarted, TextDelta, PermissionAsked, TurnEnded) if is_full else (sampled,):
        place = folder / kind.__name__
        place.mkdir()
        await kill_after(place, kind, is_local=is_local)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("how", ["kill", "drain", "hand_over"])
async def test_restart_after_any_item(folder: Path, is_full: bool, how: How) -> None:
    count, last = 0, 0
    # The last run is the one in which the turn has ended before.
    while last == count:
        count += 1 if is_full else {"kill": 40, "drain": 25, "hand_over": 30}[how]
        place = folder / str(count)
        place.mkdir()
        last = await kill_after(place, count, is_local=count % 2 == 0, how=how)
    assert last > 10


async def kill_after(folder: Path, kind: type | int, *, is_local: bool, how: How = "kill") -> int:
    """End the server after the first event of a kind, or after so many items, start another one, and go on.

    Return how many items came before.
    """
    before: list[Any] = []
    async with killed_server(folder) as server:
        url = f"unix:{folder / 'run' / 'control.sock'}" if is_local else server.url
        async with engine.client.connect(url, server.token) as client:
            session = await client.create_session(cwd=folder)
            async with session.watch() as stream:
                turn = await session.prompt("Go", key="p1")
                if isinstance(kind, int):
                    before = await allow_all(session, stream, turn.id, kind)
                elif kind is TurnEnded:
                    before = await allow_all(session, stream, turn.id)
                else:
                    before = await items_until(stream, kind)
                await trio.to_thread.run_sync(getattr(server, how))
                count = len(before)
                before += await items_until(stream, Offline)
                # A Unix socket has no codes.
                assert before[-1].code == (1006 if how == "kill" or is_local else 1012)
                if how != "hand_over":
                    await trio.to_thread.run_sync(server.start)
                items = await items_until(stream, Online)
                assert numbers_of(items) == []
                # The longest pause between two attempts, and what a machine that stands still may take besides.
                assert time.monotonic() - server.started < 40
                assert items[-1].is_new_server
                resync = (await items_until(stream, Resync))[-1]
                after: list[Any] = []
                # The same prompt again: it is that turn, which the crash has ended, parked, or found at its end.
                try:
                    again = await session.prompt("Go", key="p1")
                except TurnParked:
                    again = await session.resume()
                    after += await allow_all(session, stream, again.id)
                assert again.id == turn.id
                ended = await turn.wait()
                more = await session.prompt("More", key="p2")
                after += await allow_all(session, stream, more.id)
                # One snapshot, and no number twice: on from there. What was shown beyond it was not written yet.
                assert sum(isinstance(item, Resync) for item in after) == 0
                assert numbers_of(after) == list(range(resync.seq + 1, resync.seq + 1 + len(numbers_of(after))))
                assert ended.stop_reason in {"completed", "aborted"}
                state = session.state
                assert client.healed == 0
            async with session.watch(from_start=True) as stream:
                # What was shown is what follows from the whole record.
                await allow_all(session, stream, more.id)
                assert session.state == state
    return count
