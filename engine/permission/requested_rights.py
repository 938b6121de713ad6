"""Translate rights between tools and rules: a tool reports absolute paths, rules see them from the project."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from engine.core.events import Right
from engine.core.permission_types import UNKNOWN, RequiredRight
from engine.files.globs import escaped
from engine.files.real_path import is_within
from engine.permission.rules.path_pattern import PathPattern, is_resolved
from engine.permission.rules.rules import PATH_PERMISSIONS, READING, base_permission
from engine.permission.rules.wildcard import Wildcard

# The right to touch what lies outside of the project.
OUTSIDE: Final = "outside"
# Files that tell about the machine and its programs, and nothing about a user.
# A text: `re` compiles it when the first call reads outside its project.
_PUBLIC: Final = (
    r"(?s)/etc/(?:os-release|lsb-release|debian_version|alpine-release|redhat-release|issue|hostname|timezone|shells)"
    r"|/proc/(?:cpuinfo|meminfo|version|loadavg|uptime|filesystems|stat|vmstat|swaps|partitions)"
    r"|/sys/fs/cgroup/[\w.]+|/usr/(?:local/)?(?:bin|include|lib|lib64|share)(?:/.*)?"
)


def rights_to_judge(
    required: Iterable[RequiredRight], cwd: str, project: str, *, read_only: bool = False
) -> Iterator[RequiredRight]:
    """Yield rights in the form that rules know: paths as seen from the project, and the right to leave the project."""
    for right in required:
        yield from right_to_judge(right, cwd, project, read_only=read_only)


def right_to_judge(required: RequiredRight, cwd: str, project: str, *, read_only: bool) -> Iterator[RequiredRight]:
    """Yield one right as `rights_to_judge` does."""
    if required.permission not in PATH_PERMISSIONS:
        suffix = READING if required.reads_only or read_only else ""
        yield RequiredRight(required.permission + suffix, required.pattern, required.spellings)
        return
    if is_any_file(required):
        yield RequiredRight(required.permission, _from_project(required.pattern, project))
        return
    path, *others = (_absolute(cwd, one) for one in (required.pattern, *required.spellings))
    spellings = tuple(_from_project(other, project) for other in others)
    if required.permission != OUTSIDE:
        yield RequiredRight(required.permission, _from_project(path, project), spellings)
    if required.permission == OUTSIDE or not is_within(path, project) or not is_resolved(path):
        yield RequiredRight(_outside(required, path), path, spellings)


def _outside(required: RequiredRight, path: str) -> str:
    is_free = required.reads_only and required.permission == "read" and is_public(path)
    return OUTSIDE + READING if is_free else OUTSIDE


def is_public(path: str) -> bool:
    """Return whether a confined command may read a path outside of the project without a question."""
    return re.fullmatch(_PUBLIC, path) is not None


def is_any_file(right: RequiredRight) -> bool:
    """Return whether a right is about files of which nothing is known but the folder."""
    return right.permission == "read" and right.pattern.endswith(f"/{UNKNOWN}")


def granted_rights(rights: Sequence[Right], cwd: str, project: str) -> Iterator[tuple[str, str]]:
    """Yield permission and pattern of each grant: paths as seen from the project, and "outside" for those that leave it."""
    for right in rights:
        pattern = right.pattern
        if right.permission not in PATH_PERMISSIONS:
            yield right.permission, pattern
            continue
        if "/" in pattern and not pattern.startswith(("~/", "$HOME/")):
            # What a file is called may look like a pattern, so its folder is written as in one.
            whole, folder = os.path.normpath(_below(escaped(cwd), pattern)), escaped(project)
            pattern = f"./{_from_project(whole, folder)}" if is_within(whole, folder) else whole
        yield right.permission, pattern
        if right.permission != OUTSIDE and pattern.startswith(("/", "~/", "$HOME/")):
            yield OUTSIDE, pattern


def would_grant(permission: str, pattern: Wildcard | PathPattern | None, right: Right) -> bool:
    """Return whether a grant of *pattern* would cover *right*."""
    return (
        pattern is not None
        and permission in {right.permission, base_permission(right.permission)}
        and pattern.matches(right.pattern)
    )


def _below(folder: str, path: str) -> str:
    return path if path.startswith("/") else f"{folder}/{path}"


def _absolute(cwd: str, path: str) -> str:
    """Return *path* as an absolute one. `..` stays: what it means depends on links, which are not looked up here."""
    whole = os.path.join(cwd, path)  # noqa: PTH118 - Path would change it
    return whole if ".." in whole.split("/") else os.path.normpath(whole)


def _from_project(path: str, project: str) -> str:
    """Return an absolute path relative to the project if it lies inside."""
    return (path[len(project) + 1 :] or ".") if is_within(path, project) else path
