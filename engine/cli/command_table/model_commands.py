"""`engine models`."""

from __future__ import annotations

from typing import Final

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.shared_flags import CONFIG_FLAGS, JSON

MODELS: Final = CommandSpec(
    name="models",
    help=summary("models"),
    description="List the providers that can be used here, the limits and prices of their models, and what the "
    "other hosts need.",
    run="engine.cli.models:main",
    arguments=(Argument(name="host", count="optional", help="show everything about one provider", completes="host"),),
    groups=(
        FlagGroup(
            "flags",
            (
                Flag(names=("--all",), help="list all models, also unusable ones and not for agents"),
                JSON,
                *CONFIG_FLAGS,
            ),
        ),
    ),
    notes=("API keys come from the environment. They are not tested: only servers on this machine are contacted.",),
    exit_codes={0: "listed", 1: "the provider can't be used here", 2: "wrong usage"},
    examples=(("models anthropic", "show the limits and prices of a provider's models"),),
)
