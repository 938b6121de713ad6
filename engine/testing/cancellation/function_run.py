"""One run of a function, perhaps with a cancel, and what was wrong with it.

A run is a new `trio.run` with a seeded scheduler and a virtual clock: the same function, seed and cancel give the same
run, as long as the function's own behaviour does not depend on real time, threads or the network.
"""

from __future__ import annotations

import gc
import inspect
import random
from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import NoReturn, Protocol

import attrs
import trio

from engine.testing.cancellation.cancel_target import REASON, CancelTarget
from engine.testing.cancellation.complaints import Complaints
from engine.testing.cancellation.error_text import described, is_group, leaves, traceback_of, without_partial
from engine.testing.cancellation.function_points import FunctionPoints
from engine.testing.cancellation.injections import Injection
from engine.testing.cancellation.leftovers import left_behind, take_snapshot
from engine.testing.cancellation.points import installed
from engine.testing.cancellation.source_places import Visits, waiting_place
from engine.testing.cancellation.standstill_watch import StandstillWatch
from engine.testing.cancellation.thread_watch import ThreadWatch
from engine.testing.cancellation.timeline import Timeline
from engine.testing.cancellation.trio_internals import cancelled_threads, interrupts_reach, seed_scheduler, shields_of
from engine.testing.cancellation.virtual_clock import VirtualClock

AsyncFunction = Callable[[], Awaitable[object]]
# An async function, or a function that makes one, perhaps as a context manager: what follows its `yield` is a check.
FunctionSource = AsyncFunction | Callable[[], AsyncFunction | AbstractContextManager[AsyncFunction]]

# A run without a cancel has so much virtual time.
MOST_SECONDS = 100_000.0
# Steps in which what the function has left may still end by itself.
SETTLE = 5


@attrs.frozen(kw_only=True)
class RunOptions:
    """What is the same in all runs of a function.

    Attributes:
        limit: how much virtual time may pass after the cancel.
        folder: files that are left below it are reported.
        raises: exceptions that the function may raise instead of `Cancelled`.
        most_points: a run with more points is stopped.
        by_place: points are places, for a function whose runs differ.
        most_quiet_seconds: with a clock of the test's own, so long in real time nothing may happen.
        passes: exceptions that end everything, because they are no fault: a developer's Ctrl-C, a skipped test.
    """

    limit: float = 10.0
    folder: Path | None = None
    raises: tuple[type[BaseException], ...] = ()
    most_points: int = 100_000
    by_place: bool = False
    most_quiet_seconds: float = 5.0
    passes: tuple[type[BaseException], ...] = ()


@attrs.define(eq=False, kw_only=True)
class FunctionRun:
    """A run: its points, what was wrong with it, as sentences, and where an exception came from, as Python prints it.

    Attributes:
        threads: notes what a cancel raises in worker threads.
    """

    points: FunctionPoints
    threads: ThreadWatch
    problems: list[str] = attrs.field(factory=list[str])
    returned: bool = False
    traceback: str = ""


class TrioRun(Protocol):
    """Runs an async function, as `trio.run` does."""

    def __call__(
        self, function: AsyncFunction, /, *, clock: trio.abc.Clock | None, instruments: list[trio.abc.Instrument]
    ) -> object:
        """Run *function*."""
        ...


def _trio_run(
    function: AsyncFunction, *, clock: trio.abc.Clock | None, instruments: list[trio.abc.Instrument]
) -> object:
    return trio.run(function, clock=clock, instruments=instruments, strict_exception_groups=True)


def new_run(injection: Injection | None, options: RunOptions, *, is_detailed: bool = False) -> FunctionRun:
    """Return a run that has not begun."""
    target = CancelTarget(options.limit, options.most_quiet_seconds)
    threads = ThreadWatch(target)
    points = FunctionPoints(
        injection=injection,
        timeline=Timeline() if is_detailed else None,
        most_points=options.most_points,
        visits=Visits() if options.by_place else None,
        target=target,
        threads=threads,
    )
    return FunctionRun(points=points, threads=threads)


def run_function(
    source: FunctionSource,
    injection: Injection | None,
    options: RunOptions,
    complaints: Complaints,
    *,
    seed: int = 0,
    is_detailed: bool = False,
) -> FunctionRun:
    """Run the function of *source* once, in a new `trio.run`, and check what holds for all Trio code."""
    run = new_run(injection, options, is_detailed=is_detailed)
    random.seed(seed)

    def run_it() -> None:
        with _case(source, run) as function:
            perform(run, partial_body(run, options, function), seed=seed)

    check_run(run, options, complaints, run_it)
    return run


def partial_body(run: FunctionRun, options: RunOptions, function: AsyncFunction) -> AsyncFunction:
    """Return the async function of a whole run: *function*, inside what can cancel it."""

    async def body() -> None:
        await strike_function(run, options, function, name=_name_of(function))

    return body


