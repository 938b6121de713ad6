"""From the engine's events to the updates that an editor shows. Pure.

The calls of sub-agents are shown as well, after the name of the agent; what they write is not: the editor has one
conversation. Their questions are asked as those of the turn are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast

import attrs

from engine.acp.client_params import ClientCapabilities
from engine.acp.tool_calls import kind_of, locations_of, raw_input, settled_update, text_content, title_of
from engine.acp.user_questions import CallFacts
from engine.core import events as ev
from engine.core.ids import CallId, MessageId, PartId, SessionId
from engine.core.messages import AssistantMessage, ReasoningPart, ResultsMessage, TextPart, Usage, UserMessage
from engine.core.schema import Json
from engine.journal.state import SessionState

Update = dict[str, Json]

_CHUNKS: Final = frozenset({"agent_message_chunk", "agent_thought_chunk", "user_message_chunk"})
_RETRY_NOTE: Final = "\n\n[Retrying; ignore the partial answer above.]\n\n"
# Of a running command, the editor gets the end of the output.
_LIVE_CHARS: Final = 4_096
_TODOS: Final = "todos"
_COMPACTION_STATUS: Final[Mapping[ev.CompactionOutcome, str]] = {
    "compacted": "completed",
    "failed": "failed",
    "cancelled": "cancelled",
}
_PLAN_STATUS: Final[Mapping[str, str]] = {
    "pending": "pending",
    "in_progress": "in_progress",
    "completed": "completed",
}


@attrs.define
class _Call:
    """A call that the editor knows."""

    tool: str
    agent: str
    arguments: str = ""


@attrs.define(eq=False)
class SessionUpdates:
    """Translates the events of one session.

    Attributes:
        context_size: the size of a model's window, by its name.
        capabilities: what the editor knows.
        cwd: the session's folder.
        cost: returns what the session has cost so far.
    """

    context_size: Callable[[str], int]
    capabilities: ClientCapabilities
    cwd: str
    cost: Callable[[], float]
    _model: str = attrs.field(default="", init=False)
    _calls: dict[CallId, _Call] = attrs.field(factory=dict[CallId, _Call], init=False)
    _agents: dict[SessionId, str] = attrs.field(factory=dict[SessionId, str], init=False)
    # How much of each open part of text was sent.
    _compaction: str = attrs.field(default="", init=False)
    _sent: dict[PartId, int] = attrs.field(factory=dict[PartId, int], init=False)

    def facts_of(self, call_id: CallId) -> CallFacts:
        """Return the facts about a call that a question shows."""
        call = self._calls.get(call_id)
        return CallFacts(cwd=self.cwd) if call is None else CallFacts(call.arguments, self.cwd, call.agent)

    def feed(self, event: ev.Durable | ev.Live) -> list[Update]:
        """Return the updates that an event makes."""
        is_own = len(event.path) <= 1
        match event:
            case (
                ev.CallAnnounced()
                | ev.CallQueued()
                | ev.CallChanged()
                | ev.CallStarted()
                | ev.CallProgress()
                | ev.CallSettled()
            ):
                return self._call(event)
            case ev.SessionCreated():
                self._agents[event.session_id] = event.agent
            case _ if is_own:
                return self._own(event)
            case _:
                pass
        return []

    def _own(self, event: ev.Durable | ev.Live) -> list[Update]:
        match event:
            case ev.TextDelta() | ev.ReasoningDelta():
                self._sent[event.part_id] = event.offset + len(event.text)
                kind = "agent_message_chunk" if isinstance(event, ev.TextDelta) else "agent_thought_chunk"
                return [chunk(kind, event.text, event.message_id)]
            case ev.PartEnded():
                self._sent.pop(event.part.id, None)
            case ev.PartDiscarded() | ev.PartReplaced():
                # What was shown can't be taken back.
                if self._sent.pop(event.part_id, 0):
                    return [chunk("agent_message_chunk", _RETRY_NOTE, event.message_id)]
            case ev.StepStarted():
                self._model = event.model
            case ev.StepEnded():
                return [self.usage(event.usage, self._model)]
            case ev.ContextChanged():
                return self._context(event)
            case _:
                return self._remark(event)
        return []

    def _context(self, event: ev.ContextChanged) -> list[Update]:
        self.cwd = event.cwd
        todos = dict(event.values).get(_TODOS)
        return [] if todos is None else [plan(todos)]

    def usage(self, usage: Usage, model: str) -> Update:
        """Return how full the window is after a request."""
        return {
            "sessionUpdate": "usage_update",
            "used": usage.total,
            "size": self.context_size(model),
            "cost": {"amount": self.cost(), "currency": "USD"},
        }

    def _remark(self, event: ev.Durable | ev.Live) -> list[Update]:
        match event:
            case ev.SessionTitled() if event.title:
                return [{"sessionUpdate": "session_info_update", "title": event.title}]
            case ev.Notice() if self.capabilities.has_notices:
                return [{"sessionUpdate": "notice", "severity": event.level, "title": event.text}]
            case ev.RetryScheduled() if self.capabilities.has_notices:
                text = f"Retrying: {event.message}"
                return [{"sessionUpdate": "notice", "severity": "warning", "title": text}]
            case ev.CompactionStarted() if self.capabilities.has_compaction:
                self._compaction = f"compaction-{event.seq}"
                return [_compaction(self._compaction, "in_progress")]
            case ev.CompactionEnded() if self._compaction:
                key, self._compaction = self._compaction, ""
                return [_compaction(key, _COMPACTION_STATUS[event.outcome])]
            case _:
                return []

    # -- calls ------------------------------------------------------------------------------------

    def _call(
        self,
        event: (ev.CallAnnounced | ev.CallQueued | ev.CallChanged | ev.CallStarted | ev.CallProgress | ev.CallSettled),
    ) -> list[Update]:
        if isinstance(event, ev.CallAnnounced):
            new = self._calls[event.call_id] = _Call(event.tool, self._agents.get(event.session_id, ""))
            return [_announced(event.call_id, new, "pending")]
        call = self._calls.get(event.call_id)
        if call is None:  # of a turn that began before the editor opened the session
            return []
        changes = self._changes(event, call)
        return [{"sessionUpdate": "tool_call_update", "toolCallId": event.call_id, **changes}] if changes else []

    def _changes(
        self,
        event: ev.CallQueued | ev.CallChanged | ev.CallStarted | ev.CallProgress | ev.CallSettled,
        call: _Call,
    ) -> Update:
        match event:
            case ev.CallQueued():
                call.tool, call.arguments = event.tool, event.arguments
                return self._described(call)
            case ev.CallChanged(kind="arguments"):
                call.arguments = event.text
                return self._described(call)
            case ev.CallStarted():
                return {"status": "in_progress"}
            case ev.CallProgress():
                text = event.output[-_LIVE_CHARS:] or event.message
                return {"content": [text_content(text)]} if text else {}
            case ev.CallSettled():
                del self._calls[event.call_id]
                return settled_update(call.tool, event.settlement, self.cwd)
            case _:
                return {}

    def _described(self, call: _Call) -> Update:
        return {
            "title": title_of(call.tool, call.arguments, call.agent),
            "kind": kind_of(call.tool),
            "rawInput": raw_input(call.arguments),
            "locations": locations_of(call.arguments, self.cwd),
        }


def chunk(kind: str, text: str, message_id: MessageId) -> Update:
    """Return a piece of a message."""
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, "messageId": message_id}


def _compaction(key: str, status: str) -> Update:
    return {"sessionUpdate": "compaction_update", "compactionId": key, "status": status}


def plan(todos: str) -> Update:
    """Return the to-do list, which is JSON, as a plan."""
    listed = cast("dict[str, object]", json.loads(todos)).get("todos")
    entries: list[Json] = [
        {"content": todo["content"], "priority": "medium", "status": _PLAN_STATUS[todo["status"]]}
        for todo in (cast("list[dict[str, str]]", listed) if isinstance(listed, list) else [])
        if todo["status"] in _PLAN_STATUS
    ]
    return {"sessionUpdate": "plan", "entries": entries}


def merged(updates: list[Update]) -> list[Update]:
    """Return the updates with the adjacent pieces of a message as one, and of a call's output only the newest."""
    result: list[Update] = []
    for update in updates:
        last = result[-1] if result else {}
        if _is_same_text(last, update):
            text = cast("dict[str, str]", last["content"])["text"] + cast("dict[str, str]", update["content"])["text"]
            result[-1] = {**last, "content": {"type": "text", "text": text}}
        elif _is_output(last) and _is_output(update) and last["toolCallId"] == update["toolCallId"]:
            result[-1] = update
        else:
            result.append(update)
    return result


