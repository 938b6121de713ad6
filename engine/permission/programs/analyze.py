"""What a program does with its words: which commands it starts, which files it touches, and whether that is all.

The knowledge is in tables (`program_table_*`), one row a program; this reads words by a row. What
a row can't say stands in modules of its own (`program_sed`, `program_awk`, …). A program
that nobody knows is an ordinary command: it is named to whoever is asked, and that is all there
is to say. Where a known one may run what its words don't plainly say, the meaning is opaque.

Three rules hold everywhere. A word that isn't known may be an option: it makes a program opaque that
has options which execute, unless it can't stand where options do. An option of a wrapper that
the table doesn't have makes it opaque. And danger is known by a program's base name (`./xargs` is taken for
xargs), harmlessness only by a bare one, or in a folder of the system's.
"""

from __future__ import annotations

import attrs

from engine.permission.effects.program_effects import ProgramEffects, ProgramInvocation
from engine.permission.programs.analysis import ProgramAnalysis
from engine.permission.programs.custom_readers import CUSTOM_READERS
from engine.permission.programs.registry import DEFAULT_REGISTRY, ProgramRegistry
from engine.permission.programs.tables.names import base_name, is_trusted_place

__all__ = ["DEFAULT_REGISTRY", "ProgramRegistry", "analyze_program"]


def analyze_program(invocation: ProgramInvocation, registry: ProgramRegistry = DEFAULT_REGISTRY) -> ProgramEffects:
    """Return what a program does with its words. Never raises."""
    if not invocation.argv or not isinstance(invocation.argv[0], str):
        return ProgramEffects(opaque="the program to start is not known")
    place = invocation.argv[0]
    match = registry.find(base_name(place))
    if match is None:
        return ProgramEffects()
    name, program = match
    analysis = ProgramAnalysis(invocation=invocation, name=name, words=invocation.argv[1:])
    analysis.analyze(program, CUSTOM_READERS)
    effects = analysis.effects()
    return effects if is_trusted_place(place) else attrs.evolve(effects, reads_only=False, prints_names=False)
