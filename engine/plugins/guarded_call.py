"""Foreign code that is loaded: in a thread, with a deadline, and with everything that it may raise as a problem in one line."""

from __future__ import annotations

import ctypes
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Final, Generic, TypeVar

import attrs
import trio

from engine.core.errors import ConfigError
from engine.core.exception_groups import describe
from engine.core.value_base import Value

T = TypeVar("T")

SECONDS: Final = 5.0
# Of ours, which may start at any time.
_OWN_THREADS: Final = ("Trio", "engine")
_WATCHED: Final[Mapping[str, object]] = {
    "trio": trio,
    "trio.lowlevel": trio.lowlevel,
    "trio.to_thread": trio.to_thread,
    "trio.from_thread": trio.from_thread,
    "trio.CancelScope": trio.CancelScope,
    "trio.Nursery": trio.Nursery,
}


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Guarded(Value, Generic[T]):
    """What came of a call.

    Attributes:
        value: what it returned; None if there is a problem.
        problem: why it failed, with file and line; empty: it did not.
        notes: what it did that it should not, though nothing prevents it.
    """

    value: T | None = None
    problem: str = ""
    notes: tuple[str, ...] = ()


@attrs.define(eq=False, repr=False)
class _Work(Generic[T]):
    function: Callable[[], T]
    files: str
    value: T | None = None
    problem: str = ""

    def __call__(self) -> None:
        try:
            self.value = self.function()
        except BaseException as error:  # noqa: ASYNC103, BLE001  # in a thread; also SystemExit, which must not end the program
            self.problem = f"{_text(error)}{_at(_place(error, self.files))}"


def call_guarded(function: Callable[[], T], *, files: str = "", seconds: float = SECONDS) -> Guarded[T]:
    """Call *function*, and return what came of it. It blocks, for *seconds* at most; it raises nothing of the function's.

    A call that does not return is abandoned: its thread ends as soon as it executes Python code.

    Args:
        function: the code to call.
        files: what the paths of its own files begin with, for the place of a problem.
        seconds: how long it may take.
    """
    threads, before = set(threading.enumerate()), _watched()
    work = _Work(function, files)
    thread = threading.Thread(target=work, name="engine plugin", daemon=True)
    thread.start()
    thread.join(seconds)
    notes = tuple(_notes(threads | {thread}, before))
    if thread.is_alive():
        frames = sys._current_frames()  # pyright: ignore[reportPrivateUsage]  # it is documented
        place = _at(_frame_place(frames.get(thread.ident or 0), files))
        _end(thread)
        return Guarded(problem=f"it did not return within {seconds:g} s{place}", notes=notes)
    return Guarded(value=work.value, problem=work.problem, notes=notes)


def _text(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return exit_text(error)
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}"
    # Our own words need no class.
    return str(error) if isinstance(error, ConfigError) else describe(error)


def exit_text(error: SystemExit) -> str:
    """Return what code did that may not end the program."""
    return f"it called sys.exit({'' if error.code is None else repr(error.code)})"


def _at(place: str) -> str:
    return f" ({place})" if place else ""


def _place(error: BaseException, files: str) -> str:
    """Return the file and line that an error comes from, in the plugin's own files if it passed through one."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}, line {error.lineno}"
    frames = [(frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__)]
    return _innermost(reversed(frames), files)


def _frame_place(frame: FrameType | None, files: str) -> str:
    frames = [] if frame is None else list(traceback.walk_stack(frame))
    return _innermost(((each.f_code.co_filename, line) for each, line in frames), files)


def _innermost(frames: Iterator[tuple[str, int]], files: str) -> str:
    return next((f"{path}, line {line}" for path, line in frames if files and path.startswith(files)), "")


def _end(thread: threading.Thread) -> None:
    """Let the thread raise SystemExit at its next line of Python: a loop without end would slow down everything else."""
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(SystemExit))


def _watched() -> dict[str, object]:
    return {f"{owner}.{name}": value for owner, place in _WATCHED.items() for name, value in vars(place).items()}


def _notes(threads: set[threading.Thread], before: Mapping[str, object]) -> Iterator[str]:
    started = [each.name for each in threading.enumerate() if each not in threads]
    own = [name for name in started if not name.startswith(_OWN_THREADS)]
    if own:
        yield f"it has started threads, which the engine does not end: {', '.join(own)}"
    after = _watched()
    changed = [name for name, value in before.items() if after.get(name) is not value]
    if changed:
        yield f"it has replaced parts of Trio, which may break any promise of the engine: {', '.join(changed)}"
