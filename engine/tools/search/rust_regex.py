r"""Ripgrep's regular expressions in Python's dialect, for machines without ripgrep.

The syntax is that of Rust's `regex`, matching by lines, `\r\n` as a line end too. What
means the same is passed on, what is written differently is rewritten, and what Python
can't say is refused with a text that names it: an answer is ripgrep's or none.

The text to match was decoded with `surrogateescape`, and went through `seen_by_rust`: a
byte that is no UTF-8 is a lone surrogate, and nothing matches it, as in Rust. `\w`, `\d`
and `\b` go by Python's tables of Unicode, which differ from Rust's in combining marks and
in a few numerals.

Rejected: trusting to what both have in common. `a++`, `[[a]]`, `\Z`, `$` before a final
newline are valid in both and mean different things.
"""

from __future__ import annotations

import re
from typing import Final

import attrs

from engine.tools.search.rust_classes import AFTER_WORD, BYTES, NOT_TEXT, CharClass
from engine.tools.search.rust_reader import NEEDS_RIPGREP, PatternReader

MAX_DEPTH: Final = 100
MAX_REPEATS: Final = 100_000

_BEHIND: Final = rf"(?<=[\w{AFTER_WORD}])"
_NOT_BEHIND: Final = rf"(?<![\w{AFTER_WORD}])"
# Beside what is no text there is neither a half of an edge nor no edge.
_NEITHER_BEHIND: Final = rf"(?<![\w{AFTER_WORD}{BYTES}])"
_NEITHER_AHEAD: Final = rf"(?![\w{NOT_TEXT}])"
_EDGE: Final = rf"(?:{_BEHIND}(?!\w)|{_NOT_BEHIND}(?=\w))"
_NO_EDGE: Final = rf"(?:{_BEHIND}(?=\w)|{_NEITHER_BEHIND}{_NEITHER_AHEAD})"
_WORD_EDGES: Final = {
    "start": rf"{_NOT_BEHIND}(?=\w)",
    "end": rf"{_BEHIND}(?!\w)",
    "start-half": _NEITHER_BEHIND,
    "end-half": _NEITHER_AHEAD,
}
_NOT_BOTH: Final = "look-ahead and look-behind are not supported"


@attrs.frozen
class Translation:
    """A pattern for Python.

    Attributes:
        regex: the pattern.
        spans_lines: whether it has to do with line ends, so that a text can't be searched line by line.
    """

    regex: str
    spans_lines: bool


def translated(
    pattern: str, *, literal: bool = False, ignore_case: bool = False, multiline: bool = False
) -> Translation:
    """Return *pattern* in Python's dialect. Raises `PatternError`.

    Without *multiline* the result is for texts of one line each, with its end, which
    it never matches; with it for whole texts, and a dot matches line ends.
    """
    parser = _Parser(pattern, multiline, _Flags(ignore_case=ignore_case))
    regex = parser.literal() if literal else parser.whole()
    return Translation(regex, spans_lines=multiline and parser.sees_line_ends)


@attrs.frozen
class _Flags:
    """What `(?…)` has set."""

    ignore_case: bool = False
    dot_all: bool = True
    swap_greed: bool = False


