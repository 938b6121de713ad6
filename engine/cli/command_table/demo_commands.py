"""`engine demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from engine.cli.command_table.command_list import summary
from engine.cli.command_table.command_spec import CommandSpec, Flag, FlagGroup

DEMO: Final = CommandSpec(
    name="demo",
    help=summary("demo"),
    description="See the engine work: offline, without a key, in a scratch folder that is removed at the end.",
    run="engine.cli.demo.demo:main",
    groups=(
        FlagGroup(
            "flags",
            (
                Flag(names=("--serve",), help="watch it on the engine's page, in a browser"),
                Flag(
                    names=("--html",),
                    value="FILE",
                    help="write the page that shows what ran when here",
                    detail="FILE must not exist. By default it is in the user's cache folder.",
                    parse=Path,
                    example="--html demo.html",
                    completes="file",
                ),
            ),
        ),
    ),
    exit_codes={0: "every check passed", 1: "a check failed", 2: "wrong usage", 130: "interrupted"},
    examples=(
        ("demo", "see it work"),
        ("demo --serve", "watch it in a browser"),
        ("demo --html demo.html", "keep a page of what it did"),
    ),
)
