r"""Patterns for commands and names: `*` is any text, `?` one character, all else is literal.

`*` matches slashes and line ends too, and a pattern must match the whole text. A ` *` at the
end is optional: `ls *` matches `ls` and `ls -la`, not `lsof`. `[*]` and `[?]` are a literal
star and question mark; `exact` writes them.

A text may contain U+FFFC for a part that is unknown until it runs: any text, possibly empty,
possibly with spaces. Then there are two questions: does a pattern match *whatever it is* (what
an "allow" needs), and *could* it match (what "ask" and "deny" need)?

Both take at worst a step for each character of the text, times the pattern's length: the first
is a regular expression that does not backtrack over stars, the second runs all states at once,
as the bits of a number.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import attrs

from engine.core.errors import ConfigError
from engine.core.lazy import regex
from engine.core.permission_types import UNKNOWN

# Commands may be long; a grant of one is a pattern.
MAX_PATTERN_CHARS: Final = 100_000
# Each star multiplies the work of matching.
MAX_STARS: Final = 100

_STAR: Final = "*"
_ANY: Final = "?"
_ELEMENT: Final = regex(r"\[[*?]\]|.", re.DOTALL)
# Stands for "any one character" where a pattern is treated as a text; no file name and no command contains it.
_ONE: Final = "\ufdd0"


def exact(text: str) -> str:
    """Return a pattern that matches *text* alone."""
    return re.sub(r"[*?]", r"[\g<0>]", text)


@attrs.define(eq=False, repr=False)
class Wildcard:
    """A compiled pattern. Raises `ConfigError` for one that is too long.

    Attributes:
        pattern: as it was written.
        head: the plain text that every match begins with.
        tail: the plain text that every match ends with.
        needle: a plain text that every match contains after the head.
        is_plain: whether it matches only one text, `head`.
        is_open: whether it begins and ends with a star.
    """

    pattern: str
    head: str = attrs.field(init=False)
    tail: str = attrs.field(init=False)
    needle: str = attrs.field(init=False)
    is_plain: bool = attrs.field(init=False)
    is_open: bool = attrs.field(init=False)
    _regex: re.Pattern[str] | None = attrs.field(init=False, repr=False, default=None)
    _machine: _Machine | None = attrs.field(init=False, repr=False, default=None)

    def __attrs_post_init__(self) -> None:
        if len(self.pattern) > MAX_PATTERN_CHARS:
            raise ConfigError(f"a pattern may have {MAX_PATTERN_CHARS:,} characters, not {len(self.pattern):,}")
        elements = _elements(self.pattern)
        if elements.count(_STAR) > MAX_STARS:
            raise ConfigError(f"a pattern may have {MAX_STARS} stars, not {elements.count(_STAR):,}")
        # " *" at the end is optional, so it is not required text.
        required = elements[:-2] if _is_optional(elements) else elements
        runs = _runs(required)
        self.head, self.tail, self.needle = (
            runs[0],
            runs[-1] if required is elements else "",
            max(runs[1:], key=len, default=""),
        )
        self.is_plain = not (_STAR in elements or _ANY in elements)
        self.is_open = elements[:1] == [_STAR] == elements[-1:]

    def matches(self, text: str) -> bool:
        """Return whether it matches *text*, no matter what the unknown parts are."""
        if self.is_plain:
            return text == self.head and UNKNOWN not in text
        # Compiled at first use: most patterns are never tried.
        regex = self._regex or self._compiled()
        return regex.match(text) is not None

    def may_match(self, text: str) -> bool:
        """Return whether it matches *text* for some value of the unknown parts."""
        if UNKNOWN not in text:
            return self.matches(text)
        if self.is_open:
            return True
        if self._machine is None:
            self._machine = _Machine.of(_elements(self.pattern))
        return self._machine.accepts(text)

    def covers(self, other: Wildcard) -> bool:
        """Return whether it certainly matches everything that *other* matches; in doubt, False."""
        if self.pattern == other.pattern:
            return True
        # The sign that stands for "?" is in the pattern itself: no answer is safe.
        if _ONE in self.pattern:
            return False
        elements = _elements(other.pattern)
        # It covers the other pattern if it matches that pattern's most general text.
        widest = _as_text(elements)
        shortest = _as_text(elements[:-2]) if _is_optional(elements) else widest
        return self.matches(widest) and self.matches(shortest)

    def overlaps(self, other: Wildcard) -> bool:
        """Return whether a text may match both; in doubt, True."""
        elements = _elements(other.pattern)
        shapes = [elements, elements[:-2]] if _is_optional(elements) else [elements]
        return any(self.may_match(_as_text(shape).replace(_ONE, UNKNOWN)) for shape in shapes)

    def _compiled(self) -> re.Pattern[str]:
        self._regex = re.compile(_expression(_elements(self.pattern)), re.DOTALL)
        return self._regex


@lru_cache(maxsize=256)
# For permissions and other short patterns that are compiled again and again.
def wildcard(pattern: str) -> Wildcard:
    """Return *pattern* compiled; the latest ones are cached."""
    return Wildcard(pattern)


def matches(pattern: str, text: str) -> bool:
    """Return whether *pattern* matches *text*, no matter what the unknown parts are."""
    return wildcard(pattern).matches(text)


def may_match(pattern: str, text: str) -> bool:
    """Return whether *pattern* matches *text* for some value of the unknown parts."""
    return wildcard(pattern).may_match(text)


# An element is `*`, `?`, or a plain character; a plain star is `[*]`.
def _elements(pattern: str) -> list[str]:
    elements: list[str] = []
    for element in _ELEMENT.findall(pattern):
        # Two stars in a row mean the same as one.
        if element != _STAR or elements[-1:] != [_STAR]:
            elements.append(element)
    return elements


def _plain(element: str) -> str:
    return element if len(element) == 1 else element[1]


def _is_optional(elements: list[str]) -> bool:
    return elements[-2:] == [" ", _STAR]


def _as_text(elements: list[str]) -> str:
    texts = {_STAR: UNKNOWN, _ANY: _ONE}
    return "".join(texts.get(element) or _plain(element) for element in elements)


def _runs(elements: list[str]) -> list[str]:
    """Return the plain texts between the wildcards, empty ones among them."""
    runs = [""]
    for element in elements:
        if element in {_STAR, _ANY}:
            runs.append("")
        else:
            runs[-1] += _plain(element)
    return runs


def _expression(elements: list[str]) -> str:
    if _is_optional(elements):
        return rf"{_sequence(elements[:-2])}(?: .*)?\Z"
    return rf"{_sequence(elements)}\Z"


def _sequence(elements: list[str]) -> str:
    parts = [""]
    for element in elements:
        if element == _STAR:
            parts.append("")
        else:
            parts[-1] += _one(element)
    first, *rest = parts
    if not rest:
        return first
    *middle, last = rest
    # Between two stars the first match is as good as any other.
    return first + "".join(f"(?>.*?{part})" for part in middle) + ".*" + last


def _one(element: str) -> str:
    if element == _ANY:
        return f"[^{UNKNOWN}]"
    # A literal never certainly matches an unknown part.
    return "(?!)" if element == UNKNOWN else re.escape(_plain(element))


@attrs.frozen(eq=False, repr=False)
class _Machine:
    """A pattern as an automaton: bit *i* is set when its first *i* elements match what was read.

    Attributes:
        by_char: the elements that match a character, for characters in the pattern.
        any: the elements that match any one character.
        stars: the elements that match any text.
        final: the states in which the pattern has matched.
        full: all bits.
    """

    by_char: Mapping[str, int]
    any: int
    stars: int
    final: int
    full: int

    @classmethod
    def of(cls, elements: list[str]) -> _Machine:
        """Return the automaton of a pattern without two stars in a row."""
        anything = sum(1 << at for at, element in enumerate(elements) if element == _ANY)
        by_char: dict[str, int] = {}
        for at, element in enumerate(elements):
            if element not in {_STAR, _ANY}:
                char = _plain(element)
                by_char[char] = by_char.get(char, anything) | 1 << at
        return cls(
            by_char=by_char,
            any=anything,
            stars=sum(1 << at for at, element in enumerate(elements) if element == _STAR),
            # Also before a " *" at the end, which is optional.
            final=1 << len(elements) | (1 << len(elements) - 2 if _is_optional(elements) else 0),
            full=(2 << len(elements)) - 1,
        )

    def accepts(self, text: str) -> bool:
        """Return whether the pattern may match *text*."""
        by_char, anything, stars = self.by_char, self.any, self.stars
        states = 1 | (stars & 1) << 1
        for char in text:
            if char == UNKNOWN:
                # It may match any number of elements: every state after the first one is reached.
                states = self.full & -(states & -states)
            else:
                states = (states & by_char.get(char, anything)) << 1 | (states & stars)
                states |= (states & stars) << 1
            if not states:
                return False
        return bool(states & self.final)
