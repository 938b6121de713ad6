"""The sub-agents that `task` has where nobody says otherwise: one for any work, one that only looks."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from engine.tools.builtin.task import Agent, Agents

# What changes nothing. Commands are not among them: what they do depends on their words.
_LOOKING: Final = frozenset({"glob", "grep", "list", "read", "web_fetch", "web_search"})
# They are between the agent that the user talks to and the user; and a sub-agent starts no further ones.
_OF_THE_FIRST: Final = frozenset({"task", "question", "plan_exit"})

_EXPLORE: Final = """\
You look things up for another agent. You read and search, and change nothing.

- Make several searches at once, with different words, before you say that something is not there.
- Your answer is all that the other agent sees: tell what you found, with paths and line numbers, and what you did not.
"""


def usual_agents(tools: Collection[str]) -> Agents:
    """Return them, for an agent that has the tools of these names."""
    return Agents.of(
        (
            Agent(
                name="general",
                description="for any work of several steps that stands by itself; it has your tools, but can ask nobody",
                tools=tuple(sorted(set(tools) - _OF_THE_FIRST)),
            ),
            Agent(
                name="explore",
                description="for finding something in many files or on the web, and for questions about how code works; "
                "it changes nothing",
                system=_EXPLORE,
                tools=tuple(sorted(set(tools) & _LOOKING)),
            ),
        )
    )
