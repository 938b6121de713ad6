"""`McpServers`: the MCP servers of an engine, as a source of tools. Nothing here waits for a server."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, final

import attrs
import trio

from engine.config.mcp_config import McpConfig
from engine.core.errors import ToolError
from engine.core.threads import to_thread
from engine.mcp.approvals import Approvals
from engine.mcp.elicitation import ask_user
from engine.mcp.managed_server import CheckedTools, ManagedServer
from engine.mcp.server_memory import ServerMemory
from engine.mcp.server_state import ServerState
from engine.mcp.server_task import RETRIES, ServerTask, imported
from engine.mcp.server_text import bounded, one_line
from engine.mcp.tool_definition import ToolList
from engine.tools.call_values import Need, ToolOutput
from engine.tools.foreign import ForeignTool, JsonArguments, foreign_tool
from engine.tools.foreign_names import foreign_right
from engine.tools.tool import Tool
from engine.tools.tool_source import SourceQuestion

if TYPE_CHECKING:
    from engine.core.ids import SessionId
    from engine.tools.tool_context import ToolContext
    from engine.tools.tool_source import SourceScope

_READ_SCHEMA: Final = json.dumps(
    {
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "the name of the MCP server"},
            "uri": {"type": "string", "description": "the URI of the resource, as the server has written it"},
        },
        "required": ["server", "uri"],
        "additionalProperties": False,
    }
)
_READ: Final = "Read a resource of an MCP server, such as one that a result of the server links to."
_MOST_URI_CHARS: Final = 4_000
_MOST_FOLDERS: Final = 32
# Whose servers of their own are kept; they run only as long as they are used.
_MOST_SESSIONS: Final = 64


@final
class McpServers:
    """MCP servers, as a source of tools for `engine.Ports`.

    They start when the engine is opened, and end with it. One that fails, is slow or changes costs the others nothing.
    """

    def __init__(
        self,
        config: McpConfig,
        *,
        approvals: Approvals | None = None,
        memory: ServerMemory | None = None,
        variables: Mapping[str, str] | None = None,
        retries: Sequence[float] = RETRIES,
    ) -> None:
        """Prepare the servers of *config*; nothing is started yet.

        Args:
            config: the servers.
            approvals: which of their tools the user has approved; by default what `engine mcp approve` has written.
            memory: what is known of them from the last time.
            variables: the environment that `${VAR}` refers to.
            retries: seconds before each new start of a server that has failed.
        """
        self._config = config
        self._approvals = approvals or Approvals.of_user()
        self._memory = memory or ServerMemory.of_user()
        self._variables = dict(os.environ if variables is None else variables)
        self._retries = retries
        self._nursery: trio.Nursery | None = None
        # Of sessions, as far as they have had a turn.
        self._folders: dict[str, None] = {}
        self._servers = {
            name: self._managed(name, server.folder or str(Path.cwd()))
            for name, server in config.servers.items()
            if not server.per_session
        }
        # By the session that the user talks to, the one whose turn was longest ago first.
        self._of_sessions: dict[SessionId, Mapping[str, ManagedServer]] = {}

    def _managed(self, name: str, folder: str) -> ManagedServer:
        server = self._config.servers[name]
        task = ServerTask(
            name=name,
            server=server,
            folder=folder,
            memory=self._memory,
            variables=self._variables,
            roots=partial(_root_of, folder) if server.per_session else self._roots,
            retries=self._retries,
            idle_timeout=server.idle_timeout if server.per_session else float("inf"),
        )
        managed = ManagedServer(task)
        task.on_change = managed.note_change
        return managed

    # -- for those who show servers ------------------------------------------------------------

    @property
    def states(self) -> Mapping[str, ServerState]:
        """The state of each server; those of sessions have their session's id after the name."""
        own = {
            f"{name} {session}": each
            for session, servers in self._of_sessions.items()
            for name, each in servers.items()
        }
        return {name: managed.task.state for name, managed in {**self._servers, **own}.items()}

    def offer_of(self, name: str) -> CheckedTools:
        """Return what a server offers at the moment."""
        return self._servers[name].offer

    def foreign_tools(self, name: str) -> tuple[ForeignTool, ...]:
        """Return the tools of a server that may be called."""
        return tuple(tool for tool in self._servers[name].offer.tools if isinstance(tool, ForeignTool))

    def start_again(self, name: str) -> None:
        """Start a server again that has failed. Not a checkpoint."""
        self._servers[name].task.start_again()

    async def wait_settled(self, name: str) -> ServerState:
        """Wait until a server is ready or has failed, and its tools are checked; return its state. Always a checkpoint."""
        managed = self._servers[name]
        await managed.task.wait_settled()
        await managed.wait_checked()
        return managed.task.state

    async def approve(self, name: str, listed: ToolList | None = None) -> None:
        """Approve a server and its tools as they are, or as they were listed; the next turn may use them.

        Always a checkpoint. Raises `ConfigError`, `StoreError`.
        """
        listed = listed or self._servers[name].offer.listed
        await to_thread(self._approvals.approve, name, self._config.servers[name], listed)
        for servers in (self._servers, *self._of_sessions.values()):
            if name in servers:
                await servers[name].reload(self._approvals)

    # -- the source ----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """What people call it."""
        return "MCP"

    async def run(self) -> None:
        """Run the servers until cancelled. Always a checkpoint."""
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                for managed in self._servers.values():
                    self._start(managed)
                if len(self._servers) < len(self._config.servers):
                    # Those of sessions come with them.
                    await trio.sleep_forever()
        finally:
            self._nursery = None

    def _start(self, managed: ManagedServer) -> None:
        if self._nursery is not None:
            self._nursery.start_soon(managed.run, self._approvals, name=f"MCP server {managed.task.name}")

    def _of(self, scope: SourceScope) -> Mapping[str, ManagedServer]:
        """Return the servers of a session; those that are its own start with its first turn. Not a checkpoint."""
        if len(self._servers) == len(self._config.servers) or self._nursery is None:
            return self._servers
        own = self._of_sessions.pop(scope.root_id, None)
        if own is None:
            own = {
                name: self._managed(name, scope.cwd)
                for name, server in self._config.servers.items()
                if server.per_session
            }
            for managed in own.values():
                self._start(managed)
        self._of_sessions[scope.root_id] = own
        while len(self._of_sessions) > _MOST_SESSIONS:
            for managed in self._of_sessions.pop(next(iter(self._of_sessions))).values():
                managed.scope.cancel(reason="other sessions have come since")
        return {**self._servers, **own}

    def tools(self, scope: SourceScope) -> Sequence[Tool]:
        """Return the approved tools, also of servers that still start."""
        self._add_folder(scope.cwd)
        servers = self._of(scope)
        for managed in servers.values():
            managed.task.touch()
        offered = [tool for managed in servers.values() for tool in managed.offer.tools]
        if any(managed.task.state.has_resources for managed in servers.values()):
            offered.append(self._read_tool(servers))
        return offered

    def _add_folder(self, folder: str) -> None:
        """Let servers of the old era know the folder of a session. Not a checkpoint."""
        if folder in self._folders:
            return
        self._folders[folder] = None
        while len(self._folders) > _MOST_FOLDERS:
            del self._folders[next(iter(self._folders))]
        for managed in self._servers.values():
            managed.task.report_roots()

    def _roots(self) -> tuple[str, ...]:
        return tuple(Path(folder).as_uri() for folder in self._folders)

    async def ready(self, scope: SourceScope) -> None:
        """Wait for the required servers, but not long. Always a checkpoint."""
        late: list[str] = []
        servers = self._of(scope)
        with trio.move_on_after(self._config.required_wait):
            await trio.lowlevel.checkpoint()
            for name in self._config.required:
                late.append(name)
                managed = servers[name]
                await managed.task.wait_settled()
                await managed.wait_checked()
                late.pop()
        if late:
            raise ToolError(f"the required MCP server {late[0]} was not ready within {self._config.required_wait:g} s")

    def notices(self, scope: SourceScope) -> Sequence[str]:
        """Return what the user should know of the servers."""
        return [text for managed in self._of(scope).values() for text in managed.notices()]

    def questions(self, scope: SourceScope) -> Sequence[SourceQuestion]:
        """Return a question for each server with tools that were not approved, once for each state of them."""
        return [
            question for managed in self._of(scope).values() if (question := managed.question(self.approve)) is not None
        ]

    def _read_tool(self, servers: Mapping[str, ManagedServer]) -> Tool:
        tool = foreign_tool(
            partial(_read, servers), server="mcp", name="read", schema=_READ_SCHEMA, description=_READ, is_safe=True
        )

        def need(arguments: object, _: ToolContext) -> Need:
            values = cast("JsonArguments", arguments).value
            server, uri = str(values["server"]), str(values["uri"])
            return Need(
                permission=foreign_right("mcp", server, "mcp_read"),
                detail=f"Read {bounded(uri, _MOST_URI_CHARS)} of the MCP server {one_line(server)}",
            )

        return attrs.evolve(tool, need=need)


def _root_of(folder: str) -> tuple[str, ...]:
    return (Path(folder).as_uri(),)


async def _read(servers: Mapping[str, ManagedServer], arguments: JsonArguments, ctx: ToolContext) -> ToolOutput:
    name, uri = str(arguments.value["server"]), str(arguments.value["uri"])
    managed = servers.get(name)
    if managed is None:
        raise ToolError(f"There is no MCP server {name!r}. There are: {', '.join(servers)}.")
    if len(uri) > _MOST_URI_CHARS:
        raise ToolError("The URI is too long.")
    calls = await imported("engine.mcp.server_calls")
    caller = calls.ServerCaller(task=managed.task, ctx=ctx, elicit=partial(ask_user, name, ctx))
    return cast("ToolOutput", await caller.read(uri))
