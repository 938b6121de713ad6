"""The agents that are there where nobody says otherwise: two to talk to, two that others send for.

- `build` does whatever is asked.
- `plan` looks and thinks: it edits nothing, and runs no command that could change something, until the user has
  approved its plan (`plan_exit`).
- `general` does any work of several steps for another agent.
- `explore` looks things up for another agent, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.config.agent_config import AgentConfig
from engine.core.permission_types import Action, Rule

_ORIGIN: Final = "the agent plan"


def _rule(action: Action, permission: str) -> Rule:
    return Rule(action=action, permission=permission, pattern="*", origin=_ORIGIN)


# As bounds they allow nothing that other rules do not.
PLANNING: Final = (_rule("deny", "edit"), _rule("deny", "bash"), _rule("allow", "bash:read"))
# What changes nothing. Commands are not among them: what they do depends on their words.
LOOKING: Final = ("glob", "grep", "list", "read", "web_fetch", "web_search")
# They are between the agent that the user talks to and the user.
OF_THE_FIRST: Final = ("plan_exit", "question")

EXPLORE: Final = """\
You look things up for another agent. You read and search, and change nothing.

- Make several searches at once, with different words, before you say that something is not there.
- Your answer is all that the other agent sees: tell what you found, with paths and line numbers, and what you did not.
"""

BUILT_IN: Final[Mapping[str, AgentConfig]] = {
    "build": AgentConfig(description="does whatever is asked, as far as the rules let it", mode="primary"),
    "plan": AgentConfig(
        description="looks and thinks, and changes nothing until its plan was approved",
        mode="primary",
        bounds=PLANNING,
    ),
    "general": AgentConfig(
        description="for any work of several steps that stands by itself; it has your tools, but can ask nobody",
        mode="subagent",
        without=(*OF_THE_FIRST, "task", "task_output", "task_stop"),
    ),
    "explore": AgentConfig(
        description="for finding something in many files or on the web, and for questions about how code works; it "
        "changes nothing",
        mode="subagent",
        system=EXPLORE,
        tools=LOOKING,
    ),
}
