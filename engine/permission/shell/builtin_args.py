"""Helpers for builtins: their options, and the variables that they set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from engine.permission.effects.scan_result import ScannedCommand
from engine.permission.shell.program_calls import shown_argument
from engine.permission.shell.shell_state import Field, ValueKind
from engine.permission.shell.simulated_shell import CommandCall, SimulatedShell
from engine.permission.shell.special_variables import is_dangerous

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


def record_command(shell: SimulatedShell, call: CommandCall, *, reads_only: bool = True) -> None:
    """Add a builtin to the commands of the scan."""
    argv = tuple(shown_argument(field) for field in call.fields)
    programs = shell.programs
    for folder in call.state.folders or (None,):
        shell.findings.add_command(
            ScannedCommand(
                argv=argv, cwd=folder, through=programs.through, remote=programs.remote, reads_only=reads_only
            )
        )


def without_options(call: CommandCall, plain: str, valued: str) -> list[Field] | None:
    """Return the operands after the options of a builtin; None: an option is unknown."""
    remaining = call.arguments
    while remaining:
        word = remaining[0]
        if word.may_be_option:
            return None
        text = word.exact_text
        if text is None or not text.startswith("-") or text == "-":
            return remaining
        remaining = remaining[1:]
        if text == "--":
            return remaining
        takes_next = _takes_next_word(text[1:], plain, valued)
        if takes_next is None or (takes_next and (not remaining or remaining[0].is_many)):
            return None
        remaining = remaining[1:] if takes_next else remaining
    return remaining


def _takes_next_word(letters: str, plain: str, valued: str) -> bool | None:
    """Return whether the next word is the value of the last of these options; None: one of them is unknown."""
    for index, letter in enumerate(letters, start=1):
        if letter in valued:
            return index == len(letters)
        if letter not in plain:
            return None
    return False


def set_unknown(shell: SimulatedShell, call: CommandCall, names: Sequence[Field]) -> None:
    """Set variables to an unknown value."""
    for field in names:
        name = field.exact_text
        if name is None or not _NAME.fullmatch(name):
            shell.findings.mark_opaque(f"{call.name} sets an unknown variable")
        else:
            if is_dangerous(name, None):
                shell.findings.mark_opaque(f"it sets {name}")
            call.state.assign(name, ValueKind.UNKNOWN)
