"""Find the line of each value in a TOML document, for error messages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from typing import Final, cast

import attrs

from engine.core.lazy import regex

# The keys and the indices that lead to a value.
TomlPath = tuple[str | int, ...]

_TOKEN: Final = regex(
    r'''(?P<text>"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')'''
    r"|(?P<space>[^\S\n]+|\#[^\n]*)"
    r"|(?P<mark>[\n\[\]{}=,.])"
    r"|(?P<word>[^\s\[\]{}=,.#\"']+)",
    re.DOTALL,
)


def value_lines(text: str) -> Mapping[TomlPath, int]:
    """Return the line of each value in a valid document, counted from 1; values that cannot be located are left out."""
    reader = _Reader(_tokens(text))
    try:
        reader.read()
    except (IndexError, RecursionError):  # it is not valid after all, which the TOML parser reports
        return {}
    return reader.lines


def _tokens(text: str) -> list[tuple[str, int]]:
    tokens: list[tuple[str, int]] = []
    line = 1
    for match in _TOKEN.finditer(text.replace("\r\n", "\n")):
        token = match.group()
        if match.lastgroup != "space":
            tokens.append((token, line))
        line += token.count("\n")
    return tokens


@attrs.define(eq=False, repr=False)
class _Reader:
    """Reads the tokens of a document."""

    tokens: list[tuple[str, int]]
    lines: dict[TomlPath, int] = attrs.field(init=False, factory=dict[TomlPath, int])
    _at: int = attrs.field(init=False, default=0)
    _tables: dict[TomlPath, int] = attrs.field(init=False, factory=dict[TomlPath, int])

    def read(self) -> None:
        """Read the whole document."""
        table: TomlPath = ()
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

    def _header(self) -> TomlPath:
        """Read `[a.b]`, or `[[a.b]]`, which adds a table to an array."""
        line = self.tokens[self._at][1]
        self._at += 1
        is_array = self._next() == "["
        self._at += is_array
        path: TomlPath = self._key("]")
        self._at += is_array
        if is_array:
            self._tables[path] = self._tables.get(path, -1) + 1
            path = (*path, self._tables[path])
        self.lines.setdefault(path, line)
        return path

    def _key(self, end: str) -> TomlPath:
        names: list[str] = []
        while (part := self._take()) != end:
            if part != ".":
                names.append(_text(part))
        return tuple(names)

    def _pair(self, table: TomlPath) -> None:
        path = table + self._key("=")
        self._value(path)

    def _value(self, path: TomlPath) -> None:
        first, self.lines[path] = self.tokens[self._at]
        if first == "[":
            self._items(path)
        elif first == "{":
            self._inline(path)
        else:
            self._plain()

    def _plain(self) -> None:
        """Read a value that is neither an array nor a table; a date or a number may be several tokens."""
        began = self._at
        while self._at < len(self.tokens) and self._next() not in {"\n", ",", "]", "}"}:
            self._at += 1
        if self._at == began:
            raise IndexError  # there is no value

    def _items(self, path: TomlPath) -> None:
        self._at += 1
        index = 0
        while self._next() != "]":
            if self._next() in {"\n", ","}:
                self._at += 1
            else:
                self._value((*path, index))
                index += 1
        self._at += 1

    def _inline(self, path: TomlPath) -> None:
        self._at += 1
        while self._next() != "}":
            if self._next() in {"\n", ","}:
                self._at += 1
            else:
                self._pair(path)
        self._at += 1


def _text(token: str) -> str:
    if token[0] not in "\"'":
        return token
    try:
        return cast("str", tomllib.loads(f"x = {token}")["x"])
    except tomllib.TOMLDecodeError:
        return token
