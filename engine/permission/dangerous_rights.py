"""What must not be allowed by a single key: deleting outside the project, opaque scripts, other users' rights, credentials."""

from __future__ import annotations

import shlex
from functools import cache
from typing import Final

from engine.core.events import PermissionAsked
from engine.permission.rules.path_pattern import PathPattern
from engine.permission.rules.profiles import NO_SECRETS, SECRETS

# Programs that run a command as another user.
_ELEVATING: Final = frozenset({"sudo", "sudoedit", "doas", "su", "pkexec", "run0", "runuser"})
_DELETING: Final = frozenset({"rm", "rmdir", "unlink", "shred", "srm", "wipe", "wipefs", "dd", "mkfs"})
# Options with which other programs delete: `find -delete`, `rsync --delete`.
_DELETING_OPTIONS: Final = frozenset({"-delete", "--delete"})
# In a diff: the file is removed.
_REMOVED_FILE: Final = "\n+++ /dev/null\n"


def find_danger(request: PermissionAsked) -> str:
    """Return why a call must be allowed deliberately, each time: `it deletes outside the project`; empty if it needn't."""
    if request.opaque or any(right.permission == "opaque" for right in request.rights):
        return "it cannot be analysed"
    commands = [_words(line) for line in request.patterns] if request.permission == "bash" else []
    return _elevation(commands) or _deletion(request, commands) or _exposure(request)


def _elevation(commands: list[list[str]]) -> str:
    name = next((name for name, *_ in commands if name in _ELEVATING), "")
    return f"it uses {name}" if name else ""


def _deletion(request: PermissionAsked, commands: list[list[str]]) -> str:
    deletes = any(map(_deletes, commands)) or _removes_file(request)
    return "it deletes outside the project" if deletes and _leaves_project(request) else ""


def _exposure(request: PermissionAsked) -> str:
    paths = (right.pattern for right in request.rights if right.permission in {"read", "edit"})
    secret = next(filter(_is_secret, paths), "")
    return f"it uses credentials: {secret}" if secret else ""


def _leaves_project(request: PermissionAsked) -> bool:
    return any(right.permission == "outside" for right in request.rights)


def _deletes(command: list[str]) -> bool:
    name, *arguments = command
    return name.partition(".")[0] in _DELETING or not _DELETING_OPTIONS.isdisjoint(arguments)


def _removes_file(request: PermissionAsked) -> bool:
    return request.permission == "edit" and _REMOVED_FILE in f"\n{request.detail}\n"


def _words(line: str) -> list[str]:
    """Return the words of a command, the first one without its folder; never empty."""
    try:
        words = shlex.split(line)
    except ValueError:  # a quote that is not closed
        words = line.split()
    name, *arguments = words or [""]
    return [name.rpartition("/")[2], *arguments]


def _is_secret(path: str) -> bool:
    return _matches(SECRETS, path) and not _matches(NO_SECRETS, path)


def _matches(patterns: tuple[str, ...], path: str) -> bool:
    return any(pattern.matches(path) for pattern in _compiled(patterns))


@cache
def _compiled(patterns: tuple[str, ...]) -> tuple[PathPattern, ...]:
    # They match at any depth, so where the project and the home folder are makes no difference.
    return tuple(PathPattern(pattern, "/", "/") for pattern in patterns)
