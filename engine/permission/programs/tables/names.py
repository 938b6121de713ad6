"""The names under which a program is looked up."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

# Folders in which only the system's administrator installs programs.
_SYSTEM: Final = frozenset(
    {
        "/bin",
        "/sbin",
        "/usr/bin",
        "/usr/sbin",
        "/usr/local/bin",
        "/usr/local/sbin",
        "/opt/homebrew/bin",
        "/usr/lib/git-core",
    }
)
_VERSION: Final = re.compile(r"[-.]?\d+(?:\.\d+)*[a-z]?$")
_LOADER: Final = re.compile(r"ld(?:-linux|-musl|64)?[\w.-]*\.so(?:\.\d+)*")


def base_name(path: str) -> str:
    """Return the last part of a program's path."""
    return path.rstrip("/").rpartition("/")[2]


def is_trusted_place(path: str) -> bool:
    """Return whether a program is really the one its name suggests: found by PATH, or in a system folder."""
    folder, slash, _ = path.rpartition("/")
    return not slash or folder in _SYSTEM


def names_for(name: str) -> Iterator[str]:
    """Yield the names to look a program up by: its own, without `.exe`, without a version."""
    yield name
    plain = name.lower().removesuffix(".exe")
    if plain != name:
        yield plain
    if _LOADER.fullmatch(plain):
        yield "ld.so"
    short = _VERSION.sub("", plain)
    if short not in {plain, ""}:
        yield short
    if plain.startswith("git-"):
        yield "git-"


def words_of(text: str) -> frozenset[str]:
    """Return the words of a text as a set."""
    return frozenset(text.split())
