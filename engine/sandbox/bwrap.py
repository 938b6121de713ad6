"""Bubblewrap: the command line that puts a command into a sandbox.

Two usual options are left out on purpose, because `run_tree` owns the processes:

- `--die-with-parent` ends the command when the *thread* that started bubblewrap ends, and trio's threads end
  when they have been idle. It also turns the SIGTERM that lets a command clean up into a SIGKILL, because
  bubblewrap itself dies first. Instead the first process of the namespace, which cannot leave the leader's
  session, is killed with the rest of the tree, and the namespace ends with it.
- `--new-session` would put the command out of reach of signals to its group. It keeps a command from typing
  into the terminal, but there is none: `run_tree` starts a session of its own.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from engine.config.sandbox_config import Kind, Layout
from engine.sandbox.places import Places

# Root can write to these without any capability, and so change the kernel, for example what handles a crash. They are
# writable in a new `/proc`.
_KERNEL: Final = tuple(f"/proc/{name}" for name in ("acpi", "bus", "fs", "irq", "mtrr", "scsi", "sys", "sysrq-trigger"))

# An empty file, which is mounted over hidden ones.
NOTHING: Final = str(Path(__file__).with_name("nothing"))
_OPTIONS: Final[dict[Kind, tuple[str, ...]]] = {
    "writable": ("--bind", "{path}", "{path}"),
    "readable": ("--ro-bind", "{path}", "{path}"),
    "empty folder": ("--tmpfs", "{path}"),
    "empty file": ("--ro-bind", "{nothing}", "{path}"),
}


def argv(program: str, layout: Layout, command: Sequence[str]) -> list[str]:
    """Return the command line that runs *command* in the sandbox; *program* is the path of bubblewrap."""
    # A path comes after the folder that contains it, or the folder would be mounted over it.
    places = sorted(layout.places, key=lambda place: (place[0].rstrip("/").count("/"), place[0]))
    return [
        program,
        "--unshare-pid",
        "--unshare-ipc",
        *(() if layout.network else ("--unshare-net",)),
        # Root would keep all capabilities and could mount anything. One stays: in a container, the project's files often
        # belong to another user.
        *("--cap-drop", "ALL"),
        *(("--cap-add", "CAP_DAC_OVERRIDE") if layout.is_root else ()),
        *("--ro-bind", "/", "/"),
        *("--dev", "/dev"),
        *("--proc", "/proc"),
        *(word for path in _KERNEL for word in ("--ro-bind-try", path, path)),
        *(word for path, kind in places for word in _mount_options(kind, path, layout.nothing)),
        *(word for path, target in layout.links for word in ("--symlink", target, path)),
        # Last: other folders may have been mounted inside them.
        *(word for path, kind in places if kind == "empty folder" for word in ("--remount-ro", path)),
        *("--chdir", layout.cwd),
        "--",
        *command,
    ]


def reader_argv(program: str, places: Places, temporary: str, cwd: str, command: Sequence[str]) -> list[str]:
    """Return the command line that runs *command* where it can read *places*, and change only the folder *temporary*."""
    kinds: dict[str, Kind] = {
        **dict.fromkeys(places.roots, "readable"),
        **{path: "empty folder" if os.path.isdir(path) else "empty file" for path in places.hidden},  # noqa: PTH112
        **dict.fromkeys(places.extra, "readable"),
        temporary: "writable",
    }
    kinds.pop("/proc", None)
    return [
        program,
        *("--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-uts"),
        *("--cap-drop", "ALL"),
        *(("--cap-add", "CAP_DAC_READ_SEARCH") if os.geteuid() == 0 else ()),
        *("--dev", "/dev"),
        *("--proc", "/proc"),
        *(word for name, target in _root_links() for word in ("--symlink", target, name)),
        # A path comes after the folder that contains it.
        *(word for path, kind in sorted(kinds.items()) for word in _mount_options(kind, path, NOTHING)),
        *(word for path in _KERNEL for word in ("--ro-bind-try", path, path)),
        *("--remount-ro", "/"),
        *("--chdir", cwd),
        "--",
        *command,
    ]


def _root_links() -> Iterator[tuple[str, str]]:
    """Yield the links in the root folder with their targets: `/bin` to `usr/bin`, on most machines."""
    with os.scandir("/") as entries:
        for entry in entries:
            if entry.is_symlink():
                yield entry.path, os.readlink(entry.path)  # noqa: PTH115


def _mount_options(kind: Kind, path: str, nothing: str) -> list[str]:
    values = {"{path}": path, "{nothing}": nothing}
    return [values.get(word, word) for word in _OPTIONS[kind]]
