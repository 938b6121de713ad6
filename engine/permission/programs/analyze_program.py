"""What a program does with its arguments: which commands it starts, which files it uses, and whether that is all.

The tables (`tables`) have one row for each program; a program that a row can't describe has a reader of its own (`sed`,
`awk`, …). A program that is in no table is an ordinary command. One that may run something which its arguments don't
plainly say is opaque.

Three rules hold everywhere. An uncertain word may be an option: it makes a program opaque that has options which
execute something, unless it comes where no option can be. An unknown option of a wrapper makes it opaque. And a
program counts as dangerous by its base name (`./xargs` counts as xargs), as harmless only by a bare name or in a
system folder.
"""

from __future__ import annotations

import attrs

from engine.permission.effects.program_effects import ProgramEffects, ProgramInvocation
from engine.permission.programs.custom_parsers import CUSTOM_READERS
from engine.permission.programs.program_analysis import ProgramAnalysis
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
    if match is None:
        return ProgramEffects()
    name, program = match
    analysis = ProgramAnalysis(invocation=invocation, name=name, words=invocation.argv[1:])
    analyze_by_row(analysis, program, CUSTOM_READERS)
    effects = analysis.effects()
    return effects if is_trusted_place(place) else attrs.evolve(effects, reads_only=False, prints_names=False)
