"""A scribe: it writes valid histories into a journal, one move at a time, and knows what must come of them.

Its moves are those of a turn: what the loop, the stream parser and the ledger append, in any order that
they could. Which moves are possible next is its own book-keeping, not the fold's; so the two check each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import attrs

from engine.core.events import (
    BackgroundEnded,
    BackgroundStarted,
    CallAnnounced,
    CallChanged,
    CallDelivered,
    CallHeartbeat,
    CallJudged,
    CallProgress,
    CallQueued,
    CallSettled,
    CallStarted,
    Choice,
    CompactionEnded,
    CompactionStarted,
    ContextChanged,
    DoomDetected,
    HistoryReplaced,
    InputAdmitted,
    InputEdited,
    InputPromoted,
    InputRemoved,
    LoopContinued,
    ModelSwitched,
    Notice,
    NudgeAdded,
    PartDiscarded,
    PartEnded,
    PartKind,
    PartReplaced,
    PartStarted,
    PermissionAnswered,
    PermissionAsked,
    PromptBlocked,
    PromptSet,
    PromptUpdated,
    QuestionAnswered,
    QuestionAsked,
    RecoveryAnswered,
    RecoveryAsked,
    RecoveryKind,
    RetryScheduled,
    SessionConfigured,
    SessionCreated,
    SessionTitled,
    SharedContext,
    SnapshotTaken,
    StepEnded,
    StepReceived,
    StepStarted,
    TurnEnded,
    TurnEnding,
    TurnRedone,
    TurnResult,
    TurnResumed,
    TurnStarted,
    TurnUndone,
)
from engine.core.ids import CallId, InputId, MessageId, PartId, RequestId, SessionId, TurnId
from engine.core.messages import (
    AssistantPart,
    CallPart,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    ResultsMessage,
    Settlement,
    TextPart,
    Usage,
    UserMessage,
)
from engine.core.prompt_section import PromptSection
from engine.core.protocols import NoTrace
from engine.journal.log import Journal, TurnJournal
from engine.journal.state import OpenPart, SessionState
from engine.store.memory import MemoryStore

# Asks for one of so many: `draw(3)` is 0, 1 or 2. Hypothesis draws it, or a seeded random.
Draw = Callable[[int], int]
STATUSES: tuple[Literal["completed", "error", "denied", "aborted"], ...] = ("completed", "error", "denied", "aborted")


@attrs.define(eq=False)
class Wall:
    """A clock on the wall: it stands still, goes on, and is set back, as they do."""

    time: float = 1_000.0

    def now(self) -> float:
        return self.time


def new_journal(
    *, session_id: str = "s", parent: Journal | None = None, ring: int = 4, wall: Wall | None = None
) -> Journal:
    """Return an empty journal with a short memory."""
    own = SessionId(session_id)
    return Journal(
        session_id=own,
        path=(own,) if parent is None else (*parent.path, own),
        store=MemoryStore(epoch="e") if parent is None else parent._store,
        clock=wall or Wall(),
        trace=NoTrace(),
        parent=parent,
        ring=ring,
    )


def open_parts(state: SessionState) -> tuple[OpenPart, ...]:
    """Return the parts that are being received."""
    step = None if state.turn is None else state.turn.step
    return () if step is None else tuple(part for part in step.parts if part.part is None)


@attrs.define(eq=False)
class _Part:
    id: PartId
    kind: PartKind
    text: str = ""
    ended: bool = False


@attrs.define(eq=False)
class _Call:
    id: CallId
    part: _Part
    state: Literal["receiving", "queued", "running", "settled", "delivered"] = "receiving"


@attrs.define(eq=False)
class Scribe:
    """Writes into one journal. `possible()` names the moves that may come next; `move()` makes one.

    Attributes:
        whims: take back single parts too, whatever has become of their calls; the engine takes back whole steps,
            when every call of them has been delivered.
    """

    journal: Journal
    wall: Wall
    whims: bool = True
    count: int = 0
    turn: TurnJournal | None = None
    ended_held: bool = False
    message_id: MessageId | None = None
    steps: int = 0
    parts: list[_Part] = attrs.field(factory=list[_Part])
    calls: list[_Call] = attrs.field(factory=list[_Call])
    inbox: list[InputId] = attrs.field(factory=list[InputId])
    requests: list[RequestId] = attrs.field(factory=list[RequestId])
    recovery: RequestId | None = None
    received: bool = False
    undoable: list[tuple[TurnId, int]] = attrs.field(factory=list[tuple[TurnId, int]])
    redoable: list[tuple[TurnId, int]] = attrs.field(factory=list[tuple[TurnId, int]])
    kept: int | None = None
    summarised: tuple[Message, ...] | None = None
    asked: list[RequestId] = attrs.field(factory=list[RequestId])
    beside: list[str] = attrs.field(factory=list[str])

    # -- which --------------------------------------------------------------------------

    def possible(self) -> list[str]:
        """Return the names of the moves that may come next, in a fixed order."""
        if self.journal.seq == 0:
            return ["create"]
        found = ["admit", "switch_model", "configure"]
        if self.ended_held:
            return [*found, "release"]
        found += ["title", "end_beside" if self.beside else "work_beside"]
        found += ["edit_input", "remove_input"] if self.inbox else []
        if self.turn is None:
            found += ["start_turn"]
            found += ["begin_from"] if self.journal.seq == 1 else []
            found += ["undo"] if self.undoable else []
            found += ["restore_history"] if self.summarised is not None else []
            return [*found, *(["redo"] if self.redoable else [])]
        found += ["notice", "set_clock", "ask"]
        if self.journal.state.turn is not None and self.journal.state.turn.ending is None:
            found += ["announce_end"]
        if self.requests:
            found += ["answer"]
        found += ["ask_words", *(["answer_words"] if self.asked else [])]
        found += ["ask_recovery"] if self.recovery is None else ["answer_recovery"]
        if self.message_id is None:
            found += [
                "start_step",
                "nudge",
                "schedule_retry",
                "replace_history",
                "reject_signature",
                "pause",
                "compact",
            ]
            found += [
                "set_prompt",
                "take_snapshot",
                *(["update_prompt"] if self.journal.state.prompt is not None else []),
            ]
            found += ["promote"] if self.inbox else []
            found += ["block_prompt"] if self._prompts() else []
            found += ["end_turn", "hold_turn_end"] if not (self.requests or self.asked or self.recovery) else []
            return found
        # What goes on in a step makes the most of a turn.
        return [*found, *self._possible_in_step() * 3]

    def _possible_in_step(self) -> list[str]:
        found = [] if self.received else ["open_text", "open_reasoning", "open_call", "provider_item"]
        if self.received:
            found += ["resume"] * 4
        elif self.calls and not self._open_parts() and not self._calls("receiving"):
            found += ["receive"] * 8
        if self._open_parts():
            found += ["grow"] * 3 + ["replace"] + ["close_part"] * 3
        if self.parts and self.whims and not self.received:
            found += ["discard"]
        for state, moves in _CALL_MOVES.items():
            if self._calls(state):
                found += moves
        if self._next_to_deliver():
            found += ["deliver"]
        if not self._open_parts() and all(call.state == "delivered" for call in self.calls):
            found += ["keep_step", "drop_step"]
        return found

    def _open_parts(self) -> list[_Part]:
        return [part for part in self.parts if not part.ended]

    def _calls(self, state: str) -> list[_Call]:
        return [call for call in self.calls if call.state == state and (call.part.ended or state != "receiving")]

    def _next_to_deliver(self) -> _Call | None:
        waiting = next((call for call in self.calls if call.state != "delivered"), None)
        return waiting if waiting is not None and waiting.state == "settled" else None

    # -- one ------------------------------------------------------------------------------

    def move(self, draw: Draw) -> str:
        """Make one of the possible moves, and return its name."""
        names = self.possible()
        name = names[draw(len(names))]
        getattr(self, f"_{name}")(draw)
        return name

    def finish(self) -> None:
        """Bring what is open to its end: the step, the turn, the hold."""
        for request_id in list(self.requests):
            self._answered(request_id)
        if self.recovery is not None:
            self._answer_recovery(lambda _: 0)
        while self.asked:
            self._answer_words(lambda _: 0)
        for part in self._open_parts():
            self._end_part(part)
        for call in self.calls:
            if call.state not in {"settled", "delivered"}:
                self._settled(call, Settlement(status="aborted", text="", reason="not_executed"))
        while (settled := self._next_to_deliver()) is not None:
            self._delivered(settled)
        if self.message_id is not None:
            self._close_step(kept=True)
        if self.ended_held:
            self._release(lambda _: 0)
        elif self.turn is not None:
            self._end_turn(lambda _: 0)

    def new(self, kind: str) -> str:
        self.count += 1
        return f"{self.journal.session_id}.{kind}{self.count}"

    # -- session and input ------------------------------------------------------------------

    def _create(self, draw: Draw) -> None:
        self.journal.append(SessionCreated(context=SharedContext(cwd="/"), model="m"))

    def _user(self) -> UserMessage:
        part = TextPart(id=PartId(self.new("part")), text=self.new("said"))
        return UserMessage(id=MessageId(self.new("msg")), parts=(part, ImagePart(media_type="i", data="d")))

    def _admit(self, draw: Draw) -> None:
        input_id = InputId(self.new("input"))
        mode: tuple[Literal["steer", "queue"], ...] = ("steer", "queue")
        # What is queued belongs to no turn, whether one is running or not.
        self.journal.append(InputAdmitted(input_id=input_id, mode=mode[draw(2)], message=self._user()))
        self.inbox.append(input_id)

    def _edit_input(self, draw: Draw) -> None:
        self.journal.append(InputEdited(input_id=self.inbox[draw(len(self.inbox))], message=self._user()))

    def _remove_input(self, draw: Draw) -> None:
        removed = self.inbox.pop(draw(len(self.inbox)))
        self.journal.append(InputRemoved(input_id=removed, message_id=MessageId(self.new("m"))))

    def _promote(self, draw: Draw) -> None:
        assert self.turn is not None
        self.turn.append(InputPromoted(input_id=self.inbox.pop(draw(len(self.inbox)))))

    def _prompts(self) -> list[MessageId]:
        return [message.id for message in self.journal.state.transcript if isinstance(message, UserMessage)]

    def _block_prompt(self, draw: Draw) -> None:
        assert self.turn is not None
        prompts = self._prompts()
        self.kept = None
        self.turn.append(PromptBlocked(message_id=prompts[draw(len(prompts))], source="a hook", reason="no"))

    def _nudge(self, draw: Draw) -> None:
        assert self.turn is not None
        self.turn.append(NudgeAdded(message=self._user()))

    def _notice(self, draw: Draw) -> None:
        assert self.turn is not None
        if draw(2):
            self.turn.append(Notice(level="info", code="c", text="t"))
        else:
            self.turn.append(DoomDetected(kind="repeat", action="nudge", detail=""))

    def _set_clock(self, draw: Draw) -> None:
        self.wall.time += (1.0, 10.0, -100.0)[draw(3)]

    def _replace_history(self, draw: Draw) -> None:
        assert self.turn is not None
        messages = tuple(self.journal.state.transcript)
        kept = messages[draw(len(messages) + 1) :]
        # A history is never cut between calls and their results.
        kept = kept[1:] if kept and isinstance(kept[0], ResultsMessage) else kept
        self.turn.append(HistoryReplaced(kind="prune", messages=kept))
        self.kept = None

    def _compact(self, draw: Draw) -> None:
        assert self.turn is not None
        messages = tuple(self.journal.state.transcript)
        self.turn.append(CompactionStarted(trigger="full", messages=len(messages)))
        if not draw(3):
            self.turn.append(CompactionEnded(outcome="failed", detail="it said nothing", usage=Usage(output=1)))
            return
        tail = messages[draw(len(messages) + 1) :]
        # A history is never cut between calls and their results.
        tail = tail[1:] if tail and isinstance(tail[0], ResultsMessage) else tail
        summary = attrs.evolve(self._user(), origin="summary")
        self.turn.append(HistoryReplaced(kind="compact", messages=(summary, *tail)))
        self.turn.append(CompactionEnded(outcome="compacted", messages=1 + len(tail), usage=Usage(output=1)))
        self.kept, self.summarised = None, messages

    def _restore_history(self, draw: Draw) -> None:
        assert self.summarised is not None
        self.journal.append(HistoryReplaced(kind="restore", messages=self.summarised))
        self.summarised = None
        self.undoable.clear()
        self.redoable.clear()

    def _set_prompt(self, draw: Draw) -> None:
        assert self.turn is not None
        sections = tuple(PromptSection(name=f"n{n}", text=self.new("text")) for n in range(draw(3)))
        self.turn.append(PromptSet(sections=sections, cwd="/"))

    def _update_prompt(self, draw: Draw) -> None:
        assert self.turn is not None
        message = attrs.evolve(self._user(), origin="engine")
        section = PromptSection(name=f"n{draw(3)}", text=self.new("text"))
        self.turn.append(PromptUpdated(message=message, sections=(section,), removed=(f"n{draw(3)}",)))

    def _take_snapshot(self, draw: Draw) -> None:
        assert self.turn is not None
        self.turn.append(SnapshotTaken(step=self.steps, tree=self.new("tree")))

    def _begin_from(self, draw: Draw) -> None:
        kinds: tuple[Literal["fork", "import"], ...] = ("fork", "import")
        self.journal.append(HistoryReplaced(kind=kinds[draw(2)], messages=(self._user(),)))

    def _work_beside(self, draw: Draw) -> None:
        kinds: tuple[Literal["agent", "command"], ...] = ("agent", "command")
        work_id = self.new("work")
        self.journal.append(BackgroundStarted(work_id=work_id, kind=kinds[draw(2)], name="n", detail="d"))
        self.beside.append(work_id)

    def _end_beside(self, draw: Draw) -> None:
        self.journal.append(BackgroundEnded(work_id=self.beside.pop(draw(len(self.beside)))))

    def _title(self, draw: Draw) -> None:
        by: tuple[Literal["user", "model"], ...] = ("user", "model")
        self.journal.append(SessionTitled(title=self.new("title"), by=by[draw(2)]))

    def _ask_recovery(self, draw: Draw) -> None:
        assert self.turn is not None
        self.recovery = RequestId(self.new("req"))
        self.turn.append(RecoveryAsked(request_id=self.recovery, model="m", message="down"))

    def _answer_recovery(self, draw: Draw) -> None:
        assert self.turn is not None
        assert self.recovery is not None
        answers: tuple[RecoveryKind, ...] = ("wait", "switch", "stop", "withdrawn", "expired")
        self.turn.append(RecoveryAnswered(request_id=self.recovery, answer=answers[draw(5)], model="m2"))
        self.recovery = None

    def _ask_words(self, draw: Draw) -> None:
        assert self.turn is not None
        self.asked.append(RequestId(self.new("ask")))
        self.turn.append(
            QuestionAsked(request_id=self.asked[-1], call_id=CallId("c"), question="?", choices=(Choice(label="a"),))
        )

    def _answer_words(self, draw: Draw) -> None:
        assert self.turn is not None
        self.turn.append(QuestionAnswered(request_id=self.asked.pop(draw(len(self.asked))), outcome="declined"))

    def _switch_model(self, draw: Draw) -> None:
        self.journal.append(ModelSwitched(model=self.new("model")))

    def _configure(self, draw: Draw) -> None:
        self.journal.append(SessionConfigured(profile=("", "full")[draw(2)], by=("", "ada")[draw(2)]))

    def _reject_signature(self, draw: Draw) -> None:
        assert self.turn is not None
        self.turn.append(LoopContinued(reason="signature_retry", step=self.steps))

    def _pause(self, draw: Draw) -> None:
        assert self.turn is not None
        self.turn.append(LoopContinued(reason="provider_pause", step=self.steps))

    # -- turn and step ------------------------------------------------------------------------

    def _start_turn(self, draw: Draw) -> None:
        self.turn = TurnJournal(self.journal, TurnId(self.new("turn")))
        self.kept = len(self.journal.state.transcript)
        self.redoable.clear()
        self.turn.append(TurnStarted())
        self.steps = 0

    def _announce_end(self, draw: Draw) -> None:
        assert self.turn is not None
        self.turn.append_live(TurnEnding(cause="user", detail="", until=2.0, after=self.journal.seq))

    def _end_turn(self, draw: Draw) -> None:
        assert self.turn is not None
        self.turn.append(TurnEnded(result=TurnResult(stop_reason="completed", steps=self.steps)))
        self._note_end(self.turn.turn_id)
        self.turn = None

    def _hold_turn_end(self, draw: Draw) -> None:
        assert self.turn is not None
        self.turn.close(TurnEnded(result=TurnResult(stop_reason="completed", steps=self.steps)))
        self._note_end(self.turn.turn_id)
        self.turn, self.ended_held = None, True

    def _note_end(self, turn_id: TurnId) -> None:
        """It can be taken back, unless what was there before it has changed within it."""
        if self.kept is None:
            self.undoable.clear()
        else:
            self.undoable.append((turn_id, self.kept))

    def _undo(self, draw: Draw) -> None:
        turn_id, keep = self.undoable.pop()
        self.redoable.append((turn_id, keep))
        self.journal.append(TurnUndone(undone=turn_id, keep=keep))

    def _redo(self, draw: Draw) -> None:
        turn_id, keep = self.redoable.pop()
        self.undoable.append((turn_id, keep))
        self.journal.append(TurnRedone(redone=turn_id))

    def _receive(self, draw: Draw) -> None:
        assert self.turn is not None
        assert self.message_id is not None
        self.turn.append(
            StepReceived(
                step=self.steps,
                message_id=self.message_id,
                finish="calls",
                detail="",
                usage=Usage(input=1, output=2),
                cost=0.5,
            )
        )
        self.received = True

    def _resume(self, draw: Draw) -> None:
        assert self.turn is not None
        self.turn.append(TurnResumed())
        self.requests.clear()
        self.asked.clear()
        self.recovery = None
        for call in self._calls("running"):
            call.state = "queued"

    def _release(self, draw: Draw) -> None:
        held = next(event for event in reversed(self.journal.events()) if isinstance(event, TurnEnded))
        changed = attrs.evolve(held, result=attrs.evolve(held.result, durable=False))
        self.journal.release(changed if draw(2) else None)
        self.ended_held = False

    def _schedule_retry(self, draw: Draw) -> None:
        assert self.turn is not None
        self.turn.append(LoopContinued(reason="provider_retry", step=self.steps))
        self.turn.append(RetryScheduled(attempt=1, message="overloaded", next_at=2.0))

    def _start_step(self, draw: Draw) -> None:
        assert self.turn is not None
        self.steps += 1
        self.message_id = MessageId(self.new("msg"))
        self.turn.append(StepStarted(step=self.steps, attempt=1, message_id=self.message_id, model="m"))

    def _keep_step(self, draw: Draw) -> None:
        self._close_step(kept=True)

    def _drop_step(self, draw: Draw) -> None:
        for part in list(self.parts):
            self._discarded(part)
        self._close_step(kept=False)

    def _close_step(self, *, kept: bool) -> None:
        assert self.turn is not None
        assert self.message_id is not None
        self.turn.append(
            StepEnded(
                step=self.steps,
                message_id=self.message_id,
                results_id=MessageId(self.new("msg")),
                finish="stop",
                usage=Usage(input=1, output=2),
                cost=0.5,
                kept=kept,
            )
        )
        self.message_id = None
        self.received = False
        self.parts.clear()
        self.calls.clear()

    # -- parts ----------------------------------------------------------------------------------

    def _open(self, kind: PartKind) -> _Part:
        assert self.turn is not None
        assert self.message_id is not None
        part = _Part(PartId(self.new("part")), kind)
        self.turn.append(PartStarted(message_id=self.message_id, part_id=part.id, kind=kind))
        self.parts.append(part)
        return part

    def _open_text(self, draw: Draw) -> None:
        self._open("text")

    def _open_reasoning(self, draw: Draw) -> None:
        self._open("reasoning")

    def _open_call(self, draw: Draw) -> None:
        assert self.turn is not None
        assert self.message_id is not None
        part = self._open("call")
        call = _Call(CallId(self.new("call")), part)
        self.turn.append(CallAnnounced(call_id=call.id, message_id=self.message_id, part_id=part.id, tool="t"))
        self.calls.append(call)

    def _provider_item(self, draw: Draw) -> None:
        self._end_part(self._open("provider"))

    def _grow(self, draw: Draw) -> None:
        assert self.turn is not None
        part = self._open_parts()[draw(len(self._open_parts()))]
        text = "abcdefgh"[: 1 + draw(4)]
        self.turn.append_delta(part.id, text, self.wall.now())
        part.text += text

    def _replace(self, draw: Draw) -> None:
        assert self.turn is not None
        assert self.message_id is not None
        part = self._open_parts()[draw(len(self._open_parts()))]
        self.turn.append(PartReplaced(message_id=self.message_id, part_id=part.id))
        part.text = ""

    def _discard(self, draw: Draw) -> None:
        self._discarded(self.parts[draw(len(self.parts))])

    def _discarded(self, part: _Part) -> None:
        assert self.turn is not None
        assert self.message_id is not None
        self.turn.append(PartDiscarded(message_id=self.message_id, part_id=part.id, reason="failed"))
        self.parts.remove(part)
        self.calls = [call for call in self.calls if call.part is not part]

    def _close_part(self, draw: Draw) -> None:
        self._end_part(self._open_parts()[draw(len(self._open_parts()))])

    def _end_part(self, part: _Part) -> None:
        assert self.turn is not None
        assert self.message_id is not None
        self.turn.append(PartEnded(message_id=self.message_id, part=self._value(part)))
        part.ended = True

    def _value(self, part: _Part) -> AssistantPart:
        match part.kind:
            case "text":
                return TextPart(id=part.id, text=part.text)
            case "reasoning":
                return ReasoningPart(id=part.id, text=part.text, model="m")
            case "provider":
                return ProviderPart(id=part.id, kind="k", data="d")
            case "call":
                call = next(call for call in self.calls if call.part is part)
                # One that is refused while it is received did not arrive whole.
                return CallPart(
                    id=part.id, call_id=call.id, tool="t", arguments=part.text, complete=len(part.text) % 4 < 3
                )

    # -- calls ------------------------------------------------------------------------------------

    def _one(self, state: str, draw: Draw) -> _Call:
        found = self._calls(state)
        return found[draw(len(found))]

    def _queue(self, draw: Draw) -> None:
        assert self.turn is not None
        call = self._one("receiving", draw)
        self.turn.append(CallQueued(call_id=call.id, tool="t", arguments=call.part.text))
        call.state = "queued"

    def _judge(self, draw: Draw) -> None:
        assert self.turn is not None
        call = self._one("queued", draw)
        if draw(2):
            self.turn.append(CallJudged(call_id=call.id, verdict="ask", source="a rule"))
        else:
            self.turn.append(CallChanged(call_id=call.id, kind="arguments", text="{}", source="a hook"))

    def _start(self, draw: Draw) -> None:
        assert self.turn is not None
        call = self._one("queued", draw)
        self.turn.append(CallStarted(call_id=call.id))
        call.state = "running"

    def _watch(self, draw: Draw) -> None:
        assert self.turn is not None
        call = self._one("running", draw)
        if draw(2):
            self.turn.append_live(CallProgress(call_id=call.id, message="half"))
        else:
            beat = CallHeartbeat(call_id=call.id, tool="t", elapsed=1.0, last_progress="half", pending_inputs=0)
            self.turn.append_live(beat)

    def _refuse(self, draw: Draw) -> None:
        self._settled(self._one("receiving", draw), Settlement(status="error", text="cut off"))

    def _cancel(self, draw: Draw) -> None:
        self._settled(self._one("queued", draw), Settlement(status="aborted", text="", reason="not_executed"))

    def _settle(self, draw: Draw) -> None:
        self._settled(self._one("running", draw), Settlement(status=STATUSES[draw(4)], text=self.new("result")))

    def _settled(self, call: _Call, settlement: Settlement) -> None:
        assert self.turn is not None
        self.turn.append(CallSettled(call_id=call.id, settlement=settlement))
        call.state = "settled"

    def _modify(self, draw: Draw) -> None:
        assert self.turn is not None
        before = self.journal.state.context
        after = before.merged(f"/{self.new('dir')}", ((f"v{draw(3)}", self.new("value")),), (f"v{draw(3)}",))
        self.turn.append(ContextChanged.of(self._one("settled", draw).id, before, after))

    def _deliver(self, draw: Draw) -> None:
        call = self._next_to_deliver()
        assert call is not None
        self._delivered(call)

    def _delivered(self, call: _Call) -> None:
        assert self.turn is not None
        self.turn.append(CallDelivered(call_id=call.id))
        call.state = "delivered"

    # -- questions -----------------------------------------------------------------------------------

    def _ask(self, draw: Draw) -> None:
        assert self.turn is not None
        request_id = RequestId(self.new("ask"))
        asked = PermissionAsked(request_id=request_id, call_id=CallId("c"), tool="t", permission="p", patterns=())
        self.turn.append(asked)
        self.requests.append(request_id)

    def _answer(self, draw: Draw) -> None:
        self._answered(self.requests[draw(len(self.requests))])

    def _answered(self, request_id: RequestId) -> None:
        assert self.turn is not None
        self.turn.append(PermissionAnswered(request_id=request_id, answer="once"))
        self.requests.remove(request_id)


_CALL_MOVES: dict[str, list[str]] = {
    "receiving": ["queue", "refuse"],
    "queued": ["judge", "start", "cancel"],
    "running": ["watch", "settle"],
    "settled": ["modify"],
}
