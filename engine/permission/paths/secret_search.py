"""Programs that show the content of all files in a folder, some of which may hold secrets that no argument names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

from engine.permission.effects.scan_result import PathUse, ScannedCommand
from engine.permission.rules.path_pattern import PathPattern
from engine.permission.rules.profiles import NO_SECRETS, SECRETS

# These search all files of a folder by default.
_ALWAYS: Final = frozenset({"rg", "ag", "ack"})
_RECURSIVE_ON_REQUEST: Final = frozenset({"grep", "egrep", "fgrep", "zgrep", "diff"})
_UNTRACKED: Final = (("--no-ind", "--no-index"), ("--untr", "--untracked"))
_RECURSIVE_OPTIONS: Final = ("--recursive", "--dereference-recursive", "--directories=recurse")
# With one of these, `rg` and `ag` search hidden files too.
_HIDDEN: Final = ("--hidden", "--unr", "--no-ignore", "--all-types", "--all-text")
# Files checked per folder: walking more would delay the call.
_MAX_SEEN: Final = 50_000
# They are listed in a command line.
_MOST_SECRETS: Final = 500


def folders_searched(command: ScannedCommand, uses: tuple[PathUse, ...]) -> Iterator[str]:
    """Yield the folders whose files a command may show. It blocks."""
    name = (command.argv[0] or "").rpartition("/")[2]
    if command.remote or command.cwd is None or not _searches(name, command):
        return
    own = [use.path for use in uses if use.by.rpartition("/")[2] == name and not use.is_pattern]
    folders = [path for path in own if os.path.isdir(path)] if own else [command.cwd]  # noqa: PTH112
    yield from dict.fromkeys(folders)


def find_secrets(folder: str, command: ScannedCommand) -> Iterator[str | None]:
    """Yield the files below a folder that look like secrets; None: there are too many files to tell. It blocks."""
    has_hidden = _reads_hidden_files(command)
    seen = 0
    for above, folders, files in os.walk(folder):
        seen += len(folders) + len(files)
        if seen > _MAX_SEEN:
            yield None
            return
        if not has_hidden:
            # In place, so that `os.walk` skips them.
            folders[:] = [one for one in folders if not one.startswith(".")]
        for one in files:
            if (has_hidden or not one.startswith(".")) and _is_secret(one):
                yield os.path.join(above, one)  # noqa: PTH118 - of texts


def project_secrets(project: str) -> list[str]:
    """Return the files of a project that look like secrets, without those in very large folders. It blocks."""
    found: list[str] = []
    seen = 0
    for above, folders, files in os.walk(project):
        seen += len(folders) + len(files)
        if seen > _MAX_SEEN or len(found) > _MOST_SECRETS:
            break
        folders[:] = [one for one in folders if one != ".git"]
        # What a link leads to is hidden where it lies.
        found += [path for one in files if _is_secret(one) and not os.path.islink(path := os.path.join(above, one))]  # noqa: PTH114, PTH118
    return found


def _reads_hidden_files(command: ScannedCommand) -> bool:
    name = (command.argv[0] or "").rpartition("/")[2]
    return name not in _ALWAYS or any(
        word.startswith(_HIDDEN) or _has_flag(word, ".uaU") for word in command.argv[1:] if isinstance(word, str)
    )


def _searches(name: str, command: ScannedCommand) -> bool:
    words = [word for word in command.argv[1:] if isinstance(word, str)]
    if name in _ALWAYS:
        # Lists names only.
        return "--files" not in words
    if name == "git":
        # Otherwise it searches what was committed.
        return "grep" in words and any(map(_is_untracked, words))
    return name == "rgrep" or (name in _RECURSIVE_ON_REQUEST and any(map(_is_recursive, words)))


def _is_untracked(word: str) -> bool:
    # A long option may be shortened.
    return any(len(word) >= len(least) and option.startswith(word) for least, option in _UNTRACKED)


def _is_recursive(word: str) -> bool:
    # A long option may be shortened; `recurse` is the value of `--directories`.
    is_long = word[:2] == "--" and len(word) > len("--x")
    option, _, value = word.partition("=")
    if is_long and value and "--directories".startswith(option):
        return "recurse".startswith(value)
    return word == "recurse" or _has_flag(word, "rR") or (is_long and _begins_one(word, _RECURSIVE_OPTIONS))


def _begins_one(word: str, options: tuple[str, ...]) -> bool:
    return any(option.startswith(word) for option in options)


def _has_flag(word: str, letters: str) -> bool:
    """Return whether a word holds one of some one-letter options."""
    return word[:1] == "-" and word[:2] != "--" and any(letter in word for letter in letters)


# Cached by name: large trees repeat the same names in every folder.
@lru_cache(maxsize=10_000)
def _is_secret(name: str) -> bool:
    return any(one.matches(name) for one in _patterns(SECRETS)) and not any(
        one.matches(name) for one in _patterns(NO_SECRETS)
    )


@lru_cache(maxsize=2)
def _patterns(patterns: tuple[str, ...]) -> tuple[PathPattern, ...]:
    return tuple(PathPattern(one, "/", "/") for one in patterns)
