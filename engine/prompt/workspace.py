"""Where a session works, and what its project brings along for an agent. All of it blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import attrs

from engine.files.real_path import Real, is_within, real_path
from engine.permission.project import find_project_root
from engine.prompt.instruction_globs import FOREIGN

SKILLS: Final = (".engine/skills", ".claude/skills", ".agents/skills", ".opencode/skills", ".opencode/skill")
COMMANDS: Final = (".engine/commands", ".claude/commands", ".opencode/commands", ".opencode/command")
# A folder with one of these is the top of a repository: one that lies in another came there from somewhere else.
_MARKS: Final = (".git", ".hg", ".jj", ".svn")


@attrs.frozen(kw_only=True)
class Place:
    """A working directory.

    Attributes:
        cwd: its real path; as it was given where that can't be told.
        project: the real path of the project that it belongs to; empty if it belongs to none.
    """

    cwd: str
    project: str

    @classmethod
    def of(cls, cwd: str, home: str) -> Place:
        """Return the place of a working directory."""
        real = real_path(cwd)
        return cls(cwd=real.path if isinstance(real, Real) else cwd, project=find_project_root(cwd, home=home))

    def folders(self) -> list[str]:
        """Return the folders from the project's down to the working directory, the outermost first."""
        return self.chain(self.cwd) if self.project else []

    def chain(self, folder: str) -> list[str]:
        """Return the folders from the project's down to *folder*, a real path; none if it lies elsewhere.

        Nor if it is not the project's own: what a package manager or another repository has put there.
        """
        if not is_within(folder, self.project):
            return []
        names = [name for name in folder[len(self.project) :].split("/") if name]
        if FOREIGN.intersection(names):
            return []
        found = [self.project]
        for name in names:
            below = f"{found[-1].rstrip('/')}/{name}"
            if any(os.path.lexists(f"{below}/{mark}") for mark in _MARKS):
                return []
            found.append(below)
        return found

    def own_folders(self, names: tuple[str, ...]) -> list[str]:
        """Return the project's folders of these names that are there, and don't lead out of it by a link.

        They are looked for from the working directory up to the project's folder; the nearest come first.
        """
        if not self.project:
            return []
        above = [folder.rstrip("/") for folder in reversed(self.folders() or [self.project])]
        there = [path for folder in above for name in names if os.path.lexists(path := f"{folder}/{name}")]
        real = [real_path(path) for path in there]
        inside = [each for each in real if isinstance(each, Real) and not each.missing]
        return list(dict.fromkeys(each.path for each in inside if is_within(each.path, self.project)))

    def brings(self, names: tuple[str, ...]) -> list[str]:
        """Return what the project holds for an agent, as seen from its folder: what somebody is asked about."""
        return [path[len(self.project) :].lstrip("/") for path in self._brought(names)] if self.project else []

    def _brought(self, names: tuple[str, ...]) -> Iterator[str]:
        for folder in self.folders():
            yield from (path for name in names if os.path.lexists(path := f"{folder.rstrip('/')}/{name}"))
        yield from (path for path in self.own_folders(SKILLS) if os.path.isdir(path))  # noqa: PTH112 - a str
