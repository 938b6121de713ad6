"""A Hypothesis machine for Trio objects: its rules start tasks, and when a task is cancelled is drawn as data.

    class PoolMachine(TrioMachine):
        @rule(cancel=cancel_points())
        def acquire(self, cancel):
            self.start(self.pool.acquire, cancel_after=cancel)

    TestPool = PoolMachine.TestCase

The machine runs Trio in a thread, on a clock that passes only when a rule lets it. Between two rules every task is
blocked, so a rule, its cancels included, has the same effect whenever it is repeated, and Hypothesis can shrink.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TypeVar, TypeVarTuple, final

import attrs
import trio
import trio.testing
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from engine.testing.cancellation.complaints import Complaints
from engine.testing.cancellation.error_text import described, leaves
from engine.testing.cancellation.source_places import waiting_place
from engine.testing.cancellation.trio_internals import check_trio, is_cancelled_by, seed_scheduler, shields_of

T = TypeVar("T")
Args = TypeVarTuple("Args")
# A broken program may never become idle; in real seconds.
MOST_REAL_SECONDS = 20.0


def cancel_points(most: int = 12) -> st.SearchStrategy[int | None]:
    """Draw after how many of its points a task is cancelled; None: never. It shrinks to None."""
    return st.none() | st.integers(0, most)


@final
@attrs.define(eq=False)
class RunningTask:
    """A task that a rule has started.

    Attributes:
        name: the name of its function.
        is_done: it has ended.
        was_cancelled: it has ended because it was cancelled.
        result: what it returned; None until then.
        error: the exception that it raised, other than `Cancelled`.
    """

    name: str
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    is_done: bool = False
    was_cancelled: bool = False
    result: object = None
    error: BaseException | None = None
    _task: trio.lowlevel.Task | None = attrs.field(default=None, init=False)

    def cancel(self) -> None:
        """Cancel it; it ends when Trio runs next."""
        self.scope.cancel(reason="cancelled by a rule")

    @property
    def place(self) -> str:
        """Where it waits."""
        return "nowhere" if self._task is None or self.is_done else str(waiting_place(self._task))

    def ignores_cancel(self) -> bool:
        """Tell whether it was cancelled, and waits all the same; what waits for its own tasks does not."""
        task = self._task
        return task is not None and is_cancelled_by(task, (self.scope,)) and not task.child_nurseries

    def unshield(self) -> None:
        """Take its shields away, and those of its tasks: what is shielded for ever would keep the machine's thread."""
        waiting = [] if self._task is None else [self._task]
        while waiting:
            task = waiting.pop()
            for scope in list(shields_of(task, self.scope)):
                scope.shield = False
            waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]

    async def run(self, function: Callable[[], Awaitable[object]]) -> None:
        """Run *function*, and note how it ends. What it raises is the machine's business, not the nursery's."""
        self._task = trio.lowlevel.current_task()
        try:
            with self.scope:
                self.result = await function()
        except BaseException as error:  # kept for the machine  # noqa: ASYNC103, BLE001
            self._keep(error)
        finally:
            self.was_cancelled = self.scope.cancelled_caught
            self.is_done = True
            self._task = None

    def _keep(self, error: BaseException) -> None:
        # The machine itself is being closed.
        if all(isinstance(one, trio.Cancelled) for one in leaves(error)):
            raise error
        self.error = error


@attrs.define(eq=False)
class _Strikes(trio.abc.Instrument):
    """Cancels tasks after so many of their points, those of the tasks that they start included."""

    running: dict[trio.lowlevel.Task, list[_Strike]] = attrs.field(factory=dict["trio.lowlevel.Task", "list[_Strike]"])
    _now: list[_Strike] | None = None

    @contextmanager
    def counted(self, strikes: list[_Strike]) -> Generator[None]:
        """Count the points of the tasks that are started inside."""
        self._now = strikes
        try:
            yield
        finally:
            self._now = None

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        """A task that a counted task starts counts as well."""
        if self._now:
            self.running[task] = self._now

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task is about to run."""
        self._now = self.running.get(task)
        self._count()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task has run to its next checkpoint."""
        self._count()
        self._now = None

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        """A task has ended."""
        self.running.pop(task, None)

    def _count(self) -> None:
        for strike in self._now or ():
            strike.left -= 1
            if strike.left == -1:
                strike.scope.cancel(reason="the drawn point was reached")


