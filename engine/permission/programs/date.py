"""`date`: it tells the time, and sets it where it is given one."""

from __future__ import annotations

from engine.permission.programs.analysis import Study
from engine.permission.programs.program_spec import Program


def follow_date(study: Study, program: Program) -> None:
    """Read the words of `date`: an operand that is no format is the time to set."""
    arguments = study.read(program)
    study.judge(program, arguments)
    if any(word is None or not word.startswith("+") for word in arguments.operands):
        study.reads_only = False
