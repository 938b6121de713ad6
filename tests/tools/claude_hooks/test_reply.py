"""Claude Code's hook protocol, as values: what each event tells a command, and what its reply means."""

from __future__ import annotations

import json
from typing import Any

import attrs
import pytest

from engine.core.events import TurnResult
from engine.core.hooks import (
    Compacted,
    Compacting,
    CompactionDecision,
    Context,
    Idling,
    Notified,
    PermissionDecision,
    PermissionRequested,
    PromptDecision,
    Prompted,
    Remark,
    RequestDecision,
    Requesting,
    SessionEnding,
    SessionStarting,
    StopDecision,
    Stopping,
    ToolDecision,
    ToolUse,
)
from engine.core.ids import CallId, MessageId, PartId, RequestId, SessionId
from engine.core.llm_types import ModelRequest, ToolSchema
from engine.core.messages import CallResult, ResultsMessage, Settlement, TextPart, Transcript, UserMessage
from engine.tools.claude_hooks import call_events as calls
from engine.tools.claude_hooks import session_events as events
from engine.tools.claude_hooks.reply import MAX_CHARS, BadReply, HookOutput, HookPoint, HookReply, read

S = SessionId("ses")
HELLO = UserMessage(id=MessageId("m"), parts=(TextPart(id=PartId("p"), text="hello"),))
EDIT = ToolUse(
    session_id=S, cwd="/project", call_id=CallId("c"), tool="edit", arguments='{"path": "a.py", "old_string": "x"}'
)
BASH = ToolUse(session_id=S, cwd="/project", call_id=CallId("c"), tool="bash", arguments='{"command": "ls"}')
OK = Settlement(status="completed", text="fine")
BAD = Settlement(status="completed", text="exit code 1", failed=True)
WANTED = PermissionRequested(
    session_id=S, cwd="/project", call_id=CallId("c"), tool="bash", arguments='{"command": "ls"}', permission="bash"
)
PROMPT = Prompted(session_id=S, cwd="/project", text="hello", message=HELLO)
STOPPING = Stopping(session_id=S, cwd="/project", text="Done.", already_blocked=0)
REQUESTING = Requesting(
    session_id=S,
    cwd="/project",
    request=ModelRequest(
        model="m",
        system="",
        transcript=Transcript([HELLO]),
        tools=(ToolSchema(name="t", description="", schema="{}"),),
        max_output=1,
    ),
    step=2,
    attempt=1,
)
COMPACTING = Compacting(session_id=S, cwd="/project", trigger="full", messages=3)
IN_SHORT = UserMessage(id=MessageId("s"), parts=(TextPart(id=PartId("q"), text="they said hello"),), origin="summary")
COMPACTED = Compacted(session_id=S, cwd="/project", trigger="full", messages=(HELLO, IN_SHORT))
STARTING = SessionStarting(session_id=S, cwd="/project", source="new", model="m")
ENDING = SessionEnding(session_id=S, cwd="/project")
IDLING = Idling(session_id=S, cwd="/project", result=TurnResult(stop_reason="completed"))
NOTIFIED = Notified(session_id=S, cwd="/project", kind="permission", text="may I?", request_id=RequestId("r"))

CALL: dict[str, object] = {
    "tool_name": "Bash",
    "tool_input": {"command": "ls"},
    "tool_use_id": "c",
    "engine_tool": "bash",
}
EDITED: dict[str, object] = {
    "tool_name": "Edit",
    "tool_input": {"file_path": "/project/a.py", "old_string": "x"},
    "tool_use_id": "c",
    "engine_tool": "edit",
}
BASHED: dict[str, object] = {"success": True, "text": "fine", "stdout": "fine", "stderr": "", "interrupted": False}

