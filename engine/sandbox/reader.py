"""The reader box: a command in it can change nothing, use no network, and read only what ordinary commands need.

What runs without a question runs in it. Which commands those are is a table's guess; what they can do, the kernel decides.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from functools import partial
from typing import Final, Literal

from engine.files.real_path import followed, is_within
from engine.permission.paths.secret_search import project_secrets
from engine.permission.project_root import find_project_root
from engine.process.start import Launch
from engine.sandbox.bwrap import KEEPERS, reader_argv
from engine.sandbox.git_settings import git_settings
from engine.sandbox.landlock import (
    OLDEST_USABLE,
    WITH_SIGNALS,
    landlock_version,
    make_ruleset,
    open_place,
    restrict_thread,
)
from engine.sandbox.places import Places, hidden_places, layout_of, readable_places
from engine.sandbox.refused_calls import Machine
from engine.sandbox.seccomp import (
    drop_privileges,
    install_filter,
    keep_privileges_low,
    machine,
    namespace_filter,
    seccomp_filter,
)
from engine.sandbox.temporary import new_folder
from engine.sandbox.usual_limits import limits

Backend = Literal["landlock", "bwrap"]

# All that can be written, apart from a folder for temporary files: what is written there is gone.
_WRITABLE: Final = ("/dev/null", "/dev/zero", "/dev/full")
_READABLE_DEVICES: Final = ("/dev/random", "/dev/urandom")


def launch_reader(
    backend: Backend, command: Sequence[str], *, cwd: str, home: str, hidden: Sequence[str], extra: Sequence[str] = ()
) -> Launch:
    """Return how to start *command* in a reader box. It blocks.

    Args:
        backend: what makes the box.
        command: the program and its arguments.
        cwd: the folder that it runs in.
        home: the user's home folder.
        hidden: paths that can't be read, wherever they are; `~` is the home folder.
        extra: real paths that can be read in any case. One that has become a link since it was judged is left out.
    """
    project = find_project_root(cwd, home=home)
    search = os.environ.get("PATH", os.defpath)
    unreadable = hidden_places(hidden, home)
    # Landlock can't leave out a file in a folder that is readable: commands that name such a file are asked about.
    if hidden and project and backend == "bwrap":
        unreadable += project_secrets(project)
    more = [
        path
        for path in extra
        if (path in unreadable or not (project and is_within(path, project)))
        and os.path.lexists(path)
        and followed(path) == path
    ]
    settings = git_settings(cwd, home, project)
    places = readable_places(project, home, search, unreadable, (*more, *settings))
    temporary = new_folder()
    environment = {"TMPDIR": temporary, "GIT_CONFIG_GLOBAL": settings[0]}
    if backend == "landlock":
        return Launch(
            argv=command,
            environment=environment,
            confine=partial(_confine, places, temporary),
            limits=limits(temporary),
        )
    program = followed(shutil.which("bwrap") or "bwrap")
    argv = reader_argv(program, layout_of(places, cwd=cwd, writable=temporary), command)
    return Launch(
        argv=argv, environment=environment, confine=_filter_in_namespaces, keepers=KEEPERS, limits=limits(temporary)
    )


def backend_problem(backend: Backend) -> str:
    """Return why a back end can't make a box here; empty if it may."""
    if machine() is None:
        return f"there is no table of the system calls of {os.uname().machine}"
    if backend == "landlock" and landlock_version() < OLDEST_USABLE:
        return "this kernel has no Landlock, or one that is too old (Linux 6.2 has it)"
    return "bubblewrap is not installed" if backend == "bwrap" and shutil.which("bwrap") is None else ""


def _confine(places: Places, temporary: str) -> None:
    """Confine the calling thread, and what it starts, for ever. Raises `OSError`."""
    kind = machine()
    assert kind is not None
    is_old = landlock_version() < WITH_SIGNALS
    program = _filter(kind, refuses_signals=is_old)
    whole, partly = places.split()
    readable, listable, writable = (
        [place for path in paths if (place := open_place(path, is_real=path in places.extra)) is not None]
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


def _filter_in_namespaces() -> None:
    """Refuse the calling thread, and what it starts, what namespaces allow. Raises `OSError`."""
    kind = machine()
    assert kind is not None
    keep_privileges_low()
    install_filter(namespace_filter(kind))


def _filter(kind: Machine, *, refuses_signals: bool) -> bytes:
    return seccomp_filter(kind, is_reader=True, network=False, refuses_signals=refuses_signals)
