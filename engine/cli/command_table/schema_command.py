"""`engine schema`."""

from __future__ import annotations

from typing import Final

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec

SCHEMA: Final = CommandSpec(
    name="schema",
    help=summary("schema"),
    description="Print the JSON Schema (draft 2020-12) of what engine run prints as JSON, or of the configuration file.",
    run="engine.cli.print_schema:main",
    arguments=(
        Argument(
            name="name",
            choices=("result", "events", "config"),
            help="choose what is described",
            detail="result: the object of --output json, and the last line of --output stream-json. events: any line of "
            "--output stream-json. config: the configuration file.",
        ),
    ),
    exit_codes={0: "printed", 2: "wrong usage"},
    examples=(("schema result", "show what the final record holds"),),
)
