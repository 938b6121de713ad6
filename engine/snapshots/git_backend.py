"""Snapshots by git: taken, compared and read in the private directory of a project."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from engine.core.errors import SnapshotError
from engine.core.exception_groups import first_of, public
from engine.core.snapshot_types import Change, TreeEntry
from engine.core.threads import to_thread
from engine.core.value_base import Value
from engine.files.cancellable_thread import to_halting_thread
from engine.snapshots.file_selection import IndexUpdate, git_folders_among, plan_index_update, stale_marks
from engine.snapshots.repository import PACKED, OutputTooLarge, Repository
from engine.snapshots.snapshot_dir import exclude_file, git_folder

# A folder with more files than this is not a project.
MAX_FILES: Final = 200_000
# New content beyond this could fill the user's disk.
MAX_NEW_BYTES: Final = 2_000_000_000
_MANY_FILES: Final = f"there are more than {MAX_FILES:,} files"
# Folders of other version control systems: restoring them in part would break them.
_HISTORIES: Final = (".hg/", ".jj/", ".svn/")
# Enough for `MAX_FILES` with long names.
_MAX_LISTING_BYTES: Final = 64_000_000
# With more new files than this, they are written into one pack.
_PACK_FROM: Final = 500
# Contents that are read at once when files are restored.
_READ_BYTES: Final = 67_108_864


class ProjectTooLarge(Exception):
    """The project is too large for snapshots; the message gives the limit."""


@attrs.frozen(eq=False, repr=False)
class GitSnapshot(Value):
    """A snapshot by git.

    Attributes:
        tree: its tree.
        index: names the state of the index that the tree was made of.
        repositories: nested repositories, which were left out.
    """

    tree: str
    index: bytes
    repositories: tuple[str, ...] = ()


async def take(repository: Repository, owner: str, last: GitSnapshot | None = None) -> GitSnapshot:
    """Record the files of the project. A checkpoint; if cancelled, no snapshot is taken, but files that were read stay indexed.

    If nothing has changed since the *last* one, by whomever, it is the same again. Raises `SnapshotError`,
    `ProjectTooLarge`.
    """
    await to_thread(repository.make)
    async with repository.locked():
        # All work is done on a copy of the index: a killed engine leaves an unused file, and no broken index.
        index = repository.new_copy()
        try:
            await to_halting_thread(partial(repository.copy_index, index))
            update = await _plan_update(repository, index)
            if update.is_empty and last is not None and await to_thread(_keep_again, repository, index, last, owner):
                tree, state = last.tree, last.index
            else:
                await _update(repository, index, update)
                tree = (await repository.git("write-tree", index=index)).decode().strip()
                # Only this makes the snapshot exist. It takes microseconds, so a cancel may come before it or after it.
                state = await to_thread(_keep, repository, index, tree, update.marks, owner)
        finally:
            repository.drop(index)
    return GitSnapshot(tree, state, tuple(os.fsdecode(path) for path in update.repositories))


async def prime(repository: Repository) -> None:
    """Index the files of the project, so that the next snapshot is quick. A checkpoint; if cancelled, files that were read stay indexed.

    Raises `SnapshotError`, `ProjectTooLarge`.
    """
    await to_thread(repository.make)
    async with repository.locked():
        index = repository.new_copy()
        try:
            await to_halting_thread(partial(repository.copy_index, index))
            await _update(repository, index, await _plan_update(repository, index))
            await to_thread(repository.replace_index, index)
        finally:
            repository.drop(index)


def _keep(repository: Repository, index: Path, tree: str, marks: Sequence[bytes], owner: str) -> bytes:
    try:
        state = repository.state_of(index)
        repository.replace_index(index)
        repository.keep_marks(marks)
        repository.keep(tree, owner)
    except OSError as error:
        raise SnapshotError(f"the snapshot can't be kept: {error.strerror or error}") from error
    return state


def _keep_again(repository: Repository, index: Path, last: GitSnapshot, owner: str) -> bool:
    """Keep the last tree for a session, too, if the index is as it was then; tell whether it is."""
    try:
        state = repository.state_of(index)
        if not state or state != last.index or not repository.has_loose(last.tree):
            return False
        repository.keep(last.tree, owner)
    except OSError as error:
        raise SnapshotError(f"the snapshot can't be kept: {error.strerror or error}") from error
    return True


async def _plan_update(repository: Repository, index: Path) -> IndexUpdate:
    """Ask git for new and changed files, and plan the update of the index. Always a checkpoint."""
    root = repository.place.root
    inside = await to_thread(_inside, repository)
    excludes = await to_thread(_excludes, repository, inside)
    stale = await to_thread(stale_marks, root, repository.marks())
    if stale:
        # A left-out file may have become a folder. As long as the index has the file, git would not list the folder.
        await repository.git("update-index", "-z", "--index-info", index=index, input=stale)
    indexed = await to_thread(repository.indexed_files, index)
    listing = ("ls-files", "-z", "--others", "--exclude-standard", *excludes)
    # `diff-files` compares sizes and times only; the contents are read later, in batches that a cancel can end.
    dirty = ("diff-files", "-z", "--name-only", "--no-renames", "--no-ext-diff", "--ignore-submodules=all")
    others, changed = await _list_at_once(repository, index, listing, *([dirty] if indexed else []))
    bare = await to_thread(git_folders_among, root, others)
    others = [path for path in others if not path.startswith(bare)]
    if len(others) + indexed > MAX_FILES:
        raise ProjectTooLarge(_MANY_FILES)
    update = await to_thread(lambda: plan_index_update(root, others, changed, repository.marks(), inside))
    if update.size > MAX_NEW_BYTES:
        raise ProjectTooLarge(f"more than {MAX_NEW_BYTES // 1_000_000_000} GB would have to be kept")
    update.repositories += [path[:-1] for path in bare]
    return update


async def _list_at_once(
    repository: Repository, index: Path, *commands: Sequence[str]
) -> tuple[list[bytes], list[bytes]]:
    """Return the paths that one or two commands list. A checkpoint. Raises `SnapshotError`, `ProjectTooLarge`."""
    paths: tuple[list[bytes], list[bytes]] = ([], [])

    async def run(command: Sequence[str], into: list[bytes]) -> None:
        into += _split(await repository.git(*command, index=index, limit=_MAX_LISTING_BYTES))

    failure: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            for command, into in zip(commands, paths, strict=False):
                nursery.start_soon(run, command, into)
    except BaseExceptionGroup as group:
        failure = first_of(group, OutputTooLarge) or first_of(group, SnapshotError) or public(group)
    if isinstance(failure, OutputTooLarge):
        raise ProjectTooLarge(_MANY_FILES) from failure
    if failure is not None:
        raise failure
    return paths


def _excludes(repository: Repository, inside: Iterable[bytes]) -> tuple[str, ...]:
    own = exclude_file(repository.place.root)
    excluded = [f"--exclude={name}" for name in _HISTORIES]
    excluded += [] if own is None else [f"--exclude-from={own}"]
    for path in inside:
        pattern = "".join(f"\\{char}" if char in "\\*?[ !#" else char for char in os.fsdecode(path))
        excluded.append(f"--exclude=/{pattern}*")
    return tuple(excluded)


def _inside(repository: Repository) -> tuple[bytes, ...]:
    """Return the paths of the engine's and git's own files that lie in the project; snapshots leave them out.

    These are prefixes: `sessions.db-wal` belongs to `sessions.db`. A folder ends with a slash.
    """
    root = repository.place.root
    paths = [os.path.realpath(path) for path in (str(repository.place.folder), *repository.left_out)]
    of_git = git_folder(root)
    paths += [] if of_git is None else [f"{of_git}/"]
    return tuple(os.fsencode(path.removeprefix(f"{root}/")) for path in paths if path.startswith(f"{root}/"))


async def _update(repository: Repository, index: Path, update: IndexUpdate) -> None:
    """Bring the index up to date. A checkpoint if there is something to do; if cancelled, finished batches stay indexed."""
    if update.infos:
        await repository.git(
            "update-index", "--replace", "-z", "--index-info", index=index, input=b"".join(update.infos)
        )
    how = PACKED if len(update.added) > _PACK_FROM and await repository.packs_together() else ()
    batches = list(update.batches())
    for number, batch in enumerate(batches):
        command = ("update-index", "-z", "--add", "--remove", "--replace", "--stdin")
        await repository.git(*how, *command, index=index, input=batch)
        # After each batch but the last, which `take` replaces together with the rest: a large project that is cancelled
        # again and again still makes progress.
        if number + 1 < len(batches):
            await to_thread(repository.replace_index, index)


async def diff(repository: Repository, old: str, new: str) -> tuple[Change, ...]:
    """Return the changes from one tree to another, by path. Always a checkpoint. Raises `SnapshotError`."""
    what = ("--raw", "--no-renames", "--no-abbrev", "--no-ext-diff", "--no-textconv", "--ignore-submodules=none")
    try:
        output = await repository.git("diff-tree", "-r", "-z", *what, old, new)
    except SnapshotError as error:
        raise SnapshotError(f"the snapshot is gone, or damaged: {error}") from error
    return tuple(_changes(repository.place.root, output.split(b"\0")))


def _changes(root: str, fields: list[bytes]) -> Iterator[Change]:
    for head, path in zip(fields[0::2], fields[1::2], strict=False):
        old_mode, new_mode, old_id, new_id, _ = head.decode().removeprefix(":").split(" ")
        yield Change(
            os.path.join(root, os.fsdecode(path)),  # noqa: PTH118 - of a str, which may be no UTF-8
            _entry(old_mode, old_id),
            _entry(new_mode, new_id),
        )


def _entry(mode: str, object_id: str) -> TreeEntry | None:
    return None if mode == "000000" else TreeEntry(mode, object_id)


async def batches_of(repository: Repository, ids: Iterable[str]) -> list[list[str]]:
    """Group ids of entries so that the contents of a group fit into memory. A checkpoint if there are any. Raises `SnapshotError`."""
    ids_sorted = sorted(set(ids))
    if not ids_sorted:
        return []
    output = await repository.git("cat-file", "--batch-check", input=_lines(ids_sorted))
    batches: list[list[str]] = [[]]
    size = 0
    for line in output.decode().splitlines():
        object_id, _, length = _parse_blob_header(line)
        if size + length > _READ_BYTES and batches[-1]:
            batches.append([])
            size = 0
        batches[-1].append(object_id)
        size += length
    return batches


async def read(repository: Repository, ids: Sequence[str]) -> dict[str, bytes]:
    """Return the contents of entries, by their ids. A checkpoint. Raises `SnapshotError`."""
    return dict(_contents(await repository.git("cat-file", "--batch", input=_lines(ids))))


def _contents(output: bytes) -> Iterator[tuple[str, bytes]]:
    position = 0
    while position < len(output):
        end = output.index(b"\n", position)
        object_id, _, size = _parse_blob_header(output[position:end].decode())
        yield object_id, output[end + 1 : end + 1 + size]
        position = end + 1 + size + 1


def _parse_blob_header(line: str) -> tuple[str, str, int]:
    words = line.split(" ")
    if len(words) != 3 or words[1] != "blob":
        raise SnapshotError("the snapshot is gone, or damaged: it lacks the content of a file")
    return words[0], words[1], int(words[2])


def _lines(ids: Iterable[str]) -> bytes:
    return "".join(f"{object_id}\n" for object_id in ids).encode()


def _split(listed: bytes) -> list[bytes]:
    return [path for path in listed.split(b"\0") if path]
