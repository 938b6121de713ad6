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
    """A part is complete. Its text is all of its deltas in order."""

    message_id: MessageId
    part: AssistantPart


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PartReplaced(EventBase):
    """An open part starts over: its text is empty again, and deltas follow from offset 0."""

    message_id: MessageId
    part_id: PartId


@attrs.frozen(kw_only=True, eq=False, repr=False)
class PartDiscarded(EventBase):
    """A part is withdrawn. What follows replaces it."""

    message_id: MessageId
    part_id: PartId
    reason: ContinueReason | Literal["failed"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallAnnounced(EventBase):
    """The model started to write a tool call. Its arguments are being received."""

    call_id: CallId
    message_id: MessageId
    part_id: PartId
    tool: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallQueued(EventBase):
    """The arguments are complete, and the call waits to be run.

    Attributes:
        tool: the registered name of the tool; the model may have used an alias.
        arguments: as the model wrote them.
        mended: repairs that were made in them: `limit: the text "5" was taken for 5`.
        safe: whether it may run at the same time as other safe calls, or runs alone; None: from an engine that did not
            record it.
    """

    call_id: CallId
    tool: str
    arguments: str
    mended: tuple[str, ...] = ()
    safe: bool | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallJudged(EventBase):
    """A hook, a rule or the user decided whether the call may run. The last decision counts.

    After `CallStarted`, the decision is about a permission that the tool asked for while it ran.

    Attributes:
        verdict: run it, ask the user, or refuse it.
        source: the hook's name, the text of the rule, or the answer.
    """

    call_id: CallId
    verdict: Verdict
    source: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallChanged(EventBase):
    """A hook replaced the arguments, or the text of the result.

    Attributes:
        kind: which of the two.
        text: the new arguments; or the result before the change.
        source: the hook's name.
    """

    call_id: CallId
    kind: Literal["arguments", "result"]
    text: str
    source: str


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallStarted(EventBase):
    """The tool's body starts. All checks and permissions come before this.

    Attributes:
        traceparent: the span that stands for the call, as W3C writes it; empty: the call is not traced.
    """

    call_id: CallId
    traceparent: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallProgress(EventBase):
    """Live: the progress that a running tool reports."""

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
    """The call ended. Each call is settled exactly once."""

    call_id: CallId
    settlement: Settlement


@attrs.frozen(kw_only=True, eq=False, repr=False)
class CallDelivered(EventBase):
    """The result was added to the results message, in call order."""

    call_id: CallId


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ContextChanged(EventBase):
    """A call changed the shared context. Changes are applied in call order.

    Attributes:
        cwd: the new working directory.
        values: new and changed values, by name, as JSON text.
        removed: the names of removed values.
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
