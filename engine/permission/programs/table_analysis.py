"""The analysis of a program's arguments by its row in the tables."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from engine.permission.effects.program_effects import UnknownInput
from engine.permission.effects.scan_result import Argument
from engine.permission.programs.program_analysis import (
    ProgramAnalysis,
    change_folder,
    exact_text,
    list_files,
    set_variable,
)
from engine.permission.programs.shell_scripts import run_joined_words, run_plain_words
from engine.permission.programs.tables.option_spec import ArgumentParser, Arguments, Role, UsedOption, may_be_option
from engine.permission.programs.tables.program_spec import CustomReader, Program

# A path on another machine, as `rsync` and `scp` write it.
_ELSEWHERE: Final = re.compile(r"[^/]*:|\w+://")
# Roles of options that change something: an uncertain word may be one of them.
_CHANGING: Final[frozenset[Role]] = frozenset({"writes", "edits", "changes"})
# Of the programs that print names, those that print names of files.
_LISTING: Final = frozenset({"ls"})
# The roles of files that are only read.
_READING: Final = frozenset({"reads", "lists"})


def analyze_by_row(
    analysis: ProgramAnalysis,
    program: Program,
    readers: Mapping[CustomReader, Callable[[ProgramAnalysis, Program], None]],
) -> None:
    """Analyze the arguments by a row of the tables."""
    while True:
        if program.opaque:
            analysis.mark_opaque(program.opaque)
        for word in analysis.words if program.code_words else ():
            if word is not None and re.fullmatch(program.code_words, word, re.DOTALL):
                analysis.mark_opaque(f"{word} may make it execute any command")
        if program.reader:
            readers[program.reader](analysis, program)
            return
        if not program.commands:
            break
        # Not permuted, since options after the sub-command belong to it.
        arguments = parse_and_apply(analysis, program, permutes=False)
        below = _select_subcommand(analysis, program, arguments)
        if below is None:
            return
        program = below
    arguments = parse_and_apply(analysis, program)
    apply_operands(analysis, program, _pad_operands(program, arguments))


def _pad_operands(program: Program, arguments: Arguments) -> Sequence[Argument]:
    """Return the operands, with an empty one in the place of an operand that an option replaces."""
    names = {used.name for used in arguments.used}
    before = [""] if names & set(program.without_first.split()) else []
    behind = [""] if names & set(program.without_last.split()) else []
    return [*before, *arguments.operands, *behind]


def _select_subcommand(analysis: ProgramAnalysis, program: Program, arguments: Arguments) -> Program | None:
    """Return the row of the sub-command that the operands begin with, and continue with its arguments."""
    if not arguments.operands:
        # `git` alone prints help.
        analysis.reads_only = analysis.reads_only or program.reading == "free"
        return None
    name = exact_text(arguments.operands[0])
    analysis.words = arguments.operands[1:]
    if name is None:
        if any(_is_dangerous(below) for below in program.commands.values()):
            analysis.mark_opaque("its sub-command is unknown")
        # An unknown sub-command is a mistake or a plugin; either counts as a command with that name.
        return None
    below = program.commands.get(name)
    if below is not None:
        analysis.name = f"{analysis.name} {name}"
    elif program.code_words and any(map(may_be_option, analysis.words)):
        analysis.mark_opaque("one of its words is unknown, and may be an option that executes commands")
    return below


def parse_words(program: Program, words: Sequence[Argument], *, permutes: bool | None = None) -> Arguments:
    """Split words into options and operands."""
    moves = program.permutes if permutes is None else permutes
    return ArgumentParser(program.table, permutes=moves, single=program.dashes == "single").parse(words)


def parse_and_apply(analysis: ProgramAnalysis, program: Program, *, permutes: bool | None = None) -> Arguments:
    """Split the arguments into options and operands, and add the effects of the options."""
    arguments = parse_words(program, analysis.words, permutes=permutes)
    apply_options(analysis, program, arguments)
    return arguments


def apply_options(analysis: ProgramAnalysis, program: Program, arguments: Arguments) -> None:
    """Add the effects of the options."""
    if arguments.unknown and program.strict:
        analysis.mark_opaque(f"its option {arguments.unknown} is unknown")
    if arguments.is_uncertain and (program.is_guarded or program.strict):
        analysis.mark_opaque("one of its words is unknown, and may be an option that executes commands")
    for used in arguments.used:
        _apply_option(analysis, used, program)
        if used.option.role == "lists":
            analysis.mark_opaque("further files that it reads are listed elsewhere")
    analysis.reads_only = _reads_only(program, arguments)
    roles = {option.role for option in program.table.values()} if arguments.is_uncertain else set[Role]()
    # An unknown word may be an option that writes.
    analysis.changes = analysis.changes or bool(roles & _CHANGING)
    analysis.output.prints_names = _prints_names(analysis, program, arguments)
    # An unknown word may be an option that names a list of files, which error messages show.
    analysis.output.shows_contents = program.shows_contents or "lists" in roles


def _prints_names(analysis: ProgramAnalysis, program: Program, arguments: Arguments) -> bool:
    names = {used.name for used in arguments.used}
    if program.prints_names:
        # With options that are not in the table, `ls` prints more than names.
        if analysis.name in _LISTING:
            analysis.output.listing = list_files(analysis, [analysis.cwd, *arguments.operands])
        return "--format" not in names and not (analysis.name == "ls" and arguments.unknown)
    if names & set(program.names_with.split()):
        analysis.output.listing = list_files(analysis, [analysis.cwd, *arguments.operands])
        return True
    return _passes_names(analysis, program, arguments, names)


def _passes_names(analysis: ProgramAnalysis, program: Program, arguments: Arguments, names: set[str]) -> bool:
    stdin = analysis.invocation.stdin
    # A filter such as `grep` passes on names that `find` has printed.
    if not (isinstance(stdin, UnknownInput) and stdin.lists_files and program.filters):
        return False
    roles = program.roles_of(len(_pad_operands(program, arguments)))
    if "reads" in roles or arguments.unknown or not names <= set(program.filters.split()):
        return False
    analysis.output.listing = stdin.listing
    return True


def _apply_option(analysis: ProgramAnalysis, used: UsedOption, program: Program) -> None:
    """Add the effect of an option."""
    # `-i` without a suffix, as in `sed -i`: the option is present, but its value names no file.
    if used.option.takes == "attached" and used.value == "" and used.option.role not in {"changes", "code", "lists"}:
        return
    _apply_role(analysis, used.option.role, used.value, program, f"its option {used.name}")


def _apply_role(analysis: ProgramAnalysis, role: Role, value: Argument, program: Program, what: str) -> None:
    """Add the effect of an option's value or of an operand."""
    if role in {"reads", "writes", "edits", "lists"}:
        _touch_as(analysis, role, value, program)
        return
    match role:
        case "folder":
            change_folder(analysis, value)
        case "shell":
            analysis.run_script(value)
        case "command":
            run_plain_words(analysis, value)
        case "program":
            analysis.start([value])
        case "runs":
            analysis.run_file(value)
        case "sets":
            set_variable(analysis, value)
        case "code" | "split":
            analysis.mark_opaque(f"{what} may execute any command")
        case "changes":
            analysis.changes = True
        case _:
            pass


