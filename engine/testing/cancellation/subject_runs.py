"""A subject that is run again and again with cancels, and what becomes of a run that breaks a promise."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import attrs

from engine.testing.cancellation.complaints import Complaints
from engine.testing.cancellation.enumeration import (
    ATTEMPTS,
    Broken,
    CancelPlan,
    NoSuchPoint,
    NotRepeatable,
    PromiseBroken,
    Report,
    TooManyPoints,
    enumerate_cancels,
    enumerate_places,
    repeatable_process,
)
from engine.testing.cancellation.failure_report import CancelFailure
from engine.testing.cancellation.function_run import FunctionRun
from engine.testing.cancellation.injections import PARTS, Injection
from engine.testing.cancellation.timeline import Timeline
from engine.testing.cancellation.trio_internals import check_trio

# For a report: so many more runs, and real seconds, show at which other points the same way breaks something.
MOST_MORE_RUNS = 300
MOST_MORE_SECONDS = 5.0


class RunSubject(ABC):
    """Something that can be run again and again, as `run_everywhere` needs it."""

    name: str = ""
    location: str = ""
    svg: Path | None = None

    @abstractmethod
    def play(
        self, injection: Injection | None, seed: int, complaints: Complaints, *, is_detailed: bool = False
    ) -> FunctionRun:
        """Run it once."""

    @abstractmethod
    def again(self, injection: Injection | None, seed: int) -> str:
        """Return the line that repeats exactly one run."""


def run_everywhere(subject: RunSubject, plan: CancelPlan) -> Report:
    """Run *subject* without a cancel, and then with each cancel of *plan*. Raises at the first broken promise."""
    __tracebackhide__ = True
    check_trio()
    complaints = Complaints()

    def play(injection: Injection | None, seed: int) -> FunctionRun:
        __tracebackhide__ = True
        run = subject.play(injection, seed, complaints)
        if len(run.points.names) > run.points.most_points and not run.points.fired:
            raise TooManyPoints(
                f"a run of {subject.name} has more than {run.points.most_points:,} points; "
                "make it shorter, or allow more with most_points"
            )
        if injection is None and not plan.by_place:
            # The first run also does what only a first run does: imports, caches. What it leaves is not counted.
            first, run = run, subject.play(None, seed, complaints)
            check_same(subject, first, run)
            _check_only(subject, plan, points=len(run.points.names))
        return run

    def on_broken(broken: Broken) -> NoReturn:
        __tracebackhide__ = True
        assert isinstance(broken.run, FunctionRun)
        assert isinstance(broken.base, FunctionRun)
        raise_failure(subject, plan, broken, complaints)

    with complaints.collected(), repeatable_process():
        if not plan.by_place:
            return enumerate_cancels(play, plan, on_broken)
        # What only a first run does, such as imports, is not counted.
        subject.play(None, plan.seeds[0], complaints)
        report = enumerate_places(play, plan, on_broken)
        _check_reached(subject, report)
        return report


def check_same(subject: RunSubject, first: FunctionRun, second: FunctionRun) -> None:
    """Raise NotRepeatable if two runs without a cancel differ."""
    __tracebackhide__ = True
    one, other = first.points.names, second.points.names
    if one == other:
        return
    at = next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    raise NotRepeatable(_difference(subject, at, one, other))


def _check_same_before(subject: RunSubject, broken: Broken) -> None:
    """Raise NotRepeatable if the run differs from the one without a cancel before its cancel."""
    __tracebackhide__ = True
    names, run_names = broken.base.points.names, broken.run.points.names
    until = 0 if broken.injection is None else broken.injection.point
    if run_names[:until] != names[:until]:
        at = next((n for n, (a, b) in enumerate(zip(names, run_names, strict=False)) if a != b), len(run_names))
        raise NotRepeatable(_difference(subject, at, names, run_names))


def _check_only(subject: RunSubject, plan: CancelPlan, *, points: int) -> None:
    """Raise NoSuchPoint if the only cancel can't be made."""
    __tracebackhide__ = True
    if plan.only is not None and plan.only.point >= points:
        there_are = f"its points are 0 to {points - 1}" if points else "it has no point"
        raise NoSuchPoint(f"{subject.name} has no point {plan.only.point}: {there_are}")


def _difference(subject: RunSubject, at: int, one: list[str], other: list[str]) -> str:
    def named(names: list[str]) -> str:
        return f"{names[at]!r}" if at < len(names) else f"the end, after {len(names)} points"

    return (
        f"{subject.name} ({subject.location}) can't be cancelled everywhere: its runs differ.\n"
        f"  At point {at}, one run has {named(one)}, another has {named(other)}.\n"
        "  A cancel can be put at each point only if every run takes the same steps. Make the function independent of "
        "real time,\n  threads, processes, other programs on the network, and of the order of sets; or put a fake in "
        "their place.\n  What survives a run, such as module globals and caches, has to be made new for each run.\n"
        "  If that can't be done, repeatable=False cancels at lines of the program instead, and says how many were missed."
    )


