"""Clients of `engine mcp serve`: the SDK's client of each era, over memory, and an engine behind it."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import mcp_types as types
import trio
import trio.testing
from mcp.client.client import Client
from mcp.client.session import ElicitationFnT
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from engine import Engine, open_engine
from engine.core.protocols import Model
from engine.mcp_server.engine_tools import EngineTools
from engine.mcp_server.http_listener import HttpServer
from engine.mcp_server.message_lines import MessageLines
from engine.mcp_server.sdk_server import serve_tools
from engine.session.engine_options import PermissionOptions
from engine.tools.tool import Tool
from tests.support.raw_http import RawAnswer

ERAS = ("legacy", "auto")


@attrs.define
class User:
    """Answers forms.

    Attributes:
        answer: what is entered; None: the form is declined; a number: seconds before it is accepted.
        asked: the forms, in order.
    """

    answer: dict[str, Any] | float | None
    asked: list[Any] = attrs.field(factory=list)

    async def elicit(self, context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        del context
        self.asked.append(params)
        if self.answer is None:
            return types.ElicitResult(action="decline")
        if isinstance(self.answer, dict):
            return types.ElicitResult(action="accept", content=self.answer)
        await trio.sleep(self.answer)
        return types.ElicitResult(action="accept", content={"decision": "allow"})


def scripted_engine(model: Model, tools: Sequence[Tool] = (), *, store: str | None = None) -> Engine:
    return open_engine(model=model, tools=tools, permissions=PermissionOptions(profile="ask"), store=store)


async def serve(engine: Engine, stream: trio.abc.Stream, root: Path, question_timeout: float = 600.0) -> None:
    """Serve one client over a stream."""
    tools = EngineTools(engine, root=str(root), folder=str(root), question_timeout=question_timeout)
    async with MessageLines(stream).open() as messages:
        await serve_tools(tools, messages, question_timeout=question_timeout)


@asynccontextmanager
async def client_of(
    engine: Engine, root: Path, era: str, *, elicit: ElicitationFnT | None = None, question_timeout: float = 600.0
) -> AsyncGenerator[Client]:
    """A client whose server runs; at the end the client closes its side, and the server ends."""
    ours, theirs = trio.testing.memory_stream_pair()
    has_mock_clock = isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
    with trio.fail_after(math.inf if has_mock_clock else 60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve, engine, theirs, root, question_timeout)  # noqa: ASYNC113  # the stream waits for it
            async with Client(MessageLines(ours).open(), mode=era, elicitation_callback=elicit) as client:
                yield client
            await ours.aclose()


def text_of(result: types.CallToolResult) -> str:
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


@asynccontextmanager
async def http_server_of(engine: Engine, root: Path, *, question_timeout: float = 600.0) -> AsyncGenerator[HttpServer]:
    """A server behind HTTP, with a token of its own."""
    tools = EngineTools(engine, root=str(root), folder=str(root), question_timeout=question_timeout)
    server = HttpServer(tools, port=0, folder=None, question_timeout=question_timeout)
    async with trio.open_nursery() as nursery:
        await nursery.start(server.run)
        yield server
        server.leave()


@asynccontextmanager
async def http_client_of(
    server: HttpServer, era: str, *, elicit: ElicitationFnT | None = None
) -> AsyncGenerator[Client]:
    """The SDK's client of a server behind HTTP."""
    async with create_mcp_http_client(headers={"Authorization": f"Bearer {server.token}"}) as http:
        transport = streamable_http_client(server.url, http_client=http)
        async with Client(transport, mode=era, elicitation_callback=elicit) as client:
            yield client


def http_request(message: Mapping[str, Any], *, method: str = "POST", path: str = "/mcp", **fields: str) -> bytes:
    """Return a request that ends its connection; of HTTP/1.0, whose answers have no chunks. A field without a value is left out."""
    body = json.dumps(message).encode() if method == "POST" else b""
    every = {
        "host": "localhost",
        "content-type": "application/json" if method == "POST" else "",
        "accept": "application/json, text/event-stream",
        "content-length": str(len(body)),
        **{name.replace("_", "-"): value for name, value in fields.items()},
    }
    lines = [f"{name}: {value}" for name, value in every.items() if value]
    return "\r\n".join([f"{method} {path} HTTP/1.0", *lines, "", ""]).encode() + body


def call_message(tool: str, arguments: Mapping[str, Any], era: str) -> tuple[dict[str, Any], dict[str, str]]:
    """Return a call of a tool as a message, and the fields of its request."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments}
    fields = {"mcp_protocol_version": "2025-11-25"}
    if era != "legacy":
        prefix = "io.modelcontextprotocol"
        version = {
            f"{prefix}/protocolVersion": "2026-07-28",
            f"{prefix}/clientCapabilities": {"elicitation": {"form": {}}},
        }
        params["_meta"] = {**version, f"{prefix}/clientInfo": {"name": "t", "version": "1"}}
        fields = {"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/call", "mcp_name": tool}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, fields


INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
INITIALIZED: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def messages_of(answer: RawAnswer) -> list[dict[str, Any]]:
    """Return the messages in an answer, whether it is one or a stream of them."""
    text = (answer.body or answer.rest).decode()
    lines = [line.removeprefix("data:").strip() for line in text.splitlines() if line.startswith("data:")]
    return [json.loads(line) for line in lines if line] if lines else [json.loads(text)] if text.strip() else []


def field_of(answer: RawAnswer, name: str) -> str:
    """Return a field of an answer's head; empty: it has none."""
    for line in answer.head.decode().split("\r\n")[1:]:
        if line.lower().startswith(f"{name}:"):
            return line.partition(":")[2].strip()
    return ""