TOLD: list[tuple[HookPoint[Any, Any], Any, dict[str, object]]] = [
    (calls.PRE_TOOL_USE, BASH, CALL),
    (calls.PRE_TOOL_USE, EDIT, EDITED),
    (calls.POST_TOOL_USE, attrs.evolve(BASH, settlement=OK), CALL | {"tool_response": BASHED}),
    (
        calls.POST_TOOL_USE,
        attrs.evolve(EDIT, settlement=OK),
        EDITED | {"tool_response": {"success": True, "text": "fine", "filePath": "/project/a.py"}},
    ),
    (
        calls.POST_TOOL_USE_FAILURE,
        attrs.evolve(BASH, settlement=BAD),
        CALL | {"error": "exit code 1", "is_interrupt": False},
    ),
    (calls.PERMISSION_REQUEST, WANTED, CALL | {"permission_suggestions": []}),
    (events.USER_PROMPT_SUBMIT, PROMPT, {"prompt": "hello"}),
    (events.STOP, STOPPING, {"stop_hook_active": False, "last_assistant_message": "Done."}),
    (
        events.STOP,
        attrs.evolve(STOPPING, already_blocked=2),
        {"stop_hook_active": True, "last_assistant_message": "Done."},
    ),
    (
        events.SUBAGENT_STOP,
        STOPPING,
        {
            "stop_hook_active": False,
            "last_assistant_message": "Done.",
            "agent_id": "ses",
            "agent_type": "general-purpose",
        },
    ),
    (
        events.TASK_COMPLETED,
        STOPPING,
        {"stop_hook_active": False, "last_assistant_message": "Done.", "task_id": "ses", "task_subject": ""},
    ),
    (events.REQUEST, REQUESTING, {"model": "m", "step": 2, "attempt": 1, "messages": 1, "tools": ["t"]}),
    (events.PRE_COMPACT, COMPACTING, {"trigger": "auto", "custom_instructions": ""}),
    (events.POST_COMPACT, COMPACTED, {"trigger": "auto", "compact_summary": "they said hello"}),
    (events.SESSION_START_AGAIN, COMPACTED, {"source": "compact"}),
    (events.SESSION_START, STARTING, {"source": "startup", "model": "m"}),
    (events.SESSION_START, attrs.evolve(STARTING, source="resumed"), {"source": "resume", "model": "m"}),
    (events.SESSION_END, ENDING, {"reason": "other"}),
    (
        events.NOTIFICATION,
        NOTIFIED,
        {"message": "may I?", "title": "The agent waits for you", "notification_type": "permission_prompt"},
    ),
    (
        events.NOTIFICATION_IDLE,
        IDLING,
        {"message": "The turn is over: completed", "title": "The agent is idle", "notification_type": "idle_prompt"},
    ),
    (events.TEAMMATE_IDLE, IDLING, {"teammate_name": "", "team_name": ""}),
]


@pytest.mark.parametrize(("point", "subject", "told"), TOLD, ids=lambda value: getattr(value, "event", ""))
def test_command_input(point: HookPoint[Any, Any], subject: Any, told: dict[str, object]) -> None:
    common = {"session_id": "ses", "cwd": "/project", "permission_mode": "default"}
    assert json.loads(point.payload(subject)) == common | {"hook_event_name": point.event} | told


def test_payload_is_always_utf8() -> None:
    odd = attrs.evolve(PROMPT, text="a\ud800b\U0001f600\n\0")
    assert json.loads(events.USER_PROMPT_SUBMIT.payload(odd))["prompt"] == "a\ufffdb\U0001f600\n\0"


def test_history_without_text_has_empty_summary() -> None:
    results = ResultsMessage(id=MessageId("r"), results=(CallResult(call_id=CallId("c"), tool="t", settlement=OK),))
    for messages in ((), (results,)):
        told = json.loads(events.POST_COMPACT.payload(attrs.evolve(COMPACTED, messages=messages)))
        assert told["compact_summary"] == ""


MATCHED: list[tuple[HookPoint[Any, Any], Any, tuple[str, ...] | None]] = [
    (calls.PRE_TOOL_USE, BASH, ("Bash", "bash")),
    (calls.POST_TOOL_USE, attrs.evolve(BASH, settlement=OK), ("Bash", "bash")),
    (calls.POST_TOOL_USE, attrs.evolve(BASH, settlement=BAD), None),
    (calls.POST_TOOL_USE, attrs.evolve(BASH, settlement=Settlement(status="error", text="")), None),
    (calls.POST_TOOL_USE_FAILURE, attrs.evolve(BASH, settlement=BAD), ("Bash", "bash")),
    (calls.PERMISSION_REQUEST, WANTED, ("Bash", "bash")),
    (events.USER_PROMPT_SUBMIT, PROMPT, ()),
    (events.STOP, STOPPING, ()),
    (events.SUBAGENT_STOP, STOPPING, ("general-purpose",)),
    (events.SUBAGENT_STOP, attrs.evolve(STOPPING, agent="explore"), ("explore",)),
    (events.SESSION_START, STARTING, ("startup",)),
    (events.SESSION_START, attrs.evolve(STARTING, source="resumed"), ("resume",)),
    (events.SESSION_START_AGAIN, COMPACTED, ("compact",)),
    (events.SESSION_END, ENDING, ("other",)),
    (events.PRE_COMPACT, COMPACTING, ("auto",)),
    (events.NOTIFICATION, NOTIFIED, ("permission_prompt",)),
    (events.NOTIFICATION, attrs.evolve(NOTIFIED, kind="question"), ("elicitation_dialog",)),
    (events.NOTIFICATION, attrs.evolve(NOTIFIED, kind="recovery"), ("agent_needs_input",)),
    (events.NOTIFICATION_IDLE, IDLING, ("idle_prompt",)),
]


