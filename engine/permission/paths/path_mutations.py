"""What a script creates or moves before it uses it: a path that does not exist yet may be a link by then."""

from __future__ import annotations

import os
from functools import cached_property
from typing import Final

import attrs

from engine.files.real_path import Real, Unclear, is_within, real_path
from engine.permission.effects.scan_result import Scan

_LINKERS: Final = frozenset({"ln", "link", "symlink"})
_MOVERS: Final = frozenset({"mv", "cp", "rsync"})
# Beyond this, a folder counts as containing a link.
_MAX_SEEN: Final = 5_000


@attrs.define(eq=False)
class Moves:
    """How the commands of a script change paths, as far as that can change where other paths lead."""

    scan: Scan

    def makes_folder(self, path: str) -> bool:
        """Return whether the script creates that folder, which does not exist yet."""
        real = real_path(path)
        return isinstance(real, Real) and bool(real.missing) and any(is_within(made, real.path) for made in self._made)

    def may_make(self, real: Real, by: str) -> bool:
        """Return whether a missing path may be a link, or lead through one, when the program *by* uses it."""
        if by in _LINKERS | _MOVERS and real.missing == real.path:
            return False  # it is what they create
        return self._links

    @cached_property
    def _made(self) -> tuple[str, ...]:
        # Only `mkdir`: other programs may create anything under a name.
        real_paths = [real_path(use.path) for use in self.scan.paths if use.by == "mkdir"]
        return tuple(real.path for real in real_paths if isinstance(real, Real))

    @cached_property
    def _links(self) -> bool:
        """Whether a command creates, moves or copies a link."""
        names = {(command.argv[0] or "").rpartition("/")[2] for command in self.scan.commands}
        return bool(names & _LINKERS) or any(_holds_link(use.path) for use in self.scan.paths if use.by in _MOVERS)


def _holds_link(path: str) -> bool:
    """Return whether *path* is a link, or a folder that contains one or too many files to tell."""
    if os.path.islink(path.rstrip("/")):  # noqa: PTH114 - as written
        return True
    real = real_path(path)
    if isinstance(real, Unclear):
        return True
    seen = 0
    for folder, folders, files in os.walk(real.path):
        seen += len(folders) + len(files)
        if seen > _MAX_SEEN or any(os.path.islink(os.path.join(folder, name)) for name in (*folders, *files)):  # noqa: PTH114, PTH118
            return True
    return False
