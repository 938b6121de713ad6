"""`SessionConfig`: a session's configuration, from the engine's defaults, its agent and its host's options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from engine.config.config import Config
from engine.core.ids import SessionId, TurnId
from engine.core.permission_types import PermissionScope, Rule
from engine.core.settings import Settings
from engine.core.value_base import Value
from engine.session.validation import ModelChoice, as_model_chain, parse_rules, registry_of, require_type, sources_of
from engine.tools.registry import Registry
from engine.tools.tool import Tool
from engine.tools.tool_source import ToolSource


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionOptions(Value):
    """A host's options for creating, opening or forking a session; None: the engine's default.

    Attributes:
        settings: the settings of its turns.
        tools: what the model may call.
        model: a name, a `Model`, or a chain of them.
        agent: the name of a configured agent.
        rules: permission rules for this session only.
        sources: of tools that come and go, for this session only.
    """

    settings: Settings | None = None
    tools: Iterable[Tool] | None = None
    model: ModelChoice | Sequence[ModelChoice] | None = None
    agent: str | None = None
    rules: Iterable[str] = ()
    sources: Iterable[ToolSource] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionConfig(Value):
    """A session's configuration.

    Attributes:
        settings: the settings of its turns.
        registry: its tools.
        choices: its models, as they were configured.
        rules: its own permission rules, after all others.
        bounds: further rules, which only restrict: they must allow a call as well.
        agent: the name of its agent; empty: the default.
        sources: of tools that come and go, besides the engine's.
        has_tool: whether its agent may use the foreign tool of that name and right.
    """

    settings: Settings
    registry: Registry
    choices: tuple[ModelChoice, ...]
    rules: tuple[Rule, ...] = ()
    bounds: tuple[Rule, ...] = ()
    agent: str = ""
    sources: tuple[ToolSource, ...] = ()
    has_tool: Callable[[str, str], bool] = lambda _, __: True

    def with_options(self, config: Config, options: SessionOptions) -> SessionConfig:
        """Return the configuration of a session with *options*. Raises `ConfigError`.

        The order of precedence: the options, the agent, the engine's defaults.
        """
        agent = config.agent(options.agent)
        settings = self.settings if options.settings is None else require_type(options.settings, Settings)
        # An agent is its system prompt, so that takes precedence over the settings'; its other values only fill gaps.
        system = settings.system if agent.system is None else agent.system
        limits = attrs.evolve(
            settings.limits,
            steps=agent.steps if settings.limits.steps is None else settings.limits.steps,
            seconds=agent.seconds if settings.limits.seconds is None else settings.limits.seconds,
            cost=agent.cost if settings.limits.cost is None else settings.limits.cost,
        )
        registry = self.registry if options.tools is None else registry_of(options.tools)
        return SessionConfig(
            settings=attrs.evolve(settings, system=system, options=settings.options.over(agent.options), limits=limits),
            registry=registry.of_agent(agent),
            choices=self._choices(config, options),
            # The last matching rule counts, so the host's come last.
            rules=(*agent.rules, *parse_rules(options.rules)),
            bounds=agent.bounds,
            agent=options.agent or config.defaults.agent or "",
            sources=sources_of(options.sources),
            has_tool=agent.has_foreign,
        )

    def permission_scopes(self, session_id: SessionId, turn_id: TurnId) -> tuple[PermissionScope, ...]:
        """Return the permission scopes that a turn of this session adds to the chain. Not a checkpoint."""
        own = PermissionScope(session_id=session_id, turn_id=turn_id, rules=self.rules)
        # Two scopes: a call must be allowed by each, so bounds can only take away.
        return (attrs.evolve(own, rules=self.bounds, is_bound=True), own) if self.bounds else (own,)

    def _choices(self, config: Config, options: SessionOptions) -> tuple[ModelChoice, ...]:
        model = options.model
        if model is None and options.agent is None:
            return self.choices
        if model is None:
            model = config.agent(options.agent).model or self.choices[0]
        return config.chain(model, options.agent) if isinstance(model, str) else as_model_chain(model)
