"""`engine agents`."""

from __future__ import annotations

from typing import Final

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.shared_flags import CONFIG_FLAGS, CWD, JSON

AGENTS: Final = CommandSpec(
    name="agents",
    help=summary("agents"),
    description="List the agents for `engine run --agent NAME`, and the sub-agents that they can start. With a NAME: show the "
    "whole definition of one.",
    run="engine.cli.agents:main",
    arguments=(
        Argument(name="name", count="optional", help="show the whole definition of this agent", completes="agent"),
    ),
    groups=(
        FlagGroup(
            "flags",
            (
                CWD,
                Flag(names=("--trust",), help="include the project's agents, as if it were trusted"),
                *CONFIG_FLAGS,
                JSON,
            ),
        ),
    ),
    exit_codes={0: "listed", 1: "failed", 2: "wrong usage"},
    examples=(("agents general", "show the definition of an agent"),),
)
