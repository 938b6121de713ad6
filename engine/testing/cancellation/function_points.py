"""The instrument of a run of a function: it knows the function's tasks, strikes, and sees where a cancel arrives."""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import trio

from engine.testing.cancellation.cancel_target import DESCRIPTIONS, CancelTarget
from engine.testing.cancellation.error_text import is_group
from engine.testing.cancellation.generator_watch import GeneratorWatch
from engine.testing.cancellation.injections import PARTS
from engine.testing.cancellation.points import PointCounter
from engine.testing.cancellation.source_places import Place, Visits, waiting_place
from engine.testing.cancellation.thread_watch import ThreadWatch
from engine.testing.cancellation.timeline import Kind, Moment, Timeline
from engine.testing.cancellation.trio_internals import is_cancelled_by, next_error, stop_run
from engine.testing.cancellation.virtual_clock import VirtualClock

# A task that swallows so many cancels does nothing else any more.
MOST_SWALLOWED = 5
_TAG = "_struck_by_cancel_everywhere"


@attrs.define(eq=False)
class OwnTask:
    """A task of the function: its label, the names of its points, and where a cancel has struck it."""

    label: str
    struck_at: Place | None = None
    struck_by: str = ""
    swallowed: int = 0
    before: str = attrs.field(init=False)
    after: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make the names once: there are two points in each step."""
        self.before, self.after = f"before {self.label}", f"after {self.label}"


@attrs.define(eq=False, kw_only=True)
class FunctionPoints(PointCounter):
    """Counts the points of a function's tasks, and strikes at one.

    Attributes:
        clock: is given the number of steps.
        timeline: records what happens, if there is one; in the run that is reported only.
        most_points: a run with more points is stopped.
        target: what surrounds the function, and can cancel it.
        own: the function's tasks.
        arrivals: the tasks and the lines at which the cancel arrived, in this order.
        problems: what was found while the function ran.
        is_stopped: the run was stopped.
    """

    clock: VirtualClock | None = None
    timeline: Timeline | None = None
    most_points: int = 1_000_000
    # Names points after the lines at which tasks wait; for runs that differ.
    _visits: Visits | None = attrs.field(default=None, alias="visits")
    target: CancelTarget
    _threads: ThreadWatch = attrs.field(alias="threads")
    own: dict[trio.lowlevel.Task, OwnTask] = attrs.field(factory=dict[trio.lowlevel.Task, OwnTask], init=False)
    arrivals: list[tuple[str, Place]] = attrs.field(factory=list["tuple[str, Place]"], init=False)
    problems: list[str] = attrs.field(factory=list[str], init=False)
    generators: GeneratorWatch = attrs.field(factory=GeneratorWatch, init=False)
    is_stopped: bool = attrs.field(default=False, init=False)
    _running: OwnTask | None = attrs.field(default=None, init=False)
    _delivered: tuple[BaseException, Place] | None = attrs.field(default=None, init=False)
    _labels: dict[str, int] = attrs.field(factory=dict[str, int], init=False)
    _began: float = attrs.field(default=0.0, init=False)

    # ---- the function's tasks ----------------------------------------------------------------------------------------

    @trio.lowlevel.enable_ki_protection
    def arm(self, task: trio.lowlevel.Task, name: str) -> None:
        """Count from here on; *task* runs the function, and its first step is the one that now runs.

        SIGINT must be kept for the function's first checkpoint, and would be raised here.
        """
        self.target.token = trio.lowlevel.current_trio_token()
        self._began = trio.current_time()
        # Trio names threads after it.
        task.name = name
        self._running = self._adopt(task, name)
        self.generators.watch(lambda: self._running is not None)
        self.armed = True
        before = self._running.before
        self.point(self._visits.named(before) if self._visits else before)

    def _adopt(self, task: trio.lowlevel.Task, name: str) -> OwnTask:
        number = self._labels[name] = self._labels.get(name, 0) + 1
        own = self.own[task] = OwnTask(name if number == 1 else f"{name}-{number}")
        return own

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        """A task that one of the function's tasks starts is the function's, wherever it runs."""
        if self.armed and self._running is not None:
            own = self._adopt(task, _short(task.name))
            self.note("start", f"starts {own.label}", self._running)

    def task_exited(self, task: trio.lowlevel.Task) -> None:
        """A task has ended."""
        own = self.own.pop(task, None)
        if own is not None:
            self.note("end", "ends", own)

    # ---- steps -------------------------------------------------------------------------------------------------------

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task is about to run."""
        if self.clock is not None:
            self.clock.steps += 1
        own = self.own.get(task)
        if own is None:
            return
        self._running = own
        self.point(self._visits.named(own.before, task) if self._visits else own.before)
        if self.fired and self.armed:
            self._see_delivery(task, own)

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """A task has run to its next checkpoint."""
        own = self._running
        # A task that has ended is no longer in `own`, and its last point counts like any other.
        if own is None:
            return
        if self._delivered is not None:
            self._judge_delivery(own, *self._delivered)
            self._delivered = None
        if self.timeline is not None and task in self.own:
            self.note("step", f"waits at {waiting_place(task)}", own)
        self.point(self._visits.named(own.after, task) if self._visits else own.after)
        self._running = None
        if len(self.names) > self.most_points and not self.is_stopped:
            if self.fired:
                self.problems.append(_spinning(own.label, waiting_place(task), self.most_points))
            self.stop()

    # ---- strikes -----------------------------------------------------------------------------------------------------

    def strikes_twice(self) -> bool:
        """Tell whether the way of the injection has a second part."""
        return self.injection is not None and PARTS[self.injection.way][1] is not None

    def strike(self, *, first: bool) -> None:
        """Cancel, in the way of the injection."""
        assert self.injection is not None
        means = PARTS[self.injection.way][0 if first else 1]
        assert means is not None
        self.note("cancel", f"cancelled by {DESCRIPTIONS[means]}" + ("" if first else ", the second time"), None)
        self.target.strike(means, first=first)

    # ---- deliveries --------------------------------------------------------------------------------------------------

    def _see_delivery(self, task: trio.lowlevel.Task, own: OwnTask) -> None:
        in_thread = self._threads.take(task)
        if in_thread is not None and own.struck_at is None:
            setattr(in_thread[0], _TAG, True)
            self._note_struck(own, in_thread[1], "Cancelled")
        error = next_error(task)
        if isinstance(error, KeyboardInterrupt):
            self._note_struck(own, waiting_place(task), "KeyboardInterrupt")
            setattr(error, _TAG, True)
        elif isinstance(error, trio.Cancelled) and is_cancelled_by(task, (self.target.first, self.target.second)):
            place = waiting_place(task)
            if own.struck_at is None:
                self._note_struck(own, place, "Cancelled")
                setattr(error, _TAG, True)
            else:
                # Whether the one before was swallowed shows when this one has been raised.
                self._delivered = error, place

    def _judge_delivery(self, own: OwnTask, error: BaseException, place: Place) -> None:
        """A second `Cancelled` is fine while the first is still on its way; otherwise the first was swallowed."""
        assert own.struck_at is not None
        if not any(getattr(one, _TAG, False) for one in _handled_by(error)):
            self._note_swallowed(own, own.struck_at, place)
        setattr(error, _TAG, True)
        own.struck_at, own.struck_by = place, "Cancelled"

    def _note_struck(self, own: OwnTask, place: Place, name: str) -> None:
        own.struck_at, own.struck_by = place, name
        if (own.label, place) not in self.arrivals:
            self.arrivals.append((own.label, place))
        self.note("struck", f"{name} at {place}", own)

    def _note_swallowed(self, own: OwnTask, place: Place, further: Place) -> None:
        own.swallowed += 1
        self.note("swallowed", f"had swallowed {own.struck_by}; cancelled again at {further}", own)
        if own.swallowed == 1:
            self.problems.append(
                f"the task {own.label} swallowed {own.struck_by}, which it got at {place}, and went on to {further}"
            )
        elif own.swallowed == MOST_SWALLOWED:
            # It may do so for ever, and would never let the time pass.
            self.stop()

    def stop(self) -> None:
        """End the run, although its tasks would not."""
        self.is_stopped = True
        stop_run(self.own)

    # ---- the rest ----------------------------------------------------------------------------------------------------

    def note(self, kind: Kind, text: str, own: OwnTask | None, *, before_its_point: bool = False) -> None:
        """Record a moment, if this run is reported: at the last point that was counted, or at the next one."""
        if self.timeline is not None and self.armed:
            moment = Moment(
                point=len(self.names) - (not before_its_point),
                time=trio.current_time() - self._began,
                task=own.label if own is not None else "",
                kind=kind,
                text=text,
            )
            self.timeline.moments.append(moment)

    def point(self, name: str) -> None:
        """Count this point, and strike if it is the selected one."""
        if not name.startswith(("before ", "after ")):
            self.note("mark", f"point {name}", self._running, before_its_point=True)
            if self._visits:
                name = self._visits.named(name)
        super().point(name)


def _spinning(label: str, place: Place, most_points: int) -> str:
    return (
        f"after the cancel the function goes on without an end, past {most_points:,} points; "
        f"its last step was that of {label}, at {place}"
    )


def _short(name: str) -> str:
    """Return the last part of a task's name: `pool.Pool._serve` is `_serve`."""
    name = name.rpartition(".<locals>.")[2]
    return name if name.startswith("<") else name.rpartition(".")[2] or name


def _handled_by(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions that were being handled when *error* was raised, those in groups too."""
    todo = [error.__context__]
    seen = set[int]()
    while todo:
        one = todo.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        todo += [one.__context__, one.__cause__]
        if is_group(one):
            todo += one.exceptions
