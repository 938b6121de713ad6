"""Programs that start others, where a row of the tables can't describe their arguments."""

from __future__ import annotations

from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text
from engine.permission.programs.table_analysis import apply_options, parse_and_apply, parse_words
from engine.permission.programs.tables.program_spec import Program


def analyze_exec_in(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze arguments like those of `kubectl exec`: the command follows `--`."""
    words = analysis.words
    border = next((at for at, word in enumerate(words) if exact_text(word) == "--"), None)
    arguments = parse_words(program, words if border is None else words[:border])
    apply_options(analysis, program, arguments)
    analysis.remote = program.remote
    if border is None:
        analysis.mark_opaque("its command does not follow `--`")
    else:
        analysis.start(words[border + 1 :])


def analyze_uv_run(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `uv run`: a command, a Python script, or a module."""
    arguments = parse_and_apply(analysis, program)
    names = {used.name for used in arguments.used}
    operands = list(arguments.operands)
    first = exact_text(operands[0]) if operands else ""
    # The order is that of `uv run` itself: options, the file's suffix, then a command.
    if names & {"-m", "--module"}:
        analysis.start(["python", "-m", *operands])
    elif first is None:
        analysis.mark_opaque("the command to run is unknown")
    elif "://" in first:
        analysis.mark_opaque("runs code from another machine")
    elif names & {"-s", "--script", "--gui-script"} or first.endswith((".py", ".pyw", ".pyz")) or first == "-":
        analysis.start(["python", *operands])
    else:
        analysis.start(operands)
