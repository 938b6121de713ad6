"""What `date` does: it prints the time, or sets it."""

from __future__ import annotations

from engine.permission.programs.program_analysis import ProgramAnalysis
from engine.permission.programs.table_analysis import parse_and_apply
from engine.permission.programs.tables.program_spec import Program


def analyze_date(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `date`: an operand that is no format is a new time."""
    arguments = parse_and_apply(analysis, program)
    if any(word is None or not word.startswith("+") for word in arguments.operands):
        analysis.reads_only = False
