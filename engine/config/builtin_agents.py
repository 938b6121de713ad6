"""The built-in agents: two for the user's sessions, and two sub-agents.

- `build` does any task.
- `plan` explores and plans: it edits nothing, and runs no command that could change something, until the user has
  approved its plan (`plan_exit`).
- `general` is a sub-agent for any task of several steps.
- `explore` is a read-only sub-agent that looks things up.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from engine.config.agent_config import AgentConfig
from engine.core.events import Verdict
from engine.core.permission_types import Rule

_ORIGIN: Final = "the agent plan"


def _rule(action: Verdict, permission: str) -> Rule:
    return Rule(action=action, permission=permission, pattern="*", origin=_ORIGIN)


# Bounds only restrict: they allow nothing that the other rules forbid.
PLANNING: Final = (_rule("deny", "edit"), _rule("deny", "bash"), _rule("allow", "bash:read"))
# Read-only tools. `bash` is not among them: what it does depends on the command.
LOOKING: Final = ("glob", "grep", "list", "read", "web_fetch", "web_search")
# Tools for the conversation with the user: sub-agents do not have them.
OF_THE_FIRST: Final = ("plan_exit", "question")

EXPLORE: Final = """\
You look things up for another agent. You read and search, and change nothing.

- Make several searches at once, with different words, before you say that something is not there.
- Your answer is all that the other agent sees: tell what you found, with paths and line numbers, and what you did not.
"""

BUILT_IN: Final[Mapping[str, AgentConfig]] = {
    "build": AgentConfig(description="does any task, within the permission rules", mode="primary"),
    "plan": AgentConfig(
        description="explores and plans; changes nothing until its plan is approved",
        mode="primary",
        bounds=PLANNING,
    ),
    "general": AgentConfig(
        description="for any self-contained task of several steps; it has your tools, but can't ask the user",
        mode="subagent",
        without=(*OF_THE_FIRST, "task", "task_output", "task_stop"),
    ),
    "explore": AgentConfig(
        description="for finding something in many files or on the web, and for questions about how code works; "
        "read-only",
        mode="subagent",
        system=EXPLORE,
        tools=LOOKING,
    ),
}
