"""Claude Code's hook protocol: its events about turns, compactions and sessions."""

from __future__ import annotations

from typing import Final

from engine.core.hooks import (
    Compacted,
    Compacting,
    CompactionDecision,
    Context,
    Idling,
    Notified,
    PromptDecision,
    Prompted,
    Remark,
    RequestDecision,
    Requesting,
    SessionEnding,
    SessionStarting,
    StopDecision,
    Stopping,
)
from engine.core.messages import Message, TextPart, UserMessage
from engine.tools.claude_hooks.reply import Point, Said
from engine.tools.claude_hooks.tool_names import Json

# -- turns -----------------------------------------------------------------------------


def _prompt(reply: Said, _: Prompted) -> PromptDecision:
    if reply.objection is not None or reply.is_stop:
        why = reply.objection or reply.stop_reason or reply.reason
        return PromptDecision(verdict="block", reason=why, message=reply.message)
    return PromptDecision(context=_joined(reply), message=reply.message)


def _joined(reply: Said) -> str:
    """What is printed as plain text is for the model where a prompt or a session begins."""
    return "\n".join(parts for parts in (reply.text, reply.context) if parts)


def _stop(reply: Said, _: Stopping) -> StopDecision:
    if reply.is_stop:
        return StopDecision(verdict="prevent", reason=reply.stop_reason or reply.reason, message=reply.message)
    if reply.objection is None:
        return StopDecision(message=reply.message)
    reason = "\n".join(part for part in (reply.objection, reply.context) if part)
    return StopDecision(verdict="block", reason=reason, message=reply.message)


def _stopping(stopping: Stopping) -> Json:
    return {"stop_hook_active": stopping.already_blocked > 0, "last_assistant_message": stopping.text}


def _request(reply: Said, _: Requesting) -> RequestDecision:
    objection = reply.objection
    if objection is not None or reply.is_stop:
        return RequestDecision(stop=True, reason=objection or reply.stop_reason or reply.reason, message=reply.message)
    return RequestDecision(context=reply.context, message=reply.message)


def _requesting(requesting: Requesting) -> Json:
    request = requesting.request
    return {
        "model": request.model,
        "step": requesting.step,
        "attempt": requesting.attempt,
        "messages": len(request.transcript),
        "tools": [tool.name for tool in request.tools],
    }


# What a sub-agent is called that has no name.
_AGENT: Final = "general-purpose"

USER_PROMPT_SUBMIT: Final[Point[Prompted, PromptDecision]] = Point(
    event="UserPromptSubmit", matched=lambda _: (), told=lambda prompted: {"prompt": prompted.text}, meant=_prompt
)
REQUEST: Final[Point[Requesting, RequestDecision]] = Point(
    event="Request", matched=lambda _: (), told=_requesting, meant=_request
)
STOP: Final[Point[Stopping, StopDecision]] = Point(event="Stop", matched=lambda _: (), told=_stopping, meant=_stop)
SUBAGENT_STOP: Final[Point[Stopping, StopDecision]] = Point(
    event="SubagentStop",
    matched=lambda stopping: (stopping.agent or _AGENT,),
    told=lambda stopping: (
        _stopping(stopping) | {"agent_id": stopping.session_id, "agent_type": stopping.agent or _AGENT}
    ),
    meant=_stop,
)
TASK_COMPLETED: Final[Point[Stopping, StopDecision]] = Point(
    event="TaskCompleted",
    matched=lambda _: (),
    told=lambda stopping: _stopping(stopping) | {"task_id": stopping.session_id, "task_subject": ""},
    meant=_stop,
)


# -- compaction ------------------------------------------------------------------------


def _compaction(reply: Said, _: Compacting) -> CompactionDecision:
    if reply.objection is not None or reply.is_stop:
        why = reply.objection or reply.stop_reason or reply.reason
        return CompactionDecision(verdict="block", reason=why, message=reply.message)
    return CompactionDecision(message=reply.message, instructions=_joined(reply))


def _summary(messages: tuple[Message, ...]) -> str:
    summaries = [message for message in messages if isinstance(message, UserMessage) and message.origin == "summary"]
    return "\n".join(part.text for message in summaries[-1:] for part in message.parts if isinstance(part, TextPart))


def _how(subject: Compacting | Compacted) -> str:
    return "manual" if subject.trigger == "manual" else "auto"


PRE_COMPACT: Final[Point[Compacting, CompactionDecision]] = Point(
    event="PreCompact",
    matched=lambda compacting: (_how(compacting),),
    told=lambda compacting: {"trigger": _how(compacting), "custom_instructions": compacting.instructions},
    meant=_compaction,
)
POST_COMPACT: Final[Point[Compacted, Context]] = Point(
    event="PostCompact",
    matched=lambda compacted: (_how(compacted),),
    told=lambda compacted: {"trigger": _how(compacted), "compact_summary": _summary(compacted.messages)},
    meant=lambda said, _: Context(message=_shown(said)),
)
SESSION_START_AGAIN: Final[Point[Compacted, Context]] = Point(
    event="SessionStart",
    matched=lambda _: ("compact",),
    told=lambda _: {"source": "compact"},
    meant=lambda said, _: Context(context=_joined(said), message=_shown(said)),
)


# -- sessions --------------------------------------------------------------------------


def _shown(reply: Said) -> str:
    """What an event has to say that can block nothing: exit code 2 is for the user as well."""
    return "\n".join(message for message in (reply.blocked, reply.message) if message)


def _remark(reply: Said, _: object) -> Remark:
    return Remark(message=_shown(reply))


_SOURCES: Final = {"new": "startup", "resumed": "resume"}
_KINDS: Final = {"permission": "permission_prompt", "question": "elicitation_dialog", "recovery": "agent_needs_input"}

SESSION_START: Final[Point[SessionStarting, Context]] = Point(
    event="SessionStart",
    matched=lambda starting: (_SOURCES[starting.source],),
    told=lambda starting: {"source": _SOURCES[starting.source], "model": starting.model},
    meant=lambda said, _: Context(context=_joined(said), message=_shown(said)),
)
SESSION_END: Final[Point[SessionEnding, Remark]] = Point(
    event="SessionEnd", matched=lambda _: ("other",), told=lambda _: {"reason": "other"}, meant=_remark
)
NOTIFICATION: Final[Point[Notified, Remark]] = Point(
    event="Notification",
    matched=lambda notified: (_KINDS[notified.kind],),
    told=lambda notified: {
        "message": notified.text,
        "title": "The agent waits for you",
        "notification_type": _KINDS[notified.kind],
    },
    meant=_remark,
)
NOTIFICATION_IDLE: Final[Point[Idling, Remark]] = Point(
    event="Notification",
    matched=lambda _: ("idle_prompt",),
    told=lambda idling: {
        "message": idling.result.detail or f"The turn is over: {idling.result.stop_reason}",
        "title": "The agent is idle",
        "notification_type": "idle_prompt",
    },
    meant=_remark,
)
TEAMMATE_IDLE: Final[Point[Idling, Remark]] = Point(
    event="TeammateIdle", matched=lambda _: (), told=lambda _: {"teammate_name": "", "team_name": ""}, meant=_remark
)
