"""`engine chat`."""

from __future__ import annotations

from typing import Final

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import CommandSpec, FlagGroup
from engine.cli.command_table.shared_flags import ACCESSIBLE, CWD
from engine.cli.command_table.turn_flags import (
    COLOR,
    LIMIT_FLAGS,
    MODEL_FLAGS,
    PERMISSION_FLAGS,
    SANDBOX_FLAGS,
    SESSION_FLAGS,
)
from engine.cli.terminal.exit_codes import MEANINGS

CHAT: Final = CommandSpec(
    name="chat",
    help=summary("chat"),
    description="Talk to the agent at the terminal. What you type while it works is read before its next step; Esc cancels "
    "the turn. The session is saved: --continue continues it.",
    run="engine.cli.chat.command:main",
    groups=(
        FlagGroup(
            "input and output",
            (
                CWD,
                COLOR,
                ACCESSIBLE,
            ),
        ),
        LIMIT_FLAGS,
        SESSION_FLAGS,
        PERMISSION_FLAGS,
        SANDBOX_FLAGS,
        MODEL_FLAGS,
    ),
    notes=("/help lists the commands and keys of the chat.",),
    exit_codes=MEANINGS,
    examples=(
        ("chat", "talk to the agent in this folder"),
        ("chat --continue", "continue where you stopped"),
    ),
)
