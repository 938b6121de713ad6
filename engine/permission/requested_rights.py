"""Rights as rules know them: what a tool tells of paths, seen from the project, with the right to leave it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from engine.core.events import Right
from engine.core.permission_types import Needed
from engine.files.globs import escaped
from engine.files.real_path import is_within
from engine.permission.rules import rules as ruled
from engine.permission.rules.path_pattern import PathPattern, is_resolved
from engine.permission.rules.rules import PATH_PERMISSIONS, READING, base_of
from engine.permission.rules.wildcard import Wildcard

# The right to leave the project.
OUTSIDE: Final = "outside"


def judged_rights(needed: Iterable[Needed], cwd: str, project: str) -> Iterator[ruled.Right]:
    """Yield rights as they are judged."""
    for one in needed:
        for right, spellings in named_rights(one, cwd, project, read_only=False):
            yield ruled.Right(right.permission, right.pattern, spellings)


def named_rights(needed: Needed, cwd: str, project: str, *, read_only: bool) -> Iterator[tuple[Right, tuple[str, ...]]]:
    """Yield a right as rules know it: paths as seen from the project, and the right to leave the project."""
    if needed.permission not in PATH_PERMISSIONS:
        reads = needed.reads_only or read_only
        name = needed.permission + READING if reads else needed.permission
        yield Right(permission=name, pattern=needed.pattern), needed.spellings
        return
    path, *others = (_placed(cwd, one) for one in (needed.pattern, *needed.spellings))
    spellings = tuple(_seen(other, project) for other in others)
    if needed.permission != OUTSIDE:
        yield Right(permission=needed.permission, pattern=_seen(path, project)), spellings
    if needed.permission == OUTSIDE or not is_within(path, project) or not is_resolved(path):
        yield Right(permission=OUTSIDE, pattern=path), spellings


def granted_rights(rights: Sequence[Right], cwd: str, project: str) -> Iterator[tuple[str, str]]:
    """Yield what is granted, as rules have it: paths from the project, and with those outside the right to be there."""
    for right in rights:
        pattern = right.pattern
        if right.permission not in PATH_PERMISSIONS:
            yield right.permission, pattern
            continue
        if "/" in pattern and not pattern.startswith(("~/", "$HOME/")):
            # What a file is called may look like a pattern, so its folder is written as in one.
            whole, folder = os.path.normpath(_below(escaped(cwd), pattern)), escaped(project)
            pattern = f"./{_seen(whole, folder)}" if is_within(whole, folder) else whole
        yield right.permission, pattern
        if right.permission != OUTSIDE and pattern.startswith(("/", "~/", "$HOME/")):
            yield OUTSIDE, pattern


def gives(permission: str, pattern: Wildcard | PathPattern | None, right: Right) -> bool:
    """Tell whether a grant would give a right."""
    return (
        pattern is not None
        and permission in {right.permission, base_of(right.permission)}
        and pattern.matches(right.pattern)
    )


def _below(folder: str, path: str) -> str:
    return path if path.startswith("/") else f"{folder}/{path}"


def _placed(cwd: str, path: str) -> str:
    """Return a path as an absolute one. `..` stays: nobody here knows what is a link."""
    whole = os.path.join(cwd, path)  # noqa: PTH118 - Path would change it
    return whole if ".." in whole.split("/") else os.path.normpath(whole)


def _seen(path: str, project: str) -> str:
    """Return an absolute path as it is seen from the project: relative if it lies in there."""
    return (path[len(project) + 1 :] or ".") if is_within(path, project) else path
