"""A client cancelled at any instant leaves nothing behind; what it has begun is done once, whoever goes on with it."""

from __future__ import annotations

import base64
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import trio
from trio.testing import MockClock

import engine
from engine.client import RemoteSession
from engine.control.protocol.handshake import WireLimits
from engine.core.errors import AlreadyAnswered
from engine.core.events import PermissionAsked, TurnEnded, TurnStarted
from engine.core.messages import ImagePart
from engine.journal.state import Resync
from engine.session.engine_options import PermissionOptions
from engine.testing import FakeTools
from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.script import Answer, call, done, text
from tests.conftest import CountRuns
from tests.support.cancel_at import CancelAt
from tests.support.client_world import FOR_EVER, ClientWorld, client_world

SCRIPT: list[Answer] = [
    [*text("Let me look."), *call("work", {"seconds": 0.1, "key": "a"}, id="1"), *done("calls")],
    [*text("Done."), *done()],
]


# In two pieces, with the limit of the scenario.
IMAGE_BYTES = 8008
IMAGE = ImagePart(media_type="image/png", data=base64.b64encode(b"\x89PNG\r\n\x1a\n" + bytes(8000)).decode())


async def drive(world: ClientWorld, folder: Path, *, cuts: bool) -> RemoteSession:
    """Prompt, answer a question, wait for the end: each time with the same keys."""
    async with world.client("ada") as client:
        session = await client.create_session(cwd=folder, key="create")
        async with session.watch() as stream:
            turn = await session.prompt("Go", attachments=[IMAGE], key="prompt")
            if cuts:
                world.cut()
            async for item in stream:
                if isinstance(item, Resync):
                    for question in item.open_questions:
                        await answer(session, question.request_id)
                    if item.state.last_result is not None:
                        break
                elif isinstance(item, PermissionAsked):
                    await answer(session, item.request_id)
                elif isinstance(item, TurnEnded):
                    break
        assert (await turn.wait()).text == "Done."
        return session


async def answer(session: RemoteSession, request_id: str) -> None:
    # It may have been answered before this client was cancelled.
    with suppress(AlreadyAnswered):
        await session.reply(request_id, engine.Once())


async def scenario(at: CancelAt, folder: Path, *, cuts: bool) -> None:
    tools = FakeTools()
    opening: dict[str, Any] = {"tools": tools.tools(), "permissions": PermissionOptions()}
    limits = WireLimits(message_bytes=24_000)
    async with client_world(folder, "pair", *SCRIPT, **opening, limits=limits, seconds=FOR_EVER) as world:
        with at.scope():
            await drive(world, folder, cuts=cuts)
        assert world.pair is not None
        assert world.pair.connections == 0
        session = await drive(world, folder, cuts=cuts)
        live = await world.engine.open_session(session.id)
        assert len([event for event in live.events() if isinstance(event, TurnStarted)]) == 1
        assert [trail.key for trail in tools.trails] == ["a"]
        async with world.client() as other:
            # The server has seen that the others have gone.
            while len((await other.request("clients")).clients) > 1:  # type: ignore[attr-defined]  # its row says so
                await trio.sleep(0.1)
        # Only whole uploads are kept.
        assert world.uploads is not None
        assert world.uploads.size % IMAGE_BYTES == 0


def play(step: int, folder: Path, *, cuts: bool) -> CancelAt:
    seed_scheduler(0)
    at = CancelAt(step)
    trio.run(partial(scenario, at, folder, cuts=cuts), instruments=[at], clock=MockClock(autojump_threshold=0))
    return at


def test_client_cancelled_at_any_step(folder: Path, is_full: bool, count_runs: CountRuns) -> None:
    stride = 1 if is_full else 29
    for cuts in (False, True):
        runs = 0
        # Up to the end of a run: its steps are not counted before, since a thread at work makes them more or fewer.
        while play(runs * stride, folder, cuts=cuts).has_fired:
            runs += 1
        assert runs * stride > 400
        count_runs(runs)
