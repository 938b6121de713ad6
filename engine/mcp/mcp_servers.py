"""`McpServers`: the MCP servers of an engine, as a source of tools. Nothing here waits for a server."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast, final

import attrs
import trio

from engine.config.mcp_config import McpConfig
from engine.core.errors import ConfigError, StoreError, ToolError
from engine.core.exception_groups import ErrorBoundary
from engine.core.threads import to_thread
from engine.json_schema.foreign_schema import ForeignSchema, parse_foreign_schema
from engine.mcp.approvals import Approvals, Approved, Withheld, review, withheld_tools
from engine.mcp.elicitation import ask_user
from engine.mcp.server_memory import ServerMemory
from engine.mcp.server_state import ServerState
from engine.mcp.server_task import RETRIES, ServerTask, import_alone
from engine.mcp.server_text import bounded, framed_description, one_line
from engine.mcp.tool_definition import ToolDefinition, ToolList
from engine.tools.call_values import Need, ToolOutput
from engine.tools.foreign import ForeignTool, JsonArguments, foreign_tool
from engine.tools.foreign_names import foreign_right
from engine.tools.tool import Tool
from engine.tools.tool_source import SourceQuestion

if TYPE_CHECKING:
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
# Of a question: more than that nobody reads at a prompt.
_MOST_REVIEW_LINES: Final = 120


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CheckedTools:
    """What a server offers at the moment.

    Attributes:
        listed: the list it was made from.
        approved: what was approved then.
        tools: the tools that may be called.
        withheld: those that wait for approval.
        refused: those that can't be used, with reasons.
    """

    listed: ToolList
    approved: Approved = Approved()
    tools: tuple[Tool, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


@attrs.define(eq=False)
class _Managed:
    """A server with what the user has approved of it."""

    task: ServerTask
    approved: Approved = attrs.field(default=Approved(), init=False)
    offer: CheckedTools = attrs.field(default=CheckedTools(listed=ToolList()), init=False)
    problem: str = attrs.field(default="", init=False)
    changed: trio.Event = attrs.field(factory=trio.Event, init=False)
    checked: trio.Event = attrs.field(factory=trio.Event, init=False)
    is_running: bool = attrs.field(default=False, init=False)
    # The lists whose tools the user did not want to approve.
    declined: set[str] = attrs.field(factory=set[str], init=False)

    @property
    def is_new_of_host(self) -> bool:
        """Whether the host has named it, it is ready, and nothing of it was approved yet."""
        is_new = self.task.server.origin == "host" and not self.approved.fingerprint
        return is_new and self.task.state.phase == "ready"

    async def wait_checked(self) -> None:
        """Wait until its newest list is checked against what is approved. A checkpoint if that is not done."""
        while self.is_running and (
            self.offer.listed is not self.task.state.listed
            or self.offer.approved is not self.approved
            or self.is_new_of_host
        ):
            await self.checked.wait()


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
        memory = memory or ServerMemory.of_user()
        self._servers: dict[str, _Managed] = {}
        # Of sessions, as far as they have had a turn.
        self._folders: dict[str, None] = {}
        for name, server in config.servers.items():
            task = ServerTask(
                name=name,
                server=server,
                folder=server.folder or str(Path.cwd()),
                memory=memory,
                variables=dict(os.environ if variables is None else variables),
                roots=self._roots,
                retries=retries,
            )
            managed = self._servers[name] = _Managed(task)
            task.on_change = partial(_note_change, managed)

    # -- for those who show servers ------------------------------------------------------------

    @property
    def states(self) -> Mapping[str, ServerState]:
        """The state of each server."""
        return {name: managed.task.state for name, managed in self._servers.items()}

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
        managed = self._servers[name]
        listed = listed or managed.offer.listed
        await to_thread(self._approvals.approve, name, managed.task.server, listed)
        managed.approved = await to_thread(self._approvals.load, name, managed.task.server)
        managed.changed.set()
        await managed.wait_checked()

    # -- the source ----------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """What people call it."""
        return "MCP"

    async def run(self) -> None:
        """Run the servers until cancelled. Always a checkpoint."""
        async with trio.open_nursery() as nursery:
            for managed in self._servers.values():
                nursery.start_soon(self._run_one, managed, name=f"MCP server {managed.task.name}")

    def tools(self, scope: SourceScope) -> Sequence[Tool]:
        """Return the approved tools, also of servers that still start."""
        self._add_folder(scope.cwd)
        offered = [tool for managed in self._servers.values() for tool in managed.offer.tools]
        if any(managed.task.state.has_resources for managed in self._servers.values()):
            offered.append(self._read_tool())
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
        with trio.move_on_after(self._config.required_wait):
            await trio.lowlevel.checkpoint()
            for name in self._config.required:
                late.append(name)
                await self.wait_settled(name)
                late.pop()
        if late:
            raise ToolError(f"the required MCP server {late[0]} was not ready within {self._config.required_wait:g} s")

    def notices(self, scope: SourceScope) -> Sequence[str]:
        """Return what the user should know of the servers."""
        return [text for managed in self._servers.values() for text in _notices(managed)]

    def questions(self, scope: SourceScope) -> Sequence[SourceQuestion]:
        """Return a question for each server with tools that were not approved, once for each state of them."""
        return [
            question for managed in self._servers.values() if (question := _question(managed, self.approve)) is not None
        ]

    # -- the work ------------------------------------------------------------------------------

    async def _run_one(self, managed: _Managed) -> None:
        """Run a server until cancelled. Always a checkpoint. Raises nothing ordinary."""
        try:
            managed.approved = await to_thread(self._approvals.load, managed.task.name, managed.task.server)
        except (ConfigError, StoreError) as error:
            managed.problem = str(error)
        if managed.task.server.is_foreign and not managed.approved.fingerprint:
            # Nothing that a project or a plugin names is started before the user has seen it.
            managed.task.hold(f"it was not approved yet, or has changed: engine mcp approve {managed.task.name}")
        managed.is_running = True
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._keep_offer, managed)
                with ErrorBoundary() as boundary:
                    await managed.task.run()
                if boundary.error is not None:
                    managed.problem = one_line(str(boundary.error))
                nursery.cancel_scope.cancel(reason="the server's task is over")
        finally:
            managed.is_running = False
            managed.checked.set()

    async def _keep_offer(self, managed: _Managed) -> None:
        """Check the tools of each new list. A checkpoint; until cancelled."""
        while True:
            if managed.is_new_of_host:
                await self._approve_first(managed)
            listed, approved = managed.task.state.listed, managed.approved
            managed.offer = await to_thread(_checked, managed.task, listed, approved)
            done, managed.checked = managed.checked, trio.Event()
            done.set()
            while managed.task.state.listed is listed and managed.approved is approved and not managed.is_new_of_host:
                await managed.changed.wait()
                managed.changed = trio.Event()

    async def _approve_first(self, managed: _Managed) -> None:
        """Approve what a server of the host's offers when it is first seen: the program has chosen it. A checkpoint."""
        name, server, listed = managed.task.name, managed.task.server, managed.task.state.listed
        managed.approved = Approved(
            fingerprint=server.fingerprint,
            tools={tool.name: tool for tool in listed.tools},
            instructions=listed.instructions,
        )
        try:
            await to_thread(self._approvals.approve, name, server, listed)
        except (ConfigError, StoreError) as error:
            managed.problem = str(error)

    def _read_tool(self) -> Tool:
        tool = foreign_tool(self._read, server="mcp", name="read", schema=_READ_SCHEMA, description=_READ, is_safe=True)

        def need(arguments: object, _: ToolContext) -> Need:
            values = cast("JsonArguments", arguments).value
            server, uri = str(values["server"]), str(values["uri"])
            return Need(
                permission=foreign_right("mcp", server, "mcp_read"),
                detail=f"Read {bounded(uri, _MOST_URI_CHARS)} of the MCP server {one_line(server)}",
            )

        return attrs.evolve(tool, need=need)

    async def _read(self, arguments: JsonArguments, ctx: ToolContext) -> ToolOutput:
        name, uri = str(arguments.value["server"]), str(arguments.value["uri"])
        managed = self._servers.get(name)
        if managed is None:
            raise ToolError(f"There is no MCP server {name!r}. There are: {', '.join(self._servers)}.")
        if len(uri) > _MOST_URI_CHARS:
            raise ToolError("The URI is too long.")
        calls = await to_thread(import_alone, "engine.mcp.server_calls")
        caller = calls.ServerCaller(task=managed.task, ctx=ctx, elicit=partial(ask_user, name, ctx))
        return cast("ToolOutput", await caller.read(uri))


