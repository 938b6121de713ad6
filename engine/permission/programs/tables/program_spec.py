"""A row of the tables: what a program does with its arguments."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Final, Literal

import attrs

from engine.permission.programs.tables.option_spec import EXECUTING, ProgramOption, Role, parse_options, role_of

# The code that parses a program's arguments where the notation is not enough: see `custom_parsers`.
CustomReader = Literal[
    "",
    "awk",
    "database",
    "date",
    "dd",
    "env",
    "exec_in",
    "fd",
    "find",
    "git",
    "interpreter",
    "make",
    "scp",
    "sed",
    "shell",
    "ssh",
    "tar",
    "uv_run",
    "xargs",
    "yq",
]
# Whether a single dash begins an option of several letters.
Dashes = Literal["double", "single"]
# The words after the operands: nothing special, a command to start, or a script for a shell.
Tail = Literal["", "command", "shell"]
# When a program only reads: never; always, except for options and operands that do more; only with options in the
# table; only with an option of the role "reading".
Reading = Literal["never", "free", "known", "asked"]


_LEFT_OVER: Final[Role] = "plain"


def _no_commands() -> dict[str, Program]:
    return {}


@attrs.frozen(kw_only=True)
class Program:
    """A program, or a command of one.

    Attributes:
        options: in the notation of `option_spec`.
        operands: the roles of its operands, separated by spaces; one with a `*` stands for any number, one with a
            `?` is optional; the remaining operands are plain.
        without_first: options that replace the first operand, as `grep -e` does the pattern.
        without_last: options that replace the last operand, as `cp -t` does the folder.
        code_words: a regular expression; a word that matches it makes it opaque.
        strict: an unknown option makes it opaque.
        permutes: options may follow operands.
        dashes: "single" where a single dash begins an option of several letters.
        tail: what the words after the operands are.
        remote: whether what it starts runs on another machine or in a container.
        reading: when it only reads.
        commands: its sub-commands.
        reader: the code that parses its arguments, where this table can't describe them.
        prints_names: whether nothing that it prints can be mistaken for an option, as with file names.
        names_with: options that set `prints_names`.
        shows_contents: whether it may print what is in the files that it reads.
        filters: the options with which it only prints some of its input lines; "-": without any option.
        opaque: why its effects are always uncertain.
        hosts: whether its operands may be on other machines, as in `host:file`.
        runs: the files that it takes its instructions from, if they exist.
    """

    options: str = ""
    operands: str = ""
    without_first: str = ""
    without_last: str = ""
    code_words: str = ""
    strict: bool = False
    permutes: bool = True
    dashes: Dashes = "double"
    tail: Tail = ""
    remote: bool = False
    reading: Reading = "never"
    commands: Mapping[str, Program] = attrs.field(factory=_no_commands)
    reader: CustomReader = ""
    prints_names: bool = False
    names_with: str = ""
    shows_contents: bool = True
    filters: str = ""
    opaque: str = ""
    hosts: bool = False
    runs: str = ""

    @cached_property
    def table(self) -> Mapping[str, ProgramOption]:
        """The options by spelling, parsed when the program is first looked up: few of the rows ever are."""
        return parse_options(self.options, single=self.dashes == "single")

    @cached_property
    def is_guarded(self) -> bool:
        """Whether some of its options, or of its words, can execute something."""
        return bool(self.code_words) or any(option.role in EXECUTING for option in self.table.values())

    def validate(self) -> None:
        """Raise `ValueError` if a notation is wrong."""
        table = self.table
        try:
            re.compile(self.code_words)
        except re.error as error:
            raise ValueError(f"code_words is no regular expression: {error}") from error
        for word in self.operands.split():
            role_of(word.rstrip("*?"))
        for name in (self.without_first + " " + self.without_last).split():
            if name not in table:
                raise ValueError(f"the option {name} is not among the options")

    def roles_of(self, count: int) -> list[Role]:
        """Return the roles of a number of operands."""
        return list(_assign_roles(self.operands.split(), count))


def _assign_roles(roles: list[str], count: int) -> list[Role]:
    fixed = [role for role in roles if role[-1] not in "*?"]
    # `cp a b c dir`: plain roles take one operand each, the starred one takes the rest.
    spare = max(count - len(fixed), 0)
    assigned: list[Role] = []
    for role in roles:
        name = role_of(role.rstrip("*?"))
        if role.endswith("*"):
            assigned.extend(name for _ in range(spare))
            spare = 0
        elif role.endswith("?"):
            if spare:
                assigned.append(name)
                spare -= 1
        else:
            assigned.append(name)
    assigned.extend(_LEFT_OVER for _ in range(spare))
    return assigned[:count]


def rows(names: str, program: Program) -> dict[str, Program]:
    """Return the same row for each of the names, which are separated by spaces."""
    return dict.fromkeys(names.split(), program)