@pytest.mark.parametrize(("point", "subject", "names"), MATCHED, ids=lambda value: getattr(value, "event", ""))
def test_matcher_subjects(point: HookPoint[Any, Any], subject: Any, names: tuple[str, ...] | None) -> None:
    assert point.matched(subject) == names


# -- a reply -------------------------------------------------------------------------------------------------


def printed(document: object, code: int = 0) -> HookOutput:
    return HookOutput(code=code, output=json.dumps(document), errors="")


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (HookOutput(code=0, output="", errors="ignored"), HookReply()),
        (HookOutput(code=0, output="  plain words \n", errors=""), HookReply(text="plain words")),
        (HookOutput(code=0, output="Shell ready\n{}", errors=""), HookReply(text="Shell ready\n{}")),
        (HookOutput(code=0, output="[1]", errors=""), HookReply(text="[1]")),
        (HookOutput(code=0, output=" {} \n", errors=""), HookReply()),
        (HookOutput(code=2, output="", errors=" not here \n"), HookReply(blocked="not here")),
        (HookOutput(code=2, output="{nonsense", errors="not here"), HookReply(blocked="not here")),
        (HookOutput(code=2, output='{"decision": "approve"}', errors="not here"), HookReply(blocked="not here")),
        (HookOutput(code=2, output="out", errors=""), HookReply(blocked="out")),
        (HookOutput(code=2, output="", errors=""), HookReply(blocked="no reason given")),
        (
            HookOutput(code=1, output='{"decision": "block"}', errors="one\ntwo"),
            HookReply(message="failed with exit code 1: one"),
        ),
        (HookOutput(code=127, output="", errors=""), HookReply(message="failed with exit code 127")),
        (printed({"continue": True, "suppressOutput": True, "unknown": 5}), HookReply()),
        (printed({"continue": False, "stopReason": "frozen"}), HookReply(is_stop=True, stop_reason="frozen")),
        (printed({"systemMessage": "mind"}), HookReply(message="mind")),
        (printed({"decision": "block", "reason": "no"}), HookReply(decision="block", reason="no")),
        (printed({"decision": None, "reason": None, "stopReason": None}), HookReply()),
        (
            printed({"hookSpecificOutput": {"hookEventName": "Stop", "additionalContext": "x"}}),
            HookReply(specific={"hookEventName": "Stop", "additionalContext": "x"}),
        ),
        (printed({"hookSpecificOutput": {"anything": 1}}), HookReply(specific={"anything": 1})),
    ],
    ids=repr,
)
def test_how_a_reply_is_read(reply: HookOutput, said: HookReply) -> None:
    assert read("Stop", reply) == said


@pytest.mark.parametrize(
    "reply",
    [
        HookOutput(code=0, output='{"decision": "block"', errors=""),
        HookOutput(code=0, output="{} {}", errors=""),
        HookOutput(code=0, output='{"a":' * 100_000, errors=""),
        printed({"continue": "no"}),
        printed({"decision": "deny"}),
        printed({"decision": {}}),
        printed({"reason": 5}),
        printed({"stopReason": []}),
        printed({"systemMessage": {}}),
        printed({"hookSpecificOutput": "x"}),
        printed({"hookSpecificOutput": {"hookEventName": "PreToolUse"}}),
    ],
    ids=lambda reply: reply.output[:40],
)
def test_invalid_object_is_an_error(reply: HookOutput) -> None:
    with pytest.raises(BadReply):
        read("Stop", reply)


def test_text_length_is_bounded() -> None:
    long = "x" * 50_000
    for reply in (HookOutput(code=2, output="", errors=long), HookOutput(code=0, output=long, errors="")):
        said = read("Stop", reply)
        assert len(said.blocked or said.text) < MAX_CHARS + 50
    assert len(read("Stop", printed({"hookSpecificOutput": {"additionalContext": long}})).context) < MAX_CHARS + 50


