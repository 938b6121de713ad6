"""Calls of a server's tools, from the side of the turn: one request each, settled whatever the server does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar
from urllib.parse import urlsplit

import attrs
from mcp.shared.exceptions import MCPError
from mcp_types import CONNECTION_CLOSED, CallToolResult, ElicitRequestParams, ElicitResult, ReadResourceResult
from pydantic import ValidationError

from engine.core.errors import OutcomeUnknown, ToolError
from engine.core.threads import to_thread
from engine.journal.trace_context import annotate_call
from engine.mcp.mcp_connection import McpConnection, ProtocolError
from engine.mcp.server_requests import ConnectionLost, ServerRequest, TookTooLong
from engine.mcp.server_skills import ServerSkill, SkillChanged
from engine.mcp.server_task import NotReady, ServerTask
from engine.mcp.server_text import bounded, one_line
from engine.mcp.tool_definition import ToolDefinition
from engine.mcp.tool_results import output_of, resource_bytes, resource_output
from engine.prompt.skills import FILE
from engine.tools.call_values import ToolOutput

if TYPE_CHECKING:
    from engine.tools.tool_context import ToolContext

T = TypeVar("T")

# A call of a tool that was offered from memory waits so long for its server.
READY_SECONDS: Final = 30.0

# How the SDK begins to say that no answer can come any more.
_ENDED: Final = ("Connection closed", "SSE stream")

Elicit = Callable[[ElicitRequestParams], Awaitable[ElicitResult]]


@attrs.frozen(kw_only=True)
class ServerCaller:
    """Sends the requests of one call.

    Attributes:
        task: the server.
        ctx: the call.
        elicit: asks the user what the server asks.
    """

    task: ServerTask
    ctx: ToolContext
    elicit: Elicit

    async def call(self, tool: ToolDefinition, arguments: Mapping[str, object]) -> ToolOutput:
        """Call a tool. A checkpoint; if cancelled, the server is notified, and nothing waits for it.

        Raises `ToolError`; `OutcomeUnknown` if the server died meanwhile. Nothing is ever sent twice.
        """
        timeout, limit = self.task.server.limits_of(tool.name)

        async def work(connection: McpConnection, request: ServerRequest[CallToolResult]) -> CallToolResult:
            self._annotate("tools/call", connection)
            return await connection.call_tool(tool.name, arguments, on_progress=request.report, elicit=request.ask)

        result = await self._send(work, timeout, limit)
        return await output_of(self.task.name, result, tool.output_schema, self.ctx)

    async def read(self, uri: str) -> ToolOutput:
        """Read a resource. A checkpoint; if cancelled, the server is notified, and nothing waits for it. Raises `ToolError`."""
        return await resource_output(self.task.name, await self._read(uri), self.ctx)

    async def read_skill(self, tool: ToolDefinition, path: str) -> ToolOutput:
        """Read a file of a skill as it was approved; without a path, its text. A checkpoint, as `read`. Raises `ToolError`."""
        skill = ServerSkill.of(tool)
        file = skill.file(path or FILE)
        result = await self._read(file.uri)
        try:
            text = await to_thread(skill.verify, file, resource_bytes(result))
        except SkillChanged as error:
            # Its list is asked for again: what has changed there waits for approval from the next turn on.
            self.task.note_change()
            raise ToolError(
                f"The skill {skill.name} can't be used: {one_line(file.uri)} has changed: {error}."
            ) from error
        if text:
            return ToolOutput(text=skill.shown(self.task.name, text))
        return await resource_output(self.task.name, result, self.ctx)

    async def _read(self, uri: str) -> ReadResourceResult:
        async def work(connection: McpConnection, request: ServerRequest[ReadResourceResult]) -> ReadResourceResult:
            self._annotate("resources/read", connection)
            return await connection.read_resource(uri, elicit=request.ask)

        return await self._send(work, self.task.server.call_timeout, self.task.server.call_limit)

    def _annotate(self, method: str, connection: McpConnection) -> None:
        """Say in the call's span which request it is. Not a checkpoint."""
        # No span of its own: the SDK sends the span of the call along, as the request's `_meta`.
        annotate_call(
            {
                "mcp.method.name": method,
                "mcp.protocol.version": connection.protocol,
                "server.address": urlsplit(self.task.server.url).hostname or "",
                "gen_ai.tool.type": "extension",
            }
        )

    async def _send(
        self, work: Callable[[McpConnection, ServerRequest[T]], Awaitable[T]], timeout: float, limit: float
    ) -> T:
        name = self.task.name
        request = ServerRequest(
            work=work,
            timeout=timeout,
            limit=limit,
            on_progress=partial(_show_progress, self.ctx),
            owner=self.ctx.session_id,
        )
        try:
            await self.task.wait_ready(READY_SECONDS)
            self.task.start_request(request)
            return await request.wait(self.elicit)
        except NotReady as error:
            raise ToolError(f"{error}. Nothing was sent to it.") from error
        except TookTooLong as error:
            raise OutcomeUnknown(f"The call was given up: {error}. What it did until then is not known.") from error
        except ConnectionLost as error:
            raise _lost(name) from error
        except ValidationError as error:
            raise ToolError(
                f"The MCP server {name} answered with something that is no result: {_first(error)}"
            ) from error
        except ProtocolError as error:
            raise ToolError(f"The MCP server {name} broke the protocol: {error}") from error
        except MCPError as error:
            # The code alone says too little: servers use it for errors of their own.
            if error.code == CONNECTION_CLOSED and error.message.startswith(_ENDED):
                raise _lost(name) from error
            raise ToolError(f"The MCP server {name} reports an error: {bounded(error.message)}") from error


def _show_progress(ctx: ToolContext, text: str) -> None:
    ctx.progress(one_line(text))


def _lost(name: str) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"The connection to the MCP server {name} ended during the call, so it is not known what it did. Find out before you "
        "call it again."
    )


def _first(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False)[0]
    return one_line(f"{'.'.join(map(str, first['loc']))}: {first['msg']}")
