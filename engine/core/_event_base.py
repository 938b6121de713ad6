"""What events have in common: their base class, the context that calls share, and why a turn's loop continues."""

from __future__ import annotations

from typing import Literal, get_args

import attrs

from engine.core.ids import SessionId, TurnId
from engine.core.value_base import Value

ContinueReason = Literal[
    "next_step",
    "steered",
    "provider_retry",
    "overflow_prune_retry",
    "reactive_compact_retry",
    "output_escalate",
    "output_recover",
    "stop_hook_blocked",
    "budget_continue",
    "resume_after_break",
    "compacted",
    "provider_pause",
    "schema_repair",
    "empty_retry",
    "signature_retry",
    "model_fallback",
]
CONTINUE_REASONS: tuple[ContinueReason, ...] = get_args(ContinueReason)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SharedContext(Value):
    """The state that tool calls share and may change, in call order (C4).

    Attributes:
        cwd: the working directory.
        values: other state of tools, by name, as JSON text.
    """

    cwd: str
    values: tuple[tuple[str, str], ...] = ()

    def get(self, name: str, default: str = "") -> str:
        """Return the JSON text stored under *name*."""
        return dict(self.values).get(name, default)

    def with_value(self, name: str, value: str) -> SharedContext:
        """Return a context in which *name* holds the JSON text *value*."""
        return self.merged(self.cwd, ((name, value),))

    def without(self, name: str) -> SharedContext:
        """Return a context without *name*."""
        return self.merged(self.cwd, (), (name,))

    def merged(self, cwd: str, values: tuple[tuple[str, str], ...], removed: tuple[str, ...] = ()) -> SharedContext:
        """Return a context with these changes."""
        kept = {name: value for name, value in (*self.values, *values) if name not in removed}
        return SharedContext(cwd=cwd, values=tuple(sorted(kept.items())))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class EventBase(Value):
    """The fields of every event. The journal fills them in."""

    session_id: SessionId = SessionId("")
    turn_id: TurnId | None = None
    path: tuple[SessionId, ...] = ()
    time: float = 0.0
    seq: int | None = None
