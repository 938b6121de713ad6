"""The pytest plugin: `@pytest.mark.cancel_everywhere` on an async test cancels it at each of its points.

pytest loads this module whenever the package is installed, so it imports the rest only for a test that is marked.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from engine.testing.cancellation.pytest_test import MarkedTest

MARKER = "cancel_everywhere"
_OUTPUT = "cancel_everywhere_counts"

_tests: pytest.StashKey[MarkedTest] = pytest.StashKey()
_counts = pytest.StashKey[dict[str, int]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("cancel everywhere", "cancelling marked tests at each of their points")
    group.addoption(
        "--cancel-everywhere-seed", type=int, default=None, metavar="N", help="the seed of the schedule (default: 0)"
    )
    group.addoption(
        "--cancel-everywhere-only",
        default=None,
        metavar="POINT",
        help="try only this cancel, as a report names it: scope@17",
    )
    group.addoption(
        "--cancel-everywhere-svg",
        type=Path,
        default=None,
        metavar="FOLDER",
        help="write a drawing of each failure to this folder",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(by=('scope', 'deadline', 'sibling', 'thread', 'interrupt'), every=1, seconds=(1, 7), schedules=1, "
        "limit=10.0, raises=(), most_points=100_000): cancel this async test at each of its points",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Prepare a marked test, before pytest-trio looks at it."""
    marker = item.get_closest_marker(MARKER)
    if marker is not None and isinstance(item, pytest.Function):
        from engine.testing.cancellation.pytest_test import MarkedTest

        item.stash[_tests] = MarkedTest.of(item, marker)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Run a marked test once for each cancel, instead of once. Comes after pytest-trio, which makes the test a function."""
    test = item.stash.get(_tests, None)
    if test is not None:
        test.replace_call(_counts_of(item.config))
    return (yield)


# ---- the summary -----------------------------------------------------------------------------------------------------


class _Node(Protocol):
    config: pytest.Config


def _counts_of(config: pytest.Config) -> dict[str, int]:
    return config.stash.setdefault(_counts, {"tests": 0, "runs": 0, "points": 0})


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand the counts of a worker of xdist to its controller."""
    output: dict[str, object] | None = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[_OUTPUT] = _counts_of(session.config)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: _Node) -> None:
    """Add the counts of a worker of xdist."""
    output: dict[str, dict[str, int]] = getattr(node, "workeroutput", {})
    counts = _counts_of(node.config)
    for name, number in output.get(_OUTPUT, {}).items():
        counts[name] += number


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Say how many cancelled runs were made."""
    counts = _counts_of(config)
    if counts["tests"]:
        tests = "1 test" if counts["tests"] == 1 else f"{counts['tests']:,} tests"
        terminalreporter.write_line(
            f"cancel everywhere: {counts['runs']:,} cancelled runs of {tests}, which have {counts['points']:,} points"
        )
