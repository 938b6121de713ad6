"""One connection to a server: the SDK's session over our streams, in either era of the protocol."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import attrs
import mcp_types as types
import trio
from mcp.client.session import ClientRequestContext, ClientSession
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import find_invalid_x_mcp_header
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS
from pydantic import FileUrl, TypeAdapter, ValidationError

from engine.core.threads import to_thread
from engine.core.version import __version__
from engine.mcp.message_gate import HEADER_KEY, MOST_TOOLS, SKILL_GET, SKILL_LIST, MessageGate
from engine.mcp.server_memory import Era
from engine.mcp.server_skills import EXTENSION, read_skills
from engine.mcp.server_text import one_line
from engine.mcp.tool_definition import ToolDefinition, ToolList, read_definitions

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
    from mcp.shared.message import SessionMessage

Elicit = Callable[[types.ElicitRequestParams], Awaitable[types.ElicitResult]]

_MOST_PAGES: Final = 100
_MOST_TTL: Final = 24 * 3_600.0
# Of questions that one call may ask, one after the other.
_MOST_ROUNDS: Final = 10
_MOST_STATE_BYTES: Final = 262_144
# Before a stream of notifications that broke is opened again.
_RELISTEN: Final = 5.0

_CallAdapter: TypeAdapter[types.CallToolResult | types.InputRequiredResult] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)
_ReadAdapter: TypeAdapter[types.ReadResourceResult | types.InputRequiredResult] = TypeAdapter(
    types.ReadResourceResult | types.InputRequiredResult
)


class ProtocolError(Exception):
    """The server broke the protocol, or a limit."""


class _Session(ClientSession):
    def _build_capabilities(self, version: str) -> types.ClientCapabilities:
        """Offer folders to servers of the old era only; the new one has deprecated them."""
        capabilities = super()._build_capabilities(version)
        return capabilities.model_copy(update={"roots": None}) if version in MODERN_PROTOCOL_VERSIONS else capabilities


@attrs.frozen(kw_only=True)
class FetchedTools:
    """The tools of a server, as it has just listed them.

    Attributes:
        listed: the tools.
        seconds: how long it says they stay the same.
    """

    listed: ToolList
    seconds: float


@attrs.frozen(eq=False)
class McpConnection:
    """An open connection."""

    session: ClientSession
    gate: MessageGate
    _is_from_memory: bool = attrs.field(default=False, alias="is_from_memory")
    _named_skills: tuple[str, ...] = attrs.field(default=(), alias="skills")

    @property
    def era(self) -> Era:
        """What to remember for the next start."""
        discovered = self.session.discover_result
        if discovered is None:
            return Era(kind="legacy")
        return Era(kind="modern", discovered=discovered.model_dump_json(by_alias=True, exclude_none=True))

    @property
    def protocol(self) -> str:
        """The version of the protocol."""
        return self.session.protocol_version or ""

    @property
    def title(self) -> str:
        """What the server calls itself."""
        info = self.session.server_info
        return "" if info is None else f"{info.title or info.name} {info.version}".strip()

    @property
    def has_resources(self) -> bool:
        """Whether it has resources to read."""
        capabilities = self.session.server_capabilities
        return capabilities is not None and capabilities.resources is not None

    @property
    def instructions(self) -> str:
        """How the server wants to be used."""
        return self.session.instructions or ""

    async def has_changed(self) -> bool:
        """Ask what the server can do, if that is known from the last time only; return whether it is something else.

        A checkpoint. Raises `MCPError` and `ValidationError`.
        """
        await trio.lowlevel.checkpoint()
        before = self.session.discover_result
        if before is None or not self._is_from_memory:
            return False
        now = types.DiscoverResult.model_validate(await self.session.send_discover(self.protocol))
        if now == before:
            return False
        self.session.adopt(now)
        return True

    async def list_tools(self) -> FetchedTools:
        """Return the tools, and the skills as tools. A checkpoint for each page.

        Raises `ProtocolError`, `MCPError` and `ValidationError`.
        """
        capabilities = self.session.server_capabilities
        listed, seconds = ToolList(instructions=self.instructions), _MOST_TTL
        if capabilities is not None and capabilities.tools is not None:
            tools, problem, seconds = await self._pages(self._list_tools)
            definitions, refused = await to_thread(partial(_read, tools, is_http=self.gate.is_http))
            listed = _with(listed, definitions, refused, problem)
        if capabilities is not None and EXTENSION in (capabilities.extensions or {}):
            try:
                skills, problem, fresh = await self._pages(self._list_skills)
            except (ProtocolError, MCPError, ValidationError) as error:
                # The tools stand for themselves.
                skills, problem, fresh = [], f"its skills can't be listed: {one_line(str(error))}", _MOST_TTL
            others, missing = await self._unlisted_skills(skills)
            taken = {tool.name for tool in listed.tools}
            definitions, refused = await to_thread(read_skills, [*skills, *others], taken)
            listed = _with(listed, definitions, [*missing, *refused], problem)
            # Zero says nothing: the other list may still have to be asked for again.
            seconds = min(seconds or fresh, fresh or seconds)
        else:
            missing = [(f"skill {one_line(uri)}", "the server offers no skills") for uri in self._named_skills]
            listed = _with(listed, [], missing, "")
        return FetchedTools(listed=listed, seconds=seconds)

    async def _unlisted_skills(self, listed: list[object]) -> tuple[list[object], list[tuple[str, str]]]:
        """Return the entries of skills that are named and not listed, and why others are missing. A checkpoint for each."""
        found: list[object] = []
        missing: list[tuple[str, str]] = []
        for uri in self._named_skills:
            if any(_uri_of(entry) == uri for entry in listed):
                continue
            try:
                found.append(await self._get_skill(uri))
            except (ProtocolError, MCPError, ValidationError) as error:
                missing.append((f"skill {one_line(uri)}", f"the server does not return it: {one_line(str(error))}"))
        return found, missing

    async def _get_skill(self, uri: str) -> object:
        """Return the entry of a skill. A checkpoint. Raises `ProtocolError`, `MCPError` and `ValidationError`."""
        params = types.ReadResourceRequestParams(uri=uri)
        request = types.Request[types.ReadResourceRequestParams, str](method=SKILL_GET, params=params)
        # The gate takes the skill out of it, as it does with lists.
        await self.session.send_request(request, types.ListToolsResult)
        (skill,) = self.gate.page or [None]
        if _uri_of(skill) != uri:
            raise ProtocolError("its answer is not about this one")
        return skill

    async def _list_tools(self, params: types.PaginatedRequestParams) -> types.ListToolsResult:
        return await self.session.list_tools(params=params)

    async def _list_skills(self, params: types.PaginatedRequestParams) -> types.ListToolsResult:
        request = types.Request[types.PaginatedRequestParams, str](method=SKILL_LIST, params=params)
        # The gate takes the skills out of it, as it does with tools.
        return await self.session.send_request(request, types.ListToolsResult)

    async def _pages(
        self, fetch: Callable[[types.PaginatedRequestParams], Awaitable[types.ListToolsResult]]
    ) -> tuple[list[object], str, float]:
        """Return the items of a list, why the rest is not read, and how long they stay the same. A checkpoint for each page."""
        items: list[object] = []
        cursors: list[str] = []
        seconds: float | None = None
        problem = ""
        while not problem:
            page = await fetch(types.PaginatedRequestParams(cursor=cursors[-1] if cursors else None))
            if self.gate.page is None:
                raise ProtocolError("its list of tools is not a list")
            seconds = min((page.ttl_ms or 0) / 1_000, _MOST_TTL) if seconds is None else seconds
            items += self.gate.page
            problem = self._problem_with(items, cursors, page.next_cursor)
            if not page.next_cursor:
                break
            cursors.append(page.next_cursor)
        return items[:MOST_TOOLS], problem, seconds or 0.0

    def _problem_with(self, items: list[object], cursors: list[str], cursor: str | None) -> str:
        """Return why the rest of a list is not read; empty if it is, or if there is none."""
        if len(items) > MOST_TOOLS or self.gate.page_size > MOST_TOOLS or (cursor and len(items) == MOST_TOOLS):
            return f"only the first {MOST_TOOLS:,} tools are used"
        if cursor in cursors:
            return "the server gave the same cursor twice"
        if cursor and len(cursors) + 1 >= _MOST_PAGES:
            return f"only the first {_MOST_PAGES} pages are read"
        return ""

    async def call_tool(
        self, name: str, arguments: Mapping[str, object], *, on_progress: ProgressFnT, elicit: Elicit
    ) -> types.CallToolResult:
        """Call a tool, and answer what it asks until then. A checkpoint; if cancelled, the server is notified.

        Exactly one request runs the tool, unless the server itself asks for another one with the user's answers.
        Raises `ProtocolError`, `MCPError` and `ValidationError`.
        """

        async def send(responses: types.InputResponses | None, state: str | None) -> object:
            params = types.CallToolRequestParams(
                name=name, arguments=dict(arguments), input_responses=responses, request_state=state
            )
            return await self.session.send_request(
                types.CallToolRequest(params=params), _CallAdapter, progress_callback=on_progress
            )

        result = await self._answered(send, elicit)
        if not isinstance(result, types.CallToolResult):
            raise ProtocolError("its answer is no result of a tool")
        return result

    async def read_resource(self, uri: str, *, elicit: Elicit) -> types.ReadResourceResult:
        """Read a resource. A checkpoint; if cancelled, the server is notified.

        Raises `ProtocolError`, `MCPError` and `ValidationError`.
        """

        async def send(responses: types.InputResponses | None, state: str | None) -> object:
            params = types.ReadResourceRequestParams(uri=uri, input_responses=responses, request_state=state)
            return await self.session.send_request(types.ReadResourceRequest(params=params), _ReadAdapter)

        result = await self._answered(send, elicit)
        if not isinstance(result, types.ReadResourceResult):
            raise ProtocolError("its answer is no resource")
        return result

    async def report_roots(self) -> None:
        """Tell a server of the old era that the folders it may know have changed. A checkpoint."""
        if self.session.discover_result is None:
            await self.session.send_notification(types.RootsListChangedNotification())
        await trio.lowlevel.checkpoint()

    async def _answered(
        self, send: Callable[[types.InputResponses | None, str | None], Awaitable[object]], elicit: Elicit
    ) -> object:
        """Send a request, and again with the user's answers as long as the server asks for some. A checkpoint."""
        result = await send(None, None)
        for _ in range(_MOST_ROUNDS):
            if not isinstance(result, types.InputRequiredResult):
                return result
            if len((result.request_state or "").encode()) > _MOST_STATE_BYTES:
                raise ProtocolError(f"its request state has more than {_MOST_STATE_BYTES:,} bytes")
            answers: dict[str, types.InputResponse] = {}
            for key, request in (result.input_requests or {}).items():
                if not isinstance(request, types.ElicitRequest):
                    raise ProtocolError(f"it asks for {request.method}, which is not offered")
                answers[key] = await elicit(request.params)
            result = await send(answers, result.request_state)
        raise ProtocolError(f"it asked more than {_MOST_ROUNDS} times")

    async def watch(self, on_change: Callable[[], None]) -> None:
        """Listen for changes of the tools, in the new era, as long as the connection is open. A checkpoint.

        The gate reports the changes in both eras; a stream that broke may have missed one.
        """
        capabilities = self.session.server_capabilities
        if capabilities is None or capabilities.tools is None or not capabilities.tools.list_changed:
            return
        if self.protocol not in MODERN_PROTOCOL_VERSIONS:
            return
        while True:
            try:
                async with listen(self.session, tools_list_changed=True) as changes:
                    async for _ in changes:
                        on_change()
            except ListenNotSupportedError:
                return
            except (MCPError, SubscriptionLost, TimeoutError):
                pass
            await trio.sleep(_RELISTEN)
            on_change()


