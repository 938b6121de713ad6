"""The working directory of a session, and its project's files for agents. Everything here blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import attrs

from engine.core.value_base import Value
from engine.files.real_path import Real, is_within, real_path
from engine.permission.project_root import find_project_root
from engine.prompt.instruction_globs import IGNORED_FOLDERS

# In order of precedence. The other programs' folders let their users keep what they have.
SKILLS: Final = (".engine/skills", ".claude/skills", ".agents/skills", ".opencode/skills", ".opencode/skill")
COMMANDS: Final = (".engine/commands", ".claude/commands", ".opencode/commands", ".opencode/command")
# A folder with one of these is the root of a repository. A nested repository is not the project's own.
_MARKS: Final = (".git", ".hg", ".jj", ".svn")


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Workspace(Value):
    """A working directory and its project.

    Attributes:
        cwd: the real path; the original one if it can't be resolved.
        project: the real path of the project; empty if there is none.
    """

    cwd: str
    project: str

    @classmethod
    def of(cls, cwd: str, home: str) -> Workspace:
        """Return the workspace of a working directory."""
        real = real_path(cwd)
        return cls(cwd=real.path if isinstance(real, Real) else cwd, project=find_project_root(cwd, home=home))

    def folders(self) -> list[str]:
        """Return the folders from the project's down to the working directory, outermost first."""
        return self.folders_to(self.cwd) if self.project else []

    def folders_to(self, folder: str) -> list[str]:
        """Return the folders from the project's down to *folder*, a real path; none if it is outside.

        Also none inside of third-party code: installed packages and nested repositories. Their authors are not the
        user's colleagues, so their instructions don't count.
        """
        if not is_within(folder, self.project):
            return []
        names = [name for name in folder[len(self.project) :].split("/") if name]
        if IGNORED_FOLDERS.intersection(names):
            return []
        folders = [self.project]
        for name in names:
            below = f"{folders[-1].rstrip('/')}/{name}"
            if any(os.path.lexists(f"{below}/{mark}") for mark in _MARKS):
                return []
            folders.append(below)
        return folders

    def own_folders(self, names: tuple[str, ...]) -> list[str]:
        """Return the project's existing folders of these names, without links that lead out of the project.

        They are searched from the working directory up to the project's folder; the nearest come first.
        """
        if not self.project:
            return []
        # Searched from below: in a monorepo, the nearest skills are those of the part that is worked on.
        above = [folder.rstrip("/") for folder in reversed(self.folders() or [self.project])]
        existing = [path for folder in above for name in names if os.path.lexists(path := f"{folder}/{name}")]
        # A link that leads out of the project could show the model any folder of the user's.
        real_paths = (real.path for path in existing if isinstance(real := real_path(path), Real) and not real.missing)
        return list(dict.fromkeys(path for path in real_paths if is_within(path, self.project)))

    def agent_files(self, names: tuple[str, ...]) -> list[str]:
        """Return the project's files that address agents, relative to its folder; the user is asked to trust these."""
        return [path[len(self.project) :].lstrip("/") for path in self._agent_files(names)] if self.project else []

    def _agent_files(self, names: tuple[str, ...]) -> Iterator[str]:
        for folder in self.folders():
            yield from (path for name in names if os.path.lexists(path := f"{folder.rstrip('/')}/{name}"))
        yield from (path for path in self.own_folders(SKILLS) if os.path.isdir(path))  # noqa: PTH112 - a str
