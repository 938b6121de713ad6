"""`engine acp`."""

from __future__ import annotations

from typing import Final

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import CommandSpec, FlagGroup
from engine.cli.command_table.shared_flags import CWD, QUESTION_TIMEOUT, STORE
from engine.cli.command_table.turn_flags import MODEL_FLAGS, PERMISSION_FLAGS, SANDBOX_FLAGS

ACP: Final = CommandSpec(
    name="acp",
    help=summary("acp"),
    description="Be the agent of an editor that speaks the Agent Client Protocol (version 1): the editor starts this command, and "
    "talks to it over standard input and output.",
    run="engine.cli.acp:main",
    groups=(
        FlagGroup(
            "sessions",
            (
                CWD,
                STORE,
                QUESTION_TIMEOUT,
            ),
        ),
        PERMISSION_FLAGS,
        SANDBOX_FLAGS,
        MODEL_FLAGS,
    ),
    notes=("When the editor closes its end, running turns are cancelled and saved.",),
    exit_codes={0: "the editor has gone", 1: "failed", 2: "wrong usage"},
    examples=(("acp --model anthropic/claude-sonnet-4-5", "serve the editor that starts it"),),
)
