"""The wording of a permission question, for every user interface. Nothing is escaped or laid out here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from engine.core.events import PermissionAnswered, PermissionAsked

# What a call does with the permission that it needs.
_ACTIONS: Final[dict[str, str]] = {
    "bash": "run this command",
    "edit": "change this file",
    "read": "read this",
    "outside": "access this path outside of the project",
    "task": "start this sub-agent",
}
# What an approval allows in addition.
_FURTHER: Final[dict[str, str]] = {
    "edit": "Also writes",
    "read": "Also reads",
    "bash": "Also runs",
    "bash:read": "Also runs",
    "outside": "Outside the project",
    "outside:read": "Outside the project",
}
# A longer command is cut off in the line about its answer: the question has shown it.
_MAX_SUBJECT_CHARS: Final = 100


def allow_question(request: PermissionAsked) -> str:
    """Return the question itself: `Allow bash to run this command?`."""
    # Tools of the host may need permissions that the table does not have.
    action = _ACTIONS.get(request.permission, f"use the permission {request.permission}")
    if request.permission == "edit" and len(request.patterns) > 1:
        action = f"change {len(request.patterns)} files"
    return f"Allow {request.tool} to {action}?"


def further_rights(request: PermissionAsked) -> tuple[str, ...]:
    """Return what an approval allows in addition to the question: `Also writes: x.txt, y.txt`."""
    groups: dict[str, list[str]] = {}
    for right in request.rights:
        if right.permission not in {"opaque", request.permission}:
            label = _FURTHER.get(right.permission, f"Also needs {right.permission}")
            groups.setdefault(label, []).append(right.pattern)
    return tuple(f"{label}: {', '.join(dict.fromkeys(patterns))}" for label, patterns in groups.items())


def opaque_warning(request: PermissionAsked) -> str:
    """Return why the command's effects cannot be determined; empty if they can."""
    return f"Cannot analyse this command: {request.opaque}" if request.opaque else ""


def answer_text(request: PermissionAsked | None, answered: PermissionAnswered) -> str:
    """Return how a question was settled, by whom, and what asked it, as one line; *request*: None if it is unknown."""
    verdict = _verdict(answered)
    what = _subject(request, answered)
    if len(what) > _MAX_SUBJECT_CHARS:
        what = f"{what[:_MAX_SUBJECT_CHARS]}…"
    return "; ".join([f"{verdict}{f': {what}' if what else ''}", *_origin(request, answered)])


def _verdict(answered: PermissionAnswered) -> str:
    match answered.answer:
        case "once":
            return "Allowed once"
        case "always":
            return f"Allowed in this {answered.scope or 'session'}"
        case "reject":
            return "Denied"
        case "expired":
            return "Denied, as nothing was answered in time"
        case "withdrawn":
            return "Withdrawn, as its call has ended"


def _subject(request: PermissionAsked | None, answered: PermissionAnswered) -> str:
    if answered.answer == "always":
        return ", ".join(dict.fromkeys(f"{right.permission} {right.pattern}" for right in answered.allowed))
    return "" if request is None else f"{request.permission} {', '.join(request.patterns)}"


def _origin(request: PermissionAsked | None, answered: PermissionAnswered) -> Iterator[str]:
    if answered.feedback:
        yield f"instead: {answered.feedback}"
    if answered.by:
        yield f"by {answered.by}"
    if request is not None and request.rule:
        yield f"asked by {request.rule}"