# -- what it means -------------------------------------------------------------------------------------------

BLOCKED = HookReply(blocked="not here")
STOPPED = HookReply(is_stop=True, stop_reason="frozen")
OBJECTS = HookReply(decision="block", reason="not yet")
ADDS = HookReply(specific={"additionalContext": "by the way"})
PLAIN = HookReply(text="by the way")
SAYS = HookReply(message="mind the gap")


def specific(**fields: object) -> HookReply:
    return HookReply(specific=fields)


MEANT: list[tuple[HookPoint[Any, Any], Any, HookReply, object]] = [
    # before a tool
    (calls.PRE_TOOL_USE, BASH, HookReply(), ToolDecision()),
    (calls.PRE_TOOL_USE, BASH, BLOCKED, ToolDecision(verdict="deny", reason="not here")),
    (calls.PRE_TOOL_USE, BASH, STOPPED, ToolDecision(stop=True, stop_reason="frozen")),
    (calls.PRE_TOOL_USE, BASH, SAYS, ToolDecision(message="mind the gap")),
    (calls.PRE_TOOL_USE, BASH, ADDS, ToolDecision(context="by the way")),
    (calls.PRE_TOOL_USE, BASH, PLAIN, ToolDecision()),
    (calls.PRE_TOOL_USE, BASH, OBJECTS, ToolDecision(verdict="deny", reason="not yet")),
    (
        calls.PRE_TOOL_USE,
        BASH,
        HookReply(decision="approve", reason="fine"),
        ToolDecision(verdict="allow", reason="fine"),
    ),
    (calls.PRE_TOOL_USE, BASH, specific(permissionDecision="allow"), ToolDecision(verdict="allow")),
    (
        calls.PRE_TOOL_USE,
        BASH,
        specific(permissionDecision="deny", permissionDecisionReason="no"),
        ToolDecision(verdict="deny", reason="no"),
    ),
    (calls.PRE_TOOL_USE, BASH, specific(permissionDecision="ask"), ToolDecision(verdict="ask")),
    (
        calls.PRE_TOOL_USE,
        BASH,
        HookReply(decision="approve", specific={"permissionDecision": "deny"}),
        ToolDecision(verdict="deny"),
    ),
    (
        calls.PRE_TOOL_USE,
        BASH,
        specific(updatedInput={"command": "ls -l", "timeout": 500}),
        ToolDecision(arguments='{"command": "ls -l", "timeout": 0.5}'),
    ),
    (
        calls.PRE_TOOL_USE,
        EDIT,
        specific(updatedInput={"file_path": "/project/a.py", "old_string": "y"}),
        ToolDecision(arguments='{"old_string": "y", "path": "a.py"}'),
    ),
    # after it
    (calls.POST_TOOL_USE, BASH, HookReply(), ToolDecision()),
    (calls.POST_TOOL_USE, BASH, BLOCKED, ToolDecision(context="not here")),
    (calls.POST_TOOL_USE, BASH, OBJECTS, ToolDecision(context="not yet")),
    (
        calls.POST_TOOL_USE,
        BASH,
        HookReply(decision="block", reason="not yet", specific={"additionalContext": "by the way"}),
        ToolDecision(context="not yet\nby the way"),
    ),
    (calls.POST_TOOL_USE, BASH, STOPPED, ToolDecision(stop=True, stop_reason="frozen")),
    (calls.POST_TOOL_USE, BASH, specific(updatedMCPToolOutput="new"), ToolDecision(text="new")),
    (calls.POST_TOOL_USE, BASH, specific(updatedToolOutput={"a": 1}), ToolDecision(text='{"a": 1}')),
    (calls.POST_TOOL_USE_FAILURE, BASH, ADDS, ToolDecision(context="by the way")),
    # permissions
    (calls.PERMISSION_REQUEST, WANTED, HookReply(), PermissionDecision()),
    (calls.PERMISSION_REQUEST, WANTED, BLOCKED, PermissionDecision(verdict="deny", reason="not here")),
    (calls.PERMISSION_REQUEST, WANTED, specific(decision={"behavior": "allow"}), PermissionDecision(verdict="allow")),
    (
        calls.PERMISSION_REQUEST,
        WANTED,
        specific(decision={"behavior": "allow", "updatedInput": {"command": "ls -l"}}),
        PermissionDecision(verdict="allow", arguments='{"command": "ls -l"}'),
    ),
    (
        calls.PERMISSION_REQUEST,
        WANTED,
        specific(decision={"behavior": "deny", "message": "no", "interrupt": True}),
        PermissionDecision(verdict="deny", reason="no", stop=True),
    ),
    # prompts
    (events.USER_PROMPT_SUBMIT, PROMPT, PLAIN, PromptDecision(context="by the way")),
    (events.USER_PROMPT_SUBMIT, PROMPT, ADDS, PromptDecision(context="by the way")),
    (events.USER_PROMPT_SUBMIT, PROMPT, BLOCKED, PromptDecision(verdict="block", reason="not here")),
    (events.USER_PROMPT_SUBMIT, PROMPT, OBJECTS, PromptDecision(verdict="block", reason="not yet")),
    (events.USER_PROMPT_SUBMIT, PROMPT, STOPPED, PromptDecision(verdict="block", reason="frozen")),
    # requests
    (events.REQUEST, REQUESTING, ADDS, RequestDecision(context="by the way")),
    (events.REQUEST, REQUESTING, PLAIN, RequestDecision()),
    (events.REQUEST, REQUESTING, BLOCKED, RequestDecision(stop=True, reason="not here")),
    (events.REQUEST, REQUESTING, STOPPED, RequestDecision(stop=True, reason="frozen")),
    # the end
    (events.STOP, STOPPING, PLAIN, StopDecision()),
    (events.STOP, STOPPING, BLOCKED, StopDecision(verdict="block", reason="not here")),
    (events.STOP, STOPPING, OBJECTS, StopDecision(verdict="block", reason="not yet")),
    (events.STOP, STOPPING, STOPPED, StopDecision(verdict="prevent", reason="frozen")),
    (
        events.STOP,
        STOPPING,
        HookReply(decision="block", reason="not yet", is_stop=True, stop_reason="frozen"),
        StopDecision(verdict="prevent", reason="frozen"),
    ),
    (events.SUBAGENT_STOP, STOPPING, OBJECTS, StopDecision(verdict="block", reason="not yet")),
    (events.TASK_COMPLETED, STOPPING, BLOCKED, StopDecision(verdict="block", reason="not here")),
    # compaction
    (events.PRE_COMPACT, COMPACTING, BLOCKED, CompactionDecision(verdict="block", reason="not here")),
    (events.PRE_COMPACT, COMPACTING, SAYS, CompactionDecision(message="mind the gap")),
    (events.POST_COMPACT, COMPACTED, BLOCKED, Context(message="not here")),
    (events.SESSION_START_AGAIN, COMPACTED, PLAIN, Context(context="by the way")),
    # sessions
    (events.SESSION_START, STARTING, PLAIN, Context(context="by the way")),
    (events.SESSION_START, STARTING, ADDS, Context(context="by the way")),
    (events.SESSION_START, STARTING, BLOCKED, Context(message="not here")),
    (events.SESSION_END, ENDING, SAYS, Remark(message="mind the gap")),
    (events.NOTIFICATION, NOTIFIED, BLOCKED, Remark(message="not here")),
    (events.NOTIFICATION_IDLE, IDLING, SAYS, Remark(message="mind the gap")),
    (events.TEAMMATE_IDLE, IDLING, HookReply(), Remark()),
]


@pytest.mark.parametrize(("point", "subject", "said", "decision"), MEANT, ids=lambda value: getattr(value, "event", ""))
def test_reply_meanings(point: HookPoint[Any, Any], subject: Any, said: HookReply, decision: object) -> None:
    assert point.read_reply(said, subject) == decision


@pytest.mark.parametrize(
    ("point", "subject", "said"),
    [
        (calls.PRE_TOOL_USE, BASH, specific(permissionDecision="defer")),
        (calls.PRE_TOOL_USE, BASH, specific(permissionDecision=True)),
        (calls.PRE_TOOL_USE, BASH, specific(updatedInput="ls")),
        (calls.PRE_TOOL_USE, BASH, specific(additionalContext=5)),
        (calls.PERMISSION_REQUEST, WANTED, specific(decision="allow")),
        (calls.PERMISSION_REQUEST, WANTED, specific(decision={"behavior": "perhaps"})),
        (calls.PERMISSION_REQUEST, WANTED, specific(decision={"behavior": "allow", "updatedInput": 5})),
    ],
)
def test_invalid_decision_is_an_error(point: HookPoint[Any, Any], subject: Any, said: HookReply) -> None:
    with pytest.raises(BadReply):
        point.read_reply(said, subject)
