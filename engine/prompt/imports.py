"""What an instruction file brings in: `@docs/style.md`, as people write it for other harnesses. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

# Of one that is brought in by another one, and so on.
MAX_HOPS: Final = 5
# Texts for people. Anything else that a file names (`@package.json`) a model may read with its tools, as rules allow.
_SUFFIXES: Final = (".md", ".mdx", ".txt", ".rst")
_FENCED: Final = re.compile(r"^[ ]{0,3}(`{3,}|~{3,}).*?(?:^[ ]{0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"(?<!`)(`+)(?!`)[^\n]*?(?<!`)\1(?!`)")
_MARKED: Final = re.compile(r"(?<!\S)@(\S+)")
_BEHIND: Final = ".,;:!?)]}\"'*_"


def imported(text: str, folder: str, home: str) -> list[str]:
    """Return the absolute paths of the files that *text*, of a file in *folder*, brings in; `~` is *home*."""
    return list(dict.fromkeys(_path(name, folder, home) for name in _names(text)))


def is_nothing_else(text: str) -> bool:
    """Tell whether a text brings in other files, and says nothing of its own."""
    names = set(_names(text))
    return bool(names) and all(word.startswith("@") and word[1:] in names for word in text.split())


def _names(text: str) -> Iterator[str]:
    if "@" not in text:  # as in most of them, and they are read before each request
        return
    for found in _MARKED.finditer(_CODE.sub("", _FENCED.sub("", text))):
        name = found[1].rstrip(_BEHIND)
        if name.endswith(_SUFFIXES) and name.isprintable():
            yield name


def _path(name: str, folder: str, home: str) -> str:
    whole = f"{home}{name[1:]}" if name.startswith("~/") else name
    return posixpath.normpath(posixpath.join(folder, whole))
