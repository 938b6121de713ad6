"""How a session is to work: what the engine says, what its agent says, and what was asked for, in one value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import attrs

from engine.config.config import Config
from engine.core.permission_types import Rule
from engine.core.settings import Settings
from engine.session.validation import ModelChoice, checked, registry_of, rules_given, several
from engine.tools.registry import Registry
from engine.tools.tool import Tool


@attrs.frozen(kw_only=True)
class Way:
    """How a session works.

    Attributes:
        settings: of its turns.
        registry: its tools.
        choices: its models.
        rules: of its own, after all others.
        bounds: further ones, which lift nothing: it may do only what these allow as well.
        agent: the name of the way of working that was chosen; empty: the usual one.
    """

    settings: Settings
    registry: Registry
    choices: tuple[ModelChoice, ...]
    rules: tuple[Rule, ...] = ()
    bounds: tuple[Rule, ...] = ()
    agent: str = ""

    def with_(
        self,
        config: Config,
        *,
        settings: Settings | None,
        tools: Iterable[Tool] | None,
        model: ModelChoice | Sequence[ModelChoice] | None,
        agent: str | None,
        rules: Iterable[str],
    ) -> Way:
        """Return the way of a session for which something else was asked. Raises `ConfigError`.

        Where nothing else is given, what the agent says stands.
        """
        work = config.agent(agent)
        chosen = self.settings if settings is None else checked(settings, Settings)
        system = chosen.system if work.system is None else work.system
        limits = attrs.evolve(
            chosen.limits,
            steps=work.steps if chosen.limits.steps is None else chosen.limits.steps,
            seconds=work.seconds if chosen.limits.seconds is None else chosen.limits.seconds,
            cost=work.cost if chosen.limits.cost is None else chosen.limits.cost,
        )
        registry = self.registry if tools is None else registry_of(tools)
        return Way(
            settings=attrs.evolve(chosen, system=system, options=chosen.options.over(work.options), limits=limits),
            registry=registry.of_agent(work),
            choices=self._choices(config, model, agent),
            rules=(*work.rules, *rules_given(rules)),
            bounds=work.bounds,
            agent=agent or config.defaults.agent or "",
        )

    def _choices(
        self, config: Config, model: ModelChoice | Sequence[ModelChoice] | None, agent: str | None
    ) -> tuple[ModelChoice, ...]:
        if model is None and agent is None:
            return self.choices
        if model is None:
            model = config.agent(agent).model or self.choices[0]
        return config.chain(model, agent) if isinstance(model, str) else several(model)
