"""`cancel_everywhere`, for any async function, and for scenarios that play themselves."""

from __future__ import annotations

import inspect
import os
import signal
import threading
from collections.abc import Iterable
from pathlib import Path
from types import CodeType
from typing import overload

import attrs
import trio

from engine.testing.cancellation.complaints import Complaints
from engine.testing.cancellation.enumeration import (
    CancelPlan,
    Playable,
    Report,
    play_everywhere,
    seeds_from,
    selected_ways,
)
from engine.testing.cancellation.error_text import without_partial
from engine.testing.cancellation.function_run import FunctionRun, FunctionSource, RunOptions, run_function
from engine.testing.cancellation.injections import (
    FUNCTION_WAYS,
    PARTS,
    SINGLE_WAYS,
    Injection,
    parse_injection,
)
from engine.testing.cancellation.subject_runs import RunSubject, run_everywhere


@overload
def cancel_everywhere(
    scenario: Playable,
    *,
    ways: Iterable[str] | None = None,
    seed: int = 0,
    every: int = 1,
    seconds: Iterable[int] = (1, 7),
    only: str | None = None,
) -> Report: ...


@overload
def cancel_everywhere(
    scenario: FunctionSource,
    *,
    by: Iterable[str] | None = None,
    seed: int = 0,
    every: int = 1,
    seconds: Iterable[int] = (1, 7),
    schedules: int = 1,
    only: str | None = None,
    limit: float = 10.0,
    folder: str | os.PathLike[str] | None = None,
    raises: type[BaseException] | tuple[type[BaseException], ...] = (),
    svg: str | os.PathLike[str] | None = None,
    most_points: int = 100_000,
    repeatable: bool = True,
) -> Report: ...


def cancel_everywhere(
    scenario: Playable | FunctionSource,
    *,
    by: Iterable[str] | None = None,
    ways: Iterable[str] | None = None,
    seed: int = 0,
    every: int = 1,
    seconds: Iterable[int] = (1, 7),
    schedules: int = 1,
    only: str | None = None,
    limit: float = 10.0,
    folder: str | os.PathLike[str] | None = None,
    raises: type[BaseException] | tuple[type[BaseException], ...] = (),
    svg: str | os.PathLike[str] | None = None,
    most_points: int = 100_000,
    repeatable: bool = True,
) -> Report:
    """Cancel *scenario* at each of its points, in each way, and check what must hold. Not for use inside trio.

    Args:
        scenario: an async function; or a function that returns one, perhaps as a context manager whose part after the
            `yield` checks what the function has left; or a `Scenario` of a turn.
        by: how to cancel a function: "scope", "deadline", "sibling", "thread" and "interrupt" by default;
            also "scope_twice", "scope_then_interrupt" and "interrupt_twice".
        ways: how to cancel a scenario of a turn; all of `WAYS` by default.
        seed: the seed of trio's scheduler, and of `random`.
        every: take only every n-th point.
        seconds: for the ways with two cancels: the number of points between them.
        schedules: repeat everything under so many schedules, with seeds from *seed* on.
        only: try only this cancel, such as "scope@17", the text in a report.
        limit: how much virtual time the function may take to end after a cancel, in seconds.
        folder: files that a run leaves below this folder are a broken promise.
        raises: exceptions that the function may raise instead of `Cancelled` when it is cancelled.
        svg: write a drawing of a failure to this file.
        most_points: a run with more points raises ValueError.
        repeatable: False for a function whose runs differ, because it uses processes or several threads: it is cancelled at
            each line at which its tasks wait, if a run comes to it again.

    Raises:
        PromiseBroken: a cancel broke something; the text is a report.
        NotRepeatable: two runs without a cancel differ.
        ValueError: an unknown way, a number that makes no sense, or a function with too many points.
    """
    __tracebackhide__ = True
    if trio.lowlevel.in_trio_run():
        raise RuntimeError("cancel_everywhere starts runs of Trio itself: call it from an ordinary function")
    _check_call(scenario, by=by, ways=ways)
    injection = None if only is None else parse_injection(only)
    if isinstance(scenario, Playable):
        return play_everywhere(scenario, ways=ways, seed=seed, every=every, gaps=seconds, only=injection)
    plan, left_out = function_plan(
        by, injection, seeds=seeds_from(seed, schedules), every=every, gaps=seconds, repeatable=repeatable
    )
    options = run_options(limit=limit, folder=folder, raises=raises, most_points=most_points, by_place=plan.by_place)
    subject = _FunctionSubject(scenario, options, svg=None if svg is None else Path(svg))
    return attrs.evolve(run_everywhere(subject, plan), left_out=left_out)


