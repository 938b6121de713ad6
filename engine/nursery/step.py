"""`Step`: the open step of a turn: its request, the answer as far as it has come, and its calls.

Nothing here awaits, and nothing starts a task: each method is one synchronous stretch in which state and record change
together. `step_runner` owns the tasks.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Literal

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.compaction.token_estimate import request_tokens
from engine.core.events import ContinueReason, Notice, StepEnded, StepReceived
from engine.core.ids import MessageId
from engine.core.llm_types import ModelRequest, StreamEvent
from engine.core.messages import Settlement, Usage
from engine.core.protocols import Model, WallClock
from engine.journal.log import TurnJournal
from engine.journal.state import OpenStep, Received
from engine.nursery.answer_record import AnswerRecord
from engine.nursery.call_ledger import CallEntry, Ledger
from engine.nursery.retry import Failure, silent_overflow
from engine.nursery.stream_parser import CloseCall, StreamParser
from engine.tools.registry import Prepared, Registry

# Enough of broken arguments for the model to recognise its own call.
_SHOWN_OF_ARGUMENTS = 200


@attrs.define(eq=False, repr=False, kw_only=True)
class Step:
    """The open step.

    Attributes:
        registry: the tools of the request; the turn may have got others since.
        is_last: it is the last that the step limit allows, so its calls are not run.
        failure: what broke the request or the stream.
        stream_over: set when nothing more will be received.
        is_charged: whether its usage was counted against the budget.
    """

    number: int
    attempt: int
    _message_id: MessageId = attrs.field(alias="message_id")
    model: Model
    request: ModelRequest
    registry: Registry
    is_last: bool
    # Another engine may go on with it; not with that of a sub-agent, whose call would have to go on as well.
    _is_resumable: bool = attrs.field(alias="is_resumable")
    parser: StreamParser
    ledger: Ledger
    answer: AnswerRecord = attrs.field(init=False)
    failure: Failure | None = attrs.field(default=None, init=False)
    stream_over: trio.Event = attrs.field(factory=trio.Event, init=False)
    is_charged: bool = attrs.field(default=False, init=False)
    _journal: TurnJournal = attrs.field(alias="journal")
    _clock: WallClock = attrs.field(alias="clock")
    _is_interrupted: bool = attrs.field(default=False, init=False)
    _is_asking: bool = attrs.field(default=False, init=False)
    _is_recorded: bool = attrs.field(default=False, init=False)
    _remarks: list[tuple[int, str]] = attrs.field(factory=list[tuple[int, str]], init=False)

    def __attrs_post_init__(self) -> None:
        self.answer = AnswerRecord(
            journal=self._journal,
            clock=self._clock,
            parser=self.parser,
            message_id=self._message_id,
            model=self.request.model,
            on_call_opened=self.ledger.announce,
        )

    # -- the answer ---------------------------------------------------------------------

    @enable_ki_protection
    def feed(self, batch: Sequence[StreamEvent]) -> None:
        """Record what the reader received. Not a checkpoint."""
        if self._journal.is_closed:
            # A model that shields itself may still send when its turn is over.
            self._journal.dropped += len(batch)
        else:
            self.answer.feed(batch, self._receive_call)
            self._apply_finish()

    @enable_ki_protection
    def stop_receiving(self, failure: Failure | None, *, is_interrupted: bool) -> None:
        """Close what the stream has left open; the first call counts. Not a checkpoint.

        The reader calls it when the stream is over, and the cleanup in case the reader is stuck. *is_interrupted*: a
        cancel ended the stream, not the model.
        """
        if self.stream_over.is_set():
            return
        self.failure, self._is_interrupted = failure, is_interrupted
        if not self._journal.is_closed:
            self.answer.end(self._receive_call)
            self._apply_finish()
            if failure is not None and not self.ledger.has_started:
                # Nothing of the request has had an effect, so all of it can be sent again: keep it that way.
                is_oversized = failure.kind == "oversized"
                why = (
                    "the answer was too large"
                    if is_oversized
                    else "the connection to the model broke before it could start"
                )
                self.ledger.refuse_waiting(why)
            self._report_slips()
        # After the record: who waits for this reads the settled calls.
        self.stream_over.set()
        if self._is_asking:
            self.note_wait(is_ending=is_interrupted)

    def _apply_finish(self) -> None:
        """Settle the calls that the finish reason forbids to run, once it is known."""
        if not self.ledger.entries:
            return
        match self.parser.finish:
            case "refusal" | "content_filter":
                self.ledger.refuse_waiting("the model's answer was refused")
            case "length" if self.answer.ends_with_call:
                last = self.ledger.entries[-1]
                # Some hosts close the block of a call that they have cut off, so it arrives as a whole one.
                if last.state == "queued" and not _is_json(last.arguments):
                    self._settle_cut_off(last, last.arguments)
            case _:
                pass

    def _receive_call(self, command: CloseCall, arguments: str) -> None:
        # A host that names no reason closes a call that it has cut off like a whole one.
        if command.complete and not _is_unfinished(arguments):
            self.ledger.queue(command.call_id, command.tool, arguments, self._prepare(command.tool, arguments))
        else:
            entry = self.ledger.find(command.call_id)
            assert entry is not None  # announced when its block was opened
            self._settle_cut_off(entry, arguments)

    def _prepare(self, tool: str, arguments: str) -> Prepared | Settlement:
        if self.is_last:
            return Settlement(
                status="aborted",
                reason="not_executed",
                text="Not executed: this was the last step, in which no tools are offered.",
            )
        return self.registry.prepare(tool, arguments)

    def _settle_cut_off(self, entry: CallEntry, arguments: str) -> None:
        """Settle a call whose arguments did not arrive whole (C7)."""
        if self._is_interrupted or self.failure is not None:
            why = "the answer was interrupted before its arguments were complete"
            settlement = Settlement(status="aborted", reason="not_executed", text=f"Not executed: {why}.")
        else:
            # The model itself stopped in the middle, at its output limit: it must not repeat the same call.
            entry.arguments = arguments
            self.ledger.cut_calls.append(entry)
            settlement = Settlement(
                status="error",
                text=(
                    f"The arguments of {entry.tool_name} were cut off after {len(arguments)} characters, so it was not "
                    f"run. They began with: {arguments[:_SHOWN_OF_ARGUMENTS]}\nCall it again, with less in one call."
                ),
            )
        self.ledger.settle(entry, settlement)

    def _report_slips(self) -> None:
        if self.parser.slips:
            text = f"the provider violated its own protocol: {_counts(self.parser.slips)}"
            self._journal.append(Notice(level="info", code="protocol_slips", text=text))
        if self.parser.unread:
            text = f"the provider sent what this engine does not know: {_counts(self.parser.unread)}"
            self._journal.append(Notice(level="info", code="unread_events", text=text))

    # -- waiting for the user, and resuming ------------------------------------------------

    @enable_ki_protection
    def note_wait(self, *, is_ending: bool) -> None:
        """Record the answer as received, once it is whole, because a call waits for the user. Not a checkpoint.

        With that record, another engine can go on with the step if this one ends meanwhile.
        """
        self._is_asking = True
        # Called when a question is asked and again when the stream is over, whichever comes last. If all calls are settled
        # by then, the step ends in a moment, and a record of the wait would be wrong.
        is_whole = self.stream_over.is_set() and self.failure is None and bool(self.ledger.unsettled)
        if self._is_recorded or not is_whole or not self._is_resumable or is_ending:
            return
        self._is_recorded = True
        self._journal.append(
            StepReceived(
                step=self.number,
                message_id=self._message_id,
                finish=self.parser.finish,
                detail=self.parser.finish_detail,
                usage=self.parser.usage,
                cost=self.cost,
                prefix_broken_at=self.parser.broken_at,
            )
        )

    @enable_ki_protection
    def restore(self, open_step: OpenStep, received: Received) -> None:
        """Bring the step to where the record says it stood. No event. Not a checkpoint."""
        self.parser.finish, self.parser.finish_detail = received.finish, received.detail
        self.parser.usage, self.parser.broken_at = received.usage, received.prefix_broken_at
        self.answer.restore(open_step.parts)
        # Prepared again, by the tools of this engine: a tool may be gone, and then the call is settled with an error.
        for call in open_step.calls:
            self.ledger.restore(call, self.registry.prepare(call.tool, call.arguments))
        self._is_recorded = True
        self.stream_over.set()

    # -- the end ----------------------------------------------------------------------------

    def remark(self, entry: CallEntry, text: str) -> None:
        """Keep what a hook says to the model about a call until the results are in place. Not a checkpoint."""
        # With the call's place: hooks of calls that run at the same time end in any order.
        self._remarks.append((self.ledger.entries.index(entry), text))

    @property
    def cost(self) -> float:
        """What the request cost."""
        return self.model.info.cost(self.parser.usage)

    def overflow(self) -> Failure | None:
        """Return that the window was too small, if the host let it pass.

        With calls the turn goes on: they are settled, and the keeper is asked before the next request anyway.
        """
        if self.ledger.entries:
            return None
        # What hosted tools read is counted each time it is read: that proves nothing of the request.
        usage = Usage() if self.answer.has_hosted_work else self.parser.usage
        return silent_overflow(
            self.model.info,
            usage,
            self.parser.finish,
            self.parser.finish_detail,
            estimate=partial(request_tokens, self.request),
        )

    @enable_ki_protection
    def close(self, results_id: MessageId, *, keep: bool, reason: ContinueReason | Literal["failed"]) -> list[str]:
        """Save the step, or take its message back; return what hooks say to the model. Not a checkpoint.

        Every call must be settled. *reason*: why the message is taken back.
        """
        for entry in self.ledger.entries:
            self.ledger.deliver(entry)
        self.ledger.apply_modifiers()
        self.ledger.close()
        if not keep:
            self.answer.discard(reason)
        self._journal.append(
            StepEnded(
                step=self.number,
                message_id=self._message_id,
                results_id=results_id,
                finish=self.parser.finish,
                usage=self.parser.usage,
                cost=self.cost,
                kept=keep,
                prefix_broken_at=self.parser.broken_at,
            )
        )
        # In call order, whichever hook was quicker: the same run must give the same transcript.
        return [text for _, text in sorted(self._remarks, key=itemgetter(0))] if keep else []


def _is_json(text: str) -> bool:
    try:
        json.loads(text or "{}")
    except (ValueError, RecursionError):
        return False
    return True


def _is_unfinished(text: str) -> bool:
    """Return whether JSON ends in the middle of a value; whatever else is wrong with it, the model has to be told."""
    try:
        json.loads(text or "{}")
    except json.JSONDecodeError as error:
        return error.msg.startswith("Unterminated string") or error.pos >= len(text.rstrip())
    except (ValueError, RecursionError):
        return False
    return False


def _counts(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} ×{count}" for kind, count in sorted(kinds.items()))
