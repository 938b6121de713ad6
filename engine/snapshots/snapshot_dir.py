"""Which folder a snapshot covers, and where it is stored: in a private folder of the user, never in the project.

The project is the innermost repository around the working directory, or else that directory. Of the user's repository
only its exclude list is read, as text; no program runs in it.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import SnapshotError
from engine.core.value_base import Value

_KEY_CHARS: Final = 20
# No list written by hand is longer; and a pipe in its place would block.
_LARGEST_LIST: Final = 1_048_576
# By these git recognises its directory.
_GIT_DIR_ENTRIES: Final = ("HEAD", "objects", "refs")


def default_folder() -> Path:
    """Return where the snapshots of all projects are kept."""
    # Imported here: only needed for the default folder.
    from platformdirs import user_data_path

    return user_data_path("engine", appauthor=False) / "snapshots"


@attrs.frozen(eq=False, repr=False)
class SnapshotDir(Value):
    """A project, and the private folder of its snapshots.

    Attributes:
        folder: that of all projects.
        root: the real path of the project.
    """

    folder: Path
    root: str

    @property
    def key(self) -> str:
        """What names the project in the name of a snapshot."""
        return hashlib.sha256(os.fsencode(self.root)).hexdigest()[:_KEY_CHARS]

    @property
    def project_dir(self) -> Path:
        """The private folder of this project."""
        return self.folder / self.key

    @property
    def lock(self) -> Path:
        """The lock file; outside the project's folder, so that it survives its removal."""
        return self.folder / f"{self.key}.lock"

    def make(self) -> None:
        """Make the private folder. It blocks. Raises `SnapshotError`."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.project_dir.mkdir(mode=0o700, exist_ok=True)
            if not (self.project_dir / "root").exists():
                write_atomically(self.project_dir / "root", os.fsencode(self.root))
        except OSError as error:
            raise SnapshotError(f"snapshots can't be kept in {self.folder}: {error.strerror or error}") from error

    @classmethod
    def of_key(cls, folder: Path, key: str) -> SnapshotDir:
        """Return the place that a snapshot's name speaks of. It blocks. Raises `SnapshotError`."""
        try:
            return cls(folder, os.fsdecode((folder / key / "root").read_bytes()))
        except OSError as error:
            raise SnapshotError("the snapshot is gone: old ones are removed after a while") from error


def project_root(cwd: str) -> str:
    """Return the real path of the project that a working directory is in. It blocks."""
    real = os.path.realpath(cwd)
    folder = real
    while True:
        if os.path.lexists(os.path.join(folder, ".git")):  # noqa: PTH118 - of a str, which may be no UTF-8
            return folder
        above = os.path.dirname(folder)  # noqa: PTH120
        if above == folder:
            return real
        folder = above


def is_too_wide(root: str) -> bool:
    """Tell whether a folder is too broad to be a project: `/`, or a home directory. It blocks."""
    home = os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - Path raises where there is no home
    return root in {"/", home} or home.startswith(f"{root}/")


def is_git_folder(path: str) -> bool:
    """Tell whether a folder is a git directory, by its content. It blocks."""
    head, *folders = (os.path.join(path, name) for name in _GIT_DIR_ENTRIES)  # noqa: PTH118 - of a str, which may be no UTF-8
    return os.path.lexists(head) and all(map(os.path.isdir, folders))


def git_folder(root: str) -> str | None:
    """Return the real path of the git directory, if that is not the usual `.git`. It blocks."""
    mark = Path(root) / ".git"
    folder = None if mark.is_dir() else _git_folder(mark)
    return os.path.realpath(folder) if folder is not None and is_git_folder(str(folder)) else None


def exclude_file(root: str) -> str | None:
    """Return the path of the user's own `info/exclude`. It blocks."""
    common = _git_folder(Path(root) / ".git")
    if common is None:
        return None
    path = common / "info" / "exclude"
    try:
        state = path.stat()
    except OSError:
        return None
    return str(path) if stat.S_ISREG(state.st_mode) and state.st_size <= _LARGEST_LIST else None


def _git_folder(mark: Path) -> Path | None:
    """Return the common git directory of all work trees of a repository."""
    if mark.is_dir():
        own = mark
    else:
        line = _first_line(mark)
        if not line.startswith("gitdir:"):
            return None
        own = mark.parent / line.removeprefix("gitdir:").strip()
    common = _first_line(own / "commondir")
    return own / common if common else own


def _first_line(path: Path) -> str:
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return ""
        with path.open(errors="surrogateescape") as file:
            return file.readline(4096).rstrip("\n")
    except OSError:
        return ""


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file atomically. It blocks. Raises `OSError`."""
    # Random, besides the pid: two threads may write the same file.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    try:
        temporary.write_bytes(data)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
