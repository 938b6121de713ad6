"""Our MCP client for the protocol's conformance suite, as a program: its last argument is the address of a server.

It does what an engine does with a server: it lists the tools and calls each of them, and a user leaves every field of a form
as it is.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import mcp_types as types
import trio
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from engine.config.mcp_config import McpServer
from engine.core.events import Choice
from engine.mcp.elicitation import ask_user
from engine.mcp.mcp_connection import ProtocolError
from engine.mcp.server_requests import ConnectionLost
from engine.tools.tool_context import ToolContext
from tests.mcp.serving import answer, request_of, running

SAMPLES: Mapping[str, object] = {
    "string": "text",
    "number": 5,
    "integer": 5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}


class Patient:
    """A user who takes what is offered: the first choice that refuses nothing."""

    async def ask_user(self, question: str, choices: Sequence[Choice], *, several: bool) -> tuple[str, tuple[str, ...]]:
        del question, several
        await trio.lowlevel.checkpoint()
        labels = [choice.label for choice in choices if choice.label != "(answer nothing)"]
        # The last one leaves the field as it is.
        return "answered", (labels[-1] if labels else "text",)


async def elicit(params: types.ElicitRequestParams) -> types.ElicitResult:
    return await ask_user("tested", cast("ToolContext", Patient()), params)


def arguments_for(schema: Mapping[str, Any]) -> dict[str, object]:
    """Return arguments that fit a simple schema."""
    properties: Mapping[str, Mapping[str, Any]] = schema.get("properties", {})
    return {name: SAMPLES.get(str(each.get("type")), "text") for name, each in properties.items()}


async def main(url: str) -> int:
    with tempfile.TemporaryDirectory() as folder:
        async with running(McpServer(url=url), Path(folder)) as task:
            if task.state.phase != "ready":
                print(task.state.reason, file=sys.stderr)
                return 1
            for name, arguments in calls_of(
                {each.name: json.loads(each.input_schema) for each in task.state.listed.tools}
            ):
                try:
                    result = await answer(task, request_of(name, arguments), elicit)
                except (
                    ConnectionLost,
                    MCPError,
                    ProtocolError,
                    ValidationError,
                ) as error:  # the suite judges by what it has seen
                    print(f"{name}: {error!r}", file=sys.stderr)
                else:
                    print(f"{name}: {result.content}", file=sys.stderr)
    return 0


def calls_of(schemas: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield the calls: those that the suite names for this scenario, else one of each tool."""
    named = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}").get("toolCalls")
    if named:
        yield from ((each["name"], each["arguments"]) for each in named if each["name"] in schemas)
        return
    for name, schema in schemas.items():
        # A tool that wants a schema gets the one that another tool has.
        others = [other for key, other in schemas.items() if key != name]
        wants_schema = "schema" in schema.get("properties", {}) and others
        yield name, {"schema": others[0]} if wants_schema else arguments_for(schema)


if __name__ == "__main__":
    sys.exit(trio.run(main, sys.argv[-1]))
