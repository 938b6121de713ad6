"""How a sub-agent ended, as a value: for the tool that started it, and for hosts."""

from __future__ import annotations

from typing import Literal

import attrs

from engine.core.events import StopReason, TurnResult
from engine.core.ids import SessionId

AgentStatus = Literal["completed", "stopped", "error", "timeout", "aborted"]

# Everything else is "stopped".
_STATUS: dict[StopReason, AgentStatus] = {
    "completed": "completed",
    "aborted": "aborted",
    "deadline": "timeout",
    "rate_limited": "error",
    "auth_failed": "error",
    "provider_error": "error",
    "internal_error": "error",
}


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AgentResult(TurnResult):
    """How a sub-agent's turn ended, and what it changed.

    Attributes:
        session_id: its session; pass it to continue with the sub-agent.
        changed: absolute paths of the files that its tools, and those of its own sub-agents, report as changed.
        changes_known: whether `changed` is complete. It isn't after a command that may change files.
    """

    session_id: SessionId
    changed: tuple[str, ...] = ()
    changes_known: bool = True

    @property
    def status(self) -> AgentStatus:
        """`stop_reason` in five words; "stopped" if a limit, a rule, a hook or the model itself ended it early."""
        return _STATUS.get(self.stop_reason, "stopped")

    @property
    def error(self) -> str:
        """Why it did not complete; empty if it did."""
        if self.stop_reason == "completed":
            return ""
        return f"{self.stop_reason}: {self.detail}" if self.detail else self.stop_reason
