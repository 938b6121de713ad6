"""What `tar` does: its options may come without a dash, and its mode decides whether it reads or writes a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.permission.effects.program_effects import UnknownInput
from engine.permission.effects.scan_result import Argument
from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text
from engine.permission.programs.table_analysis import apply_options, parse_words
from engine.permission.programs.tables.program_spec import Program

_MODES: Final = {
    **dict.fromkeys(("-c", "--create"), "c"),
    **dict.fromkeys(("-x", "--extract", "--get"), "x"),
    **dict.fromkeys(("-t", "--list"), "t"),
    **dict.fromkeys(("-r", "--append", "-u", "--update", "-A", "--catenate", "--concatenate", "--delete"), "r"),
    **dict.fromkeys(("-d", "--diff", "--compare"), "d"),
}
_HARMLESS_ACTIONS: Final = ("dot", ".", "echo", "sleep=", "ttyout", "totals", "wait=", "bell")


def analyze_tar(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `tar`."""
    arguments = parse_words(program, _with_dashes(program, analysis.words))
    names = [used.name for used in arguments.used]
    # As in tar, the last mode counts.
    mode = next((_MODES[name] for name in reversed(names) if name in _MODES), "")
    verbatim = "--verbatim-files-from" in names or "--null" in names
    # `-C` affects later members only, so the archive's path is resolved before the options are applied.
    # The archive is opened before it works in another folder.
    for used in arguments.used:
        if used.name in {"-f", "--file"}:
            _touch_archive(analysis, used.value, mode, forced="--force-local" in names)
        elif used.name == "--checkpoint-action":
            _act(analysis, used.value)
        elif used.name in {"-T", "--files-from"}:
            _read_list(analysis, used.value, verbatim=verbatim)
    apply_options(analysis, program, arguments)
    _touch_members(analysis, arguments.operands, mode, names)
    analysis.reads_only = mode in {"t", "d"} and not arguments.unknown


def _touch_members(analysis: ProgramAnalysis, operands: Sequence[Argument], mode: str, names: Sequence[str]) -> None:
    """Add the files that are packed, or the folder they are unpacked in."""
    # Unpacking may write anywhere below the folder; tar itself refuses "..".
    if mode == "x" and not {"-O", "--to-stdout", "--to-command"} & set(names):
        analysis.touch(".", "write")
    if mode in {"c", "r", "d"}:
        for operand in operands:
            analysis.touch(operand, "read")
            if "--remove-files" in names:
                analysis.touch(operand, "write")


def _with_dashes(program: Program, words: Sequence[Argument]) -> Sequence[Argument]:
    """Return the words with the first one written as options."""
    first = exact_text(words[0]) if words else ""
    # `tar xzf a.tar`: letters without a dash, whose values follow in the order of the letters.
    if not first or first[0] == "-" or not first.isalpha():
        return words
    plain: list[Argument] = []
    rest = 1
    for letter in first:
        option = program.table.get(f"-{letter}")
        plain.append(f"-{letter}")
        if option is not None and option.takes == "value" and rest < len(words):
            plain.append(words[rest])
            rest += 1
    return [*plain, *words[rest:]]


def _touch_archive(analysis: ProgramAnalysis, value: Argument, mode: str, *, forced: bool) -> None:
    text = exact_text(value)
    if text is None and mode not in {"x", "t", "d"}:
        analysis.touch(None, "write")
    # `host:file` makes tar start rsh or ssh.
    elif text is not None and ":" in text.partition("/")[0] and not forced:
        analysis.mark_opaque("its archive is on another machine, reached through another program")
    elif text != "-":
        analysis.touch(value, "read" if mode in {"x", "t", "d"} else "write")


def _act(analysis: ProgramAnalysis, value: Argument) -> None:
    text = exact_text(value)
    if text is None:
        analysis.mark_opaque("its checkpoint action is unknown")
    elif text.startswith("exec="):
        analysis.run_script(text.removeprefix("exec="))
    elif not text.startswith(_HARMLESS_ACTIONS):
        analysis.mark_opaque(f"its checkpoint action is unknown: {text}")


def _read_list(analysis: ProgramAnalysis, value: Argument, *, verbatim: bool) -> None:
    """Check a list of files, in which a line may be an option."""
    text = exact_text(value)
    if text not in {None, "-"}:
        analysis.touch(value, "read")
    has_names = (
        text == "-" and isinstance(analysis.invocation.stdin, UnknownInput) and analysis.invocation.stdin.lists_files
    )
    if not (verbatim or has_names):
        analysis.mark_opaque("it reads a list of files, some of which may be options")
