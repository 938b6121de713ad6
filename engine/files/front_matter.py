"""The front matter of a Markdown file: the YAML between two `---` lines at its start.

It is split into its top-level keys here, and each value is parsed by itself: a field that another
program needs, and that is not used here, can't make the file unusable. Texts are parsed at once,
lists and maps when they are read. Everything is text: `on`, `no` and `1.0` stay what they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from engine.files.yaml_text import Value

_KEY: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):(?:[ \t]+(.*))?")
# Most values: one line of text that YAML would return as it stands. PyYAML is slow, and needs to be imported.
_PLAIN: Final = re.compile(r"[^\s\[\]{}&*!%@`?|>'\"#,:-](?:[^#]|(?<![ \t])#)*")
# How a value begins that is no text, or is one that YAML alone can tell: lists, maps, aliases, tags.
_NO_TEXT: Final = re.compile(r"[\[{&!%@`?]|\*[\w-]+[ \t]*(?:#.*)?\Z")


class FrontMatterError(Exception):
    """There is none, or it can't be read."""


@attrs.frozen
class YamlSource:
    """A key with its value, as YAML.

    Attributes:
        key: the key.
        text: the lines, the key among them.
        line: the number of the first one in the file.
    """

    key: str
    text: str
    line: int

    def parse(self) -> Value:
        """Return the value. Raises `FrontMatterError`."""
        # Imported here: most files need no YAML.
        from engine.files.yaml_text import YamlTextError, parse_yaml

        if "\n\t" in self.text:
            raise FrontMatterError(f"{self.key} is indented by a tab, where YAML needs spaces")
        try:
            parsed = parse_yaml(self.text)
        except YamlTextError as error:
            line = self.line + error.line
            raise FrontMatterError(f"line {line} of its front matter can't be read: {error}") from error
        assert isinstance(parsed, Mapping)  # the text begins with a key
        return parsed[self.key]


@attrs.frozen
class Document:
    """A file with front matter.

    Attributes:
        fields: the keys whose values are texts.
        body: what follows the front matter.
        others: the other keys, not parsed yet.
    """

    fields: Mapping[str, str]
    body: str
    others: Mapping[str, YamlSource] = attrs.field(factory=dict[str, YamlSource])


def parse_document(text: str) -> Document:
    """Split *text* into front matter and body. Raises `FrontMatterError`."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    end = _last_line(lines)
    fields: dict[str, str] = {}
    others: dict[str, YamlSource] = {}
    for source, value in _entries(lines[1:end]):
        if source.key in fields or source.key in others:
            raise FrontMatterError(f"line {source.line} of its front matter names {source.key} again")
        is_nested = (not value or value.startswith("#")) and "\n" in source.text
        if is_nested or _NO_TEXT.match(value):
            others[source.key] = source
        else:
            fields[source.key] = _text(source, value)
    return Document(fields, "\n".join(lines[end + 1 :]).strip(), others)


def _last_line(lines: Sequence[str]) -> int:
    """Return the index of the line that ends the front matter. Raises `FrontMatterError`."""
    if lines[0].rstrip() != "---":
        raise FrontMatterError("it does not begin with a line ---")
    for index, line in enumerate(lines[1:], start=1):
        if line.rstrip() in {"---", "..."}:
            return index
    raise FrontMatterError("its front matter has no end: a second line --- is missing")


def _entries(lines: Sequence[str]) -> Iterator[tuple[YamlSource, str]]:
    """Yield each top-level key with the lines below it, and what stands behind it on its own line."""
    at = 0
    while at < len(lines):
        line, number = lines[at].rstrip(), at + 2
        at += 1
        if not line or line.startswith("#"):
            continue
        match = _KEY.fullmatch(line)
        if match is None:
            raise FrontMatterError(f"line {number} of its front matter is not of the form `name: text`")
        start = at
        while at < len(lines) and (not lines[at].strip() or lines[at][0] in " \t" or lines[at].startswith("- ")):
            at += 1
        text = "\n".join([line, *lines[start:at]]).rstrip()
        yield YamlSource(match[1], text, number), (match[2] or "").strip()


def _text(source: YamlSource, value: str) -> str:
    if "\n" not in source.text:
        if not value or value.startswith("#"):
            return ""
        if _PLAIN.fullmatch(value):
            return value
    parsed = source.parse()
    if not isinstance(parsed, str):
        raise FrontMatterError(f"line {source.line} of its front matter is no text")
    return parsed
