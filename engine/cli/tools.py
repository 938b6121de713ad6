"""`engine tools`: list the tools that the model can call, and their declarations."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import trio

from engine.cli.command_table.find_command import parse_arguments
from engine.cli.default_tools import default_tools
from engine.cli.flags.arg_types import similar_name_hint
from engine.cli.flags.config_flags import load_user_config
from engine.cli.plugin_code import plugin_tools
from engine.cli.terminal.exit_codes import USAGE_ERROR, run_command
from engine.cli.terminal.standard_streams import print_error, print_text
from engine.cli.terminal.terminal_text import escape_control_chars, two_columns
from engine.core.ids import SessionId
from engine.tools.tool import Tool
from engine.tools.tool_source import SourceScope


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    return run_command("tools", lambda: _print_tools(parse_arguments("tools", arguments)))


def _print_tools(args: argparse.Namespace) -> int:
    every = (*default_tools(), *_plugin_tools(args))
    # Tools decide by the model's own name, without its host.
    model: str | None = (args.model or "").partition("/")[2] or args.model
    tools = [tool for tool in every if model is None or tool.offered(model)]
    if args.name is not None:
        tools = _tools_named(args.name, tools)
        if not tools:
            print_error(
                f"engine tools: unknown tool {args.name!r}{similar_name_hint(args.name, (tool.name for tool in every))}\n"
                "Next: engine tools"
            )
            return USAGE_ERROR
    if args.json:
        return print_text(_as_json(tools))
    return print_text(_as_details(tools[0]) if args.name is not None else _as_list(tools))


def _plugin_tools(args: argparse.Namespace) -> Sequence[Tool]:
    """Return the tools of the user's plugins, and of the tool files of a trusted project. It blocks: their code runs.

    Those of MCP servers are left to `engine mcp test`: no server is started for a list.
    """
    source = plugin_tools(load_user_config(args), trusts=False, shows_all=True)
    session = SessionId("tools")
    scope = SourceScope(session_id=session, root_id=session, cwd=str(Path.cwd()))

    async def tools() -> Sequence[Tool]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(source.run)
            await source.ready(scope)
            # As at the beginning of a turn: files that run in processes of their own are started.
            await source.begin_turn(scope)
            found = source.tools(scope)
            for notice in source.notices(scope):
                print_error(escape_control_chars(notice))
            nursery.cancel_scope.cancel(reason="the tools are known")
        return found

    return trio.run(tools, restrict_keyboard_interrupt_to_checkpoints=True)


def _tools_named(name: str, tools: Sequence[Tool]) -> list[Tool]:
    """Return the tools that have *name* as their name or an alias."""
    return [tool for tool in tools if name in {tool.name, *tool.aliases}]


def _as_json(tools: Sequence[Tool]) -> str:
    documents = [
        {
            "name": tool.name,
            "aliases": list(tool.aliases),
            "description": tool.description,
            "schema": json.loads(tool.schema.schema),
            "read_only": tool.read_only,
            "timeout": tool.timeout,
            "grace": tool.grace,
            "chain": tool.chain,
            "direction": tool.direction,
        }
        for tool in tools
    ]
    return json.dumps(documents, indent=2, ensure_ascii=False) + "\n"


def _as_list(tools: Sequence[Tool]) -> str:
    rows = [
        (tool.name, f"{_brief(tool)} ({', '.join(_declared(tool))})")
        for tool in sorted(tools, key=lambda tool: tool.name)
    ]
    return f"{two_columns(rows)}\n\n`engine tools NAME` shows a tool's description and schema.\n"


def _as_details(tool: Tool) -> str:
    others = f" (also: {', '.join(tool.aliases)})" if tool.aliases else ""
    schema = json.dumps(json.loads(tool.schema.schema), indent=2, ensure_ascii=False)
    return f"{tool.name}{others}: {', '.join(_declared(tool))}\n\n{tool.description}\n\n{schema}\n"


def _brief(tool: Tool) -> str:
    """Return the first sentence of the tool's description."""
    first = " ".join(tool.description.split("\n\n", 1)[0].split())
    # The rest is meant for the model, and too long for a list.
    return first.partition(". ")[0].rstrip(".")


def _declared(tool: Tool) -> list[str]:
    """Return the tool's declarations as phrases."""
    parts = ["read-only" if tool.read_only else "needs permission"]
    if tool.timeout is not None:
        parts.append(f"at most {tool.timeout:g} s")
    if tool.chain:
        parts.append("a failure can stop the calls after it")
    if tool.direction != "both":
        parts.append(f"keeps the {tool.direction} of a long result")
    return parts
