"""What `git` would run because the repository that it works in says so: `git status` runs what `core.fsmonitor` names.

Git looks for its repository from the folder that it works in upwards. A folder with the
right names in it is one, wherever it came from: somebody else's repository may hold one,
with settings of its own. All of it asks the file system, and in doubt there is something.
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

_MAX_BYTES: Final = 1_000_000
_BLANKS: Final = " \t\r"
_SECTION: Final = re.compile(r'\[([A-Za-z0-9.-]+)(?:[ \t]+"((?:[^"\\\n]|\\.)*)")?\](.*)')
_ENTRY: Final = re.compile(r"([A-Za-z][A-Za-z0-9-]*)[ \t]*(?:=(.*))?")
# Harmless where git only reads; what sets them is judged by a longer list. (No alias is heeded but for commands that git
# does not have by itself, or will not have for long.)
_HARMLESS: Final = re.compile(
    r"core\.repositoryformatversion|alias\.(?!whatchanged|pack-redundant).*|gitflow\..*|gui\..*|submodule\..*\.(?:url|active|branch|ignore|update)"
    r"|remote\..*\.gh-resolved|diff\..*\.(?:x?funcname|binary|wordregex|cachetextconv)"
)
_LFS: Final = re.compile(r"filter\.lfs\.(?:clean|smudge|process)=git-lfs [\w% -]*")
# The one hook that git runs when it only looks.
_HOOK: Final = "post-index-change"


def git_execution_risk(command: ScannedCommand, project: str) -> str:
    """Return why a command of git's that only reads may run something else; empty: it does not. It blocks."""
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
    """Return the folder that git works in, and the repository that it is told."""
    folder, git = command.cwd or "/", None
    words = iter(command.argv[1:])
    for word in words:
        if not isinstance(word, str) or not word.startswith("-"):
            break
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
    """Yield what git may take for its repository: in the project all of them, as it passes by those that are broken."""
    real = Path(followed(folder))
    has_repository = False
    for above in (real, *real.parents):
        if has_repository and not is_within(str(above), project):
            return
        if os.path.lexists(above / ".git"):
            has_repository = True
            yield str(above / ".git")
        if os.path.lexists(above / "HEAD") and any(os.path.lexists(above / name) for name in ("objects", "commondir")):
            has_repository = True
            yield str(above)


def _risks(git: str, project: str) -> Iterator[str]:
    try:
        folder = _git_folder(git)
        common = _common_folder(folder)
        for path in (f"{common}/config", f"{folder}/config", f"{folder}/config.worktree"):
            yield from _settings_risks(path, _read_text(path), folder, project)
    except (OSError, ValueError) as error:
        yield f"the settings of the repository {git} can't be read ({error})"
        return
    if os.path.lexists(f"{common}/hooks/{_HOOK}"):
        yield f"{common}/hooks/{_HOOK} is run by git"


def _git_folder(git: str) -> str:
    """Return the folder that a `.git` is, or leads to. Raises `OSError`."""
    if stat.S_ISDIR(os.stat(git).st_mode):  # noqa: PTH116 - one look
        return followed(git)
    return followed(os.path.join(os.path.dirname(git), _read_text(git).removeprefix("gitdir:").strip()))  # noqa: PTH118, PTH120


def _common_folder(folder: str) -> str:
    return followed(os.path.join(folder, _read_text(f"{folder}/commondir").rstrip("\r\n")))  # noqa: PTH118


def _read_text(path: str) -> str:
    """Return what a file holds; nothing if there is none. Raises `OSError`."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is no file")
        content = file.read(_MAX_BYTES + 1)
    if len(content) > _MAX_BYTES:
        raise OSError(f"{path} is too large")
    return os.fsdecode(content)


def _settings_risks(path: str, text: str, folder: str, project: str) -> Iterator[str]:
    for key, value in _parse_settings(text):
        if key == "core.worktree":
            if not is_within(followed(os.path.join(folder, value)), project):  # noqa: PTH118
                yield f"{path} sets core.worktree, by which git looks elsewhere"
        elif not (_HARMLESS.fullmatch(key) or _LFS.fullmatch(f"{key}={value}")) and is_dangerous_key(key, value):
            yield f"{path} sets {key}, by which git may run something"


def _parse_settings(text: str) -> Iterator[tuple[str, str]]:
    """Yield the settings in a file of git's. Raises `ValueError` for what is not plainly one."""
    section = ""
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip(_BLANKS)
        header = _SECTION.fullmatch(line)
        if header is not None:
            name, below, line = header.groups()
            section = name if below is None else f"{name}.{below}"
            line = line.strip(_BLANKS)
        if raw.rstrip("\r").endswith("\\"):
            raise ValueError(f"line {number} goes on")
        if not line or line[0] in "#;":
            continue
        entry = _ENTRY.fullmatch(line)
        if entry is None or not section:
            raise ValueError(f"line {number} is no setting")
        value = "true" if entry[2] is None else entry[2].strip(_BLANKS).replace('"', "")
        yield f"{section}.{entry[1]}".lower(), value
