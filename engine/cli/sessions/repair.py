"""`engine sessions repair`: copy what is readable in a damaged store to a new one."""

from __future__ import annotations

import argparse
from pathlib import Path

import trio

from engine.cli.flags.store_flags import resolve_store
from engine.cli.sessions.session_command import run_subcommand
from engine.cli.terminal.exit_codes import FAILED
from engine.cli.terminal.standard_streams import print_text
from engine.cli.terminal.terminal_text import escape_control_chars
from engine.core.errors import ConfigError
from engine.session.open_store import DATABASES
from engine.store.memory import MEMORY
from engine.store.sqlite.repair_file import RescueReport, rescue
from engine.tools.tool_text import counted


def main(arguments: list[str]) -> int:
    """Run the subcommand; return the exit code."""
    return run_subcommand("sessions repair", arguments, _repair)


def _repair(args: argparse.Namespace) -> int:
    place = args.file or resolve_store(args)
    if place == MEMORY or place.startswith(DATABASES):
        # The URL is not printed: it may hold a password.
        raise ConfigError("this store is not a file\nNext: use the tools of its database")
    damaged = Path(place).expanduser()
    target = Path(args.output).expanduser() if args.output else damaged.with_name(f"{damaged.name}.repaired")
    rescued = trio.run(rescue, damaged, target)
    # Losses make it fail, so that a script notices them.
    code = print_text(_rescue_report(rescued, damaged, target))
    return code or (FAILED if rescued.losses or not rescued.sessions else 0)


def _rescue_report(rescued: RescueReport, damaged: Path, target: Path) -> str:
    """Return what was rescued and what was not."""
    new = escape_control_chars(str(target))
    lines = [f"{new} has {counted(rescued.sessions, 'session')} with {counted(rescued.events, 'event')}"]
    for loss in rescued.losses:
        lines.append(
            f"  {escape_control_chars(loss.session_id)} ends before event {loss.seq}: {escape_control_chars(loss.reason)}"
        )
        if loss.leftover_events:
            lines.append(
                f"    {counted(loss.leftover_events, 'later event')} after the gap could be read and saved separately"
            )
    if rescued.losses:
        lines.append(f"{counted(len(rescued.losses), 'session')} lost events.")
    elif not rescued.sessions:
        lines.append("No session was found, neither in the events nor in the list of sessions.")
    else:
        lines.append("No gap was found. Sessions that are missing from the list as well can't be detected.")
    if rescued.leftover_path is not None:
        lines.append(f"Events after gaps are in {escape_control_chars(str(rescued.leftover_path))}, as lines of JSON.")
    lines.append(
        f"Check it with `engine sessions list --all --store {new}`, then replace {escape_control_chars(str(damaged))} with it"
    )
    lines.append("while no engine runs. Also remove the old store's files that end in -wal and -shm.")
    return "\n".join(lines) + "\n"
