"""The sub-agents that `task` has by default: one for any work, one that only looks."""

from __future__ import annotations

from engine.config.builtin_agents import BUILT_IN
from engine.tools.builtin.task import Agents


def usual_agents() -> Agents:
    """Return them."""
    return Agents.of_config(BUILT_IN)
