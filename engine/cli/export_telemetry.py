"""Traces and metrics of a command, if the configuration asks for them."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from engine.cli.terminal.standard_streams import print_error
from engine.journal.trace_context import joining_trace

if TYPE_CHECKING:
    from engine.config.config import Config
    from engine.journal.span_port import Telemetry


@asynccontextmanager
async def command_telemetry(config: Config, *, joins: bool = False) -> AsyncGenerator[Telemetry | None]:
    """Export what is traced in the block; None: nothing is. A checkpoint at its end if something is.

    With *joins*, turns in the block join the trace that the environment names (`TRACEPARENT`). Raises `ConfigError`.
    """
    if not config.telemetry.enabled:
        yield None
        return
    # Imported here: OpenTelemetry takes long to import, and is an extra.
    from engine.telemetry.otlp_export import exporting_telemetry

    async with exporting_telemetry(config.telemetry, os.environ, print_error) as telemetry:
        with joining_trace(os.environ if joins else {}):
            yield telemetry