async def _call(task: ServerTask, definition: ToolDefinition, arguments: JsonArguments, ctx: ToolContext) -> ToolOutput:
    # In a thread: it brings the SDK, which a server that still starts may not have loaded yet.
    calls = await to_thread(import_alone, "engine.mcp.server_calls")
    caller = calls.ServerCaller(task=task, ctx=ctx, elicit=partial(ask_user, task.name, ctx))
    return cast("ToolOutput", await caller.call(definition, arguments.value))


def _checked(task: ServerTask, listed: ToolList, approved: Approved) -> CheckedTools:
    """Return what a server offers by its newest list. It blocks, for up to seconds if there are thousands of tools."""
    usable: list[tuple[ToolDefinition, ForeignSchema]] = []
    refused = list(listed.refused)
    for definition in listed.tools:
        try:
            _let_others_run()
            usable.append((definition, parse_foreign_schema(definition.input_schema)))
        except ConfigError as error:
            refused.append((definition.name, str(error)))
    withheld = withheld_tools(approved, [definition for definition, _ in usable])
    held = {one.tool.name for one in withheld}
    tools: list[Tool] = []
    for definition, schema in usable:
        if definition.name not in held:
            try:
                _let_others_run()
                tools.append(_tool(task, definition, schema))
            except ConfigError as error:
                refused.append((definition.name, str(error)))
    return CheckedTools(listed=listed, approved=approved, tools=tuple(tools), withheld=withheld, refused=tuple(refused))


