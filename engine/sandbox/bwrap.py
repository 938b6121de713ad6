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

from collections.abc import Sequence
from typing import Final

from engine.config.sandbox_config import Kind, Layout

# Root can write to these without any capability, and so change the kernel, for example what handles a crash. They are
# writable in a new `/proc`.
_KERNEL: Final = tuple(f"/proc/{name}" for name in ("acpi", "bus", "fs", "irq", "mtrr", "scsi", "sys", "sysrq-trigger"))

# The first process is bubblewrap's own. Its memory and its files would be there; no program needs them.
_FIRST_PROCESS: Final = ("--tmpfs", "/proc/1", "--remount-ro", "/proc/1")

# Processes of bubblewrap itself that stay while any other one runs: the first one of the namespace.
KEEPERS: Final = 1
_OPTIONS: Final[dict[Kind, tuple[str, ...]]] = {
    "writable": ("--bind", "{path}", "{path}"),
    "readable": ("--ro-bind", "{path}", "{path}"),
    "private": ("--bind", "{private}", "{path}"),
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
        *_FIRST_PROCESS,
        *(word for path in _KERNEL for word in ("--ro-bind-try", path, path)),
        *(word for path, kind in places for word in _mount_options(kind, path, layout)),
        *(word for path, target in layout.links for word in ("--symlink", target, path)),
        # Last: other folders may have been mounted inside them.
        *(word for path, kind in places if kind == "empty folder" for word in ("--remount-ro", path)),
        *("--chdir", layout.cwd),
        "--",
        *command,
    ]


def reader_argv(program: str, layout: Layout, command: Sequence[str]) -> list[str]:
    """Return the command line that runs *command* where there is nothing but the places of *layout*."""
    return [
        program,
        *("--unshare-pid", "--unshare-ipc", "--unshare-net", "--unshare-uts"),
        *("--cap-drop", "ALL"),
        *(("--cap-add", "CAP_DAC_READ_SEARCH") if layout.is_root else ()),
        *("--dev", "/dev"),
        *("--proc", "/proc"),
        *_FIRST_PROCESS,
        *(word for path, target in layout.links for word in ("--symlink", target, path)),
        # A path comes after the folder that contains it.
        *(word for path, kind in sorted(layout.places) for word in _mount_options(kind, path, layout)),
        *(word for path in _KERNEL for word in ("--ro-bind-try", path, path)),
        *("--remount-ro", "/"),
        *("--chdir", layout.cwd),
        "--",
        *command,
    ]


def _mount_options(kind: Kind, path: str, layout: Layout) -> list[str]:
    values = {"{path}": path, "{nothing}": layout.nothing, "{private}": layout.private}
    return [values.get(word, word) for word in _OPTIONS[kind]]
