"""`python -m benchmarks [names...]`: the figures as one table."""

from __future__ import annotations

import argparse
import cProfile
import os
import platform
import pstats
import sys
import time
import traceback
from collections.abc import Sequence
from importlib.metadata import version

from benchmarks import (
    acp,
    batch,
    boxes,
    cancelled_functions,
    cancelled_runs,
    cancelling,
    chat,
    context,
    control,
    deltas,
    editing,
    encoding,
    fleet,
    foreign,
    importing,
    judging,
    parallel,
    prompt,
    scanning,
    searching,
    sessions,
    shell,
    snapshots,
    spilling,
    starting,
    steps,
    storing,
    streaming,
    tracing,
    validating,
)
from benchmarks.report import Figure, Row, table

FIGURES: tuple[Figure, ...] = (
    steps.FIGURE,
    batch.FIGURE,
    deltas.FIGURE,
    streaming.FIGURE,
    tracing.FIGURE,
    encoding.FIGURE,
    cancelling.FIGURE,
    sessions.FIGURE,
    parallel.FIGURE,
    importing.FIGURE,
    starting.FIGURE,
    cancelled_runs.FIGURE,
    cancelled_functions.FIGURE,
    validating.FIGURE,
    judging.FIGURE,
    scanning.FIGURE,
    editing.FIGURE,
    spilling.FIGURE,
    shell.FIGURE,
    boxes.FIGURE,
    searching.FIGURE,
    foreign.FIGURE,
    storing.FIGURE,
    fleet.FIGURE,
    snapshots.FIGURE,
    prompt.FIGURE,
    context.FIGURE,
    control.FIGURE,
    chat.FIGURE,
    acp.FIGURE,
)
SHOWN = 40


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what is asked for; return the exit code."""
    by_name = {figure.name: figure for figure in FIGURES}
    parser = _parser(by_name)
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in by_name]
    if unknown:
        parser.error(f"there is no figure {unknown[0]!r}; there are: {', '.join(by_name)}")
    if options.profile is not None:
        return _profile(by_name[options.profile])
    rows: list[Row] = []
    for name in options.names or by_name:
        began = time.perf_counter()
        print(f"{name}: {by_name[name].about} … ", end="", file=sys.stderr, flush=True)
        rows += _measured(by_name[name])
        print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)
    print(_where())
    print()
    print(table(rows))
    missed = [row.name for row in rows if row.ok is False]
    if missed:
        print(f"\n{len(missed)} missed: {'; '.join(missed)}")
    return 1 if missed and options.check else 0


def _measured(figure: Figure) -> Sequence[Row]:
    try:
        return figure.measure()
    except Exception as error:  # noqa: BLE001  # one figure that breaks must not hide the others
        traceback.print_exc()
        return [Row(name=f"{figure.name}: could not be measured", measured=type(error).__name__, ok=False)]


def _parser(by_name: dict[str, Figure]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure the engine's figures, each with a baseline of the same run.",
        epilog="; ".join(f"{figure.name}: {figure.about}" for figure in by_name.values()),
    )
    # Not `choices`: with nargs="*" argparse checks the empty default against them too.
    parser.add_argument("names", nargs="*", metavar="name", help=f"some of {', '.join(by_name)}; all by default")
    parser.add_argument("--check", action="store_true", help="exit with 1 if a target is missed")
    parser.add_argument("--profile", metavar="NAME", choices=tuple(by_name), help="profile one figure instead")
    return parser


def _where() -> str:
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    return (
        f"{time.strftime('%Y-%m-%d')}, Python {platform.python_version()}, trio {version('trio')}, "
        f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores, load {load}"
    )


def _profile(figure: Figure) -> int:
    """Print where a figure's workload spends its time, by own time."""
    if figure.workload is None:
        print(f"{figure.name} runs in processes of its own; try: python -X importtime -c 'import engine'")
        return 0
    profile = cProfile.Profile()
    profile.runcall(figure.workload)
    pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(SHOWN)
    return 0


if __name__ == "__main__":
    sys.exit(main())
