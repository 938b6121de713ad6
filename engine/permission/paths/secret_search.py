"""Programs that show what is in files that no argument names, some of which may hold secrets."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Final, Literal

from engine.files.real_path import Unclear, followed, is_within
from engine.permission.effects.program_effects import WordPrefix
from engine.permission.effects.scan_result import ListedFiles, PathUse, ScannedCommand
from engine.permission.paths.git_index import tracked_files
from engine.permission.paths.link_followers import link_reason
from engine.permission.programs.program_registry import DEFAULT_REGISTRY
from engine.permission.programs.table_analysis import parse_words
from engine.permission.rules.path_pattern import PathPattern
from engine.permission.rules.profiles import NO_SECRETS, SECRETS

# Which links a command follows that no argument names: none; those to files; those to folders, too.
Follows = Literal["none", "files", "all"]
# These search all files of a folder by default.
_ALWAYS: Final = frozenset({"rg", "ag", "ack"})
_RECURSIVE_ON_REQUEST: Final = frozenset({"grep", "egrep", "fgrep", "zgrep", "diff"})
# These choose files by `--include` and `--exclude`.
_CHOOSING: Final = frozenset({"grep", "egrep", "fgrep", "rgrep"})
_CHOICES: Final = frozenset({"--include", "--exclude", "--exclude-from"})
# A pattern that bash, git and we may read differently.
_UNSURE: Final = re.compile(r"[\[\]\\/]")
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


def find_secrets(folder: str, command: ScannedCommand, project: str) -> Iterator[str | Unclear | None]:
    """Yield the files below a folder that look like secrets. It blocks.

    None: there are too many files to tell. `Unclear`: the command follows a link to files that are not below the folder.
    """
    follows = _follows_links(command)
    has_hidden = _reads_hidden_files(command)
    yield from _walk(
        folder, has_hidden=has_hidden, is_read=_chosen_names(command), follows="all" if follows else "none"
    )
    link = _link_out(folder, has_hidden=has_hidden) if follows else None
    if link is not None:
        left = "the project" if not is_within(followed(link), project) else followed(folder)
        yield Unclear(link_reason(command.argv[0] or "", link, left))


def find_listed_secrets(listing: ListedFiles) -> Iterator[str | None]:
    """Yield those of the files on a list that look like secrets; None: there are too many to tell. It blocks."""

    def is_read(name: str) -> bool:
        return not listing.names or any(_may_match(name, pattern) for pattern in listing.names)

    tracked = tracked_files(listing.folder) if listing.tracked else None
    if tracked is not None:
        yield from (path for path in tracked if is_read(os.path.basename(path)) and _leads_to_secret(path))  # noqa: PTH119
        return
    for root in listing.roots:
        if _leads_to_secret(root) and is_read(os.path.basename(root)):  # noqa: PTH119
            yield root
        yield from _walk(root, has_hidden=True, is_read=is_read, follows="files")


def _names_secret(path: str) -> bool:
    return any(map(_is_secret, path.split("/")))


def _leads_to_secret(path: str) -> bool:
    """Return whether a path, or what a link leads to, looks like a secret. It blocks."""
    return _names_secret(path) or (os.path.islink(path) and _names_secret(followed(path)))  # noqa: PTH114


def names_secret_file(path: str) -> bool:
    """Return whether the name of a file looks like that of a secret."""
    return _is_secret(path.rpartition("/")[2])


def _leads_to_secret_file(path: str) -> bool:
    return names_secret_file(path) or (os.path.islink(path) and _names_secret(followed(path)))  # noqa: PTH114


def holds_secret_name(name: str) -> bool:
    """Return whether a part of a file's name, cut at blanks, looks like a secret."""
    return any(map(_is_secret, name.split()[1:] if not name[:1].isspace() else name.split()))


def _may_match(name: str, pattern: str) -> bool:
    """Return whether a pattern may match; only plain ones certainly don't."""
    return _UNSURE.search(pattern) is not None or fnmatchcase(name, pattern)


def _chosen_names(command: ScannedCommand) -> Callable[[str], bool]:
    """Return whether a recursive search reads a file with a name: `grep` has options that leave some out."""
    name = (command.argv[0] or "").rpartition("/")[2]
    match = DEFAULT_REGISTRY.find(name)
    if (
        name not in _CHOOSING
        or match is None
        or any(word is None or isinstance(word, WordPrefix) for word in command.argv)
    ):
        return lambda _: True
    choices = [one for one in parse_words(match[1], command.argv[1:]).used if one.name in _CHOICES]
    patterns = [(one.name == "--include", one.value or "") for one in choices]

    def is_read(name: str) -> bool:
        # The last one that matches counts; without one, whether the first one leaves files out.
        answer = not patterns or not patterns[0][0]
        for includes, pattern in patterns:
            if (_may_match if includes else fnmatchcase)(name, pattern) and (includes or not _UNSURE.search(pattern)):
                answer = includes
        return answer

    return is_read


def _walk(folder: str, *, has_hidden: bool, is_read: Callable[[str], bool], follows: Follows) -> Iterator[str | None]:
    seen = 0
    is_secret = names_secret_file if follows == "none" else _leads_to_secret_file
    for above, folders, files in os.walk(folder):
        seen += len(folders) + len(files)
        if seen > _MAX_SEEN:
            yield None
            return
        if not has_hidden:
            # In place, so that `os.walk` skips them.
            folders[:] = _visible(folders)
        read = filter(is_read, files if has_hidden else _visible(files))
        yield from filter(is_secret, (os.path.join(above, one) for one in read))  # noqa: PTH118 - of texts


def _link_out(folder: str, *, has_hidden: bool) -> str | None:
    """Return a link below a folder to a folder that is not below it; None: there is none."""
    root = followed(folder)
    for above, folders, _ in os.walk(root):
        if not has_hidden:
            folders[:] = _visible(folders)
        for name in folders:
            link = os.path.join(above, name)  # noqa: PTH118 - of texts
            if os.path.islink(link) and not is_within(followed(link), root):  # noqa: PTH114
                return link
    return None


def _visible(names: list[str]) -> list[str]:
    return [name for name in names if not name.startswith(".")]


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


def _follows_links(command: ScannedCommand) -> bool:
    name, words = (
        (command.argv[0] or "").rpartition("/")[2],
        [word for word in command.argv[1:] if isinstance(word, str)],
    )
    if name == "diff":
        return not any(len(word) > len("--no-d") and "--no-dereference".startswith(word) for word in words)
    return any(
        _has_flag(word, "LS" if name in _ALWAYS else "RS") or word.startswith(("--deref", "--follow")) for word in words
    )


def _searches(name: str, command: ScannedCommand) -> bool:
    words = [word for word in command.argv[1:] if isinstance(word, str)]
    if name in _ALWAYS:
        # Lists names only.
        return "--files" not in words
    if name == "git":
        # Otherwise it searches what was committed.
        return ("grep" in words or "diff" in words) and any(map(_is_untracked, words))
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
