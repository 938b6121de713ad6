"""`SessionMessages`: the messages of a session as opencode has them, folded from its events. No I/O.

The same fold answers requests for messages and feeds the stream of events, so that both always agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, final

import attrs

from engine.control.opencode.documents import (
    FINISH,
    Document,
    arguments_of,
    ascending_id,
    input_part,
    milliseconds,
    model_of,
    tokens_of,
    turn_error,
)
from engine.control.opencode.history_events import events_of
from engine.core import events as ev
from engine.core.events import Durable, Live
from engine.core.ids import CallId, InputId, MessageId, PartId, SessionId, TurnId
from engine.core.messages import (
    ReasoningPart,
    TextPart,
    Usage,
)
from engine.core.schema import Json
from engine.journal.state import SessionState

_REPLIES: Final = {"once": "once", "always": "always"}
# Of a running command's output.
_MOST_OUTPUT: Final = 30_000


@attrs.define(eq=False)
class ViewedMessage:
    """A message, and its parts in order."""

    info: Document
    turn_id: TurnId | None
    parts: dict[str, Document] = attrs.field(factory=dict[str, Document])

    @property
    def document(self) -> Document:
        """The message as a request for it is answered."""
        return {"info": self.info, "parts": list(self.parts.values())}


@attrs.define(eq=False)
class _Call:
    """A call: its part, and where that is."""

    part: Document
    message: ViewedMessage
    arguments: Document = attrs.field(factory=dict[str, Json])
    started: float | None = None
    output: str = ""


@final
class SessionMessages:
    """A session's messages.

    Attributes:
        messages: by their ids, in order.
        status: what the session does.
        asked: events of questions that are open, by the id of the question.
    """

    def __init__(self, session_id: SessionId) -> None:
        """Make it of a session without events."""
        self.messages: dict[str, ViewedMessage] = {}
        self.status: Document = {"type": "idle"}
        self.asked: dict[str, Document] = {}
        self._session_id = session_id
        self._cwd = ""
        self._model = ""
        self._agent = ""
        self._inputs: dict[InputId, ViewedMessage] = {}
        self._parts: dict[PartId, tuple[ViewedMessage, Document]] = {}
        self._calls: dict[CallId, _Call] = {}
        self._steps: dict[MessageId, ViewedMessage] = {}
        self._undone: dict[TurnId, list[ViewedMessage]] = {}
        # The prompt that the model answers.
        self._prompt = ""

    def fold(self, events: Iterable[Durable]) -> None:
        """Take events whose documents nobody needs."""
        for event in events:
            self.take(event)

    def take(self, event: Durable | Live) -> list[Document]:
        """Take the next event; return what clients are changes, in order: nothing comes before what it is about."""
        return [{"type": name, "properties": properties} for name, properties in self._changes(event)]

    def current(self) -> list[Document]:
        """Return what a client must know of a running turn before it gets the events that follow."""
        changes = [("session.status", self._own(status=self.status))]
        newest = list(self.messages.values())
        ids = [str(message.info["id"]) for message in newest]
        for message in newest[ids.index(self._prompt) if self._prompt in ids else 0 :]:
            changes += self._whole(message)
        documents: list[Document] = [{"type": name, "properties": properties} for name, properties in changes]
        return documents + list(self.asked.values())

    def add_open_text(self, state: SessionState) -> None:
        """Take the text so far of parts that are not complete."""
        step = None if state.turn is None else state.turn.step
        for part in () if step is None else step.parts:
            if part.part is None and part.part_id in self._parts:
                self._parts[part.part_id][1]["text"] = part.text

    # -- events ------------------------------------------------------------------------------

    def _changes(self, event: Durable | Live) -> Iterator[tuple[str, Document]]:
        match event:
            case ev.SessionCreated():
                self._cwd, self._model, self._agent = event.context.cwd, event.model, event.agent
            case ev.ModelSwitched():
                self._model = event.model
            case ev.HistoryReplaced() if event.kind in {"fork", "import"}:
                yield from self._import(event)
            case ev.InputAdmitted():
                self._inputs[event.input_id] = self._prompted(event)
                yield from self._whole(self._inputs[event.input_id])
            case ev.InputPromoted() if event.input_id in self._inputs:
                message = self._inputs.pop(event.input_id)
                message.turn_id, self._prompt = event.turn_id, str(message.info["id"])
            case ev.InputRemoved() if event.input_id in self._inputs:
                yield from self._removed(self._inputs.pop(event.input_id))
            case ev.InputEdited() if event.input_id in self._inputs:
                self._set_input(self._inputs[event.input_id], event)
                yield from self._whole(self._inputs[event.input_id])
            case ev.PromptBlocked() if self._prompt in self.messages:
                yield from self._removed(self.messages[self._prompt])
            case _:
                yield from self._turn_changes(event)

    def _turn_changes(self, event: Durable | Live) -> Iterator[tuple[str, Document]]:
        match event:
            case ev.TurnStarted() | ev.TurnResumed():
                yield self._set_status({"type": "busy"})
            case ev.TurnEnded():
                yield from self._ended(event)
            case ev.TurnUndone():
                self._undone[event.undone] = [each for each in self.messages.values() if each.turn_id == event.undone]
                for message in self._undone[event.undone]:
                    yield from self._removed(message)
            case ev.TurnRedone():
                for message in self._undone.pop(event.redone, ()):
                    self.messages[str(message.info["id"])] = message
                    yield from self._whole(message)
            case ev.CompactionEnded() if event.outcome == "compacted":
                yield "session.compacted", self._own()
            case _:
                yield from self._step_changes(event)

    def _step_changes(self, event: Durable | Live) -> Iterator[tuple[str, Document]]:
        match event:
            case ev.StepStarted():
                if self.status["type"] == "retry":
                    yield self._set_status({"type": "busy"})
                yield from self._step_started(event)
            case ev.RetryScheduled():
                next_at = milliseconds(event.next_at)
                yield self._set_status(
                    {"type": "retry", "attempt": event.attempt, "message": event.message, "next": next_at}
                )
            case ev.StepEnded() if event.message_id in self._steps:
                yield from self._step_ended(event, self._steps[event.message_id])
            case _:
                yield from self._part_changes(event)

    def _part_changes(self, event: Durable | Live) -> Iterator[tuple[str, Document]]:
        match event:
            case ev.PartStarted() if event.kind in {"text", "reasoning"} and event.message_id in self._steps:
                part: Document = {"type": event.kind, "text": "", "time": {"start": milliseconds(event.time)}}
                yield self._add(self._steps[event.message_id], event, event.part_id, part)
            case ev.TextDelta() | ev.ReasoningDelta() if event.part_id in self._parts:
                message, part = self._parts[event.part_id]
                place = {"messageID": message.info["id"], "partID": part["id"]}
                yield "message.part.delta", self._own(**place, field="text", delta=event.text)
            case ev.PartEnded() if isinstance(event.part, TextPart | ReasoningPart) and event.part.id in self._parts:
                _, part = self._parts[event.part.id]
                part["text"], began = event.part.text, part["time"]
                part["time"] = {**(began if isinstance(began, dict) else {}), "end": milliseconds(event.time)}
                yield self._part(part, event.time)
            case ev.PartReplaced() if event.part_id in self._parts:
                _, part = self._parts[event.part_id]
                part["text"] = ""
                yield self._part(part, event.time)
            case ev.PartDiscarded() if event.part_id in self._parts:
                message, part = self._parts.pop(event.part_id)
                del message.parts[str(part["id"])]
                yield "message.part.removed", self._own(messageID=message.info["id"], partID=part["id"])
            case ev.CallAnnounced() if event.message_id in self._steps:
                state: Document = {"status": "pending", "input": {}, "raw": ""}
                tool: Document = {"type": "tool", "callID": event.call_id, "tool": event.tool, "state": state}
                yield self._add(self._steps[event.message_id], event, event.part_id, tool)
                self._calls[event.call_id] = _Call(tool, self._steps[event.message_id])
            case _:
                yield from self._question_changes(event)

    def _call_changes(self, event: Durable | Live) -> Iterator[tuple[str, Document]]:
        call = self._calls.get(getattr(event, "call_id", CallId("")))
        if call is None:
            return
        match event:
            case ev.CallQueued():
                call.part["tool"], call.arguments = event.tool, arguments_of(event.arguments)
                call.part["state"] = {"status": "pending", "input": call.arguments, "raw": event.arguments}
            case ev.CallChanged() if event.kind == "arguments":
                call.arguments = arguments_of(event.text)
                call.part["state"] = {"status": "pending", "input": call.arguments, "raw": event.text}
            case ev.CallStarted():
                call.started = event.time
                call.part["state"] = _running(call, "")
            case ev.CallProgress() if call.started is not None:
                call.output = (call.output + event.output)[-_MOST_OUTPUT:]
                call.part["state"] = _running(call, event.message)
            case ev.CallSettled():
                call.part["state"] = _settled(call, event)
            case _:
                return
        yield self._part(call.part, event.time)

    def _question_changes(self, event: Durable | Live) -> Iterator[tuple[str, Document]]:
        match event:
            case ev.PermissionAsked():
                asked: Document = {
                    "permission": event.permission,
                    "patterns": list(event.patterns),
                    "metadata": {"detail": event.detail, **({"danger": event.danger} if event.danger else {})},
                    "always": [right.pattern for offer in event.offers[:1] for right in offer.rights],
                }
                yield self._asked("permission.asked", event, asked)
            case ev.PermissionAnswered():
                self.asked.pop(event.request_id, None)
                reply = _REPLIES.get(event.answer, "reject")
                yield "permission.replied", self._own(requestID=event.request_id, reply=reply)
            case ev.QuestionAsked():
                question: Document = {
                    "question": event.question,
                    "header": event.question[:30],
                    "options": [{"label": each.label, "description": each.description} for each in event.choices],
                    "multiple": event.several,
                }
                yield self._asked("question.asked", event, {"questions": [question]})
            case ev.QuestionAnswered():
                self.asked.pop(event.request_id, None)
                if event.outcome == "answered":
                    yield "question.replied", self._own(requestID=event.request_id, answers=[list(event.answers)])
                else:
                    yield "question.rejected", self._own(requestID=event.request_id)
            case _:
                yield from self._call_changes(event)

    # -- messages ----------------------------------------------------------------------------

    def _prompted(self, event: ev.InputAdmitted) -> ViewedMessage:
        """Add a user's message. A client that has chosen the id of its message finds it again by that."""
        own = ascending_id("msg", event.message.id, event.time, event.seq or 0)
        if event.input_id.startswith("msg_") and str(event.input_id) != event.message.id:
            own = event.input_id
        info: Document = {
            "id": own,
            "sessionID": self._session_id,
            "role": "user",
            "time": {"created": milliseconds(event.time)},
            "agent": self._agent or "build",
            "model": model_of(self._model),
        }
        added = self.messages[own] = ViewedMessage(info, event.turn_id)
        self._set_input(added, event)
        return added

    def _set_input(self, viewed: ViewedMessage, event: ev.InputAdmitted | ev.InputEdited) -> None:
        message = event.message
        viewed.parts.clear()
        parts = message.parts if message.display is None else (TextPart(id=PartId("part_0"), text=message.display),)
        for number, part in enumerate(parts):
            own = ascending_id("prt", f"{message.id}{number:02}", event.time, event.seq or 0)
            viewed.parts[own] = self._placed(own, viewed, input_part(part))

    def _step_started(self, event: ev.StepStarted) -> Iterator[tuple[str, Document]]:
        message = self._steps.get(event.message_id)
        if message is None:
            message = self._answer(event)
            yield self._info(message)
            yield self._add(message, event, PartId(f"{event.message_id}0"), {"type": "step-start"})

    def _answer(self, event: ev.StepStarted) -> ViewedMessage:
        info: Document = {
            "id": ascending_id("msg", event.message_id, event.time, event.seq or 0),
            "sessionID": self._session_id,
            "role": "assistant",
            "time": {"created": milliseconds(event.time)},
            "parentID": self._prompt,
            **model_of(event.model),
            "mode": self._agent or "build",
            "agent": self._agent or "build",
            "path": {"cwd": self._cwd, "root": self._cwd},
            "cost": 0,
            "tokens": tokens_of(Usage()),
        }
        message = self._steps[event.message_id] = ViewedMessage(info, event.turn_id)
        self.messages[str(info["id"])] = message
        return message

    def _step_ended(self, event: ev.StepEnded, message: ViewedMessage) -> Iterator[tuple[str, Document]]:
        if not event.kept:
            yield from self._removed(message)
            return
        finish = FINISH[event.finish or "unknown"]
        spent: Document = {"cost": event.cost, "tokens": tokens_of(event.usage)}
        self._complete(message, event.time)
        message.info |= {"finish": finish, **spent}
        yield self._add(
            message, event, PartId(f"{event.message_id}1"), {"type": "step-finish", "reason": finish, **spent}
        )
        yield self._info(message)

    def _ended(self, event: ev.TurnEnded) -> Iterator[tuple[str, Document]]:
        """Tell the end of a turn: last of all, and once."""
        error = turn_error(event.result)
        if error is not None:
            answers = [each for each in self._steps.values() if each.turn_id == event.turn_id]
            if answers and str(answers[-1].info["id"]) in self.messages:
                self._complete(answers[-1], event.time)
                answers[-1].info["error"] = error
                yield self._info(answers[-1])
            yield "session.error", self._own(error=error)
        self.asked.clear()
        yield self._set_status({"type": "idle"})
        yield "session.idle", self._own()

    def _import(self, event: ev.HistoryReplaced) -> Iterator[tuple[str, Document]]:
        """Take the history that a session begins with, as if it had happened here."""
        for number, each in enumerate(events_of(event.messages)):
            seq = (event.seq or 0) + number
            yield from self._changes(attrs.evolve(each, time=event.time, seq=seq, turn_id=event.turn_id))

    # -- documents ---------------------------------------------------------------------------

    def _own(self, **properties: Json) -> Document:
        return {"sessionID": self._session_id, **properties}

    def _set_status(self, status: Document) -> tuple[str, Document]:
        self.status = status
        return "session.status", self._own(status=status)

    def _asked(self, name: str, event: ev.PermissionAsked | ev.QuestionAsked, asked: Document) -> tuple[str, Document]:
        call = self._calls.get(event.call_id)
        tool: Document = (
            {} if call is None else {"tool": {"messageID": call.message.info["id"], "callID": event.call_id}}
        )
        properties = {"id": event.request_id, **self._own(**asked, **tool)}
        self.asked[event.request_id] = {"type": name, "properties": properties}
        return name, properties

    def _info(self, message: ViewedMessage) -> tuple[str, Document]:
        return "message.updated", self._own(info=dict(message.info))

    def _part(self, part: Document, time: float) -> tuple[str, Document]:
        return "message.part.updated", self._own(part=dict(part), time=milliseconds(time))

    def _whole(self, message: ViewedMessage) -> Iterator[tuple[str, Document]]:
        yield self._info(message)
        created = message.info["time"]
        time = created["created"] if isinstance(created, dict) else 0
        for part in message.parts.values():
            yield "message.part.updated", self._own(part=dict(part), time=time)

    def _removed(self, message: ViewedMessage) -> Iterator[tuple[str, Document]]:
        if self.messages.pop(str(message.info["id"]), None) is not None:
            yield "message.removed", self._own(messageID=message.info["id"])

    def _complete(self, message: ViewedMessage, time: float) -> None:
        created = message.info["time"]
        assert isinstance(created, dict)
        message.info["time"] = {"completed": milliseconds(time), **created}

    def _placed(self, own: str, message: ViewedMessage, part: Document) -> Document:
        return {"id": own, "sessionID": self._session_id, "messageID": message.info["id"], **part}

    def _add(self, message: ViewedMessage, event: Durable, part_id: PartId, part: Document) -> tuple[str, Document]:
        own = ascending_id("prt", part_id, event.time, event.seq or 0)
        # Into the same object, since a call keeps its part.
        placed = self._placed(own, message, part)
        part.update(placed)
        message.parts[own] = part
        self._parts[part_id] = message, part
        return self._part(part, event.time)


def _running(call: _Call, title: str) -> Document:
    shown: Document = {"title": title} if title else {}
    metadata: Document = {"metadata": {"output": call.output}} if call.output else {}
    start = milliseconds(call.started or 0)
    return {"status": "running", "input": call.arguments, "time": {"start": start}, **shown, **metadata}


def _settled(call: _Call, event: ev.CallSettled) -> Document:
    settlement = event.settlement
    end = milliseconds(event.time)
    time: Json = {"start": end if call.started is None else milliseconds(call.started), "end": end}
    metadata: Document = arguments_of(settlement.metadata) if settlement.metadata else {}
    if settlement.status == "completed":
        title = str(call.part["tool"])
        shown: Document = {
            "output": settlement.text,
            "title": title,
            "metadata": {"failed": settlement.failed, **metadata},
        }
        return {"status": "completed", "input": call.arguments, "time": time, **shown}
    if settlement.status == "aborted":
        metadata = {"interrupted": True, "outcome_unknown": settlement.outcome_unknown, **metadata}
    return {"status": "error", "input": call.arguments, "error": settlement.text, "metadata": metadata, "time": time}
