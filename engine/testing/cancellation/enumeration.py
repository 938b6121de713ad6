"""`cancel_everywhere`: run something once to count its points, and once more for each point with a cancel there.

    cancel_everywhere(fetch_both)

raises `PromiseBroken` for the first cancel that breaks something, with a report; `NotRepeatable` if two runs without a
cancel differ, because then no run would prove anything.
"""

from __future__ import annotations

import gc
import random
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol, runtime_checkable

import attrs

from engine.testing.cancellation.failure_report import CancelFailure
from engine.testing.cancellation.injections import Injection
from engine.testing.cancellation.points import PointCounter

# For runs that differ: so many runs show the places, and so many are made to come to one of them.
RUNS_FOR_PLACES = 3
ATTEMPTS = 4


class PromiseBroken(AssertionError):
    """A run broke a promise.

    Attributes:
        failure: the report as a value, if a function was cancelled.
    """

    failure: CancelFailure | None = None


class NotRepeatable(AssertionError):
    """Two runs that should be the same differ, so a cancel can't be put at each point of them."""


class TooManyPoints(ValueError):
    """A run has more points than are allowed."""


class NoSuchPoint(ValueError):
    """The only point to cancel at is none of the run's."""


# Tracebacks name what users import.
PromiseBroken.__module__ = NotRepeatable.__module__ = "engine.testing"


@attrs.frozen(kw_only=True)
class Report:
    """The number of points and runs.

    Attributes:
        points: the points of the run without a cancel.
        runs: the runs with a cancel.
        left_out: the ways that could not be used here, each with the reason.
        missed: with `repeatable=False`, the cancels that were not made, because no run came to their place again.
    """

    points: int
    runs: int
    left_out: tuple[str, ...] = ()
    missed: int = 0


class Played(Protocol):
    """A run: its points, and what was wrong with it."""

    @property
    def points(self) -> PointCounter:
        """The points."""
        ...

    @property
    def problems(self) -> list[str]:
        """What was wrong."""
        ...


@runtime_checkable
class Playable(Protocol):
    """What can be cancelled everywhere and knows itself how: a scenario of a turn, for instance."""

    @property
    def cancel_ways(self) -> Mapping[str, bool]:
        """The ways to cancel it, each with whether it has a second part."""
        ...

    def play_once(self, injection: Injection | None, seed: int) -> Played:
        """Play it once, in a new run."""
        ...


@attrs.frozen(kw_only=True)
class CancelPlan:
    """Which cancels to try.

    Attributes:
        ways: how to cancel, each with whether it has a second part.
        seeds: the seeds of the schedules.
        every: take only every n-th point.
        gaps: for the ways with a second part, the number of points between the two.
        only: try only this one.
        by_place: points are places, for runs that differ.
    """

    ways: Mapping[str, bool]
    seeds: Sequence[int] = (0,)
    every: int = 1
    gaps: Sequence[int] = (1, 7)
    only: Injection | None = None
    by_place: bool = False

    def __attrs_post_init__(self) -> None:
        """Raise ValueError for numbers that make no sense."""
        if self.every < 1 or min(self.gaps, default=1) < 1:
            raise ValueError("every and seconds are numbers of points, at least 1")

    def injections(self, points: int) -> Iterator[Injection]:
        """Yield the cancels for a run with so many points."""
        if self.only is not None:
            yield self.only
            return
        for way, has_second in self.ways.items():
            # The distance matters only if there is a second part.
            for gap in self.gaps if has_second else (1,):
                for point in range(0, points, self.every):
                    yield Injection(way=way, point=point, second=gap)

    def injections_at(self, places: Sequence[str]) -> Iterator[Injection]:
        """Yield the cancels for runs that come to these places. Raises NoSuchPoint for the number of a point."""
        if self.only is not None and not self.only.place:
            raise NoSuchPoint(
                f"{self.only} is the number of a point, and these runs differ: name a place, as a report does"
            )
        for one in self.injections(len(places)):
            yield one if one.place else attrs.evolve(one, place=places[one.point])


@attrs.frozen(kw_only=True)
class Broken:
    """A run that went wrong, as the enumeration found it."""

    run: Played
    base: Played
    injection: Injection | None
    seed: int


