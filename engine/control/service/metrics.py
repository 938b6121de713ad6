"""Counts and times, and their text for Prometheus. No I/O.

What can be looked up when it is asked for, such as the number of sessions, is not kept here: `text` takes it as samples.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from typing import Final, TypeAlias, final

import attrs

from engine.control.service.metric_table import METRICS, Metric

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# Series of one metric. Names of models are the user's own, and nothing else bounds how many there are.
_MOST_SERIES: Final = 200
_REST: Final = "other"

Labels: TypeAlias = tuple[str, ...]
Sample: TypeAlias = tuple[str, Labels, float]


@attrs.define
class _Times:
    """The observations of a histogram or a summary."""

    buckets: list[int]
    count: int = 0
    total: float = 0.0


@final
class Metrics:
    """The counters and times of a server, by name and labels; the names are those of `METRICS`."""

    def __init__(self) -> None:
        """Make them; a counter without labels begins with 0."""
        self._counts: dict[str, dict[Labels, float]] = {}
        self._times: dict[str, dict[Labels, _Times]] = {}
        for metric in METRICS.values():
            if metric.kind == "counter" and not metric.labels:
                self._counts[metric.name] = {(): 0.0}

    def add(self, name: str, *labels: str, value: float = 1.0) -> None:
        """Add to a counter. Not a checkpoint."""
        series = self._counts.setdefault(name, {})
        key = _bounded(series, METRICS[name], labels)
        series[key] = series.get(key, 0.0) + value

    def observe(self, name: str, seconds: float, *labels: str) -> None:
        """Add an observation to a histogram; a clock that was put back counts as no time. Not a checkpoint."""
        metric = METRICS[name]
        series = self._times.setdefault(name, {})
        key = _bounded(series, metric, labels)
        times = series.get(key)
        if times is None:
            times = series[key] = _Times([0] * (len(metric.buckets) + 1))
        seconds = max(0.0, seconds)
        times.buckets[bisect_left(metric.buckets, seconds)] += 1
        times.count += 1
        times.total += seconds

    def set_summary(self, name: str, count: int, total: float) -> None:
        """Set a summary that is counted elsewhere. Not a checkpoint."""
        self._times[name] = {(): _Times([], count, total)}

    def text(self, samples: Iterable[Sample] = ()) -> str:
        """Return all metrics in Prometheus's text format, with *samples* for those that were looked up just now."""
        found: dict[str, dict[Labels, float]] = {name: dict(series) for name, series in self._counts.items()}
        for name, labels, value in samples:
            found.setdefault(name, {})[labels] = value
        lines: list[str] = []
        for metric in METRICS.values():
            lines += (f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}")
            for labels, value in found.get(metric.name, {}).items():
                lines.append(_line(metric.name, metric.labels, labels, value))
            for labels, times in self._times.get(metric.name, {}).items():
                lines += _time_lines(metric, labels, times)
        return "\n".join(lines) + "\n"


def _bounded(series: dict[Labels, float] | dict[Labels, _Times], metric: Metric, labels: Labels) -> Labels:
    assert len(labels) == len(metric.labels)
    return labels if labels in series or len(series) < _MOST_SERIES else (_REST,) * len(labels)


def _time_lines(metric: Metric, labels: Labels, times: _Times) -> Iterable[str]:
    below = 0
    for bound, count in zip((*metric.buckets, None), times.buckets, strict=False):
        below += count
        text = "+Inf" if bound is None else f"{bound:g}"
        yield _line(f"{metric.name}_bucket", (*metric.labels, "le"), (*labels, text), below)
    yield _line(f"{metric.name}_sum", metric.labels, labels, times.total)
    yield _line(f"{metric.name}_count", metric.labels, labels, times.count)


def _line(name: str, names: Labels, labels: Labels, value: float) -> str:
    pairs = ",".join(f'{key}="{_escaped(label)}"' for key, label in zip(names, labels, strict=True))
    number = f"{value:.0f}" if value == int(value) else repr(value)
    return f"{name}{{{pairs}}} {number}" if pairs else f"{name} {number}"


def _escaped(label: str) -> str:
    return label.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
