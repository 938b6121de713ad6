"""What to offer for "always": patterns that match a command, the narrowest first.

The first is the command itself. The second, if any, is the words that identify what it does
(`git push`, `npm run build`) followed by anything. There is none for a program that runs its
arguments (`sudo`, `npx`, `python -c`, `xargs`), for one that destroys, or for an unknown one. Where
a wrapper's command is known, its words are part of the prefix: `sudo npm install *`.

Patterns are matched against `command_line`, and every offer matches the command it came from.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from engine.core.permission_types import UNKNOWN
from engine.permission.effects.program_effects import ProgramInvocation, StartedCommand, WordPrefix
from engine.permission.effects.scan_result import Argument
from engine.permission.programs.analyze_program import analyze_program
from engine.permission.programs.program_registry import DEFAULT_REGISTRY, ProgramRegistry
from engine.permission.programs.subcommand_depth import NEVER
from engine.permission.programs.tables.names import base_name, is_trusted_place
from engine.permission.programs.tables.option_spec import ArgumentParser
from engine.permission.programs.tables.program_spec import Program
from engine.permission.rules.wildcard import exact

# Longer patterns would fill a question, and the file of grants.
_MAX_OFFER: Final = 10_000
# Wrappers inside wrappers, as in `sudo env nice make`.
_MAX_DEPTH: Final = 8
_NOTHING: Final = Program()
# Options before a sub-command that do not change what it does: a rule need not name them.
_IDLE: Final = {
    "git": frozenset({"--no-pager", "-P", "--no-optional-locks", "--literal-pathspecs", "--no-advice"}),
    "npm": frozenset({"--silent", "-s"}),
    "yarn": frozenset({"--silent", "-s"}),
    "pnpm": frozenset({"--silent", "-s"}),
}


def command_line(argv: Sequence[Argument]) -> str:
    """Return the text that a command's patterns are matched against.

    It is the words, quoted where a shell would need it, with spaces between; an unknown part is
    U+FFFC. Options before a sub-command that change nothing, such as `git --no-pager`, are left out.
    """
    return " ".join(_quote(word) for word in _drop_idle_options(argv))


def full_command_line(argv: Sequence[Argument]) -> str:
    """Return the command line with all of its words."""
    return " ".join(_quote(word) for word in argv)


def bare_command_line(argv: Sequence[Argument], registry: ProgramRegistry = DEFAULT_REGISTRY) -> str:
    """Return the command line without options before its sub-command and without the folder of its program.

    For rules that must not be evaded by writing a command differently: `git -C x push` is `git push`
    here, and `/usr/bin/rm x` is `rm x`. Not for what is allowed.
    """
    if not argv or not _is_literal(argv[0]):
        return command_line(argv)
    entry = registry.find(base_name(argv[0] or ""))
    name = base_name(argv[0] or "")
    words: Sequence[Argument] = argv[1:]
    if entry is not None and entry[1].commands:
        words = _reader(entry[1]).parse(words).operands
    return " ".join([_quote(name), *map(_quote, words)])


def command_prefix(argv: Sequence[Argument], registry: ProgramRegistry = DEFAULT_REGISTRY) -> tuple[str, ...] | None:
    """Return the words that identify what a command does, if anything may follow them; None if it has none."""
    return _prefix(tuple(_drop_idle_options(argv)), registry, _MAX_DEPTH)


def offers_for(argv: Sequence[Argument], registry: ProgramRegistry = DEFAULT_REGISTRY) -> tuple[str, ...]:
    """Return the patterns to offer for a command, the narrowest first; none if the program is unknown."""
    if not argv or not _is_literal(argv[0]):
        return ()
    offers: list[str] = []
    line = command_line(argv)
    # An unknown part would have to match anything.
    if UNKNOWN not in line:
        offers.append(exact(line))
    # Such an offer covers commands that the user has not seen, so it is made for known programs only.
    prefix = command_prefix(argv, registry)
    if prefix is not None:
        offers.append(exact(" ".join(map(_quote, prefix))) + " *")
    return tuple(offer for offer in offers if len(offer) <= _MAX_OFFER)


def _is_literal(word: Argument) -> bool:
    return word is not None and not isinstance(word, WordPrefix) and UNKNOWN not in word


def _quote(word: Argument) -> str:
    if word is None:
        return UNKNOWN
    if isinstance(word, WordPrefix):
        return shlex.quote(str(word).rstrip("\0")) + UNKNOWN if word else UNKNOWN
    return shlex.quote(word)


def _drop_idle_options(argv: Sequence[Argument]) -> Sequence[Argument]:
    idle = _IDLE.get(argv[0] or "") if argv else None
    at = 1
    while idle and at < len(argv) and _is_literal(argv[at]) and argv[at] in idle:
        at += 1
    return argv if at == 1 else (*argv[:1], *argv[at:])


def _prefix(argv: tuple[Argument, ...], registry: ProgramRegistry, depth: int) -> tuple[str, ...] | None:
    if not depth or not argv or not _is_literal(argv[0]):
        return None
    program_path = argv[0] or ""
    entry = registry.find(base_name(program_path))
    if entry is None:
        return _subcommand_prefix(argv, base_name(program_path), _NOTHING, registry)
    # With another home folder than the user's: an offer must not depend on it.
    effects = analyze_program(ProgramInvocation(argv=argv, cwd=None, home="/"), registry)
    if effects.opaque:
        return None
    match effects.starts:
        case []:
            return _program_prefix(argv, entry, effects.runs, registry)
        case [StartedCommand() as inner]:
            return _wrapper_prefix(argv, inner.argv, registry, depth)
        case _:
            return None


def _program_prefix(
    argv: tuple[Argument, ...], entry: tuple[str, Program], runs: tuple[Argument, ...], registry: ProgramRegistry
) -> tuple[str, ...] | None:
    """Return the prefix of a program that starts no other one."""
    name, program = entry
    if program.reader in {"interpreter", "shell"}:
        return _interpreter_prefix(argv, program, runs)
    if name in NEVER or program.tail:
        return None
    program_path = argv[0] or ""
    # A program that only reads, with any arguments.
    if program.reading == "free" and not program.commands and is_trusted_place(program_path):
        return (program_path,)
    return _subcommand_prefix(argv, name, program, registry)


def _wrapper_prefix(
    argv: tuple[Argument, ...], inner: tuple[Argument, ...], registry: ProgramRegistry, depth: int
) -> tuple[str, ...] | None:
    """Return the words of a wrapper and the prefix of its command, if that command is the end of the line."""
    start = len(argv) - len(inner)
    # The command must be the rest of the line, unchanged: `find -exec rm {} +` is not.
    if start < 1 or argv[start:] != inner:
        return None
    own = [word for word in argv[:start] if word is not None and _is_literal(word)]
    inner_prefix = _prefix(inner, registry, depth - 1)
    return None if inner_prefix is None or len(own) < start else (*own, *inner_prefix)


def _interpreter_prefix(
    argv: tuple[Argument, ...], program: Program, runs: tuple[Argument, ...]
) -> tuple[str, ...] | None:
    """Return the words up to the file or module that an interpreter runs."""
    arguments = _reader(program).parse(argv[1:])
    end = len(argv) - len(arguments.operands)
    has_module = any(used.option.role == "stops" for used in arguments.used)
    if not has_module:
        end += 1
        # `python -c CODE` runs no file that could be named.
        if not runs:
            return None
    words = [word for word in argv[:end] if word is not None and _is_literal(word)]
    return tuple(words) if len(words) == end <= len(argv) else None


def _subcommand_prefix(
    argv: tuple[Argument, ...], name: str, program: Program, registry: ProgramRegistry
) -> tuple[str, ...] | None:
    """Return the sub-commands that identify what a command does, with the options between them."""
    path: list[str] = [name]
    end = 1
    row: Program | None = program
    while len(path) < registry.arity_of(path):
        subcommand = _next_subcommand(argv, end, row or _NOTHING)
        if subcommand is None:
            return None
        word, end = subcommand
        path.append(word)
        row = row.commands.get(word) if row is not None else None
        if row is not None and _may_start_another(row):
            return None
    if not registry.arity_of(path) or _is_launcher(path, registry):
        return None
    return tuple(word for word in argv[:end] if word is not None)


def _may_start_another(row: Program) -> bool:
    return bool(row.tail or row.opaque or row.reader)


def _next_subcommand(argv: tuple[Argument, ...], end: int, row: Program) -> tuple[str, int] | None:
    """Return the sub-command behind the first *end* words, and where it ends; None if it is not certain."""
    operands = _reader(row).parse(argv[end:]).operands
    if not operands or not _is_literal(operands[0]):
        return None
    word = operands[0] or ""
    end = len(argv) - len(operands) + 1
    # The word must be where it was parsed: an option value in between would shift it.
    is_certain = not word.startswith("-") and argv[end - 1] == word and all(map(_is_literal, argv[:end]))
    return (word, end) if is_certain else None


def _reader(program: Program) -> ArgumentParser:
    return ArgumentParser(program.table, permutes=False, single=program.dashes == "single")


def _is_launcher(path: Sequence[str], registry: ProgramRegistry) -> bool:
    """Return whether the last word is a program that runs its arguments, as in `npx node`."""
    if len(path) < 2:
        return False
    entry = registry.find(base_name(path[-1]))
    is_launcher = path[0] in {"npx", "bunx", "uvx", "pnpx"} or path[1] in {"exec", "x", "dlx"}
    return (
        is_launcher
        and entry is not None
        and bool(entry[1].tail or entry[1].reader or entry[1].opaque or entry[0] in NEVER)
    )
