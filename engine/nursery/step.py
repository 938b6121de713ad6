"""One step: a request and the calls it asks for, in one nursery.

The reader and the workers are sibling tasks. The reader feeds the demultiplexer,
whose commands become events and ledger moves in one synchronous stretch; a call
starts the moment admission lets it. When the stream is over, the step waits for
each call in call order, in rounds that never end a call.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Literal, assert_never

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core import events as ev
from engine.core.exception_groups import describe
from engine.core.ids import MessageId, PartId
from engine.core.llm_types import ModelRequest, StreamEvent
from engine.core.messages import CallPart, ProviderPart, ReasoningPart, Settlement, TextPart, Usage
from engine.core.protocols import Model
from engine.journal.state import OpenStep, Received
from engine.nursery.call_ledger import CallEntry, Ledger
from engine.nursery.demux import CloseBlock, CloseCall, CloseItem, Command, Demux, Grow, OpenBlock, Restart
from engine.nursery.inbox import nudge
from engine.nursery.retry import Failure, silent_overflow
from engine.nursery.running_turn import TurnRun
from engine.nursery.stream_reader import keep_drafts, read_stream
from engine.nursery.tool_task import work
from engine.nursery.transition import StepOutcome
from engine.tools.registry import Prepared, Registry

ROUND = 0.25
CUT_SHOWN = 200
BLOCKED = 0.5


@attrs.define(eq=False, kw_only=True)
class Step:
    """The step under way.

    Attributes:
        registry: the tools of the request.
        wrapped_up: it is the last that the step limit allows: no call is run.
        failure: what broke the request or the stream.
        stream_over: no more will be received.
    """

    run: TurnRun
    model: Model
    request: ModelRequest
    registry: Registry
    number: int
    attempt: int
    message_id: MessageId
    wrapped_up: bool
    demux: Demux
    ledger: Ledger
    nursery: trio.Nursery | None = attrs.field(default=None, init=False)
    failure: Failure | None = attrs.field(default=None, init=False)
    stream_over: trio.Event = attrs.field(factory=trio.Event, init=False)
    has_content: bool = attrs.field(default=False, init=False)
    _parts: list[PartId] = attrs.field(factory=list[PartId], init=False)
    _texts: list[str] = attrs.field(factory=list[str], init=False)
    _is_asking: bool = attrs.field(default=False, init=False)
    _has_noted: bool = attrs.field(default=False, init=False)
    _charged: bool = attrs.field(default=False, init=False)
    _has_hosted_work: bool = attrs.field(default=False, init=False)
    _remarks: list[tuple[int, str]] = attrs.field(factory=list[tuple[int, str]], init=False)

    # -- the stream ---------------------------------------------------------------------

    @enable_ki_protection
    def feed(self, batch: Sequence[StreamEvent]) -> None:
        """Take what the reader received: events, ledger moves and starts, all at once. Not a checkpoint."""
        if self.run.journal.is_closed:
            self.run.journal.dropped += len(batch)
            return
        self._carry_out(self.demux.feed(batch))

    @enable_ki_protection
    def stop_receiving(self) -> None:
        """The stream is over, for whatever reason: close what is open. Not a checkpoint."""
        if self.stream_over.is_set():
            return
        if not self.run.journal.is_closed:
            self._carry_out(self.demux.end())
            if self.failure is not None and not self.ledger.has_started:
                self.ledger.refuse_waiting("the connection to the model broke before it could start")
            # A call that was cut off held back the ones behind it.
            self.start_admitted()
            self._note_slips()
        self.stream_over.set()
        if self._is_asking:
            self.note_wait()

    def _carry_out(self, commands: Iterable[Command]) -> None:
        journal = self.run.journal
        now = self.run.deps.clock.now()
        for command in commands:
            if type(command) is Grow:
                journal.append_delta(command.part_id, command.text, now)
            else:
                self._carry_out_one(command)

    def _carry_out_one(self, command: Command) -> None:
        journal = self.run.journal
        match command:
            case OpenBlock():
                self._open(command)
            case Restart():
                journal.append(ev.PartReplaced(message_id=self.message_id, part_id=command.part_id))
            case CloseBlock():
                self._close_block(command)
            case CloseCall():
                self._close_call(command)
            case CloseItem():
                part = ProviderPart(id=command.part_id, kind=command.kind, data=command.data, model=self.request.model)
                self.has_content = self._has_hosted_work = True
                self._end_part(part)
            case Grow():
                pass
            case _:
                assert_never(command)

    def _open(self, command: OpenBlock) -> None:
        self._parts.append(command.part_id)
        self.run.journal.append(ev.PartStarted(message_id=self.message_id, part_id=command.part_id, kind=command.kind))
        if command.call_id is not None:
            self.ledger.announce(command.call_id, command.part_id, command.tool)

    def _close_block(self, command: CloseBlock) -> None:
        text = self.run.journal.log.open_text(command.part_id)
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
                    model=self.request.model,
                )
            )

    def _close_call(self, command: CloseCall) -> None:
        arguments = self.run.journal.log.open_text(command.part_id)
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
        if not command.complete:
            entry = next(e for e in self.ledger.entries if e.call_id == command.call_id)
            self.ledger.settle(entry, self._cut_off(command.tool, arguments))
            return
        entry = self.ledger.queue(command.call_id, command.tool, arguments, self._prepare(command.tool, arguments))
        self.start_assessment(entry)
        self.start_admitted()

    def _prepare(self, tool: str, arguments: str) -> Prepared | Settlement:
        if self.wrapped_up:
            return Settlement(
                status="aborted",
                reason="not_executed",
                text="Not executed: this was the last step, in which no tools are offered.",
            )
        return self.registry.prepare(tool, arguments)

    def _cut_off(self, tool: str, arguments: str) -> Settlement:
        """Say why a call whose arguments did not arrive whole was not run (C7)."""
        if self.run.ending.cause is not None or self.failure is not None:
            why = "the answer was interrupted before its arguments were complete"
            return Settlement(status="aborted", reason="not_executed", text=f"Not executed: {why}.")
        return Settlement(
            status="error",
            text=(
                f"The arguments of {tool} were cut off after {len(arguments)} characters, so it was not run. They "
                f"began with: {arguments[:CUT_SHOWN]}\nCall it again, with less in one call."
            ),
        )

    def _end_part(self, part: TextPart | ReasoningPart | CallPart | ProviderPart) -> None:
        self.run.journal.append(ev.PartEnded(message_id=self.message_id, part=part))

    def _note_slips(self) -> None:
        if self.demux.slips:
            counts = ", ".join(f"{kind} ×{count}" for kind, count in sorted(self.demux.slips.items()))
            self.run.notice("info", "protocol_slips", f"the provider slipped against its own protocol: {counts}")
        if self.demux.unread:
            counts = ", ".join(f"{kind} ×{count}" for kind, count in sorted(self.demux.unread.items()))
            self.run.notice("info", "unread_events", f"the provider sent what this engine does not know: {counts}")

    # -- the calls ------------------------------------------------------------------------

    @enable_ki_protection
    def start_admitted(self) -> None:
        """Start what admission lets start now, each in a task of its own. Not a checkpoint."""
        if self.run.ending.cause is not None or self.nursery is None:
            return
        for entry in self.ledger.admit():
            self.nursery.start_soon(partial(work, self, entry), name=f"call {entry.tool_name} {entry.call_id}")

    @enable_ki_protection
    def start_assessment(self, entry: CallEntry) -> None:
        """Have it found out whether a call is safe, where that takes long: the reader can't wait. Not a checkpoint."""
        if entry.safe is None and not entry.is_settled and self.run.ending.cause is None and self.nursery is not None:
            self.nursery.start_soon(self._assess, entry, name=f"safety of {entry.tool_name} {entry.call_id}")

    @enable_ki_protection
    async def _assess(self, entry: CallEntry) -> None:
        """Find out whether a call is safe, then start what admission lets start. Always a checkpoint.

        If cancelled, the call has not started, and the concluder settles it.
        """
        assert isinstance(entry.prepared, Prepared)
        entry.safe = await entry.prepared.assess(self.ledger.context.cwd)
        self.start_admitted()

    async def collect(self) -> None:
        """Wait for the calls, in call order, and deliver each. A checkpoint unless all are settled.

        If cancelled, what is not delivered is left to the concluder.
        """
        for entry in self.ledger.entries:
            while not entry.is_settled:
                until = trio.current_time() + ROUND
                with trio.move_on_at(until):
                    await entry.settlement.wait()
                self._note_block(trio.current_time() - until)
                self.run.state.host_deadline = trio.current_effective_deadline()
                if not entry.is_settled:
                    self._end_round()
            self.ledger.deliver(entry)
        self.ledger.apply_modifiers()

    def _note_block(self, late: float) -> None:
        """A round that ends late was held up: somebody blocked the event loop, and every cancel with it."""
        if late < BLOCKED:
            return
        names = sorted({entry.tool_name for entry in self.ledger.entries if entry.entered and not entry.is_delivered})
        self.run.notice(
            "warning",
            "loop_blocked",
            f"the event loop stood still for {late:.1f} s while {', '.join(names) or 'nothing of this turn'} was "
            "running. If the process was not stopped, something blocked it: such work belongs in a thread, "
            "await ctx.to_thread(...)",
        )

    def _end_round(self) -> None:
        """Nobody answered in time: tell of every call that is at work, not only of the one that is waited for."""
        for entry in self.ledger.unsettled:
            if entry.state in {"admitted", "running"}:
                self._heartbeat(entry)

    def _heartbeat(self, entry: CallEntry) -> None:
        now = trio.current_time()
        if now >= entry.timeout_at + entry.grace:
            self._give_up(entry)
            return
        self.run.journal.append_live(
            ev.CallHeartbeat(
                call_id=entry.call_id,
                tool=entry.tool_name,
                elapsed=0.0 if entry.started_at is None else now - entry.started_at,
                last_progress=entry.last_progress,
                pending_inputs=len(self.run.journal.log.state.inbox),
            )
        )

    def _give_up(self, entry: CallEntry) -> None:
        """It ran over its timeout and over its grace: the record goes on without it."""
        self.ledger.settle(
            entry,
            Settlement(
                status="aborted",
                reason="timeout",
                outcome_unknown=True,
                text="It did not stop when its time was up; what it did is not known.",
            ),
        )
        self.run.notice("warning", "overstaying", f"{entry.tool_name} did not stop at its timeout and is still running")

    @enable_ki_protection
    def note_wait(self) -> None:
        """A call waits for somebody: once the answer is whole, put it into the record. Not a checkpoint.

        So another engine can go on with the step, if this one ends meanwhile.
        """
        self._is_asking = True
        is_whole = self.stream_over.is_set() and self.failure is None and bool(self.ledger.unsettled)
        if self._has_noted or not is_whole or self.run.inputs.is_child or self.run.ending.cause is not None:
            return
        self._has_noted = True
        self.run.journal.append(
            ev.StepReceived(
                step=self.number,
                message_id=self.message_id,
                finish=self.demux.finish,
                detail=self.demux.finish_detail,
                usage=self.demux.usage,
                cost=self.cost,
                prefix_broken_at=self.demux.broken_at,
            )
        )

    @enable_ki_protection
    def restore(self, open_step: OpenStep, received: Received) -> None:
        """Stand where the record says that the step stood. No event. Not a checkpoint."""
        self.demux.finish, self.demux.finish_detail = received.finish, received.detail
        self.demux.usage, self.demux.broken_at = received.usage, received.prefix_broken_at
        for part in open_step.parts:
            self._parts.append(part.part_id)
            if isinstance(part.part, TextPart):
                self._texts.append(part.text)
            self.has_content = self.has_content or (part.kind != "reasoning" and bool(part.text or part.kind == "call"))
            self._has_hosted_work = self._has_hosted_work or part.kind == "provider"
        for call in open_step.calls:
            self.ledger.restore(call, self.registry.prepare(call.tool, call.arguments))
        self._has_noted = True
        self.stream_over.set()

    def remark(self, entry: CallEntry, text: str) -> None:
        """Keep what a hook says to the model about a call until its result has its place. Not a checkpoint."""
        self._remarks.append((self.ledger.entries.index(entry), text))

    # -- the end ----------------------------------------------------------------------------

    @property
    def text(self) -> str:
        """The visible text of the answer."""
        return "".join(self._texts)

    @property
    def last_text(self) -> str:
        """The last block of the visible text."""
        return self._texts[-1] if self._texts else ""

    def charge(self) -> None:
        """Count what the request used, once. Not a checkpoint."""
        if not self._charged:
            self._charged = True
            self.run.state.output_tokens += self.demux.usage.output
            self.run.budget.charge(self.demux.usage, self.cost)

    @property
    def cost(self) -> float:
        """What the request cost."""
        return self.model.info.cost(self.demux.usage)

    def outcome(self) -> StepOutcome:
        """Return what happened, for `transition`."""
        return StepOutcome(
            finish=self.demux.finish,
            finish_detail=self.demux.finish_detail,
            failure=self.failure or self._overflow(),
            calls=len(self.ledger.entries),
            started=self.ledger.has_started,
            has_content=self.has_content,
            wrapped_up=self.wrapped_up,
            prevented=self.run.state.prevented,
            turn_output_tokens=self.run.state.output_tokens,
            can_raise_cap=self.request.options.output_cap is None
            and min(self.run.inputs.settings.output_cap_raised, self.model.info.output) > self.request.max_output,
            jitter=self.run.inputs.services.jitter(),
        )

    def _overflow(self) -> Failure | None:
        """Return that the window was too small, if the host let it pass.

        With calls the turn goes on: they are settled, and the keeper is asked before the next request anyway.
        """
        if self.ledger.entries:
            return None
        # What hosted tools read is counted each time it is read: that proves nothing of the request.
        usage = Usage() if self._has_hosted_work else self.demux.usage
        return silent_overflow(self.model.info, usage, self.demux.finish, self.demux.finish_detail)

    @enable_ki_protection
    def close(self, *, keep: bool, discard_reason: ev.ContinueReason | Literal["failed"] = "failed") -> None:
        """Save the step, or take its message back. Everything must be settled. Not a checkpoint."""
        journal = self.run.journal
        for entry in self.ledger.entries:
            self.ledger.deliver(entry)
        self.ledger.apply_modifiers()
        self.ledger.close()
        if not keep:
            for part_id in self._parts:
                journal.append(ev.PartDiscarded(message_id=self.message_id, part_id=part_id, reason=discard_reason))
        journal.append(
            ev.StepEnded(
                step=self.number,
                message_id=self.message_id,
                results_id=MessageId(self.run.deps.ids.new("msg")),
                finish=self.demux.finish,
                usage=self.demux.usage,
                cost=self.cost,
                kept=keep,
                prefix_broken_at=self.demux.broken_at,
            )
        )
        self.run.step = None
        # In call order, whichever hook was quicker.
        remarks = [text for _, text in sorted(self._remarks, key=itemgetter(0))]
        if keep and remarks:
            nudge(self.run, *remarks)