def _let_others_run() -> None:
    # A thread that computes gives the interpreter lock away only every 5 ms, which a request in the event loop would wait
    # for again and again.
    time.sleep(0)


def _tool(task: ServerTask, definition: ToolDefinition, schema: ForeignSchema) -> Tool:
    """Return a tool for models. Raises `ConfigError`."""
    claims = cast("dict[str, object]", json.loads(definition.annotations or "{}"))
    return foreign_tool(
        partial(_call, task, definition),
        server=task.name,
        name=definition.name,
        schema=schema,
        description=framed_description(task.name, definition.title, definition.description),
        claims_read_only=claims.get("readOnlyHint") is True,
        version=definition.digest,
    )


def _note_change(managed: _Managed) -> None:
    managed.changed.set()


def _question(managed: _Managed, approve: Callable[[str, ToolList], Awaitable[None]]) -> SourceQuestion | None:
    """Return the question whether the tools that are withheld may be used; None: there are none, or it was answered."""
    name, offer = managed.task.name, managed.offer
    key = " ".join(sorted(one.tool.digest for one in offer.withheld))
    if not key or key in managed.declined or offer.listed is not managed.task.state.listed:
        return None
    lines = review(offer.withheld, offer.listed)
    rest = len(lines) - _MOST_REVIEW_LINES
    shown = lines[:_MOST_REVIEW_LINES]
    if rest > 0:
        shown.append(f"… and {rest} more lines. See all of them with: engine mcp approve {name}")
    count = "A tool" if len(offer.withheld) == 1 else f"{len(offer.withheld)} tools"
    text = "\n".join(
        [f"{count} of the MCP server {name} may not be used before you have approved what follows.", *shown]
    )

    async def answer(agrees: bool) -> None:  # noqa: FBT001  # as `SourceQuestion` has it
        managed.declined.add(key)
        if agrees:
            await approve(name, offer.listed)
            managed.declined.discard(key)

    return SourceQuestion(text=text, yes="Approve", answer=answer)


def _notices(managed: _Managed) -> list[str]:
    name, state = managed.task.name, managed.task.state
    texts = [f"MCP server {name}: {managed.problem}"] if managed.problem else []
    if state.phase in {"failed", "needs_auth", "needs_approval"}:
        texts.append(f"MCP server {name} is not available ({state.phase}): {bounded(state.reason)}")
    if managed.offer.withheld:
        names = ", ".join(f"{one_line(one.tool.name, 80)} ({one.what})" for one in managed.offer.withheld[:10])
        more = len(managed.offer.withheld) - 10
        rest = f" and {more} more" if more > 0 else ""
        texts.append(
            f"Tools of the MCP server {name} wait for your approval: {names}{rest}. See them with: engine mcp approve {name}"
        )
    return texts
