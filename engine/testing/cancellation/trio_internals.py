"""What Trio offers no public way for: seeding its scheduler, seeing what a task is resumed with, stopping a run.

All private names of Trio that the kit uses are here.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ctypes
import threading
from collections.abc import Iterable, Iterator
from typing import NoReturn

import attrs
import trio
from trio._core import _run
from trio._core._thread_cache import THREAD_CACHE


def seed_scheduler(seed: int) -> None:
    """Make trio's scheduler deterministic."""
    setattr(_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)  # noqa: B010  # "final" for checkers, and made to be set
    _run._r.seed(seed)


def next_error(task: trio.lowlevel.Task) -> BaseException | None:
    """Return the exception that *task* is about to be resumed with."""
    error = getattr(task._next_send, "error", None)
    return error if isinstance(error, BaseException) else None


def is_cancelled_by(task: trio.lowlevel.Task, scopes: tuple[trio.CancelScope, ...]) -> bool:
    """Tell whether a cancel of one of *scopes* reaches the task, with no shield between them."""
    status: _run.CancelStatus | None = task._cancel_status
    while status is not None:
        if status._scope in scopes:
            # Not `cancel_called`: reading that cancels a scope whose deadline has passed.
            return any(scope._cancel_called for scope in scopes)
        if status._scope.shield:
            return False
        status = status.parent
    return False


def shields_of(task: trio.lowlevel.Task, scope: trio.CancelScope) -> Iterator[trio.CancelScope]:
    """Yield the shielded scopes between *task* and *scope*."""
    status: _run.CancelStatus | None = task._cancel_status
    while status is not None and status._scope is not scope:
        if status._scope.shield:
            yield status._scope
        status = status.parent


def idle_workers() -> set[int]:
    """Return the identifiers of the threads that Trio keeps for later use."""
    threads = [getattr(worker, "_thread", None) for worker in list(THREAD_CACHE._idle_workers)]
    return {thread.ident for thread in threads if thread is not None}


def busy_threads() -> set[int]:
    """Return the identifiers of the threads that run, without those that Trio keeps for later use."""
    return {thread.ident or 0 for thread in threading.enumerate()} - idle_workers()


def stop_run(tasks: Iterable[trio.lowlevel.Task]) -> None:
    """End the present run of Trio, although its *tasks* would not: `trio.run` raises TrioInternalError.

    Their coroutines are kept until the process ends: one that catches everything catches also what closes it, and would
    go on without Trio.
    """
    for task in tasks:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(task.coro))
    runner: _run.Runner = getattr(_run.GLOBAL_RUN_CONTEXT, "runner")  # noqa: B009  # checkers do not see it
    runner.clock = _StoppedClock()


@attrs.define(eq=False)
class _StoppedClock(trio.abc.Clock):
    """Raises; a task can catch every exception that is thrown into it, but not this one."""

    def start_clock(self) -> None:
        """Do nothing."""

    def current_time(self) -> NoReturn:
        """Raise."""
        raise RuntimeError("stopped by cancel_everywhere")

    def deadline_to_sleep_time(self, deadline: float) -> NoReturn:
        """Raise."""
        raise RuntimeError("stopped by cancel_everywhere")