@attrs.define(eq=False)
class _Parser(PatternReader):
    """Reads a pattern once and writes the translation."""

    multiline: bool
    flags: _Flags
    depth: int = 0
    names: set[str] = attrs.field(factory=set[str])
    sees_line_ends: bool = False

    def literal(self) -> str:
        """Return the text itself as an expression."""
        return "".join(self._char(ord(char)) for char in self.text)

    def whole(self) -> str:
        """Return the whole pattern as an expression."""
        translation = self._alternatives()
        if self.at < len(self.text):
            raise self.error("unopened group")
        return translation

    # -- the structure ---------------------------------------------------------------------

    def _alternatives(self) -> str:
        branches: list[str] = []
        while True:
            branches.append(self._sequence())
            if not self.take("|"):
                return "|".join(branches)

    def _sequence(self) -> str:
        items: list[str] = []
        can_repeat = False
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            if self.text[self.at] in "*+?{":
                if not can_repeat:
                    raise self.error("repetition operator missing expression")
                items[-1] = f"(?:{items[-1]}){self._repetition()}"
                continue
            item = self._item()
            can_repeat = item is not None
            if item is not None:
                items.append(item)
        return "".join(items)

    def _repetition(self) -> str:
        if self.take("{"):
            match = re.compile(r"([0-9]+)(,([0-9]*))?\}").match(self.text, self.at)
            if match is None:
                raise self.error("a repetition has the form {2}, {2,} or {2,5}; a plain brace is written \\{")
            self.at = match.end()
            low, high = int(match[1]), int(match[3] or match[1])
            if high < low or high > MAX_REPEATS:
                raise self.error("the counts of a repetition are the wrong way round, or too large")
            count = match[0].removesuffix("}")
            operator = f"{{{count}}}"
        else:
            operator = self.text[self.at]
            self.at += 1
        is_lazy = self.take("?")
        return operator + ("?" if is_lazy is not self.flags.swap_greed else "")

    def _item(self) -> str | None:
        """Return what stands here; None for flags, which match nothing and can't be repeated."""
        char = self.text[self.at]
        self.at += 1
        match char:
            case "(":
                return self._group()
            case "[":
                found, negated = self.brackets()
                return self._class_regex(found, negated=negated)
            case "\\":
                return self._escape()
            case ".":
                return self._any()
            case "^":
                self.sees_line_ends = True
                return r"(?:\A|(?<=\n)|(?<=\r)(?!\n))"
            case "$":
                self.sees_line_ends = True
                return r"(?:\Z|(?=\r)|(?<!\r)(?=\n))"
            case _:
                return self._char(ord(char))

    def _group(self) -> str | None:
        outer = self.flags
        if self.take("?") and not self._take_name():
            flags = self._flag_letters()
            if self.take(")"):
                self.flags = flags  # until the end of the group around it
                return None
            self.at += 1  # the colon
            self.flags = flags
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise self.error("too many groups in one another")
        inner = self._alternatives()
        if not self.take(")"):
            raise self.error("unclosed group")
        self.depth -= 1
        self.flags = outer
        return f"(?:{inner})"

    def _take_name(self) -> bool:
        """Take the name of a group, if it has one. What it captures is of no use here, so the name is dropped."""
        if self.text.startswith(("=", "!", "<=", "<!"), self.at):
            raise self.error(_NOT_BOTH)
        match = re.compile(r"P?<([A-Za-z_][A-Za-z0-9_.\[\]]*)>").match(self.text, self.at)
        if match is None:
            return False
        if match[1] in self.names:
            raise self.error("duplicate capture group name")
        self.names.add(match[1])
        self.at = match.end()
        return True

    def _flag_letters(self) -> _Flags:
        match = re.compile(r"([imsUuxR]*)(?:-([imsUuxR]+))?(?=[:)])").match(self.text, self.at)
        if match is None or (not match[0] and self.text[self.at] == ")"):
            raise self.error("unrecognized flag")
        on, off = match[1], match[2] or ""
        if len({*on, *off}) < len(on + off):
            raise self.error("duplicate flag")
        if "x" in on or not {"m", "u", "R"}.isdisjoint(off):
            raise self.error(f"the flags {match[0]} {NEEDS_RIPGREP}")
        self.at = match.end()
        return _Flags(
            ignore_case=_switched(self.flags.ignore_case, "i", on, off),
            dot_all=_switched(self.flags.dot_all, "s", on, off),
            swap_greed=_switched(self.flags.swap_greed, "U", on, off),
        )

    # -- characters ------------------------------------------------------------------------

    def _any(self) -> str:
        if self.multiline and self.flags.dot_all:
            self.sees_line_ends = True
            return f"[^{NOT_TEXT}]"
        return rf"[^\r\n{NOT_TEXT}]"

    def _char(self, code: int) -> str:
        char = chr(code)
        if char in "\r\n" and not self.multiline:
            raise self.error("a line end is not allowed here")
        self.sees_line_ends |= char == "\n"
        if not self.flags.ignore_case or char.lower() == char.upper():
            return re.escape(char)
        # Python's i has two more cases than Rust's: the Turkish ones.
        return "[iI]" if char in "iI" else f"(?i:{re.escape(char)})"

    def _escape(self) -> str:
        start = self.at
        char = self.next("an escape")
        if char in "bB<>":
            return self._word_edge(char)
        if char in "Az":
            raise self.error(f"\\{char} {NEEDS_RIPGREP}; use ^ or $")
        shorthand = self.shorthand(char)
        if shorthand is not None:
            return self._class_regex(shorthand, negated=False)
        self.at = start
        return self._char(self.escaped_char())

    def _word_edge(self, char: str) -> str:
        if char in "<>":
            return _WORD_EDGES["start" if char == "<" else "end"]
        if char == "B":
            return _NO_EDGE
        match = re.compile(r"\{([a-z-]+)\}").match(self.text, self.at)
        if match is None:
            return _EDGE
        if match[1] not in _WORD_EDGES:
            raise self.error("unrecognized word boundary")
        self.at = match.end()
        return _WORD_EDGES[match[1]]

    def _class_regex(self, found: CharClass, *, negated: bool) -> str:
        regex = found.regex(negated=negated, line_ends=self.multiline, ignore_case=self.flags.ignore_case)
        if regex is None:
            raise self.error("a line end is not allowed here")
        self.sees_line_ends |= self.multiline and re.match(regex, "\n") is not None
        return regex


def _switched(value: bool, letter: str, on: str, off: str) -> bool:  # noqa: FBT001 - a flag is what this is about
    return letter in on or (value and letter not in off)
