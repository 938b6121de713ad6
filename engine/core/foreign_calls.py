"""Calls of foreign code: tools, hooks, models, stores and the other ports.

The engine's own frames are protected from KeyboardInterrupt, so that no record is left half-written, and what they call
inherits that. Foreign code must not: when it blocks the event loop, Ctrl-C is the only way out. So it is called through
`call_foreign`, which does at each border the same three things:

- Ctrl-C raises KeyboardInterrupt in that code, and the turn ends as it does at any other interrupt;
- what it raises though only Trio or Python may is an ordinary error (see `ErrorBoundary`);
- code that blocks the event loop is named in a notice.

The last one is measured here, between two of its checkpoints, and not by a task that watches: that would have to wake up
again and again for each session, and could not tell which code it was.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Final, Generic, Literal, ParamSpec, Protocol, TypeVar, cast, final

import attrs
import trio
from trio.lowlevel import disable_ki_protection, enable_ki_protection

from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.value_base import Value

_log = logging.getLogger(__name__)

T = TypeVar("T")
P = ParamSpec("P")

# Seconds. What takes longer than that between two checkpoints has not been slow by chance.
BLOCKED: Final = 0.5

# How many blocks are remembered: what waits around them ends soon after.
_REMEMBERED: Final = 16


class Reporter(Protocol):
    """Reports to the host and its user."""

    def __call__(self, level: Literal["info", "warning"], code: str, text: str, /) -> None:
        """Report *text*. Not a checkpoint."""
        ...


@attrs.frozen(eq=False, repr=False)
class _Block(Value):
    """A time in which the event loop stood still, by Trio's clock, and whose code was named."""

    began: float
    ended: float


_report: ContextVar[Reporter | None] = ContextVar("engine.core.foreign_calls.report", default=None)
_named: trio.lowlevel.RunVar[list[_Block]] = trio.lowlevel.RunVar("engine.core.foreign_calls.named")


async def call_foreign(what: str, function: Callable[P, Awaitable[T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call foreign code, and return what it returns. A checkpoint if it is one.

    *what* names it for people. A `Cancelled` or a GeneratorExit that it should not have raised is a RuntimeError; other
    errors are raised as they are.
    """
    with ErrorBoundary() as boundary:
        return await ForeignCall(what, partial(function, *args, **kwargs))
    assert boundary.error is not None
    raise boundary.error


@enable_ki_protection
def call_foreign_now(what: str, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a plain function of foreign code, and return what it returns; its errors are raised. Not a checkpoint."""
    began = trio.current_time()
    try:
        return _unprotected_now(partial(function, *args, **kwargs))
    finally:
        _report_block(what, began)


def call_at_end(what: str, function: Callable[P, None], /, *args: P.args, **kwargs: P.kwargs) -> None:
    """Call a plain function of foreign code when a turn or a session is over. Not a checkpoint.

    Its error is logged: others go on, and none of them has a part in it.
    """
    try:
        call_foreign_now(what, function, *args, **kwargs)
    except Exception as error:  # noqa: BLE001  # foreign code
        _log.error("%s failed: %s", what, describe(error))


@enable_ki_protection
def defer_interrupt() -> None:
    """Raise a caught KeyboardInterrupt later, where a checkpoint is: here it would leave something half done."""
    # This frame is protected, so Trio takes note of the signal. Only the main thread is interrupted by signals.
    if threading.current_thread() is threading.main_thread():
        signal.raise_signal(signal.SIGINT)


@final
@attrs.define(eq=False, repr=False)
class ForeignCall(Generic[T]):
    """Calls foreign code each time that it is awaited; for use inside of an `ErrorBoundary`, as `call_foreign` does.

    Attributes:
        what: names it for people.
        function: the code.
        has_waited: whether the last call has let other tasks run.
    """

    what: str
    function: Callable[[], Awaitable[T]]
    has_waited: bool = False

    @enable_ki_protection
    def __await__(self) -> Generator[object, object, T]:
        """Run the code from one of its checkpoints to the next."""
        # Protected: an interrupt between two of its steps would drop the code where it waits, without its clean-up.
        code = _unprotected(self.function)
        sent: object = None
        thrown: BaseException | None = None
        self.has_waited = False
        # Once for all steps: `trio.current_time` looks it up each time, and this is on the path of each delta.
        now = trio.lowlevel.current_clock().current_time
        while True:
            began = now()
            try:
                trap = code.send(sent) if thrown is None else code.throw(thrown)
            except StopIteration as returned:
                return cast("T", returned.value)
            finally:
                # The traceback of what was thrown holds this frame: both would live until the garbage collector runs.
                sent = thrown = None
                if now() - began >= BLOCKED:
                    _report_block(self.what, began)
            self.has_waited = True
            try:
                sent = yield trap
            except BaseException as error:  # noqa: BLE001, ASYNC103  # it is thrown into the code
                thrown = error


@disable_ki_protection
async def _unprotected(function: Callable[[], Awaitable[T]]) -> T:
    return await function()


@disable_ki_protection
def _unprotected_now(function: Callable[[], T]) -> T:
    return function()


@contextmanager
def reporting_blocks(report: Reporter) -> Generator[None]:
    """Report code that blocks the event loop to *report*: what this task calls in the block, and tasks started in it."""
    token = _report.set(report)
    try:
        yield
    finally:
        _report.reset(token)


def report_notice(level: Literal["info", "warning"], code: str, text: str) -> None:
    """Report to the host of the turn or session for which this task works, if it works for one. Not a checkpoint."""
    if (report := _report.get()) is not None:
        # A session that is closed takes no notice any more.
        with suppress(Exception):
            report(level, code, text)


def named_seconds(began: float) -> float:
    """Return for how long since then the event loop stood still in code that was named. Not a checkpoint."""
    return sum(max(0.0, block.ended - max(block.began, began)) for block in _named.get([]))


def note_continued() -> None:
    """Note that this process was stopped, as by Ctrl-Z, and has been continued: no code blocked until now.

    Not a checkpoint. For a handler of SIGCONT; outside of a Trio run it does nothing.
    """
    with suppress(RuntimeError):
        _named.set([*_named.get([])[1 - _REMEMBERED :], _Block(float("-inf"), trio.current_time())])


def _report_block(what: str, began: float) -> None:
    ended = trio.current_time()
    if ended - began < BLOCKED:
        return
    # Foreign code may call the engine, which calls foreign code again; that was reported by itself.
    late = ended - began - named_seconds(began)
    report = _report.get()
    if late < BLOCKED or report is None:
        return
    _named.set([*_named.get([])[1 - _REMEMBERED :], _Block(began, ended)])
    # A session that is closed takes no notice any more. An error in reporting must not replace what is being raised.
    with suppress(Exception):
        report(
            "warning",
            "loop_blocked",
            f"the event loop stood still for {late:.1f} s in {what}. If the process was not stopped, that code blocked "
            "it: such work belongs in a thread, await trio.to_thread.run_sync(...), or in a tool await ctx.to_thread(...)",
        )
