"""Questions for permission to test with."""

from typing import Any

from engine.core.events import Offer, PermissionAsked, Right
from engine.core.ids import CallId, RequestId


def offers(*patterns: str) -> tuple[Offer, ...]:
    return tuple(Offer(rights=(Right(permission="bash", pattern=pattern),)) for pattern in patterns)


def permission_asked(request_id: str = "r", **more: Any) -> PermissionAsked:
    """A question whether bash may run `ls`, with changes."""
    facts: dict[str, Any] = {
        "tool": "bash",
        "permission": "bash",
        "patterns": ("ls",),
        "detail": "ls",
        "offers": offers("ls"),
        **more,
    }
    return PermissionAsked(request_id=RequestId(request_id), call_id=CallId("c"), **facts)
