"""What a program does with its arguments: the commands it starts, the files it uses, and whether that is everything.

The tables (`tables`) have one row for each program; a program that a row can't describe has its own parser (`sed`,
`awk`, …). A program in no table is an ordinary command. One that may run something its arguments don't show is opaque.

Three rules hold everywhere. An uncertain word may be an option: it makes a program opaque if the program has options
that execute something, unless no option is possible at that place. An unknown option of a wrapper makes it opaque. And
for danger, a program is judged by its base name (`./xargs` counts as xargs); it counts as harmless only by a bare name
or in a system folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

from engine.permission.effects.program_effects import ProgramEffects, ProgramInvocation
from engine.permission.effects.scan_result import Argument
from engine.permission.programs.custom_parsers import CUSTOM_READERS
from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text
from engine.permission.programs.program_registry import DEFAULT_REGISTRY, ProgramRegistry
from engine.permission.programs.table_analysis import analyze_by_row
from engine.permission.programs.tables.names import base_name, is_trusted_place
from engine.permission.programs.tables.program_spec import Program

__all__ = ["DEFAULT_REGISTRY", "ProgramRegistry", "analyze_program"]

# What programs of all kinds take for a question about themselves; the short ones may mean something else.
_ABOUT: Final = frozenset({"--version", "--help", "-version", "-help"})
_ABOUT_SHORT: Final = frozenset({"-h"})
_MORE: Final = frozenset({"--verbose", "--short", "--client"})
_MODULE: Final = re.compile(r"[A-Za-z_][\w.]*", re.ASCII)


def analyze_program(invocation: ProgramInvocation, registry: ProgramRegistry = DEFAULT_REGISTRY) -> ProgramEffects:
    """Return what a program does with its arguments. Never raises."""
    if not invocation.argv or not isinstance(invocation.argv[0], str):
        return ProgramEffects(opaque="the program to start is not known")
    place = invocation.argv[0]
    match = registry.find(base_name(place))
    if is_trusted_place(place) and _only_tells_about_itself(match, invocation.argv[1:]):
        return ProgramEffects(reads_only=True)
    if match is None:
        return ProgramEffects()
    name, program = match
    analysis = ProgramAnalysis(invocation=invocation, name=name, words=invocation.argv[1:])
    analyze_by_row(analysis, program, CUSTOM_READERS)
    effects = analysis.effects()
    return effects if is_trusted_place(place) else attrs.evolve(effects, reads_only=False, prints_names=False)


# How programs are asked for their version, other than by `--version`.
VERSION_WORDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("node", "npm", "perl", "php", "ruby"), "-v"),
    **dict.fromkeys(("cargo", "python", "rustc"), "-V"),
    "go": "version",
    "java": "-version",
}


def _only_tells_about_itself(match: tuple[str, Program] | None, words: Sequence[Argument]) -> bool:
    """Return whether a program prints its version or its help: worth trying where the kernel confines it."""
    name, program = match or ("", Program())
    texts = [exact_text(word) or "" for word in words]
    first, rest = "".join(texts[:1]), texts[1:]
    if first == "-m" and "-m" in program.table:
        return _asks_module(rest)
    if first in program.commands and rest:
        return _is_plain(program.commands[first]) and rest[0] in _ABOUT and len(rest) == 1
    return texts == [VERSION_WORDS.get(name)] or (_asks(first, program) and set(rest) <= _MORE)


def _asks_module(words: Sequence[str]) -> bool:
    """Return whether a module of Python is asked."""
    return len(words) == 2 and _MODULE.fullmatch(words[0]) is not None and words[1] in {*_ABOUT, "-h"}


def _is_plain(program: Program) -> bool:
    """Return whether a command of a program starts nothing."""
    return not (program.tail or program.reader or program.opaque or program.runs)


def _asks(text: str, program: Program) -> bool:
    short = program.table.get(text)
    return text in _ABOUT or (text in _ABOUT_SHORT and (short is None or short.role == "reading"))
