"""A server cancelled at any instant leaves nothing behind, and the engine goes on."""

from __future__ import annotations

import gc
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
import trio

import engine
from engine.control.listen import ServeOptions, serve
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.script import done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.conftest import CountRuns
from tests.support.cancel_at import CancelAt
from tests.support.served_engine import HELLO, Server


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short name, for the Unix socket."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name) / "run"


async def drive(eng: engine.Engine, folder: Path) -> None:
    """A whole turn over two transports, then the end of the server."""
    async with trio.open_nursery() as nursery:
        at = await nursery.start(serve, eng, ServeOptions(folder=folder))
        server = Server(at, eng, nursery)
        async with server.unix() as one, server.websocket(token=at.token) as (two, _):
            for client in (one, two):
                await client.result("hello", **HELLO)
            session_id = (await one.result("session.create", cwd=".", key="k"))["row"]["id"]
            await two.result("subscribe", session_id=session_id, at="start")
            await one.result("prompt", session_id=session_id, text="Hi", key="p")
            await two.events_until("turn_ended")
        nursery.cancel_scope.cancel()


async def scenario(at: CancelAt, folder: Path) -> None:
    with trio.fail_after(60):
        model = ScriptedProvider([[*text("Hello."), *done()]], repeat=True)
        permissions = PermissionOptions(approver=AllowAll())
        async with engine.open_engine(model=model, permissions=permissions) as eng:
            with at.scope():
                await drive(eng, folder)
            assert not (folder / "control.sock").exists()
            # The lock, the port and the engine are free for the next server.
            await drive(eng, folder)
            session = await eng.create_session()
            assert (await session.run("Hi")).text == "Hello."


def open_files() -> int:
    gc.collect()
    return len(list(Path("/proc/self/fd").iterdir()))


def test_server_cancelled_at_any_step(folder: Path, is_full: bool, count_runs: CountRuns) -> None:
    def play(step: int | None) -> CancelAt:
        seed_scheduler(0)
        at = CancelAt(step)
        trio.run(partial(scenario, at, folder), instruments=[at])
        return at

    steps = play(None).steps
    assert steps > 200
    before = open_files()
    runs = range(0, steps, 1 if is_full else 17)
    for step in runs:
        play(step)
    assert open_files() <= before
    count_runs(len(runs))
