"""What an agent is: a way of working that has a name, for whole sessions, for sub-agents, or for both."""

from __future__ import annotations

from typing import Literal, get_args

import attrs

from engine.core.errors import ConfigError
from engine.core.llm_types import ModelOptions
from engine.core.permission_types import Rule

# Who may work so: sessions that a user talks to, sub-agents, or either.
Mode = Literal["primary", "subagent", "all"]


@attrs.frozen(kw_only=True)
class AgentConfig:
    """A way of working that has a name.

    Attributes:
        description: when to use it, for a model; empty: only if the user wants it by name.
        mode: who may work so.
        hidden: no model is told of it; it works if it is named all the same.
        model: its model; None: the default one, or that of who calls it.
        options: how the model is to work; before those of the model itself.
        fallback: instead of the model's own; None: that.
        system: its system prompt; None: the usual one, or that of who calls it.
        rules: what it may do, and may not; they come after all others.
        bounds: further rules: it may do only what these allow as well. They lift nothing that others say, and end when
            a plan of its own was approved.
        tools: names of the tools that it has, of those that there are; None: all.
        without: names of those that it has not.
        steps: provider requests that it may use up; None: as many as there are left.
        seconds: time that it may take; None: as long as it takes.
        cost: money that it may spend; None: as much as there is left.
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
            raise ConfigError(f"an agent must have at least one step, not {self.steps}")
        if self.seconds is not None and not self.seconds > 0:
            raise ConfigError(f"an agent must have some seconds, not {self.seconds}")
        if self.cost is not None and not self.cost >= 0:
            raise ConfigError(f"what an agent may spend is a number of at least 0, not {self.cost}")

    def over(self, base: AgentConfig) -> AgentConfig:
        """Return *base* with all that this one says differently; rules come after those of *base*."""
        silent = AgentConfig()
        said = {
            field.name: getattr(self, field.name)
            for field in attrs.fields(AgentConfig)
            if getattr(self, field.name) != getattr(silent, field.name)
        }
        said["options"] = self.options.over(base.options)
        said["rules"] = (*base.rules, *self.rules)
        said["bounds"] = (*base.bounds, *self.bounds)
        return attrs.evolve(base, **said)

    def has(self, tool: str) -> bool:
        """Tell whether it has the tool of that name, if there is one."""
        return (self.tools is None or tool in self.tools) and tool not in self.without
