"""Exceptions as text, and what groups of them hold."""

from __future__ import annotations

import functools
import traceback
from collections.abc import Generator
from typing import TypeGuard

from engine.testing.cancellation.source_places import HIDDEN, NOWHERE, Place


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
    """Return an exception's type, the first line of its message, and where it was raised."""
    lines = str(error).splitlines()
    message = f": {lines[0]}" if lines else ""
    return f"{type(error).__name__}{message} ({raising_place(error)})"


def without_partial(function: object) -> object:
    """Return the function that a `functools.partial` calls."""
    while isinstance(function, functools.partial):
        function = function.func
    return function