def _check_reached(subject: RunSubject, report: Report) -> None:
    """Raise NotRepeatable if no run came again to any place."""
    __tracebackhide__ = True
    if report.points and report.runs == report.missed * ATTEMPTS:
        raise NotRepeatable(
            f"{subject.name} ({subject.location}) was not cancelled at all: no run came to the place of a cancel, "
            f"in {report.runs} runs. They differ too much, or the place is wrong."
        )


def _point_name(injection: Injection | None, names: list[str]) -> str:
    if injection is None:
        return ""
    return injection.place or (names[injection.point] if injection.point < len(names) else "")


# ---- from a broken run to a report -----------------------------------------------------------------------------------


def raise_failure(subject: RunSubject, plan: CancelPlan, broken: Broken, complaints: Complaints) -> NoReturn:
    """Find the smallest cancel that shows a problem, run it once more in detail, and raise the report."""
    __tracebackhide__ = True
    names = broken.base.points.names
    if not plan.by_place:
        _check_same_before(subject, broken)
    injection, seed, run = _smallest(subject, plan, broken, complaints)
    detailed = _in_detail(subject, plan, injection, seed, complaints)
    problems = detailed.problems or [
        *run.problems,
        "(it did not show again when the run was repeated: something differs from run to run)",
    ]
    failure = CancelFailure(
        name=subject.name,
        location=subject.location,
        injection=injection,
        seed=seed,
        total=len(names),
        point_name=_point_name(injection, names),
        arrivals=tuple(detailed.points.arrivals),
        problems=tuple(problems),
        timeline=detailed.points.timeline or Timeline(),
        traceback=detailed.traceback if injection is None else "",
        also_at=()
        if injection is None or plan.only is not None or plan.by_place
        else _also_at(subject, injection, seed, complaints, points=len(names)),
        again=subject.again(injection, seed),
        svg_path=subject.svg,
    )
    if subject.svg is not None:
        subject.svg.write_text(failure.svg(), encoding="utf-8")
    error = PromiseBroken(str(failure))
    error.failure = failure
    raise error


def _in_detail(
    subject: RunSubject, plan: CancelPlan, injection: Injection | None, seed: int, complaints: Complaints
) -> FunctionRun:
    """Repeat the run with a timeline; if runs differ, until it shows a problem again, a few times."""
    run = subject.play(injection, seed, complaints, is_detailed=True)
    attempts = ATTEMPTS if plan.by_place else 1
    while not run.problems and (attempts := attempts - 1):
        run = subject.play(injection, seed, complaints, is_detailed=True)
    return run


def _smallest(
    subject: RunSubject, plan: CancelPlan, broken: Broken, complaints: Complaints
) -> tuple[Injection | None, int, FunctionRun]:
    """Return the first cancel that shows a problem, among those that are smaller than the one found, or that one."""
    assert isinstance(broken.run, FunctionRun)
    injection, seed = broken.injection, broken.seed
    if injection is None or plan.only is not None or plan.by_place:
        return injection, seed, broken.run
    first_seed = plan.seeds[0]
    smaller = list(_smaller(injection, plan.every, len(broken.base.points.names)))
    candidates = [(one, selected) for selected in dict.fromkeys((first_seed, seed)) for one in (*smaller, injection)]
    for one, selected in candidates[:MOST_MORE_RUNS]:
        run = subject.play(one, selected, complaints)
        if run.problems and run.points.fired:
            return one, selected, run
    return injection, seed, broken.run


def _smaller(injection: Injection, every: int, points: int) -> Iterable[Injection]:
    first, second = PARTS[injection.way]
    if second is not None:
        yield Injection(way=first, point=injection.point)
        if injection.point + injection.second < points:
            yield Injection(way=second, point=injection.point + injection.second)
    for point in range(max(0, injection.point - every + 1), injection.point):
        yield attrs.evolve(injection, point=point)


def _also_at(
    subject: RunSubject, injection: Injection, seed: int, complaints: Complaints, *, points: int
) -> tuple[int, ...]:
    """Return the points at which the same way shows a problem."""
    until = time.monotonic() + MOST_MORE_SECONDS
    step = max(1, -(-points // MOST_MORE_RUNS))
    points_found = [injection.point]
    for point in range(0, points, step):
        if time.monotonic() > until:
            break
        if point != injection.point and subject.play(attrs.evolve(injection, point=point), seed, complaints).problems:
            points_found.append(point)
    return tuple(sorted(points_found))
