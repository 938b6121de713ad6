"""A worker: the task of one call, from its first check to its settlement.

It ends with the call settled, whatever the tool raises. What a tool raises is a
value; only cancellation, KeyboardInterrupt and SystemExit pass on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, cast

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.deferred import Deferred
from engine.core.errors import ConfigError
from engine.core.events import (
    AnswerKind,
    CallChanged,
    CallJudged,
    CallProgress,
    Choice,
    DoomDetected,
    PermissionAsked,
    QuestionAsked,
    Right,
    Verdict,
)
from engine.core.exception_groups import ErrorBoundary, describe, first_of, split
from engine.core.hooks import Hooks, ToolUse
from engine.core.ids import RequestId, SessionId
from engine.core.messages import Settlement
from engine.core.named_locks import Locks
from engine.core.permission_types import Judgement, Opinion, PermissionQuery
from engine.core.settings import Settings
from engine.nursery.hook_points import while_notifying
from engine.nursery.loop_detection import Finding, digest, signature_of
from engine.nursery.permission_scope import active_scopes
from engine.nursery.questions import Given
from engine.nursery.request_prefix import touch
from engine.nursery.running_turn import Cause
from engine.tools.call_values import Need, ToolOutput
from engine.tools.context import AgentRequest, ToolContext, UserAnswers
from engine.tools.hook_runner import HookRunner
from engine.tools.output.spill import READER, Spills
from engine.tools.pipeline import Outcome, check_need, run_call
from engine.tools.registry import Prepared

if TYPE_CHECKING:
    from engine.agents.background import AgentJob, AgentJobs
    from engine.core.agent_result import AgentResult
    from engine.core.context_report import ContextReport
    from engine.nursery.call_ledger import Entry
    from engine.nursery.step import Step
    from engine.tools.background_jobs import Jobs
    from engine.tools.context import EditReviewer

DOOM_QUESTION = "doom_loop"
_INTERRUPTS = (KeyboardInterrupt, SystemExit, GeneratorExit)
_SOURCES: dict[AnswerKind, str] = {
    "once": "the user, once",
    "always": "the user, for always",
    "reject": "the user",
    "expired": "nobody answered in time",
}


@enable_ki_protection
async def work(step: Step, entry: Entry) -> None:
    """Run one call to its settlement. Always a checkpoint.

    If cancelled, the call is settled as aborted, synchronously, as soon as the
    tool has let go; if the concluder was quicker, that settlement is dropped.
    """
    call = _Call(step, entry)

    def settle_aborted(_: BaseException) -> None:
        step.run.catch()
        call.settle(entry.reached or Outcome(settlement=_aborted(entry)))

    outcome: Outcome | None = None
    with ErrorBoundary(on_propagate=settle_aborted) as boundary, _StrayCancelIsAnError():
        # A task that is started in a cancelled nursery runs up to its first
        # checkpoint, so this must come before anything that has an effect.
        await trio.lowlevel.checkpoint_if_cancelled()
        outcome = await _guarded(call)
    if outcome is None:
        outcome = entry.reached or Outcome(settlement=_broken(boundary.error))
    call.settle(outcome)
    step.start_admitted()


async def _guarded(call: _Call) -> Outcome:
    """Run the call unless it is one more round of a circle (T6)."""
    finding = call.look_for_circles()
    if finding is not None and finding.action != "nudge" and not await call.may_go_round(finding):
        refused = Settlement(
            status="aborted", reason="not_executed", text=f"Not executed: going in circles ({finding.detail})."
        )
        call.settle(Outcome(settlement=refused))
        call.step.run.end(Cause(kind="doom", reason="doom_loop", detail=finding.detail))
        # The scope is cancelled now; this raises.
        await trio.lowlevel.checkpoint_if_cancelled()
    outcome = await run_call(call)
    if finding is None or finding.action != "nudge":
        return outcome
    # Before the nudge is added: a text of ours would make the same result look like another one.
    call.note_result(outcome.settlement)
    text = (
        f"{outcome.settlement.text}\n\n[You are going in circles: {finding.detail}. Do something else, or say what "
        "keeps you from it.]"
    )
    return attrs.evolve(outcome, settlement=attrs.evolve(outcome.settlement, text=text))


class _StrayCancelIsAnError:
    """Make an ordinary error of a `Cancelled` that is raised though nothing is cancelled.

    A tool that keeps one can raise it again far from its scope. No scope would catch it, so it would end the step.
    """

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None or trio.current_effective_deadline() == float("-inf"):
            return
        propagating, _ = split(error)
        if propagating is None or any(first_of(propagating, kind) for kind in _INTERRUPTS):
            return
        raise RuntimeError("trio.Cancelled was raised though nothing was cancelled") from error


def _aborted(entry: Entry) -> Settlement:
    if not entry.entered:
        return Settlement(
            status="aborted",
            reason="not_executed",
            text="Not executed: the turn was cancelled before it could start. The tool itself is fine.",
        )
    shown = f" Its output so far:\n{entry.output_text}" if entry.output else ""
    return Settlement(status="aborted", reason="cancelled", text=f"Cancelled before it had finished.{shown}")


def _broken(error: BaseException | None) -> Settlement:
    told = "" if error is None else describe(error)
    return Settlement(status="error", text=f"The engine failed to run this call: {told}")


@attrs.define(eq=False)
class _Call:
    """A call as the pipeline, the tool and the questions see it."""

    step: Step
    entry: Entry
    arguments: str = attrs.field(init=False)
    # The grants that the latest judgement took into account.
    _judged_revision: int = attrs.field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        prepared = self.entry.prepared
        # As they will run: what guards a call must not look at something else.
        self.arguments = prepared.text if isinstance(prepared, Prepared) else self.entry.arguments

    @property
    def session_id(self) -> SessionId:
        return self.step.run.journal.log.session_id

    @property
    def settings(self) -> Settings:
        return self.step.run.settings

    @property
    def hooks(self) -> Hooks:
        return self.step.run.hooks

    @property
    def hook_runner(self) -> HookRunner:
        return self.step.run.desk

    @property
    def prepared(self) -> Prepared | Settlement:
        assert self.entry.prepared is not None
        return self.entry.prepared

    @property
    def use(self) -> ToolUse:
        return ToolUse(
            session_id=self.session_id,
            cwd=self.entry.shared.cwd,
            call_id=self.entry.call_id,
            tool=self.entry.tool_name,
            arguments=self.arguments,
        )

    @property
    def spills(self) -> Spills | None:
        run = self.step.run
        return run.spills if run.registry.get(READER) is not None and READER not in run.hidden else None

    @property
    def jobs(self) -> Jobs:
        return self.step.run.agents.jobs

    @property
    def agents(self) -> AgentJobs:
        return self.step.run.agents.agents

    @property
    def edit_reviewer(self) -> EditReviewer | None:
        return self.step.run.around

    @property
    def context(self) -> ToolContext:
        return ToolContext(
            session_id=self.session_id,
            turn_id=self.step.run.journal.turn_id,
            call_id=self.entry.call_id,
            shared=self.entry.shared,
            host=self,
        )

    # -- for the worker -------------------------------------------------------------------

    @enable_ki_protection
    def settle(self, outcome: Outcome) -> None:
        settlement = outcome.settlement
        self.note_result(settlement)
        self.step.run.changes.note(outcome.changed, may_have=self.entry.may_change)
        self.step.ledger.settle(self.entry, settlement, outcome.modify)
        if outcome.stop is not None:
            self.demand_stop(outcome.stop)

    def note_result(self, settlement: Settlement) -> None:
        seen = self.entry.seen
        if seen is not None and seen.result is None:
            seen.result = digest(f"{settlement.status}:{settlement.text}")
            seen.is_error = settlement.status == "error"

    def look_for_circles(self) -> Finding | None:
        signature = signature_of(self.entry.tool_name, self.entry.arguments)
        self.entry.seen, finding = self.step.run.doom.check(signature)
        if finding is not None:
            self.step.run.journal.append(DoomDetected(kind=finding.kind, action=finding.action, detail=finding.detail))
        return finding

    async def may_go_round(self, finding: Finding) -> bool:
        if finding.action == "stop" or self.settings.headless != "wait":
            return False
        need = Need(permission=DOOM_QUESTION, detail=finding.detail, offers=(self.entry.tool_name,))
        asks = Judgement(verdict="ask", source="the same call again and again")
        query = self.query(need, read_only=False)
        answer = (await self._ask(query, asks, self.step.run.catch, by_rule=False)).kind
        if answer == "always" and self.entry.seen is not None:
            self.step.run.doom.allow(self.entry.seen.signature)
        return answer in {"once", "always"}

    # -- for the pipeline -----------------------------------------------------------------

    def stale(self, prepared: Prepared) -> Settlement | None:
        now = self.step.run.registry.get(prepared.tool.name)
        if now is prepared.tool:
            return None
        name = prepared.tool.name
        what = f"There is no tool {name} any more" if now is None else f"{name} has changed since you were told of it"
        return Settlement(status="error", text=f"Not executed: {what}. Look at the tools again, then go on.")

    def change(self, arguments: str, source: str) -> Prepared | Settlement:
        self._record(CallChanged(call_id=self.entry.call_id, kind="arguments", text=arguments, source=source))
        prepared = self.step.registry.prepare(self.entry.tool_name, arguments)
        self.arguments = prepared.text if isinstance(prepared, Prepared) else arguments
        return prepared

    def query(self, need: Need, *, read_only: bool) -> PermissionQuery:
        self.entry.only_reads = not need.opaque and all(needed.reads_only for needed in need.needed)
        return PermissionQuery(
            chain=active_scopes(self.step.run.chain, self.entry.shared),
            call_id=self.entry.call_id,
            cwd=self.entry.shared.cwd,
            tool=self.entry.tool_name,
            read_only=read_only,
            permission=need.permission,
            rights=need.needed,
            offers=need.offered,
            opaque=need.opaque,
            sandboxed=need.sandboxed,
            detail=need.detail,
            metadata=need.metadata,
        )

    def judge(self, query: PermissionQuery) -> Judgement:
        self._judged_revision = self.step.run.questions.revision
        return self.step.run.deps.approver.judge(query)

    @property
    def opinion(self) -> Opinion | None:
        return self.step.run.deps.opinion

    def record_verdict(self, verdict: Verdict, source: str) -> None:
        self._record(CallJudged(call_id=self.entry.call_id, verdict=verdict, source=source))

    async def question(self, query: PermissionQuery, judgement: Judgement, *, by_rule: bool) -> tuple[AnswerKind, str]:
        # Hooks and a second opinion take their time: another question's "always" may have allowed it since.
        if by_rule and self._judged_revision != self.step.run.questions.revision:
            now = self.judge(query)
            if now.verdict == "allow":
                await trio.lowlevel.checkpoint()
                self.record_verdict("allow", now.source)
                return "once", ""
        given = await self._ask(query, judgement, self.step.run.catch, by_rule=by_rule)
        if given.kind != "withdrawn":
            self.record_verdict(
                "allow" if given.kind in {"once", "always"} else "deny", given.source or _SOURCES[given.kind]
            )
        if given.kind == "reject" and not given.feedback:
            refused = Settlement(status="denied", text="Rejected by the user.")
            self.settle(Outcome(settlement=refused))
            self.step.run.end(
                Cause(kind="rejected", reason="permission_rejected", detail=f"{self.entry.tool_name} was rejected")
            )
        return given.kind, given.feedback

    async def start(self, prepared: Prepared) -> Settlement | None:
        if self.step.run.snapshots is not None and not prepared.tool.read_only:
            await self.step.run.snapshots.before_change()
        # A task that was woken just before the cancel would go on to its next
        # checkpoint, and that one may be inside the tool.
        await trio.lowlevel.checkpoint_if_cancelled()
        self.step.ledger.start(self.entry)
        # What changes the world must be known to have begun before it begins.
        if not prepared.tool.read_only and not await self.step.run.flush():
            return Settlement(
                status="error", text="Not executed: the store could not record it, so running it would not be safe."
            )
        # The store may have shielded itself, and the call may be settled by now as never executed.
        await trio.lowlevel.checkpoint_if_cancelled()
        self.entry.entered = True
        self.entry.timeout_at = trio.current_time() + (prepared.tool.timeout or float("inf"))
        return None

    def touched(self, need: Need) -> None:
        touch(self.step.run, need.touched(self.entry.shared.cwd))

    def reached(self, outcome: Outcome) -> None:
        self.entry.reached = outcome

    def partial_output(self) -> str:
        return self.entry.output_text

    def replaced(self, text: str, source: str) -> None:
        self._record(CallChanged(call_id=self.entry.call_id, kind="result", text=text, source=source))

    def tell_model(self, text: str, source: str) -> None:
        self.step.remark(self.entry, f"[{source}, about {self.entry.tool_name}] {text}")

    def demand_stop(self, reason: str) -> None:
        if self.step.run.prevented is None:
            self.step.run.prevented = reason

    def _record(self, event: CallJudged | CallChanged) -> None:
        """Put it into the record, unless the call is settled: a hook that shields itself may outlive its call."""
        if not self.entry.is_settled:
            self.step.run.journal.append(event)

    # -- for the tool ---------------------------------------------------------------------

    @property
    def locks(self) -> Locks:
        return self.step.run.deps.locks

    async def about_to_change(self, paths: Sequence[str]) -> None:
        if self.step.run.snapshots is not None:
            await self.step.run.snapshots.about_to_change(paths)

    def progress(self, message: str, output: str) -> None:
        if not isinstance(cast("object", message), str) or not isinstance(cast("object", output), str):
            raise ConfigError("ctx.progress takes a message and an output, both str")
        if self.entry.is_settled:
            return
        self.entry.last_progress = message or self.entry.last_progress
        if output:
            self.entry.keep_output(output)
        self.step.run.journal.append_live(CallProgress(call_id=self.entry.call_id, message=message, output=output))

    async def ask(self, need: Need) -> tuple[AnswerKind, str]:
        query = self.query(check_need(need), read_only=False)
        if self.entry.is_settled:  # a tool that outlives its call
            await trio.lowlevel.checkpoint()
            return "withdrawn", ""
        judgement = self.judge(query)
        self.record_verdict(judgement.verdict, judgement.source)
        if judgement.verdict == "deny":
            await trio.lowlevel.checkpoint()
            return "reject", f"denied by {judgement.source}"
        if judgement.verdict == "allow" and not (judgement.is_default and self.settings.headless == "rules"):
            await trio.lowlevel.checkpoint()
            return "once", ""
        if self.settings.headless != "wait":
            await trio.lowlevel.checkpoint()
            return "reject", "nobody is there to answer"
        # A tool may stop waiting by itself; its turn is not cancelled by that.
        given = await self._ask(query, judgement, lambda: None, by_rule=True)
        return given.kind, given.feedback

    def permits(self, need: Need, answered: str) -> bool:
        judgement = self.judge(self.query(check_need(need), read_only=False))
        return judgement.verdict == "allow" or (
            judgement.verdict == "ask" and bool(answered) and judgement.source == answered
        )

    async def ask_user(self, question: str, choices: tuple[Choice, ...], *, several: bool) -> UserAnswers:
        run = self.step.run
        if self.settings.headless != "wait":
            return "declined", ()
        asked = QuestionAsked(
            request_id=RequestId(run.deps.ids.new("ask")),
            call_id=self.entry.call_id,
            question=question,
            choices=choices,
            several=several,
        )
        self.step.note_wait()
        ask = partial(run.questions.ask_words, asked, run.journal, timeout=self.settings.question_timeout)
        return await while_notifying(run, "question", question, asked.request_id, ask)

    async def result_from_outside(self) -> ToolOutput:
        run, call_id = self.step.run, self.entry.call_id
        self.step.note_wait()
        waiting = run.outside[call_id] = Deferred[ToolOutput]()
        try:
            await waiting.wait()
        finally:
            del run.outside[call_id]
        return waiting.value

    def context_report(self) -> ContextReport:
        return self.step.run.agents.context_report()

    async def run_agent(self, errand: AgentRequest) -> AgentResult:
        return await self.step.run.agents.run_agent(self.step.run, self.entry, errand)

    async def start_agent(self, errand: AgentRequest) -> AgentJob:
        return await self.step.run.agents.start_agent(self.step.run, self.entry, errand)

    # -- both -----------------------------------------------------------------------------

    async def _ask(
        self, query: PermissionQuery, judgement: Judgement, on_cancel: Callable[[], None], *, by_rule: bool
    ) -> Given:
        run = self.step.run
        timeout = run.settings.question_timeout
        asked = PermissionAsked(
            request_id=RequestId(run.deps.ids.new("ask")),
            call_id=query.call_id,
            tool=query.tool,
            permission=query.permission,
            patterns=query.patterns,
            rights=judgement.missing_rights
            or tuple(Right(permission=w.permission, pattern=w.pattern) for w in query.rights),
            offers=query.offers if judgement.offers is None else judgement.offers,
            detail=query.detail,
            metadata=query.metadata,
            opaque=query.opaque,
            rule=judgement.source,
            until=None if timeout is None else run.deps.clock.now() + timeout,
        )
        self.step.note_wait()
        ask = partial(
            run.questions.ask, asked, query, run.journal, timeout=timeout, by_rule=by_rule, on_cancel=on_cancel
        )
        text = f"{asked.tool} needs the permission {asked.permission!r}: {asked.detail or ', '.join(asked.patterns)}"
        return await while_notifying(run, "permission", text, asked.request_id, ask)
