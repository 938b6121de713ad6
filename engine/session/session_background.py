"""`SessionBackground`: what outlives a session's calls and turns: background commands, sub-agents, the request for a title."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, final

import attrs
import trio

from engine.core.events import BackgroundEnded, BackgroundKind, BackgroundStarted, Notice
from engine.journal.log import Journal
from engine.session.engine_tasks import EngineTasks

if TYPE_CHECKING:
    from engine.agents.agent_result import AgentResult
    from engine.agents.background import AgentJob, AgentJobs
    from engine.agents.sub_agent_limiter import SubAgentLimiter
    from engine.nursery.call_ledger import CallEntry
    from engine.nursery.running_turn import TurnRun
    from engine.nursery.turn_snapshots import TurnSnapshots
    from engine.tools.background_jobs import Job, Jobs
    from engine.tools.tool_context import AgentRequest


class SubAgentRunner(Protocol):
    """Runs the sub-agents of a session (`engine.session.sub_agents`).

    Attributes:
        gate: limits how many run at once, in the whole tree of sessions.
        jobs: those in the background.
    """

    gate: SubAgentLimiter
    jobs: AgentJobs

    async def run(self, run: TurnRun, entry: CallEntry, request: AgentRequest) -> AgentResult:
        """Run a sub-agent's turn inside the calling task."""
        ...

    async def start(self, run: TurnRun, entry: CallEntry, request: AgentRequest) -> AgentJob:
        """Start a sub-agent in the background."""
        ...


@final
@attrs.define(eq=False, repr=False)
class SessionBackground:
    """The background jobs and the sub-agents of a session.

    Attributes:
        last_snapshots: those of its last turn, which may take one when that is over; None: there was none.
        title_done: set once the request for a title is over; None: none was made.
        title_scope: cancels that request.
    """

    _journal: Journal
    _tasks: EngineTasks
    _make_sub_agents: Callable[[], SubAgentRunner]
    _jobs: Jobs | None = attrs.field(default=None, init=False)
    _sub_agents: SubAgentRunner | None = attrs.field(default=None, init=False)
    last_snapshots: TurnSnapshots | None = attrs.field(default=None, init=False)
    title_done: trio.Event | None = attrs.field(default=None, init=False)
    title_scope: trio.CancelScope | None = attrs.field(default=None, init=False)

    @property
    def jobs(self) -> Jobs:
        """Its background commands."""
        self._tasks.check_run()
        if self._jobs is None:
            # Imported here: most sessions have none, and the code for processes takes time to import.
            from engine.tools.background_jobs import Jobs

            self._jobs = Jobs(self._tasks.start_task, self._report_job, self._note_job, self.note_ended)
        return self._jobs

    @property
    def has_running_jobs(self) -> bool:
        """Whether one of its background commands is running."""
        return self._jobs is not None and any(job.is_running for job in self._jobs.all())

    @property
    def agents(self) -> AgentJobs:
        """Its sub-agents that run in the background."""
        self._tasks.check_run()
        return self._children.jobs

    @property
    def _children(self) -> SubAgentRunner:
        if self._sub_agents is None:
            self._sub_agents = self._make_sub_agents()
        return self._sub_agents

    async def titled(self) -> None:
        """Wait until the request for a title, if there is one, is answered or abandoned. Always a checkpoint."""
        self._tasks.check_run()
        if self.title_done is not None:
            await self.title_done.wait()
        await trio.lowlevel.checkpoint()

    async def end_jobs(self) -> None:
        """End its background commands, but not those of its sub-agents. A checkpoint if there are any.

        If cancelled, they still end, a moment later.
        """
        if self._jobs is not None:
            await self._jobs.aclose()

    async def end_agents(self) -> None:
        """End its sub-agents in the background. A checkpoint if there are any; if cancelled, they end a moment later."""
        if self._sub_agents is not None:
            await self._sub_agents.jobs.aclose()

    def share_limit(self, gate: SubAgentLimiter) -> None:
        """Count the sub-agents of this sub-agent's session against the same limit. Not a checkpoint."""
        self._tasks.check_run()
        self._children.gate = gate

    def close(self) -> None:
        """End all of it, for good. Not a checkpoint; the tasks end a moment later."""
        self._tasks.check_run()
        # What was never used has not been created, and is not created now.
        if self._jobs is not None:
            self._jobs.close()
        if self._sub_agents is not None:
            self._sub_agents.jobs.close()
        if self.title_scope is not None:
            self.title_scope.cancel(reason="the session is closed")

    async def run_agent(self, run: TurnRun, entry: CallEntry, request: AgentRequest) -> AgentResult:
        """Run a turn of a child session inside the calling task (see `ToolContext.run_agent`)."""
        return await self._children.run(run, entry, request)

    async def start_agent(self, run: TurnRun, entry: CallEntry, request: AgentRequest) -> AgentJob:
        """Start a turn of a child session in the background (see `ToolContext.start_agent`)."""
        return await self._children.start(run, entry, request)

    def note_started(self, work_id: str, kind: BackgroundKind, name: str, detail: str = "") -> None:
        """Record that background work began, so that it can be reported as lost after a crash. Not a checkpoint."""
        self._tasks.check_run()
        self._journal.append(BackgroundStarted(work_id=work_id, kind=kind, name=name, detail=detail))

    def note_ended(self, work_id: str) -> None:
        """Record that background work has ended and was reported. Not a checkpoint."""
        self._tasks.check_run()
        # A sub-agent's session closes at once, before its commands have ended.
        if not self._journal.is_closed:
            self._journal.append(BackgroundEnded(work_id=work_id))

    def _note_job(self, job: Job) -> None:
        self.note_started(job.marker, "command", job.name, job.command)

    def _report_job(self, text: str) -> None:
        if not self._journal.is_closed:
            self._journal.append(Notice(level="info", code="job_ended", text=text))
