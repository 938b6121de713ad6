"""Arguments and flags of commands about stored sessions."""

from __future__ import annotations

from typing import Final

from engine.cli.command_table.command_spec import Argument, Flag, FlagGroup
from engine.cli.command_table.shared_flags import STORE

CODES: Final = {0: "done", 1: "failed", 2: "wrong usage", 74: "a file can't be read or written"}

SESSION: Final = Argument(
    name="session",
    label="ID",
    help="the session: its id, or last",
    detail="The beginning or the end of the id is enough. last is the newest session of this folder.",
    completes="session",
)
MODEL: Final = Flag(names=("--model",), value="MODEL", help="", example="--model openai/gpt-5.6", completes="model")
TURN: Final = Flag(
    names=("--turn",),
    value="ID",
    help="select this turn",
    default_text="the newest one that changed files",
    detail="Its id, or the id of one of its messages or the end of that, from `engine sessions show`. Of an undone turn, "
    "`restore` restores what its undo overwrote.",
    example="--turn 4f2a9c01",
)
OUTPUT: Final = Flag(
    names=("-o", "--output"),
    value="FILE",
    help="write to FILE; - is standard output",
    default_text="-",
    example="--output session.json",
    completes="file",
)
FORCE_FILE: Final = Flag(names=("--force",), help="overwrite an existing file")


def session_flags(*flags: Flag) -> tuple[FlagGroup, ...]:
    """Return these flags and the one that names the store."""
    return (FlagGroup("flags", (*flags, STORE)),)


STORE_FLAGS: Final = session_flags()
