"""Flags of several commands."""

from __future__ import annotations

from typing import Final

from engine.cli.command_table.command_spec import Flag
from engine.cli.flags.arg_types import directory, seconds, whole

ACCESSIBLE: Final = Flag(
    names=("--accessible",),
    help="print each line once and redraw nothing",
    detail="For screen readers and braille lines: labels instead of symbols, numbered choices, and input in whole lines. "
    "$ENGINE_ACCESSIBLE=1, `chat.accessible` and TERM=dumb do the same.",
)
JSON: Final = Flag(names=("--json",), help="print JSON instead of text")
CONFIG: Final = Flag(
    names=("--config",),
    value="FILE",
    help="read this configuration file",
    default_text="$ENGINE_CONFIG, or the user's own",
    example="--config engine.toml",
    completes="file",
)
SETTING: Final = Flag(
    names=("-c", "--set"),
    value="KEY=VALUE",
    help="set a key of the configuration for this run",
    detail="`engine config explain KEY` says what a key does. A value that is no TOML is a text.",
    example="--set defaults.agent=plan",
    is_repeated=True,
)
PROFILE_FILE: Final = Flag(
    names=("--profile-file",),
    value="NAME",
    help="read profiles/NAME.toml in the configuration folder",
    detail="It is stronger than your file and a project's, and weaker than ENGINE_ variables and -c.",
    example="--profile-file work",
)
CONFIG_FLAGS: Final = (CONFIG, PROFILE_FILE, SETTING)
CWD: Final = Flag(
    names=("--cwd",),
    value="DIR",
    help="work in this directory",
    parse=directory,
    default=".",
    default_text="this one",
    example="--cwd ..",
    completes="directory",
)
QUESTION_TIMEOUT: Final = Flag(
    names=("--question-timeout",),
    value="SECONDS",
    help="deny what the user does not answer for so long",
    detail="An editor or another agent may not show a question.",
    parse=seconds,
    default=600.0,
    default_text="600",
    example="--question-timeout 120",
)
STORE: Final = Flag(
    names=("--store",),
    value="PLACE",
    help="keep sessions in this file or database",
    default_text="$ENGINE_STORE, or a file in the user's data folder",
    detail="A file, the URL of a PostgreSQL database, or :memory: (nothing is saved).",
    example="--store sessions.db",
    completes="file",
)


PORT: Final = Flag(
    names=("--port",),
    value="N",
    help="listen at this port",
    parse=whole(0, 65_535),
    default=0,
    default_text="a free one",
    example="--port 8421",
)
