"""`engine tools`."""

from __future__ import annotations

from typing import Final

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.shared_flags import CONFIG, JSON

TOOLS: Final = CommandSpec(
    name="tools",
    help=summary("tools"),
    description="List the tools that the model can call: the built-in ones, and those of plugins. With a NAME: show the "
    "tool's description and schema. `engine mcp test` lists the tools of an MCP server.",
    run="engine.cli.tools:main",
    arguments=(
        Argument(name="name", count="optional", help="show this tool's description and schema", completes="tool"),
    ),
    groups=(
        FlagGroup(
            "flags",
            (
                Flag(
                    names=("--model",),
                    value="MODEL",
                    help="list only the tools for this model",
                    default_text="all",
                    example="--model openai/gpt-5.6",
                    completes="model",
                ),
                JSON,
                CONFIG,
            ),
        ),
    ),
    exit_codes={0: "listed", 2: "wrong usage"},
    examples=(("tools bash", "show how the model sees the bash tool"),),
)
