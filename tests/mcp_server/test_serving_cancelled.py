"""A server of tools cancelled at any instant leaves nothing behind, and its record is whole."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import trio
import trio.testing
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from engine.core.events import CallSettled, TurnEnded, TurnStarted
from engine.mcp_server.message_lines import MessageLines
from engine.session.engine import engine_runtime
from engine.testing.harness import seed_scheduler
from engine.testing.script import call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.conftest import CountRuns
from tests.support.cancel_at import CancelAt
from tests.support.mcp_client import ERAS, User, scripted_engine, serve

ANSWERS = [
    [*text("I'll write."), *call("write", {"path": "a.txt", "content": "one\n"}, id="c1"), *done("calls")],
    [*text("Done."), *done()],
]


async def drive(stream: trio.abc.Stream, era: str) -> None:
    """A turn with a question, and the end of the input in the middle of a second one."""
    user = User({"decision": "allow"})
    try:
        async with stream, Client(MessageLines(stream).open(), mode=era, elicitation_callback=user.elicit) as client:
            await client.call_tool("run", {"prompt": "go"})
            begun = await client.call_tool("run", {"prompt": "go", "detach": True})
            await client.call_tool("wait", {"session": begun.structured_content["session"], "seconds": 0})
    except* (MCPError, trio.BrokenResourceError):
        pass  # the server has gone


async def scenario(at: CancelAt, folder: Path, era: str) -> None:
    """Cancel the server; then look at what its engine has recorded."""
    model, store = ScriptedProvider(ANSWERS, repeat=True), str(folder / "store.db")
    ours, theirs = trio.testing.memory_stream_pair()
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(drive, ours, era)
            with at.scope():
                async with scripted_engine(model, builtin_tools(), store=store) as engine, theirs:
                    await serve(engine, theirs, folder)
            await theirs.aclose()
            nursery.cancel_scope.cancel(reason="the server has ended")
        async with scripted_engine(model, store=store) as engine:
            for session_id in await engine_runtime(engine).services.store.store.ids():  # type: ignore[attr-defined]  # SQLite's
                events = (await engine.open_session(session_id)).events()
                started = [event.turn_id for event in events if isinstance(event, TurnStarted)]
                assert [event.turn_id for event in events if isinstance(event, TurnEnded)] == started
                settled = [event.call_id for event in events if isinstance(event, CallSettled)]
                assert len(settled) == len(set(settled))


@pytest.mark.slow
@pytest.mark.parametrize("era", ERAS)
def test_server_cancelled_at_any_step(tmp_path: Path, era: str, is_full: bool, count_runs: CountRuns) -> None:
    def play(step: int | None) -> CancelAt:
        folder = tmp_path / str(step)
        folder.mkdir()
        seed_scheduler(0)
        at = CancelAt(step)
        trio.run(partial(scenario, at, folder, era), instruments=[at])
        return at

    steps = play(None).steps
    assert steps > 200
    runs = range(0, steps, 1 if is_full else 59)
    for step in runs:
        play(step)
    count_runs(len(runs))
