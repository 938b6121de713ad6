"""Lists and maps in front matter: those that agents' files have, and no more of YAML than that.

    tools: [read, "grep"]          tools:            permission:
    tools: { bash: false }           - read            edit: deny
                                     - grep            bash:
                                                         "git *": allow

Each leaf is a text. What is anything else of YAML is refused, with what it says.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from engine.files.front_matter import FrontMatterError

Value: TypeAlias = "str | tuple[Value, ...] | Mapping[str, Value]"

_MAX_DEPTH: Final = 5
_KEY: Final = re.compile(
    r"""(?:"((?:[^"\\]|\\.)*)"|'((?:[^']|'')*)'|([^\s"'\[\]{},#&|>%@`!-][^:#\[\]{},]*?))\s*:(?:\s+(.*))?"""
)
_ITEM: Final = re.compile(r"-(?:\s+(.*))?")
_TOKEN: Final = re.compile(r"""\s*(?:([\[\]{},])|("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')|([^\[\]{},\s][^\[\]{},]*))""")
_QUOTED: Final = re.compile(r"""("(?:[^"\\]|\\.)*"|'(?:[^']|'')*')(?:\s+#.*)?""")
_COMMENT: Final = re.compile(r"\s#.*")


@attrs.frozen
class _Line:
    indent: int
    text: str


def nested(value: str, below: Sequence[str]) -> Value:
    """Return what stands behind a key, and below it. Raises `FrontMatterError`."""
    if value.startswith(("[", "{")):
        return _Flow.of(" ".join([value, *below])).whole()
    if value and not value.startswith("#"):
        raise FrontMatterError(f"{value[:40]!r} is more YAML than can be read here")
    lines = [
        _Line(len(line) - len(line.lstrip(" ")), line.strip())
        for line in below
        if line.strip() and not line.lstrip().startswith("#")
    ]
    if any(line.startswith("\t") for line in below):
        raise FrontMatterError("it is indented by a tab, where YAML wants spaces")
    found, rest = _block(lines, 0)
    if rest:
        raise FrontMatterError(f"{rest[0].text[:40]!r} stands where it belongs to nothing")
    return found


def _block(lines: Sequence[_Line], depth: int) -> tuple[Value, Sequence[_Line]]:
    if depth > _MAX_DEPTH:
        raise FrontMatterError("it is nested too deeply")
    return _list(lines) if lines and _ITEM.fullmatch(lines[0].text) else _map(lines, depth)


def _list(lines: Sequence[_Line]) -> tuple[Value, Sequence[_Line]]:
    indent = lines[0].indent
    items: list[Value] = []
    for number, line in enumerate(lines):
        item = _ITEM.fullmatch(line.text)
        if line.indent != indent or item is None:
            return tuple(items), lines[number:]
        items.append(_leaf(item[1] or ""))
    return tuple(items), ()


def _map(lines: Sequence[_Line], depth: int) -> tuple[Value, Sequence[_Line]]:
    found: dict[str, Value] = {}
    indent = lines[0].indent if lines else 0
    while lines and lines[0].indent == indent:
        line, lines = lines[0], lines[1:]
        key = _KEY.fullmatch(line.text)
        if key is None:
            raise FrontMatterError(f"{line.text[:40]!r} is not of the form `name: value`")
        name = _named(key)
        if name in found:
            raise FrontMatterError(f"it names {name!r} again")
        if _leaf(key[4] or ""):
            found[name] = _leaf(key[4])
        elif lines and lines[0].indent > indent:
            found[name], lines = _block(lines, depth + 1)
        else:
            found[name] = ""
    return found, lines


def _named(key: re.Match[str]) -> str:
    if key[1] is not None:
        return re.sub(r"\\(.)", r"\1", key[1])
    return key[2].replace("''", "'") if key[2] is not None else key[3].strip()


def _leaf(text: str) -> Value:
    """Return what stands on one line, without what is said behind it."""
    quoted = _QUOTED.fullmatch(text)
    if quoted is not None:
        return _text(quoted[1])
    if text.startswith(("[", "{")):
        return _Flow.of(text).whole()
    return _text(_COMMENT.sub("", f" {text}"))


def _text(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        inner = text[1:-1]
        return re.sub(r"\\(.)", r"\1", inner) if text[0] == '"' else inner.replace("''", "'")
    if text[:1] in {"&", "*", "!", "|", ">", "%", "@", "`", '"', "'"} and text != "*":
        raise FrontMatterError(f"{text[:40]!r} is more YAML than can be read here")
    return text


@attrs.define(eq=False)
class _Flow:
    """A value in brackets, word by word."""

    words: list[str]
    at: int = 0

    @classmethod
    def of(cls, text: str) -> _Flow:
        words: list[str] = []
        at = 0
        while text[at:].strip() and not text[at:].lstrip().startswith("#"):
            found = _TOKEN.match(text, at)
            if found is None:
                raise FrontMatterError(f"{text[at : at + 40]!r} can't be read")
            words.append(found[1] or found[2] or found[3].strip())
            at = found.end()
        return cls(words)

    def whole(self) -> Value:
        """Return the value that all words are."""
        found = self._value(0)
        if self.at < len(self.words):
            raise FrontMatterError(f"{self.words[self.at][:40]!r} stands behind the end")
        return found

    def _next(self) -> str:
        if self.at == len(self.words):
            raise FrontMatterError("a bracket is not closed")
        self.at += 1
        return self.words[self.at - 1]

    def _value(self, depth: int) -> Value:
        if depth > _MAX_DEPTH:
            raise FrontMatterError("it is nested too deeply")
        word = self._next()
        if word == "[":
            return self._items(depth)
        if word == "{":
            return self._pairs(depth)
        if word in "]},":
            raise FrontMatterError(f"{word!r} stands where a value belongs")
        return _text(word)

    def _items(self, depth: int) -> tuple[Value, ...]:
        items: list[Value] = []
        while self._peek() != "]":
            items.append(self._value(depth + 1))
            if self._peek() != "]" and self._next() != ",":
                raise FrontMatterError("a comma is missing")
        self._next()
        return tuple(items)

    def _pairs(self, depth: int) -> Mapping[str, Value]:
        pairs: dict[str, Value] = {}
        while self._peek() != "}":
            name, value = self._pair(depth)
            pairs[name] = value
            if self._peek() != "}" and self._next() != ",":
                raise FrontMatterError("a comma is missing")
        self._next()
        return pairs

    def _pair(self, depth: int) -> tuple[str, Value]:
        """Return a name and its value: a plain name has the colon with it, a quoted one before the next word."""
        name = self._next()
        if name[:1] in {'"', "'"}:
            rest = self._next()
            if not rest.startswith(":"):
                raise FrontMatterError("a colon is missing")
            rest = rest[1:].strip()
        else:
            name, colon, rest = (part.strip() for part in name.partition(":"))
            if not colon:
                raise FrontMatterError("a colon is missing")
        return _text(name), _text(rest) if rest else self._value(depth + 1)

    def _peek(self) -> str:
        if self.at == len(self.words):
            raise FrontMatterError("a bracket is not closed")
        return self.words[self.at]
