"""`date`: it tells the time, and sets it where it is given one."""

from __future__ import annotations

from engine.permission.programs.analysis import ProgramAnalysis
from engine.permission.programs.tables.program_spec import Program


def analyze_date(analysis: ProgramAnalysis, program: Program) -> None:
    """Read the words of `date`: an operand that is no format is the time to set."""
    arguments = analysis.parse_arguments(program)
    analysis.apply_options(program, arguments)
    if any(word is None or not word.startswith("+") for word in arguments.operands):
        analysis.reads_only = False
