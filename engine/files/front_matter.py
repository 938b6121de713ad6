"""The front matter of a markdown file: the lines between two `---` at its beginning, as texts by name.

It is YAML to look at, and a small subset of it to read: top-level keys with plain,
quoted or block texts. What is nested under a key, and lists, are kept as they stand, for
who wants to read them. What
could be meant in more than one way is refused, with the number of its line. (A parser
of all of YAML would be a dependency, for two texts; and most of what it reads is a
trap: `no` for False, aliases that grow.)
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

import attrs

_KEY: Final = re.compile(r"([A-Za-z][A-Za-z0-9_-]*):(?:[ \t]+(.*))?")
_BLOCK: Final = re.compile(r"([|>])[+-]?[ \t]*(?:#.*)?")
_COMMENT: Final = re.compile(r"[ \t]#.*")
# How what is not a plain text begins: lists, maps, aliases, tags.
_OTHER: Final = tuple("[{&*!%@`?")


class FrontMatterError(Exception):
    """There is none, or it can't be read."""


@attrs.frozen
class Document:
    """A file with front matter.

    Attributes:
        fields: texts by name; a name whose value is no text is not among them.
        body: what follows.
        others: of each name whose value is no text, what stands behind it, and the lines below.
    """

    fields: Mapping[str, str]
    body: str
    others: Mapping[str, tuple[str, tuple[str, ...]]] = attrs.field(factory=dict[str, tuple[str, tuple[str, ...]]])


def parse_document(text: str) -> Document:
    """Return the front matter of *text*, and what follows it. Raises `FrontMatterError`."""
    lines = text.removeprefix("\ufeff").replace("\r\n", "\n").split("\n")
    if lines[0].rstrip() != "---":
        raise FrontMatterError("it does not begin with a line ---")
    end = next((n for n, line in enumerate(lines) if n > 0 and line.rstrip() in {"---", "..."}), None)
    if end is None:
        raise FrontMatterError("its front matter has no end: a second line --- is missing")
    fields, others = _fields(lines[1:end])
    return Document(fields, "\n".join(lines[end + 1 :]).strip(), others)


def _fields(lines: Sequence[str]) -> tuple[dict[str, str], dict[str, tuple[str, tuple[str, ...]]]]:
    fields: dict[str, str] = {}
    others: dict[str, tuple[str, tuple[str, ...]]] = {}
    seen: set[str] = set()
    at = 0
    while at < len(lines):
        line = lines[at].rstrip()
        number = at + 2
        at += 1
        if not line or line.startswith("#"):
            continue
        found = _KEY.fullmatch(line)
        if found is None:
            raise FrontMatterError(f"line {number} of its front matter is not of the form `name: text`")
        name, value = found[1], (found[2] or "").strip()
        if name in seen:
            raise FrontMatterError(f"line {number} of its front matter names {name} again")
        seen.add(name)
        begin = at
        while at < len(lines) and (not lines[at].strip() or lines[at][0] in " \t" or lines[at].startswith("- ")):
            at += 1
        text = _text(value, lines[begin:at], number)
        if text is not None:
            fields[name] = text
        else:
            others[name] = value, tuple(lines[begin:at])
    return fields, others


def _text(value: str, below: Sequence[str], number: int) -> str | None:
    """Return the text that a key has; None if what it has is no text."""
    block = _BLOCK.fullmatch(value)
    if block is not None:
        return _block(below, is_folded=block[1] == ">")
    if value.startswith("#"):
        value = ""
    if value.startswith(_OTHER) or (not value and any(line.strip() for line in below)):
        return None
    whole = " ".join([value, *(line.strip() for line in below if line.strip())])
    if whole.startswith(('"', "'")):
        return _quoted(whole, number)
    return " ".join(
        [_COMMENT.sub("", value), *(_COMMENT.sub("", f" {line.strip()}").strip() for line in below)]
    ).strip()


def _block(lines: Sequence[str], *, is_folded: bool) -> str:
    first = next((line for line in lines if line.strip()), "")
    indent = len(first) - len(first.lstrip(" "))
    cut = [line[indent:].rstrip() if line[:indent].isspace() or not line.strip() else line.strip() for line in lines]
    if not is_folded:
        return "\n".join(cut).strip("\n")
    paragraphs = "\n".join(cut).strip("\n").split("\n\n")
    return "\n".join(" ".join(paragraph.split("\n")) for paragraph in paragraphs)


def _quoted(text: str, number: int) -> str:
    quote = text[0]
    pattern = r'"(?:[^"\\]|\\.)*"' if quote == '"' else r"'(?:[^']|'')*'"
    found = re.match(pattern, text)
    rest = "" if found is None else text[found.end() :].strip()
    if found is None or (rest and not rest.startswith("#")):
        raise FrontMatterError(f"line {number} of its front matter has a {quote} that does not enclose the whole text")
    if quote == "'":
        return found[0][1:-1].replace("''", "'")
    try:
        return str(json.loads(found[0].replace("\t", "\\t")))
    except ValueError as error:
        raise FrontMatterError(f"line {number} of its front matter has an escape that is not known") from error
