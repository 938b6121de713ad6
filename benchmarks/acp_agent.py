"""The agent of figure `acp` in a process of its own, whose model streams as the prompt says; `python -m benchmarks.acp_agent FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

import engine
from benchmarks.control_server import PacedModel
from engine.acp.editor_agent import EditorAgent
from engine.acp.editor_connection import LIMITS, EditorConnection
from engine.acp.editor_host import EditorCommand
from engine.control.transport.line_transport import LineTransport
from engine.core.protocols import Model
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.tools.tool import Tool


@attrs.frozen
class Host:
    """An engine with that model, and no commands."""

    model: Model
    store: Path | None = None
    tools: Sequence[Tool] = ()

    def open_engine(self) -> engine.Engine:
        return engine.open_engine(
            model=self.model, tools=self.tools, permissions=PermissionOptions(approver=AllowAll()), store=self.store
        )

    def commands(self, cwd: str) -> Sequence[EditorCommand]:
        del cwd
        return ()

    def expand(self, text: str, cwd: str) -> str:
        del cwd
        return text


async def main(folder: Path) -> None:
    """Serve the editor until it closes the input."""
    stream = trio.StapledStream(trio.lowlevel.FdStream(1), trio.lowlevel.FdStream(0))
    connection = EditorConnection(LineTransport(stream, message_bytes=LIMITS.bytes))
    await EditorAgent(connection, Host(PacedModel(), folder / "sessions.db")).run()


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]))
