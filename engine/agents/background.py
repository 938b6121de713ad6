"""Sub-agents that work in the background, as tools and hosts see and control them."""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio

from engine.agents.agent_result import AgentResult
from engine.core.errors import ToolError
from engine.core.ids import SessionId
from engine.core.threads import check_run, current_token

# Ended jobs that can still be asked for their result; older ones are in the store.
MAX_ENDED = 16
# Each has a model's stream open. More would mostly wait for the host's rate limit.
MAX_RUNNING = 16


@attrs.define(eq=False, kw_only=True)
class AgentJob:
    """A sub-agent in the background.

    Attributes:
        session_id: its session; tools call it by this id.
        agent: the name of the agent.
        result: how it ended; None: it is running, or could not start.
        error: why it could not start, or what failed.
        finished: set once it has ended and its report is in the session.
    """

    session_id: SessionId
    agent: str
    _stop: Callable[[], None] = attrs.field(alias="stop")
    _peek: Callable[[], str] = attrs.field(alias="peek")
    result: AgentResult | None = attrs.field(default=None, init=False)
    error: str = attrs.field(default="", init=False)
    is_stopped: bool = attrs.field(default=False, init=False)
    finished: trio.Event = attrs.field(factory=trio.Event, init=False)
    _began_at: float = attrs.field(factory=trio.current_time, init=False)
    _token: trio.lowlevel.TrioToken | None = attrs.field(factory=current_token, init=False)

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return not self.finished.is_set()

    @property
    def last_text(self) -> str:
        """Its last text, possibly unfinished."""
        return self._peek() if self.result is None else self.result.text

    @property
    def status_text(self) -> str:
        """Its status for people."""
        if self.is_running:
            return f"running for {trio.current_time() - self._began_at:.1f} s"
        if self.result is None:
            return self.error
        return self.result.error or "completed"

    def mark_finished(self) -> None:
        """Mark it finished and release the session, which the callbacks keep in memory. Not a checkpoint."""
        check_run(self._token)
        self._stop, self._peek = _do_nothing, _no_text
        self.finished.set()

    def stop(self) -> None:
        """Stop it. Not a checkpoint; `finished` is set once its turn is settled and saved."""
        check_run(self._token)
        self.is_stopped = True
        self._stop()


def _do_nothing() -> None:
    """Do nothing: the job has ended."""


def _no_text() -> str:
    return ""


@attrs.define(eq=False)
class AgentJobs:
    """The sub-agents in the background of one session."""

    _jobs: dict[str, AgentJob] = attrs.field(factory=dict[str, AgentJob], init=False)
    is_closed: bool = attrs.field(default=False, init=False)
    _token: trio.lowlevel.TrioToken | None = attrs.field(factory=current_token, init=False)

    def all(self) -> tuple[AgentJob, ...]:
        """Return the jobs, oldest first; of the ended ones only the latest."""
        return tuple(self._jobs.values())

    @property
    def running(self) -> tuple[AgentJob, ...]:
        """Those that have not ended."""
        return tuple(job for job in self._jobs.values() if job.is_running)

    def get(self, session_id: str) -> AgentJob:
        """Return the job with this id. Raises `ToolError`, which lists the others."""
        if session_id not in self._jobs:
            jobs = ", ".join(f"{job.session_id} ({job.agent}, {job.status_text})" for job in self.all()) or "none"
            raise ToolError(
                f"There is no sub-agent {session_id[:80]!r} in the background. There are: {jobs}. One that ended with "
                "the engine that ran it can be continued: call task with its task_id."
            )
        return self._jobs[session_id]

    def add(self, job: AgentJob) -> None:
        """Add a job that is about to start. Not a checkpoint."""
        check_run(self._token)
        # A continued sub-agent has the same id; it moves to the end, as the newest.
        self._jobs.pop(job.session_id, None)
        self._jobs[job.session_id] = job
        ended = [job.session_id for job in self._jobs.values() if not job.is_running]
        for session_id in ended[: max(0, len(ended) - MAX_ENDED)]:
            del self._jobs[session_id]

    def close(self) -> None:
        """Stop all jobs and accept no more. Not a checkpoint; their turns are settled and saved a moment later."""
        check_run(self._token)
        self.is_closed = True
        for job in self.running:
            job.stop()

    async def aclose(self) -> None:
        """Stop all jobs, and wait until they have ended. Always a checkpoint; if cancelled, they still end."""
        self.close()
        for job in self.all():
            await job.finished.wait()
        await trio.lowlevel.checkpoint()
