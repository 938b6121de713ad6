"""A question on the terminal that is answered with yes or no."""

from __future__ import annotations

import sys

from engine.cli.terminal.standard_streams import print_error
from engine.cli.terminal.terminal_text import escape_control_chars


def confirm(command: str, question: str, *, yes: bool) -> bool:
    """Ask the user; without a terminal, it is a no. It blocks."""
    if yes:
        return True
    if not sys.stdin.isatty():
        print_error(f"engine {command}: no terminal to ask for confirmation\nNext: add --yes")
        return False
    sys.stderr.write(f"{escape_control_chars(question)} [y/N] ")
    sys.stderr.flush()
    return sys.stdin.readline().strip().lower() in {"y", "yes"}
