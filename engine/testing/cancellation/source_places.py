"""Places in a program: the line at which a task waits, or at which an exception was raised."""

from __future__ import annotations

import contextlib
import linecache
import os
import sys
from pathlib import Path
from types import FrameType

import attrs
import trio

# Lines of Trio, of `contextlib` and of this kit are never the place that a reader looks for.
_TRIO = f"{Path(trio.__file__).parent}{os.sep}"
_CORE = f"{_TRIO}_core{os.sep}"
_KIT = f"{Path(__file__).parent}{os.sep}"
HIDDEN = (_TRIO, _KIT, contextlib.__file__)


@attrs.frozen
class Place:
    """A line of a program."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        """Return `pool.py:31, in send: await self.lock.acquire()`."""
        return (
            f"{self.short}, in {self.function}: {self.source}" if self.source else f"{self.short}, in {self.function}"
        )

    @property
    def short(self) -> str:
        """The file, below the working directory or the installed packages if it is there, and the line."""
        _, installed, inside = self.path.rpartition(f"site-packages{os.sep}")
        path = Path(inside if installed else self.path)
        with contextlib.suppress(ValueError):
            path = path.relative_to(Path.cwd())
        return f"{path}:{self.line}"

    @property
    def source(self) -> str:
        """The text of the line; empty if it can't be read."""
        return linecache.getline(self.path, self.line).strip()


NOWHERE = Place("?", 0, "?")


def waiting_place(task: trio.lowlevel.Task) -> Place:
    """Return the line at which *task* waits: the innermost one that is not Trio's."""
    frames = [(frame.f_code, line) for frame, line in task.iter_await_frames()]
    for hidden in (HIDDEN, (_CORE,)):
        for code, line in reversed(frames):
            if not code.co_filename.startswith(hidden):
                return Place(code.co_filename, line, code.co_name)
    # A task may be a function of Trio itself, such as `checkpoint`.
    own = [(code, line) for code, line in frames if not code.co_filename.startswith(_KIT)]
    return Place(own[0][0].co_filename, own[0][1], own[0][0].co_name) if own else NOWHERE


def calling_place() -> Place:
    """Return the line that runs now in this thread: the innermost one that is not Trio's and not the kit's."""
    frame: FrameType | None = sys._getframe()  # pyright: ignore[reportPrivateUsage]  # `inspect` would read the files
    while frame is not None:
        if not frame.f_code.co_filename.startswith(HIDDEN):
            return Place(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name)
        frame = frame.f_back
    return NOWHERE


@attrs.define(eq=False)
class Visits:
    """Names points so that they are the same in runs that differ: the task, the line, and the n-th time there."""

    _numbers: dict[str, int] = attrs.field(factory=dict[str, int])

    def named(self, name: str, task: trio.lowlevel.Task | None = None) -> str:
        """Return `after serve at server.py:12 #3` for the point *name* of *task*."""
        place = NOWHERE if task is None else waiting_place(task)
        where = name if place == NOWHERE else f"{name} at {place.short}"
        number = self._numbers[where] = self._numbers.get(where, 0) + 1
        return f"{where} #{number}"
