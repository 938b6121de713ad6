"""Parsing expansions in a shell script: everything that starts with a dollar sign, and backticks.

It is strict: unsupported syntax raises an error, for instance quotes in quoted `${…}` operators.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from typing import Final

import attrs

from engine.permission.shell.parser.nodes import (
    Arithmetic,
    LiteralText,
    Parameter,
    Part,
    Script,
    Substitution,
    UnsupportedSyntax,
)

# Deeper nesting would exceed Python's stack; no real script comes near.
MAX_DEPTH: Final = 40
_SIMPLE_PARAMETER: Final = re.compile(r"\$(?:([A-Za-z_]\w*)|([0-9@*#?$!\-]))", re.ASCII)
# Subscripts that bash evaluates to themselves; others may contain substitutions.
SUBSCRIPT: Final = (
    r"""(?:[@*]|[\w.:/+\-]+|\$\w+|\$\{\w+\}|"\$\w+"|"\$\{\w+\}"|"[\w ./:\-]*"|'[\w ./:\-]*')"""  # one idea a choice
)
_BRACED: Final = re.compile(rf"([A-Za-z_]\w*|\d+|[@*#?$!\-])(?:\[({SUBSCRIPT})\])?", re.ASCII)
_OPERATOR: Final = re.compile(r":?[-=?+]|##?|%%?|/[/#%]?|\^\^?|,,?|@[A-Za-z]|:")
_ARITHMETIC_TEXT: Final = re.compile(r"[\w\s+\-*/%<>=!&|^~?:,\[\].#]+")
_SLICE_TEXT: Final = re.compile(r"[\w \t+\-*/%:]+")
# The text of an operand up to the next sign with a meaning. Inside of double quotes, more of them are literal.
_OPERAND_TEXT: Final = re.compile(r"[\w \t\n./:=@%+,^\-*?\[\]~!#;&|()]+")
_OPERAND_TEXT_QUOTED: Final = re.compile(r"[\w \t\n./:=@%+,^\-*?\[\]~!#;&|()<>]+")
_C_ESCAPE: Final = re.compile(
    r"\\(?:([abeEfnrtv\\'\"?])|([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|u([0-9A-Fa-f]{1,4})|U([0-9A-Fa-f]{1,8})|c(.))",
    re.DOTALL,
)
_C_SIGNS: Final = {
    "a": "\a",
    "b": "\b",
    "e": "\x1b",
    "E": "\x1b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
}


@attrs.define(eq=False)
class DollarReader(ABC):
    """Parses expansions at the current position of a text.

    Attributes:
        source: the text.
        is_posix: refuse bash's additions to the POSIX shell, since another shell will run the script.
        depth: how deep this text is nested.
        at: the current position.
        starts: where the first words of commands begin.
        masked: ranges that tree-sitter may not support; they are blanked for the comparison.
        filled: words that it may not support; they are replaced by plain ones for the comparison.
        inner: nested texts with commands in them, and their parsers.
    """

    source: str
    is_posix: bool = False
    depth: int = 0
    at: int = 0
    starts: list[int] = attrs.field(factory=list[int])
    masked: list[tuple[int, int]] = attrs.field(factory=list[tuple[int, int]])
    filled: list[tuple[int, int]] = attrs.field(factory=list[tuple[int, int]])
    inner: list[tuple[str, DollarReader]] = attrs.field(factory=list["tuple[str, DollarReader]"])

    def move_to(self, at: int) -> None:
        """Move to a position."""
        self.at = at

    def enter(self) -> None:
        """Enter a nested construct."""
        self.depth += 1

    def leave(self) -> None:
        """Leave a nested construct."""
        self.depth -= 1

    @abstractmethod
    def double_quoted(self) -> list[Part]:
        """Parse a text in double quotes from behind the opening quote, and consume the closing one."""

    @abstractmethod
    def read_until_closed(self) -> Script:
        """Parse commands up to the closing parenthesis, and consume it."""

    @abstractmethod
    def read_text(self, text: str) -> Script:
        """Parse another text as a script."""

    def unsupported(self, why: str) -> UnsupportedSyntax:
        """Return the exception for unsupported syntax, with the line it is on."""
        line = self.source.count("\n", 0, self.at) + 1
        return UnsupportedSyntax(f"line {line}: {why}")

    def _skip_sign(self, sign: str) -> bool:
        if self.source.startswith(sign, self.at):
            self.at += len(sign)
            return True
        return False

    def _quoted_text(self, quote: str) -> str:
        end = self.source.find(quote, self.at + 1)
        if end < 0:
            raise self.unsupported("a quote is not closed")
        text = self.source[self.at + 1 : end]
        self.at = end + 1
        return text

    def _nested(self) -> Script:
        """Read commands up to the closing parenthesis."""
        if self.depth >= MAX_DEPTH:
            raise self.unsupported("too deeply nested")
        self.depth += 1
        body = self.read_until_closed()
        self.depth -= 1
        return body

    def dollar(self, parts: list[Part], *, quoted: bool) -> None:
        """Parse an expansion, or a literal dollar."""
        source = self.source
        match = _SIMPLE_PARAMETER.match(source, self.at)
        if match is not None:
            self.at = match.end()
            # bash would join the lines before it reads the name.
            if source.startswith("\\\n", self.at):
                raise self.unsupported("a name that may continue on the next line")
            parts.append(Parameter(match.group(1) or match.group(2), quoted))
            return
        following = source[self.at + 1 : self.at + 2]
        if following == "(":
            parts.append(self._parenthesized(quoted=quoted))
        elif following == "{":
            self.at += 2
            parts.append(self._braced(quoted=quoted))
        elif following == "'" and not quoted:
            self.at += 1
            parts.append(self._ansi_c())
        elif following in ("[", "\\", "`") or (following == '"' and not quoted):
            raise self.unsupported(f"a dollar before {following}")
        else:
            parts.append(LiteralText("$", quoted=True))
            self.at += 1

    def _parenthesized(self, *, quoted: bool) -> Arithmetic | Substitution:
        """Parse `$((…))` or `$(…)`."""
        # Not `$( (…) )`: bash, too, tries arithmetic first. If that fails, it is refused here.
        if self.source.startswith("((", self.at + 1):
            self.at += 3
            return Arithmetic(self.arithmetic("))"), quoted)
        self.at += 2
        if self.source.startswith("\\\n", self.at):
            raise self.unsupported("an operator split over two lines")
        return Substitution(self._nested(), quoted)

    def _braced(self, *, quoted: bool) -> Parameter:
        """Parse `${…}` from behind the brace."""
        source = self.source
        sign = source[self.at : self.at + 1]
        if sign in "#!" and source[self.at + 1 : self.at + 2] != "}":
            self.at += 1
            return self._counted_or_indirect(sign, quoted=quoted)
        match = _BRACED.match(source, self.at)
        if match is None:
            raise self.unsupported("an unsupported expansion")
        self.at = match.end()
        parameter = Parameter(match.group(1), quoted, subscript=match.group(2))
        if self._skip_sign("}"):
            return parameter
        operator = _OPERATOR.match(source, self.at)
        if operator is None:
            raise self.unsupported("an unsupported expansion")
        self.at = operator.end()
        parameter.operator = operator.group()
        # dash would fail on it, or expand something else.
        if self.is_posix and (parameter.operator[0] in "/^,@" or parameter.operator == ":" or parameter.subscript):
            raise self.unsupported("an expansion that only bash supports")
        if parameter.operator == ":":
            parameter.operator = "slice"
            parameter.operand = self._slice()
        else:
            parameter.operand = self._operand(quoted=quoted)
        return parameter

    def _counted_or_indirect(self, sign: str, *, quoted: bool) -> Parameter:
        """Parse `${#x}` and `${!x}` from behind the sign."""
        match = _BRACED.match(self.source, self.at)
        if match is None:
            raise self.unsupported("an unsupported expansion")
        self.at = match.end()
        parameter = Parameter(match.group(1), quoted, "length", subscript=match.group(2))
        if sign == "!":
            if self.is_posix:
                raise self.unsupported("an expansion that only bash supports")
            parameter.operator = "keys" if parameter.subscript in ("@", "*") else "indirect"
            if parameter.subscript is None and self.source[self.at : self.at + 2] in ("*}", "@}"):
                self.at += 1
                parameter.operator = "names"
        if not self._skip_sign("}"):
            raise self.unsupported("an unsupported expansion")
        return parameter

    def _operand(self, *, quoted: bool) -> tuple[Part, ...]:
        """Parse the word in `${x:-word}`, and consume the closing brace."""
        source = self.source
        parts: list[Part] = []
        # Quotes in a quoted operand mean different things in different shells.
        text = _OPERAND_TEXT_QUOTED if quoted else _OPERAND_TEXT
        while not self._skip_sign("}"):
            match = text.match(source, self.at)
            sign = source[self.at : self.at + 1]
            if match is not None:
                parts.append(LiteralText(match.group(), quoted))
                self.at = match.end()
            elif sign == "$":
                self.dollar(parts, quoted=quoted)
            elif sign == "`":
                parts.append(self._backticks(quoted=quoted))
            elif quoted:
                raise self.unsupported("an unsupported expansion")
            else:
                parts.extend(self._quotation(sign))
        return tuple(parts)

    def _quotation(self, sign: str) -> list[Part]:
        """Parse a text in quotes, or an escaped character, in an operand that is not quoted itself."""
        if sign == "'":
            return [LiteralText(self._quoted_text("'"), quoted=True)]
        if sign == '"':
            self.at += 1
            return self.double_quoted()
        following = self.source[self.at + 1 : self.at + 2]
        if sign != "\\" or following in ("", "\n"):
            raise self.unsupported("an unsupported expansion")
        self.at += 2
        return [LiteralText(following, quoted=True)]

    def _slice(self) -> tuple[Part, ...]:
        """Parse `a:b` in `${x:a:b}`, and consume the closing brace."""
        parts: list[Part] = []
        while not self._skip_sign("}"):
            match = _SLICE_TEXT.match(self.source, self.at)
            if match is not None:
                parts.append(LiteralText(match.group(), quoted=True))
                self.at = match.end()
            elif self.source.startswith("$", self.at):
                self.dollar(parts, quoted=True)
            else:
                raise self.unsupported("an unsupported expansion")
        return tuple(parts)

    def arithmetic(self, end: str) -> tuple[Part, ...]:
        """Parse an arithmetic expression, and consume the parentheses that end it."""
        source = self.source
        parts: list[Part] = []
        open_ones = 0
        while True:
            match = _ARITHMETIC_TEXT.match(source, self.at)
            sign = source[self.at : self.at + 1]
            if match is not None:
                parts.append(LiteralText(match.group(), quoted=True))
                self.at = match.end()
            elif sign == "(":
                open_ones += 1
                parts.append(LiteralText("(", quoted=True))
                self.at += 1
            # Inside of the expression parentheses may be nested.
            elif sign == ")" and open_ones:
                open_ones -= 1
                parts.append(LiteralText(")", quoted=True))
                self.at += 1
            elif sign == ")" and self._skip_sign(end):
                return tuple(parts)
            elif sign == ";" and end == "))":
                parts.append(LiteralText(";", quoted=True))
                self.at += 1
            elif sign == "$":
                self.dollar(parts, quoted=True)
            else:
                raise self.unsupported("unsupported arithmetic")

    # ---- other quotes ------------------------------------------------------------------------------------------------

    def _ansi_c(self) -> LiteralText:
        """Parse `$'…'` from behind the dollar."""
        if self.is_posix:
            raise self.unsupported("$'…', which only bash supports")
        match = re.compile(r"'((?:[^'\\]|\\.)*)'", re.DOTALL).match(self.source, self.at)
        if match is None:
            raise self.unsupported("a quote is not closed")
        self.at = match.end()
        text = match.group(1)
        if "\\" not in text:
            return LiteralText(text, quoted=True)
        value = _C_ESCAPE.sub(_decode_escape, text)
        # A NUL ends the text in bash.
        if "\0" in value or "\ufffd" in value:
            raise self.unsupported("a character in $'…' that cannot be decoded")
        return LiteralText(value, quoted=True)

    def _backticks(self, *, quoted: bool) -> Substitution:
        source, start = self.source, self.at
        end = start + 1
        while source[end : end + 1] != "`":
            if end >= len(source):
                raise self.unsupported("backticks are not closed")
            end += 2 if source[end] == "\\" else 1
        text = source[start + 1 : end]
        # Backslashes are processed twice there, and shells differ in the order.
        if "\\" in text and quoted:
            raise self.unsupported("a backslash in backticks in double quotes")
        self.masked.append((start, end + 1))
        body = self.read_text(re.sub(r"\\([\\$`])", r"\1", text))
        self.at = end + 1
        return Substitution(body, quoted)


def _decode_escape(escape: re.Match[str]) -> str:
    sign, octal, hexadecimal, short, long, control = escape.groups()
    if sign is not None:
        return _C_SIGNS.get(sign, sign)
    if control is not None:
        return "\ufffd"
    code = int(octal, 8) & 255 if octal else int(hexadecimal or short or long, 16)
    # A byte above 127 is only a part of a character.
    is_valid = code < 128 or (code < 0xD800 and not octal and not hexadecimal)
    return chr(code) if is_valid else "\ufffd"
