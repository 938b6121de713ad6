"""Which files a confined command can read: what ordinary commands need, and not the user's home."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

import attrs

from engine.config.sandbox_config import Kind, Layout
from engine.files.real_path import followed, is_within

# Programs, their libraries and settings; what the machine and its processes are (`ps`, `nproc`); what is installed.
_SYSTEM: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/etc",
    "/nix/store",
    "/gnu/store",
    "/snap",
    "/run/current-system",
    "/proc",
    "/sys",
    "/var/lib/dpkg",
    "/var/lib/rpm",
    "/var/lib/pacman",
    "/lib/apk",
    "/var/cache/man",
)
# An empty file, which is mounted over hidden ones.
NOTHING: Final = str(Path(__file__).with_name("nothing"))
# git's settings themselves may hold keys: see `git_settings`.
# Where the `cargo` and `rustc` of rustup really lie.
_IN_HOME: Final = (".config/git/ignore", ".config/git/attributes", ".rustup")
# A folder of programs is often one of several that belong together: `…/bin` next to `…/lib`.
_PROGRAM_FOLDERS: Final = frozenset({"bin", "sbin", "shims", "scripts"})
# A link to a program is followed; a folder with more is not looked through.
_MAX_LINKS: Final = 2_000
# Of a folder with hidden paths, so many entries are readable.
_MAX_ENTRIES: Final = 5_000


@attrs.frozen
class Places:
    """What a confined command can read.

    Attributes:
        roots: real paths that exist, each with all that is below it. None lies in another one.
        hidden: real paths below them that can't be read.
        extra: further real paths, readable even if hidden; hidden ones below them are not.
    """

    roots: tuple[str, ...]
    hidden: tuple[str, ...]
    extra: tuple[str, ...] = ()

    def split(self) -> tuple[list[str], list[str]]:
        """Return the paths that can be read with all below them, and folders that can only be listed. It blocks."""
        readable, listable = list[str](), list[str]()
        for root in (*self.roots, *self.extra):
            inside = tuple(path for path in self.hidden if path != root and is_within(path, root))
            if inside:
                whole, partly = _without_hidden(root, inside, _changed(root))
                readable += whole
                listable += partly
            else:
                readable.append(root)
        return readable, listable


def readable_places(project: str, home: str, path: str, hidden: Sequence[str], extra: Iterable[str] = ()) -> Places:
    """Return what a confined command can read. It blocks.

    Args:
        project: the project; empty: none.
        home: the user's home folder.
        path: the folders of programs, as in `PATH`.
        hidden: real paths that stay unreadable.
        extra: further real paths; those are readable even if hidden, but hidden ones below them are not.
    """
    extra = tuple(extra)
    machine = machine_places(path, home)
    roots = tuple(_without_nested([*machine, *([project, *git_folders(project)] if project else [])]))
    shown = tuple(root for root in roots if not any(is_within(root, path) for path in hidden))
    return Places(
        shown, tuple(path for path in hidden if any(is_within(path, root) for root in (*shown, *extra))), extra
    )


def machine_places(path: str, home: str) -> tuple[str, ...]:
    """Return what is readable for all projects; *path* holds the folders of programs, as in `PATH`. It blocks."""
    return _machine_places(path, home, tuple(map(_changed, path.split(":"))))


@lru_cache(maxsize=8)
def _machine_places(path: str, home: str, _changed: tuple[int, ...]) -> tuple[str, ...]:
    """Return what is readable for all projects; looking for it takes some milliseconds, so it is kept."""
    in_home = (followed(f"{home}/{name}") for name in _IN_HOME)
    return tuple(_without_nested([*map(followed, _SYSTEM), *program_folders(path, home), *in_home]))


def _changed(folder: str) -> int:
    with suppress(OSError, ValueError):
        return os.stat(folder).st_mtime_ns  # noqa: PTH116
    return 0


@lru_cache(maxsize=32)
def _without_hidden(root: str, hidden: tuple[str, ...], _changed: int) -> tuple[list[str], list[str]]:
    """Return what *root* consists of without the hidden paths: what is readable as a whole, and the folders between."""
    readable: list[str] = []
    listable: list[str] = []
    _split(root, hidden, readable, listable)
    return readable, listable


def layout_of(places: Places, *, cwd: str, writable: str) -> Layout:
    """Return a layout with only these places, and one folder that can be changed. It blocks."""
    kinds: dict[str, Kind] = {
        **dict.fromkeys(places.roots, "readable"),
        **{path: "empty folder" if os.path.isdir(path) else "empty file" for path in places.hidden},  # noqa: PTH112
        **dict.fromkeys(places.extra, "readable"),
        writable: "writable",
    }
    # There is a new one.
    kinds.pop("/proc", None)
    with os.scandir("/") as entries:
        # `/bin` leads to `/usr/bin`, on most machines.
        links = tuple((entry.path, os.readlink(entry.path)) for entry in entries if entry.is_symlink())  # noqa: PTH115
    return Layout(
        cwd=followed(cwd),
        network=False,
        is_root=os.geteuid() == 0,
        places=tuple(kinds.items()),
        links=links,
        nothing=NOTHING,
    )


def program_folders(path: str, home: str) -> Iterator[str]:
    """Yield the real folders of `PATH`, and those that the programs in them are links to."""
    for folder in dict.fromkeys(path.split(":")):
        if not folder.startswith("/"):
            continue
        real = followed(folder)
        yield _family(real, home)
        if any(is_within(real, system) for system in _SYSTEM):
            continue
        with suppress(OSError), os.scandir(real) as entries:
            for entry, _ in zip(entries, range(_MAX_LINKS), strict=False):
                if entry.is_symlink():
                    yield _family(os.path.dirname(followed(entry.path)), home)  # noqa: PTH120


def hidden_places(paths: Iterable[str], home: str) -> list[str]:
    """Return the real paths of those that this user could read; `~` is the home folder."""
    expanded = (f"{home}{path[1:]}" if path.startswith("~") else path for path in paths)
    return [followed(path) for path in expanded if os.access(path, os.R_OK)]


def _family(folder: str, home: str) -> str:
    """Return the folder that *folder*, one of programs, is a part of."""
    above = os.path.dirname(folder)  # noqa: PTH120
    is_shared = above in {"/", home, f"{home}/.local"} or is_within(home, above)
    return folder if is_shared or os.path.basename(folder) not in _PROGRAM_FOLDERS else above  # noqa: PTH119


def git_folders(project: str) -> Iterator[str]:
    """Yield the folders of a repository whose working tree is elsewhere (`git worktree`)."""
    link = Path(project, ".git")
    with suppress(OSError, UnicodeDecodeError):
        if not stat.S_ISREG(link.lstat().st_mode):
            return
        folder = Path(project, link.read_text(encoding="utf-8").removeprefix("gitdir:").strip())
        # A link could name any folder. This one points back.
        back = (folder / "gitdir").read_text(encoding="utf-8").strip()
        if followed(back) != followed(str(link)):
            return
        yield followed(str(folder))
        shared = followed(str(folder / (folder / "commondir").read_text(encoding="utf-8").strip()))
        if is_within(followed(str(folder)), shared):
            yield shared


def _without_nested(places: Iterable[str]) -> Iterator[str]:
    """Yield the places that exist and lie in no other one."""
    existing = sorted({place for place in places if os.path.lexists(place)}, key=len)
    kept: list[str] = []
    for place in existing:
        if not any(is_within(place, other) for other in kept):
            kept.append(place)
            yield place


def _split(place: str, hidden: Sequence[str], readable: list[str], listable: list[str]) -> None:
    """Add *place*, or what it consists of without the hidden paths."""
    if any(is_within(place, path) for path in hidden):
        return
    if not any(is_within(path, place) for path in hidden):
        readable.append(place)
        return
    listable.append(place)
    with suppress(OSError), os.scandir(place) as entries:
        for entry, _ in zip(entries, range(_MAX_ENTRIES), strict=False):
            if not entry.is_symlink():
                _split(entry.path, hidden, readable, listable)
