"""What `tar` does: its letters may stand without a dash, and what a file is to it depends on its mode."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from engine.permission.effects.program_effects import Unknown
from engine.permission.effects.scan_result import Word
from engine.permission.programs.analysis import Study, known
from engine.permission.programs.program_spec import Program

_MODES: Final = {
    **dict.fromkeys(("-c", "--create"), "c"),
    **dict.fromkeys(("-x", "--extract", "--get"), "x"),
    **dict.fromkeys(("-t", "--list"), "t"),
    **dict.fromkeys(("-r", "--append", "-u", "--update", "-A", "--catenate", "--concatenate", "--delete"), "r"),
    **dict.fromkeys(("-d", "--diff", "--compare"), "d"),
}
_HARMLESS_ACTIONS: Final = ("dot", ".", "echo", "sleep=", "ttyout", "totals", "wait=", "bell")


def follow_tar(study: Study, program: Program) -> None:
    """Read the words of `tar`."""
    arguments = study.read_words(program, _with_dashes(program, study.words))
    names = [used.name for used in arguments.used]
    mode = next((_MODES[name] for name in reversed(names) if name in _MODES), "")
    verbatim = "--verbatim-files-from" in names or "--null" in names
    # The archive is opened before it works in another folder.
    for used in arguments.used:
        if used.name in {"-f", "--file"}:
            _touch_archive(study, used.value, mode, forced="--force-local" in names)
        elif used.name == "--checkpoint-action":
            _act(study, used.value)
        elif used.name in {"-T", "--files-from"}:
            _read_list(study, used.value, verbatim=verbatim)
    study.judge(program, arguments)
    _touch_members(study, arguments.operands, mode, names)
    study.reads_only = mode in {"t", "d"} and not arguments.unknown


def _touch_members(study: Study, operands: Sequence[Word], mode: str, names: Sequence[str]) -> None:
    """Remember which files are packed, or where they are unpacked."""
    if mode == "x" and not {"-O", "--to-stdout", "--to-command"} & set(names):
        study.touch(".", "write")
    if mode in {"c", "r", "d"}:
        for operand in operands:
            study.touch(operand, "read")
            if "--remove-files" in names:
                study.touch(operand, "write")


def _with_dashes(program: Program, words: Sequence[Word]) -> Sequence[Word]:
    """Return the words with the first one written as options."""
    first = known(words[0]) if words else ""
    if not first or first[0] == "-" or not first.isalpha():
        return words
    plain: list[Word] = []
    rest = 1
    for letter in first:
        option = program.table.get(f"-{letter}")
        plain.append(f"-{letter}")
        if option is not None and option.takes == "value" and rest < len(words):
            plain.append(words[rest])
            rest += 1
    return [*plain, *words[rest:]]


def _touch_archive(study: Study, value: Word, mode: str, *, forced: bool) -> None:
    text = known(value)
    if text is None and mode not in {"x", "t", "d"}:
        study.touch(None, "write")
    elif text is not None and ":" in text.partition("/")[0] and not forced:
        study.give_up("its archive is on another machine, which is reached by another program")
    elif text != "-":
        study.touch(value, "read" if mode in {"x", "t", "d"} else "write")


def _act(study: Study, value: Word) -> None:
    text = known(value)
    if text is None:
        study.give_up("what it does at a checkpoint is not known")
    elif text.startswith("exec="):
        study.run_text(text.removeprefix("exec="))
    elif not text.startswith(_HARMLESS_ACTIONS):
        study.give_up(f"what it does at a checkpoint is not known: {text}")


def _read_list(study: Study, value: Word, *, verbatim: bool) -> None:
    """Read names of files from a file; a line of that may be an option."""
    text = known(value)
    if text not in {None, "-"}:
        study.touch(value, "read")
    has_names = text == "-" and isinstance(study.given.stdin, Unknown) and study.given.stdin.names
    if not (verbatim or has_names):
        study.give_up("it reads a list of files, of which some may be options")
