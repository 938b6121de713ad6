"""An agent that is cancelled at any instant, or whose editor goes after any message, leaves nothing behind; its record is whole."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio
import trio.testing

from engine.acp.editor_agent import EditorAgent
from engine.acp.editor_connection import LIMITS, EditorConnection
from engine.control.transport.line_transport import LineTransport
from engine.core.events import CallSettled, TurnEnded, TurnStarted
from engine.session.engine import engine_runtime
from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.script import call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from tests.conftest import CountRuns
from tests.support.cancel_at import CancelAt
from tests.support.editor import Buffers, Editor, Host

WRITES = [
    [*text("I'll write."), *call("write", {"path": "a.txt", "content": "one\n"}, id="c1"), *done("calls")],
    [*text("Done."), *done()],
]
EDITS = [
    [*call("read", {"path": "b.txt"}, id="c1"), *done("calls")],
    [*call("edit", {"path": "b.txt", "old_string": "two", "new_string": "TWO"}, id="c2"), *done("calls")],
    [*text("Done."), *done()],
]
# Of the file on disk, and in the editor, before the edit and after.
SAVED, HELD, EDITED = "two\n", "half\ntwo\n", "half\nTWO\n"


async def drive(editor: Editor, folder: Path) -> None:
    """A turn with a question, its replay, and the end of the input in the middle of a second one."""
    await editor.initialize(fs={"readTextFile": True, "writeTextFile": True})
    session_id: str = (await editor.result("session/new", cwd=str(folder), mcpServers=[]))["sessionId"]
    await editor.answer(await editor.prompt(session_id))
    await editor.result("session/load", sessionId=session_id, cwd=str(folder), mcpServers=[])
    await editor.prompt(session_id)
    await editor.stream.send_stream.aclose()  # type: ignore[attr-defined]


@attrs.define
class Scene:
    """An agent and its editor.

    Attributes:
        folder: where they work.
        answers: what the model says in each turn.
        most: how many messages the editor reads before it is gone; None: all.
    """

    folder: Path
    answers: Sequence[Sequence[object]]
    most: int | None = None
    seen: int = 0

    async def play(self, at: CancelAt) -> None:
        """Let them work, until the agent is cancelled or the editor is gone; then look at what is left."""
        path = self.folder / "b.txt"
        path.write_text(SAVED)
        model = ScriptedProvider(self.answers, repeat=True)  # type: ignore[arg-type]
        host = Host(model, builtin_tools(), store=str(self.folder / "store.db"))
        ours, theirs = trio.testing.memory_stream_pair()
        connection = EditorConnection(LineTransport(theirs, message_bytes=LIMITS.bytes))
        agent = EditorAgent(connection, host)
        buffers = Buffers({str(path): HELD})
        editor = Editor(ours, serve_file=buffers.serve)
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._work, editor)
                with at.scope():
                    await agent.run()
                nursery.cancel_scope.cancel(reason="the agent has ended")
            await self._check(host)
        self.seen = len(editor.seen)
        assert path.read_text() in {SAVED, EDITED}
        assert buffers.texts[str(path)] in {HELD, EDITED}

    async def _work(self, editor: Editor) -> None:
        """Be the editor; after so many messages it is gone, whatever it was about to say."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(editor.run)
            nursery.start_soon(drive, editor, self.folder)
            if self.most is not None:
                await editor.wait_for(lambda _: len(editor.seen) > self.most)  # type: ignore[operator]
                nursery.cancel_scope.cancel(reason="the editor was killed")
        await editor.stream.aclose()

    async def _check(self, host: Host) -> None:
        async with host.open_engine() as engine:
            for session_id in await engine_runtime(engine).services.store.store.ids():  # type: ignore[attr-defined]  # SQLite's
                events = (await engine.open_session(session_id)).events()
                started = [event.turn_id for event in events if isinstance(event, TurnStarted)]
                assert [event.turn_id for event in events if isinstance(event, TurnEnded)] == started
                settled = [event.call_id for event in events if isinstance(event, CallSettled)]
                assert len(settled) == len(set(settled))


def play(scene: Scene, step: int | None = None) -> CancelAt:
    scene.folder.mkdir()
    seed_scheduler(0)
    at = CancelAt(step)
    trio.run(partial(scene.play, at), instruments=[at])
    return at


@pytest.mark.parametrize(("answers", "stride"), [(WRITES, 61), (EDITS, 131)], ids=["writes", "edits"])
def test_agent_cancelled_at_any_step(
    tmp_path: Path, is_full: bool, count_runs: CountRuns, answers: Sequence[Sequence[object]], stride: int
) -> None:
    steps = play(Scene(tmp_path / "all", answers)).steps
    assert steps > 200
    runs = range(0, steps, 1 if is_full else stride)
    for step in runs:
        play(Scene(tmp_path / str(step), answers), step)
    count_runs(len(runs))


def test_editor_gone_after_any_message(tmp_path: Path, is_full: bool, count_runs: CountRuns) -> None:
    scene = Scene(tmp_path / "all", EDITS)
    play(scene)
    assert scene.seen > 10
    runs = range(0, scene.seen, 1 if is_full else 5)
    for most in runs:
        play(Scene(tmp_path / str(most), EDITS, most=most))
    count_runs(len(runs))
