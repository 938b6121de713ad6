"""What `git` would run because a repository's settings say so: `git status` runs the command in `core.fsmonitor`.

Git looks for its repository from the working folder upwards. Any folder with the right names in it
is one: a cloned repository may contain another, with settings of its own. All of this reads the
file system, and all doubtful cases count as a risk.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from engine.files.real_path import followed, is_within
from engine.permission.effects.scan_result import ScannedCommand
from engine.permission.programs.git import is_dangerous_key

# Real ones have a few kilobytes.
_MAX_BYTES: Final = 1_000_000
_BLANKS: Final = " \t\r"
_SECTION: Final = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\\n]|\\.)*)")?\](.*)')
_ENTRY: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=(.*))?")
# Harmless while git only reads; a command that changes them is judged by a longer list. (Git ignores an alias for a command
# that it has itself; the two in the pattern are about to be removed from git.)
_HARMLESS: Final = re.compile(
    r"core\.repositoryformatversion|alias\.(?!whatchanged|pack-redundant).*|gitflow\..*|gui\..*|submodule\..*\.(?:url|active|branch|ignore|update)"
    r"|remote\..*\.gh-resolved|diff\..*\.(?:x?funcname|binary|wordregex|cachetextconv)"
)
_LFS: Final = re.compile(r"filter\.lfs\.(?:clean|smudge|process)=git-lfs [\w% -]*")
# The only hook that git runs in commands that only read.
_HOOK: Final = "post-index-change"


def git_execution_risk(command: ScannedCommand, project: str) -> str:
    """Return why a git command that only reads may run another program; empty if it does not. It blocks."""
    name = (command.argv[0] or "").rpartition("/")[2]
    if (
        command.remote
        or command.cwd is None
        or not command.reads_only
        or not (name == "git" or name.startswith("git-"))
    ):
        return ""
    folder, git = _git_location(command) if name == "git" else (command.cwd, None)
    repositories = _repositories(folder, project) if git is None else [git]
    return next((reason for one in repositories for reason in _risks(one, project)), "")


def _git_location(command: ScannedCommand) -> tuple[str, str | None]:
    """Return the folder that git works in, and the repository that its options name."""
    folder, git = command.cwd or "/", None
    words = iter(command.argv[1:])
    for word in words:
        if not isinstance(word, str) or not word.startswith("-"):
            break
        # Options of git itself that take the next word as their value.
        if word in {"-C", "--git-dir", "--work-tree", "--namespace", "-c", "--config-env", "--exec-path"}:
            value = next(words, None)
            if word == "-C" and isinstance(value, str):
                folder = os.path.join(folder, value)  # noqa: PTH118 - Path would drop what the kernel heeds
            elif word == "--git-dir" and isinstance(value, str):
                git = value
        elif word.startswith("--git-dir="):
            git = word.partition("=")[2]
    return folder, None if git is None else os.path.join(folder, git)  # noqa: PTH118


def _repositories(folder: str, project: str) -> Iterator[str]:
    """Yield the possible repositories; in the project all of them, because git skips broken ones."""
    real = Path(followed(folder))
    has_repository = False
    # Git ignores a repository that belongs to another user, but this doesn't rely on it.
    for above in (real, *real.parents):
        if has_repository and not is_within(str(above), project):
            return
        if os.path.lexists(above / ".git"):
            has_repository = True
            yield str(above / ".git")
        # A bare repository: git accepts a folder that looks like this without being called ".git".
        if os.path.lexists(above / "HEAD") and any(os.path.lexists(above / name) for name in ("objects", "commondir")):
            has_repository = True
            yield str(above)


def _risks(git: str, project: str) -> Iterator[str]:
    try:
        folder = _git_folder(git)
        common = _common_folder(folder)
        # In git's order; a worktree has a configuration of its own.
        for path in (f"{common}/config", f"{folder}/config", f"{folder}/config.worktree"):
            yield from _settings_risks(path, _read_text(path), folder, project)
    except (OSError, ValueError) as error:
        yield f"the settings of the repository {git} can't be read ({error})"
        return
    if os.path.lexists(f"{common}/hooks/{_HOOK}"):
        yield f"{common}/hooks/{_HOOK} is run by git"


def _git_folder(git: str) -> str:
    """Return the folder that `.git` is, or points to. Raises `OSError`."""
    # In a linked working tree and in a submodule, `.git` is a file that points elsewhere.
    if stat.S_ISDIR(os.stat(git).st_mode):  # noqa: PTH116 - one look
        return followed(git)
    return followed(os.path.join(os.path.dirname(git), _read_text(git).removeprefix("gitdir:").strip()))  # noqa: PTH118, PTH120


def _common_folder(folder: str) -> str:
    return followed(os.path.join(folder, _read_text(f"{folder}/commondir").rstrip("\r\n")))  # noqa: PTH118


def _read_text(path: str) -> str:
    """Return the content of a file; empty if there is none. Raises `OSError`."""
    # Non-blocking, and only regular files: an untrusted repository may contain a pipe.
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file")
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise OSError(f"{path} is too large")
    return os.fsdecode(content)


def _settings_risks(path: str, text: str, folder: str, project: str) -> Iterator[str]:
    for key, value in _parse_settings(text):
        if key == "core.worktree":
            if not is_within(followed(os.path.join(folder, value)), project):  # noqa: PTH118
                yield f"{path} sets core.worktree, so git works elsewhere"
        elif not (_HARMLESS.fullmatch(key) or _LFS.fullmatch(f"{key}={value}")) and is_dangerous_key(key, value):
            yield f"{path} sets {key}, so git may run another program"


def _parse_settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings in a file of git's. Raises `ValueError` for a line that is not clearly a setting."""
    section = ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(_BLANKS)
        header = _SECTION.fullmatch(line)
        if header is not None:
            name, below, line = header.groups()
            section = name if below is None else f"{name}.{below}"
            line = line.strip(_BLANKS)
        # Continued lines could hide a setting from this simple parser.
        if raw.rstrip("\r").endswith("\\"):
            raise ValueError(f"line {number} continues on the next one")
        if not line or line[0] in "#;":
            continue
        entry = _ENTRY.fullmatch(line)
        if entry is None or not section:
            raise ValueError(f"line {number} is not a setting")
        value = "true" if entry[2] is None else entry[2].strip(_BLANKS).replace('"', "")
        yield f"{section}.{entry[1]}".lower(), value
