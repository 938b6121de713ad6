"""How a sub-agent ended, as a value: for the tool that sent for it, and for whoever wants to know."""

from __future__ import annotations

from typing import Literal

import attrs

from engine.core.events import StopReason, TurnResult
from engine.core.ids import SessionId

AgentStatus = Literal["completed", "stopped", "error", "timeout", "aborted"]

_STATUS: dict[StopReason, AgentStatus] = {
    "completed": "completed",
    "aborted": "aborted",
    "deadline": "timeout",
    "rate_limited": "error",
    "auth_failed": "error",
    "provider_error": "error",
    "internal_error": "error",
}


@attrs.frozen(kw_only=True)
class AgentResult(TurnResult):
    """How a sub-agent's turn ended, and what came of it.

    Attributes:
        session_id: its session: by this it is resumed.
        changed: the files that its tools, and those of its own sub-agents, say to have changed; absolute paths.
        changes_known: whether these are all. Of a command that may change something, nobody knows.
    """

    session_id: SessionId
    changed: tuple[str, ...] = ()
    changes_known: bool = True

    @property
    def status(self) -> AgentStatus:
        """The same as `stop_reason`, in five words; "stopped": a limit, a rule, a hook or the model itself ended it early."""
        return _STATUS.get(self.stop_reason, "stopped")

    @property
    def error(self) -> str:
        """Why it did not complete; empty if it did."""
        if self.stop_reason == "completed":
            return ""
        return f"{self.stop_reason}: {self.detail}" if self.detail else self.stop_reason