def _touch_as(analysis: ProgramAnalysis, role: Role, value: Argument, program: Program) -> None:
    text = exact_text(value)
    # Standard input or output, or a file on another machine.
    if text in {"", "-"} or (program.hosts and text is not None and _ELSEWHERE.match(text)):
        analysis.changes = analysis.changes or role not in _READING
        return
    if text is not None and (text[:1] == "|" or (role not in _READING and text[:1] == "!")):
        # Some programs run the text after these characters as a command.
        analysis.mark_opaque(f"it may take {text} for a command")
    if role != "writes":
        analysis.touch(value, "read")
    if role not in _READING:
        analysis.touch(value, "write")


def apply_operands(analysis: ProgramAnalysis, program: Program, operands: Sequence[Argument]) -> None:
    """Add the effects of the operands, and start the command behind them."""
    # Files that it executes without being asked, such as a Makefile.
    analysis.runs += [analysis.resolve(name) for name in program.runs.split()]
    roles = program.operands.split()
    if program.tail:
        # The tail begins after the operands that have a role.
        count = len(roles)
        for role, operand in zip(program.roles_of(count), operands, strict=False):
            _apply_role(analysis, role, operand, program, "its operand")
        _start_tail(analysis, program, operands[count:])
        return
    for role, operand in zip(program.roles_of(len(operands)), operands, strict=True):
        # `gzip -l` only reads what `gzip` replaces.
        known: Role = "reads" if role == "edits" and analysis.reads_only else role
        _apply_role(analysis, known, operand, program, "its operand")


def _start_tail(analysis: ProgramAnalysis, program: Program, words: Sequence[Argument]) -> None:
    """Start the command behind the operands."""
    analysis.remote = analysis.remote or program.remote
    if not words and not analysis.remote and analysis.invocation.stdin is not None:
        analysis.mark_opaque("starts a shell, if it starts anything")
    if program.tail == "shell":
        run_joined_words(analysis, words)
    else:
        analysis.passes_on = True
        analysis.start(words)


def _is_dangerous(program: Program) -> bool:
    return bool(program.is_guarded or program.tail or program.reader or program.opaque)


def _reads_only(program: Program, arguments: Arguments) -> bool:
    """Return whether, according to its row, the program only reads with these options."""
    if program.reading == "asked":
        return any(used.option.role == "reading" for used in arguments.used)
    return program.reading == "free" or (program.reading == "known" and not arguments.unknown)
