"""What Trio offers no public way for: ordering its tasks, seeing what one is resumed with, stopping a run.

All private names of Trio that the kit uses are here. A small run tries them once: with a Trio in which one of them means
something else, a swallowed cancel would not be seen, and everything would pass.
"""

# pyright: reportPrivateUsage=false

from __future__ import annotations

import ctypes
import functools
import random
import signal
import sys
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, MutableSequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn, ParamSpec

import attrs
import trio
import trio.testing

TESTED = "0.31 to 0.35"
P = ParamSpec("P")


def _unknown(problem: object) -> str:
    return (
        f"cancel_everywhere does not know this Trio, {trio.__version__}: {problem}. It is tested with Trio {TESTED}; "
        "install one of these, or a newer version of this package"
    )


try:
    from trio._core import _ki, _run
    from trio._core._thread_cache import THREAD_CACHE, WorkerThread
    from trio._threads import PARENT_TASK_DATA
except ImportError as _missing:
    raise ImportError(_unknown(_missing)) from _missing


def seed_scheduler(seed: int) -> None:
    """Make trio's scheduler deterministic. Raises RuntimeError for a Trio that the kit does not know."""
    check_trio()
    setattr(_run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)  # noqa: B010  # "final" for checkers, and made to be set
    _run._r.seed(seed)


@contextmanager
def order_tasks(order: Callable[[MutableSequence[trio.lowlevel.Task]], None]) -> Generator[None]:
    """Have *order* put the tasks of each step of the scheduler in their order, instead of chance; before it, it is by age.

    Raises RuntimeError for a Trio that the kit does not know.
    """
    seed_scheduler(0)
    by_chance = _run._r
    _run._r = _Order(order)
    try:
        yield
    finally:
        _run._r = by_chance


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


@contextmanager
def interrupts_reach(task: trio.lowlevel.Task) -> Generator[None]:
    """Have Trio deliver KeyboardInterrupt to *task*, as if it were the main task; a plugin may run a test in another one."""
    runner = _runner()
    main, runner.main_task = runner.main_task, task
    try:
        yield
    finally:
        runner.main_task = main


def shortest_cushion() -> float | None:
    """Return the cushion of the task in `wait_all_tasks_blocked` that is woken first; None: there is no such task."""
    waiting = _runner().waiting_for_idle
    if not waiting:
        return None
    cushion: float = waiting.keys()[0][0]
    return cushion


def _runner() -> _run.Runner:
    runner: _run.Runner = getattr(_run.GLOBAL_RUN_CONTEXT, "runner")  # noqa: B009  # checkers do not see it
    return runner


def raises_keyboard_interrupt() -> bool:
    """Tell whether SIGINT raises KeyboardInterrupt now: no part of the program receives it by itself."""
    return getattr(signal.getsignal(signal.SIGINT), "__module__", "") == _ki.__name__


def idle_workers() -> set[int]:
    """Return the identifiers of the threads that Trio keeps for later use.

    A worker calls itself idle before it delivers its result; it is idle when it is back in its loop.
    """
    workers = list(THREAD_CACHE._idle_workers)
    if not workers:
        return set()
    frames = sys._current_frames()
    return {
        ident for worker in workers if (ident := worker._thread.ident) is not None and _is_in_loop(frames.get(ident))
    }


def _is_in_loop(frame: FrameType | None) -> bool:
    return frame is None or frame.f_code.co_name == "_work"


def busy_threads() -> set[int]:
    """Return the identifiers of the threads that run, without those that Trio keeps for later use."""
    return {thread.ident or 0 for thread in threading.enumerate()} - idle_workers()


@contextmanager
def cancelled_threads(note: Callable[[trio.lowlevel.Task, BaseException], None]) -> Generator[None]:
    """Call *note* when `trio.from_thread.check_cancelled` raises: in that thread, with the task that waits for it."""
    # Trio makes each `Cancelled` by this method, of a metaclass; one of the class itself comes first.
    setattr(trio.Cancelled, "_create", _noting(trio.Cancelled._create, note))  # noqa: B010  # "final" for checkers
    try:
        yield
    finally:
        del trio.Cancelled._create


