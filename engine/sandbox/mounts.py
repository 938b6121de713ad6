"""Lay out a sandbox on this machine: which paths it contains, and which must be hidden.

Temporary folders are private to the commands of a project: other programs leave files and sockets there, and read what
is there. What one command leaves is there for the next one, until the engine ends. Hidden are `/run`, where most
sockets are, and every other socket with a listener: their servers (terminals, agents, the desktop) run outside and would
obey a command.

A mounted folder cannot be moved away and replaced by a link by a command in another sandbox at the
same time. So every folder on the way from a writable one to the project is mounted separately, and a folder in a
temporary one that leads to the project is empty but for that.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from engine.config.sandbox_config import Kind, Layout, Sandbox
from engine.core.errors import ToolError
from engine.files.real_path import followed, is_within
from engine.permission.project_root import find_project_root
from engine.sandbox.places import NOTHING, git_folders, machine_places
from engine.sandbox.run_later_files import GIT, GIT_SETTINGS, git_folders_of, link_targets, run_later_files
from engine.sandbox.temporary import project_folder

# Read-only in the project: they determine what runs later, outside. Missing folders are created, or a command could
# create them.
_SETTINGS: Final = ".engine"
_HOOKS, _CONFIG = GIT_SETTINGS[0], GIT_SETTINGS[1]
# Mounting takes the square of their number: 0.1 s for these, 1 s for three times as many.
MAX_PROTECTED: Final = 250

_TEMPORARY: Final = ("/tmp", "/var/tmp")  # noqa: S108 - these are meant
_RUN: Final = ("/run", "/var/run")
# Exceptions from hiding: the programs of NixOS and Guix; with a network, the files for host name lookup.
_PROGRAMS_IN_RUN: Final = ("/run/current-system", "/run/booted-system", "/run/wrappers")
_NAMES_IN_RUN: Final = ("/run/systemd/resolve", "/run/resolvconf", "/run/NetworkManager")


def sandbox_layout(sandbox: Sandbox, *, cwd: str, home: str) -> Layout:
    """Return the layout of the sandbox for a command that runs in *cwd*. Blocking.

    Raises `ToolError` if there can't be a sandbox.
    """
    project = find_project_root(cwd, home=home)
    if not project:
        raise ToolError(f"The command was not run: in a sandbox only a project can be changed, and {cwd} is none.")
    temporary = _temporary_folders(project)
    more = [path for path in (_expanded(path, home) for path in sandbox.writable) if os.path.lexists(path)]
    writable = [path for path in more if path != "/"]
    # A later entry for the same path replaces an earlier one, so what protects comes after what allows.
    places: dict[str, Kind] = dict(_private_places(temporary, project, home))
    run_folders, links = _run_folders(network=sandbox.network)
    places |= run_folders
    places |= dict.fromkeys((*writable, *_folders_to_mount(project, writable)), "writable")
    open_places = [path for path, kind in places.items() if kind in {"writable", "readable"}]
    _make(Path(project, _SETTINGS))
    for folder in dict.fromkeys((project, followed(cwd))):
        _prepare_settings(folder)
    places |= _protected_paths(run_later_files(project, followed(cwd)), project, followed(cwd))
    places |= _hidden_paths(sandbox, home)
    unseen = [path for path, kind in places.items() if kind in {"empty folder", "private"}]
    places |= _unreachable_sockets(project, unseen, open_places)
    return Layout(
        cwd=followed(cwd),
        network=sandbox.network,
        is_root=os.geteuid() == 0,
        places=tuple(sorted(places.items())),
        links=links,
        nothing=NOTHING,
        private=project_folder(project),
    )


def _temporary_folders(project: str) -> list[str]:
    """Return the machine's temporary folders, but for one that the project is or contains."""
    folders = dict.fromkeys(map(followed, (tempfile.gettempdir(), *_TEMPORARY)))
    return [path for path in folders if _is_folder(path) and not is_within(path, project)]


