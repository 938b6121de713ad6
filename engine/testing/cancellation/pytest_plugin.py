"""The pytest plugin: `@pytest.mark.cancel_everywhere` on an async test cancels it at each of its points.

pytest loads this module whenever the package is installed, so it imports the rest only for a test that is marked, and
keeps pytest from rewriting the assertions of the whole package.
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
_NOTHING = {"tests": 0, "runs": 0, "points": 0, "without_points": 0, "missed": 0}


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Add the options."""
    _keep_assertions(pluginmanager)
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


def _keep_assertions(pluginmanager: pytest.PytestPluginManager) -> None:
    """Let pytest import the package as Python does.

    It marks each package that comes with a plugin for rewriting, which here makes hundreds of modules four times as slow
    to import, for nothing. Where pytest has changed and the mark is elsewhere, that is all that happens.
    """
    marked: set[str] = getattr(pluginmanager.rewrite_hook, "_must_rewrite", set())
    marked.discard(__name__.partition(".")[0])


def pytest_configure(config: pytest.Config) -> None:
    """Declare the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(by=('scope', 'deadline', 'sibling', 'thread', 'interrupt'), every=1, seconds=(1, 7), schedules=1, "
        "limit=10.0, raises=(), most_points=100_000, repeatable=True): cancel this async test at each of its points",
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
    return config.stash.setdefault(_counts, dict(_NOTHING))


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
        runs, tests, points = (_number(counts[name], name[:-1]) for name in ("runs", "tests", "points"))
        line = f"cancel everywhere: {tests} with {points}, cancelled in {runs}"
        if counts["without_points"]:
            line += f"; {counts['without_points']:,} without a checkpoint could not be cancelled"
        if counts["missed"]:
            line += f"; {_number(counts['missed'], 'cancel')} could not be made, because runs differ"
        terminalreporter.write_line(line)


def _number(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