def _name_of(tool: ToolDefinition) -> str:
    return tool.name


def _uri_of(entry: object) -> object:
    return cast("dict[str, object]", entry).get("uri") if isinstance(entry, dict) else None


def _with(
    listed: ToolList, definitions: list[ToolDefinition], refused: list[tuple[str, str]], problem: str
) -> ToolList:
    """Return a list with more tools, sorted, and with what else was refused."""
    rest = [("the rest", problem)] if problem else []
    tools = (*listed.tools, *sorted(definitions, key=_name_of))
    return attrs.evolve(listed, tools=tools, refused=(*listed.refused, *refused, *rest))


def _read(tools: list[object], *, is_http: bool) -> tuple[list[ToolDefinition], list[tuple[str, str]]]:
    """Return the tools of a list, and those that are refused, with reasons. It blocks."""
    definitions, refused = read_definitions(tools)
    if not is_http:
        return definitions, refused
    usable: list[ToolDefinition] = []
    for definition in definitions:
        asks = HEADER_KEY in definition.input_schema
        problem = find_invalid_x_mcp_header(json.loads(definition.input_schema)) if asks else None
        if problem is None:
            usable.append(definition)
        else:
            refused.append((definition.name, f"it asks for headers that can't be sent: {one_line(problem)}"))
    return usable, refused


