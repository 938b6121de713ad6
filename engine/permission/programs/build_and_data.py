"""Build tools and clients of databases, with a small language in their arguments or their input."""

from __future__ import annotations

import re
from typing import Final

from engine.permission.effects.program_effects import UnknownInput
from engine.permission.programs.environment_variables import is_dangerous_setting
from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text, split_assignment
from engine.permission.programs.table_analysis import apply_operands, parse_and_apply
from engine.permission.programs.tables.program_spec import Program

# In the order in which GNU make looks for them.
_MAKEFILES: Final = ("GNUmakefile", "makefile", "Makefile")
# A value without special characters for make and for the shell that runs its recipes.
_PLAIN_VALUE: Final = re.compile(r"[\w ./:=,@%+~\"'*-]*", re.ASCII)


def analyze_make(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `make`: targets, variables, and the files of its rules."""
    arguments = parse_and_apply(analysis, program)
    files = [used.value for used in arguments.used if used.name in {"-f", "--file", "--makefile"}]
    for file in files:
        if exact_text(file) != "-":
            analysis.run_file(file)
        elif analysis.invocation.stdin is not None:
            # A Makefile from a pipe is a script.
            analysis.mark_opaque("reads rules from standard input")
    if not files:
        analysis.runs += [analysis.resolve(name) for name in _MAKEFILES]
    for operand in arguments.operands:
        text = exact_text(operand)
        parts = split_assignment(text) if text is not None else None
        if parts is not None:
            _check_make_variable(analysis, *parts)


def _check_make_variable(analysis: ProgramAnalysis, left: str, value: str) -> None:
    """Check NAME=VALUE, or NAME:=VALUE and the like; a NAME!=VALUE executes its value."""
    name = left.rstrip(":?+!")
    if name.startswith(".SHELL") or is_dangerous_setting(name, value):
        analysis.mark_opaque(f"sets {name}, which may make it run something else")
    elif left.endswith("!") or not _PLAIN_VALUE.fullmatch(value):
        analysis.mark_opaque(f"sets {name} to a value that may be executed")


def analyze_dd(analysis: ProgramAnalysis, _: Program) -> None:
    """Analyze the arguments of `dd`."""
    for word in analysis.words:
        text = exact_text(word)
        name, sign, value = (text or "").partition("=")
        if text is None:
            # An unknown word may be `of=…`.
            analysis.touch(None, "write")
        elif sign and name == "if":
            analysis.touch(value, "read")
        elif sign and name == "of":
            analysis.touch(value, "write")


# Commands of a client that only show something.
_SHOWING: Final = re.compile(
    r"\s*(?:\\(?:d[a-zA-Z+]*|l\+?|x|timing|conninfo)(?:[ \t]+[\w.*\"$-]*)*;?|\.(?:tables|schema|dump|databases|indexes)(?: +\w+)?)\s*"
)
# What makes a client run a program or access a file: its other commands, and parts of SQL.
_NOT_SQL: Final = re.compile(
    r"\\|`|(?:^|;|\n)\s*(?:\.|system|source|pager|nopager|tee|edit|print)|\b(?:program|language)\b|into\s+(?:out|dump)file"
    r"|load_extension|edit\s*\(|writefile|readfile|fts3_tokenizer|attach|vacuum\s+into|zipfile|fsdir",
    re.IGNORECASE,
)
_SQL_OPTIONS: Final = frozenset({"-c", "--command", "-e", "--execute", "--init-command", "-cmd"})


def analyze_database(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `psql`, `mysql` and `sqlite3`: SQL, and commands of the client."""
    arguments = parse_and_apply(analysis, program)
    apply_operands(analysis, program, arguments.operands)
    texts = [used.value for used in arguments.used if used.name in _SQL_OPTIONS]
    if program.operands:
        texts += arguments.operands[1:]
    stdin = analysis.invocation.stdin
    if not texts and stdin is not None:
        # Without SQL among the arguments, it reads commands from standard input.
        texts.append(None if isinstance(stdin, UnknownInput) else stdin)
    for word in texts:
        text = exact_text(word)
        if text is None:
            analysis.mark_opaque("its commands are unknown")
        elif _NOT_SQL.search(text) and not _SHOWING.fullmatch(text):
            analysis.mark_opaque("its commands may execute others, or access files")
