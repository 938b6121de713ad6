"""Lay out a sandbox on this machine: which paths it contains, and which must be hidden.

Temporary folders are shared with the machine, not private: a file that a command leaves in `/tmp` is there
for the next command and for the tools that read and edit files, which run outside. The sockets in
them are hidden, because their servers (terminals, agents, the desktop) run outside too and would
obey a command. So are `/run`, where most sockets are, and every other socket with a listener.

A mounted folder cannot be moved away and replaced by a link by a command in another sandbox at the
same time. So every folder on the way from a writable one to the project is mounted separately.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from engine.config.sandbox_config import Kind, Layout, Sandbox
from engine.core.errors import ToolError
from engine.files.real_path import followed, is_within
from engine.permission.project_root import find_project_root
from engine.permission.rules.run_later import runs_later
from engine.sandbox.places import NOTHING

# Read-only in the project: they determine what runs later, outside. Missing folders are created, or a command could
# create them.
_SETTINGS: Final = ".engine"
_GIT: Final = ".git"
_HOOKS: Final = "hooks"
_GIT_FILES: Final = ("config", "config.worktree", "commondir")

_TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108 - these are meant
_RUN: Final = ("/run", "/var/run")
# Exceptions from hiding: the programs of NixOS and Guix; with a network, the files for host name lookup.
_PROGRAMS_IN_RUN: Final = ("/run/current-system", "/run/booted-system", "/run/wrappers")
_NAMES_IN_RUN: Final = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")
_MAX_SEEN: Final = 10_000


def sandbox_layout(sandbox: Sandbox, *, cwd: str, home: str) -> Layout:
    """Return the layout of the sandbox for a command that runs in *cwd*. Blocking.

    Raises `ToolError` if there can't be a sandbox.
    """
    project = find_project_root(cwd, home=home)
    if not project:
        raise ToolError(f"The command was not run: in a sandbox only a project can be changed, and {cwd} is none.")
    temporary: list[str] = [path for path in map(followed, (tempfile.gettempdir(), *_TEMPORARY)) if _is_folder(path)]
    more = [path for path in (_expanded(path, home) for path in sandbox.writable) if os.path.lexists(path)]
    writable = [path for path in (*temporary, *more) if path != "/"]
    # A later entry for the same path replaces an earlier one, so what protects comes after what allows.
    places: dict[str, Kind] = dict(_temporary_sockets(temporary, project))
    run_folders, links = _run_folders(network=sandbox.network)
    places |= run_folders
    places |= dict.fromkeys((*writable, *_folders_to_mount(project, writable)), "writable")
    _make(Path(project, _SETTINGS))
    for folder in dict.fromkeys((project, followed(cwd))):
        places |= dict.fromkeys(_run_later(folder), "readable")
        places |= _protected_paths(folder)
    places |= _hidden_paths(sandbox, home)
    places |= _unreachable_sockets(project, [path for path, kind in places.items() if kind == "empty folder"])
    return Layout(
        cwd=followed(cwd),
        network=sandbox.network,
        is_root=os.geteuid() == 0,
        places=tuple(sorted(places.items())),
        links=links,
        nothing=NOTHING,
    )


def _folders_to_mount(project: str, writable: Sequence[str]) -> list[str]:
    """Return the project, and the writable folders above it."""
    above = [
        parent for parent in map(str, Path(project).parents) if any(is_within(parent, folder) for folder in writable)
    ]
    return [project, *above]


def _hidden_paths(sandbox: Sandbox, home: str) -> dict[str, Kind]:
    """Return the configured paths that must appear empty, where they exist."""
    places: dict[str, Kind] = {}
    for path in (_expanded(path, home) for path in sandbox.hidden):
        with suppress(OSError):
            places[path] = "empty folder" if stat.S_ISDIR(Path(path).stat().st_mode) else "empty file"
    return places


def _unreachable_sockets(project: str, hidden: Sequence[str]) -> dict[str, Kind]:
    """Return the sockets in use that lie neither in the project nor in a hidden folder."""
    folders = (project, *hidden)
    return {path: "empty file" for path in _listening_sockets() if not any(is_within(path, one) for one in folders)}


def _expanded(path: str, home: str) -> str:
    return followed(f"{home}{path[1:]}" if path.startswith("~") else path)


def _is_folder(path: str) -> bool:
    with suppress(OSError):
        return stat.S_ISDIR(Path(path).stat().st_mode)
    return False


# ---- settings that determine what runs later -------------------------------------------------------------------------------------


def _protected_paths(folder: str) -> dict[str, Kind]:
    """Return the protected paths of a project. Raises `ToolError` for a path that can't be protected."""
    settings, git = Path(folder, _SETTINGS), Path(folder, _GIT)
    if settings.is_symlink():
        raise ToolError(f"The command was not run: {settings} is a symbolic link, which a sandbox can't protect.")
    guarded: dict[str, Kind] = {str(settings): "readable"} if os.path.lexists(settings) else {}
    if git.is_symlink() or not os.path.lexists(git):
        return guarded
    if not git.is_dir():  # a file that points to the repository
        return {**guarded, str(git): "readable"}
    _make(git / _HOOKS)
    _create_git_settings(git)
    inside = [git / name for name in (_HOOKS, *_GIT_FILES) if os.path.lexists(git / name)]
    if git / _GIT_FILES[0] not in inside or any(path.is_symlink() for path in inside):
        return {**guarded, str(git): "readable"}
    # The folder itself too, or it could be moved away and replaced.
    return {**guarded, str(git): "writable", **{str(path): "readable" for path in inside}}