@enable_ki_protection
def begin_step(
    run: TurnRun, model: Model, request: ModelRequest, *, number: int, attempt: int, wrapped_up: bool
) -> Step:
    """Open a step and its message. Not a checkpoint."""
    message_id = MessageId(run.deps.ids.new("msg"))
    step = _step(run, model, request, number=number, attempt=attempt, message_id=message_id, wrapped_up=wrapped_up)
    run.step = step
    run.journal.append(ev.StepStarted(step=number, attempt=attempt, message_id=message_id, model=request.model))
    return step


@enable_ki_protection
def resume_step(run: TurnRun, model: Model, request: ModelRequest, open_step: OpenStep, received: Received) -> Step:
    """Go on with a step whose answer another engine has received. Not a checkpoint."""
    step = _step(
        run,
        model,
        request,
        number=open_step.step,
        attempt=open_step.attempt,
        message_id=open_step.message_id,
        wrapped_up=False,
    )
    step.restore(open_step, received)
    run.step = step
    return step


def _step(
    run: TurnRun,
    model: Model,
    request: ModelRequest,
    *,
    number: int,
    attempt: int,
    message_id: MessageId,
    wrapped_up: bool,
) -> Step:
    step: Step

    def modifier_failed(entry: CallEntry, error: BaseException) -> None:
        run.notice("warning", "modifier_failed", f"{entry.tool_name}'s change of the context failed: {describe(error)}")

    ledger = Ledger(
        journal=run.journal,
        message_id=message_id,
        parallel=run.inputs.settings.parallel,
        chain=run.inputs.settings.chain,
        trace=run.deps.trace,
        context=run.journal.log.state.context,
        on_modifier_error=modifier_failed,
    )
    step = Step(
        run=run,
        model=model,
        request=request,
        registry=run.registry,
        number=number,
        attempt=attempt,
        message_id=message_id,
        wrapped_up=wrapped_up,
        demux=Demux(run.deps.ids.new),
        ledger=ledger,
    )
    return step


async def run_step(step: Step) -> StepOutcome:
    """Run the request and its calls to their end. Always a checkpoint.

    If cancelled, its tasks are cancelled together and what is unsettled is left to
    the concluder. Nothing ordinary is raised.
    """
    async with trio.open_nursery() as nursery:
        step.nursery = nursery
        if step.stream_over.is_set():
            # Another engine has received the answer; what is left are calls.
            for entry in step.ledger.entries:
                step.start_assessment(entry)
            step.start_admitted()
        else:
            nursery.start_soon(read_stream, step, name="model stream")
            if step.run.journal.log.drafts is not None:
                nursery.start_soon(keep_drafts, step, name="drafts")
        await step.stream_over.wait()
        await step.collect()
    step.charge()
    if step.run.inputs.services.snapshots is not None and not step.run.inputs.is_child:
        await step.run.inputs.services.snapshots.after_step(step.number)
    await step.run.flush()
    return step.outcome()
