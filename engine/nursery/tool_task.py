"""A worker: the task of one call, from its first check to its settlement.

It ends with the call settled, whatever the tool raises. A tool's exceptions become values; only cancellation,
KeyboardInterrupt and SystemExit propagate. Anything else, raised into the step's nursery, would cancel the other calls.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.events import CallChanged, DoomDetected
from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.hooks import Hooks, ToolUse
from engine.core.messages import Settlement
from engine.core.permission_types import Judgement
from engine.core.settings import Settings
from engine.nursery.call_permission import CallPermission
from engine.nursery.loop_detection import Finding, signature_of
from engine.nursery.loop_state import TurnCause
from engine.nursery.request_prefix import touch
from engine.nursery.running_turn import TurnRun
from engine.nursery.tool_host import ToolHost
from engine.tools.call_port import Outcome
from engine.tools.call_values import Need
from engine.tools.hook_runner import HookRunner
from engine.tools.output.spill import Spills
from engine.tools.pipeline import run_call
from engine.tools.registry import Prepared
from engine.tools.tool_context import ToolContext

if TYPE_CHECKING:
    from engine.nursery.call_ledger import CallEntry
    from engine.nursery.step import Step

REPETITION_PERMISSION = "doom_loop"


@enable_ki_protection
async def work(run: TurnRun, step: Step, entry: CallEntry) -> None:
    """Run one call to its settlement.

    Always a cancel point; a schedule point if a hook, a question, the store or the tool is one. If cancelled, the call is settled as aborted, synchronously, as soon as the
    tool has let go; if the cleanup was quicker, that settlement is dropped.
    """
    call = _Call(run, step, entry)

    def settle_aborted(error: BaseException) -> None:
        run.ending.catch(error)
        call.settle(entry.provisional or Outcome(settlement=_aborted(entry)))

    outcome: Outcome | None = None
    with (
        run.journal.spans.work(run.journal.turn_id, entry.call_id),
        ErrorBoundary(on_propagate=settle_aborted) as boundary,
    ):
        # A task that is started in a cancelled nursery runs up to its first checkpoint, so this one must come before
        # anything that has an effect.
        await trio.lowlevel.checkpoint_if_cancelled()
        outcome = await _guarded(call)
    if outcome is None:
        # The engine itself failed: after the body, its result still stands; before or in it, the model must know.
        outcome = entry.provisional or Outcome(settlement=_broken(boundary.error), engine_failed=True)
    # No checkpoint between what the tool returned and its settlement: a cancel here would lose the result.
    call.settle(outcome)


async def _guarded(call: _Call) -> Outcome:
    """Run the call unless it repeats earlier ones without end (T6)."""
    finding = _find_repetition(call)
    if finding is not None and finding.action != "nudge" and not await _may_repeat(call, finding):
        refused = Settlement(
            status="aborted", reason="not_executed", text=f"Not executed: going in circles ({finding.detail})."
        )
        call.settle(Outcome(settlement=refused))
        call.run.end(TurnCause(kind="doom", reason="doom_loop", detail=finding.detail))
        # The scope is cancelled now, so this raises: the call is settled above, and the pipeline must not begin.
        await trio.lowlevel.checkpoint_if_cancelled()
    outcome = await run_call(call)
    if finding is None or finding.action != "nudge":
        return outcome
    # Before the nudge is added: our text would make the same result look like another one at the next repetition.
    _note_result(call.run, call.entry, outcome)
    text = (
        f"{outcome.settlement.text}\n\n[You are going in circles: {finding.detail}. Do something else, or say what "
        "keeps you from it.]"
    )
    return attrs.evolve(outcome, settlement=attrs.evolve(outcome.settlement, text=text))


def _find_repetition(call: _Call) -> Finding | None:
    # The model's own arguments, before hooks change them: what repeats itself is the model.
    signature = signature_of(call.entry.tool_name, call.entry.arguments)
    call.entry.seen, finding = call.run.state.repetition.check(signature)
    if finding is not None:
        call.run.journal.append(DoomDetected(kind=finding.kind, action=finding.action, detail=finding.detail))
    return finding


async def _may_repeat(call: _Call, finding: Finding) -> bool:
    """Ask the user whether the call may be repeated. A checkpoint if a user can answer."""
    # Without a user the answer is no: the model was warned by the nudge before.
    if finding.action == "stop" or call.settings.headless != "wait":
        return False
    need = Need(permission=REPETITION_PERMISSION, detail=finding.detail, offers=(call.entry.tool_name,))
    judgement = Judgement(verdict="ask", source="the same call again and again")
    query = call.permission.query(need, read_only=False)
    answer = (await call.permission.ask(query, judgement, call.run.ending.note_doing, by_rule=False)).kind
    if answer == "always" and call.entry.seen is not None:
        call.run.state.repetition.allow(call.entry.seen.signature)
    return answer in {"once", "always"}


def _note_result(run: TurnRun, entry: CallEntry, outcome: Outcome) -> None:
    """Note the result of a call, so that the same call with the same result counts as a repetition. Not a checkpoint."""
    seen = entry.seen
    if seen is not None and outcome.engine_failed:
        # A store that is down fails every call, whatever the model tries: that is no loop of the model's.
        run.state.repetition.forget(seen)
    elif seen is not None:
        seen.note(outcome.settlement, outcome.produced)


def _aborted(entry: CallEntry) -> Settlement:
    if not entry.body.entered:
        return Settlement(
            status="aborted",
            reason="not_executed",
            text="Not executed: the turn was cancelled before it could start. The tool itself is fine.",
        )
    shown = f" Its output so far:\n{entry.body.output}" if entry.body.output else ""
    return Settlement(status="aborted", reason="cancelled", text=f"Cancelled before it had finished.{shown}")


def _broken(error: BaseException | None) -> Settlement:
    reason = "" if error is None else describe(error)
    return Settlement(status="error", text=f"The engine failed to run this call: {reason}")


@attrs.define(eq=False, repr=False)
class _Call:
    """A call, as its pipeline sees it (`engine.tools.call_port.CallPort`)."""

    run: TurnRun
    _step: Step
    entry: CallEntry
    permission: CallPermission = attrs.field(init=False)
    _host: ToolHost = attrs.field(init=False)
    _arguments: str = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        prepared = self.entry.prepared
        # The arguments after repair, as they will run: hooks and rules must not judge another text.
        self._arguments = prepared.text if isinstance(prepared, Prepared) else self.entry.arguments
        # Not a method of this object: a cycle of both would stay until a collection.
        self.permission = CallPermission(
            self.run, self._step, self.entry, partial(_settle_refused, self.run, self._step, self.entry)
        )
        self._host = ToolHost(self.run, self._step, self.entry, self.permission)

    @property
    def settings(self) -> Settings:
        return self.run.inputs.settings

    @property
    def hooks(self) -> Hooks:
        return self.run.inputs.hooks

    @property
    def hook_runner(self) -> HookRunner:
        return self.run.hook_runner

    @property
    def prepared(self) -> Prepared | Settlement:
        assert self.entry.prepared is not None
        return self.entry.prepared

    @property
    def use(self) -> ToolUse:
        return ToolUse(
            session_id=self.run.session_id,
            cwd=self.entry.shared.cwd,
            call_id=self.entry.call_id,
            tool=self.entry.tool_name,
            arguments=self._arguments,
        )

    @property
    def context(self) -> ToolContext:
        return ToolContext(
            session_id=self.run.session_id,
            turn_id=self.run.journal.turn_id,
            call_id=self.entry.call_id,
            shared=self.entry.shared,
            host=self._host,
            secrets=self.run.inputs.services.secrets,
        )

    @property
    def spills(self) -> Spills | None:
        return self._host.spills

    def settle(self, outcome: Outcome) -> None:
        _settle(self.run, self._step, self.entry, outcome)

    def stale(self, prepared: Prepared) -> Settlement | None:
        # The tools as of now, not the request's: the host may have replaced them since, to take one away.
        reason = self.run.inputs.services.tools.stale(prepared.tool)
        return None if reason is None else Settlement(status="error", text=reason)

    def change(self, arguments: str, source: str) -> Prepared | Settlement:
        self._record(CallChanged(call_id=self.entry.call_id, kind="arguments", text=arguments, source=source))
        prepared = self._step.registry.prepare(self.entry.tool_name, arguments)
        self._arguments = prepared.text if isinstance(prepared, Prepared) else arguments
        return prepared

    async def start(self, prepared: Prepared) -> Settlement | None:
        # A command whose rights are all for reading has neither files to put back nor effects to know of after a crash.
        is_harmless = prepared.tool.read_only or self.entry.only_reads
        if self.run.inputs.services.snapshots is not None and not is_harmless:
            await self.run.inputs.services.snapshots.before_change(self.entry.call_id)
        # A task that was woken just before the cancel would go on to its next
        # checkpoint, and that one may be inside the tool.
        await trio.lowlevel.checkpoint_if_cancelled()
        self._step.ledger.start(self.entry)
        # What changes the world must be known to have begun before it begins: after a crash, a call without this record
        # counts as never run. A call that only reads can be run again, so it does not wait for the disk.
        if not is_harmless and not await self.run.flush():
            return Settlement(
                status="error", text="Not executed: the store could not record it, so running it would not be safe."
            )
        # The store may have shielded itself, and the call may be settled by now as never executed.
        await trio.lowlevel.checkpoint_if_cancelled()
        self.entry.body.entered = True
        if prepared.tool.timeout is not None:
            self.entry.body.timeout_at = trio.current_time() + prepared.tool.timeout
        return None

    def touched(self, need: Need) -> None:
        touch(self.run, need.touched(self.entry.shared.cwd))

    def reached(self, outcome: Outcome) -> None:
        self.entry.provisional = outcome

    def partial_output(self) -> str:
        return self.entry.body.output

    def replaced(self, text: str, source: str) -> None:
        self._record(CallChanged(call_id=self.entry.call_id, kind="result", text=text, source=source))

    def tell_model(self, text: str, source: str) -> None:
        self._step.remark(self.entry, f"[{source}, about {self.entry.tool_name}] {text}")

    def demand_stop(self, reason: str) -> None:
        _demand_stop(self.run, reason)

    def _record(self, event: CallChanged) -> None:
        """Record it, unless the call is settled: a hook that shields itself may outlive its call."""
        if not self.entry.is_settled:
            self.run.journal.append(event)


@enable_ki_protection
def _settle(run: TurnRun, step: Step, entry: CallEntry, outcome: Outcome) -> None:
    # Before the ledger: once the call is settled, the step may close and the turn's summary be made. Both notes are
    # harmless if another settlement was first.
    _note_result(run, entry, outcome)
    run.note_changes(entry.call_id, outcome.changed, may_have=entry.may_change)
    step.ledger.settle(entry, outcome.settlement, outcome.modify)
    if outcome.stop is not None:
        _demand_stop(run, outcome.stop)


def _settle_refused(run: TurnRun, step: Step, entry: CallEntry, refused: Settlement) -> None:
    _settle(run, step, entry, Outcome(settlement=refused))


def _demand_stop(run: TurnRun, reason: str) -> None:
    # The first reason stays: calls that run at the same time may all demand it.
    if run.state.prevented is None:
        run.state.prevented = reason
