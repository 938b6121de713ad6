"""A server cancelled at any instant leaves nothing behind, and the engine goes on."""

from __future__ import annotations

from pathlib import Path

import trio

import engine
from engine.control.listen import ServeOptions, serve
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.testing.script import done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.conftest import CountRuns
from tests.support.cancel_at import CancelAt
from tests.support.cancelled_server import cancel_server
from tests.support.served_engine import HELLO, Server


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


def test_server_cancelled_at_any_step(is_full: bool, count_runs: CountRuns) -> None:
    count_runs(cancel_server(scenario, least=200, samples=None if is_full else 14))
