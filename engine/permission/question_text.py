"""The wording of a permission question, for every user interface. Nothing is escaped or laid out here."""

from __future__ import annotations

from typing import Final

from engine.core.events import PermissionAsked

# What a call does with the permission that it needs.
_ACTIONS: Final[dict[str, str]] = {
    "bash": "run this command",
    "edit": "change this file",
    "read": "read this",
    "outside": "access this path outside of the project",
    "task": "start this sub-agent",
}


def allow_question(request: PermissionAsked) -> str:
    """Return the question itself: `Allow bash to run this command?`."""
    # Tools of the host may need permissions that the table does not have.
    action = _ACTIONS.get(request.permission, f"use the permission {request.permission}")
    return f"Allow {request.tool} to {action}?"


def further_rights(request: PermissionAsked) -> tuple[str, ...]:
    """Return the rights that an approval allows in addition to the permission in the question."""
    rights = (f"{right.permission} {right.pattern}" for right in request.rights if right.permission != "opaque")
    return tuple(right for right in rights if not right.startswith(f"{request.permission} "))


def opaque_warning(request: PermissionAsked) -> str:
    """Return why the command's effects cannot be determined; empty if they can."""
    return f"Cannot analyse this command: {request.opaque}" if request.opaque else ""
