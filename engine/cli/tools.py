"""`engine tools`: what the model may call, and what is declared of it."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Final

from engine.cli import say
from engine.cli.default_tools import offered_tools
from engine.cli.output import complain
from engine.core.errors import ConfigError
from engine.tools.tool import Tool

USAGE_ERROR: Final = 2
_PIPE_WIDTH: Final = 100


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="engine tools",
        allow_abbrev=False,
        description="List the tools that the model may call. With a NAME: its description and its schema.",
        epilog="Exit codes: 0 listed, 2 wrong usage.",
    )
    parser.add_argument("name", nargs="?", help="one tool, whole")
    parser.add_argument("--model", metavar="MODEL", help="those that are offered to this model; default: all")
    parser.add_argument("--json", action="store_true", help="as JSON")
    try:
        given = parser.parse_args(arguments)
        offered = offered_tools()
    except SystemExit as error:  # argparse has said what is wrong, or has helped
        return error.code if isinstance(error.code, int) else USAGE_ERROR
    except ConfigError as error:
        complain(f"engine tools: {error}")
        return USAGE_ERROR
    own_name = (given.model or "").partition("/")[2] or given.model
    tools = [tool for tool in offered if own_name is None or tool.offered(own_name)]
    if given.name is not None:
        tools = [tool for tool in tools if given.name in {tool.name, *tool.aliases}]
        if not tools:
            close = get_close_matches(given.name, [tool.name for tool in offered], n=3)
            complain(f"engine tools: there is no tool {given.name!r}{f': did you mean {close[0]}?' if close else ''}")
            return USAGE_ERROR
    if given.json:
        return say(_as_json(tools))
    return say(_whole(tools[0]) if given.name is not None else _as_list(tools))


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
    width = max((len(tool.name) for tool in tools), default=0)
    room = _width() - width - 4
    lines: list[str] = []
    for tool in sorted(tools, key=lambda tool: tool.name):
        first, *more = textwrap.wrap(f"{_brief(tool)} ({', '.join(_declared(tool))})", max(30, room))
        lines += [f"  {tool.name:<{width}}  {first}", *(f"  {'':<{width}}  {line}" for line in more)]
    return "\n".join(lines) + "\n\n`engine tools NAME` shows what the model reads of one.\n"


def _whole(tool: Tool) -> str:
    others = f" (also: {', '.join(tool.aliases)})" if tool.aliases else ""
    schema = json.dumps(json.loads(tool.schema.schema), indent=2, ensure_ascii=False)
    return f"{tool.name}{others}: {', '.join(_declared(tool))}\n\n{tool.description}\n\n{schema}\n"


def _brief(tool: Tool) -> str:
    """Return the first sentence of what the model reads of it."""
    first = " ".join(tool.description.split("\n\n", 1)[0].split())
    return first.partition(". ")[0].rstrip(".")


def _declared(tool: Tool) -> list[str]:
    """Return what is declared of it, in words."""
    told = ["read-only" if tool.read_only else "changes things: asks first"]
    if tool.timeout is not None:
        told.append(f"at most {tool.timeout:g} s")
    if tool.chain:
        told.append("its failure can stop the calls after it")
    if tool.direction != "both":
        told.append(f"of a long result the {tool.direction} is kept")
    return told


def _width() -> int:
    return shutil.get_terminal_size((_PIPE_WIDTH, 24)).columns if sys.stdout.isatty() else _PIPE_WIDTH
