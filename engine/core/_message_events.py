"""Events of the message that a model writes: its parts as they stream in, and its tool calls."""

from __future__ import annotations

from typing import Literal

import attrs

from engine.core._event_base import ContinueReason, EventBase, SharedContext
from engine.core.ids import CallId, MessageId, PartId
from engine.core.messages import AssistantPart, Settlement

PartKind = Literal["text", "reasoning", "call", "provider"]
Verdict = Literal["allow", "ask", "deny"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PartStarted(EventBase):
    """A part of the assistant's message opens."""

    message_id: MessageId
    part_id: PartId
    kind: PartKind


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TextDelta(EventBase):
    """Live: more visible text, which begins at `offset` of its part."""

    message_id: MessageId
    part_id: PartId
    after: int
    offset: int
    text: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ReasoningDelta(EventBase):
    """Live: more thinking, which begins at `offset` of its part."""

    message_id: MessageId
    part_id: PartId
    after: int
    offset: int
    text: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ArgumentsDelta(EventBase):
    """Live: more of a call's arguments, which begin at `offset`."""

    message_id: MessageId
    part_id: PartId
    after: int
    offset: int
    text: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PartEnded(EventBase):
    """A part is whole: the concatenated deltas are its text."""

    message_id: MessageId
    part: AssistantPart


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PartReplaced(EventBase):
    """An open part begins anew: its text is empty again, and deltas follow from offset 0."""

    message_id: MessageId
    part_id: PartId


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PartDiscarded(EventBase):
    """A part is taken back: what follows replaces it."""

    message_id: MessageId
    part_id: PartId
    reason: ContinueReason | Literal["failed"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallAnnounced(EventBase):
    """The model begins to ask for a call; its arguments are being received."""

    call_id: CallId
    message_id: MessageId
    part_id: PartId
    tool: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallQueued(EventBase):
    """The arguments are whole; the call waits for its turn.

    Attributes:
        tool: the tool's own name, by whichever the model called it.
        arguments: as the model wrote them.
        mended: what was mended in them: `limit: the text "5" was taken for 5`.
    """

    call_id: CallId
    tool: str
    arguments: str
    mended: tuple[str, ...] = ()


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallJudged(EventBase):
    """Somebody had a say in whether the call may run: a hook, a rule, a person. The last say counts.

    Once it runs: in whether it may do what its tool asks for in the middle of the work.

    Attributes:
        verdict: go on, ask a person, or no.
        source: who said it: the hook's name, the rule's own words, the answer.
    """

    call_id: CallId
    verdict: Verdict
    source: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallChanged(EventBase):
    """A hook put something else in place.

    Attributes:
        kind: the arguments, or what the model reads of the result.
        text: the arguments that count from now on; or the result as it was before.
        source: the hook's name.
    """

    call_id: CallId
    kind: Literal["arguments", "result"]
    text: str
    source: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallStarted(EventBase):
    """The tool's body is entered now, after every check and permission."""

    call_id: CallId


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallProgress(EventBase):
    """Live: what a running tool says of itself."""

    call_id: CallId
    message: str
    output: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallHeartbeat(EventBase):
    """Live: the step waits for this call."""

    call_id: CallId
    tool: str
    elapsed: float
    last_progress: str
    pending_inputs: int


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallSettled(EventBase):
    """The call reached its one terminal state."""

    call_id: CallId
    settlement: Settlement


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallDelivered(EventBase):
    """The result took its place, in call order."""

    call_id: CallId


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ContextChanged(EventBase):
    """A call changed what calls share; applied in call order.

    Attributes:
        cwd: the working directory from now on.
        values: what is new or different, by name, as JSON text.
        removed: names that hold nothing any more.
    """

    call_id: CallId
    cwd: str
    values: tuple[tuple[str, str], ...] = ()
    removed: tuple[str, ...] = ()

    @classmethod
    def of(cls, call_id: CallId, before: SharedContext, after: SharedContext) -> ContextChanged:
        """Return the event that leads from one context to another."""
        old, new = dict(before.values), dict(after.values)
        return cls(
            call_id=call_id,
            cwd=after.cwd,
            values=tuple((name, value) for name, value in after.values if old.get(name) != value),
            removed=tuple(name for name in old if name not in new),
        )
