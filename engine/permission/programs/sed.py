"""What `sed` does: a strict parser of its language.

It parses the language of GNU sed; scripts that other versions interpret differently are not supported.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

from engine.permission.effects.scan_result import Argument
from engine.permission.programs.program_analysis import ProgramAnalysis, exact_text
from engine.permission.programs.table_analysis import parse_and_apply
from engine.permission.programs.tables.program_spec import Program

# `;` and line ends separate commands; some versions require them where others don't.
_BLANK: Final = re.compile(r"[ \t]*")
_BETWEEN: Final = re.compile(r"[ \t\n;]*")
_NUMBER: Final = re.compile(r"\d+(?:~\d+)?|\$")
_SECOND: Final = re.compile(r"[+~]?\d+|\$")
_LABEL: Final = re.compile(r"[ \t]*([\w.-]*)")
_REST: Final = re.compile(r"[^\n]*")
_FLAGS: Final = re.compile(r"[gpIiMm\d]*")
_ALONE: Final = frozenset("=dDgGhHnNpPxzF")
_COUNTED: Final = frozenset("qQlL")
_ENDED: Final = frozenset(";\n}#")
# Names that sed itself treats as its streams.
_STANDARD: Final = frozenset({"/dev/stdout", "/dev/stderr", "/dev/stdin", "-"})


class UnsupportedScript(Exception):
    """The script is invalid, not supported, or executes something."""


def analyze_sed(analysis: ProgramAnalysis, program: Program) -> None:
    """Analyze the arguments of `sed`."""
    arguments = parse_and_apply(analysis, program)
    names = {used.name for used in arguments.used}
    texts = [used.value for used in arguments.used if used.name in _EXPRESSIONS]
    operands = list(arguments.operands)
    if not texts and not names & {"-f", "--file", "--help", "--version"}:
        # Where `-i` takes a value (BSD), there may be an empty word before the script.
        while len(operands) > 1 and exact_text(operands[0]) == "":
            del operands[0]
        texts = operands[:1]
        operands = operands[1:]
    if not _add_script(analysis, texts):
        return
    in_place = bool(names & {"-i", "--in-place", "-I"})
    for operand in operands:
        if exact_text(operand) != "-":
            analysis.touch(operand, "read")
            if in_place:
                analysis.touch(operand, "write")
    analysis.reads_only = not in_place


def _add_script(analysis: ProgramAnalysis, texts: Sequence[Argument]) -> bool:
    """Add the files that a script in these texts reads and writes; return whether the texts are certain."""
    exact = [text for text in map(exact_text, texts) if text is not None]
    if len(exact) != len(texts):
        analysis.mark_opaque("its script is unknown")
        return False
    try:
        script = _Script("\n".join(exact)).read()
    except UnsupportedScript as error:
        analysis.mark_opaque(str(error))
    else:
        for path in script.read_files:
            analysis.touch(path, "read")
        for path in script.written_files:
            analysis.touch(path, "write")
    return True


# Any abbreviation that getopt accepts.
_EXPRESSIONS: Final = frozenset({"-e", "--expression", *("--expression"[:length] for length in range(4, 12))})


@attrs.define(eq=False)
class _Script:
    """A sed script, and the current position in it."""

    text: str
    at: int = 0
    depth: int = 0
    read_files: list[str] = attrs.field(factory=list[str])
    written_files: list[str] = attrs.field(factory=list[str])

    def read(self) -> _Script:
        """Parse the whole script.

        Raises:
            UnsupportedScript: it is not supported, or executes something.
        """
        while True:
            self._skip(_BETWEEN)
            if self.at >= len(self.text):
                break
            if self._peek() == "#":
                self._skip(_REST)
                continue
            self._read_command()
        if self.depth:
            raise UnsupportedScript("its script has an unclosed brace")
        return self

    def _read_command(self) -> None:
        if self._read_address(first=True):
            self._skip(_BLANK)
            if self._peek() == ",":
                self.at += 1
                self._skip(_BLANK)
                if not self._read_address(first=False):
                    raise UnsupportedScript("its script has half an address")
                self._skip(_BLANK)
        # Blanks after "!" are an extension that all common versions have.
        while self._peek() in {"!", " "}:
            self.at += 1
        command = self._peek()
        self.at += 1
        if command == "{":
            self.depth += 1
        elif command == "}":
            self.depth -= 1
            if self.depth < 0:
                raise UnsupportedScript("its script closes a brace that was never opened")
            self._end()
        elif command in _ALONE:
            self._end()
        elif command in _COUNTED:
            self._skip(re.compile(r"[ \t]*\d*"))
            self._end()
        else:
            self._read_long(command)

    def _read_long(self, command: str) -> None:
        match command:
            case "a" | "i" | "c":
                self._read_text()
            case ":" | "b" | "t" | "T":
                self._skip(_LABEL)
                self._end()
            case "r" | "R":
                self.read_files += self._file_name()
            case "w" | "W":
                self.written_files += self._file_name()
            case "s":
                self._read_substitution()
            case "y":
                delimiter = self._delimiter()
                self._part(delimiter, is_pattern=False)
                self._part(delimiter, is_pattern=False)
                self._end()
            case "e":
                raise UnsupportedScript("its script executes commands")
            case _:
                raise UnsupportedScript("its script is not supported")

    def _read_address(self, *, first: bool) -> bool:
        match = (_NUMBER if first else _SECOND).match(self.text, self.at)
        # `first~step` and `addr,+N` are GNU's.
        if match is not None:
            self.at = match.end()
            return True
        if self._peek() == "/":
            self.at += 1
            self._part("/", is_pattern=True)
        elif self._peek() == "\\":
            self.at += 1
            self._part(self._delimiter(), is_pattern=True)
        else:
            return False
        while self._peek() in {"I", "M"}:
            self.at += 1
        return True

    def _read_substitution(self) -> None:
        delimiter = self._delimiter()
        self._part(delimiter, is_pattern=True)
        self._part(delimiter, is_pattern=False)
        # Flags may come in any order; `e` and `w` end them.
        self._skip(_FLAGS)
        if self._peek() == "e":
            raise UnsupportedScript("its script executes the replaced text")
        if self._peek() == "w":
            self.at += 1
            self.written_files += self._file_name()
            return
        self._end()

    def _read_text(self) -> None:
        """Parse the text of `a`, `i` or `c`, to the end of its line."""
        self._skip(_BLANK)
        if self.text.startswith("\\\n", self.at):
            self.at += 2
        elif self._peek() in {"", "\n"}:
            raise UnsupportedScript("its script is not supported")
        start = self.at
        self._skip(_REST)
        # A backslash at the end continues the text, and the versions differ in how.
        if self._peek() and "\\" in self.text[start : self.at]:
            raise UnsupportedScript("its script has a text of several lines")

    def _file_name(self) -> list[str]:
        self._skip(_BLANK)
        start = self.at
        self._skip(_REST)
        name = self.text[start : self.at]
        if not name or name != name.rstrip() or any(sign in name for sign in ";}"):
            # Whether these end the name depends on the version of sed.
            raise UnsupportedScript("its script has an unusual file name")
        return [] if name in _STANDARD else [name]

    def _delimiter(self) -> str:
        delimiter = self._peek()
        if delimiter in {"", "\n", "\\", "[", "]"}:
            raise UnsupportedScript("its script is not supported")
        self.at += 1
        return delimiter

    def _part(self, delimiter: str, *, is_pattern: bool) -> None:
        """Skip to the next delimiter."""
        is_bracket = False
        # Positions are tracked exactly: if one delimiter were missed, a later `e` would count as text.
        while self.at < len(self.text):
            sign = self.text[self.at]
            self.at += 1
            if sign == delimiter and not is_bracket:
                # (A sed in which brackets don't quote the delimiter rejects the pattern as invalid.)
                return
            if sign == "\\":
                # In brackets it is literal to some versions, and escapes the next character in others.
                if is_bracket and self._peek() == "]":
                    raise UnsupportedScript("its script has an ambiguous bracket")
                self.at += 1
            elif is_pattern:
                if sign == "\n":
                    break
                is_bracket = self._continue_bracket(sign) if is_bracket else self._open_bracket(sign)
        raise UnsupportedScript("its script has an unclosed pattern")

    def _open_bracket(self, sign: str) -> bool:
        """Skip the start of a bracket expression, if one begins here; return whether it does."""
        if sign == "[":
            self._skip(_BRACKET_START)
        return sign == "["

    def _continue_bracket(self, sign: str) -> bool:
        """Skip a class in a bracket expression, such as `[:alpha:]`; return whether the bracket continues."""
        if sign == "[" and self._peek() in {":", ".", "="}:
            self._skip(_CLASS)
        return sign != "]"

    def _end(self) -> None:
        self._skip(_BLANK)
        if self._peek() not in _ENDED and self._peek() != "":
            raise UnsupportedScript("its script is not supported")

    def _peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def _skip(self, pattern: re.Pattern[str]) -> None:
        match = pattern.match(self.text, self.at)
        if match is not None:
            self.at = match.end()


_BRACKET_START: Final = re.compile(r"\^?\]?")
_CLASS: Final = re.compile(r"[:.=]\w*[:.=]\]")
