"""Start a process whose output is read in Trio, from a thread that may be confined before."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import attrs
import trio

from engine.core.threads import to_thread
from engine.core.value_base import Value
from engine.process.resource_limits import ResourceLimits


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Launch(Value):
    """How to start a command.

    Attributes:
        argv: the program and its arguments.
        environment: what is added to the command's environment.
        confine: confines the thread that starts it, and so the command: see `start_process`. None: nothing does.
        keepers: processes that are not the command's own, and stay while any of its processes runs.
        limits: what all of its processes may use together. None: what they like.
    """

    argv: Sequence[str]
    environment: Mapping[str, str] = attrs.field(factory=dict[str, str])
    confine: Callable[[], None] | None = None
    keepers: int = 0
    limits: ResourceLimits | None = None


@attrs.frozen(eq=False, repr=False)
class StartedProcess:
    """A process, with its end of each pipe.

    Attributes:
        stdin: what it reads; None: nothing.
        stdout: its standard output, and its standard error unless there is a pipe for that.
        stderr: its standard error.
    """

    _process: subprocess.Popen[bytes]
    stdin: trio.lowlevel.FdStream | None
    stdout: trio.lowlevel.FdStream
    stderr: trio.lowlevel.FdStream | None

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def poll(self) -> int | None:
        """Reap it if it has exited; return its exit code, negative for a signal, or None. Not a checkpoint."""
        return self._process.poll()

    async def wait(self) -> int:
        """Wait for its exit in a thread, and reap it. Always a checkpoint; the thread is abandoned if cancelled."""
        return await to_thread(self._process.wait, limiter=trio.CapacityLimiter(1))


async def start_process(
    argv: Sequence[str],
    *,
    cwd: str,
    env: Mapping[str, str],
    has_input: bool,
    has_errors: bool,
    confine: Callable[[], None] | None = None,
) -> StartedProcess:
    """Start *argv* as the leader of a new session and group. Always a checkpoint.

    Raises `OSError` or `ValueError` if it can't be started, and `trio.Cancelled` only while there is no process yet.

    Args:
        argv: the program and its arguments.
        cwd: the directory to run in.
        env: the environment.
        has_input: there is a pipe to its standard input.
        has_errors: there is a pipe of its own for standard error.
        confine: confines the calling thread and what it starts: called in a thread that does nothing else.
    """
    ours: list[trio.lowlevel.FdStream] = []
    # The other ends. All before the start: a process must not be lost because there is no descriptor for its pipe.
    theirs: list[int] = []
    is_started = False
    try:
        stdin = _pipe(ours, theirs, is_input=True) if has_input else subprocess.DEVNULL
        stdout = _pipe(ours, theirs)
        stderr = _pipe(ours, theirs) if has_errors else subprocess.STDOUT

        def start() -> subprocess.Popen[bytes]:
            return subprocess.Popen(
                argv, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr, start_new_session=True
            )

        # Not abandoned on a cancel: the process could not be ended then. Starting it is short, so it waits for no other
        # thread, neither the host's nor those of tools that hang.
        process = await to_thread(
            start if confine is None else partial(start_confined, start, confine),
            abandon_on_cancel=False,
            limiter=trio.CapacityLimiter(1),
        )
        is_started = True
    finally:
        for descriptor in theirs:
            os.close(descriptor)
        if not is_started:
            for stream in ours:
                stream.close()
    streams = iter(ours)
    return StartedProcess(
        process, next(streams) if has_input else None, next(streams), next(streams) if has_errors else None
    )


def start_confined(
    start: Callable[[], subprocess.Popen[bytes]], confine: Callable[[], None]
) -> subprocess.Popen[bytes]:
    """Start a process from a thread that is confined, and then ends. It blocks."""
    outcome: list[subprocess.Popen[bytes] | Exception] = []

    def work() -> None:
        try:
            confine()
            outcome.append(start())
        except Exception as error:  # noqa: BLE001  # raised again in the caller
            outcome.append(error)

    thread = threading.Thread(target=work, name="engine: start confined")
    thread.start()
    thread.join()
    (result,) = outcome
    if isinstance(result, Exception):
        raise result
    return result


def _pipe(ours: list[trio.lowlevel.FdStream], theirs: list[int], *, is_input: bool = False) -> int:
    """Make a pipe; add our end and the process's end to the lists, and return the latter. Raises `OSError`."""
    reading, writing = os.pipe()
    own, other = (writing, reading) if is_input else (reading, writing)
    ours.append(trio.lowlevel.FdStream(own))
    theirs.append(other)
    return other
