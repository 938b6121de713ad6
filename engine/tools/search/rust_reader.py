"""Reading a pattern of Rust's from left to right: characters, escapes and brackets. A part of `engine.tools.search.rust_regex`."""

from __future__ import annotations

import re
from typing import Final

import attrs

from engine.tools.search.rust_classes import LAST, POSIX, SPACE, CharClass, complement

NEEDS_RIPGREP: Final = "can't be used here, because ripgrep is not installed"

_CONTROLS: Final = {"a": 7, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13}
_HEX_DIGITS: Final = {"x": 2, "u": 4, "U": 8}


class PatternError(ValueError):
    """A pattern that is wrong, or that can't be translated; the text says why and where."""


@attrs.define(eq=False)
class PatternReader:
    """A place in a pattern."""

    text: str
    at: int = attrs.field(default=0, init=False)

    def take(self, char: str) -> bool:
        """Go on behind *char*, if it stands here; return whether it does."""
        if self.text.startswith(char, self.at):
            self.at += 1
            return True
        return False

    def next(self, where: str) -> str:
        """Return the next character, of which *where* can't do without."""
        if self.at >= len(self.text):
            raise self.error(f"the pattern ends within {where}")
        self.at += 1
        return self.text[self.at - 1]

    def error(self, what: str) -> PatternError:
        """Return the error that this place is wrong."""
        return PatternError(f"{what} (at character {max(1, self.at)} of the pattern)")

    def shorthand(self, char: str) -> CharClass | None:
        r"""Return the class that `\d`, `\s`, `\w` and their opposites stand for; None for another character."""
        if char in "pP":
            raise self.error(f"\\{char} (Unicode classes) {NEEDS_RIPGREP}")
        if char in "dDwW":
            return CharClass(shorthands=[f"\\{char}"])
        if char in "sS":
            return CharClass(SPACE if char == "s" else complement(SPACE))
        return None

    def escaped_char(self) -> int:
        """Return the character that an escape stands for, inside of brackets or outside."""
        char = self.next("an escape")
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in _HEX_DIGITS:
            return self._hexadecimal(_HEX_DIGITS[char])
        if char in "0123456789":
            raise self.error("backreferences are not supported")
        if not char.isascii() or char.isalnum():
            raise self.error(f"unrecognized escape sequence \\{char}")
        return ord(char)

    def _hexadecimal(self, digits: int) -> int:
        match = re.compile(rf"\{{([0-9A-Fa-f]+)\}}|([0-9A-Fa-f]{{{digits}}})").match(self.text, self.at)
        code = int(match[1] or match[2], 16) if match else LAST + 1
        if match is None or code > LAST or 0xD800 <= code <= 0xDFFF:
            raise self.error("invalid hexadecimal escape")
        self.at = match.end()
        return code

    def brackets(self) -> tuple[CharClass, bool]:
        """Return the class that begins here, behind its opening bracket, and whether it is negated."""
        start = self.at
        negated = self.take("^")
        found = CharClass()
        while self.take("-"):
            found.ranges.append((45, 45))
        if not found.ranges and self.take("]"):
            found.ranges.append((93, 93))
        while not self.take("]"):
            if self.at >= len(self.text):
                self.at = start
                raise self.error("unclosed character class")
            self._member(found)
        return found, negated

    def _member(self, found: CharClass) -> None:
        if self.text.startswith(("&&", "--", "~~"), self.at):
            raise self.error(f"&&, -- and ~~ in brackets {NEEDS_RIPGREP}")
        if self.text[self.at] == "[":
            self._posix(found)
            return
        low = self._bound(found)
        if low is None:
            return
        # A hyphen before the closing bracket is itself; two are an operator, refused above.
        if self.text.startswith("-", self.at) and self.text[self.at + 1 : self.at + 2] not in {"]", "-", ""}:
            self.at += 1
            high = self._bound(None)
            if high is None or high < low:
                raise self.error("invalid character class range")
            found.ranges.append((low, high))
        else:
            found.ranges.append((low, low))

    def _bound(self, shorthands: CharClass | None) -> int | None:
        """Return one character; None for a shorthand, which is added to *shorthands*."""
        char = self.next("a class")
        if char == "[" and shorthands is None:
            raise self.error(f"classes within classes {NEEDS_RIPGREP}")
        if char != "\\":
            return ord(char)
        start = self.at
        shorthand = self.shorthand(self.next("an escape"))
        if shorthand is None:
            self.at = start
            return self.escaped_char()
        if shorthands is None:
            return None
        shorthands.ranges += shorthand.ranges
        shorthands.shorthands += shorthand.shorthands
        return None

    def _posix(self, found: CharClass) -> None:
        match = re.compile(r"\[:(\^?)([a-z]+):\]").match(self.text, self.at)
        if match is None or match[2] not in POSIX:
            raise self.error(f"classes within classes {NEEDS_RIPGREP}")
        self.at = match.end()
        ranges = POSIX[match[2]]
        found.ranges += complement(ranges) if match[1] else ranges
