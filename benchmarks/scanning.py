"""Figure `scanning`: how long scans of shell scripts take, how many are opaque, and whether they tell all that is run."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import cycle
from typing import Final

import tree_sitter_bash
from tree_sitter import Language, Parser

from benchmarks.report import Figure, Row, interleaved, median
from tests.permission.oracle.grammar import Mode, script
from tests.permission.oracle.measure import Figures
from tests.permission.oracle.measure import measure as measured
from tests.permission.oracle.run import sandbox
from tests.permission.oracle.scanners import scan_in_project
from tests.permission.oracle.stubs import why_not
from tests.permission.oracle.written import ordinary, written

ROUNDS: Final = 5
USUAL: Final = (
    'cd src && python3 -m pytest -q tests/test_main.py -k "parse and not slow" 2>&1 | tail -40; '
    'for f in *.py; do wc -l "$f"; done; git diff --stat HEAD~1 -- src tests | sort -k3 -n > ../build/changes.txt && echo done'
)
SHORT_TARGET: Final = 1.0  # milliseconds
LONG_TARGET: Final = 20.0
SCRIPTS: Final = 500
MOST_OPAQUE: Final = {"plain": 0.4, "wild": 1.0}
MOST_ORDINARY: Final = 0.02


def measure() -> list[Row]:
    return [*_times(), _ordinary(), *_comparisons()]


def _times() -> list[Row]:
    lines = cycle(line for line in ordinary() if "cd " not in line)
    long = ""
    while len(long) + len(line := next(lines)) < 9_999:
        long += line + "\n"
    assert not scan_in_project(USUAL).opaque
    taken = interleaved(ROUNDS, _scanning(USUAL, 200), _scanning(long, 5), _parsing(USUAL, 200), _parsing(long, 5))
    usual, whole, parsed, parsed_whole = (median(samples) * 1e3 for samples in taken)
    return [
        _row(f"a command of {len(USUAL)} characters", usual, SHORT_TARGET, parsed),
        _row(f"a script of {len(long):,} characters", whole, LONG_TARGET, parsed_whole),
    ]


def _scanning(text: str, times: int) -> Callable[[], float]:
    def run() -> float:
        began = time.perf_counter()
        for _ in range(times):
            scan_in_project(text)
        return (time.perf_counter() - began) / times

    return run


def _parsing(text: str, times: int) -> Callable[[], float]:
    """Return what has tree-sitter parse a text, and does no more."""
    parser = Parser(Language(tree_sitter_bash.language()))
    source = text.encode()

    def run() -> float:
        began = time.perf_counter()
        for _ in range(times):
            parser.parse(source)
        return (time.perf_counter() - began) / times

    return run


def _row(what: str, took: float, target: float, base: float) -> Row:
    return Row(
        name=f"scanning: {what}",
        measured=f"{took:.2f} ms",
        baseline=f"tree-sitter alone {base:.2f} ms",
        ratio=took / base,
        target=f"≤ {target:g} ms",
        ok=took <= target,
    )


def _ordinary() -> Row:
    lines = ordinary()
    opaque = sum(bool(scan_in_project(line).opaque) for line in lines) / len(lines)
    return Row(
        name=f"scanning: of {len(lines)} everyday commands, opaque",
        measured=f"{opaque:.1%}",
        target=f"≤ {MOST_ORDINARY:.0%}",
        ok=opaque <= MOST_ORDINARY,
    )


def _comparisons() -> list[Row]:
    if lacking := why_not():
        return [Row(name=f"scanning: no comparison with bash: {lacking}", measured="", ok=False)]
    first = time.time_ns() % 2**32
    modes: tuple[Mode, ...] = ("plain", "wild")
    rows: list[Row] = []
    with sandbox() as box:
        for mode in modes:
            figures = measured(box, scan_in_project, [script(seed, mode) for seed in range(first, first + SCRIPTS)])
            rows += [_missed(f"{SCRIPTS} random {mode} scripts from seed {first}", figures), _opaque(mode, figures)]
        hard = measured(box, scan_in_project, [text for part in written().values() for text in part])
    return [*rows, _missed(f"{hard.scripts:,} scripts that are hard to scan", hard)]


def _missed(what: str, figures: Figures) -> Row:
    return Row(
        name=f"scanning: of {what}, those that did something hidden",
        measured=str(len(figures.failures)),
        baseline=f"{figures.programs:,} programs, {figures.writes:,} writes",
        target="0",
        ok=not figures.failures,
    )


def _opaque(mode: Mode, figures: Figures) -> Row:
    return Row(
        name=f"scanning: of the {mode} ones, opaque",
        measured=f"{figures.opacity:.1%}",
        target=f"≤ {MOST_OPAQUE[mode]:.0%}" if mode == "plain" else "",
        ok=figures.opacity <= MOST_OPAQUE[mode] if mode == "plain" else None,
    )


def _workload() -> None:
    _scanning(USUAL, 500)()


FIGURE = Figure(
    name="scanning",
    about="scans of shell scripts, versus what bash runs",
    measure=measure,
    workload=_workload,
)
