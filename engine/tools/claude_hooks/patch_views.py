"""A patch as Claude Code's hooks know changes: as an Edit or a Write of each file.

A hook that guards files reads `tool_input.file_path`, which a patch of several files does not have. So it is asked once
for each file that the patch touches, and the strictest of its decisions counts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar, cast

import attrs

from engine.core.errors import ToolError
from engine.core.hooks import PermissionDecision, PermissionRequested, ToolDecision, ToolUse
from engine.tools.claude_hooks.reply import BadReply
from engine.tools.edit.patch_format import AddFile, DeleteFile, Operation, UpdateFile, parse_patch

PATCH = "apply_patch"
# Each view has both names: a guard for one of these tools guards the patch.
NAMES = ("Edit", "Write")

Use = TypeVar("Use", ToolUse, PermissionRequested)
Decision = TypeVar("Decision", ToolDecision, PermissionDecision)

_STRICTNESS = ("allow", "none", "ask", "deny")


def views_of(use: Use) -> tuple[Use, ...]:
    """Return the changes of single files that a patch consists of; nothing if *use* is no valid patch."""
    if use.tool != PATCH:
        return ()
    try:
        arguments: object = json.loads(use.arguments)
        patch = cast("dict[str, object]", arguments).get("patch") if isinstance(arguments, dict) else None
        operations = parse_patch(patch) if isinstance(patch, str) else ()
    except (ValueError, RecursionError, ToolError):
        # The call itself will fail.
        return ()
    changes = [change for operation in operations for change in _changes(operation)]
    return tuple(attrs.evolve(use, tool=tool, arguments=json.dumps(fields)) for tool, fields in changes)


def _changes(operation: Operation) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield the tool that makes the same change, and its arguments, for each file."""
    match operation:
        case AddFile():
            yield "write", {"path": operation.path, "content": operation.text}
        case DeleteFile():
            # Claude Code has no tool for it: what is left of the file is nothing.
            yield "write", {"path": operation.path, "content": ""}
        case UpdateFile():
            old = "\n".join(line for chunk in operation.chunks for line in chunk.request.old)
            new = "\n".join(line for chunk in operation.chunks for line in chunk.request.new)
            for path in (operation.path, operation.moved):
                if path:
                    yield "edit", {"path": path, "old_string": old, "new_string": new}


def combine_tool(views: Sequence[ToolUse], decisions: Sequence[ToolDecision]) -> ToolDecision:
    """Return the strictest decision on the files of a patch. Raises `BadReply` if one changes its input."""
    replaced = [decision.text for decision in decisions if decision.text is not None]
    return attrs.evolve(
        _strictest(views, decisions),
        context=_joined(decision.context for decision in decisions),
        text=replaced[-1] if replaced else None,
    )


def combine_permission(
    views: Sequence[PermissionRequested], decisions: Sequence[PermissionDecision]
) -> PermissionDecision:
    """Return the strictest decision on the files of a patch. Raises `BadReply` if one changes its input."""
    return _strictest(views, decisions)


def _strictest(views: Sequence[Use], decisions: Sequence[Decision]) -> Decision:
    for view, decision in zip(views, decisions, strict=True):
        if decision.arguments is not None and json.loads(decision.arguments) != json.loads(view.arguments):
            raise BadReply("updatedInput can't be applied to one file of a patch")
    strictest = max(decisions, key=lambda decision: _STRICTNESS.index(decision.verdict))
    stopping = next((decision for decision in decisions if decision.stop), strictest)
    return attrs.evolve(
        strictest,
        arguments=None,
        stop=stopping.stop,
        stop_reason=stopping.stop_reason,
        message=_joined(decision.message for decision in decisions),
    )


def _joined(texts: Iterable[str]) -> str:
    # A hook says the same of many files.
    return "\n".join(dict.fromkeys(text for text in texts if text))