def _is_same_text(one: Update, other: Update) -> bool:
    keys = ("sessionUpdate", "messageId")
    return other["sessionUpdate"] in _CHUNKS and all(one.get(key) == other.get(key) for key in keys)


def _is_output(update: Update) -> bool:
    return update.keys() == {"sessionUpdate", "toolCallId", "content"}


def replay(state: SessionState) -> Iterator[Update]:
    """Yield the updates that show a stored conversation: messages, calls as they ended, the plan."""
    calls: dict[CallId, tuple[str, str]] = {}
    for message in state.transcript:
        match message:
            case UserMessage() if message.origin in {"user", "steer", "queue"} and message.text:
                yield chunk("user_message_chunk", message.text, message.id)
            case AssistantMessage():
                yield from _replayed_texts(message)
                calls |= {call.call_id: (call.tool, call.arguments) for call in message.calls}
            case ResultsMessage():
                yield from _replayed_results(message, calls, state.context.cwd)
            case _:
                pass
    todos = dict(state.context.values).get(_TODOS)
    if todos is not None:
        yield plan(todos)


def _replayed_texts(message: AssistantMessage) -> Iterator[Update]:
    for part in message.parts:
        match part:
            case TextPart() if part.text:
                yield chunk("agent_message_chunk", part.text, message.id)
            case ReasoningPart() if part.text:
                yield chunk("agent_thought_chunk", part.text, message.id)
            case _:
                pass


def _replayed_results(message: ResultsMessage, calls: Mapping[CallId, tuple[str, str]], cwd: str) -> Iterator[Update]:
    for result in message.results:
        tool, arguments = calls.get(result.call_id, (result.tool, ""))
        call = _Call(tool, "", arguments)
        yield {
            **_announced(result.call_id, call, "pending"),
            "rawInput": raw_input(arguments),
            "locations": locations_of(arguments, cwd),
            **settled_update(tool, result.settlement, cwd),
        }


def _announced(call_id: CallId, call: _Call, status: str) -> Update:
    return {
        "sessionUpdate": "tool_call",
        "toolCallId": call_id,
        "title": title_of(call.tool, call.arguments, call.agent),
        "kind": kind_of(call.tool),
        "status": status,
    }
