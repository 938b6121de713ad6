"""`ToolHost`: what the body of a tool may ask of its turn, through `ToolContext`.

Tools are foreign code and may outlive their turn, in a shield or in a thread. So each method checks whether the call is
settled already where it would otherwise append something to a record that is closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import attrs
import trio

from engine.core.deferred import Deferred
from engine.core.errors import ConfigError
from engine.core.events import AnswerKind, CallProgress, Choice
from engine.core.named_locks import Locks
from engine.nursery.hook_points import ask_person
from engine.tools.call_values import Need, ToolOutput, check_need
from engine.tools.output.spill import READER, Spills
from engine.tools.tool_context import AgentRequest, UserAnswers

if TYPE_CHECKING:
    from engine.agents.agent_result import AgentResult
    from engine.agents.background import AgentJob, AgentJobs
    from engine.core.context_report import ContextReport
    from engine.nursery.call_ledger import CallEntry
    from engine.nursery.call_permission import CallPermission
    from engine.nursery.running_turn import TurnRun
    from engine.nursery.step import Step
    from engine.tools.background_jobs import Jobs
    from engine.tools.editor_files import EditorFiles
    from engine.tools.tool_context import EditReviewer


@attrs.define(eq=False, repr=False)
class ToolHost:
    """The turn, as the tool of one call sees it."""

    _run: TurnRun
    _step: Step
    _entry: CallEntry
    _permission: CallPermission

    @property
    def locks(self) -> Locks:
        """The locks that all tools of the engine share."""
        return self._run.deps.locks

    @property
    def spills(self) -> Spills | None:
        """Where an output is kept that is too long to be shown; None if the model could not read it there."""
        # Without a tool that reads files, the path in a cut result would only make the model try.
        run = self._run
        return run.inputs.services.spills if run.registry.get(READER) is not None and READER not in run.hidden else None

    @property
    def jobs(self) -> Jobs:
        """The background commands of the session."""
        return self._run.inputs.services.agents.jobs

    @property
    def agents(self) -> AgentJobs:
        """The sub-agents that run in the background for the session."""
        return self._run.inputs.services.agents.agents

    @property
    def edit_reviewer(self) -> EditReviewer | None:
        """What happens around each change of a file."""
        return self._run.inputs.services.edit_reviewer

    @property
    def editor(self) -> EditorFiles | None:
        """The user's editor."""
        return self._run.inputs.services.editor

    async def about_to_change(self, paths: Sequence[str]) -> None:
        """Keep files as they are before they change. A checkpoint if there are snapshots."""
        if self._run.inputs.services.snapshots is not None:
            await self._run.inputs.services.snapshots.about_to_change(paths)

    def progress(self, message: str, output: str) -> None:
        """Report how far the call is. Not a checkpoint."""
        # Checked here and not where it is shown: the error must name the tool's own line.
        if not isinstance(cast("object", message), str) or not isinstance(cast("object", output), str):
            raise ConfigError("ctx.progress takes a message and an output, both str")
        if self._entry.is_settled:
            return
        self._entry.body.last_progress = message or self._entry.body.last_progress
        # Progress is live only; of the output, the end is kept for the case of an abort.
        if output:
            self._entry.body.keep_output(output)
        self._run.journal.append_live(CallProgress(call_id=self._entry.call_id, message=message, output=output))

    async def ask(self, need: Need) -> tuple[AnswerKind, str]:
        """Ask for a permission in the middle of the call. Always a checkpoint."""
        permission, headless = self._permission, self._run.inputs.settings.headless
        query = permission.query(check_need(need), read_only=False)
        if self._entry.is_settled:  # a tool that outlives its call
            await trio.lowlevel.checkpoint()
            return "withdrawn", ""
        # No hooks and no second opinion here: they have judged the call, and this is a part of it.
        judgement = permission.judge(query)
        permission.record(judgement.verdict, judgement.source)
        # A checkpoint on each path: a tool may ask in a loop, and must not block the event loop by that.
        if judgement.verdict == "deny":
            await trio.lowlevel.checkpoint()
            return "reject", f"denied by {judgement.source}"
        if judgement.verdict == "allow" and not (judgement.is_default and headless == "rules"):
            await trio.lowlevel.checkpoint()
            return "once", ""
        if headless != "wait":
            await trio.lowlevel.checkpoint()
            return "reject", "no one is available to answer"
        # Nothing on a cancel: a tool may stop waiting by itself, and that cancels no turn.
        answer = await permission.ask(query, judgement, lambda: None, by_rule=True)
        return answer.kind, answer.feedback

    def permits(self, need: Need, answered: str) -> bool:
        """Return whether the rules allow *need*, or ask only what the user has *answered* already. Not a checkpoint."""
        judgement = self._permission.judge(self._permission.query(check_need(need), read_only=False))
        return judgement.verdict == "allow" or (
            judgement.verdict == "ask" and bool(answered) and judgement.source == answered
        )

    async def ask_user(self, question: str, choices: tuple[Choice, ...], *, several: bool) -> UserAnswers:
        """Ask the user a question. A checkpoint if a user can answer; if cancelled, the question is withdrawn."""
        run = self._run
        # Not a checkpoint then, as the docstring says: the tool goes on at once.
        if run.inputs.settings.headless != "wait":
            return "declined", ()
        self._step.note_wait(is_ending=self._run.ending.cause is not None)
        return await ask_person(run, question, choices, call_id=self._entry.call_id, several=several)

    async def result_from_outside(self) -> ToolOutput:
        """Wait for `Session.settle`. Always a checkpoint; if cancelled, the call waits for no result any more."""
        run, call_id = self._run, self._entry.call_id
        # The wait may last for days, in another engine: the answer must be in the record before.
        self._step.note_wait(is_ending=self._run.ending.cause is not None)
        # A slot and not a channel: the first result counts, and a second one raises at its sender.
        if call_id in run.state.outside:
            raise RuntimeError("the call waits for a result from outside already")
        waiting = run.state.outside[call_id] = Deferred[ToolOutput]()
        try:
            await waiting.wait()
        finally:
            # Not by `Session.settle`: a result that comes after a cancel must find no slot, and raise at its sender.
            del run.state.outside[call_id]
        return waiting.value

    def context_report(self) -> ContextReport:
        """Return what fills the model's window."""
        return self._run.inputs.services.context_report()

    async def run_agent(self, request: AgentRequest) -> AgentResult:
        """Run a sub-agent inside the call. Always a checkpoint."""
        return await self._run.inputs.services.agents.run_agent(self._run, self._entry, request)

    async def start_agent(self, request: AgentRequest) -> AgentJob:
        """Start a sub-agent in the background. Always a checkpoint."""
        return await self._run.inputs.services.agents.start_agent(self._run, self._entry, request)
