"""`engine sessions repair`: what can be read of a damaged store, in a new one."""

from __future__ import annotations

import argparse
from pathlib import Path

import trio

from engine.cli.sessions.common import FAILED, command, parser_for, tell
from engine.cli.store_flags import place_of
from engine.cli.terminal_text import visible
from engine.core.errors import ConfigError
from engine.session.open_store import DATABASES
from engine.store.sqlite.location import MEMORY
from engine.store.sqlite.salvage import RescueReport, rescue
from engine.tools.tool_text import counted


def main(arguments: list[str]) -> int:
    """Run the subcommand; return the exit code."""
    parser = parser_for(
        "repair",
        "Put what can be read of a store's file into a new one. The old one is only read; nothing of it is changed.",
    )
    parser.add_argument("file", nargs="?", metavar="FILE", help="the damaged one; default: where sessions are kept")
    parser.add_argument("-o", "--output", metavar="NEW", help="the new one; default: beside it, named .repaired")
    return command("sessions repair", parser, arguments, _repair)


def _repair(given: argparse.Namespace) -> int:
    place = given.file or place_of(given)
    if place == MEMORY or place.startswith(DATABASES):
        # (What the URL says is not told: there may be a password in it.)
        raise ConfigError("sessions are kept in no file there: a database has its own means")
    damaged = Path(place).expanduser()
    target = Path(given.output).expanduser() if given.output else damaged.with_name(f"{damaged.name}.repaired")
    rescued = trio.run(rescue, damaged, target)
    code = tell(_told(rescued, damaged, target))
    return code or (FAILED if rescued.losses or not rescued.sessions else 0)


def _told(rescued: RescueReport, damaged: Path, target: Path) -> str:
    """Say what was rescued, and plainly what was not."""
    new = visible(str(target))
    lines = [f"{new} has {counted(rescued.sessions, 'session')} with {counted(rescued.events, 'event')} now"]
    for loss in rescued.losses:
        lines.append(f"  {visible(loss.session_id)} ends before event {loss.seq}: {visible(loss.reason)}")
        if loss.leftover_events:
            lines.append(f"    {counted(loss.leftover_events, 'later event')} could be read, and stand beside it")
    if rescued.losses:
        lines.append(f"{counted(len(rescued.losses), 'session')} lost something.")
    elif not rescued.sessions:
        lines.append("No session was found: neither an event, nor one in the list.")
    else:
        lines.append("No gap was found. Of what the list has lost as well, nobody can know.")
    if rescued.leftover_path is not None:
        lines.append(
            f"What could be read and does not follow is in {visible(str(rescued.leftover_path))}, as lines of JSON."
        )
    lines.append(
        f"Look at it with `engine sessions list --all --store {new}`, then put it in place of {visible(str(damaged))}"
    )
    lines.append("while no engine runs; remove the files of the old one that end in -wal and -shm, too.")
    return "\n".join(lines) + "\n"
