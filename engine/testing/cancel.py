"""A scenario for one tool, to cancel it at each of its points.

    cancel_everywhere(tool_scenario(fetch, {"url": "a"}))

raises `PromiseBroken` for the first run that breaks a promise, and names the point.
"""

from __future__ import annotations

from collections.abc import Mapping

from engine.testing.harness import Scenario
from engine.testing.script import call, done, text
from engine.tools.tool import Tool


def tool_scenario(tool: Tool, arguments: Mapping[str, object], *, name: str | None = None) -> Scenario:
    """Return a scenario in which the model calls *tool* once; the tool must stop within its grace period."""
    first = [*text("Let me see."), *call(name or tool.name, arguments, id="call"), *done("calls")]
    return Scenario(script=[first], tools=(tool,), grace=tool.grace, must_stop=True)
