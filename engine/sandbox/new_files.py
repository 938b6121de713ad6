"""Files that run later by themselves, and that a command in the sandbox has made.

Those that are there when it starts are mounted so that it can't change them. Of others there is nothing to mount, so they are
looked for when it has ended, in every folder of the project.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

import attrs

from engine.core.errors import ToolError
from engine.core.threads import finish_in_thread, to_thread
from engine.files.real_path import followed, is_within
from engine.permission.project_root import find_project_root
from engine.sandbox.mounts import protection_problem
from engine.sandbox.run_later_files import FileIdentity, run_later_files

T = TypeVar("T")

# A name that no program knows.
_SUFFIX: Final = ".not-allowed"
# After a cancel, the engine stands still until the project has been searched, or for so long.
_PATIENCE: Final = 0.5
_SHOWN: Final = 20


@attrs.define(eq=False)
class NewFileWatch:
    """Compares the files that run later before a command and after it.

    Attributes:
        renamed: the new names of those that were not allowed.
    """

    _project: str
    _cwd: str
    _before: dict[str, FileIdentity]
    _ignored: str = ""
    renamed: list[str] = attrs.field(factory=list[str], init=False)

    @classmethod
    def begin(cls, cwd: str, *, ignored: str = "") -> NewFileWatch:
        """Look which ones are there. It blocks.

        Args:
            cwd: the folder that the command runs in.
            ignored: the real path of a file that the command may replace.
        """
        real = followed(cwd)
        project = find_project_root(cwd, home=followed(str(Path("~").expanduser())))
        return cls(project, real, run_later_files(project, real), ignored)

    def require_protection(self) -> None:
        """Raise `ToolError` if the sandbox can't protect all files that are there. It blocks."""
        if problem := protection_problem(self._before, self._project, self._cwd):
            raise ToolError(
                f"The command was not run: {problem}. With outside_sandbox=true the user is asked to let it run."
            )

    async def run(self, command: Callable[[], Awaitable[T]], may_keep: Callable[[Sequence[str]], Awaitable[bool]]) -> T:
        """Run a command; rename the new files that run later, unless *may_keep* allows them. A checkpoint.

        If it is cancelled or raises, all new ones are renamed.
        """
        is_settled = False
        try:
            result = await command()
            # Abandoned if cancelled: then it is done again.
            new = await to_thread(self.new)
            if new and not await may_keep(new):
                self._rename(new)
            is_settled = True
        finally:
            if not is_settled:
                # `to_thread` would not begin in a cancelled scope.
                finish_in_thread(lambda: self._rename(self.new()), _PATIENCE)
        return result

    def new(self) -> list[str]:
        """Return the outermost paths that lead to another file than before. It blocks."""
        after = run_later_files(self._project, self._cwd)
        changed = sorted(path for path, identity in after.items() if self._before.get(path) != identity)
        outermost: list[str] = []
        for path in changed:
            if path != self._ignored and not (outermost and is_within(path, outermost[-1])):
                outermost.append(path)
        return outermost

    def describe(self, paths: Sequence[str]) -> str:
        """Return a list of paths for a sentence."""
        names = ", ".join(self.names(paths[:_SHOWN]))
        return names if len(paths) <= _SHOWN else f"{names} and {len(paths) - _SHOWN} more"

    def names(self, paths: Iterable[str]) -> tuple[str, ...]:
        """Return paths as they are seen from the folder that the command runs in."""
        return tuple(path.removeprefix(f"{self._cwd}/") for path in paths)

    def _rename(self, paths: Iterable[str]) -> None:
        """Rename files so that nothing runs them. They are not removed: another program may have made one."""
        for path in paths:
            new = f"{path}{_SUFFIX}"
            number = 1
            while os.path.lexists(new):
                number += 1
                new = f"{path}{_SUFFIX}-{number}"
            with suppress(OSError):
                Path(path).rename(new)
                self.renamed.append(new)
