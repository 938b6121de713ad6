"""`SessionConfig`: a session's configuration, from the engine's defaults, its agent and its host's options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

import attrs

from engine.config.config import Config
from engine.core.ids import SessionId, TurnId
from engine.core.permission_types import PermissionScope, Rule
from engine.core.settings import Settings
from engine.core.value_base import Value
from engine.permission.rules.profiles import defaults
from engine.session.validation import (
    ModelChoice,
    around_of,
    as_model_chain,
    parse_rules,
    prompt_of,
    registry_of,
    require_port,
    require_type,
    select_models,
    sources_of,
)
from engine.tools.registry import Registry
from engine.tools.tool import Tool
from engine.tools.tool_source import ToolSource

if TYPE_CHECKING:
    from engine.prompt.layers import PromptLayers
    from engine.session.engine_options import FolderSetup
    from engine.tools.edit.formatters import Diagnose
    from engine.tools.editor_files import EditorFiles
    from engine.tools.tool_context import EditDiagnostics, EditReviewer


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
        editor: the user's editor, which may hold texts unsaved.
    """

    settings: Settings | None = None
    tools: Iterable[Tool] | None = None
    model: ModelChoice | Sequence[ModelChoice] | None = None
    agent: str | None = None
    rules: Iterable[str] = ()
    sources: Iterable[ToolSource] = ()
    editor: EditorFiles | None = None


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
        folder_config: the configuration of its folder, or the engine's: its agents, and further names of models.
        profile: the permission profile of its folder; empty: the engine's.
        prompt: the layers at the start of each request; None: the settings' system prompt.
        edit_reviewer: formats and checks each file that a tool changes; None: nothing does.
        editor: the user's editor, which may hold texts unsaved; None: there is none.
    """

    settings: Settings
    registry: Registry
    choices: tuple[ModelChoice, ...]
    folder_config: Config
    rules: tuple[Rule, ...] = ()
    bounds: tuple[Rule, ...] = ()
    agent: str = ""
    sources: tuple[ToolSource, ...] = ()
    has_tool: Callable[[str, str], bool] = lambda _, __: True
    profile: str = ""
    prompt: PromptLayers | None = None
    edit_reviewer: EditReviewer | None = None
    editor: EditorFiles | None = None

    def in_folder(self, setup: FolderSetup, diagnostics: Diagnose | EditDiagnostics | None) -> SessionConfig:
        """Return the configuration with what a folder has instead. Raises `ConfigError`."""
        if setup.profile is not None:
            defaults(setup.profile)
        return attrs.evolve(
            self,
            folder_config=setup.config,
            registry=self.registry if setup.tools is None else registry_of(setup.tools),
            profile=setup.profile or "",
            prompt=prompt_of(setup.prompt) or self.prompt,
            edit_reviewer=around_of(setup.config, diagnostics),
        )

    def with_options(self, options: SessionOptions) -> SessionConfig:
        """Return the configuration of a session with *options*. Raises `ConfigError`.

        The order of precedence: the options, the agent, the defaults of the folder or the engine.
        """
        config = self.folder_config
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
        return attrs.evolve(
            self,
            settings=attrs.evolve(settings, system=system, options=settings.options.over(agent.options), limits=limits),
            registry=registry.of_agent(agent),
            choices=self._choices(config, options),
            # The last matching rule counts, so the host's come last.
            rules=(*agent.rules, *parse_rules(options.rules)),
            bounds=agent.bounds,
            agent=options.agent or config.defaults.agent or "",
            sources=sources_of(options.sources),
            editor=_editor_of(options.editor),
            has_tool=agent.has_foreign,
        )

    def permission_scopes(self, session_id: SessionId, turn_id: TurnId) -> tuple[PermissionScope, ...]:
        """Return the permission scopes that a turn of this session adds to the chain. Not a checkpoint."""
        own = PermissionScope(session_id=session_id, turn_id=turn_id, rules=self.rules, profile=self.profile)
        # Two scopes: a call must be allowed by each, so bounds can only take away.
        return (attrs.evolve(own, rules=self.bounds, is_bound=True), own) if self.bounds else (own,)

    def _choices(self, config: Config, options: SessionOptions) -> tuple[ModelChoice, ...]:
        model = options.model
        if model is None and options.agent is None:
            return self.choices
        if model is None:
            model = config.agent(options.agent).model or self.choices[0]
        return config.chain(model, options.agent) if isinstance(model, str) else as_model_chain(model)


def _editor_of(editor: EditorFiles | None) -> EditorFiles | None:
    return None if editor is None else require_port("editor", editor, lambda: editor, "read", "write")


def default_config(
    config: Config,
    model: ModelChoice | Sequence[ModelChoice] | None,
    settings: Settings | None,
    tools: Iterable[Tool],
    *,
    prompt: PromptLayers | None,
    diagnostics: Diagnose | EditDiagnostics | None,
) -> SessionConfig:
    """Return the configuration of an engine's sessions without options of their own. Raises `ConfigError`."""
    return SessionConfig(
        settings=require_type(settings, Settings),
        registry=registry_of(tools),
        choices=select_models(model, config),
        folder_config=config,
        prompt=prompt_of(prompt),
        edit_reviewer=around_of(config, diagnostics),
    )
