"""The engine of a program that serves clients: `engine serve`, `engine acp` and `engine mcp serve`."""

from __future__ import annotations

import argparse
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final, final

import attrs

from engine.cli.default_tools import default_tools, edit_diagnostics, knowledge_for, tool_sources
from engine.cli.export_telemetry import command_telemetry
from engine.cli.flags.limit_flags import check_prices, headless_limits, task_limits
from engine.cli.flags.model_flags import ModelChoice, model_choice
from engine.cli.flags.permission_flags import permission_choice
from engine.cli.flags.store_flags import open_store, resolve_store
from engine.cli.folder_settings import FolderSettings
from engine.cli.plugin_code import package_hooks
from engine.config.config import Config
from engine.core.settings import RetryPolicy, Settings
from engine.process.own_environment import hide_own_secrets
from engine.prompt.layers import PromptLayers
from engine.session.engine import Engine, open_engine
from engine.session.engine_options import ContextOptions, FileOptions, PermissionOptions, Ports
from engine.session.validation import secrets_of
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.tools.tool import Tool

# Seconds. Without a user, a turn must end even if its provider never answers.
_MAX_WAIT: Final = 300.0


@asynccontextmanager
async def open_served_engine(
    model: ModelChoice,
    folders: FolderSettings,
    layers: PromptLayers,
    tools: Sequence[Tool],
    *,
    place: str,
    settings: Settings | None = None,
) -> AsyncGenerator[Engine]:
    """Open the store at *place* and an engine over it. A checkpoint. Raises `ConfigError`, `StoreError`.

    A session has the settings of its own folder; *settings* are those of all, without the options of the model.
    """
    async with (
        open_store(place, config=model.config.store) as store,
        command_telemetry(model.config) as telemetry,
        open_engine(
            model=model.models,
            config=model.config,
            tools=tools,
            settings=attrs.evolve(settings or Settings(on_exhausted="ask"), options=model.options),
            permissions=PermissionOptions(approver=folders.policy),
            store=store,
            context=ContextOptions(prompt=layers),
            ports=Ports(
                sources=tool_sources(model.config, trusts=folders.trusts, shows_all=True),
                configure=folders.setup,
                telemetry=telemetry,
            ),
            hooks=package_hooks(model.config),
            files=FileOptions(
                snapshots=ProjectSnapshots(left_out=(place,)), diagnostics=edit_diagnostics(model.config)
            ),
        ) as eng,
    ):
        yield eng


@final
class ServedSetup:
    """An engine for clients on standard streams, as the flags and the configuration have it.

    Attributes:
        config: the configuration.
        layers: the user's prompts.
        place: the store's location.
    """

    def __init__(self, args: argparse.Namespace) -> None:
        """Read the configuration. It blocks. Raises `ConfigError`."""
        self._args = args
        self._permissions = permission_choice(args)
        self._folders = FolderSettings(args, self._permissions)
        self.config: Config = self._folders.config(args.cwd)
        self.layers: PromptLayers = self._folders.layers(self.config)
        self.place: str = resolve_store(args)
        # Commands of the model run as the same user, who may read this process's environment in /proc.
        hide_own_secrets(secrets_of(self.config))

    def open_engine(self) -> AbstractAsyncContextManager[Engine]:
        """Return the engine to use. It blocks. Raises `ConfigError` if no model can be used."""
        return self._engine(model_choice(self._args, self.config), Settings(on_exhausted="stop"))

    def open_worker_engine(self) -> AbstractAsyncContextManager[Engine]:
        """Return the engine of a worker, which no user watches. It blocks. Raises `ConfigError` as `open_engine` does."""
        model = model_choice(self._args, self.config)
        limits = task_limits(self._args, self.config)
        if limits.cost is not None:
            check_prices(model.models, self.config)
        settings = Settings(
            limits=headless_limits(limits, self.config),
            headless=self._permissions.unattended,
            retry=RetryPolicy(longest=_MAX_WAIT, total=_MAX_WAIT, silence=_MAX_WAIT),
            on_exhausted="stop",
        )
        return self._engine(model, settings)

    def _engine(self, model: ModelChoice, settings: Settings) -> AbstractAsyncContextManager[Engine]:
        tools = default_tools(
            self.config.sandbox, knowledge_for(self.config), self.layers, self._args.cwd, self.config.all_agents
        )
        return open_served_engine(model, self._folders, self.layers, tools, place=self.place, settings=settings)
