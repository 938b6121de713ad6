"""`engine doctor`."""

from __future__ import annotations

from typing import Final

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import Argument, CommandSpec, Flag, FlagGroup
from engine.cli.command_table.shared_flags import CONFIG_FLAGS, CWD, JSON, STORE

DOCTOR: Final = CommandSpec(
    name="doctor",
    help=summary("doctor"),
    description="Check the installation, the configuration, keys, providers, the store, programs, the sandbox and the terminal, "
    "within five seconds. Each line is ok, warn or fail, with the command that mends it. Nothing is changed.",
    run="engine.cli.doctor.doctor:main",
    arguments=(Argument(name="host", count="optional", help="check only this provider", completes="host"),),
    groups=(
        FlagGroup(
            "flags",
            (
                Flag(names=("--bundle",), help="write the report to a file, without secrets"),
                Flag(
                    names=("--online",),
                    help="ask the package index for a newer version",
                    detail="pip or uv is asked, with your settings. It takes up to 30 seconds, and installs nothing.",
                ),
                JSON,
                CWD,
                STORE,
                *CONFIG_FLAGS,
            ),
        ),
    ),
    notes=("It contacts only providers for which there is a key, with a request that costs nothing.",),
    exit_codes={0: "nothing has to be mended", 1: "a check failed", 2: "wrong usage"},
    examples=(
        ("doctor", "check this machine"),
        ("doctor openai", "check the connection to a provider, and its key"),
        ("doctor --online", "ask for a newer version, too"),
    ),
)