def _noting(
    create: Callable[P, trio.Cancelled], note: Callable[[trio.lowlevel.Task, BaseException], None]
) -> Callable[P, trio.Cancelled]:
    def create_and_note(*args: P.args, **reason: P.kwargs) -> trio.Cancelled:
        error = create(*args, **reason)
        task = _waiting_task()
        if task is not None:
            note(task, error)
        return error

    return create_and_note


def _waiting_task() -> trio.lowlevel.Task | None:
    """Return the task that waits for this worker thread; None in other threads, and if it waits no longer."""
    register: list[trio.lowlevel.Task | None] = getattr(PARENT_TASK_DATA, "task_register", [None])
    return None if trio.lowlevel.in_trio_run() else register[0]


def stop_run(tasks: Iterable[trio.lowlevel.Task]) -> None:
    """End the present run of Trio, although its *tasks* would not: `trio.run` raises TrioInternalError.

    Their coroutines are kept until the process ends: one that catches everything catches also what closes it, and would
    go on without Trio.
    """
    for task in tasks:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(task.coro))
    _runner().clock = _StoppedClock()


@functools.cache
def check_trio() -> None:
    """Try everything above in a small run. Raises RuntimeError for a Trio in which it is different."""
    probe = _Probe()
    try:
        _check_names()
        trio.run(probe.main, instruments=[probe])
    except (AttributeError, TypeError, AssertionError, trio.TrioInternalError) as error:
        raise RuntimeError(_unknown(error)) from error


def _check_names() -> None:
    assert isinstance(_run._r, random.Random), "its scheduler has another source of chance"
    assert isinstance(_run._ALLOW_DETERMINISTIC_SCHEDULING, bool), "its scheduler can't be seeded"
    # A worker would be a thread that stays for ten seconds: its class says as much.
    are_known = hasattr(THREAD_CACHE, "_idle_workers") and all(
        hasattr(WorkerThread, name) for name in ("_thread", "_work")
    )
    assert are_known, "its idle threads are not known"
    are_noted = callable(getattr(trio.Cancelled, "_create", None)) and "task_register" in vars(
        type(PARENT_TASK_DATA)
    ).get("__annotations__", ())
    assert are_noted, "cancels in threads can't be seen"


@attrs.define(eq=False)
class _Probe(trio.abc.Instrument):
    """A run whose only task is cancelled behind a shield, and then without it."""

    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    delivered: list[BaseException | None] = attrs.field(factory=list[BaseException | None])

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """Note the cancel that the task is resumed with."""
        if is_cancelled_by(task, (self.scope,)):
            self.delivered.append(next_error(task))

    async def main(self) -> None:
        """Raise AttributeError or AssertionError for what is different."""
        assert hasattr(getattr(_run.GLOBAL_RUN_CONTEXT, "runner", None), "clock"), "a run can't be stopped"
        task = trio.lowlevel.current_task()
        assert _runner().main_task is task, "its main task is not known"
        assert shortest_cushion() is None, "tasks that wait for all others are not known"
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.testing.wait_all_tasks_blocked, 0.0001)
            await trio.lowlevel.checkpoint()
            await trio.lowlevel.checkpoint()
            cushion = shortest_cushion()
        assert cushion == 0.0001, "tasks that wait for all others are not known"
        with self.scope:
            with trio.CancelScope(shield=True) as shield:
                self.scope.cancel(reason="a probe")
                assert list(shields_of(task, self.scope)) == [shield], "shields can't be seen"
                await trio.lowlevel.checkpoint()
                assert not self.delivered, "shields can't be seen"
            await trio.lowlevel.checkpoint()
        assert any(isinstance(error, trio.Cancelled) for error in self.delivered), "cancels can't be seen"


class _Order(random.Random):
    """Trio's source of chance: what it shuffles are the tasks of one step."""

    def __init__(self, order: Callable[[MutableSequence[trio.lowlevel.Task]], None]) -> None:
        super().__init__()
        self._order = order

    def shuffle(self, x: MutableSequence[trio.lowlevel.Task]) -> None:
        """Put tasks in an order. It raises what the order raises, which ends the run."""
        self._order(x)


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
