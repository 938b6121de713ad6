"""`BackgroundWork`: what goes on for a session beside its turns and outlives their calls: commands and sub-agents."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

import attrs

from engine.core.events import BackgroundEnded, BackgroundKind, BackgroundStarted

if TYPE_CHECKING:
    from engine.agents.agent_result import AgentResult
    from engine.agents.background import AgentJob, AgentJobs
    from engine.nursery.call_ledger import CallEntry
    from engine.nursery.running_turn import TurnRun
    from engine.session.engine_runtime import EngineRuntime
    from engine.session.live_session import LiveSession
    from engine.session.sub_agent_limiter import SubAgentLimiter
    from engine.session.sub_agents import SubAgents
    from engine.tools.background_jobs import Job, Jobs
    from engine.tools.tool_context import AgentRequest


@final
@attrs.define(eq=False)
class SessionBackground:
    """The background jobs and the sub-agents of a session."""

    _session: LiveSession
    _engine: EngineRuntime
    _jobs: Jobs | None = attrs.field(default=None, init=False)
    _sub_agents: SubAgents | None = attrs.field(default=None, init=False)

    @property
    def jobs(self) -> Jobs:
        """Its background commands."""
        if self._jobs is None:
            # Imported here: most sessions have none, and processes cost an import.
            from engine.tools.background_jobs import Jobs

            self._jobs = Jobs(self._engine.start_task, self._report_job, self._note_job, self.note_ended)
        return self._jobs

    @property
    def agents(self) -> AgentJobs:
        """Its sub-agents that work in the background."""
        return self._children.jobs

    @property
    def _children(self) -> SubAgents:
        if self._sub_agents is None:
            # Imported here: most sessions have none.
            from engine.session.sub_agents import SubAgents

            self._sub_agents = SubAgents(self._session, self._engine)
        return self._sub_agents

    async def end_jobs(self) -> None:
        """End its background commands; those of its sub-agents go on. A checkpoint if there are any.

        If cancelled, they end all the same, a moment later.
        """
        if self._jobs is not None:
            await self._jobs.aclose()

    def share_limit(self, gate: SubAgentLimiter) -> None:
        """The session is a sub-agent's: its own sub-agents count against the same limit. Not a checkpoint."""
        self._children.gate = gate

    def close(self) -> None:
        """End all of it, for good. Not a checkpoint; its tasks are over a moment later."""
        if self._jobs is not None:
            self._jobs.close()
        if self._sub_agents is not None:
            self._sub_agents.close()

    async def run_agent(self, run: TurnRun, entry: CallEntry, request: AgentRequest) -> AgentResult:
        """Run a turn of a child session inside the calling task (see `ToolContext.run_agent`)."""
        return await self._children.run(run, entry, request)

    async def start_agent(self, run: TurnRun, entry: CallEntry, request: AgentRequest) -> AgentJob:
        """Start a turn of a child session in the background (see `ToolContext.start_agent`)."""
        return await self._children.start(run, entry, request)

    def note_started(self, work_id: str, kind: BackgroundKind, name: str, detail: str = "") -> None:
        """Record that something began, so that whoever opens the session after a crash hears of it. Not a checkpoint."""
        self._session.journal.append(BackgroundStarted(work_id=work_id, kind=kind, name=name, detail=detail))

    def note_ended(self, work_id: str) -> None:
        """Record that it has ended, and was reported. Not a checkpoint."""
        if not self._session.journal.is_closed:
            self._session.journal.append(BackgroundEnded(work_id=work_id))

    def _note_job(self, job: Job) -> None:
        self.note_started(job.marker, "command", job.name, job.command)

    def _report_job(self, text: str) -> None:
        if not self._session.journal.is_closed:
            self._session.notice("info", "job_ended", text)
