"""The record of one answer: the commands of the stream parser become parts in the journal.

All of it is synchronous. A batch is in the journal before the reader receives the next one, so a cancel finds all of a
batch or nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, assert_never

import attrs

from engine.core.events import ContinueReason, PartDiscarded, PartEnded, PartReplaced, PartStarted
from engine.core.ids import CallId, MessageId, PartId
from engine.core.llm_types import StreamEvent
from engine.core.messages import CallPart, ProviderPart, ReasoningPart, TextPart
from engine.core.protocols import WallClock
from engine.journal.log import TurnJournal
from engine.journal.state import OpenPart
from engine.nursery.stream_parser import (
    CloseBlock,
    CloseCall,
    CloseItem,
    Command,
    Grow,
    OpenBlock,
    Restart,
    StreamParser,
)

OnCallClosed = Callable[[CloseCall, str], None]


@attrs.define(eq=False, repr=False, kw_only=True)
class AnswerRecord:
    """The parts of one answer.

    Attributes:
        model: the name of the model that answers; thinking and provider items can be sent back to no other.
        has_content: whether the answer has anything but thinking.
        has_hosted_work: whether the provider ran tools of its own for it.
        ends_with_call: whether a call is the last that has come so far.
    """

    _journal: TurnJournal = attrs.field(alias="journal")
    _clock: WallClock = attrs.field(alias="clock")
    _parser: StreamParser = attrs.field(alias="parser")
    _message_id: MessageId = attrs.field(alias="message_id")
    model: str
    _on_call_opened: Callable[[CallId, PartId, str], None] = attrs.field(alias="on_call_opened")
    has_content: bool = attrs.field(default=False, init=False)
    has_hosted_work: bool = attrs.field(default=False, init=False)
    ends_with_call: bool = attrs.field(default=False, init=False)
    _is_over: bool = attrs.field(default=False, init=False)
    _has_calls: bool = attrs.field(default=False, init=False)
    _parts: list[PartId] = attrs.field(factory=list[PartId], init=False)
    _texts: list[str] = attrs.field(factory=list[str], init=False)

    @property
    def text(self) -> str:
        """The visible text of the answer."""
        return "".join(self._texts)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing in the answer for a reader: no word, no call, no work of the provider's."""
        return not (self._has_calls or self.has_hosted_work or _is_visible(self.text))

    @property
    def may_be_refused(self) -> bool:
        """Whether the next thing to come may be that the model, or its host's filter, takes the last call back.

        A refusal comes right behind the call, in a chunk of its own. So a call that changes something waits until
        another block begins or the answer ends, which costs it next to nothing.
        """
        return self.ends_with_call and self._parser.finish is None and not self._is_over

    @property
    def last_text(self) -> str:
        """The last block of the visible text."""
        return self._texts[-1] if self._texts else ""

    def feed(self, batch: Sequence[StreamEvent], on_call_closed: OnCallClosed) -> None:
        """Record what was received. Not a checkpoint."""
        # Passed along and not kept: the step keeps this record, and a cycle of both would stay until a collection.
        self._carry_out(self._parser.feed(batch), on_call_closed)

    def end(self, on_call_closed: OnCallClosed) -> None:
        """Close the parts that are still open. Not a checkpoint."""
        self._carry_out(self._parser.end(), on_call_closed)
        self._is_over = True

    def restore(self, parts: Iterable[OpenPart]) -> None:
        """Take the parts from the record of an earlier engine. No event. Not a checkpoint."""
        self._is_over = True
        for part in parts:
            self._parts.append(part.part_id)
            if isinstance(part.part, TextPart):
                self._texts.append(part.text)
            # As `_close_block` and its like have counted them in the engine that received them.
            self.has_content = self.has_content or (part.kind != "reasoning" and bool(part.text or part.kind == "call"))
            self.has_hosted_work = self.has_hosted_work or part.kind == "provider"
            self._has_calls = self._has_calls or part.kind == "call"

    def discard(self, reason: ContinueReason | Literal["failed"]) -> None:
        """Take all parts back: clients have shown them, but they don't enter the transcript. Not a checkpoint."""
        for part_id in self._parts:
            self._journal.append(PartDiscarded(message_id=self._message_id, part_id=part_id, reason=reason))

    def _carry_out(self, commands: Iterable[Command], on_call_closed: OnCallClosed) -> None:
        # One reading of the clock for a batch: deltas arrive by the thousand.
        now = self._clock.now()
        for command in commands:
            match command:
                case Grow():
                    self._journal.append_delta(command.part_id, command.text, now)
                case OpenBlock():
                    self._open(command)
                case Restart():
                    self._journal.append(PartReplaced(message_id=self._message_id, part_id=command.part_id))
                case CloseBlock():
                    self._close_block(command)
                case CloseCall():
                    # After the part's end: the model's words come before what becomes of them, also in a record that is
                    # cut short.
                    on_call_closed(command, self._close_call(command))
                case CloseItem():
                    self.has_content = self.has_hosted_work = True
                    self._end_part(
                        ProviderPart(id=command.part_id, kind=command.kind, data=command.data, model=self.model)
                    )
                case _:
                    assert_never(command)

    def _open(self, command: OpenBlock) -> None:
        # Kept from its start on: a step that is taken back discards the parts that were cut off, too.
        self._parts.append(command.part_id)
        self.ends_with_call = command.kind == "call"
        self._has_calls = self._has_calls or self.ends_with_call
        self._journal.append(PartStarted(message_id=self._message_id, part_id=command.part_id, kind=command.kind))
        if command.call_id is not None:
            self._on_call_opened(command.call_id, command.part_id, command.tool)

    def _close_block(self, command: CloseBlock) -> None:
        # The event repeats the text, since deltas are not durable. The journal has joined them already; a second buffer
        # here could only differ from it.
        text = self._journal.log.open_text(command.part_id)
        if command.kind == "text":
            self._texts.append(text)
            self.has_content = self.has_content or bool(text)
            self._end_part(TextPart(id=command.part_id, text=text, citations=command.citations))
        else:
            self._end_part(
                ReasoningPart(
                    id=command.part_id,
                    text=text,
                    signature=command.signature,
                    redacted=command.redacted,
                    model=self.model,
                )
            )

    def _close_call(self, command: CloseCall) -> str:
        """Record the call; return its arguments."""
        arguments = self._journal.log.open_text(command.part_id)
        self.has_content = True
        self._end_part(
            CallPart(
                id=command.part_id,
                call_id=command.call_id,
                tool=command.tool,
                arguments=arguments,
                provider_id=command.provider_id,
                complete=command.complete,
            )
        )
        return arguments

    def _end_part(self, part: TextPart | ReasoningPart | CallPart | ProviderPart) -> None:
        self._journal.append(PartEnded(message_id=self._message_id, part=part))


def _is_visible(text: str) -> bool:
    """Return whether *text* has a character to see: zero-width ones and byte order marks are none."""
    return any(char.isprintable() and not char.isspace() for char in text)
