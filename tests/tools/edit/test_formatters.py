"""Formatters around an edit: what a cancel leaves of them. The rest is told with the tools that edit."""

import shutil
from pathlib import Path

import pytest
import trio

from engine.config.formatter_config import FileProgram
from engine.core.events import SharedContext
from engine.core.ids import CallId, SessionId, TurnId
from engine.tools.edit.formatters import EditChecks
from engine.tools.tool_context import ToolContext
from tests.tools.conftest import Listener

pytestmark = pytest.mark.os


def context(folder: Path) -> ToolContext:
    return ToolContext(
        session_id=SessionId("ses"),
        turn_id=TurnId("turn"),
        call_id=CallId("call"),
        shared=SharedContext(cwd=str(folder)),
        host=Listener(),
    )


@pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
async def test_git_status_never_shows_a_copy(tmp_path: Path) -> None:
    await trio.run_process(["git", "init", "-q"], cwd=tmp_path)
    # What git lists while the formatter runs is what it lists if the engine is killed then.
    formatter = FileProgram(("sh", "-c", 'git status --porcelain -uall >"$0"'), ("*.py",))
    data, notes = await EditChecks(formatters=(formatter,)).format(tmp_path / "a.py", b"pass\n", context(tmp_path))
    assert (data, notes) == (b"", ("[sh has formatted a.py]",))
    assert [path.name for path in tmp_path.iterdir()] == [".git"]  # noqa: ASYNC240 - a folder of our own


async def test_cancel_while_copying_leaves_no_copy(tmp_path: Path) -> None:
    ctx = context(tmp_path)
    around = EditChecks(formatters=(FileProgram(("true",), ("*.py",)),))
    for number in range(40):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(around.format, tmp_path / "a.py", b"x" * 1_000_000, ctx)
            for _ in range(number % 4):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel(reason="test")
    await trio.sleep(0.1)
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a folder of our own