@asynccontextmanager
async def open_connection(
    streams: tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]],
    gate: MessageGate,
    *,
    remembered: Era | None,
    elicit: Elicit,
    roots: Callable[[], tuple[str, ...]],
    skills: tuple[str, ...],
) -> AsyncGenerator[McpConnection]:
    """Open a connection over *streams*. Always a checkpoint; if cancelled, it is closed.

    Args:
        streams: from and to the server.
        gate: what judges the messages.
        remembered: the era of the last connection, which saves the question; None: ask.
        elicit: answers questions of a server of the old era, which name no call.
        roots: the URIs of the folders that a server of the old era may know.
        skills: the URIs of skills that the server may not list.

    Raises:
        MCPError: the server refuses.
        ProtocolError: it breaks the protocol.
        ValidationError: likewise.
    """

    async def on_elicit(
        context: ClientRequestContext,  # noqa: ARG001  # the SDK passes it by this name
        params: types.ElicitRequestParams,
    ) -> types.ElicitResult:
        return await elicit(params)

    async def on_roots(
        context: ClientRequestContext,  # noqa: ARG001  # the SDK passes it by this name
    ) -> types.ListRootsResult:
        await trio.lowlevel.checkpoint()
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(uri)) for uri in roots()])

    async with _Session(
        *streams,
        elicitation_callback=on_elicit,
        list_roots_callback=on_roots,
        client_info=types.Implementation(name="engine", version=__version__),
    ) as session:
        await _negotiate(session, remembered)
        yield McpConnection(session, gate, is_from_memory=remembered is not None, skills=skills)


async def _negotiate(session: ClientSession, remembered: Era | None) -> None:
    """Agree on a version. A checkpoint unless it is remembered."""
    if remembered is not None and remembered.kind == "modern":
        session.adopt(types.DiscoverResult.model_validate_json(remembered.discovered))
        return
    if remembered is None:
        try:
            await session.discover()
        except MCPError as error:
            if _is_modern_only(error):
                raise
        except (RuntimeError, ValidationError):
            pass  # it names no version of the new era, or answers something else
        else:
            return
    await session.initialize()


def _is_modern_only(error: MCPError) -> bool:
    """Tell whether a server that refuses our version says that it speaks newer ones only."""
    if error.code != types.UNSUPPORTED_PROTOCOL_VERSION:
        return False
    try:
        supported = types.UnsupportedProtocolVersionErrorData.model_validate(error.error.data).supported
    except ValidationError:
        return False
    return not any(version in HANDSHAKE_PROTOCOL_VERSIONS for version in supported)
