"""The ledger: every call of a step, in call order, and its way to its one terminal state.

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
from engine.core.ids import CallId, MessageId, PartId
from engine.core.messages import Settlement
from engine.core.protocols import Trace
from engine.journal.log import TurnJournal
from engine.journal.state import OpenCall
from engine.nursery.loop_detection import SeenCall
from engine.nursery.scheduling import Slot, SlotState, admissible
from engine.tools.call_site import Outcome
from engine.tools.call_values import GRACE
from engine.tools.registry import Prepared

EntryState = Literal["receiving", "queued", "admitted", "running", "settled", "delivered"]
Modifier = Callable[[SharedContext], SharedContext]
KEPT_OUTPUT = 30_000


@attrs.define(eq=False)
class CallEntry:
    """One call.

    Attributes:
        prepared: the call ready to run, or the settlement that tells what is wrong with it.
        safe: whether it may run beside other safe calls; one that can't run at all is not. None: not known yet.
        outcome: settled exactly once.
        shared: the context as it was when the call was admitted.
        modify: what it does to the context, applied in call order.
        only_reads: whether all that rights were told for only reads.
        reached: what its body came to, while hooks after it still run.
        output: what it has shown so far, kept if it is aborted.
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
    entered: bool = False
    only_reads: bool = False
    started_at: float | None = None
    timeout_at: float = float("inf")
    last_progress: str = ""
    provisional: Outcome | None = None
    output: list[str] = attrs.field(factory=list[str])
    output_chars: int = 0
    seen: SeenCall | None = None

    @property
    def is_settled(self) -> bool:
        """Whether it has reached its terminal state."""
        return self.settlement.is_settled

    @property
    def is_delivered(self) -> bool:
        """Whether its result has its place."""
        return self.state == "delivered"

    @property
    def may_change(self) -> bool:
        """Whether it has run, and what it does may change something."""
        is_harmless = isinstance(self.prepared, Prepared) and self.prepared.tool.read_only
        return self.entered and not is_harmless and not self.only_reads

    @property
    def grace(self) -> float:
        """How long it may clean up after a cancel."""
        return self.prepared.tool.grace if isinstance(self.prepared, Prepared) else GRACE

    @property
    def chained(self) -> bool:
        """Whether it is one of the tools whose failure may stop later ones."""
        return isinstance(self.prepared, Prepared) and self.prepared.tool.chain

    def keep_output(self, text: str) -> None:
        """Keep *text* for the case of an abort; the newest counts."""
        self.output.append(text)
        self.output_chars += len(text)
        while self.output_chars > KEPT_OUTPUT and len(self.output) > 1:
            self.output_chars -= len(self.output.pop(0))

    @property
    def output_text(self) -> str:
        """What is kept of the output."""
        return "".join(self.output)[-KEPT_OUTPUT:]


