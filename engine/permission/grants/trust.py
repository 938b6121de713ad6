"""Which folders the user trusts: what lies in any other one runs nothing, and widens nothing.

Trust is a folder's, by its real path, and that of the folders below it as far as they
belong to the same repository: one that was put into it is not what the user looked at.
All of it blocks, so it runs in a thread that is waited for.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import ConfigError
from engine.permission.grants.state_file import StateFile

NAME: Final = "trust.json"
_MARKS: Final = (".git", ".hg", ".jj", ".svn")


@attrs.frozen
class Trust:
    """The folders that a user trusts.

    Its methods raise `ConfigError` for a file that makes no sense, `StoreError` for one that can't be used.

    Attributes:
        path: the file.
        home: the user's home folder.
    """

    path: Path
    home: Path

    def trusted(self) -> tuple[str, ...]:
        """Return the folders, as they are in the file."""
        return tuple(self._folders(self._file.read()))

    def is_trusted(self, folder: str | Path) -> bool:
        """Tell whether *folder* is trusted, or one above it in the same repository is."""
        return self._trusting_folder(folder, self.trusted()) is not None

    def trust(self, folder: str | Path) -> str:
        """Trust a folder from now on, and return its real path. Raises `ConfigError` for one that holds everything."""
        real = _real(folder)
        if not Path(real).is_dir():
            raise ConfigError(f"there is no folder {real}")
        if self._contains_home(Path(real)):
            raise ConfigError(f"{real} can't be trusted: it holds all that you have. Trust the folder of a project.")
        self._file.update(lambda entries: sorted({*self._folders(entries), real}))
        return real

    def distrust(self, folder: str | Path) -> str:
        """Trust a folder no longer, and return its real path. Raises `ConfigError` if it is not trusted for itself."""
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
        """Return which of *folders* makes *folder* trusted."""
        real = Path(_real(folder))
        for above in (real, *real.parents):
            if self._contains_home(above):
                return None
            if str(above) in folders and (above == real or self._is_in_repository(above)):
                return str(above)
            if _is_repository(above):
                return None  # what is above belongs to another one, or to none
        return None

    def _is_in_repository(self, folder: Path) -> bool:
        """Tell whether a folder lies in a repository; one that holds the home folder keeps somebody's settings."""
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
                f"{self.path} can't be understood, so nothing of it counts: not all of its folders are absolute paths. Mend "
                "it, or move it away."
            )
        return folders


def _is_repository(folder: Path) -> bool:
    return any(os.path.lexists(folder / mark) for mark in _MARKS)


def _real(path: str | Path) -> str:
    return os.path.realpath(path)