def _check_call(scenario: object, *, by: object, ways: object) -> None:
    """Raise TypeError for what is no function, for a function that needs arguments, and for ways of the other kind."""
    __tracebackhide__ = True
    if inspect.iscoroutine(scenario):
        # Otherwise Python would complain that it was never awaited.
        scenario.close()
        raise TypeError(
            f"pass the function, not a coroutine: cancel_everywhere({scenario.__name__}), "
            f"or with arguments cancel_everywhere(partial({scenario.__name__}, ...))"
        )
    if isinstance(scenario, Playable):
        if by is not None:
            raise TypeError("by= is for async functions; a scenario has ways of its own: write ways=")
        return
    if ways is not None:
        raise TypeError("ways= is for scenarios of a turn; for an async function write by=")
    if callable(scenario):
        try:
            # Not that of a function which it wraps: a decorator may pass the arguments.
            signature = inspect.signature(scenario, follow_wrapped=False)
        except ValueError:
            return
        try:
            signature.bind()
        except TypeError as error:
            name, _ = describe_function(scenario)
            raise TypeError(f"{name}: {error}. Pass it by cancel_everywhere(partial({name}, ...))") from None


def run_options(
    *,
    limit: float,
    raises: type[BaseException] | tuple[type[BaseException], ...],
    most_points: int,
    by_place: bool,
    folder: str | os.PathLike[str] | None = None,
    passes: tuple[type[BaseException], ...] = (),
) -> RunOptions:
    """Return what is the same in all runs. Raises ValueError for numbers that make no sense."""
    if not limit > 0 or most_points < 1:
        raise ValueError("limit is more than 0 seconds, and most_points at least 1")
    return RunOptions(
        limit=limit,
        folder=None if folder is None else Path(folder),
        raises=raises if isinstance(raises, tuple) else (raises,),
        most_points=most_points,
        by_place=by_place,
        passes=passes,
    )


def function_plan(
    by: Iterable[str] | None,
    only: Injection | None,
    *,
    seeds: range,
    every: int,
    gaps: Iterable[int],
    repeatable: bool,
) -> tuple[CancelPlan, tuple[str, ...]]:
    """Return which cancels to try, and the ways that are left out. Raises ValueError for an unknown way."""
    ways, left_out = usable_ways(by if only is None else only.way)
    plan = CancelPlan(
        ways={way: PARTS[way][1] is not None for way in ways},
        seeds=seeds,
        every=every,
        gaps=tuple(gaps),
        only=only,
        by_place=not repeatable or (only is not None and bool(only.place)),
    )
    return plan, left_out


def usable_ways(by: Iterable[str] | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the ways that can be used here, and those of the default ways that can't, with the reason."""
    ways = selected_ways(SINGLE_WAYS if by is None else by, FUNCTION_WAYS)
    reason = _why_no_interrupt()
    if reason is None:
        return ways, ()
    interrupting = [way for way in ways if "interrupt" in PARTS[way]]
    if interrupting and by is not None:
        raise ValueError(f"{interrupting[0]!r} can't be used here: {reason}")
    return tuple(way for way in ways if way not in interrupting), tuple(f"{way}: {reason}" for way in interrupting)


def _why_no_interrupt() -> str | None:
    if threading.current_thread() is not threading.main_thread():
        return "Python delivers signals to the main thread only"
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        return "this program handles SIGINT by itself"
    return None


class _FunctionSubject(RunSubject):
    """A function that is passed to `cancel_everywhere`."""

    def __init__(self, source: FunctionSource, options: RunOptions, svg: Path | None) -> None:
        self._source, self._options, self.svg = source, options, svg
        self.name, self.location = describe_function(source)

    def play(
        self, injection: Injection | None, seed: int, complaints: Complaints, *, is_detailed: bool = False
    ) -> FunctionRun:
        """Run it once."""
        return run_function(self._source, injection, self._options, complaints, seed=seed, is_detailed=is_detailed)

    def again(self, injection: Injection | None, seed: int) -> str:
        """Return the call that repeats exactly one run."""
        only = "" if injection is None else f'only="{injection}", '
        if injection is None and self._options.by_place:
            only = "repeatable=False, "
        defaults = RunOptions()
        more = "".join(
            f", {name}={getattr(self._options, name)!r}"
            for name in ("limit", "most_points")
            if getattr(self._options, name) != getattr(defaults, name)
        )
        if self._options.folder is not None:
            more += f', folder="{self._options.folder}"'
        if self._options.raises:
            more += f", raises=({', '.join(error.__name__ for error in self._options.raises)},)"
        return f"cancel_everywhere({self.name}, {only}seed={seed}{more})"


def describe_function(source: object) -> tuple[str, str]:
    """Return the name of a function, and its file and line."""
    source = without_partial(source)
    function: object = inspect.unwrap(source) if callable(source) else source
    name = str(getattr(function, "__qualname__", type(function).__name__)).rpartition("<locals>.")[2]
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return name, "?"
    path = Path(code.co_filename)
    if path.is_relative_to(Path.cwd()):
        path = path.relative_to(Path.cwd())
    return name, f"{path}:{code.co_firstlineno}"
