"""The configuration of an agent, for sessions, for sub-agents, or for both."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Literal, get_args

import attrs

from engine.core.errors import ConfigError
from engine.core.llm_types import ModelOptions
from engine.core.permission_types import Rule
from engine.core.value_base import Value

# Where the agent can be used: in the user's sessions, as a sub-agent, or both.
Mode = Literal["primary", "subagent", "all"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AgentConfig(Value):
    """The configuration of an agent.

    Attributes:
        description: when to use it, for the model that may start it; empty: only when the user names it.
        mode: where it can be used.
        hidden: not listed for the model, but usable by name.
        model: its model; None: the default, or its caller's.
        options: its model options; they override the model's own.
        fallback: its fallback models; None: the model's own.
        system: its system prompt; None: the default, or its caller's.
        rules: its permission rules; they come after all others.
        bounds: further rules, which only restrict: they must allow a call as well. They are dropped once its plan is
            approved.
        tools: the names of the tools it may use; None: all. Foreign tools also by their rights: `mcp:github/*`.
        without: the names of tools it may not use; foreign ones also by their rights.
        steps: how many provider requests it may make; None: no limit of its own.
        seconds: its time limit; None: no limit of its own.
        cost: how much money it may spend; None: no limit of its own.
    """

    description: str = ""
    mode: Mode = "all"
    hidden: bool = False
    model: str | None = None
    options: ModelOptions = ModelOptions()
    fallback: tuple[str, ...] | None = None
    system: str | None = None
    rules: tuple[Rule, ...] = ()
    bounds: tuple[Rule, ...] = ()
    tools: tuple[str, ...] | None = None
    without: tuple[str, ...] = ()
    steps: int | None = None
    seconds: float | None = None
    cost: float | None = None

    def __attrs_post_init__(self) -> None:
        if self.mode not in get_args(Mode):
            raise ConfigError(f"an agent's mode is primary, subagent or all, not {self.mode!r}")
        if self.steps is not None and self.steps < 1:
            raise ConfigError(f"an agent's steps must be at least 1, not {self.steps}")
        if self.seconds is not None and not self.seconds > 0:
            raise ConfigError(f"an agent's seconds must be above 0, not {self.seconds}")
        if self.cost is not None and not self.cost >= 0:
            raise ConfigError(f"an agent's cost must be at least 0, not {self.cost}")

    def over(self, base: AgentConfig) -> AgentConfig:
        """Return *base* with this configuration's values in place of its own; the rules of both apply, these last."""
        silent = AgentConfig()
        changes = {
            field.name: getattr(self, field.name)
            for field in attrs.fields(AgentConfig)
            if getattr(self, field.name) != getattr(silent, field.name)
        }
        changes["options"] = self.options.over(base.options)
        changes["rules"] = (*base.rules, *self.rules)
        changes["bounds"] = (*base.bounds, *self.bounds)
        return attrs.evolve(base, **changes)

    def has(self, tool: str) -> bool:
        """Return whether it may use *tool*."""
        return (self.tools is None or tool in self.tools) and tool not in self.without

    def has_foreign(self, tool: str, right: str) -> bool:
        """Return whether it may use the foreign *tool*, whose calls need that *right*."""

        def names_it(names: tuple[str, ...]) -> bool:
            return tool in names or any(":" in name and fnmatchcase(right, name) for name in names)

        return (self.tools is None or names_it(self.tools)) and not names_it(self.without)
