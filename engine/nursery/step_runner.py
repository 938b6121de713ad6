"""Runs a step: the request and the calls it asks for, in one nursery.

The reader and the workers are sibling tasks. What the reader receives becomes events and ledger moves in one
synchronous stretch, at whose end each call that admission lets start is started. When the stream is over, the step
waits for each call in call order, in rounds that never end a call.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Final, Literal

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.events import CallHeartbeat, ContinueReason, StepStarted
from engine.core.exception_groups import describe
from engine.core.foreign_calls import BLOCKED, named_seconds
from engine.core.ids import CallId, MessageId
from engine.core.llm_types import ModelRequest, StreamEvent
from engine.core.messages import FinishReason, Settlement, Usage
from engine.core.protocols import Model
from engine.journal.state import OpenStep, Received
from engine.nursery.call_ledger import CallEntry, Ledger
from engine.nursery.inbox import nudge
from engine.nursery.loop_state import StepOutcome
from engine.nursery.retry import Failure
from engine.nursery.running_turn import TurnRun
from engine.nursery.step import Step
from engine.nursery.stream_parser import StreamParser
from engine.nursery.stream_reader import read_stream, save_drafts
from engine.nursery.tool_task import work
from engine.tools.call_values import GRACE
from engine.tools.registry import Prepared

# A round of waiting: often enough for a person to see that a call is alive, rarely enough to cost nothing.
ROUND = 0.25
# A round that is later than this is charged to no tool, but for as much: as with the grace at a turn's end, a tool is let
# run ten times before it is given up.
_LATE: Final = GRACE / 10
# Of steps that changed nothing, each of this number waits for the store, so the turn learns if that fails.
_SAVED_EVERY: Final = 8


@enable_ki_protection
def begin_step(run: TurnRun, model: Model, request: ModelRequest, *, number: int, attempt: int, is_last: bool) -> Step:
    """Open a step and its message. Not a checkpoint."""
    message_id = MessageId(run.deps.ids.new("msg"))
    step = _new_step(run, model, request, number=number, attempt=attempt, message_id=message_id, is_last=is_last)
    # In its slot before it is in the record: if the append fails, the cleanup finds the step and closes it.
    run.step = step
    run.journal.append(
        StepStarted(
            step=number,
            attempt=attempt,
            message_id=message_id,
            model=request.model,
            parallel=run.inputs.settings.parallel,
        )
    )
    return step


@enable_ki_protection
def resume_step(run: TurnRun, model: Model, request: ModelRequest, open_step: OpenStep, received: Received) -> Step:
    """Go on with a step whose answer another engine has received. Not a checkpoint."""
    step = _new_step(
        run,
        model,
        request,
        number=open_step.step,
        attempt=open_step.attempt,
        message_id=open_step.message_id,
        is_last=False,
    )
    step.restore(open_step, received)
    run.step = step
    return step


def _new_step(
    run: TurnRun,
    model: Model,
    request: ModelRequest,
    *,
    number: int,
    attempt: int,
    message_id: MessageId,
    is_last: bool,
) -> Step:
    def report_modifier(entry: CallEntry, error: BaseException) -> None:
        run.notice("warning", "modifier_failed", f"{entry.tool_name}'s change of the context failed: {describe(error)}")

    # The context as of now: what earlier steps have changed in it is in the record.
    ledger = Ledger(
        journal=run.journal,
        message_id=message_id,
        parallel=run.inputs.settings.parallel,
        chain=run.inputs.settings.chain,
        trace=run.deps.trace,
        context=run.journal.log.state.context,
        on_modifier_error=report_modifier,
    )
    return Step(
        number=number,
        attempt=attempt,
        message_id=message_id,
        model=model,
        request=request,
        registry=run.registry,
        is_last=is_last,
        is_resumable=not run.inputs.is_child,
        parser=StreamParser(run.deps.ids.new),
        ledger=ledger,
        journal=run.journal,
        clock=run.deps.clock,
    )


async def run_step(run: TurnRun, step: Step) -> StepOutcome:
    """Run the request and its calls to their end. Always a schedule point; a cancel point unless nothing is left to wait for.

    If cancelled, its tasks are cancelled together and what is unsettled is left to the cleanup. Errors of models and
    tools are values in the outcome; only errors of ours are raised.
    """
    async with trio.open_nursery() as nursery:
        runner = _StepRunner(run, step, nursery)
        if step.stream_over.is_set():
            # Another engine has received the answer; what is left are calls.
            runner.start_calls()
        else:
            nursery.start_soon(
                read_stream, run, step.model, step.request, runner, run.ending.catch, name="model stream"
            )
            if run.journal.log.draft_interval is not None:
                nursery.start_soon(save_drafts, run.journal.log, step.stream_over, name="drafts")
        # The calls run meanwhile, in the nursery. They are collected only now since the list of calls is complete now.
        await runner.watch_stream()
        await runner.collect()
    # The nursery is left, so no call is at work any more: the snapshot below sees all that the step has changed.
    charge_step(run, step)
    if run.inputs.services.snapshots is not None and not run.inputs.is_child:
        await run.inputs.services.snapshots.after_step(step.number)
    await _save(run, step)
    return _outcome(run, step)


async def _save(run: TurnRun, step: Step) -> None:
    """Wait until the step is durable, if a kill would lose more than reading again. Always a checkpoint.

    If cancelled, the cleanup waits.
    """
    # What a step has changed must be in the record before the model hears of it; and of an answer, the turn reports that
    # it can't be saved. A step that has only read is written all the same, while the model thinks: a kill costs what the
    # last of these have read and what the model wrote in them, and the next turn asks for it again.
    calls = step.ledger.entries
    has_changed = any(entry.may_change for entry in calls)
    is_lost = run.journal.log.refused is not None
    if not calls or has_changed or is_lost or step.number % _SAVED_EVERY == 0:
        await run.flush()
    else:
        # What the step's calls have decided, such as to end the turn, comes before the next request.
        await trio.lowlevel.checkpoint()


@enable_ki_protection
def charge_step(run: TurnRun, step: Step) -> None:
    """Count what the request used, once. Not a checkpoint."""
    if not step.is_charged:
        step.is_charged = True
        run.state.output_tokens += step.parser.usage.output
        # This may end the turn, or one above it. The step is saved all the same, by the cleanup.
        run.budget.charge(step.parser.usage, step.cost, id(step.request))


@enable_ki_protection
def close_step(run: TurnRun, step: Step, *, keep: bool, reason: ContinueReason | Literal["failed"] = "failed") -> None:
    """Save the step, or take its message back. Every call must be settled. Not a checkpoint."""
    remarks = step.close(MessageId(run.deps.ids.new("msg")), keep=keep, reason=reason)
    run.step = None
    if remarks:
        # Only now: between a message and its results hosts accept nothing else.
        nudge(run, *remarks)


def _outcome(run: TurnRun, step: Step) -> StepOutcome:
    settings, info = run.inputs.settings, step.model.info
    raised_cap = min(settings.output_cap_raised, info.output)
    return StepOutcome(
        finish=step.parser.finish,
        finish_detail=step.parser.finish_detail,
        failure=step.failure or step.overflow(),
        calls=len(step.ledger.entries),
        cut_calls=len(step.ledger.cut_calls),
        has_progress=any(e.is_settled and e.settlement.value.status == "completed" for e in step.ledger.entries),
        is_empty=step.answer.is_empty and not run.state.answer_prefix,
        started=step.ledger.has_started,
        has_content=step.answer.has_content,
        wrapped_up=step.is_last,
        prevented=run.state.prevented,
        turn_output_tokens=run.state.output_tokens,
        can_raise_cap=step.request.options.output_cap is None and raised_cap > step.request.max_output,
        jitter=run.inputs.services.jitter(),
    )


@attrs.define(eq=False, repr=False)
class _StepRunner:
    """The tasks of one step: receives from the reader, starts calls, and waits for them."""

    _run: TurnRun
    _step: Step
    _nursery: trio.Nursery
    _assessed: set[CallId] = attrs.field(factory=set[CallId], init=False)
    # The wait for the stream. It has a deadline, that of its first round, as soon as there is a call to watch.
    _stream_wait: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)

    # -- the stream; see `engine.nursery.stream_reader.Receiver` ------------------------

    @enable_ki_protection
    def feed(self, batch: Sequence[StreamEvent]) -> None:
        """Record a batch, and start the calls that it completes. Not a checkpoint."""
        self._step.feed(batch)
        # While the model still writes: a long answer with ten calls is not held up until its end.
        if self._step.ledger.entries:
            self.start_calls()

    @enable_ki_protection
    def stop_receiving(self, failure: Failure | None, *, is_interrupted: bool) -> None:
        """Close the answer, and start the calls that were held back by one that was cut off. Not a checkpoint."""
        self._step.stop_receiving(failure, is_interrupted=is_interrupted or self._is_ending)
        self.start_calls()

    @property
    def usage(self) -> Usage:
        """What the request has taken so far."""
        return self._step.parser.usage

    @property
    def response(self) -> tuple[str, str]:
        """What the host calls the answer, and the model."""
        return self._step.parser.response

    @property
    def finish(self) -> FinishReason | None:
        """Why the model stopped."""
        return self._step.parser.finish

    # -- the calls ------------------------------------------------------------------------

    @property
    def _is_ending(self) -> bool:
        return self._run.ending.cause is not None

    @enable_ki_protection
    def start_calls(self) -> None:
        """Start what admission lets start now, each call in a task of its own. Not a checkpoint."""
        if self._is_ending:
            # The cleanup settles what waits as not executed; a start now would race with it.
            return
        for entry in self._step.ledger.entries:
            if entry.safe is None and not entry.is_settled and entry.call_id not in self._assessed:
                # Whether this call is safe takes long to find out (a script is parsed, say), and the reader can't wait.
                self._assessed.add(entry.call_id)
                self._nursery.start_soon(self._assess, entry, name=f"safety of {entry.tool_name} {entry.call_id}")
        for entry in self._step.ledger.admit(holds_last=self._step.answer.may_be_refused):
            if self._stream_wait.deadline == inf:
                self._stream_wait.deadline = trio.current_time() + ROUND
            self._nursery.start_soon(self._run_call, entry, name=f"call {entry.tool_name} {entry.call_id}")

    @enable_ki_protection
    async def _run_call(self, entry: CallEntry) -> None:
        """Run one call, then start what waited for it. Always a cancel point; a schedule point as `work` is."""
        await work(self._run, self._step, entry)
        self.start_calls()

    @enable_ki_protection
    async def _assess(self, entry: CallEntry) -> None:
        """Find out whether a call is safe, then start what admission lets start.

        Always a cancel point; a schedule point if the tool's `assess` is one. If cancelled, the call has not started, and the cleanup settles it.
        """
        assert isinstance(entry.prepared, Prepared)
        # A call before it may still change the folder. This decides only what runs at the same time, not what is allowed:
        # the permission is judged when the call starts.
        entry.safe = await entry.prepared.assess(self._step.ledger.context.cwd)
        self.start_calls()

    async def watch_stream(self) -> None:
        """Wait for the end of the stream, in rounds once a call was started. A checkpoint unless it is over."""
        over = self._step.stream_over
        if over.is_set():
            return
        # A stream without calls needs no rounds, and a thousand sessions at once would pay for them.
        with self._stream_wait:
            await over.wait()
        if self._stream_wait.deadline < inf:
            self._end_round(over, self._stream_wait.deadline - ROUND)
            await self._wait_in_rounds(over)

    async def collect(self) -> None:
        """Wait for the calls, in call order, and deliver each. A checkpoint unless all are settled.

        If cancelled, what is not delivered is left to the cleanup.
        """
        for entry in self._step.ledger.entries:
            await self._wait_in_rounds(entry.settlement.event)
            self._step.ledger.deliver(entry)
        self._step.ledger.apply_modifiers()

    async def _wait_in_rounds(self, event: trio.Event) -> None:
        """Wait for *event*; show at the end of each round that calls are alive. A checkpoint unless it is set.

        A round's end never ends a call, unless the call has outlasted its own timeout.
        """
        while not event.is_set():
            began = trio.current_time()
            with trio.move_on_after(ROUND):
                await event.wait()
            self._end_round(event, began)

    def _end_round(self, event: trio.Event, began: float) -> None:
        """Charge a round to the calls, and show that they are alive if it has not brought the event."""
        self._report_block(began + ROUND)
        self._charge_overtime(began)
        # Seen from inside the host's scopes; the turn's frame may sit outside of some of them.
        self._run.state.host_deadline = trio.current_effective_deadline()
        if not event.is_set():
            self._show_calls()

    def _charge_overtime(self, began: float) -> None:
        """Charge a round to the calls that have outlasted their timeouts, but not the time by which it was late."""
        now = trio.current_time()
        late = max(0.0, now - began - ROUND)
        for entry in self._step.ledger.unsettled:
            over = now - max(began, entry.body.timeout_at)
            if over > 0.0:
                # Always something: a loop that is late each time must not make timeouts void.
                entry.body.overtime += over if late < _LATE else min(over, _LATE)

    def _show_calls(self) -> None:
        """Show that the calls are alive: all that are at work, not only the one that is waited for."""
        for entry in self._step.ledger.unsettled:
            if entry.state in {"admitted", "running"}:
                self._heartbeat(entry)

    def _heartbeat(self, entry: CallEntry) -> None:
        now, body = trio.current_time(), entry.body
        # The pipeline has cancelled the body at its timeout; only one that shields itself is still here after its grace.
        # With a provisional outcome the body has returned, and what takes long is a hook after it.
        if entry.provisional is None and body.overtime >= entry.grace:
            self._give_up(entry)
            return
        self._run.journal.append_live(
            CallHeartbeat(
                call_id=entry.call_id,
                tool=entry.tool_name,
                elapsed=0.0 if body.started_at is None else now - body.started_at,
                last_progress=body.last_progress,
                pending_inputs=len(self._run.journal.log.state.inbox),
            )
        )

    def _give_up(self, entry: CallEntry) -> None:
        """Settle a call that has outlasted its timeout and its grace; its task goes on, shielded, until it ends."""
        self._step.ledger.settle(
            entry,
            Settlement(
                status="aborted",
                reason="timeout",
                outcome_unknown=True,
                text="It did not stop when its time was up; what it did is not known.",
            ),
        )
        self._run.state.changes.note(None, may_have=entry.may_change)
        self._run.notice(
            "warning", "overstaying", f"{entry.tool_name} did not stop at its timeout and is still running"
        )

    def _report_block(self, until: float) -> None:
        """Report a round that ended late: something blocked the event loop, and with it every cancel.

        Mostly a task that a tool has started: what the engine itself calls is named where that is called.
        """
        late = trio.current_time() - until
        if late < BLOCKED or (late := late - named_seconds(until)) < BLOCKED:
            return
        # Of these one is mostly to blame, but which one can't be seen from here.
        entries = self._step.ledger.entries
        names = sorted({entry.tool_name for entry in entries if entry.body.entered and not entry.is_delivered})
        self._run.notice(
            "warning",
            "loop_blocked",
            f"the event loop stood still for {late:.1f} s while {', '.join(names) or 'nothing of this turn'} was "
            "running. If the process was not stopped, something blocked it: such work belongs in a thread, "
            "await ctx.to_thread(...)",
        )
