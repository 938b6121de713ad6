"""The engine of a program that serves clients: `engine serve` and `engine acp`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager

from engine.cli.default_tools import tool_sources
from engine.cli.flags.model_flags import ModelChoice
from engine.cli.flags.permission_flags import PermissionChoice
from engine.cli.flags.store_flags import open_store
from engine.core.settings import OnExhausted, Settings
from engine.prompt.layers import PromptLayers
from engine.session.engine import Engine, open_engine
from engine.session.engine_options import ContextOptions, FileOptions, PermissionOptions, Ports
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.tools.tool import Tool


@asynccontextmanager
async def open_served_engine(
    model: ModelChoice,
    permissions: PermissionChoice,
    layers: PromptLayers,
    tools: Sequence[Tool],
    *,
    place: str,
    on_exhausted: OnExhausted = "ask",
) -> AsyncGenerator[Engine]:
    """Open the store at *place* and an engine over it. A checkpoint. Raises `ConfigError`, `StoreError`."""
    async with (
        open_store(place) as store,
        open_engine(
            model=model.models,
            config=model.config,
            tools=tools,
            settings=Settings(options=model.options, on_exhausted=on_exhausted),
            permissions=PermissionOptions(approver=permissions.policy(model.config)),
            store=store,
            context=ContextOptions(prompt=layers),
            ports=Ports(sources=tool_sources(model.config)),
            files=FileOptions(snapshots=ProjectSnapshots(left_out=(place,))),
        ) as eng,
    ):
        yield eng
