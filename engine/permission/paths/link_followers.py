"""Programs that walk folders and follow the links in them: their arguments do not show where those links lead."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

from engine.files.real_path import Unclear, is_within, real_path
from engine.permission.effects.program_effects import WordPrefix
from engine.permission.effects.scan_result import Scan, ScannedCommand

# By program: the letters and the long options that make it follow links.
_OPTIONS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "cp": ("L", ("--dereference",)),
    "diff": ("r", ("--recursive",)),
    "du": ("L", ("--dereference",)),
    "egrep": ("R", ("--dereference-recursive",)),
    "fd": ("L", ("--follow",)),
    "fdfind": ("L", ("--follow",)),
    "fgrep": ("R", ("--dereference-recursive",)),
    "find": ("L", ("-follow",)),
    "grep": ("R", ("--dereference-recursive",)),
    "ls": ("L", ("--dereference",)),
    "rg": ("L", ("--follow",)),
    "rsync": ("LkK", ("--copy-links", "--copy-dirlinks", "--copy-unsafe-links", "--keep-dirlinks")),
    "tar": ("h", ("--dereference",)),
}
# Entries of a folder; beyond this, it counts as containing a link that leads out.
MAX_SEEN: Final = 20_000


def programs_following_links(scan: Scan) -> frozenset[str]:
    """Return the names of the programs in a script that follow links."""
    return frozenset(
        (command.argv[0] or "").rpartition("/")[2] for command in scan.commands if command.argv and _follows(command)
    )


def risk_of_links(program: str, path: str, project: str) -> str:
    """Return why a program that follows links may leave the project from a folder; empty if it can't. It blocks."""
    real = real_path(path)
    if isinstance(real, Unclear) or not is_within(real.path, project):
        return ""  # the folder itself is judged already
    seen = 0
    for folder, folders, files in os.walk(real.path):
        seen += len(folders) + len(files)
        if seen > MAX_SEEN:
            return (
                f"{program} follows links, and {real.path} contains too many files to look for links out of the project"
            )
        for name in (*folders, *files):
            if _links_outside(link := os.path.join(folder, name), project):  # noqa: PTH118
                return link_reason(program, link, "the project")
    return ""


def link_reason(program: str, link: str, left: str) -> str:
    """Return the reason that a link takes a program out of a folder."""
    return f"{program} follows links, and {link} leads out of {left}"


def _links_outside(path: str, project: str) -> bool:
    if not os.path.islink(path):  # noqa: PTH114
        return False
    real = real_path(path)
    return isinstance(real, Unclear) or not is_within(real.path, project)


def _follows(command: ScannedCommand) -> bool:
    options = _OPTIONS.get((command.argv[0] or "").rpartition("/")[2])
    if options is None:
        return False
    letters, words = options
    return any(_is_link_option(word, letters, words) for word in _option_words(command))


def _option_words(command: ScannedCommand) -> Iterator[str]:
    for place, word in enumerate(command.argv[1:]):
        if word is None or isinstance(word, WordPrefix):
            continue
        # `tar chf x` means `tar -chf x`.
        yield f"-{word}" if place == 0 and command.argv[0] == "tar" and not word.startswith("-") else word


def _is_link_option(word: str, letters: str, words: tuple[str, ...]) -> bool:
    if word.startswith("--"):
        # Long options may be abbreviated.
        return len(word) > len("--x") and any(one.startswith(word) for one in words)
    return word in words or (word.startswith("-") and any(letter in word for letter in letters))
