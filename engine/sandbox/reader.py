"""The reader box: a command in it can change nothing, use no network, and read only what ordinary commands need.

What runs without a question runs in it. Which commands those are is a table's guess; what they can do, the kernel decides.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal, cast

import attrs

from engine.files.real_path import followed
from engine.files.staging import temporary_token
from engine.permission.project_root import find_project_root
from engine.sandbox.bwrap import reader_argv
from engine.sandbox.landlock import (
    OLDEST_USABLE,
    WITH_SIGNALS,
    landlock_version,
    make_ruleset,
    open_place,
    restrict_thread,
)
from engine.sandbox.places import Places, hidden_places, readable_places
from engine.sandbox.seccomp import drop_privileges, install_filter, seccomp_filter
from engine.sandbox.syscalls import AUDIT_MACHINES, Machine

Backend = Literal["landlock", "bwrap"]

# All that can be written, apart from a folder for temporary files: what is written there is gone.
_WRITABLE: Final = ("/dev/null", "/dev/zero", "/dev/full")
_READABLE_DEVICES: Final = ("/dev/random", "/dev/urandom")


@attrs.frozen(kw_only=True)
class Box:
    """A box for one command.

    Attributes:
        argv: turns a command line into one that runs in the box.
        environment: what is added to the command's environment.
        confine: confines the thread that starts the command; None: the command line does it.
        keepers: processes of the box itself that stay while any other one runs.
    """

    argv: Callable[[Sequence[str]], list[str]]
    environment: Mapping[str, str]
    confine: Callable[[], None] | None
    keepers: int = 0


def reader_box(backend: Backend, *, cwd: str, home: str, hidden: Sequence[str], extra: Sequence[str] = ()) -> Box:
    """Return a box for a command that runs in *cwd*. It blocks.

    Args:
        backend: what makes the box.
        cwd: the folder that the command runs in.
        home: the user's home folder.
        hidden: paths that can't be read, wherever they are; `~` is the home folder.
        extra: real paths that can be read in any case.
    """
    project = find_project_root(cwd, home=home)
    search = os.environ.get("PATH", os.defpath)
    places = readable_places(project, home, search, hidden_places(hidden, home), extra)
    temporary = _temporary_folder()
    environment = {"TMPDIR": temporary}
    if backend == "landlock":
        return Box(argv=list, environment=environment, confine=partial(_confine, places, temporary))
    program = followed(shutil.which("bwrap") or "bwrap")
    argv = partial(reader_argv, program, places, temporary, followed(cwd))
    return Box(argv=argv, environment=environment, confine=None, keepers=1)


def machine() -> Machine | None:
    """Return this machine's kind; None if its system calls are not known here."""
    name = os.uname().machine
    is_64_bit = os.sysconf("SC_LONG_BIT") == 64
    return cast("Machine", name) if is_64_bit and name in AUDIT_MACHINES else None


def landlock_problem() -> str:
    """Return why Landlock can't make a box here; empty if it can."""
    if landlock_version() < OLDEST_USABLE:
        return "this kernel has no Landlock, or one that is too old (Linux 6.2 has it)"
    return "" if machine() else f"the system calls of {os.uname().machine} are not known"


def _confine(places: Places, temporary: str) -> None:
    """Confine the calling thread, and what it starts, for ever. Raises `OSError`."""
    kind = machine()
    assert kind is not None
    is_old = landlock_version() < WITH_SIGNALS
    program = _filter(kind, refuses_signals=is_old)
    whole, partly = places.split()
    readable, listable, writable = (
        [place for path in paths if (place := open_place(path)) is not None]
        for paths in ((*whole, *_READABLE_DEVICES), partly, (*_WRITABLE, temporary))
    )
    ruleset = None
    try:
        ruleset = make_ruleset(readable, listable, writable, network=False)
        drop_privileges()
        restrict_thread(ruleset)
        install_filter(program)
    finally:
        for descriptor in (*readable, *listable, *writable, *([] if ruleset is None else [ruleset])):
            os.close(descriptor)


def _filter(kind: Machine, *, refuses_signals: bool) -> bytes:
    return seccomp_filter(kind, is_reader=True, network=False, refuses_signals=refuses_signals)


# ---- the folder for temporary files ----------------------------------------------------------------------------------

_lock = threading.Lock()
_made: dict[int, str] = {}


def _temporary_folder() -> str:
    """Return this process's folder for temporary files of its boxes: shells and `sort` need one for much data."""
    with _lock:
        process = os.getpid()
        if process not in _made or not os.path.isdir(_made[process]):  # noqa: PTH112
            parent = tempfile.gettempdir()
            # By this name the next engine finds it, if this one is killed.
            folder = Path(parent, f"engine-{temporary_token(parent)}box.tmp")
            folder.mkdir(mode=0o700, exist_ok=True)
            _made[process] = followed(str(folder))
            atexit.register(_remove, process, _made[process])
        return _made[process]


def _remove(process: int, folder: str) -> None:
    if process == os.getpid():
        shutil.rmtree(folder, ignore_errors=True)
