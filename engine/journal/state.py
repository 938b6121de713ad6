"""The state of a session, as folded from its events."""

from __future__ import annotations

from typing import Literal, TypeVar

import attrs

from engine.core.events import (
    BackgroundKind,
    Ending,
    InputMode,
    PartKind,
    PermissionAsked,
    QuestionAsked,
    RecoveryAsked,
    SharedContext,
    TurnResult,
)
from engine.core.ids import CallId, InputId, MessageId, PartId, RequestId, SessionId, TurnId
from engine.core.messages import AssistantPart, FinishReason, Message, Settlement, Transcript, Usage, UserMessage
from engine.core.prompt_section import PromptSection
from engine.core.value_base import Value
from engine.journal.position import Position

CallState = Literal["receiving", "queued", "running", "settled", "delivered"]


@attrs.frozen(eq=False, repr=False)
class Idle(Value):
    """No turn is running."""


@attrs.frozen(eq=False, repr=False)
class Busy(Value):
    """A turn is running that step."""

    step: int


@attrs.frozen(eq=False, repr=False)
class Retry(Value):
    """A failed request waits to be sent again."""

    attempt: int
    message: str
    next_at: float


@attrs.frozen(eq=False, repr=False)
class Waiting(Value):
    """A question is waiting for an answer."""

    request_ids: tuple[RequestId, ...]


Status = Idle | Busy | Retry | Waiting


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PendingInput(Value):
    """Input that was admitted and has no place in the transcript yet."""

    input_id: InputId
    mode: InputMode
    message: UserMessage


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class OpenPart(Value):
    """A part of the open message; `part` once it has ended."""

    part_id: PartId
    kind: PartKind
    text: str = ""
    part: AssistantPart | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class OpenCall(Value):
    """A call of the open step."""

    call_id: CallId
    part_id: PartId
    tool: str
    state: CallState
    arguments: str = ""
    settlement: Settlement | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Received(Value):
    """A complete answer whose step waits for the user. See `StepReceived`."""

    finish: FinishReason | None
    detail: str
    usage: Usage
    cost: float
    prefix_broken_at: str


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class OpenStep(Value):
    """The step under way: its message is not in the transcript yet.

    Attributes:
        received: its complete answer, if the step waits for the user; else None.
    """

    step: int
    attempt: int
    message_id: MessageId
    model: str
    parts: tuple[OpenPart, ...] = ()
    calls: tuple[OpenCall, ...] = ()
    received: Received | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class OpenTurn(Value):
    """The turn under way.

    Attributes:
        requests: permissions that are asked for.
        questions: what tools ask the user.
        recovery: the question how to go on after a failed request, while it is open.
        ending: what ends it; None: it goes on, or finishes by itself.
    """

    turn_id: TurnId
    step: OpenStep | None = None
    requests: tuple[RequestId, ...] = ()
    questions: tuple[RequestId, ...] = ()
    recovery: RequestId | None = None
    retry: Retry | None = None
    steps: int = 0
    ending: Ending | None = None

    @property
    def waiting(self) -> tuple[RequestId, ...]:
        """The ids of all open questions."""
        return (*self.requests, *self.questions, *(() if self.recovery is None else (self.recovery,)))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class UndoneTurn(Value):
    """A turn that was undone and can be redone.

    Attributes:
        turn_id: the turn.
        keep: so many of the first messages of the transcript were there before and after.
        messages: those of the turn, which followed them.
    """

    turn_id: TurnId
    keep: int
    messages: tuple[Message, ...]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptUpdate(Value):
    """A change of the prompt, of which a message informed the model.

    Attributes:
        message_id: the message.
        sections: the changed sections.
        removed: what holds no longer, by name.
        is_held: the message is in the transcript. The model does not know of one that is not.
    """

    message_id: MessageId
    sections: tuple[PromptSection, ...] = ()
    removed: tuple[str, ...] = ()
    is_held: bool = True


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PromptState(Value):
    """The beginning of requests, and the later changes that messages informed the model of.

    Attributes:
        sections: the baseline.
        cwd: the folder that it was made for.
        project: the project whose own files may be read for it.
        updates: the changes since then, the oldest first.
        is_outdated: the history was compacted since: the next request has a new baseline.
    """

    sections: tuple[PromptSection, ...]
    cwd: str
    project: str = ""
    updates: tuple[PromptUpdate, ...] = ()
    is_outdated: bool = False

    @property
    def text(self) -> str:
        """What requests begin with."""
        return "\n\n".join(section.text for section in self.sections)

    @property
    def section_texts(self) -> dict[str, PromptSection]:
        """All sections as the model knows them, by name."""
        by_name = {section.name: section for section in self.sections}
        for update in self.updates:
            if update.is_held:
                by_name = {name: section for name, section in by_name.items() if name not in update.removed}
                by_name |= {section.name: section for section in update.sections}
        return by_name


