"""`ProjectSnapshots`: snapshots by git where that is possible, else by copies of what tools change.

What takes and compares them is imported where it is used: most turns end before anything was changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeVar, Union, final

import attrs
import trio

from engine.core.errors import SnapshotError
from engine.core.snapshot_types import Attribution, Change, SnapshotResult, TreeEntry
from engine.core.threads import to_thread
from engine.snapshots.snapshot_dir import SnapshotDir, default_folder, is_git_folder, is_too_wide, project_root

if TYPE_CHECKING:
    from engine.core.snapshot_types import Put
    from engine.snapshots.change_log import LoggedChange
    from engine.snapshots.copy_backend import FileCopies
    from engine.snapshots.git_backend import GitSnapshot
    from engine.snapshots.repository import Repository

_MAX_NAMED: Final = 5
# After so many timeouts, no more snapshots of the project are attempted.
_MAX_ATTEMPTS: Final = 3
# Tidying up waits for the first snapshot, at most so long: the first request of a process must not wait for it.
_TIDY_AFTER_SECONDS: Final = 5.0
# Time limit for indexing a project in the background, after a turn could not wait for it.
_READING_SECONDS: Final = 600.0

_REMOVED: Final = "old ones are removed after a while"

_Backend = Literal["git", "copies"]
_Store = Union["Repository", "FileCopies"]
T = TypeVar("T")


@final
@attrs.define(eq=False, repr=False)
class ProjectSnapshots:
    """Snapshots of projects, in a private folder of the user's, or in *folder*. See docs/how-to/undo.md.

    *left_out* are files that snapshots leave out although they lie in a project, such as the file of a store.
    """

    _folder: Path | None = attrs.field(default=None, converter=attrs.converters.optional(Path), alias="folder")
    _left_out: tuple[str, ...] = attrs.field(default=(), alias="left_out")
    _backends: dict[str, _Backend] = attrs.field(factory=dict[str, _Backend], init=False)
    _attempts: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    _unread: dict[str, SnapshotDir] = attrs.field(factory=dict[str, SnapshotDir], init=False)
    _read_requested: trio.Event | None = attrs.field(default=None, init=False)
    _first_taken: trio.Event | None = attrs.field(default=None, init=False)
    _last: dict[str, GitSnapshot] = attrs.field(factory=dict[str, "GitSnapshot"], init=False)
    _reported: set[tuple[str, str]] = attrs.field(factory=set[tuple[str, str]], init=False)

    @property
    def folder(self) -> Path:
        """The private folder."""
        if self._folder is None:
            self._folder = default_folder()
        return self._folder

    async def take(self, cwd: str, *, owner: str, paths: Collection[str] = (), within: float) -> SnapshotResult:
        """Record the files of the project around *cwd*. See `engine.core.protocols.Snapshots`."""
        from engine.snapshots.copy_backend import FileCopies
        from engine.snapshots.git_backend import ProjectTooLarge

        if self._first_taken is not None:
            self._first_taken.set()
        place = SnapshotDir(self.folder, await to_thread(project_root, cwd))
        remarks: list[str] = []
        with trio.move_on_after(within):
            backend = await self._choose_backend(place, remarks)
            if place.root in self._unread or self._attempts.get(place.root, 0) >= _MAX_ATTEMPTS:
                # It was too slow several times, or `tend` is reading it: another attempt would only delay the turn.
                return SnapshotResult(None)
            if backend == "git":
                try:
                    return await self._take_with_git(place, owner, remarks)
                except ProjectTooLarge as error:
                    self._use_copies(place, f"{place.root} is too large: {error}", remarks)
            tree = await to_thread(FileCopies(place).take, owner, frozenset(paths))
            return SnapshotResult(f"copies-{place.key}-{tree}", tuple(remarks))
        self._attempts[place.root] = self._attempts.get(place.root, 0) + 1
        if self._read_requested is not None and self._backends.get(place.root) == "git":
            self._unread[place.root] = place
            self._read_requested.set()
        remark = (
            f"the files in {place.root} could not be noted within {within:g} s; what was read is known the next time"
        )
        return SnapshotResult(None, (*remarks, *self._report_once(place, remark)))

    async def take_since(
        self,
        cwd: str,
        last: str,
        *,
        owner: str,
        changed: Collection[str] | None,
        within: float,
        until: float | None = None,
    ) -> SnapshotResult:
        """Record the files, and whose calls have changed them. See `engine.core.protocols.Attributing`."""
        from engine.snapshots.change_log import ChangeLog, LoggedChange

        now = time.time()
        result = await self.take(cwd, owner=owner, within=within)
        if result.tree is not None:
            place = SnapshotDir(self.folder, await to_thread(project_root, cwd))
            paths = None if changed is None else tuple(changed)
            if until is not None:
                differing = await self.diff(last, result.tree, owner=owner)
                paths = await to_thread(_changed_until, until, differing, paths)
            await to_thread(ChangeLog(place).append, LoggedChange(owner, now, last, result.tree, paths))
        return result

    async def note_beginning(self, cwd: str, *, owner: str, paths: Collection[str] | None) -> None:
        """Note what calls are about to change. See `engine.core.protocols.Attributing`."""
        from engine.snapshots.change_log import LoggedChange

        await to_thread(self._note_beginning, cwd, LoggedChange.beginning(owner, paths))

    def _note_beginning(self, cwd: str, change: LoggedChange) -> None:
        from engine.snapshots.change_log import ChangeLog

        ChangeLog(SnapshotDir(self.folder, project_root(cwd))).append(change)

    async def attribution(self, trees: Sequence[str], *, owner: str, began: float) -> Attribution:
        """Return who has changed what. See `engine.core.protocols.Attributing`."""
        from engine.snapshots.change_log import ChangeLog, busy_since, changes_of_others, paths_between

        place = await to_thread(SnapshotDir.of_key, self.folder, _parse_name(trees[0])[1])
        logged = await to_thread(ChangeLog(place).since, 0)
        own = [change for change in logged if change.owner == owner and change.new and change.time >= began]
        since = next((change.time for change in own if (change.old, change.new) == ("", trees[0])), began)
        others = changes_of_others(logged, owner, since)
        return Attribution(
            calls=tuple(paths_between(trees, own)),
            others=frozenset(path for change in others for path in change.paths or ()),
            others_unsure=await self._unreported(others),
            busy_since=await to_thread(busy_since, logged, owner, since),
        )

    async def about_to_change(self, cwd: str, paths: Sequence[str]) -> None:
        """Copy the files at *paths*, if the project has snapshots by copies. See `engine.core.protocols.Snapshots`."""
        from engine.snapshots.copy_backend import FileCopies

        root = await to_thread(project_root, cwd)
        if self._backends.get(root) == "copies":
            await to_thread(FileCopies(SnapshotDir(self.folder, root)).about_to_change, tuple(paths))

    async def diff(self, old: str, new: str, *, owner: str) -> tuple[Change, ...]:
        """Return the changes, by path. See `engine.core.protocols.Snapshots`."""
        store, before = await self._store(old)
        other, after = _parse_name(new)[0::2]
        if (other, _parse_name(new)[1]) != _parse_name(old)[:2]:
            raise SnapshotError("the snapshots are of two folders, or of two kinds, so they can't be compared")
        if not await to_thread(lambda: store.is_kept(before, owner) and store.is_kept(after, owner)):
            raise SnapshotError(f"the snapshot is gone, or was not taken for this session: {_REMOVED}")
        return await self._compare(store, old, new)

    async def read(self, tree: str, entries: Collection[TreeEntry]) -> dict[str, bytes]:
        """Return the contents of entries. See `engine.core.protocols.Snapshots`."""
        store, _ = await self._store(tree)
        contents: dict[str, bytes] = {}
        for ids in await self._batches_of(store, entries):
            contents.update(await self._read(store, ids))
        return contents

    async def put(self, tree: str, puts: Sequence[Put], *, cwd: str) -> None:
        """Restore files. See `engine.core.protocols.Snapshots`."""
        from engine.snapshots.restore import RestoreJob

        store, _ = await self._store(tree)
        real = await to_thread(os.path.realpath, cwd)
        putting = RestoreJob(puts, partial(_shown, real), (real, store.place.root))
        try:
            await to_thread(putting.check)
            for ids in await self._batches_of(store, [put.want for put in puts if put.want is not None]):
                contents = await self._read(store, ids)
                # Not abandoned, here and below: temporary files must be known, to be removed again. The thread checks
                # between two files whether it was cancelled.
                await to_thread(putting.stage, contents, trio.from_thread.check_cancelled, abandon_on_cancel=False)
            await to_thread(putting.make, trio.from_thread.check_cancelled, abandon_on_cancel=False)
        finally:
            # In the trio thread, although it blocks: nothing can be awaited in a scope that is cancelled.
            putting.clean_up()

    def leave_out(self, path: str) -> None:
        """Leave *path*, and all paths that begin with it, out of snapshots. Not a checkpoint."""
        self._left_out = tuple(dict.fromkeys((*self._left_out, path)))

    async def tend(self) -> None:
        """Remove old snapshots, once a day; then index the projects that were too slow for a turn, until cancelled. Always a checkpoint."""
        self._first_taken, self._read_requested = trio.Event(), trio.Event()
        with trio.move_on_after(_TIDY_AFTER_SECONDS):
            await self._first_taken.wait()
        from engine.snapshots import git_backend as git
        from engine.snapshots.repository import find_git
        from engine.snapshots.retention import clean_up

        await clean_up(self.folder, await find_git())
        while True:
            await self._read_requested.wait()
            self._read_requested = trio.Event()
            for place in tuple(self._unread.values()):
                with trio.move_on_after(_READING_SECONDS), suppress(SnapshotError, git.ProjectTooLarge):
                    await git.prime(await self._repository(place))
                    # It is indexed now, so the next snapshot is quick: attempts count from zero again.
                    self._attempts.pop(place.root, None)
                del self._unread[place.root]

    # -- inside ---------------------------------------------------------------------------

    async def _choose_backend(self, place: SnapshotDir, remarks: list[str]) -> _Backend:
        from engine.snapshots.repository import find_git

        if place.root not in self._backends:
            if await to_thread(is_too_wide, place.root):
                self._use_copies(place, f"{place.root} is no project of its own", remarks)
            elif await to_thread(is_git_folder, place.root):
                self._use_copies(place, f"{place.root} is a repository without files of its own", remarks)
            elif await find_git() is None:
                self._use_copies(place, "there is no git", remarks)
            else:
                self._backends[place.root] = "git"
        return self._backends[place.root]

    def _use_copies(self, place: SnapshotDir, why: str, remarks: list[str]) -> None:
        from engine.snapshots.copy_backend import COPIES_NOTE

        self._backends[place.root] = "copies"
        remarks.extend(self._report_once(place, COPIES_NOTE.format(why=why)))

    def _report_once(self, place: SnapshotDir, text: str) -> tuple[str, ...]:
        if (place.root, text) in self._reported:
            return ()
        self._reported.add((place.root, text))
        # A remark is stored as text, which names that are not UTF-8 could not be.
        return (os.fsencode(text).decode(errors="replace"),)

    async def _take_with_git(self, place: SnapshotDir, owner: str, remarks: list[str]) -> SnapshotResult:
        from engine.snapshots import git_backend as git

        shot = await git.take(await self._repository(place), owner, self._last.get(place.root))
        self._last[place.root] = shot
        self._attempts.pop(place.root, None)
        if shot.repositories:
            some = ", ".join(shot.repositories[:_MAX_NAMED])
            more = len(shot.repositories) - _MAX_NAMED
            names = f"{some} and {more} more" if more > 0 else some
            remarks.extend(self._report_once(place, f"repositories in the repository can't be put back: {names}"))
        return SnapshotResult(f"git-{place.key}-{shot.tree}", tuple(remarks))

    async def _repository(self, place: SnapshotDir) -> Repository:
        from engine.snapshots.repository import Repository

        return Repository(place, await self._program(), self._left_out)

    async def _program(self) -> str:
        from engine.snapshots.repository import find_git

        program = await find_git()
        if program is None:
            raise SnapshotError("there is no git on the PATH any more")
        return program

    async def _store(self, tree: str) -> tuple[_Store, str]:
        from engine.snapshots.copy_backend import FileCopies

        kind, key, name = _parse_name(tree)
        place = await to_thread(SnapshotDir.of_key, self.folder, key)
        return (FileCopies(place) if kind == "copies" else await self._repository(place)), name

    async def _batches_of(self, store: _Store, entries: Collection[TreeEntry]) -> list[list[str]]:
        from engine.snapshots import git_backend as git
        from engine.snapshots.repository import Repository

        ids = sorted({entry.id for entry in entries if not entry.is_left_out})
        if isinstance(store, Repository):
            return await git.batches_of(store, ids)
        return [[object_id] for object_id in ids]

    async def _compare(self, store: _Store, old: str, new: str) -> tuple[Change, ...]:
        from engine.snapshots import git_backend as git
        from engine.snapshots.copy_backend import FileCopies

        before, after = _parse_name(old)[2], _parse_name(new)[2]
        if isinstance(store, FileCopies):
            return await to_thread(store.diff, before, after)
        return await git.diff(store, before, after)

    async def _unreported(self, logged: Sequence[LoggedChange]) -> frozenset[str]:
        """Return what differs where the log does not say what calls changed: any of it may be theirs."""
        paths: set[str] = set()
        for old, new in {
            (change.old, change.new) for change in logged if change.paths is None and change.old != change.new != ""
        }:
            with suppress(SnapshotError):  # it may be gone: only the session that took it keeps it
                store, _ = await self._store(old)
                paths.update(change.path for change in await self._compare(store, old, new))
        return frozenset(paths)

    async def _read(self, store: _Store, ids: Sequence[str]) -> dict[str, bytes]:
        from engine.snapshots import git_backend as git
        from engine.snapshots.copy_backend import FileCopies

        if isinstance(store, FileCopies):
            return await to_thread(store.read, tuple(ids))
        return await git.read(store, ids)


def _changed_until(until: float, changes: Collection[Change], reported: Sequence[str] | None) -> tuple[str, ...]:
    """Return the paths that were changed until a time; of those *reported*, if all are. It blocks."""
    from engine.snapshots.turn_changes import changed_at, is_among, with_real_paths

    # A removed file has no time of its removal; putting it back does no harm.
    paths = (change.path for change in changes if change.after is None or changed_at(change.path) <= until)
    names = None if reported is None else with_real_paths(reported)
    return tuple(path for path in paths if names is None or is_among(path, names))


def _parse_name(tree: str) -> tuple[str, str, str]:
    parts = tree.split("-")
    if len(parts) != 3 or parts[0] not in {"git", "copies"} or not all(part.isalnum() for part in parts):
        raise SnapshotError(f"{tree!r} is no snapshot of this engine's")
    return parts[0], parts[1], parts[2]


def _shown(cwd: str, path: str) -> str:
    return os.path.relpath(path, cwd)
