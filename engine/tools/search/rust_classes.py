r"""Classes of characters: Rust's, written for Python. A part of `engine.tools.search.rust_regex`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import attrs

Ranges = list[tuple[int, int]]

LAST: Final = 0x10FFFF
# What stands for a byte that is no text: as `surrogateescape` decodes it, or a sign of our own (`seen_by_rust`).
NOT_TEXT: Final = r"\ud800-\udfff"
BYTES: Final = r"\udc80-\udcff"
AFTER_WORD: Final = r"\ud880-\ud8bf"

_STRAY: Final = re.compile(r"([^\ud800-\udfff])([\udc80-\udcbf]{1,3})")
_ENCODED_BYTES: Final = 4
_SURROGATES: Final = (0xD800, 0xDFFF)
_LINE_ENDS: Final = ((10, 10), (13, 13))
_UPPER: Final = (65, 90)
_LOWER: Final = (97, 122)
_DIGIT: Final = (48, 57)

SPACE: Final[Ranges] = [
    *((9, 13), (32, 32), (0x85, 0x85), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x2028, 0x2029)),
    *((0x202F, 0x202F), (0x205F, 0x205F), (0x3000, 0x3000)),
]
POSIX: Final[dict[str, Ranges]] = {
    "alnum": [_DIGIT, _UPPER, _LOWER],
    "alpha": [_UPPER, _LOWER],
    "ascii": [(0, 127)],
    "blank": [(9, 9), (32, 32)],
    "cntrl": [(0, 31), (127, 127)],
    "digit": [_DIGIT],
    "graph": [(33, 126)],
    "lower": [_LOWER],
    "print": [(32, 126)],
    "punct": [(33, 47), (58, 64), (91, 96), (123, 126)],
    "space": [(9, 13), (32, 32)],
    "upper": [_UPPER],
    "word": [_DIGIT, _UPPER, (95, 95), _LOWER],
    "xdigit": [_DIGIT, (65, 70), (97, 102)],
}


@attrs.define
class CharClass:
    """A class: code points, and shorthands that only Python can spell out.

    Attributes:
        ranges: the code points, from the first to the last of each range.
        shorthands: of `d`, `D`, `w`, `W`, each with its backslash.
    """

    ranges: Ranges = attrs.field(factory=list[tuple[int, int]])
    shorthands: list[str] = attrs.field(factory=list[str])

    def regex(self, *, negated: bool, line_ends: bool, ignore_case: bool) -> str | None:
        """Return the class for Python; None if nothing is left in it.

        Bytes that are no text are in no class, not even in a negated one; line ends
        only with *line_ends*.
        """
        ranges = _without(self.ranges, [_SURROGATES] if line_ends else [_SURROGATES, *_LINE_ENDS])
        if not (ranges or self.shorthands or negated):
            return None
        never = NOT_TEXT if line_ends else rf"\r\n{NOT_TEXT}"
        members = "".join(f"{_code(low)}-{_code(high)}" for low, high in ranges) + "".join(self.shorthands)
        if negated:
            regex = f"[^{members}{never}]"
        elif {r"\D", r"\W"}.isdisjoint(self.shorthands):
            regex = f"[{members}]"
        else:
            regex = f"(?![{never}])[{members}]"
        if not ignore_case:
            return regex
        # Python's i has two more cases than Rust's: the Turkish ones.
        if self.shorthands or any(low <= code <= high for low, high in ranges for code in (0x130, 0x131)):
            return f"(?i:{regex})"
        return rf"(?:[\u0130\u0131]|(?i:{regex}))" if negated else rf"(?![\u0130\u0131])(?i:{regex})"


def seen_by_rust(text: str) -> str:
    r"""Return *text*, which was decoded with `surrogateescape`, as Rust sees it when it looks back for a boundary of a word.

    It goes back over as many as three bytes that go on with a character, to one that
    begins a character; and takes that for the last one, whether all of them belong to it
    or not. So stray bytes hide no character before them: here they become other
    surrogates, which tell whether that is one of a word. (At the beginning of a line
    ripgrep may or may not see the line end before, according to what it has found so far.)
    """
    return _STRAY.sub(_marked, text)


def _marked(match: re.Match[str]) -> str:
    char, stray = match[1], match[2]
    hidden = _ENCODED_BYTES - len(char.encode())
    step = 0x400 if re.match(r"\w", char) else 0x300
    return char + "".join(chr(ord(byte) - step) for byte in stray[:hidden]) + stray[hidden:]


def complement(ranges: Sequence[tuple[int, int]]) -> Ranges:
    """Return the code points that are in none of *ranges*."""
    found: Ranges = []
    start = 0
    for low, high in sorted(ranges):
        if low > start:
            found.append((start, low - 1))
        start = max(start, high + 1)
    return [*found, (start, LAST)] if start <= LAST else found


def _without(ranges: Sequence[tuple[int, int]], others: Sequence[tuple[int, int]]) -> Ranges:
    return complement([*complement(ranges), *others])


def _code(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\U{code:08x}"