def _run_later(folder: str) -> Iterator[str]:
    """Yield what is directly in a folder, is not a link, and runs later by itself, but for the repository."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name != _GIT and not entry.is_symlink() and runs_later(entry.name):
                yield entry.path


def _create_git_settings(git: Path) -> None:
    """Create the files that can redirect git to other settings, or a command could. What they hold has no effect."""
    with suppress(OSError):
        if (git / "HEAD").is_file():
            with (git / "commondir").open("x", encoding="ascii") as file:
                file.write(".\n")
    with suppress(OSError):
        if b"worktreeconfig" in (git / "config").read_bytes().lower():
            (git / "config.worktree").touch(exist_ok=False)


def _make(folder: Path) -> None:
    # If we may not create it, a command may not either.
    with suppress(OSError):
        folder.mkdir()


# ---- ways out --------------------------------------------------------------------------------------------------------


def _run_folders(*, network: bool) -> tuple[dict[str, Kind], tuple[tuple[str, str], ...]]:
    """Return the mounts for `/run`, and the links in it to keep."""
    folders = {followed(path) for path in (*_RUN, os.environ.get("XDG_RUNTIME_DIR", ""))} - {followed("")}
    places: dict[str, Kind] = {path: "empty folder" for path in folders if path != "/" and _is_folder(path)}
    links: list[tuple[str, str]] = []
    for path in (*_PROGRAMS_IN_RUN, *(_NAMES_IN_RUN if network else ())):
        if os.path.islink(path):  # noqa: PTH114
            links.append((path, os.readlink(path)))  # noqa: PTH115
        elif _is_folder(path):
            places[path] = "readable"
    return places, tuple(links)


def _temporary_sockets(folders: Sequence[str], project: str) -> Iterator[tuple[str, Kind]]:
    """Yield the sockets in temporary folders, and the folders there that hold sockets, except those in the project."""
    left = _MAX_SEEN
    for folder in dict.fromkeys(folders):
        for entry in _entries(folder, left):
            left -= 1
            if is_within(entry.path, project):
                continue
            if _is_socket(entry):
                yield entry.path, "empty file"
            elif entry.is_dir(follow_symlinks=False) and any(map(_is_socket, _entries(entry.path, left))):
                yield entry.path, "empty folder"


def _listening_sockets() -> Iterator[str]:
    """Yield the sockets that have a listener, wherever they are: a read-only mount does not prevent connecting."""
    with suppress(OSError), open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as lines:  # noqa: PTH123
        for line in lines:
            # Number, users, protocol, flags, type, state, inode, and the path, if it has one.
            path = line.rstrip("\n").split(maxsplit=7)[7:]
            if path and path[0].startswith("/") and _is_socket_at(real := followed(path[0])):
                yield real


def _is_socket_at(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False


def _entries(folder: str, most: int) -> list[os.DirEntry[str]]:
    with suppress(OSError), os.scandir(folder) as entries:
        return [entry for entry, _ in zip(entries, range(most), strict=False)]
    return []


def _is_socket(entry: os.DirEntry[str]) -> bool:
    try:
        return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return False
