"""A server that is cancelled at any instant of a client made for opencode leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import trio

import engine
from engine.control.listen import ServeOptions, serve
from engine.control.opencode.opencode_api import OpencodeApi
from engine.session.engine_options import PermissionOptions
from engine.testing.script import call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.conftest import CountRuns
from tests.support.cancel_at import CancelAt
from tests.support.cancelled_server import cancel_server
from tests.support.opencode_client import listening, result
from tests.support.served_engine import Server, wait_forever


async def drive(eng: engine.Engine, folder: Path) -> None:
    """A prompt, its question, its end, and a client that comes back."""
    async with trio.open_nursery() as nursery:
        at = await nursery.start(serve, eng, ServeOptions(folder=folder, adapter=OpencodeApi))
        server = Server(at, eng, nursery)
        async with listening(server) as events:
            session_id = (await result(server, "POST", "/session", {}))["id"]
            parts = [{"type": "text", "text": "Go"}]
            await result(server, "POST", f"/session/{session_id}/prompt_async", {"parts": parts})
            asked = (await events.until("permission.asked"))[-1]["properties"]["id"]
            await result(server, "POST", f"/permission/{asked}/reply", {"reply": "reject"})
            await events.until("session.idle")
        async with listening(server, after=events.ids[0]) as again:
            await again.until("session.idle")
        assert len(await result(server, "GET", f"/session/{session_id}/message")) == 2
        await result(server, "DELETE", f"/session/{session_id}")
        nursery.cancel_scope.cancel()


async def scenario(at: CancelAt, folder: Path) -> None:
    with trio.fail_after(60):
        model = ScriptedProvider([[*text("Well,"), *call("wait_forever", id="c1"), *done("calls")]], repeat=True)
        tools, permissions = [engine.tool(wait_forever)], PermissionOptions()
        async with engine.open_engine(
            model=model, tools=tools, permissions=permissions, store=folder.parent / "s.db"
        ) as eng:
            with at.scope():
                await drive(eng, folder)
            # The lock, the port and the engine are free for the next server.
            await drive(eng, folder)


def test_server_cancelled_with_such_a_client(is_full: bool, count_runs: CountRuns) -> None:
    count_runs(cancel_server(scenario, least=100, samples=None if is_full else 14))
