"""Which of the kernel's means can make a box here. Each is tried for real, once for each process."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from pathlib import Path
from shutil import rmtree
from typing import Final

import attrs

from engine.config.sandbox_config import BackendSetting
from engine.core.threads import to_thread
from engine.process.start import Launch, start_confined
from engine.sandbox.reader import Backend, backend_problem, launch_reader
from engine.sandbox.temporary import process_folder

# The first that works is used. Landlock starts nothing and mounts nothing, so it is ten times as fast.
_IN_ORDER: Final[tuple[Backend, ...]] = ("landlock", "bwrap")
_TRIAL_SECONDS: Final = 10.0
_MAX_ERROR_CHARS: Final = 300
# What the box must allow, and what it must not: reading and writing outside of it, connecting, signals.
_TRIAL: Final = """
cat "$1" && cat "$2" && echo "it can read outside of the box"
{ : > "$3"; } && echo "it can write outside of the box"
{ : 3<>"/dev/tcp/127.0.0.1/$4"; } && echo "it can connect"
kill -0 "$5" && echo "it can send signals out of the box"
true
"""
_ALLOWED: Final = "what a box can read"


@attrs.frozen
class BackendChoice:
    """What makes the boxes here.

    Attributes:
        backend: what makes them; None: nothing can, or boxes are switched off.
        problems: why those that were tried don't work, for people.
    """

    backend: Backend | None
    problems: tuple[str, ...] = ()


# What is wrong with each back end in this process; empty: it works.
_problems: dict[Backend, str] = {}


async def choose_backend(mode: BackendSetting) -> BackendChoice:
    """Return what makes boxes here, as *mode* wants it. A checkpoint if something has to be tried first."""
    if mode == "off":
        return BackendChoice(None)
    problems: list[str] = []
    for backend in _IN_ORDER if mode == "auto" else (mode,):
        if backend not in _problems:
            # The thread is abandoned if cancelled: it ends soon, and leaves nothing.
            _problems[backend] = await to_thread(_problem, backend)
        if not _problems[backend]:
            return BackendChoice(backend, tuple(problems))
        problems.append(f"{backend}: {_problems[backend]}")
    return BackendChoice(None, tuple(problems))


def _problem(backend: Backend) -> str:
    """Try a back end; return what is wrong with it, empty if nothing is. It blocks."""
    if problem := backend_problem(backend):
        return problem
    try:
        output = _try(backend)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        return f"it could not be tried ({error})"
    return "" if output == _ALLOWED else f"it does not hold here ({output[:_MAX_ERROR_CHARS].strip() or 'no output'})"


def _try(backend: Backend) -> str:
    """Run the trial in a box; return its output. Raises `OSError` and `SubprocessError`."""
    with (
        # In this process's folder: the next engine removes it, if this one is killed.
        tempfile.TemporaryDirectory(prefix="trial-", dir=process_folder()) as inside,
        tempfile.TemporaryDirectory(prefix="trial-", dir=process_folder()) as outside,
        socket.create_server(("127.0.0.1", 0)) as server,
    ):
        allowed, secret, written = Path(inside, "allowed"), Path(outside, "secret"), Path(outside, "written")
        allowed.write_text(_ALLOWED, encoding="utf-8")
        secret.write_text("secret", encoding="utf-8")
        arguments = (str(allowed), str(secret), str(written), str(server.getsockname()[1]), str(os.getpid()))
        command = ["bash", "-c", _TRIAL, "bash", *arguments]
        launch = launch_reader(backend, command, cwd=inside, home=str(Path.home()), hidden=())
        folder = Path(launch.environment["TMPDIR"])
        folder.mkdir(mode=0o700)
        try:
            with _start(launch, inside) as process:
                try:
                    output, _ = process.communicate(timeout=_TRIAL_SECONDS)
                finally:
                    process.kill()
        finally:
            rmtree(folder, ignore_errors=True)
    return output.decode(errors="replace") if process.returncode == 0 else f"exit code {process.returncode}"


def _start(launch: Launch, cwd: str) -> subprocess.Popen[bytes]:
    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            launch.argv, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    return start() if launch.confine is None else start_confined(start, launch.confine)
