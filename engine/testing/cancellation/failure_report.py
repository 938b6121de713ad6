"""A broken promise of a function, as a text that is understood without knowing the kit."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

import attrs

from engine.testing.cancellation.cancel_target import DESCRIPTIONS
from engine.testing.cancellation.injections import PARTS, Injection
from engine.testing.cancellation.source_places import Place
from engine.testing.cancellation.timeline import Timeline
from engine.testing.cancellation.timeline_svg import draw

MOST_LISTED = 12


@attrs.frozen(kw_only=True)
class CancelFailure:
    """A run that broke a promise.

    Attributes:
        name: the function's name.
        location: the file and line of the function.
        injection: the smallest cancel that shows it; None: it shows without one.
        seed: the seed of the schedule.
        total: the number of points of the run without a cancel.
        point_name: what happens at the point of the cancel.
        arrivals: the tasks and the lines at which the cancel arrived, in this order.
        problems: what was wrong.
        timeline: what the tasks did.
        traceback: of the exception that the function raised without a cancel.
        also_at: all points at which the same way shows a problem.
        again: what repeats exactly this run.
        svg_path: where the drawing is; None: it was not asked for.
    """

    name: str
    location: str
    injection: Injection | None
    seed: int
    total: int
    point_name: str
    arrivals: tuple[tuple[str, Place], ...]
    problems: tuple[str, ...]
    timeline: Timeline
    traceback: str = ""
    also_at: tuple[int, ...] = ()
    again: str = ""
    svg_path: Path | None = None

    @property
    def struck(self) -> tuple[str, Place] | None:
        """The task and the line at which the cancel arrived first; None: nowhere."""
        return self.arrivals[0] if self.arrivals else None

    def svg(self) -> str:
        """Return a drawing of the tasks, as an SVG file."""
        return draw(self.timeline, title=f"{self.name}, {self.summary}")

    @property
    def summary(self) -> str:
        """How it was cancelled, in a few words."""
        return "not cancelled" if self.injection is None else f"cancelled: {self.injection}"

    def __str__(self) -> str:
        """Return the whole report."""
        lines = [
            f"{self.name} is not safe to cancel" if self.injection else f"{self.name} fails without any cancel",
            "",
        ]
        for title, texts in self._facts():
            lines += _entry(title, texts)
        marks = " (>> marks the cancel, and where it arrived)" if self.injection else ""
        lines += ["", f"  What the tasks did{marks}:", ""]
        lines += [f"    {line}" for line in self.timeline.lines()]
        if self.traceback:
            lines += ["", "  What it raised:", "", *(f"    {line}".rstrip() for line in self.traceback.splitlines())]
        if self.svg_path is not None:
            lines += ["", f"  The same as a drawing: {self.svg_path}"]
        is_exact = self.injection is None or not self.injection.place
        repeat = (
            "To repeat exactly this run:"
            if is_exact
            else "To cancel at the same place again, in a run that may differ:"
        )
        lines += ["", f"  {repeat}", "", f"    {self.again}"]
        return "\n".join(lines)

    def _when(self) -> str:
        assert self.injection is not None
        step = _step(self.point_name)
        if self.injection.place:
            return f"{step}, seed {self.seed}"
        return f"at point {self.injection.point} of {self.total} ({step}), seed {self.seed}"

    def _facts(self) -> list[tuple[str, Sequence[str]]]:
        facts: list[tuple[str, Sequence[str]]] = [("function", [f"{self.name}, {self.location}"])]
        if self.injection is not None:
            facts.append(("cancelled", [_how(self.injection)]))
            facts.append(("when", [self._when()]))
            facts.append(("arrived", _arrived(self.arrivals)))
        # The traceback has the rest of a message.
        problems = [text.partition("\n")[0] for text in self.problems] if self.traceback else self.problems
        facts.append(("broken", [f"{number}. {text}" for number, text in enumerate(problems, 1)]))
        if len(self.also_at) > 1:
            facts.append(("shown", [_points(self.also_at, self.total)]))
        return facts


def _entry(title: str, texts: Sequence[str]) -> list[str]:
    lines: list[str] = []
    for number, text in enumerate(texts):
        head = f"  {title if not number else '':<10} "
        first, *more = text.splitlines()
        lines += textwrap.wrap(
            first, 112, initial_indent=head, subsequent_indent=" " * 13, break_long_words=False, break_on_hyphens=False
        ) or [head]
        # A message of several lines is a table or a comparison: it keeps its form.
        lines += [f"{' ' * 13}{line}".rstrip() for line in more]
    return lines


def _step(point: str) -> str:
    """Return in words what happens at a point: `after a step of serve`; one that the program marks has a name of its own."""
    when, _, task = point.partition(" ")
    return f"{when} a step of {task}" if when in {"before", "after"} and task else point


def _arrived(arrivals: Sequence[tuple[str, Place]]) -> list[str]:
    if not arrivals:
        return ["nowhere: the function ended before its next checkpoint, or was shielded"]
    more = len(arrivals) - MOST_LISTED
    listed = [f"in the task {task}, at {place}" for task, place in arrivals[:MOST_LISTED]]
    return [*listed, f"and at {more} more places"] if more > 0 else listed


def _how(injection: Injection) -> str:
    first, second = PARTS[injection.way]
    text = f"by {DESCRIPTIONS[first]}"
    if second is not None:
        points = "point" if injection.second == 1 else "points"
        text += f", and {injection.second} {points} later by {DESCRIPTIONS[second]}"
    return text


def _points(points: Sequence[int], total: int) -> str:
    listed = ", ".join(map(str, points[:MOST_LISTED])) + (", ..." if len(points) > MOST_LISTED else "")
    return f"at {len(points)} of {total} points: {listed}"
