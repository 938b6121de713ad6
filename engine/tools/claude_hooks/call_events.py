"""Claude Code's hook protocol: the events of a call."""

from __future__ import annotations

import json
from typing import Final, Literal, cast

from engine.core.hooks import PermissionDecision, PermissionRequested, ToolDecision, ToolUse
from engine.core.messages import Settlement
from engine.tools.claude_hooks.patch_views import combine_permission, combine_tool, views_of
from engine.tools.claude_hooks.reply import BadReply, HookPoint, HookReply, one_of, text_of
from engine.tools.claude_hooks.tool_names import Json, arguments_of, input_of, names_of


def _of_tool(use: ToolUse | PermissionRequested) -> tuple[str, ...]:
    return names_of(use.tool)


def _call(use: ToolUse | PermissionRequested) -> Json:
    return {
        "tool_name": names_of(use.tool)[0],
        "tool_input": input_of(use.tool, use.arguments, use.cwd),
        "tool_use_id": use.call_id,
        "engine_tool": use.tool,
    }


def _has_failed(settlement: Settlement) -> bool:
    return settlement.failed or settlement.status != "completed"


def _response(use: ToolUse) -> Json:
    assert use.settlement is not None
    text, arguments = use.settlement.text, input_of(use.tool, use.arguments, use.cwd)
    response: Json = {"success": not _has_failed(use.settlement), "text": text}
    if use.tool == "bash":
        # Our tool mixes both streams, in the order in which they came.
        response |= {"stdout": text, "stderr": "", "interrupted": use.settlement.status == "aborted"}
    if "file_path" in arguments:
        response["filePath"] = arguments["file_path"]
    return response


def _failure(use: ToolUse) -> Json:
    assert use.settlement is not None
    return {"error": use.settlement.text, "is_interrupt": use.settlement.reason == "cancelled"}


def _changed(specific: Json, use: ToolUse | PermissionRequested) -> str | None:
    value = specific.get("updatedInput")
    if value is None:
        return None
    if not isinstance(value, dict):
        raise BadReply(f"updatedInput must be an object, not {value!r}")
    return arguments_of(use.tool, cast("Json", value), use.arguments, use.cwd)


# The values of `decision` before `permissionDecision` was introduced.
_OLD_VERDICTS: Final[dict[str, Literal["none", "allow", "deny"]]] = {"": "none", "approve": "allow", "block": "deny"}


def _before_tool(reply: HookReply, use: ToolUse) -> ToolDecision:
    if reply.blocked is not None:
        return ToolDecision(verdict="deny", reason=reply.blocked)
    verdict = one_of(reply.specific, "permissionDecision", "allow", "ask", "deny") or _OLD_VERDICTS[reply.decision]
    return ToolDecision(
        verdict=cast("Literal['none', 'allow', 'ask', 'deny']", verdict),
        reason=text_of(reply.specific, "permissionDecisionReason") or reply.reason,
        arguments=_changed(reply.specific, use),
        context=reply.context,
        stop=reply.is_stop,
        stop_reason=reply.stop_reason,
        message=reply.message,
    )


def _after_tool(reply: HookReply, _: ToolUse) -> ToolDecision:
    text = reply.specific.get("updatedToolOutput", reply.specific.get("updatedMCPToolOutput"))
    return ToolDecision(
        text=text if text is None or isinstance(text, str) else json.dumps(text, ensure_ascii=False),
        # The tool has run, so a block can only tell the model something.
        context="\n".join(context for context in (reply.objection, reply.context) if context),
        stop=reply.is_stop,
        stop_reason=reply.stop_reason,
        message=reply.message,
    )


def _permission(reply: HookReply, question: PermissionRequested) -> PermissionDecision:
    if reply.blocked is not None:
        return PermissionDecision(verdict="deny", reason=reply.blocked)
    value = reply.specific.get("decision", {})
    if not isinstance(value, dict):
        raise BadReply(f"the decision must be an object, not {value!r}")
    decision = cast("Json", value)
    return PermissionDecision(
        verdict=cast("Literal['none', 'allow', 'deny']", one_of(decision, "behavior", "allow", "deny") or "none"),
        reason=text_of(decision, "message"),
        arguments=_changed(decision, question),
        stop=reply.is_stop or decision.get("interrupt") is True,
        stop_reason=reply.stop_reason,
        message=reply.message,
    )


PRE_TOOL_USE: Final[HookPoint[ToolUse, ToolDecision]] = HookPoint(
    event="PreToolUse",
    matched=_of_tool,
    input=_call,
    read_reply=_before_tool,
    views=views_of,
    combine=combine_tool,
)
POST_TOOL_USE: Final[HookPoint[ToolUse, ToolDecision]] = HookPoint(
    event="PostToolUse",
    # Failed calls are an event of their own.
    matched=lambda use: None if use.settlement is None or _has_failed(use.settlement) else _of_tool(use),
    input=lambda use: _call(use) | {"tool_response": _response(use)},
    read_reply=_after_tool,
    views=views_of,
    combine=combine_tool,
)
POST_TOOL_USE_FAILURE: Final[HookPoint[ToolUse, ToolDecision]] = HookPoint(
    event="PostToolUseFailure",
    matched=_of_tool,
    input=lambda use: _call(use) | _failure(use),
    read_reply=_after_tool,
    views=views_of,
    combine=combine_tool,
)
PERMISSION_REQUEST: Final[HookPoint[PermissionRequested, PermissionDecision]] = HookPoint(
    event="PermissionRequest",
    matched=_of_tool,
    input=lambda wanted: _call(wanted) | cast("Json", {"permission_suggestions": []}),
    read_reply=_permission,
    views=views_of,
    combine=combine_permission,
)
