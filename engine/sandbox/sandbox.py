"""Run commands in a sandbox. It is tested once; where it does not work, no command runs."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, cast
from uuid import uuid4

import attrs

from engine.config.sandbox_config import Kind, Layout, Sandbox
from engine.core.errors import ToolError
from engine.core.threads import to_thread
from engine.files.real_path import followed, is_within
from engine.process.run_tree import FinishedProcess, run_tree
from engine.process.start import Launch
from engine.sandbox.bwrap import KEEPERS, argv
from engine.sandbox.mounts import sandbox_layout
from engine.sandbox.refused_calls import Machine
from engine.sandbox.seccomp import install_filter, keep_privileges_low, machine, sandbox_filter
from engine.sandbox.usual_limits import limits

_PROGRAM: Final = "bwrap"
_TRIAL_SECONDS: Final = 10.0
_MAX_ERROR_CHARS: Final = 500
_NOT_RUN: Final = "The command was not run: a sandbox is required, but"
_INSTALL: Final = (
    "bubblewrap is not installed here. The user can install it: apt-get install bubblewrap, dnf install bubblewrap, "
    "apk add bubblewrap, or pacman -S bubblewrap."
)
# Kernel settings under which only root may create namespaces: the file, the value, and the remedy.
_FORBIDDING: Final = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "an AppArmor profile for bwrap that allows userns, or sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)
_CONTAINERS: Final = ("/.dockerenv", "/run/.containerenv")


@attrs.define(eq=False)
class SandboxLauncher:
    """Wraps commands so that they run in a sandbox.

    Attributes:
        sandbox: its configuration.
    """

    sandbox: Sandbox
    _works: bool = attrs.field(default=False, init=False)
    _writable: dict[str, tuple[str, ...]] = attrs.field(factory=dict[str, "tuple[str, ...]"], init=False)

    async def launch(
        self, command: Sequence[str], *, cwd: str, changing: Path | None = None, is_reader: bool = False
    ) -> Launch:
        """Return how to start *command* in the sandbox. Always a checkpoint; if cancelled, no process is left.

        A reader can't change the project either. Raises `ToolError` with the reason if there can't be a sandbox, or if it does not let the command change the file
        *changing*.
        """
        # The thread is abandoned if cancelled: it only reads, or creates an empty folder.
        layout, program = await to_thread(self._prepare, cwd, changing)
        if not self._works:
            await _try(_launch(program, layout, ["bash", "-c", ":"]))
            self._works = True
        return _launch(program, _for_reading(layout) if is_reader else layout, command)

    def _prepare(self, cwd: str, changing: Path | None) -> tuple[Layout, str]:
        layout = sandbox_layout(self.sandbox, cwd=cwd, home=str(Path.home()))
        program = shutil.which(_PROGRAM)
        if program is None:
            raise ToolError(f"{_NOT_RUN} {_INSTALL}")
        real = followed(program)
        writable = tuple(path for path, kind in layout.places if kind == "writable")
        if any(is_within(real, path) for path in writable):
            raise ToolError(f"{_NOT_RUN} the first bwrap in PATH, {program}, is writable in the sandbox.")
        # A link made by one command must not redirect the sandbox of the next one.
        before = self._writable.setdefault(cwd, writable)
        if not any(is_within(layout.cwd, path) for path in before):
            raise ToolError(f"{_NOT_RUN} {cwd} leads to another folder than at first.")
        layout = layout.without(set(writable) - set(before))
        return (layout if changing is None else _open_file(layout, changing, before)), real


def _open_file(layout: Layout, changing: Path, writable: Sequence[str]) -> Layout:
    """Return the layout in which a file can be changed, whatever its name. Raises `ToolError` if it lies outside."""
    path = followed(str(changing))
    if not any(is_within(path, folder) for folder in writable):
        raise ToolError(f"{_NOT_RUN} it can't change {changing}.")
    return layout.without({path} if changing.is_file() else ())


def _for_reading(layout: Layout) -> Layout:
    """Return the layout in which the project, and what is around it, can't be changed."""
    around = [path for path, kind in layout.places if kind == "writable" and is_within(layout.cwd, path)]
    places = ((path, "readable" if path in around else kind) for path, kind in layout.places)
    return attrs.evolve(layout, places=tuple(cast("Iterable[tuple[str, Kind]]", places)))


def _launch(program: str, layout: Layout, command: Sequence[str]) -> Launch:
    kind = machine()
    return Launch(
        argv=argv(program, layout, command),
        confine=None if kind is None else partial(_confine, kind),
        keepers=KEEPERS,
        limits=limits(),
    )


def _confine(kind: Machine) -> None:
    """Refuse the calling thread, and what it starts, what a sandbox does not keep inside. Raises `OSError`."""
    keep_privileges_low()
    install_filter(sandbox_filter(kind))


async def _try(launch: Launch) -> None:
    """Run a command that does nothing, in a sandbox. Always a checkpoint; raises `ToolError` if that fails."""
    output = bytearray()

    def collect(chunk: bytes) -> None:
        output.extend(chunk[: _MAX_ERROR_CHARS - len(output)])

    try:
        finished = await run_tree(
            launch.argv,
            cwd="/",
            marker=f"sandbox-{uuid4().hex}",
            on_output=collect,
            timeout=_TRIAL_SECONDS,
            grace=0.2,
            confine=launch.confine,
        )
    except (OSError, ValueError) as error:
        raise ToolError(f"{_NOT_RUN} bubblewrap could not be started: {error}.") from error
    if finished.exit_code != 0 or finished.timed_out:
        raise ToolError(await to_thread(_failure_reason, finished, output.decode(errors="replace").strip()))


def _failure_reason(finished: FinishedProcess, output: str) -> str:
    """Return why bubblewrap does not work here, and the remedy."""
    if finished.timed_out:
        return f"{_NOT_RUN} bubblewrap did nothing for {_TRIAL_SECONDS:g} s."
    message = f"{_NOT_RUN} bubblewrap does not work here: {output or f'exit code {finished.exit_code}'}"
    if os.geteuid() != 0:
        for path, value, remedy in _FORBIDDING:
            if _content(path) == value:
                return f"{message}\nThis system lets only root create namespaces. To allow it: {remedy}."
    if any(os.path.exists(path) for path in _CONTAINERS):  # noqa: PTH110
        return (
            f"{message}\nThis is a container, and it may not create namespaces. Start it with more privileges "
            "(docker run --privileged, or --cap-add SYS_ADMIN with --security-opt seccomp=unconfined, "
            "apparmor=unconfined and systempaths=unconfined); or use no sandbox, if the container is isolation enough."
        )
    return message


def _content(path: str) -> str:
    with suppress(OSError):
        return Path(path).read_text(encoding="ascii").strip()
    return ""
