"""What `awk` does: its program is parsed far enough to see whether it starts commands or writes files."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs

from engine.permission.effects.scan_result import Argument
from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text
from engine.permission.programs.table_analysis import parse_and_apply
from engine.permission.programs.tables.program_spec import Program

# Most programs contain none of these characters, and need no parsing.
_SUSPICIOUS: Final = re.compile(r"(?<!\|)\|(?!\|)|>(?!=)|@|system|getline|ARGV|SYMTAB")
# Each of these makes a program opaque, wherever it occurs.
# `@` calls functions by name and loads extensions, in GNU awk.
_NEVER: Final = re.compile(r"(?<![A-Za-z_])system(?![A-Za-z0-9_])|@")
_TOKEN: Final = re.compile(
    r"""
      (?P<blank>(?:[ \t\r]|\\\r?\n)+|\#[^\n]*)
    | (?P<text>"(?:[^"\\\n]|\\.)*")
    | (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|0[xX][0-9a-fA-F]+)
    | (?P<name>[A-Za-z_]\w*)
    | (?P<step>\+\+|--)
    | (?P<sign>>>|\|&|\|\||&&|[=!<>+*%^-]=|\*\*=?|!~|[-+*%^!<>|?:~$=,;{}()\[\]\n&])
    """,
    re.VERBOSE | re.ASCII | re.DOTALL,
)
# A slash inside of brackets does not end a pattern.
_PATTERN: Final = re.compile(r"/(?:[^/\\\n\[]|\\.|\[\^?\]?(?:[^\]\\\n/\[]|\\[^\]/])*\])+/", re.DOTALL)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL | re.ASCII)
# After these a slash always begins a pattern.
_BEFORE_PATTERN: Final = frozenset(
    {"", "(", ",", "~", "!~", "!", "&&", "||", "{", "}", ";", "\n", "=", "==", "!=", "?", ":"}
)
_STANDARD: Final = frozenset({"/dev/stdout", "/dev/stderr", "-"})


class UnsupportedProgram(Exception):
    """The program executes something, or may do so."""


def analyze_awk(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `awk`."""
    arguments = parse_and_apply(analysis, program)
    names = {used.name for used in arguments.used}
    texts = [used.value for used in arguments.used if used.name in {"-e", "--source"}]
    operands = list(arguments.operands)
    if not texts and not names & {"-f", "--file", "-E", "--exec"}:
        texts, operands = operands[:1], operands[1:]
    for word in texts:
        if not _add_program(analysis, word):
            return
    for operand in operands:
        _add_input(analysis, operand)
    analysis.reads_only = not arguments.unknown


def _add_input(analysis: ProgramAnalysis, operand: Argument) -> None:
    """Add a file that a program reads, unless the operand is an assignment."""
    text = exact_text(operand)
    if text is not None and text.startswith("/inet"):
        analysis.mark_opaque("connects to a network")
    if text is None or (text != "-" and not _ASSIGNMENT.fullmatch(text)):
        analysis.touch(operand, "read")


def _add_program(analysis: ProgramAnalysis, word: Argument) -> bool:
    """Add the files that a program text writes; return whether the text is known."""
    text = exact_text(word)
    if text is None:
        analysis.mark_opaque("its program is unknown")
        return False
    try:
        for path in written_files(text):
            analysis.touch(path, "write")
    except UnsupportedProgram as error:
        analysis.mark_opaque(str(error))
    return True


def written_files(program: str) -> list[str]:
    """Return the files that a program writes.

    Raises:
        UnsupportedProgram: it may start a command, or read another file.
    """
    # The fast path.
    if not _SUSPICIOUS.search(program):
        return []
    # What is written into `ARGV` is read as a file.
    if "ARGV" in program or "SYMTAB" in program:
        raise UnsupportedProgram("its program may read other files")
    if _NEVER.search(program):
        raise UnsupportedProgram("its program may execute commands")
    return list(_OutputFinder(list(_tokens(program))).targets())


def _tokens(program: str) -> Iterator[str]:
    """Yield the tokens of a program, without blanks."""
    at = 0
    before, kind = "", ""
    while at < len(program):
        if program[at] == "/":
            at, before = _read_slash(program, at, before, kind)
            kind = "sign" if before == "/" else "pattern"
            yield before
            continue
        token = _TOKEN.match(program, at)
        if token is None:
            raise UnsupportedProgram("its program is not supported")
        at = token.end()
        if token.lastgroup == "blank":
            continue
        before, kind = token.group(), token.lastgroup or ""
        yield before


def _read_slash(program: str, at: int, before: str, kind: str) -> tuple[int, str]:
    """Return the token that begins with a slash, a division or a `/…/` pattern, and its end."""
    if before not in _BEFORE_PATTERN and before not in _WORDS:
        # After `x++` or `)`, versions of awk disagree whether it is a division or a pattern.
        if kind == "step" or before == ")":
            raise UnsupportedProgram("its program has an ambiguous slash")
        return at + 1, "/"
    match = _PATTERN.match(program, at)
    if match is None:
        raise UnsupportedProgram("its program has an unclosed pattern")
    return match.end(), "/…/"


_WORDS: Final = frozenset({"print", "printf", "return", "case", "in", "else", "do", "and", "or"})


@attrs.define(eq=False)
class _OutputFinder:
    """Finds the files that a program prints to."""

    tokens: list[str]

    def targets(self) -> Iterator[str]:
        """Yield the files that are written."""
        depth = 0
        refused: dict[str, str] = dict.fromkeys(("|", "|&"), "its program may execute commands")
        # Only with `<` does getline read a file; alone it reads the program's input.
        if "<" in self.tokens:
            refused["getline"] = "its program reads other files"
        printing: int | None = None
        for at, sign in enumerate(self.tokens):
            if sign in {"(", "["}:
                depth += 1
            elif sign in {")", "]"}:
                depth -= 1
            elif sign in {"print", "printf"}:
                printing = depth
            elif sign in {";", "{", "}", "\n"}:
                printing = None
            elif sign in refused:
                raise UnsupportedProgram(refused[sign])
            # In brackets, and outside of `print`, `>` is a comparison.
            elif sign == ">>" or (sign == ">" and printing is not None and depth <= printing):
                yield from self._target(at + 1)

    def _target(self, at: int) -> Iterator[str]:
        """Yield the file of a redirection, which must be a plain string with nothing after it."""
        here = self.tokens[at : at + 2]
        text = here[0] if here else ""
        # Only a string: a concatenated name is unknown.
        plain = text[:1] == '"' and "\\" not in text and len(text) > 2
        if not plain or (len(here) > 1 and here[1] not in {";", "}", "\n"}):
            raise UnsupportedProgram("its program writes to unknown files")
        name = text[1:-1]
        if name.startswith("/inet"):
            raise UnsupportedProgram("its program connects to a network")
        if name not in _STANDARD:
            yield name
