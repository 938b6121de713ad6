"""`ProjectSnapshots`: snapshots by git where that is possible, else by copies of what tools change."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, Literal, TypeVar, final

import attrs
import trio

from engine.core.errors import SnapshotError
from engine.core.snapshot_types import Change, Entry, Put, Taken
from engine.core.threads import to_thread
from engine.snapshots import git_backend as git
from engine.snapshots.copy_backend import COPIES_NOTE, Copies
from engine.snapshots.git_backend import TooLarge
from engine.snapshots.location import Place, default_folder, is_git_folder, is_too_wide, root_of
from engine.snapshots.repository import Repository, find_git
from engine.snapshots.restore import Putting
from engine.snapshots.retention import tend

_NAMED: Final = 5
# A project that is never noted in time is left in peace after so many times.
_MOST_ATTEMPTS: Final = 3
# So long may one be read beside the turns, where a turn did not want to wait for it.
_READING_SECONDS: Final = 600.0

_REMOVED: Final = "old ones are removed after a while"

_Way = Literal["git", "copies"]
_Store = Repository | Copies
T = TypeVar("T")


@final
@attrs.define(eq=False)
class ProjectSnapshots:
    """Snapshots of projects, in a private folder of the user's, or in *folder*. See docs/how-to/undo.md.

    *left_out* is what is no part of any project, though it lies in one: the file of a store, say.
    """

    _folder: Path | None = attrs.field(default=None, converter=attrs.converters.optional(Path), alias="folder")
    _left_out: tuple[str, ...] = attrs.field(default=(), alias="left_out")
    _ways: dict[str, _Way] = attrs.field(factory=dict[str, _Way], init=False)
    _attempts: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    _unread: dict[str, Place] = attrs.field(factory=dict[str, Place], init=False)
    _wanted: trio.Event | None = attrs.field(default=None, init=False)
    _told: set[tuple[str, str]] = attrs.field(factory=set[tuple[str, str]], init=False)

    @property
    def folder(self) -> Path:
        """Where they are kept."""
        if self._folder is None:
            self._folder = default_folder()
        return self._folder

    async def take(self, cwd: str, *, owner: str, paths: Collection[str] = (), within: float) -> Taken:
        """Note the files of the project around *cwd* as they are. See `engine.core.protocols.Snapshots`."""
        place = Place(self.folder, await to_thread(root_of, cwd))
        remarks: list[str] = []
        with trio.move_on_after(within):
            way = await self._way(place, remarks)
            if place.root in self._unread or self._attempts.get(place.root, 0) >= _MOST_ATTEMPTS:
                # Who waits for it now would wait in vain.
                return Taken(None)
            if way == "git":
                try:
                    return await self._by_git(place, owner, remarks)
                except TooLarge as error:
                    self._limit(place, f"{place.root} is too large: {error}", remarks)
            tree = await to_thread(Copies(place).take, owner, frozenset(paths))
            return Taken(f"copies-{place.key}-{tree}", tuple(remarks))
        self._attempts[place.root] = self._attempts.get(place.root, 0) + 1
        if self._wanted is not None and self._ways.get(place.root) == "git":
            self._unread[place.root] = place
            self._wanted.set()
        said = f"the files in {place.root} could not be noted within {within:g} s; what was read is known the next time"
        return Taken(None, (*remarks, *self._once(place, said)))

    async def about_to_change(self, cwd: str, paths: Sequence[str]) -> None:
        """Keep what is at *paths*, where nobody else does. See `engine.core.protocols.Snapshots`."""
        root = await to_thread(root_of, cwd)
        if self._ways.get(root) == "copies":
            await to_thread(Copies(Place(self.folder, root)).about_to_change, tuple(paths))

    async def diff(self, old: str, new: str, *, owner: str) -> tuple[Change, ...]:
        """Return what became of each path. See `engine.core.protocols.Snapshots`."""
        store, before = await self._store(old)
        other, after = _parts(new)[0::2]
        if (other, _parts(new)[1]) != _parts(old)[:2]:
            raise SnapshotError("the snapshots are of two folders, or of two kinds, so they can't be compared")
        if not await to_thread(lambda: store.is_kept(before, owner) and store.is_kept(after, owner)):
            raise SnapshotError(f"the snapshot is gone, or was not taken for this session: {_REMOVED}")
        if isinstance(store, Copies):
            return await to_thread(store.diff, before, after)
        return await git.diff(store, before, after)

    async def read(self, tree: str, entries: Collection[Entry]) -> dict[str, bytes]:
        """Return what is in entries. See `engine.core.protocols.Snapshots`."""
        store, _ = await self._store(tree)
        contents: dict[str, bytes] = {}
        for ids in await self._portions(store, entries):
            contents.update(await self._read(store, ids))
        return contents

    async def put(self, tree: str, puts: Sequence[Put], *, cwd: str) -> None:
        """Put files back. See `engine.core.protocols.Snapshots`."""
        store, _ = await self._store(tree)
        real = await to_thread(os.path.realpath, cwd)
        putting = Putting(puts, partial(_shown, real), (real, store.place.root))
        try:
            await to_thread(putting.check)
            for ids in await self._portions(store, [put.want for put in puts if put.want is not None]):
                contents = await self._read(store, ids)
                # Not abandoned, here and below: what is written beside a file must be known, to be removed again. It
                # looks between two files whether anybody still wants it.
                await to_thread(putting.stage, contents, trio.from_thread.check_cancelled, abandon_on_cancel=False)
            await to_thread(putting.make, trio.from_thread.check_cancelled, abandon_on_cancel=False)
        finally:
            # At once: nothing can be awaited in a scope that is cancelled.
            putting.clean_up()

    def leave_out(self, path: str) -> None:
        """Let *path*, and what begins as it, be no part of any project. Not a checkpoint."""
        self._left_out = tuple(dict.fromkeys((*self._left_out, path)))

    async def tend(self) -> None:
        """Remove what is old, once a day; then read what turns had no time for, until cancelled. Always a checkpoint."""
        await tend(self.folder, await find_git())
        while True:
            self._wanted = trio.Event()
            await self._wanted.wait()
            for place in tuple(self._unread.values()):
                with trio.move_on_after(_READING_SECONDS), suppress(SnapshotError, TooLarge):
                    await git.prime(await self._repository(place))
                    # From now on it is quick.
                    self._attempts.pop(place.root, None)
                del self._unread[place.root]

    # -- inside ---------------------------------------------------------------------------

    async def _way(self, place: Place, remarks: list[str]) -> _Way:
        if place.root not in self._ways:
            if await to_thread(is_too_wide, place.root):
                self._limit(place, f"{place.root} is no project of its own", remarks)
            elif await to_thread(is_git_folder, place.root):
                self._limit(place, f"{place.root} is a repository without files of its own", remarks)
            elif await find_git() is None:
                self._limit(place, "there is no git", remarks)
            else:
                self._ways[place.root] = "git"
        return self._ways[place.root]

    def _limit(self, place: Place, why: str, remarks: list[str]) -> None:
        self._ways[place.root] = "copies"
        remarks.extend(self._once(place, COPIES_NOTE.format(why=why)))

    def _once(self, place: Place, text: str) -> tuple[str, ...]:
        if (place.root, text) in self._told:
            return ()
        self._told.add((place.root, text))
        # It is for people to read, so names that are no UTF-8 become such.
        return (os.fsencode(text).decode(errors="replace"),)

    async def _by_git(self, place: Place, owner: str, remarks: list[str]) -> Taken:
        shot = await git.take(await self._repository(place), owner)
        self._attempts.pop(place.root, None)
        if shot.repositories:
            some = ", ".join(shot.repositories[:_NAMED])
            more = len(shot.repositories) - _NAMED
            names = f"{some} and {more} more" if more > 0 else some
            remarks.extend(self._once(place, f"repositories in the repository can't be put back: {names}"))
        return Taken(f"git-{place.key}-{shot.tree}", tuple(remarks))

    async def _repository(self, place: Place) -> Repository:
        return Repository(place, await self._program(), self._left_out)

    async def _program(self) -> str:
        program = await find_git()
        if program is None:
            raise SnapshotError("there is no git on the PATH any more")
        return program

    async def _store(self, tree: str) -> tuple[_Store, str]:
        kind, key, name = _parts(tree)
        place = await to_thread(Place.of_key, self.folder, key)
        return (Copies(place) if kind == "copies" else await self._repository(place)), name

    async def _portions(self, store: _Store, entries: Collection[Entry]) -> list[list[str]]:
        ids = sorted({entry.id for entry in entries if not entry.is_left_out})
        if isinstance(store, Repository):
            return await git.portions(store, ids)
        return [[object_id] for object_id in ids]

    async def _read(self, store: _Store, ids: Sequence[str]) -> dict[str, bytes]:
        if isinstance(store, Copies):
            return await to_thread(store.read, tuple(ids))
        return await git.read(store, ids)


def _parts(tree: str) -> tuple[str, str, str]:
    parts = tree.split("-")
    if len(parts) != 3 or parts[0] not in {"git", "copies"} or not all(part.isalnum() for part in parts):
        raise SnapshotError(f"{tree!r} is no snapshot of this engine's")
    return parts[0], parts[1], parts[2]


def _shown(cwd: str, path: str) -> str:
    return os.path.relpath(path, cwd)
