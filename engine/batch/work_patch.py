"""What an attempt has changed in its folder, as a patch for `git apply`.

The folder is read into a private repository of the batch, by explicit paths: nothing that the agent may have written into
the folder's own git configuration is run.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import SnapshotError
from engine.core.threads import to_thread
from engine.core.value_base import Value
from engine.snapshots.git_backend import ProjectTooLarge, take
from engine.snapshots.repository import ATTRIBUTES, OutputTooLarge, Repository, find_git
from engine.snapshots.snapshot_dir import SnapshotDir, write_atomically

MAX_PATCH_BYTES: Final = 67_108_864
_OWNER: Final = "batch"
_BASELINE: Final = "baseline"


@attrs.frozen(eq=False, repr=False)
class FolderBaseline(Value):
    """What was in a folder before the agent began.

    Attributes:
        tree: names it.
    """

    _repository: Repository
    tree: str

    async def patch(self) -> bytes:
        """Return what has changed since then. Always a checkpoint. Raises `SnapshotError`."""
        try:
            after = (await take(self._repository, _OWNER)).tree
            return await self._repository.git(
                "diff-tree",
                "-r",
                "-p",
                "--binary",
                "--full-index",
                "--no-renames",
                "--no-ext-diff",
                "--no-textconv",
                self.tree,
                after,
                limit=MAX_PATCH_BYTES,
            )
        except ProjectTooLarge as error:
            raise SnapshotError(f"no patch: {error}") from error
        except OutputTooLarge as error:
            raise SnapshotError(f"no patch: it has more than {MAX_PATCH_BYTES:,} bytes") from error


async def read_baseline(folder: str, private: Path, *, is_new: bool) -> FolderBaseline:
    """Return what a folder held before its agent began. Always a checkpoint. Raises `SnapshotError`.

    Args:
        folder: the work folder.
        private: where that is kept.
        is_new: the agent has not begun: it is what the folder holds now. Else it is what an earlier call has kept.
    """
    program = await find_git()
    if program is None:
        raise SnapshotError("no patch: git is not installed")
    repository = Repository(SnapshotDir(private, await to_thread(os.path.realpath, folder)), program)
    kept = private / _BASELINE
    try:
        if not is_new:
            return FolderBaseline(repository, (await to_thread(kept.read_bytes)).decode())
        await to_thread(_make, repository, folder)
        tree = (await take(repository, _OWNER)).tree
        await to_thread(write_atomically, kept, tree.encode())
    except ProjectTooLarge as error:
        raise SnapshotError(f"no patch: {error}") from error
    except OSError as error:
        raise SnapshotError(f"no patch: {error}") from error
    return FolderBaseline(repository, tree)


def _make(repository: Repository, folder: str) -> None:
    """Make the private repository, which takes what the folder's own one has from there. It blocks."""
    repository.make()
    # Snapshots compare no text. In a patch, git decides by a file's content whether it is one.
    attributes = ATTRIBUTES.replace("-diff", "!diff")
    (repository.folder / "info" / "attributes").write_text(attributes, encoding="ascii")
    objects = _objects_of(Path(folder) / ".git")
    if objects is not None and "\n" not in str(objects):
        (repository.folder / "objects" / "info" / "alternates").write_text(f"{objects}\n", encoding="utf-8")


def _objects_of(mark: Path) -> Path | None:
    """Return the objects of the repository that a folder belongs to; None: of none. It blocks."""
    git = mark
    try:
        if mark.is_file():
            git = (mark.parent / mark.read_text(encoding="utf-8").removeprefix("gitdir:").strip()).resolve()
        common = git / "commondir"
        if common.is_file():
            git = (git / common.read_text(encoding="utf-8").strip()).resolve()
    except (OSError, ValueError):
        return None
    objects = git / "objects"
    return objects if objects.is_dir() else None