@attrs.define(eq=False)
class _Strike:
    scope: trio.CancelScope
    left: int


class TrioMachine(RuleBasedStateMachine):
    """A rule-based state machine whose rules start, cancel and wait for tasks.

    Subclasses make their object in `set_up`, add rules that call `start`, and check what must always hold in an
    `@invariant`. Three rules are there already: a task is cancelled, time passes, Trio runs.

    Attributes:
        tasks: the tasks that rules have started, oldest first.
        raises: exceptions that tasks may raise; others fail the machine.
        settle_limit: when a machine ends, all tasks are cancelled, and may take so much virtual time to end.
    """

    raises: tuple[type[BaseException], ...] = ()
    settle_limit: float = 10.0

    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[RunningTask] = []
        self._strikes = _Strikes()
        check_trio()
        self._clock = trio.testing.MockClock()
        self._complaints = Complaints()
        self._ready = threading.Event()
        self._token: trio.lowlevel.TrioToken | None = None
        self._nursery: trio.Nursery | None = None
        self._stop: trio.Event | None = None
        self._crash: BaseException | None = None
        self._collected = self._complaints.collected()
        self._collected.__enter__()
        self._thread = threading.Thread(target=self._run_trio, name="trio machine", daemon=True)
        self._thread.start()
        if not self._ready.wait(MOST_REAL_SECONDS):
            raise RuntimeError("Trio did not start")
        self.run(self.set_up)

    # ---- for subclasses ----------------------------------------------------------------------------------------------

    async def set_up(self) -> None:
        """Make the object under test; runs in Trio. A checkpoint."""
        await trio.lowlevel.checkpoint()

    async def tear_down(self) -> None:
        """Close the object under test, and check it; runs in Trio when all tasks have ended. A checkpoint."""
        await trio.lowlevel.checkpoint()

    def start(
        self, function: Callable[[*Args], Awaitable[object]], *arguments: *Args, cancel_after: int | None = None
    ) -> RunningTask:
        """Start a task, let Trio run until every task waits, and return the task.

        Args:
            function: the async function.
            *arguments: its arguments.
            cancel_after: cancel the task after so many points; None: don't.
        """
        body = partial(function, *arguments)
        name = str(getattr(function, "__name__", type(function).__name__))
        running = RunningTask(name)
        self.tasks.append(running)

        async def begin() -> None:
            assert self._nursery is not None
            strikes = [] if cancel_after is None else [_Strike(running.scope, cancel_after)]
            with self._strikes.counted(strikes):
                self._nursery.start_soon(running.run, body, name=name)
            await trio.lowlevel.checkpoint()

        self.run(begin)
        return running

    def run(self, function: Callable[[*Args], Awaitable[T]], *arguments: *Args) -> T:
        """Run an async function in Trio to its end, let Trio run until every task waits, and return the result."""
        __tracebackhide__ = True

        async def body() -> T:
            __tracebackhide__ = True
            result = await function(*arguments)
            await trio.testing.wait_all_tasks_blocked()
            return result

        assert self._token is not None
        return trio.from_thread.run(body, trio_token=self._token)

    def settle(self) -> None:
        """Let Trio run until every task waits."""
        self.run(trio.lowlevel.checkpoint)

    def wait(self, task: RunningTask, seconds: float = 0.0) -> bool:
        """Let up to *seconds* pass, and return whether the task has ended."""
        if not task.is_done and seconds:
            self.pass_time(seconds)
        self.settle()
        return task.is_done

    def pass_time(self, seconds: float) -> None:
        """Let virtual time pass, deadline by deadline."""
        self.run(self._pass_time, seconds)

    def alive(self) -> list[RunningTask]:
        """Return the tasks that have not ended."""
        return [task for task in self.tasks if not task.is_done]

    # ---- rules -------------------------------------------------------------------------------------------------------

    @precondition(lambda self: bool(self.alive()))
    @rule(number=st.integers(0, 20))
    def cancel_a_task(self, number: int) -> None:
        """Cancel one of the tasks."""
        alive = self.alive()
        task = alive[number % len(alive)]
        self.run(self._cancel, task)

    @rule(seconds=st.sampled_from([0.1, 1.0, 10.0]))
    def time_passes(self, seconds: float) -> None:
        """Let time pass."""
        self.pass_time(seconds)

    @invariant()
    def tasks_raise_only_what_they_may(self) -> None:
        """Check what the tasks raised."""
        for task in self.tasks:
            error, task.error = task.error, None
            if error is not None:
                unexpected = [one for one in leaves(error) if not isinstance(one, (*self.raises, trio.Cancelled))]
                if unexpected:
                    raise AssertionError(f"the task {task.name} raised {described(unexpected[0])}") from unexpected[0]

    @invariant()
    def cancelled_tasks_have_ended(self) -> None:
        """Check that no cancelled task is at a checkpoint that could have been cancelled."""
        for task in self.alive():
            if task.ignores_cancel():
                raise AssertionError(f"the task {task.name} was cancelled and waits, at {task.place}")

    # ---- the end -----------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        """Cancel all tasks, check that they end, and close everything. Hypothesis calls it."""
        __tracebackhide__ = True
        try:
            if self._thread.is_alive():
                self._end()
        finally:
            self._collected.__exit__(None, None, None)
        if self._crash is not None:
            raise AssertionError(f"the run of Trio failed: {described(self._crash)}") from self._crash
        complained = self._complaints.take()
        if complained:
            raise AssertionError("; ".join(complained))

    def _end(self) -> None:
        __tracebackhide__ = True
        cancelled = _places(self.alive())
        try:
            self._end_tasks()
            self.run(self.tear_down)
            self.tasks_raise_only_what_they_may()
        except AssertionError as error:
            if cancelled:
                error.add_note(f"At the end of the machine these tasks were cancelled: {cancelled}")
            raise
        finally:
            self._token_call(self._release)
            self._thread.join(MOST_REAL_SECONDS)
            if self._thread.is_alive():
                raise RuntimeError("a task does not end: the thread of this machine is left")

    def _end_tasks(self) -> None:
        __tracebackhide__ = True
        for task in self.alive():
            self.run(self._cancel, task)
        if self.alive():
            self.pass_time(self.settle_limit)
        if left := _places(self.alive()):
            raise AssertionError(f"cancelled tasks have not ended after {self.settle_limit:g} seconds: {left}")

    # ---- inside of Trio ----------------------------------------------------------------------------------------------

    def _run_trio(self) -> None:
        seed_scheduler(0)
        try:
            trio.run(self._main, clock=self._clock, instruments=[self._strikes], strict_exception_groups=True)
        except BaseException as error:  # raised by `teardown`, in the thread that asks  # noqa: ASYNC103, BLE001
            self._crash = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._stop = trio.Event()
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self._ready.set()
            await self._stop.wait()
            nursery.cancel_scope.cancel(reason="the machine has ended")

    def _token_call(self, function: Callable[[], None]) -> None:
        assert self._token is not None
        self._token.run_sync_soon(function)

    def _release(self) -> None:
        assert self._stop is not None
        for task in self.alive():
            task.cancel()
            task.unshield()
        self._stop.set()

    async def _cancel(self, task: RunningTask) -> None:
        task.cancel()
        await trio.lowlevel.checkpoint()

    async def _pass_time(self, seconds: float) -> None:
        until = trio.current_time() + seconds
        while (left := until - trio.current_time()) > 0:
            await trio.testing.wait_all_tasks_blocked()
            deadline = trio.lowlevel.current_statistics().seconds_to_next_deadline
            self._clock.jump(max(0.0, min(left, deadline)))
            await trio.testing.wait_all_tasks_blocked()


def _places(tasks: Sequence[RunningTask]) -> str:
    """Return where these tasks wait, as words."""
    return "; ".join(f"{task.name} at {task.place}" for task in tasks)