@attrs.frozen(kw_only=True, eq=False, repr=False)
class BackgroundWork(Value):
    """A piece of background work. See `BackgroundStarted`."""

    work_id: str
    kind: BackgroundKind
    name: str
    detail: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CountedRequest(Value):
    """The tokens of the newest request, as its host counted them.

    Attributes:
        messages: how many messages of the transcript it had, from the first one on.
    """

    usage: Usage
    messages: int


@attrs.frozen(kw_only=True, eq=False, repr=False, slots=False)
class SessionState(Value):
    """The state of a session after its last event.

    Attributes:
        title: set by the user or by a model; empty: by neither.
        titled_by: by which of them.
        agent: the name of its agent; empty: the default one.
        forked_from: the session that it was forked from.
        profile: the permission profile that was selected for it; empty: the engine's.
        profile_by: who selected it. See `SessionConfigured`.
        prompt: the beginning of requests; None: the system prompt of the settings.
        reasoning_from: messages before this index are sent without reasoning, which the host has rejected.
        undone: the turns that can be redone, the next one last.
        counted: the newest request that a host has counted; None: there is none for this history.
        background: the background work that runs, or ran when its engine ended.
    """

    session_id: SessionId = SessionId("")
    seq: int = 0
    title: str = ""
    titled_by: Literal["", "user", "model"] = ""
    model: str = ""
    agent: str = ""
    parent_id: SessionId | None = None
    forked_from: SessionId | None = None
    profile: str = ""
    profile_by: str = ""
    context: SharedContext = SharedContext(cwd="")
    prompt: PromptState | None = None
    transcript: Transcript = attrs.field(factory=Transcript)
    reasoning_from: int = 0
    inbox: tuple[PendingInput, ...] = ()
    turn: OpenTurn | None = None
    last_result: TurnResult | None = None
    turns: int = 0
    undone: tuple[UndoneTurn, ...] = ()
    background: tuple[BackgroundWork, ...] = ()
    usage: Usage = attrs.field(factory=Usage)
    cost: float = 0.0
    counted: CountedRequest | None = None

    @property
    def status(self) -> Status:
        """The status of the session, as a tagged union."""
        if self.turn is None:
            return Idle()
        if waiting := self.turn.waiting:
            return Waiting(waiting)
        if self.turn.retry is not None:
            return self.turn.retry
        return Busy(self.turn.steps)


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Descendant(Value):
    """A sub-agent's session that is open.

    Attributes:
        state: its state; open parts hold the text received so far.
        depth: how many levels it is below the session that was asked about; at least 1.
        call_id: the call, in the session above it, that started its turn.
    """

    state: SessionState
    depth: int
    call_id: CallId | None = None


OpenQuestion = PermissionAsked | QuestionAsked | RecoveryAsked


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Resync(Value):
    """A session and its open sub-agents at one instant: what a cursor returns if it can't continue from its position.

    The client discards what it has of this session and its sub-agents, and continues from here.

    Attributes:
        epoch: the life of the store.
        seq: the number of the session's last event.
        state: its state; open parts hold the text received so far.
        descendants: the sub-agents whose sessions are open, each after the one above it.
        open_questions: what they all ask, the oldest first; also what a parked turn asks.
        position: where the cursor is after it; None: from an engine that does not tell.
    """

    session_id: SessionId
    epoch: str
    seq: int
    state: SessionState
    descendants: tuple[Descendant, ...] = ()
    open_questions: tuple[OpenQuestion, ...] = ()
    position: Position | None = None


S = TypeVar("S", OpenPart, OpenCall, OpenStep, OpenTurn, SessionState)


def copy_with(state: S, /, **changes: object) -> S:
    """Return a copy of *state* with changed fields, as `attrs.evolve` does, but without its cost.

    Each event changes three or four of these values. They have no slots, so that a copy is one of a dictionary.
    """
    copy = object.__new__(type(state))
    copy.__dict__.update(state.__dict__, **changes)
    assert len(copy.__dict__) == len(state.__dict__), f"no field of {type(state).__name__}: one of {', '.join(changes)}"
    return copy
