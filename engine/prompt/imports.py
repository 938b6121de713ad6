"""Imports in instruction files, such as `@docs/style.md`: the syntax of other agents' files. Pure."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from typing import Final

# Nested imports. The same limit as Claude Code's.
MAX_HOPS: Final = 5
# Text files only. Another file (`@package.json`) is left to the model's tools, under the rules.
_SUFFIXES: Final = (".md", ".mdx", ".txt", ".rst")
# Examples in code blocks and code spans are not imports: `@decorator`, `npm i @scope/name.md`.
_FENCED: Final = re.compile(r"^[ ]{0,3}(`{3,}|~{3,}).*?(?:^[ ]{0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"(?<!`)(`+)(?!`)[^\n]*?(?<!`)\1(?!`)")
_MARKED: Final = re.compile(r"(?<!\S)@(\S+)")
# "See @docs/style.md." ends with a full stop, not with a file called `.md.`.
_TRAILING_PUNCTUATION: Final = ".,;:!?)]}\"'*_"


def find_imports(text: str, folder: str, home: str) -> list[str]:
    """Return the absolute paths that *text*, from a file in *folder*, imports; `~` is *home*."""
    return list(dict.fromkeys(_path(name, folder, home) for name in _names(text)))


def has_only_imports(text: str) -> bool:
    """Return whether a text consists of imports only."""
    names = set(_names(text))
    return bool(names) and all(word.startswith("@") and word[1:] in names for word in text.split())


def _names(text: str) -> Iterator[str]:
    if "@" not in text:  # a fast path: files are read before each request, and most have no imports
        return
    for match in _MARKED.finditer(_CODE.sub("", _FENCED.sub("", text))):
        name = match[1].rstrip(_TRAILING_PUNCTUATION)
        if name.endswith(_SUFFIXES) and name.isprintable():
            yield name


def _path(name: str, folder: str, home: str) -> str:
    whole = f"{home}{name[1:]}" if name.startswith("~/") else name
    return posixpath.normpath(posixpath.join(folder, whole))
