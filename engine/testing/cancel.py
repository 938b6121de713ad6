"""`cancel_everywhere`: play a scenario, and again with a cancel at each of its points.

    report = cancel_everywhere(Scenario(script=[[*call("look", {}, id="1"), *done("calls")]]))

raises `PromiseBroken` for the first run that breaks a promise, and names the point.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import attrs

from engine.testing.cancel_points import WAYS, Injection, Way
from engine.testing.harness import Run, Scenario, play
from engine.testing.script import call, done, text
from engine.tools.tool import Tool


class PromiseBroken(AssertionError):
    """A run broke a promise."""


@attrs.frozen(kw_only=True)
class Report:
    """The number of points and runs.

    Attributes:
        points: the points of the run without a cancel.
        runs: the runs with a cancel.
    """

    points: int
    runs: int


def cancel_everywhere(
    scenario: Scenario,
    *,
    ways: Iterable[Way] = WAYS,
    seed: int = 0,
    every: int = 1,
    seconds: Iterable[int] = (1, 7),
) -> Report:
    """Cancel *scenario* at each of its points, in each way, and check every promise. Not for use inside trio.

    Args:
        scenario: the scenario.
        ways: how to cancel: by the turn's user, by the host's scope, by its deadline, by both
            in either order, by the user twice, or by leaving the block.
        seed: the seed of trio's scheduler.
        every: take only every n-th point.
        seconds: for the ways with two cancels: the number of points between them.

    Raises:
        PromiseBroken: with the way, the point, and the problems.
    """
    base = play(scenario, seed=seed)
    _raise_if_broken(base, None, seed)
    runs = 0
    for way in ways:
        # The distance matters only if there is a second cancel.
        gaps = tuple(seconds) if way in {"user_then_host", "host_then_user", "user_twice"} else (1,)
        for gap in gaps:
            for point in range(0, len(base.points.names), every):
                injection = Injection(way=way, point=point, second=gap)
                run = play(scenario, injection=injection, seed=seed)
                runs += 1
                # Otherwise the runs are not deterministic, and points would be missed.
                if run.points.names[:point] != base.points.names[:point]:
                    run.problems.append("before the cancel, the run differed from the run without a cancel")
                _raise_if_broken(run, injection, seed)
    return Report(points=len(base.points.names), runs=runs)


def tool_scenario(tool: Tool, arguments: Mapping[str, object], *, name: str | None = None) -> Scenario:
    """Return a scenario in which the model calls *tool* once; the tool must stop within its grace period."""
    first = [*text("Let me see."), *call(name or tool.name, arguments, id="call"), *done("calls")]
    return Scenario(script=[first], tools=(tool,), grace=tool.grace, must_stop=True)


def _raise_if_broken(run: Run, injection: Injection | None, seed: int) -> None:
    if not run.problems:
        return
    where = "without a cancel"
    if injection is not None:
        names = run.points.names
        name = names[injection.point] if injection.point < len(names) else "never reached"
        where = f"with {injection.way} at point {injection.point} ({name}), second part {injection.second} later"
    message = "\n  ".join(run.problems)
    raise PromiseBroken(f"{where}, seed {seed}:\n  {message}")
