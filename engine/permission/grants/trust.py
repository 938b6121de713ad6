"""Trusted folders: the files of any other project start no programs and widen no permissions.

Trust belongs to a folder, by its real path, and to the folders below it in the same repository:
a repository inside it is not what the user has reviewed. All of it blocks, so it runs in a thread
that is waited for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import ConfigError
from engine.core.value_base import Value
from engine.permission.grants.state_file import StateFile

NAME: Final = "trust.json"
# Any version control: its folder contains hooks and settings that run programs.
_MARKS: Final = (".git", ".hg", ".jj", ".svn")


@attrs.frozen(eq=False, repr=False)
class Trust(Value):
    """The folders that a user trusts.

    Its methods raise `ConfigError` for an invalid file, `StoreError` for one that can't be used.

    Attributes:
        path: the file.
        home: the user's home folder.
    """

    path: Path
    home: Path

    def trusted(self) -> tuple[str, ...]:
        """Return the folders in the file."""
        return tuple(self._folders(self._file.read()))

    def is_trusted(self, folder: str | Path) -> bool:
        """Return whether *folder*, or one above it in the same repository, is trusted."""
        return self._trusting_folder(folder, self.trusted()) is not None

    def trust(self, folder: str | Path) -> str:
        """Trust a folder and return its real path. Raises `ConfigError` for one that contains the home folder."""
        real = _real(folder)
        if not Path(real).is_dir():
            raise ConfigError(f"not a directory: {real}")
        # Trusting the home folder would trust every download in it.
        if self._contains_home(Path(real)):
            raise ConfigError(
                f"{real} can't be trusted: it contains your home directory. Trust the directory of a project."
            )
        self._file.update(lambda entries: sorted({*self._folders(entries), real}))
        return real

    def distrust(self, folder: str | Path) -> str:
        """Stop trusting a folder and return its real path. Raises `ConfigError` if it is not in the list itself."""
        real = _real(folder)

        def remove_from(entries: Sequence[object]) -> Sequence[object]:
            folders = self._folders(entries)
            if real in folders:
                return [each for each in folders if each != real]
            above = self._trusting_folder(real, folders)
            raise ConfigError(f"{real} is not trusted" if above is None else f"{real} is trusted because of {above}")

        self._file.update(remove_from)
        return real

    @property
    def _file(self) -> StateFile:
        return StateFile(self.path, "folders")

    def _trusting_folder(self, folder: str | Path, folders: Sequence[str]) -> str | None:
        """Return the one of *folders* that makes *folder* trusted; None if it is not trusted."""
        real = Path(_real(folder))
        # From the folder upwards; the nearest repository decides.
        for above in (real, *real.parents):
            if self._contains_home(above):
                return None
            if str(above) in folders and (above == real or self._is_in_repository(above)):
                return str(above)
            if _is_repository(above):
                return None  # the folders above belong to another repository, or to none
        return None

    def _is_in_repository(self, folder: Path) -> bool:
        """Return whether a folder lies in a repository; one that contains the home folder only versions settings."""
        for above in (folder, *folder.parents):
            if self._contains_home(above):
                return False
            if _is_repository(above):
                return True
        return False

    def _contains_home(self, folder: Path) -> bool:
        return Path(_real(self.home)).is_relative_to(folder)

    def _folders(self, entries: Sequence[object]) -> list[str]:
        folders = [entry for entry in entries if isinstance(entry, str) and entry.startswith("/")]
        if len(folders) < len(entries):
            raise ConfigError(
                f"{self.path} is invalid, so it is ignored: not all of its folders are absolute paths. Repair it, or move "
                "it away."
            )
        return folders


def _is_repository(folder: Path) -> bool:
    return any(os.path.lexists(folder / mark) for mark in _MARKS)


def _real(path: str | Path) -> str:
    return os.path.realpath(path)
