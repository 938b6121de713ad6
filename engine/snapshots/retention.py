"""Removes old snapshots: after `KEPT_DAYS`, with their session, or with a project's unused folder."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import trio

from engine.core.errors import SnapshotError
from engine.core.threads import to_thread
from engine.snapshots.change_log import ChangeLog
from engine.snapshots.repository import Repository, safe_name
from engine.snapshots.snapshot_dir import SnapshotDir

KEPT_DAYS: Final = 30
_STAMP_FILE: Final = ".swept"
_DAY: Final = 86_400.0
_SECONDS: Final = 20.0
# Git's own limits for `gc --auto`: 6,700 loose objects, estimated from one of their 256 folders, and 50 packs.
_MOST_LOOSE: Final = 27
_MOST_PACKS: Final = 50


async def clean_up(folder: Path, program: str | None) -> None:
    """Remove old snapshots, once a day. A checkpoint; if cancelled, the rest is removed another time."""
    if not await to_thread(_is_due, folder):
        return
    for key in await to_thread(_keys, folder):
        with suppress(SnapshotError, OSError):
            await _clean_up_project(await to_thread(SnapshotDir.of_key, folder, key), program)


async def _clean_up_project(place: SnapshotDir, program: str | None) -> None:
    repository = Repository(place, program or "git")
    with trio.move_on_after(_SECONDS):
        async with repository.locked(alone=True):
            wants_tidying = await to_thread(_drop, place, time.time() - KEPT_DAYS * _DAY)
        if wants_tidying and program is not None:
            # Other processes continue meanwhile: objects that no ref names yet are less than a day old, and git renews
            # the time of an object that is written again.
            async with repository.locked():
                await repository.tidy(days=1, seconds=_SECONDS)


def forget_sessions(folder: Path, owners: Collection[str]) -> None:
    """Drop the snapshots of these sessions; the next sweep removes their contents. It blocks."""
    for key in _keys(folder):
        for kept in _kept_folders(folder / key):
            for owner in owners:
                shutil.rmtree(kept / safe_name(owner), ignore_errors=True)
        with suppress(OSError, SnapshotError):
            ChangeLog(SnapshotDir.of_key(folder, key)).forget(owners)


def _is_due(folder: Path) -> bool:
    """Tell whether a sweep is due, and if so record that it happens now."""
    if not folder.is_dir():
        return False
    stamp = folder / _STAMP_FILE
    try:
        with suppress(FileNotFoundError):
            if abs(time.time() - stamp.stat().st_mtime) < _DAY:
                return False
        stamp.touch()
    except OSError:
        return False
    return True


def _keys(folder: Path) -> list[str]:
    with suppress(OSError):
        return [entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False)]
    return []


def _kept_folders(own: Path) -> tuple[Path, Path]:
    return own / "git" / "refs" / "snapshots", own / "copies" / "kept"


def _drop(place: SnapshotDir, before: float) -> bool:
    """Drop snapshots from before that time, and the whole project if none is left; return whether git should clean up."""
    dropped = False
    left = 0
    for folder in _kept_folders(place.project_dir):
        for path in _files(folder):
            if path.stat().st_mtime < before:
                path.unlink()
                dropped = True
            else:
                left += 1
    _drop_halves(place, before)
    _drop_copies(place)
    if not left and (place.project_dir / "root").stat().st_mtime < before:
        shutil.rmtree(place.project_dir, ignore_errors=True)
        return False
    return (dropped or _is_untidy(place.project_dir / "git" / "objects")) and (place.project_dir / "git").exists()


def _is_untidy(objects: Path) -> bool:
    """Tell whether there are so many loose objects, or packs, that git is slow."""
    return (
        # Objects are spread evenly by hash, so one folder is enough of a sample; git looks at the same one.
        sum(1 for _ in (objects / "17").glob("*")) > _MOST_LOOSE
        or sum(1 for _ in (objects / "pack").glob("*.pack")) > _MOST_PACKS
    )


def _drop_halves(place: SnapshotDir, before: float) -> None:
    """Remove unfinished files of killed engines."""
    for pattern in ("git/index.*", ".git.*", "git/.*", "copies/*/.*"):
        for path in place.project_dir.glob(pattern):
            with suppress(OSError):
                if path.stat().st_mtime < min(before, time.time() - _DAY) and path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                elif path.stat().st_mtime < time.time() - _DAY:
                    path.unlink()


def _drop_copies(place: SnapshotDir) -> None:
    """Remove trees of copies without an owner, and contents without a tree."""
    folder = place.project_dir / "copies"
    kept = {path.name for path in _files(folder / "kept")}
    needed: set[str] = set()
    for path in _files(folder / "trees"):
        if path.name in kept:
            needed.update(path.read_text(encoding="ascii").replace('"', " ").replace(",", " ").split())
        else:
            path.unlink()
    if not kept and (folder / "known").exists():
        (folder / "known").unlink()
    for path in _files(folder / "contents"):
        if path.name not in needed and path.stat().st_mtime < time.time() - _DAY:
            path.unlink()


def _files(folder: Path) -> Iterator[Path]:
    for above, _, names in os.walk(folder):
        for name in names:
            yield Path(above) / name
