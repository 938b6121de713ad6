"""Files that run later by themselves, and that a command in the sandbox has made.

Those that are there when it starts are mounted so that it can't change them. Of others there is nothing to mount, so they are
looked for when it has ended: at the top of the project, and in the folder that it ran in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from engine.files.real_path import followed
from engine.permission.project_root import find_project_root
from engine.permission.rules.run_later import runs_later

# A name that no program knows.
_SUFFIX: Final = ".not-allowed"


def files_that_run_later(cwd: str) -> frozenset[str]:
    """Return the paths of those that are there. It blocks."""
    found: set[str] = set()
    project = find_project_root(cwd, home=followed(str(Path("~").expanduser())))
    for folder in {followed(cwd), project} - {""}:
        with suppress(OSError), os.scandir(folder) as entries:
            found |= {entry.path for entry in entries if runs_later(entry.name)}
    return frozenset(found)


def disarm(paths: Iterable[str]) -> list[str]:
    """Rename files, so that nothing runs them; return the new names of those that could be. It blocks.

    They are not removed: somebody else may have made one of them meanwhile.
    """
    renamed: list[str] = []
    for path in sorted(paths):
        new = f"{path}{_SUFFIX}"
        number = 1
        while os.path.lexists(new):
            number += 1
            new = f"{path}{_SUFFIX}-{number}"
        with suppress(OSError):
            Path(path).rename(new)
            renamed.append(new)
    return renamed
