"""What a program does with its arguments: the commands it starts, the files it uses, and whether that is everything.

The tables (`tables`) have one row for each program; a program that a row can't describe has its own parser (`sed`,
`awk`, …). A program in no table is an ordinary command. One that may run something its arguments don't show is opaque.

Three rules hold everywhere. An uncertain word may be an option: it makes a program opaque if the program has options
that execute something, unless no option is possible at that place. An unknown option of a wrapper makes it opaque. And
for danger, a program is judged by its base name (`./xargs` counts as xargs); it counts as harmless only by a bare name
or in a system folder.
"""

from __future__ import annotations

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

__all__ = ["DEFAULT_REGISTRY", "ProgramRegistry", "analyze_program"]


def analyze_program(invocation: ProgramInvocation, registry: ProgramRegistry = DEFAULT_REGISTRY) -> ProgramEffects:
    """Return what a program does with its arguments. Never raises."""
    if not invocation.argv or not isinstance(invocation.argv[0], str):
        return ProgramEffects(opaque="the program to start is not known")
    place = invocation.argv[0]
    match = registry.find(base_name(place))
    if is_trusted_place(place) and _prints_version(match[0] if match is not None else place, invocation.argv[1:]):
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


def _prints_version(name: str, words: Sequence[Argument]) -> bool:
    """Return whether a program is only asked for its version, whatever it is."""
    return len(words) == 1 and exact_text(words[0]) in {"--version", VERSION_WORDS.get(name, "--version")}
