"""Places in a program: the line at which a task waits, or at which an exception was raised."""

from __future__ import annotations

import contextlib
import linecache
from pathlib import Path

import attrs
import trio

# Lines of Trio, of `contextlib` and of this kit are never the place that a reader looks for.
_TRIO = str(Path(trio.__file__).parent)
_KIT = str(Path(__file__).parent)
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
        """The file, below the working directory if it is there, and the line."""
        path = Path(self.path)
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
    for code, line in reversed(frames):
        if not code.co_filename.startswith(HIDDEN):
            return Place(code.co_filename, line, code.co_name)
    # A task that runs nothing but a function of Trio, or has not started.
    first = frames[0][0] if frames else None
    return Place(first.co_filename, first.co_firstlineno, first.co_name) if first is not None else NOWHERE