def enumerate_cancels(
    play: Callable[[Injection | None, int], Played], plan: CancelPlan, on_broken: Callable[[Broken], None]
) -> Report:
    """Play once for each cancel of *plan*, and call *on_broken* for a run with problems; it raises."""
    __tracebackhide__ = True
    points = runs = 0
    for seed in plan.seeds:
        base = play(None, seed)
        points = max(points, len(base.points.names))
        if base.problems:
            on_broken(Broken(run=base, base=base, injection=None, seed=seed))
        names = base.points.names
        for injection in plan.injections(len(names)):
            run = play(injection, seed)
            runs += 1
            # Otherwise the runs are not deterministic, and points would be missed.
            if run.points.names[: injection.point] != names[: injection.point]:
                run.problems.append("before the cancel, the run differed from the run without a cancel")
            if run.problems:
                on_broken(Broken(run=run, base=base, injection=injection, seed=seed))
    return Report(points=points, runs=runs)


def enumerate_places(
    play: Callable[[Injection | None, int], Played], plan: CancelPlan, on_broken: Callable[[Broken], None]
) -> Report:
    """As `enumerate_cancels`, for runs that differ: cancel at each place, in a run that comes to it.

    A run that does not come to the place is made again, a few times.
    """
    __tracebackhide__ = True
    runs = missed = 0
    all_places = set[str]()
    for seed in plan.seeds:
        places: dict[str, None] = {}
        for _ in range(RUNS_FOR_PLACES):
            base = play(None, seed)
            places.update(dict.fromkeys(base.points.names))
            if base.problems:
                on_broken(Broken(run=base, base=base, injection=None, seed=seed))
        all_places.update(places)
        for injection in plan.injections_at(list(places)):
            for _ in range(ATTEMPTS):
                run = play(injection, seed)
                runs += 1
                if run.problems:
                    on_broken(Broken(run=run, base=run, injection=injection if run.points.fired else None, seed=seed))
                if run.points.fired:
                    break
            else:
                missed += 1
    return Report(points=len(all_places), runs=runs, missed=missed)


def raise_broken(broken: Broken) -> None:
    """Raise `PromiseBroken` with the way, the point and the problems."""
    __tracebackhide__ = True
    where = "without a cancel"
    injection = broken.injection
    if injection is not None:
        names = broken.run.points.names
        name = names[injection.point] if injection.point < len(names) else "never reached"
        where = f"with {injection.way} at point {injection.point} ({name}), second part {injection.second} later"
    message = "\n  ".join(broken.run.problems)
    raise PromiseBroken(f"{where}, seed {broken.seed}:\n  {message}")


def seeds_from(first: int, number: int) -> range:
    """Return the seeds of so many schedules. Raises ValueError if there are none."""
    if number < 1:
        raise ValueError("schedules is at least 1")
    return range(first, first + number)


def selected_ways(ways: Iterable[str], existing: Iterable[str]) -> tuple[str, ...]:
    """Return *ways*, of which there may be a single one. Raises ValueError for one that does not exist."""
    selected, existing = (ways,) if isinstance(ways, str) else tuple(ways), tuple(existing)
    for way in selected:
        if way not in existing:
            raise ValueError(f"{way!r} is no way to cancel; there are {', '.join(existing)}")
    return selected


def play_everywhere(
    scenario: Playable,
    *,
    ways: Iterable[str] | None,
    seed: int,
    every: int,
    gaps: Iterable[int],
    only: Injection | None,
) -> Report:
    """Cancel *scenario*, which knows how to play itself, at each of its points."""
    __tracebackhide__ = True
    existing = scenario.cancel_ways
    selected = selected_ways((existing if ways is None else ways) if only is None else only.way, existing)
    plan = CancelPlan(
        ways={way: existing[way] for way in selected}, seeds=(seed,), every=every, gaps=tuple(gaps), only=only
    )
    return enumerate_cancels(scenario.play_once, plan, raise_broken)


@contextmanager
def repeatable_process() -> Generator[None]:
    """Let Python collect cycles only when a run has ended, and only what the runs have made: it is quick then.

    Each run seeds `random`, whose state is restored at the end.
    """
    was_enabled = gc.isenabled()
    state = random.getstate()
    # What the host has frozen stays so: it may be the whole of a large test run.
    is_frozen = gc.get_freeze_count() > 0
    if is_frozen:
        gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        if not is_frozen:
            gc.unfreeze()
        random.setstate(state)
        if was_enabled:
            gc.enable()
