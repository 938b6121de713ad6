"""An agent cancelled at any instant leaves nothing behind, and its record is whole."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import trio
import trio.testing

from engine.acp.editor_agent import EditorAgent
from engine.acp.editor_connection import LIMITS, EditorConnection
from engine.control.transport.line_transport import LineTransport
from engine.core.events import CallSettled, TurnEnded, TurnStarted
from engine.session.engine import engine_runtime
from engine.testing.harness import seed_scheduler
from engine.testing.script import call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.conftest import CountRuns
from tests.support.cancel_at import CancelAt
from tests.support.editor import Editor, Host

ANSWERS = [
    [*text("I'll write."), *call("write", {"path": "a.txt", "content": "one\n"}, id="c1"), *done("calls")],
    [*text("Done."), *done()],
]


async def drive(editor: Editor, folder: Path) -> None:
    """A turn with a question, and the end of the input in the middle of a second one."""
    session_id = await editor.new_session(folder)
    await editor.answer(await editor.prompt(session_id))
    await editor.prompt(session_id)
    await editor.stream.send_stream.aclose()  # type: ignore[attr-defined]


async def scenario(at: CancelAt, folder: Path) -> None:
    """Cancel the agent; then look at what its engine has recorded."""
    host = Host(ScriptedProvider(ANSWERS, repeat=True), builtin_tools(), store=str(folder / "store.db"))
    ours, theirs = trio.testing.memory_stream_pair()
    agent = EditorAgent(EditorConnection(LineTransport(theirs, message_bytes=LIMITS.bytes)), host)
    editor = Editor(ours)
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(editor.run)
            nursery.start_soon(drive, editor, folder)
            with at.scope():
                await agent.run()
            nursery.cancel_scope.cancel(reason="the agent has ended")
        async with host.open_engine() as engine:
            for session_id in await engine_runtime(engine).services.store.store.ids():  # type: ignore[attr-defined]  # SQLite's
                events = (await engine.open_session(session_id)).events()
                started = [event.turn_id for event in events if isinstance(event, TurnStarted)]
                assert [event.turn_id for event in events if isinstance(event, TurnEnded)] == started
                settled = [event.call_id for event in events if isinstance(event, CallSettled)]
                assert len(settled) == len(set(settled))


def test_agent_cancelled_at_any_step(tmp_path: Path, is_full: bool, count_runs: CountRuns) -> None:
    def play(step: int | None) -> CancelAt:
        folder = tmp_path / str(step)
        folder.mkdir()
        seed_scheduler(0)
        at = CancelAt(step)
        trio.run(partial(scenario, at, folder), instruments=[at])
        return at

    steps = play(None).steps
    assert steps > 200
    runs = range(0, steps, 1 if is_full else 41)
    for step in runs:
        play(step)
    count_runs(len(runs))
