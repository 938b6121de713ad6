"""Rows, how they are printed, and how a measurement is taken on a noisy machine."""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable, Iterable, Sequence

import attrs

COLUMNS = ("figure", "measured", "baseline", "ratio", "target", "ok?")


@attrs.frozen(kw_only=True)
class Row:
    """One line of the table.

    Attributes:
        name: the figure's name, then what was measured.
        measured: for a person, with its unit.
        baseline: what it is compared with.
        ratio: measured to baseline.
        target: what it should be; empty: it is only shown.
        ok: whether it is; None: there is no target.
    """

    name: str
    measured: str
    baseline: str = ""
    ratio: float | None = None
    target: str = ""
    ok: bool | None = None


@attrs.frozen(kw_only=True)
class Figure:
    """One or a few rows that are measured together.

    Attributes:
        about: what it measures.
        measure: takes the measurement.
        workload: the measured part alone, in this process, for the profiler.
    """

    name: str
    about: str
    measure: Callable[[], Sequence[Row]]
    workload: Callable[[], object] | None = None


def interleaved(repeats: int, *programs: Callable[[], float]) -> tuple[list[float], ...]:
    """Run *programs* one after the other, again and again, so that a busy minute hits them all alike."""
    taken: tuple[list[float], ...] = tuple([] for _ in programs)
    for _ in range(repeats):
        for samples, program in zip(taken, programs, strict=True):
            gc.collect()
            samples.append(program())
    return taken


def median(samples: Iterable[float]) -> float:
    """Return the median: what a typical repetition took."""
    return statistics.median(samples)


def seconds(value: float) -> str:
    """Return a time for a person."""
    if abs(value) < 1e-3:
        return f"{value * 1e6:.0f} µs"
    return f"{value * 1e3:.1f} ms" if abs(value) < 1 else f"{value:.3f} s"


def rate(value: float) -> str:
    """Return so many a second for a person."""
    return f"{value:,.0f}/s"


def kilobytes(value: float) -> str:
    """Return a size for a person."""
    return f"{value / 1024:.1f} KiB"


def megabytes(value: float) -> str:
    """Return a large size for a person."""
    return f"{value / 1_000_000:.1f} MB"


def table(rows: Sequence[Row]) -> str:
    """Return the rows as one Markdown table, aligned."""
    cells = [COLUMNS, *(_cells(row) for row in rows)]
    widths = [max(len(line[i]) for line in cells) for i in range(len(COLUMNS))]
    lines = ["| " + " | ".join(_padded(line, widths)) + " |" for line in cells]
    rule = "|" + "|".join("-" * (width + 1) + ("-" if i in {0, 4, 5} else ":") for i, width in enumerate(widths)) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])


def _cells(row: Row) -> tuple[str, ...]:
    ratio = "" if row.ratio is None else f"{row.ratio:.2f}"
    return (row.name, row.measured, row.baseline, ratio, row.target, {True: "yes", False: "NO", None: ""}[row.ok])


def _padded(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.ljust(width) if i in {0, 4, 5} else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
