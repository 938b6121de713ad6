"""Clients of `engine mcp serve`: the SDK's client of each era, over memory, and an engine behind it."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import mcp_types as types
import trio
import trio.testing
from mcp.client.client import Client
from mcp.client.session import ElicitationFnT

from engine import Engine, open_engine
from engine.core.protocols import Model
from engine.mcp_server.engine_tools import EngineTools
from engine.mcp_server.message_lines import MessageLines
from engine.mcp_server.sdk_server import serve_tools
from engine.session.engine_options import PermissionOptions
from engine.tools.tool import Tool

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
