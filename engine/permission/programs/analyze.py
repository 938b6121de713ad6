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

from engine.permission.effects.program_effects import Given, Meaning
from engine.permission.programs.analysis import Study
from engine.permission.programs.custom_readers import MANNERS
from engine.permission.programs.names import base_name, is_trusted_place
from engine.permission.programs.registry import KNOWN, Knowledge

__all__ = ["KNOWN", "Knowledge", "meaning_of"]


def meaning_of(given: Given, knowledge: Knowledge = KNOWN) -> Meaning:
    """Return what a program does with its words. Never raises."""
    if not given.argv or not isinstance(given.argv[0], str):
        return Meaning(opaque="the program to start is not known")
    place = given.argv[0]
    found = knowledge.find(base_name(place))
    if found is None:
        return Meaning()
    name, program = found
    study = Study(given=given, name=name, words=given.argv[1:])
    study.follow(program, MANNERS)
    meaning = study.meaning()
    return meaning if is_trusted_place(place) else attrs.evolve(meaning, reads_only=False, prints_names=False)
