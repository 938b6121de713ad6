"""`engine completion`: print the completion script of a shell.

It imports next to nothing, since a shell may run it at each start.
"""

from __future__ import annotations

import os

from engine.cli.terminal.standard_streams import print_text

SHELLS = ("bash", "zsh", "fish")


def print_script(shell: str) -> int:
    """Print the script; return the exit code."""
    with open(os.path.join(os.path.dirname(__file__), f"engine.{shell}"), encoding="utf-8") as file:  # noqa: PTH118, PTH120, PTH123  # pathlib takes longer to import than all the rest
        return print_text(file.read())


def main(arguments: list[str]) -> int:
    """Run the command; return the exit code."""
    # Imported here: the parser costs more than the script.
    from engine.cli.command_table.find_command import parse_arguments
    from engine.cli.terminal.exit_codes import run_command

    return run_command("completion", lambda: print_script(parse_arguments("completion", arguments).shell))
