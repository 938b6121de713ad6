"""Formatters around an edit: what a cancel leaves of them. The rest is told with the tools that edit."""

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


async def test_cancel_while_copying_leaves_no_copy(tmp_path: Path) -> None:
    ctx = ToolContext(
        session_id=SessionId("ses"),
        turn_id=TurnId("turn"),
        call_id=CallId("call"),
        shared=SharedContext(cwd=str(tmp_path)),
        host=Listener(),
    )
    around = EditChecks(formatters=(FileProgram(("true",), ("*.py",)),))
    for number in range(40):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(around.format, tmp_path / "a.py", b"x" * 1_000_000, ctx)
            for _ in range(number % 4):
                await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel(reason="test")
    await trio.sleep(0.1)
    assert list(tmp_path.iterdir()) == []  # noqa: ASYNC240 - a folder of our own