def perform(
    run: FunctionRun,
    body: AsyncFunction,
    *,
    seed: int,
    clock: trio.abc.Clock | None = None,
    trio_run: TrioRun = _trio_run,
) -> None:
    """Run *body* in Trio, and note with what it ended. KeyboardInterrupt passes, unless the run has injected it."""
    points = run.points
    instruments: list[trio.abc.Instrument] = [points]
    watching: AbstractContextManager[None] = nullcontext()
    if clock is None:
        clock = points.clock = VirtualClock()
    else:
        watch = StandstillWatch(points)
        instruments.append(watch)
        watching = watch.watching()
    seed_scheduler(seed)
    is_interrupted = False
    try:
        with installed(points), cancelled_threads(run.threads.note), watching:
            trio_run(body, clock=clock, instruments=instruments)
    except trio.TrioInternalError:
        if not points.is_stopped:
            raise
    except (KeyboardInterrupt, BaseExceptionGroup) as error:
        # Nothing but the injected KeyboardInterrupt, perhaps in a group; any other one is the developer's.
        if not all(isinstance(one, KeyboardInterrupt) for one in leaves(error)):
            _raise_others(error, is_injected=points.target.interrupted)
        if not points.target.interrupted:
            raise KeyboardInterrupt from error
        is_interrupted = True
    # A `Cancelled` that a clean-up raises may replace it; then the function was left all the same.
    if points.target.must_interrupt and run.returned and not is_interrupted and not points.problems:
        run.problems.append("KeyboardInterrupt was swallowed: the run ended without it")


def _raise_others(error: BaseException, *, is_injected: bool) -> NoReturn:
    """Raise what a fixture raised while it was torn down, without the KeyboardInterrupt that is the run's own."""
    others = error.split(KeyboardInterrupt)[1] if is_injected and is_group(error) else None
    raise others or error


def check_run(run: FunctionRun, options: RunOptions, complaints: Complaints, run_it: Callable[[], None]) -> None:
    """Call *run_it*, which runs the function, and add what it did wrong or left behind to the run's problems."""
    before = take_snapshot(options.folder)
    complaints.take()
    run_it()
    # The labels stay, the tasks go: their frames would keep what the function has left.
    run.points.own.clear()
    gc.collect()
    run.problems[:0] = run.points.problems
    run.problems += left_behind(before, options.folder)
    complained = complaints.take()
    # A run that was stopped leaves complaints that are not the function's.
    if not run.points.is_stopped:
        run.problems += complained
    injection = run.points.injection
    if injection is not None and not injection.place and not run.points.fired:
        run.problems.append(f"the cancel never struck: this run has only {len(run.points.names)} points")


async def strike_function(run: FunctionRun, options: RunOptions, function: AsyncFunction, *, name: str) -> None:
    """Run *function* where it can be cancelled in each way: inside two scopes, with a sibling task, under a watchdog."""
    with interrupts_reach(trio.lowlevel.current_task()):
        await _strike_in_scopes(run, options, function, name)


async def _strike_in_scopes(run: FunctionRun, options: RunOptions, function: AsyncFunction, name: str) -> None:
    points = run.points
    async with trio.open_nursery() as outer:
        # Stops what never ends. The deadline is set first: a cancel at point 0 comes before the task's first step.
        points.target.watchdog.deadline = trio.current_time() + MOST_SECONDS
        outer.start_soon(_watch, run, options, trio.lowlevel.current_task())
        try:
            with points.target.second:
                async with trio.open_nursery() as inner:
                    points.target.first = inner.cancel_scope
                    inner.start_soon(_cancel_when_rung, points)
                    await _call(run, options, function, name)
                    inner.cancel_scope.cancel(reason="the function has ended")
        finally:
            outer.cancel_scope.cancel(reason="the function has ended")


async def _cancel_when_rung(points: FunctionPoints) -> None:
    await points.target.bell.wait()
    points.target.first.cancel(reason=REASON)


async def _call(run: FunctionRun, options: RunOptions, function: AsyncFunction, name: str) -> None:
    points = run.points
    points.arm(trio.lowlevel.current_task(), name)
    passing: frozenset[type[BaseException]] = frozenset()
    try:
        await function()
        _note_returned(run)
    except BaseException as error:  # what must pass is raised again, below  # noqa: ASYNC103, BLE001
        cancelling, ordinary = _split(error, points)
        if cancelling is not None:
            passing = frozenset(type(one) for one in leaves(cancelling))
        if ordinary is not None:
            _note_raised(run, ordinary, options)
        del cancelling, ordinary
    finally:
        points.note("end", "the function has ended", None)
        points.armed = False
    # Not while an exception is kept: its frames keep what the function has let go of.
    await _check_left(run)
    if KeyboardInterrupt in passing:
        raise KeyboardInterrupt
    if passing:
        await trio.lowlevel.checkpoint()


def _note_returned(run: FunctionRun) -> None:
    run.returned = True
    main = next(iter(run.points.own.values()))
    if main.struck_at is not None and not main.swallowed:
        run.points.problems.append(
            f"the task {main.label} swallowed {main.struck_by}, which it got at {main.struck_at}, and returned normally"
        )