@attrs.define(eq=False)
class Ledger:
    """The calls of one step."""

    journal: TurnJournal
    message_id: MessageId
    parallel: int
    chain: bool
    trace: Trace
    context: SharedContext
    on_modifier_error: Callable[[CallEntry, BaseException], None]
    entries: list[CallEntry] = attrs.field(factory=list[CallEntry], init=False)
    late: int = attrs.field(default=0, init=False)
    _by_id: dict[CallId, CallEntry] = attrs.field(factory=dict[CallId, CallEntry], init=False)
    _broken_by: str = attrs.field(default="", init=False)
    _over: int = attrs.field(default=0, init=False)
    _closed: bool = attrs.field(default=False, init=False)

    @enable_ki_protection
    def announce(self, call_id: CallId, part_id: PartId, tool: str) -> None:
        """A call is being received. Not a checkpoint."""
        entry = CallEntry(call_id=call_id, part_id=part_id, tool_name=tool)
        self.entries.append(entry)
        self._by_id[call_id] = entry
        self.journal.append(CallAnnounced(call_id=call_id, message_id=self.message_id, part_id=part_id, tool=tool))

    @enable_ki_protection
    def queue(self, call_id: CallId, tool: str, arguments: str, prepared: Prepared | Settlement) -> CallEntry:
        """Its arguments are whole. Not a checkpoint."""
        entry = self._by_id[call_id]
        if entry.is_settled:
            # The turn ended meanwhile; a model that was slow to stop still brings what it had.
            self.late += 1
            return entry
        mended: tuple[str, ...] = ()
        if isinstance(prepared, Prepared):
            # The model may have called it by another name.
            tool, mended = prepared.tool.name, prepared.mended
            entry.safe = prepared.safe
        entry.tool_name, entry.arguments, entry.prepared, entry.state = tool, arguments, prepared, "queued"
        self.journal.append(CallQueued(call_id=call_id, tool=tool, arguments=arguments, mended=mended))
        if self._broken_by and entry.chained:
            self.settle(entry, _chain_broken(self._broken_by))
        return entry

    @enable_ki_protection
    def restore(self, call: OpenCall, prepared: Prepared | Settlement) -> None:
        """Take in a call as the record has it: it is settled, or waits to be run. No event. Not a checkpoint."""
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
    def admit(self) -> list[CallEntry]:
        """Return the calls that may start now, each admitted and given its context. Not a checkpoint."""
        if self._closed:
            return []
        admitted: list[CallEntry] = []
        for index in admissible((Slot(_slot(e), safe=e.safe is True) for e in self.entries), self.parallel):
            entry = self.entries[index]
            if not entry.safe:
                # Alone, and all before it are settled: their batch is over (C4).
                self._over = index
            self.apply_modifiers(self.entries[: self._over])
            if not entry.safe:
                # What is admitted after it comes after its end: it is a batch of its own.
                self._over = index + 1
            entry.state = "admitted"
            entry.shared = self.context
            admitted.append(entry)
        return admitted

    @enable_ki_protection
    def start(self, entry: CallEntry) -> None:
        """Its body will be entered now. Not a checkpoint."""
        entry.state = "running"
        entry.started_at = trio.current_time()
        self.journal.append(CallStarted(call_id=entry.call_id))

    @enable_ki_protection
    def settle(self, entry: CallEntry, settlement: Settlement, modify: Modifier | None = None) -> bool:
        """Give *entry* its terminal state; return whether it was the first to come. Not a checkpoint."""
        self.trace.point("ledger.settle")
        if self._closed or not entry.settlement.settle(settlement):
            self.late += 1
            return False
        entry.state = "settled"
        entry.modify = modify if settlement.status == "completed" else None
        self.journal.append(CallSettled(call_id=entry.call_id, settlement=settlement))
        if self.chain and entry.chained and (settlement.failed or settlement.status == "error"):
            self._break_chain(entry)
        self.trace.point("ledger.settled")
        return True

    def _break_chain(self, failed: CallEntry) -> None:
        self._broken_by = failed.tool_name
        for entry in self.entries[self.entries.index(failed) + 1 :]:
            if entry.state == "queued" and entry.chained:
                self.settle(entry, _chain_broken(failed.tool_name))

    @enable_ki_protection
    def deliver(self, entry: CallEntry) -> None:
        """Its result takes its place; called in call order. Not a checkpoint."""
        if entry.state == "settled":
            entry.state = "delivered"
            self.journal.append(CallDelivered(call_id=entry.call_id))

    @enable_ki_protection
    def apply_modifiers(self, entries: Sequence[CallEntry] | None = None) -> None:
        """Apply the modifiers of settled calls that are still to be applied, in call order. Not a checkpoint."""
        for entry in self.entries if entries is None else entries:
            if entry.modify is None or entry.modified:
                continue
            entry.modified = True
            try:
                changed = entry.modify(self.context)
                if not isinstance(changed, SharedContext):  # pyright: ignore[reportUnnecessaryIsInstance]
                    raise TypeError(f"a modifier must return a SharedContext, not {type(changed).__name__}")
            except BaseException as error:  # noqa: BLE001, ASYNC103  # the tool author's code; its result stands
                # A plain function can't be cancelled and is shut off from interrupts, so nothing has to pass.
                self.on_modifier_error(entry, error)
                continue  # noqa: ASYNC104  # what must pass is raised
            before, self.context = self.context, changed
            self.journal.append(ContextChanged.of(entry.call_id, before, changed))

    @enable_ki_protection
    def refuse_waiting(self, reason: str) -> None:
        """Settle all that has not been admitted as not executed. Not a checkpoint."""
        for entry in self.entries:
            if entry.state in {"receiving", "queued"}:
                text = f"Not executed: {reason}. The tool itself is fine."
                self.settle(entry, Settlement(status="aborted", reason="not_executed", text=text))

    @enable_ki_protection
    def close(self) -> None:
        """Nothing moves from here on; what comes late is counted. Not a checkpoint."""
        self._closed = True

    @enable_ki_protection
    def apply_settled(self) -> bool:
        """Apply the modifiers of the calls before the first that is open; return whether none is left. Not a checkpoint."""
        first = next((n for n, entry in enumerate(self.entries) if not entry.is_settled), len(self.entries))
        if any(entry.modify is not None and not entry.modified for entry in self.entries[first:]):
            return False
        self.apply_modifiers(self.entries[:first])
        return True

    @property
    def unsettled(self) -> list[CallEntry]:
        """The calls that have no terminal state yet."""
        return [entry for entry in self.entries if not entry.is_settled]

    @property
    def has_started(self) -> bool:
        """Whether any call was let go, or answered on its own account: then the request is not sent again."""
        return any(
            entry.state in {"admitted", "running"}
            or (entry.is_settled and entry.settlement.value.reason != "not_executed")
            for entry in self.entries
        )


def _slot(entry: CallEntry) -> SlotState:
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
