"""A builtin that is called: its words, its options, and the variables that it sets."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import attrs

from engine.permission.effects.program_effects import Stdin
from engine.permission.effects.scan_result import ScannedCommand
from engine.permission.shell.invoke import shown
from engine.permission.shell.parser.nodes import Simple
from engine.permission.shell.special_variables import is_dangerous
from engine.permission.shell.state import Field, ShellState, ValueKind

if TYPE_CHECKING:
    from engine.permission.shell.interpreter import Walk
    from engine.permission.shell.loops import Outcome

_NAME: Final = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@attrs.frozen(eq=False)
class Call:
    """A builtin, or a program, with its words.

    Attributes:
        name: the first of the words.
        fields: all of them.
        state: what is known where it runs; it changes that.
        stdin: what it reads.
        command: the command as it is written.
    """

    name: str
    fields: list[Field]
    state: ShellState
    stdin: Stdin
    command: Simple

    @property
    def arguments(self) -> list[Field]:
        """The words after the first."""
        return self.fields[1:]

    @property
    def stays(self) -> Outcome:
        """What holds after a builtin that leaves everything as it is, or as it has made it."""
        return (self.state, self.state)

    def without(self, count: int) -> Call:
        """Return the command in the words after the first *count*."""
        fields = self.fields[count:]
        return attrs.evolve(self, name=fields[0].exact_text or "", fields=fields)


def listed(walk: Walk, call: Call, *, reads_only: bool = True) -> None:
    """List a builtin among the commands."""
    argv = tuple(shown(field) for field in call.fields)
    programs = walk.commands.programs
    for folder in call.state.folders or (None,):
        walk.findings.add_command(
            ScannedCommand(
                argv=argv, cwd=folder, through=programs.through, remote=programs.remote, reads_only=reads_only
            )
        )


def without_options(call: Call, plain: str, valued: str) -> list[Field] | None:
    """Return the operands after the options of a builtin; None: an option is not known."""
    waiting = call.arguments
    while waiting:
        word = waiting[0]
        if word.may_be_option:
            return None
        known = word.exact_text
        if known is None or not known.startswith("-") or known == "-":
            return waiting
        waiting = waiting[1:]
        if known == "--":
            return waiting
        for index, letter in enumerate(known[1:], 2):
            if letter in valued:
                if index == len(known):
                    if not waiting or waiting[0].is_many:
                        return None
                    waiting = waiting[1:]
                break
            if letter not in plain:
                return None
    return waiting


def set_unknown(walk: Walk, call: Call, names: Sequence[Field]) -> None:
    """Let a builtin set variables to what is not known."""
    for field in names:
        name = field.exact_text
        if name is None or not _NAME.fullmatch(name):
            walk.findings.mark_opaque(f"{call.name} sets a variable that is not known")
        else:
            if is_dangerous(name, None):
                walk.findings.mark_opaque(f"it sets {name}")
            call.state.assign(name, ValueKind.UNKNOWN)
