"""What a run leaves in the process: threads, child processes, descriptors, and files below a folder."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import cast

import attrs

from engine.testing.cancellation.trio_internals import busy_threads

# A thread that was left behind may take about a second to end. Looks are counted, not seconds: where many programs run, or the
# machine has stood still, a second may have passed in which the thread had no turn.
LOOKS = 500
SECONDS_BETWEEN_LOOKS = 0.002
# Standard input, output and error are never left: pytest's `capfd`, for one, puts others in their place.
_STANDARD = frozenset({"0", "1", "2"})
_DESCRIPTORS = Path("/proc/self/fd") if sys.platform == "linux" else Path("/dev/fd")


@attrs.frozen
class Snapshot:
    """What the process has at one time."""

    threads: frozenset[int]
    children: frozenset[int]
    descriptors: dict[int, str]
    files: frozenset[str]


def take_snapshot(folder: Path | None) -> Snapshot:
    """Return what the process has now, and the files below *folder*."""
    return Snapshot(
        # Trio's idle threads may be given work: those of them that are at work later are new.
        frozenset(busy_threads()),
        frozenset(child_pids()),
        _descriptors(),
        _files(folder),
    )


def left_behind(before: Snapshot, folder: Path | None) -> list[str]:
    """Return a sentence for each thing that is there now and was not *before*."""
    # Threads first: one that ends closes what it has opened.
    threads = _threads_left(before)
    descriptors = _descriptors()
    return [
        *threads,
        *(f"a process is left: {_command(pid)}" for pid in sorted(set(child_pids()) - before.children)),
        *(
            f"{_descriptor(number, target)} is left open"
            for number, target in descriptors.items()
            if before.descriptors.get(number) != target
        ),
        *(f"the file {name} is left" for name in sorted(_files(folder) - before.files)),
    ]


def child_pids() -> set[int]:
    """Return the children of this process; nothing where the system has no /proc."""
    children = set[int]()
    # A process without children has nothing to read.
    if sys.platform != "linux" or not has_child():
        return children
    for listing in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            children.update(map(int, listing.read_text().split()))
    return children


def has_child() -> bool:
    """Tell whether this process has a child, at work or not waited for."""
    if sys.platform == "win32":
        return False
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _command(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        words = ""
    return f"{pid}, {words}" if words else f"{pid}, which has ended and was not waited for"


def _descriptors() -> dict[int, str]:
    targets: dict[int, str] = {}
    try:
        names = os.listdir(_DESCRIPTORS)  # noqa: PTH208  # in each run: Path would take longer than the rest
    except OSError:
        return targets
    for name in set(names) - _STANDARD:
        # The listing's own descriptor is closed by now.
        with suppress(OSError):
            targets[int(name)] = os.readlink(f"{_DESCRIPTORS}/{name}") if sys.platform == "linux" else name  # noqa: PTH115
    return targets


def _descriptor(number: int, target: str) -> str:
    if not target.startswith("socket:"):
        return f"the descriptor {number} ({target})"
    with suppress(OSError), socket.socket(fileno=os.dup(number)) as copy:
        return f"the socket {number} ({_address(copy.getsockname())} to {_peer(copy)})"
    return f"the socket {number}"


def _peer(copy: socket.socket) -> str:
    try:
        return _address(copy.getpeername())
    except OSError:
        return "nowhere"


def _address(address: object) -> str:
    if isinstance(address, tuple):
        host, port, *_ = cast("tuple[object, ...]", address)
        return f"{host}:{port}"
    return str(address) or "unnamed"


def _files(folder: Path | None) -> frozenset[str]:
    if folder is None:
        return frozenset()
    return frozenset(str(path) for path in folder.rglob("*") if not path.is_dir())


def _threads_left(before: Snapshot) -> list[str]:
    left = _new_threads(before)
    for _ in range(LOOKS):
        if not left:
            return []
        time.sleep(SECONDS_BETWEEN_LOOKS)
        left = _new_threads(before)
    frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # there is no other way
    return [f"the thread {thread.name} still runs{_line(frames.get(thread.ident or 0))}" for thread in left]


def _new_threads(before: Snapshot) -> list[threading.Thread]:
    new = busy_threads() - before.threads
    return [thread for thread in threading.enumerate() if thread.ident in new]


def _line(frame: FrameType | None) -> str:
    return "" if frame is None else f", at {frame.f_code.co_filename}:{frame.f_lineno}"
