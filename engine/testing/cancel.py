"""`cancel_everywhere`: play a scenario, then again with a cancel at each of its points.

    report = cancel_everywhere(Scenario(script=[[*call("look", {}, id="1"), *done("calls")]]))

raises `PromiseBroken` at the first run that breaks a promise, naming the point.
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
    """What was tried.

    Attributes:
        points: points of the run without a cancel.
        runs: runs that were made with one.
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
        scenario: what is played.
        ways: who cancels: the turn's user, the host's scope, the host's deadline, both
            in either order, the user twice, or the body by leaving the block.
        seed: of trio's scheduler.
        every: take only each so many-th point.
        seconds: for the ways with two cancels: how many points lie between them.

    Raises:
        PromiseBroken: with the way, the point, and what was broken.
    """
    base = play(scenario, seed=seed)
    _raise_if_broken(base, None, seed)
    runs = 0
    for way in ways:
        gaps = tuple(seconds) if way in {"user_then_host", "host_then_user", "user_twice"} else (1,)
        for gap in gaps:
            for point in range(0, len(base.points.names), every):
                injection = Injection(way=way, point=point, second=gap)
                run = play(scenario, injection=injection, seed=seed)
                runs += 1
                if run.points.names[:point] != base.points.names[:point]:
                    run.problems.append("up to the cancel it went another way than the run without one")
                _raise_if_broken(run, injection, seed)
    return Report(points=len(base.points.names), runs=runs)


def tool_scenario(tool: Tool, arguments: Mapping[str, object], *, name: str | None = None) -> Scenario:
    """Return a scenario in which the model calls *tool* once; the tool must always stop within its grace."""
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