def _private_places(temporary: Sequence[str], project: str, home: str) -> Iterator[tuple[str, Kind]]:
    """Yield the temporary folders, and what must be there nevertheless: the way to the project, its repository, programs."""
    for folder in temporary:
        yield folder, "private"
        if is_within(project, folder):
            first = os.path.relpath(project, folder).split("/")[0]
            yield os.path.join(folder, first), "empty folder"  # noqa: PTH118
    needed = (*git_folders(project), *machine_places(os.environ.get("PATH", os.defpath), home))
    for path in needed:
        if any(path != folder and is_within(path, folder) for folder in temporary):
            yield path, "readable"


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


def _unreachable_sockets(project: str, unseen: Sequence[str], seen: Sequence[str]) -> dict[str, Kind]:
    """Return the sockets in use that lie neither in the project nor in a folder that is *unseen*, but for those *seen*."""
    sockets = [path for path in _listening_sockets() if not is_within(path, project)]
    return {path: "empty file" for path in sockets if _deepest(path, seen) >= _deepest(path, unseen)}


def _deepest(path: str, folders: Sequence[str]) -> int:
    """Return the length of the deepest of the folders that a path is in; 0: none."""
    return max((len(folder) for folder in folders if is_within(path, folder)), default=0)


def _expanded(path: str, home: str) -> str:
    return followed(f"{home}{path[1:]}" if path.startswith("~") else path)


def _is_folder(path: str) -> bool:
    with suppress(OSError):
        return stat.S_ISDIR(Path(path).stat().st_mode)
    return False


# ---- settings that determine what runs later -------------------------------------------------------------------------------------


def _prepare_settings(folder: str) -> None:
    """Make what can be mounted only if it exists. Raises `ToolError` for settings that can't be protected."""
    settings, git = Path(folder, _SETTINGS), Path(folder, GIT)
    if settings.is_symlink():
        raise ToolError(f"The command was not run: {settings} is a symbolic link, which a sandbox can't protect.")
    if not git.is_symlink() and git.is_dir():
        _make(git / _HOOKS)
        _create_git_settings(git)


def _protected_paths(paths: Iterable[str], project: str, cwd: str) -> dict[str, Kind]:
    """Return how to mount what runs later, so that a command can't change it; if there is too much, the outermost."""
    paths = list(paths)
    # A folder in which the command runs must stay writable.
    targets = [path for path in link_targets(paths, project) if not is_within(cwd, path)]
    guarded: dict[str, Kind] = dict.fromkeys(targets, "readable")
    for path in (Path(one) for one in paths if not Path(one).is_symlink()):
        is_repository = path.name == GIT and path.is_dir()
        # Of a repository only the settings. It is mounted separately nevertheless, or it could be moved away and replaced.
        guarded[str(path)] = "writable" if is_repository and _is_protected_by_settings(path) else "readable"
    return dict(sorted(guarded.items(), key=lambda item: item[0].count("/"))[:MAX_PROTECTED])


def protection_problem(paths: Iterable[str], project: str, cwd: str) -> str:
    """Return why not all of these files can be protected from a command; empty if they can. It blocks."""
    paths = list(paths)
    if len(paths) + len(list(link_targets(paths, project))) > MAX_PROTECTED:
        return f"the project has more than {MAX_PROTECTED} files that other programs run by themselves later"
    around = (path for path in paths if any(is_within(cwd, target) for target in link_targets([path], project)))
    link = next(around, "")
    return f"{link} is a link to a folder that the command can change" if link else ""


def _is_protected_by_settings(git: Path) -> bool:
    """Return whether a repository can be written to if only its settings are protected."""
    settings = [Path(folder, name) for folder in git_folders_of(str(git)) for name in GIT_SETTINGS]
    return (git / _CONFIG).exists() and not any(path.is_symlink() for path in settings)


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
