"""Claude Code's hook protocol: the events of turns, compactions and sessions."""

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
from engine.tools.claude_hooks.reply import HookPoint, HookReply
from engine.tools.claude_hooks.tool_names import Json

# -- turns -----------------------------------------------------------------------------


def _prompt(reply: HookReply, _: Prompted) -> PromptDecision:
    if reply.objection is not None or reply.is_stop:
        why = reply.objection or reply.stop_reason or reply.reason
        return PromptDecision(verdict="block", reason=why, message=reply.message)
    return PromptDecision(context=_joined(reply), message=reply.message)


def _joined(reply: HookReply) -> str:
    """Return what a hook adds for the model: at the start of prompts and sessions also plain text that it prints."""
    return "\n".join(parts for parts in (reply.text, reply.context) if parts)


def _stop(reply: HookReply, _: Stopping) -> StopDecision:
    if reply.is_stop:
        return StopDecision(verdict="prevent", reason=reply.stop_reason or reply.reason, message=reply.message)
    if reply.objection is None:
        return StopDecision(message=reply.message)
    reason = "\n".join(part for part in (reply.objection, reply.context) if part)
    return StopDecision(verdict="block", reason=reason, message=reply.message)


def _stopping(stopping: Stopping) -> Json:
    return {"stop_hook_active": stopping.already_blocked > 0, "last_assistant_message": stopping.text}


def _request(reply: HookReply, _: Requesting) -> RequestDecision:
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


# The name of sub-agents that have none. As in Claude Code.
_AGENT: Final = "general-purpose"

USER_PROMPT_SUBMIT: Final[HookPoint[Prompted, PromptDecision]] = HookPoint(
    event="UserPromptSubmit", matched=lambda _: (), input=lambda prompted: {"prompt": prompted.text}, read_reply=_prompt
)
REQUEST: Final[HookPoint[Requesting, RequestDecision]] = HookPoint(
    event="Request", matched=lambda _: (), input=_requesting, read_reply=_request
)
STOP: Final[HookPoint[Stopping, StopDecision]] = HookPoint(
    event="Stop", matched=lambda _: (), input=_stopping, read_reply=_stop
)
SUBAGENT_STOP: Final[HookPoint[Stopping, StopDecision]] = HookPoint(
    event="SubagentStop",
    matched=lambda stopping: (stopping.agent or _AGENT,),
    input=lambda stopping: (
        _stopping(stopping) | {"agent_id": stopping.session_id, "agent_type": stopping.agent or _AGENT}
    ),
    read_reply=_stop,
)
TASK_COMPLETED: Final[HookPoint[Stopping, StopDecision]] = HookPoint(
    event="TaskCompleted",
    matched=lambda _: (),
    input=lambda stopping: _stopping(stopping) | {"task_id": stopping.session_id, "task_subject": ""},
    read_reply=_stop,
)


# -- compaction ------------------------------------------------------------------------


def _compaction(reply: HookReply, _: Compacting) -> CompactionDecision:
    if reply.objection is not None or reply.is_stop:
        why = reply.objection or reply.stop_reason or reply.reason
        return CompactionDecision(verdict="block", reason=why, message=reply.message)
    return CompactionDecision(message=reply.message, instructions=_joined(reply))


def _summary(messages: tuple[Message, ...]) -> str:
    summaries = [message for message in messages if isinstance(message, UserMessage) and message.origin == "summary"]
    return "\n".join(part.text for message in summaries[-1:] for part in message.parts if isinstance(part, TextPart))


def _how(subject: Compacting | Compacted) -> str:
    return "manual" if subject.trigger == "manual" else "auto"


PRE_COMPACT: Final[HookPoint[Compacting, CompactionDecision]] = HookPoint(
    event="PreCompact",
    matched=lambda compacting: (_how(compacting),),
    input=lambda compacting: {"trigger": _how(compacting), "custom_instructions": compacting.instructions},
    read_reply=_compaction,
)
POST_COMPACT: Final[HookPoint[Compacted, Context]] = HookPoint(
    event="PostCompact",
    matched=lambda compacted: (_how(compacted),),
    input=lambda compacted: {"trigger": _how(compacted), "compact_summary": _summary(compacted.messages)},
    read_reply=lambda said, _: Context(message=_shown(said)),
)
SESSION_START_AGAIN: Final[HookPoint[Compacted, Context]] = HookPoint(
    event="SessionStart",
    matched=lambda _: ("compact",),
    input=lambda _: {"source": "compact"},
    read_reply=lambda said, _: Context(context=_joined(said), message=_shown(said)),
)


# -- sessions --------------------------------------------------------------------------


def _shown(reply: HookReply) -> str:
    """Return the message of an event that can't be blocked: the text of exit code 2 is shown to the user."""
    return "\n".join(message for message in (reply.blocked, reply.message) if message)


def _remark(reply: HookReply, _: object) -> Remark:
    return Remark(message=_shown(reply))


_SOURCES: Final = {"new": "startup", "resumed": "resume"}
_KINDS: Final = {"permission": "permission_prompt", "question": "elicitation_dialog", "recovery": "agent_needs_input"}

SESSION_START: Final[HookPoint[SessionStarting, Context]] = HookPoint(
    event="SessionStart",
    matched=lambda starting: (_SOURCES[starting.source],),
    input=lambda starting: {"source": _SOURCES[starting.source], "model": starting.model},
    read_reply=lambda said, _: Context(context=_joined(said), message=_shown(said)),
)
SESSION_END: Final[HookPoint[SessionEnding, Remark]] = HookPoint(
    event="SessionEnd", matched=lambda _: ("other",), input=lambda _: {"reason": "other"}, read_reply=_remark
)
NOTIFICATION: Final[HookPoint[Notified, Remark]] = HookPoint(
    event="Notification",
    matched=lambda notified: (_KINDS[notified.kind],),
    input=lambda notified: {
        "message": notified.text,
        "title": "The agent waits for you",
        "notification_type": _KINDS[notified.kind],
    },
    read_reply=_remark,
)
NOTIFICATION_IDLE: Final[HookPoint[Idling, Remark]] = HookPoint(
    event="Notification",
    matched=lambda _: ("idle_prompt",),
    input=lambda idling: {
        "message": idling.result.detail or f"The turn is over: {idling.result.stop_reason}",
        "title": "The agent is idle",
        "notification_type": "idle_prompt",
    },
    read_reply=_remark,
)
TEAMMATE_IDLE: Final[HookPoint[Idling, Remark]] = HookPoint(
    event="TeammateIdle",
    matched=lambda _: (),
    input=lambda _: {"teammate_name": "", "team_name": ""},
    read_reply=_remark,
)
