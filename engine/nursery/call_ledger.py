"""The ledger: the calls of a step, in call order, each on its way to exactly one terminal state.

`receiving → queued → (admitted) → running → settled → delivered`. Each move is
synchronous and brings its event along, so at every checkpoint ledger and journal
agree. The first settlement wins; once the ledger is closed, nothing moves any more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.deferred import Deferred
from engine.core.events import (
    CallAnnounced,
    CallDelivered,
    CallQueued,
    CallSettled,
    CallStarted,
    ContextChanged,
    SharedContext,
)
from engine.core.foreign_calls import call_foreign_now, defer_interrupt
from engine.core.ids import CallId, MessageId, PartId
from engine.core.messages import Settlement
from engine.core.protocols import Trace
from engine.journal.log import TurnJournal
from engine.journal.state import OpenCall
from engine.nursery.loop_detection import SeenCall
from engine.nursery.scheduling import Slot, SlotState, admissible
from engine.tools.call_port import Outcome
from engine.tools.call_values import GRACE
from engine.tools.registry import Prepared

EntryState = Literal["receiving", "queued", "admitted", "running", "settled", "delivered"]
Modifier = Callable[[SharedContext], SharedContext]
# Characters. An abort needs the end of the output, not all of it; a tool may show megabytes.
KEPT_OUTPUT = 30_000


@attrs.define(eq=False, repr=False)
class BodyProgress:
    """How far the body of a call is, as heartbeats and aborts report it.

    Attributes:
        entered: the tool's own code has begun; before that, an abort is known to have had no effect.
        started_at: when the start was recorded, on trio's clock.
        timeout_at: when the tool's timeout is over, on trio's clock.
        overtime: for how many seconds it has gone on since then, without those by which the event loop was late.
        last_progress: what the tool reported last.
    """

    entered: bool = False
    started_at: float | None = None
    timeout_at: float = float("inf")
    overtime: float = 0.0
    last_progress: str = ""
    _output: list[str] = attrs.field(factory=list[str], init=False)
    _chars: int = attrs.field(default=0, init=False)

    def keep_output(self, text: str) -> None:
        """Keep *text* for the case of an abort; the oldest is dropped first."""
        text = text[-KEPT_OUTPUT:]
        self._output.append(text)
        self._chars += len(text)
        while self._chars > KEPT_OUTPUT and len(self._output) > 1:
            self._chars -= len(self._output.pop(0))

    @property
    def output(self) -> str:
        """The end of what the tool has shown so far."""
        return "".join(self._output)[-KEPT_OUTPUT:]


@attrs.define(eq=False, repr=False)
class CallEntry:
    """One call.

    Attributes:
        prepared: the call ready to run, or the settlement that says what is wrong with it.
        safe: whether it may run at the same time as other safe calls; false if it can't run at all. None: not known yet.
        settlement: settled exactly once.
        shared: the context as it was when the call was admitted.
        modify: its change of the context, applied in call order.
        only_reads: whether the rights it needed were all for reading.
        provisional: what its body came to, while hooks after it still run.
        seen: its place in the window of the repetition detector.
    """

    call_id: CallId
    part_id: PartId
    tool_name: str
    arguments: str = ""
    state: EntryState = "receiving"
    prepared: Prepared | Settlement | None = None
    safe: bool | None = False
    settlement: Deferred[Settlement] = attrs.field(factory=Deferred[Settlement])
    shared: SharedContext = SharedContext(cwd="")
    modify: Modifier | None = None
    modified: bool = False
    only_reads: bool = False
    body: BodyProgress = attrs.field(factory=BodyProgress)
    provisional: Outcome | None = None
    seen: SeenCall | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it has its terminal state."""
        return self.settlement.is_settled

    @property
    def is_delivered(self) -> bool:
        """Whether its result has its place in the transcript."""
        return self.state == "delivered"

    @property
    def may_change(self) -> bool:
        """Whether it has run and may have changed files."""
        is_harmless = isinstance(self.prepared, Prepared) and self.prepared.tool.read_only
        return self.body.entered and not is_harmless and not self.only_reads

    @property
    def grace(self) -> float:
        """How long it may clean up after a cancel."""
        return self.prepared.tool.grace if isinstance(self.prepared, Prepared) else GRACE

    @property
    def chained(self) -> bool:
        """Whether its failure stops later calls of the same message, as in a shell's `a && b`."""
        return isinstance(self.prepared, Prepared) and self.prepared.tool.chain


