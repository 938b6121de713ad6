"""Exceptions as text, and what groups of them hold."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Generator
from typing import TypeGuard

from engine.testing.cancellation.source_places import HIDDEN, NOWHERE, Place

# Of a message; pytest explains an assertion in the lines after the first.
MOST_LINES = 12


def is_group(error: BaseException) -> TypeGuard[BaseExceptionGroup[BaseException]]:
    """Tell whether *error* is a group."""
    return isinstance(error, BaseExceptionGroup)


def leaves(error: BaseException) -> Generator[BaseException]:
    """Yield *error*, or what it holds if it is a group."""
    if is_group(error):
        for one in error.exceptions:
            yield from leaves(one)
    else:
        yield error


def raising_place(error: BaseException) -> Place:
    """Return the innermost line at which *error* was raised that is not Trio's; of a group, of its first error."""
    place = NOWHERE
    for frame, line in traceback.walk_tb(next(leaves(error)).__traceback__):
        if not frame.f_code.co_filename.startswith(HIDDEN):
            place = Place(frame.f_code.co_filename, line, frame.f_code.co_name)
    return place


def described(error: BaseException) -> str:
    """Return an exception's type, its message, and, after the first line of that, where it was raised, if that is known."""
    first, *more = str(error).splitlines() or [""]
    message = f": {first}" if first else ""
    shortened = [*more[:MOST_LINES], "..."] if len(more) > MOST_LINES else more
    place = raising_place(error)
    where = "" if place == NOWHERE else f" ({place})"
    return "\n".join((f"{type(error).__name__}{message}{where}", *shortened))


def traceback_of(error: BaseException) -> str:
    """Return the traceback of an exception as Python prints it, without the frames of Trio and of this kit."""
    text = traceback.TracebackException.from_exception(error, compact=True)
    todo = [text]
    for one in todo:
        one.stack[:] = [frame for frame in one.stack if not frame.filename.startswith(HIDDEN)]
        todo += [other for other in (one.__cause__, one.__context__, *(one.exceptions or ())) if other is not None]
    return "".join(text.format()).rstrip()


def without_partial(function: object) -> object:
    """Return the function that a `functools.partial` calls."""
    while isinstance(function, functools.partial):
        function = function.func
    return function