def _split(error: BaseException, points: FunctionPoints) -> tuple[BaseException | None, BaseException | None]:
    """Separate the injected cancel from what the function raised by itself."""
    kinds = (trio.Cancelled, KeyboardInterrupt) if points.target.interrupted else (trio.Cancelled,)
    if is_group(error):
        return error.split(kinds)
    return (error, None) if isinstance(error, kinds) else (None, error)


def _note_raised(run: FunctionRun, error: BaseException, options: RunOptions) -> None:
    if any(isinstance(one, (KeyboardInterrupt, *options.passes)) for one in leaves(error)):
        raise error
    ones = [one for one in leaves(error) if not isinstance(one, options.raises)]
    if ones:
        named = "; ".join(map(described, ones))
        run.problems.append(f"the function raised {named}")
        run.traceback = traceback_of(error)


# ---- what is left inside of the run ----------------------------------------------------------------------------------


async def _check_left(run: FunctionRun) -> None:
    """Report the function's tasks and generators that have outlived it. Shielded: the run was cancelled."""
    points = run.points
    this = trio.lowlevel.current_task()
    with trio.CancelScope(shield=True):  # noqa: ASYNC912
        for _ in range(SETTLE):
            if not _tasks_left(points, this):
                break
            await trio.lowlevel.checkpoint()
    for task in _tasks_left(points, this):
        label = points.own[task].label
        points.problems.append(f"the task {label} is left, at {waiting_place(task)}")
    points.problems += points.generators.left_open()


def _tasks_left(points: FunctionPoints, this: trio.lowlevel.Task) -> list[trio.lowlevel.Task]:
    """Return the function's tasks that no task around the function waits for."""
    around = {this, *_ancestors(this)}
    around.discard(trio.lowlevel.current_root_task() or this)
    return [task for task in points.own if task is not this and not around.intersection(_ancestors(task))]


def _ancestors(task: trio.lowlevel.Task) -> Generator[trio.lowlevel.Task]:
    nursery = task.parent_nursery
    while nursery is not None:
        yield nursery.parent_task
        nursery = nursery.parent_task.parent_nursery


# ---- what never ends -------------------------------------------------------------------------------------------------


async def _watch(run: FunctionRun, options: RunOptions, main: trio.lowlevel.Task) -> None:
    """Name what has not ended in time, take its shields away, and stop the run if that does not help."""
    points = run.points
    with points.target.watchdog:
        await trio.sleep_forever()
    if not points.armed:
        # The function has ended, and this task is cancelled.
        await trio.lowlevel.checkpoint()
        return
    waiting = [task for task in points.own if not task.child_nurseries or task is main]
    where = "; ".join(f"{points.own[task].label} at {waiting_place(task)}" for task in waiting)
    if points.target.stands_still:
        points.problems.append(
            f"nothing happens: the test has a clock of its own, which stands still, and for {options.most_quiet_seconds:g} "
            f"real seconds no task has run. It waits: {where}. Let the test jump its clock, or use autojump_clock"
        )
    elif points.fired:
        points.problems.append(
            f"the function has not ended {options.limit:g} virtual seconds after the cancel; it waits: {where}"
        )
    else:
        points.problems.append(
            f"the function does not end: after {MOST_SECONDS:,.0f} virtual seconds it waits: {where}"
        )
    points.note("mark", "its shields are taken away", None)
    for task in waiting:
        for scope in list(shields_of(task, points.target.first)):
            scope.shield = False
    points.target.first.cancel(reason="it does not end")
    await trio.sleep(options.limit)
    points.stop()


# ---- where the function comes from -----------------------------------------------------------------------------------


@contextmanager
def _case(source: FunctionSource, run: FunctionRun) -> Generator[AsyncFunction]:
    """Make the function; an assertion that fails afterwards is a problem of the run."""
    if is_async(source):
        yield source  # type: ignore[misc]  # checked
        return
    case = source()
    if is_async(case):
        yield case  # type: ignore[misc]  # checked
    elif isinstance(case, AbstractContextManager):
        function: AsyncFunction = case.__enter__()  # pyright: ignore[reportUnknownVariableType]  # isinstance forgets
        try:
            yield function
        except BaseException as error:  # noqa: ASYNC103
            if not case.__exit__(type(error), error, error.__traceback__):
                raise
        else:
            try:
                case.__exit__(None, None, None)
            except Exception as error:  # noqa: BLE001  # a check of the function's author, whatever it raises
                run.problems.append(f"after the run, the check raised {described(error)}")
    else:
        if inspect.iscoroutine(case):
            case.close()
        raise TypeError(
            f"{source!r} is neither an async function, nor does it return one or a context manager of one; "
            f"it returned {case!r}. With arguments, write functools.partial(function, argument)"
        )


def is_async(thing: object) -> bool:
    """Tell whether calling *thing* gives something to await."""
    function = without_partial(thing)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def _name_of(function: object) -> str:
    function = without_partial(function)
    return str(getattr(function, "__name__", type(function).__name__))