@attrs.define(eq=False, repr=False)
class Ledger:
    """The calls of one step.

    Attributes:
        context: what calls share (the working directory, say), after the modifiers that were applied so far.
        entries: the calls, in the order in which the model made them.
        cut_calls: the calls that the model did not bring to an end.
        late: how many moves came too late and were dropped.
    """

    _journal: TurnJournal = attrs.field(alias="journal")
    _message_id: MessageId = attrs.field(alias="message_id")
    _parallel: int = attrs.field(alias="parallel")
    _chain: bool = attrs.field(alias="chain")
    _trace: Trace = attrs.field(alias="trace")
    context: SharedContext
    _on_modifier_error: Callable[[CallEntry, BaseException], None] = attrs.field(alias="on_modifier_error")
    entries: list[CallEntry] = attrs.field(factory=list[CallEntry], init=False)
    cut_calls: list[CallEntry] = attrs.field(factory=list[CallEntry], init=False)
    late: int = attrs.field(default=0, init=False)
    _by_id: dict[CallId, CallEntry] = attrs.field(factory=dict[CallId, CallEntry], init=False)
    _broken_by: str = attrs.field(default="", init=False)
    # The calls before this index are of batches that are over, so their modifiers are in the context.
    _over: int = attrs.field(default=0, init=False)
    _closed: bool = attrs.field(default=False, init=False)

    @enable_ki_protection
    def announce(self, call_id: CallId, part_id: PartId, tool: str) -> None:
        """Add a call that is being received. Not a checkpoint."""
        entry = CallEntry(call_id=call_id, part_id=part_id, tool_name=tool)
        self.entries.append(entry)
        self._by_id[call_id] = entry
        self._journal.append(CallAnnounced(call_id=call_id, message_id=self._message_id, part_id=part_id, tool=tool))

    @enable_ki_protection
    def queue(self, call_id: CallId, tool: str, arguments: str, prepared: Prepared | Settlement) -> CallEntry:
        """Queue a call whose arguments are complete. Not a checkpoint."""
        entry = self._by_id[call_id]
        if entry.is_settled:
            # The turn ended meanwhile, and the cleanup has settled it; a slow model still sends what it had.
            self.late += 1
            return entry
        mended: tuple[str, ...] = ()
        if isinstance(prepared, Prepared):
            # The model may have called it by another name, from its training; the record has the tool's own.
            tool, mended = prepared.tool.name, prepared.mended
            # The same where the model has used another tool to call it: what runs is what is recorded.
            arguments = arguments if prepared.unwrapped is None else prepared.unwrapped
            entry.safe = prepared.safe
        entry.tool_name, entry.arguments, entry.prepared, entry.state = tool, arguments, prepared, "queued"
        self._journal.append(
            CallQueued(call_id=call_id, tool=tool, arguments=arguments, mended=mended, safe=self._slot(entry).safe)
        )
        if self._broken_by and entry.chained:
            self.settle(entry, _chain_broken(self._broken_by))
        return entry

    @enable_ki_protection
    def restore(self, call: OpenCall, prepared: Prepared | Settlement) -> None:
        """Add a call from the record of an earlier engine: settled, or queued again. No event. Not a checkpoint."""
        entry = CallEntry(call_id=call.call_id, part_id=call.part_id, tool_name=call.tool, arguments=call.arguments)
        self.entries.append(entry)
        self._by_id[call.call_id] = entry
        if call.settlement is None:
            entry.prepared, entry.state = prepared, "queued"
            entry.safe = isinstance(prepared, Prepared) and prepared.safe
        else:
            entry.settlement.settle(call.settlement)
            entry.state = "delivered" if call.state == "delivered" else "settled"

    @enable_ki_protection
    def admit(self, *, holds_last: bool = False) -> list[CallEntry]:
        """Admit the calls that may start now, and return them. Not a checkpoint.

        *holds_last*: the last call must wait unless it is safe.
        """
        # Asked after every batch of the stream, and mostly there is none that waits.
        if self._closed or not any(entry.state == "queued" for entry in self.entries):
            return []
        admitted: list[CallEntry] = []
        slots = [self._slot(entry) for entry in self.entries]
        if holds_last and not slots[-1].safe:
            slots = slots[:-1]
        for index in admissible(slots, self._parallel):
            entry = self.entries[index]
            # A modifier takes effect only between batches: calls that run together must all see the same context,
            # whichever of them ends first.
            if not slots[index].safe:
                # It runs alone, and all before it are settled: their batch is over (C4).
                self._over = index
            self.apply_modifiers(self.entries[: self._over])
            if not slots[index].safe:
                # Whatever is admitted next is admitted after its end, so it is a batch of its own.
                self._over = index + 1
            entry.state = "admitted"
            entry.shared = self.context
            admitted.append(entry)
        return admitted

    def _slot(self, entry: CallEntry) -> Slot:
        # In chain mode a call waits for the chained ones before it, also if it only reads: one of them may fail.
        return Slot(_slot_state(entry), safe=entry.safe is True and not (self._chain and entry.chained))

    @enable_ki_protection
    def start(self, entry: CallEntry) -> None:
        """Record that the body of a call is about to be entered. Not a checkpoint."""
        # Not `entered` yet: the record must be durable first, and a cancel during that flush has had no effect.
        entry.state = "running"
        entry.body.started_at = trio.current_time()
        self._journal.append(CallStarted(call_id=entry.call_id))

    @enable_ki_protection
    def settle(self, entry: CallEntry, settlement: Settlement, modify: Modifier | None = None) -> bool:
        """Settle *entry*; return whether this settlement was the first. Not a checkpoint."""
        self._trace.point("ledger.settle")
        # The one place where a race is decided: the worker, the cleanup and a give-up may all come, in any order.
        if self._closed or not entry.settlement.settle(settlement):
            self.late += 1
            return False
        entry.state = "settled"
        # A call that failed or was aborted may be half done, so its change of the context is not trusted.
        entry.modify = modify if settlement.status == "completed" else None
        self._journal.append(CallSettled(call_id=entry.call_id, settlement=settlement))
        if self._chain and entry.chained and (settlement.failed or settlement.status == "error"):
            self._break_chain(entry)
        self._trace.point("ledger.settled")
        return True

    def _break_chain(self, failed: CallEntry) -> None:
        # Those that run already go on: they were safe to run at the same time, so they don't depend on this one.
        self._broken_by = failed.tool_name
        for entry in self.entries[self.entries.index(failed) + 1 :]:
            if entry.state == "queued" and entry.chained:
                self.settle(entry, _chain_broken(failed.tool_name))

    @enable_ki_protection
    def deliver(self, entry: CallEntry) -> None:
        """Put the result of a settled call into its place; called in call order. Not a checkpoint."""
        # Not a call that was delivered before its step was resumed.
        if entry.state == "settled":
            entry.state = "delivered"
            self._journal.append(CallDelivered(call_id=entry.call_id))

    @enable_ki_protection
    def apply_modifiers(self, entries: Sequence[CallEntry] | None = None) -> None:
        """Apply the modifiers of settled calls that are still to be applied, in call order. Not a checkpoint."""
        for entry in self.entries if entries is None else entries:
            if entry.modify is None or entry.modified:
                continue
            # Before it is called: a modifier that raises must not be called again at the next batch.
            entry.modified = True
            try:
                changed = call_foreign_now(f"the modifier of the tool {entry.tool_name}", entry.modify, self.context)
                if not isinstance(changed, SharedContext):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise TypeError(f"a modifier must return a SharedContext, not {type(changed).__name__}")
            except BaseException as error:  # noqa: ASYNC103  # the tool author's code; its result stands
                # A plain function can't be cancelled. An interrupt comes at the next checkpoint: here it would leave
                # the modifiers of other calls out.
                if isinstance(error, KeyboardInterrupt):
                    defer_interrupt()
                if isinstance(error, SystemExit):
                    raise
                self._on_modifier_error(entry, error)
                continue  # noqa: ASYNC104  # what must pass is raised
            before, self.context = self.context, changed
            self._journal.append(ContextChanged.of(entry.call_id, before, changed))

    @enable_ki_protection
    def refuse_waiting(self, reason: str) -> None:
        """Settle the calls that were not admitted as not executed. Not a checkpoint."""
        for entry in self.entries:
            if entry.state in {"receiving", "queued"}:
                # Without the last sentence models take an abort for a defect, and avoid the tool from then on.
                text = f"Not executed: {reason}. The tool itself is fine."
                self.settle(entry, Settlement(status="aborted", reason="not_executed", text=text))

    @enable_ki_protection
    def close(self) -> None:
        """Let nothing move any more; what comes later is dropped and counted. Not a checkpoint."""
        self._closed = True

    @enable_ki_protection
    def apply_settled(self) -> bool:
        """Apply the modifiers of the calls before the first open one; return whether none is left. Not a checkpoint."""
        first = next((n for n, entry in enumerate(self.entries) if not entry.is_settled), len(self.entries))
        if any(entry.modify is not None and not entry.modified for entry in self.entries[first:]):
            return False
        self.apply_modifiers(self.entries[:first])
        return True

    def find(self, call_id: CallId) -> CallEntry | None:
        """Return the call with that id, if the step has it. Not a checkpoint."""
        return self._by_id.get(call_id)

    @property
    def unsettled(self) -> list[CallEntry]:
        """The calls that have no terminal state yet."""
        return [entry for entry in self.entries if not entry.is_settled]

    @property
    def has_started(self) -> bool:
        """Whether a call was admitted, or settled with a result of its own: then the request is not sent again."""
        return any(
            entry.state in {"admitted", "running"}
            or (entry.is_settled and entry.settlement.value.reason != "not_executed")
            for entry in self.entries
        )


def _slot_state(entry: CallEntry) -> SlotState:
    match entry.state:
        case "receiving":
            return "receiving"
        case "queued":
            # Held back, and holding back the ones after it, as long as its safety is not known.
            return "receiving" if entry.safe is None else "queued"
        case "admitted" | "running":
            return "admitted"
        case "settled" | "delivered":
            return "settled"


def _chain_broken(tool: str) -> Settlement:
    return Settlement(
        status="aborted",
        reason="not_executed",
        text=f"Not executed: an earlier {tool} call of the same message failed. The tool itself is fine.",
    )
