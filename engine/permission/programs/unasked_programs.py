"""The list of the programs that may run without a question, for a person to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from engine.permission.programs.analyze_program import VERSION_WORDS
from engine.permission.programs.program_registry import ProgramRegistry
from engine.permission.programs.tables.option_spec import EXECUTING
from engine.permission.programs.tables.program_spec import Program

# By program or by the code that reads its arguments, where the row says less than that code.
_BY_CODE: Final[Mapping[str, str]] = {
    "awk": "unless its program writes, or starts a command",
    "env": "alone, or if what it starts only reads",
    "fd": "without -x, -X, --exec, --exec-batch",
    "find": "without -delete, -fprint and the like; with -exec if what it starts only reads",
    "git config": "to print a setting",
    "sed": "without -i, unless its script writes, or starts a command",
    "tar": "to list an archive, or to compare it",
    "xargs": "if what it starts only reads",
}
_ASKING: Final[frozenset[str]] = frozenset({*EXECUTING, "writes", "edits", "lists", "changes"})


def list_unasked(registry: ProgramRegistry) -> Iterator[str]:
    """Yield a line for each program, and each command of one, that may run without a question, with its conditions."""
    yield "any program with --version or --help alone"
    for name, word in sorted(VERSION_WORDS.items()):
        yield f"{name} {word}"
    lines: dict[str, list[str]] = {}
    for name, program in registry.programs.items():
        for words, condition in _commands(name, program):
            lines.setdefault(condition, []).append(words)
    together = [(", ".join(sorted(names)), condition) for condition, names in lines.items()]
    yield from (f"{names}{condition and ': '}{condition}" for names, condition in sorted(together))


def _commands(name: str, program: Program) -> Iterator[tuple[str, str]]:
    """Yield the program and its commands, as far as they only read, with the conditions for that."""
    if condition := _BY_CODE.get(name) or _BY_CODE.get(program.reader if program.reader != "env" else ""):
        yield name, condition
    elif program.reading != "never" and not program.opaque:
        yield name, _condition(program)
    for command, below in program.commands.items():
        yield from _commands(f"{name} {command}", below)


def _condition(program: Program) -> str:
    options: dict[str, list[str]] = {"plain": [], "reading": [], "asking": []}
    for spelling, option in program.table.items():
        kind = "asking" if option.role in _ASKING else "reading" if option.role == "reading" else "plain"
        options[kind].append(spelling)
    match program.reading:
        case "known":
            condition = f"only with {' '.join(options['plain'])}"
        case "asked":
            condition = f"only with one of {' '.join(options['reading'])}"
        case _:
            condition = f"not with {' '.join(options['asking'])}" if options["asking"] else ""
    changes = any(role.rstrip("*?") in _ASKING for role in program.operands.split())
    # Their other operands are what they write, or a new setting.
    return "; ".join(filter(None, [condition, "without operands that it writes or sets" if changes else ""]))
