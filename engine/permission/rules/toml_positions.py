"""On which line of a TOML document each value begins, for words about what is wrong with it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Final, cast

import attrs

# The keys and the indices that lead to a value.
Place = tuple[str | int, ...]

_TOKEN: Final = re.compile(
    r'''(?P<text>"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')'''
    r"|(?P<space>[^\S\n]+|\#[^\n]*)"
    r"|(?P<mark>[\n\[\]{}=,.])"
    r"|(?P<word>[^\s\[\]{}=,.#\"']+)",
    re.DOTALL,
)


def lines_of(text: str) -> Mapping[Place, int]:
    """Return the line of each value of a valid document, counted from 1; what can't be placed is left out."""
    reader = _Reader(_tokens(text))
    try:
        reader.read()
    except (IndexError, RecursionError):  # it is no valid document after all: somebody else says so
        return {}
    return reader.lines


def _tokens(text: str) -> list[tuple[str, int]]:
    found: list[tuple[str, int]] = []
    line = 1
    for match in _TOKEN.finditer(text.replace("\r\n", "\n")):
        token = match.group()
        if match.lastgroup != "space":
            found.append((token, line))
        line += token.count("\n")
    return found


@attrs.define(eq=False)
class _Reader:
    """Reads the tokens of a document."""

    tokens: list[tuple[str, int]]
    lines: dict[Place, int] = attrs.field(init=False, factory=dict[Place, int])
    _at: int = attrs.field(init=False, default=0)
    _tables: dict[Place, int] = attrs.field(init=False, factory=dict[Place, int])

    def read(self) -> None:
        """Read all of it."""
        table: Place = ()
        while self._at < len(self.tokens):
            if self._next() == "\n":
                self._at += 1
            elif self._next() == "[":
                table = self._header()
            else:
                self._pair(table)

    def _next(self) -> str:
        return self.tokens[self._at][0]

    def _take(self) -> str:
        self._at += 1
        return self.tokens[self._at - 1][0]

    def _header(self) -> Place:
        """Read `[a.b]`, or `[[a.b]]`, which adds a table to an array."""
        line = self.tokens[self._at][1]
        self._at += 1
        is_array = self._next() == "["
        self._at += is_array
        place: Place = self._key("]")
        self._at += is_array
        if is_array:
            self._tables[place] = self._tables.get(place, -1) + 1
            place = (*place, self._tables[place])
        self.lines.setdefault(place, line)
        return place

    def _key(self, end: str) -> Place:
        names: list[str] = []
        while (part := self._take()) != end:
            if part != ".":
                names.append(_text(part))
        return tuple(names)

    def _pair(self, table: Place) -> None:
        place = table + self._key("=")
        self._value(place)

    def _value(self, place: Place) -> None:
        first, self.lines[place] = self.tokens[self._at]
        if first == "[":
            self._items(place)
        elif first == "{":
            self._inline(place)
        else:
            self._plain()

    def _plain(self) -> None:
        """Read what is neither an array nor a table: a date or a number may be several tokens."""
        began = self._at
        while self._at < len(self.tokens) and self._next() not in {"\n", ",", "]", "}"}:
            self._at += 1
        if self._at == began:
            raise IndexError  # there is no value

    def _items(self, place: Place) -> None:
        self._at += 1
        index = 0
        while self._next() != "]":
            if self._next() in {"\n", ","}:
                self._at += 1
            else:
                self._value((*place, index))
                index += 1
        self._at += 1

    def _inline(self, place: Place) -> None:
        self._at += 1
        while self._next() != "}":
            if self._next() in {"\n", ","}:
                self._at += 1
            else:
                self._pair(place)
        self._at += 1


def _text(token: str) -> str:
    if token[0] not in "\"'":
        return token
    try:
        return cast("str", tomllib.loads(f"x = {token}")["x"])
    except tomllib.TOMLDecodeError:
        return token
