"""Threads: the usual way to use them in the library. Stores, and the start of confined processes, own some."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar, TypeVarTuple, Unpack

import trio

from engine.core.errors import WrongThread

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

# Trio's default. Not smaller: an abandoned thread counts until it ends.
LIMIT: Final = 40

# One limiter for each `trio.run`, and never trio's: that one is the host's, and tools that hang must not use it up.
_limiter: trio.lowlevel.RunVar[trio.CapacityLimiter] = trio.lowlevel.RunVar("engine.core.threads")


async def to_thread(
    function: Callable[[Unpack[Ts]], T],
    *args: *Ts,
    abandon_on_cancel: bool = True,
    limiter: trio.CapacityLimiter | None = None,
) -> T:
    """Run blocking work in a thread, and return what it returns. Always a checkpoint.

    If cancelled while it waits for a thread, the work never begins. If cancelled later, the thread is abandoned: it
    runs on, its result or exception is dropped, and it counts against the limiter until it ends. That is the default
    because a prompt cancel is promised, which a hung disk must not prevent
    (`test_rule_05_abandoned_threads_delay_no_flush`).

    Args:
        function: the work; it must not touch trio objects.
        args: its arguments.
        abandon_on_cancel: False, with a comment why, for work that must not be
            left half seen and is known to be short; a cancel then waits for it.
        limiter: the limit on concurrent threads; by default `LIMIT`, shared by a `trio.run`.
    """
    return await trio.to_thread.run_sync(
        function, *args, abandon_on_cancel=abandon_on_cancel, limiter=limiter or current_limiter()
    )


async def to_thread_within(seconds: float, function: Callable[[Unpack[Ts]], T], *args: *Ts) -> T:
    """Run blocking work in a thread, with a time limit, and return its result. Always a checkpoint.

    Raises `trio.TooSlowError` after that many seconds, and abandons the thread as a cancel does.
    """
    token = trio.lowlevel.current_trio_token()
    with trio.CancelScope() as scope:

        def give_up() -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(scope.cancel)

        # In real time, not `move_on_after`: the clock of tests does not wait for threads, and would jump to the deadline
        # at once.
        with alarm.set(seconds, give_up):
            return await to_thread(function, *args)
    raise trio.TooSlowError


class Alarm:
    """Calls functions after a time, in one thread for all: a timer of each one's own would be a new thread each time.

    The thread lives while something is set, and *lingers* seconds longer.

    Attributes:
        due: what is set, with the time of each.
    """

    def __init__(self, *, lingers: float = 0.25) -> None:
        self._lingers = lingers
        self._changed = threading.Condition()
        self.due: dict[object, tuple[float, Callable[[], None]]] = {}
        self._looks_at = 0.0
        self._pid = 0

    @contextmanager
    def set(self, seconds: float, call: Callable[[], None]) -> Generator[None]:
        """Call *call* in the thread if the block takes longer than that."""
        key, at = object(), time.monotonic() + seconds
        with self._changed:
            self.due[key] = at, call
            if self._pid != os.getpid():  # a fork copies this, but not the thread
                threading.Thread(target=self._run, name="engine alarm", daemon=True).start()
                self._pid = os.getpid()
            elif at < self._looks_at:
                self._changed.notify()
        try:
            yield
        finally:
            with self._changed:
                self.due.pop(key, None)

    def _run(self) -> None:
        while (calls := self._wait()) is not None:
            for call in calls:
                call()

    def _wait(self) -> list[Callable[[], None]] | None:
        """Return what is due as soon as something is; None if nothing has been set for a while."""
        was_idle = False
        with self._changed:
            while self.due or not was_idle:
                was_idle, now = not self.due, time.monotonic()
                if late := [key for key, (at, _) in self.due.items() if at <= now]:
                    return [self.due.pop(key)[1] for key in late]
                # Not simply the nearest limit: most blocks end long before theirs, and the thread would live until then.
                self._looks_at = min([now + self._lingers, *(at for at, _ in self.due.values())])
                self._changed.wait(self._looks_at - now)
            self._pid = 0
            return None


alarm: Final = Alarm()


def current_token() -> trio.lowlevel.TrioToken | None:
    """Return the token of the Trio run in this thread, if there is one. Not a checkpoint."""
    try:
        return trio.lowlevel.current_trio_token()
    except RuntimeError:
        return None


def check_run(token: trio.lowlevel.TrioToken | None) -> None:
    """Raise `WrongThread` outside of the Trio run that *token* belongs to, if it belongs to one. Not a checkpoint.

    Guest mode's host runs in the thread of its Trio run, so its callbacks pass.
    """
    if token is not None and current_token() is not token:
        raise WrongThread(
            "this works only in the Trio run that opened the engine, and this is another thread: use "
            "turn.cancel_from_thread(), or trio.from_thread.run_sync(function, trio_token=token)"
        )


def current_limiter() -> trio.CapacityLimiter:
    """Return the limiter that `to_thread` uses in this `trio.run`. Its `borrowed_tokens` counts running threads."""
    try:
        return _limiter.get()
    except LookupError:
        limiter = trio.CapacityLimiter(LIMIT)
        _limiter.set(limiter)
        return limiter


def in_background(function: Callable[[], object]) -> None:
    """Run short blocking work in a thread that no task waits for: clean-up after a cancel. Not a checkpoint.

    What it returns or raises is dropped.
    """
    trio.lowlevel.start_thread_soon(function, lambda _: None, name="engine clean-up")


def finish_in_thread(function: Callable[[], object], seconds: float) -> None:
    """Run blocking work that a cancel must not prevent: in a thread, blocking this one for *seconds* at most.

    What is not done by then is done soon: the process waits for it at its end. What it returns is dropped.
    """
    thread = threading.Thread(target=function, name="engine clean-up")
    thread.start()
    thread.join(seconds)


# Only the command line registers something: in a host's process, no thread of ours imports anything unasked.
_preloads: Final[list[Callable[[], object]]] = []


def preload_later(load: Callable[[], object]) -> None:
    """Register *load*, which imports what the first call may need. It must be safe to leave it unfinished."""
    _preloads.append(load)


def start_preloads() -> None:
    """Start what is registered, each once, while the model thinks: in a thread that no task waits for. Not a checkpoint."""
    loads = tuple(_preloads)
    _preloads.clear()
    for load in loads:
        # What it raises is dropped: the call that needs the import reports it.
        trio.lowlevel.start_thread_soon(load, lambda _: None, name="engine preload")
