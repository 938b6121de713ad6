"""Separates ordinary errors from exceptions that must propagate, also inside exception groups.

Only cancellation, KeyboardInterrupt and SystemExit may propagate through the engine's
tasks. Everything else that a tool, a hook or the engine itself raises becomes a
value: `ErrorBoundary` catches it. Groups are split, so that a `Cancelled` inside one
still reaches its scope.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self, TypeGuard, final
from zlib import crc32

import attrs
import trio

from engine.core.errors import EngineError

PROPAGATING = (trio.Cancelled, KeyboardInterrupt, SystemExit, GeneratorExit)


@final
@attrs.define(eq=False, repr=False, kw_only=True)
class ErrorBoundary:
    """A `with` block that catches ordinary errors and lets the rest propagate.

        with ErrorBoundary() as boundary:
            await foreign_code()
        if boundary.error is not None: ...

    A `Cancelled` that is raised although nothing is cancelled counts as an ordinary error, and so does a GeneratorExit
    in a task that runs.
    From a group with both kinds, the part that must propagate is raised alone. Then no code
    after the block runs, so what must happen in any case goes into a callback. Callbacks
    are synchronous: there is no checkpoint between the error and its record.

    Attributes:
        on_error: called with the ordinary part.
        on_propagate: called after *on_error*, before the other part is raised.
        error: the ordinary part, after the block; None: there was none.
    """

    on_error: Callable[[BaseException], None] | None = None
    on_propagate: Callable[[BaseException], None] | None = None
    error: BaseException | None = attrs.field(default=None, init=False)
    _task: trio.lowlevel.Task | None = attrs.field(default=None, init=False)

    def __enter__(self) -> Self:
        """Return itself."""
        self._task = trio.lowlevel.current_task() if trio.lowlevel.in_trio_task() else None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        """Keep the ordinary part of *error*, and raise the rest."""
        if error is None:
            return False
        propagating, self.error = split(error)
        if propagating is not None and (what := self._stray(propagating)):
            propagating, self.error = None, RuntimeError(what)
            self.error.__cause__ = error
        if self.error is not None and self.on_error is not None:
            self.on_error(self.error)
        if propagating is None:
            return True
        if self.on_propagate is not None:
            self.on_propagate(propagating)
        if propagating is error:
            return False  # trio needs exactly this exception back, with its traceback
        raise propagating from None

    def _stray(self, propagating: BaseException) -> str:
        """Return what is wrong if foreign code has raised what only Trio or Python may raise; else an empty text."""
        if first_of(propagating, KeyboardInterrupt) or first_of(propagating, SystemExit):
            return ""
        is_running = self._task is not None and trio.lowlevel.in_trio_task()
        if first_of(propagating, GeneratorExit):
            # Python raises it where it closes a coroutine; that of a task which runs is not being closed.
            is_stray = is_running and trio.lowlevel.current_task() is self._task
            return "GeneratorExit was raised, but nothing was closed" if is_stray else ""
        # Foreign code kept a `Cancelled` and raised it again, far from its scope. A nursery would take it for a cancel of
        # its own, abort its other tasks and go on as if nothing had happened. In a thread nothing is ever cancelled.
        if is_running and trio.current_effective_deadline() == float("-inf"):
            return ""
        return "trio.Cancelled was raised though nothing was cancelled"


def is_group(error: BaseException | None) -> TypeGuard[BaseExceptionGroup[BaseException]]:
    """Return whether *error* is an exception group of any kind."""
    return isinstance(error, BaseExceptionGroup)


def split(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return the part of *error* that must propagate, and the part that is an ordinary error."""
    if isinstance(error, PROPAGATING):
        return error, None
    if is_group(error):
        propagating, ordinary = error.split(PROPAGATING)
        return _only(propagating), _only(ordinary)
    return None, error


def public(error: BaseException) -> BaseException:
    """Return what a host should see of an exception from one of our nurseries.

    A group of nothing but `Cancelled` becomes one `Cancelled`; one that holds a
    KeyboardInterrupt or a SystemExit becomes that.
    """
    if not is_group(error):
        return error
    for kind in (KeyboardInterrupt, SystemExit):
        interrupt = first_of(error, kind)
        if interrupt is not None:
            return interrupt
    _, ordinary = split(error)
    if ordinary is None:
        return first_of(error, trio.Cancelled) or error
    return ordinary


async def leave(nursery: AbstractAsyncContextManager[object], error: BaseException | None) -> None:
    """Leave a nursery without cancelling its tasks for the body's *error*, which the caller raises. A schedule point.

    It waits for the last task. What the tasks raised is raised in the form of `public`; but if the body's own exception
    is already propagating, a cancellation adds nothing: the cancelled scope stays cancelled.
    """
    try:
        await nursery.__aexit__(None, None, None)  # noqa: ASYNC102  # by design: a block is left when its last task has gone
    except BaseException as raised:
        seen = public(raised)
        if error is not None and isinstance(seen, trio.Cancelled):
            return  # noqa: ASYNC104  # the body's own exception goes on
        if seen is raised:
            raise
        raise seen from raised.__cause__  # noqa: ASYNC104  # what must pass is raised


def first_of(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """Return the first *kind* in *error*, which may be a group."""
    if isinstance(error, kind):
        return error
    if is_group(error):
        return next((first for e in error.exceptions if (first := first_of(e, kind)) is not None), None)
    return None


def describe(error: BaseException, limit: int = 2_000) -> str:
    """Return an error as one text for people and models, even if its `__str__` raises."""
    if is_group(error):
        inner = "; ".join(describe(e, limit) for e in error.exceptions[:5])
        return f"{len(error.exceptions)} errors: {inner}"[:limit]
    try:
        text = str(error)
    except Exception:  # noqa: BLE001  # a foreign __str__ may raise anything
        text = ""
    name = type(error).__name__
    return (f"{name}: {text}" if text else name)[:limit]


def reason_of(error: BaseException) -> str:
    """Return why something failed: a message of ours as it is, another error with the name of its class."""
    return str(error) if isinstance(error, EngineError) else describe(error)


def error_number(error: BaseException) -> str:
    """Return a number for a bug of the engine: the same wherever the same error comes from the same function."""
    place, trace = "", error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        place, trace = f"{code.co_filename.rpartition('/')[2]}:{code.co_qualname}", trace.tb_next
    return f"E-{crc32(f'{type(error).__name__}:{place}'.encode(errors='replace')):08x}"


def _only(error: BaseException | None) -> BaseException | None:
    while is_group(error) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
