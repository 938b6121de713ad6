"""A tool file in a process of its own, which is an MCP server of ours: what holds for those holds for it."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, final

import attrs
import trio

from engine.config.mcp_config import McpConfig, McpServer
from engine.core.threads import to_thread
from engine.mcp.approvals import Approvals
from engine.mcp.mcp_servers import McpServers
from engine.mcp.server_memory import Era, Remembered, ServerMemory
from engine.plugins.plugin_tool import PluginTool, isolated_tools

if TYPE_CHECKING:
    from engine.plugins.tool_files import ToolFile
    from engine.tools.tool import Tool
    from engine.tools.tool_source import SourceScope

# How long the first turn waits for the process; later ones have what was listed the last time.
START_SECONDS: Final = 20.0
_POLL_SECONDS: Final = 0.02
_HOST: Final = "engine.plugins.plugin_host"
# A file that can't be loaded fails each time in the same way; a process that has died comes back.
_RETRIES: Final = (1.0, 4.0)


def host_command(file: ToolFile) -> tuple[str, ...]:
    """Return the command of the host process of a file with this content, and no other."""
    # Without the working directory on the path: a project could have a module `engine`.
    return (sys.executable, "-P", "-m", _HOST, file.path, file.digest)


@final
@attrs.define(eq=False)
class IsolatedFile:
    """A tool file whose process runs, or starts.

    Attributes:
        name: the plugin's name.
        path: the file.
    """

    name: str
    path: str
    _server: McpServer
    _servers: McpServers
    _memory: ServerMemory
    _scope: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _was_awaited: bool = attrs.field(default=False, init=False)
    _offered: tuple[Sequence[Tool], tuple[PluginTool, ...]] = attrs.field(default=((), ()), init=False)

    @classmethod
    def of(cls, file: ToolFile, folder: str, state: Path, memory: ServerMemory | None = None) -> IsolatedFile:
        """Prepare the process of a file that works in *folder*; nothing is started yet."""
        memory = memory or ServerMemory.of_user()
        server = McpServer(command=host_command(file), folder=folder, origin="host")
        servers = McpServers(
            McpConfig(servers={file.name: server}),
            # Apart from those of MCP servers: the content of the file is what was approved.
            approvals=Approvals(state / "tool-files-approved"),
            memory=memory,
            retries=_RETRIES,
        )
        return cls(file.name, file.path, server, servers, memory)

    async def run(self) -> None:
        """Run the process until `stop`, or until cancelled. Always a checkpoint."""
        with self._scope:
            await to_thread(self._remember_era)
            await self._servers.run()

    def stop(self) -> None:
        """End the process. Not a checkpoint."""
        self._scope.cancel(reason="the tool file is not used any more")

    async def wait_settled(self) -> None:
        """Wait until it has tools, maybe those of the last time, or has failed; not long, and once. A checkpoint the first time."""
        if self._was_awaited:
            return
        with trio.move_on_after(START_SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._wait_for_tools, nursery.cancel_scope)
                await self._servers.wait_settled(self.name)
                nursery.cancel_scope.cancel(reason="the process is ready, or has failed")
        self._was_awaited = True

    async def _wait_for_tools(self, waiting: trio.CancelScope) -> None:
        """End the wait once there are tools. A checkpoint."""
        # What was listed the last time is offered long before the process is ready, and nothing reports that.
        while not self._servers.foreign_tools(self.name):  # noqa: ASYNC110  # there is no event for it
            await trio.sleep(_POLL_SECONDS)
        waiting.cancel(reason="the tools of the last time are offered")

    def tools(self, scope: SourceScope, override: Collection[str]) -> tuple[PluginTool, ...]:
        """Return its tools; those of the last time while the process starts."""
        listed = self._servers.tools(scope)
        if self._offered[0] != listed:
            self._offered = (listed, isolated_tools(self.name, listed, override))
        return self._offered[1]

    @property
    def problem(self) -> str:
        """Why it can't be used; empty: it can, or nothing is known yet."""
        state = self._servers.states[self.name]
        return state.reason if state.phase == "failed" else ""

    def _remember_era(self) -> None:
        """Note how our own program speaks, so that it is not asked."""
        if self._memory.load(self._server.fingerprint).era is None:
            self._memory.save(self._server.fingerprint, Remembered(era=Era(kind="legacy")))
