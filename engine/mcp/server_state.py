"""What a server is doing, as the user reads it."""

from __future__ import annotations

from typing import Literal

import attrs

from engine.core.value_base import Value
from engine.mcp.tool_definition import ToolList

ServerPhase = Literal["starting", "ready", "needs_auth", "needs_approval", "failed", "stopped"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ServerState(Value):
    """The state of a server.

    Attributes:
        phase: what it is doing.
        reason: why it failed, or what is needed.
        listed: its tools, as far as they are known; while it starts, those of the last time.
        protocol: the version of the protocol that it speaks; empty: not known yet.
        title: what it calls itself.
        notes: what it sent that was of no use.
        has_resources: it has resources to read.
    """

    phase: ServerPhase = "starting"
    reason: str = ""
    listed: ToolList = ToolList()
    protocol: str = ""
    title: str = ""
    notes: tuple[str, ...] = ()
    has_resources: bool = False
