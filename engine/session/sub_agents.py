"""A session's sub-agents: started, resumed, awaited, or left to run in the background.

In the foreground a sub-agent's turn runs inside the call that started it, so anything that ends the call ends the turn,
and settles it first. In the background it runs in the engine's nursery: it belongs to the call only while it starts
(`trio.Nursery.start`), and from then on to the session. Its end is reported like input: it wakes the model, or waits
for the next request.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.agents.agent_result import AgentResult
from engine.agents.background import MAX_RUNNING, AgentJob, AgentJobs
from engine.agents.reports import render_report, render_result
from engine.agents.sub_agent_limiter import SubAgentLimiter
from engine.core.errors import SessionElsewhere, SessionNotFound, SubAgentRefused, TurnOver
from engine.core.events import CallProgress, SharedContext
from engine.core.exception_groups import ErrorBoundary, describe
from engine.core.messages import AssistantMessage
from engine.core.settings import Limits, Settings
from engine.nursery.loop_state import TurnCause
from engine.nursery.running_turn import TurnRun
from engine.nursery.turn_supervisor import run_turn
from engine.session.answer_types import require_text
from engine.session.session_config import SessionConfig
from engine.session.turn_start import ParentTurn, agent_result, begin_turn

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.config.agent_config import AgentConfig
    from engine.nursery.call_ledger import CallEntry
    from engine.session.engine_services import EngineServices
    from engine.session.live_session import LiveSession
    from engine.session.open_sessions import OpenSessions
    from engine.tools.tool_context import AgentRequest

_WAITING: Final = "waiting: the limit on concurrent sub-agents is reached"
_STOPPED: Final = TurnCause(kind="user", reason="aborted", detail="it was stopped")


@attrs.define(eq=False)
class SubAgents:
    """The sub-agents of one session.

    Attributes:
        gate: limits how many run at once, in the whole tree of sessions.
        jobs: those in the background.
    """

    _session: LiveSession
    _services: EngineServices
    _sessions: OpenSessions
    gate: SubAgentLimiter = attrs.field(factory=SubAgentLimiter)
    jobs: AgentJobs = attrs.field(factory=AgentJobs, init=False)
    _at_work: set[str] = attrs.field(factory=set[str], init=False)

    async def run(self, run: TurnRun, entry: CallEntry, request: AgentRequest) -> AgentResult:
        """Run a sub-agent's turn inside the calling task. Always a checkpoint; if cancelled, it is settled and saved first."""
        # `run_turn` shields its own cleanup, so a cancel of the call needs nothing special here.
        await trio.lowlevel.checkpoint_if_cancelled()
        text = self._checked(run, request)
        waits = CallProgress(call_id=entry.call_id, message=_WAITING)
        leave = await self.gate.enter(
            self._level, limit=run.inputs.settings.agents_at_once, on_wait=partial(run.journal.append_live, waits)
        )
        try:
            # Checked again: after a long wait, the turn may be ending by now.
            self._checked(run, request)
            child = await self._opened(run, entry, request)
            try:
                child_run = begin_turn(
                    child,
                    text,
                    settings=_settings(run, request),
                    parent=ParentTurn(run=run, entry=entry, agent=request.name),
                )
                # So that ending this turn shortens the child's flush.
                run.children.append(child_run)
                try:
                    await run_turn(child_run)
                finally:
                    run.children.remove(child_run)
                    run.state.changes.add(child_run.state.changes)
            finally:
                self.closed(child)
        finally:
            leave()
        if run.ending.cause is not None:
            # The call was settled when the child ended; nothing that the tool could do with the result counts any more.
            await trio.lowlevel.checkpoint_if_cancelled()
        assert child_run.result is not None
        return agent_result(child_run, child_run.result)

    async def start(self, run: TurnRun, entry: CallEntry, request: AgentRequest) -> AgentJob:
        """Start a sub-agent in the background, and return it. Always a checkpoint; if cancelled, there is none."""
        await trio.lowlevel.checkpoint_if_cancelled()
        self._checked(run, request)
        if self._level > 1:
            # A sub-agent's session closes with its turn, so there would be nothing left to report to.
            raise SubAgentRefused("a sub-agent can't start one in the background: wait for it")
        if self.jobs.is_closed:
            raise SubAgentRefused("the session is being closed, so no sub-agent can start")
        if len(self.jobs.running) >= MAX_RUNNING:
            raise SubAgentRefused(f"{MAX_RUNNING} sub-agents work in the background, which is the limit: wait for one")
        work = _Background(self, run, entry, request)
        await self._services.tasks.start_task(work.run, name=f"sub-agent for {entry.call_id}")
        if work.refused is not None:
            raise work.refused
        if work.job is None:
            # It had moved to the engine's nursery already, which was just being cancelled.
            raise SubAgentRefused("the engine is being closed, so no sub-agent can start")
        return work.job

    # -- one of them ----------------------------------------------------------------------

    @property
    def _level(self) -> int:
        """The level of its sub-agents below the top session."""
        return len(self._session.journal.path)

    def _checked(self, run: TurnRun, request: AgentRequest) -> str:
        """Validate the request and return its prompt. Raises `SubAgentRefused`, `TurnOver`, `ConfigError`."""
        if run.ending.cause is not None:
            # Only a tool that shields itself gets here; what it starts would outlive the turn.
            raise TurnOver("the turn is ending, so no sub-agent can start")
        depth = run.inputs.settings.agent_depth
        if self._level > depth:
            levels = f"{depth} {'level' if depth == 1 else 'levels'}"
            raise SubAgentRefused(
                f"sub-agents may be {levels} deep here, and this is level {self._level - 1}: do it yourself"
            )
        return require_text(request.prompt, "a sub-agent's prompt")

    async def _opened(self, run: TurnRun, entry: CallEntry, request: AgentRequest) -> LiveSession:
        """Return the sub-agent's session, a new one or a resumed one. A checkpoint in the second case."""
        resumed = await self.reopen(run, request)
        return self.create(run, entry, request) if resumed is None else resumed

    def create(self, run: TurnRun, entry: CallEntry, request: AgentRequest) -> LiveSession:
        """Return a new session for it. Not a checkpoint."""
        child = self._sessions.create(
            context=SharedContext(cwd=self._session.journal.state.context.cwd),
            config=self._config(run, request),
            parent=self._session,
            call_id=entry.call_id,
        )
        self._at_work.add(child.id)
        child.background.share_limit(self.gate)
        return child

    async def reopen(self, run: TurnRun, request: AgentRequest) -> LiveSession | None:
        """Return the session to resume, or None for a new one. A checkpoint in the first case."""
        config = self._config(run, request)
        if request.resume is None:
            return None
        child = await self._reopened(require_text(request.resume, "a sub-agent's session id"), config)
        child.background.share_limit(self.gate)
        return child

    async def _reopened(self, session_id: str, config: SessionConfig) -> LiveSession:
        if session_id == self._session.id:
            raise SubAgentRefused(f"{session_id} is this very session: it can't wait for itself")
        if session_id in self._at_work:
            raise SubAgentRefused(f"{session_id} is running: wait until it has ended")
        # Before the checkpoint: two calls of one message may name the same session.
        self._at_work.add(session_id)
        try:
            return await self._sessions.open_child(self._session, session_id, config)
        except SessionNotFound as error:
            self._at_work.discard(session_id)
            raise SubAgentRefused(
                f"{session_id[:80]!r} is no sub-agent of this session: leave it out to begin a new one"
            ) from error
        except SessionElsewhere as error:
            self._at_work.discard(session_id)
            raise SubAgentRefused(str(error)) from error
        except BaseException:  # also a cancel: otherwise the session could never be resumed
            self._at_work.discard(session_id)
            raise

    def closed(self, child: LiveSession) -> None:
        """Close the session of a sub-agent that is done. Not a checkpoint."""
        self._at_work.discard(child.id)
        self._sessions.close(child)

    def _config(self, run: TurnRun, request: AgentRequest) -> SessionConfig:
        """Return its configuration: its agent's current one, even if it has changed since the session was created."""
        agent = request.agent
        choices = self._session.config.choices if agent.model is None else self._services.models.choices_of(agent.model)
        if agent.fallback is not None:
            choices = (choices[0], *agent.fallback)
        return attrs.evolve(
            self._session.config,
            settings=run.inputs.settings,
            registry=self._session.config.registry.of_agent(agent),
            choices=choices,
            rules=agent.rules,
            bounds=agent.bounds,
            agent=request.name,
            sources=(),
            has_tool=self._has_tool(agent),
        )

    def _has_tool(self, agent: AgentConfig) -> Callable[[str, str], bool]:
        """Return what tells which foreign tools an agent may use: of those that the session may use itself."""
        above = self._session.config.has_tool
        return lambda name, right: above(name, right) and agent.has_foreign(name, right)

    def note_started(self, child: LiveSession, name: str) -> None:
        """Record that one starts in the background. Not a checkpoint."""
        self._session.background.note_started(child.id, "agent", name)

    def report_end(self, job: AgentJob, *, may_wake: bool) -> None:
        """Report to the session that one in the background has ended. Not a checkpoint."""
        result = job.result
        status = "aborted" if result is None else result.status
        text = f"It never began: {job.error}." if result is None else render_result(job.agent, result)
        self._session.input.report(
            render_report(job.agent, job.session_id, status, text),
            f"The sub-agent {job.agent} ({job.session_id}) has ended: {job.status_text}",
            may_wake=may_wake,
        )
        # After its report, so that a crash between the two makes it reported twice rather than never.
        self._session.background.note_ended(job.session_id)


def _settings(run: TurnRun, request: AgentRequest) -> Settings:
    agent = request.agent
    return attrs.evolve(
        run.inputs.settings,
        system=run.inputs.settings.system if agent.system is None else agent.system,
        options=agent.options.over(run.inputs.settings.options),
        limits=Limits(steps=agent.steps, seconds=agent.seconds, cost=agent.cost),
        token_target=None,
    )


@attrs.define(eq=False)
class _Background:
    """The task of one sub-agent in the background.

    Attributes:
        job: what the session knows about it, once it is certain to run.
        refused: why it can't run.
    """

    _children: SubAgents
    _run: TurnRun
    _entry: CallEntry
    _request: AgentRequest
    job: AgentJob | None = attrs.field(default=None, init=False)
    refused: Exception | None = attrs.field(default=None, init=False)
    _waiting: trio.CancelScope = attrs.field(factory=trio.CancelScope, init=False)
    _turn: TurnRun | None = attrs.field(default=None, init=False)

    @enable_ki_protection
    async def run(self, *, task_status: trio.TaskStatus[None]) -> None:
        """Run it to its end. Always a checkpoint; if cancelled, its turn is settled and saved first."""
        await trio.lowlevel.checkpoint_if_cancelled()
        child = await self._children.reopen(self._run, self._request)
        try:
            task_status.started()
            # If the call is cancelled before `started()` moves this task to the engine's nursery, the task ends here,
            # with the call's nursery, and leaves nothing behind.
            await trio.lowlevel.checkpoint_if_cancelled()
            # No checkpoint between here and the job: an open session that no job holds would never be closed.
            child = self._begin(child)
        except Exception as error:  # noqa: BLE001  # the call raises it: here it would end all turns of the engine
            self.refused = error
        except BaseException:  # mostly a cancel: the resumed session is closed again
            if child is not None:
                self._children.closed(child)
            raise
        if child is not None and self.job is not None:
            await self._run_to_its_end(child, self.job)

    def _begin(self, resumed: LiveSession | None) -> LiveSession:
        """Return the sub-agent's session, which from now on belongs to the parent session. Not a checkpoint."""
        child = self._children.create(self._run, self._entry, self._request) if resumed is None else resumed
        try:
            name = self._request.name or "the sub-agent"
            self._children.note_started(child, name)
        except BaseException:  # no job holds it yet, so nothing else would close it
            self._children.closed(child)
            raise
        job = self.job = AgentJob(session_id=child.id, agent=name, stop=self._stop, peek=partial(_last_text, child))
        self._children.jobs.add(job)
        return child

    async def _run_to_its_end(self, child: LiveSession, job: AgentJob) -> None:
        came_to_its_end = False
        boundary = ErrorBoundary()
        try:
            with boundary:
                await self._work(child, job)
                came_to_its_end = True
        finally:
            if boundary.error is not None:
                job.error = describe(boundary.error)
            self._children.closed(child)
            if job.result is None:
                job.error = job.error or "it was stopped before it started"
            job.mark_finished()
            # A sub-agent that was stopped, or cancelled because the engine closes, wakes no model.
            self._children.report_end(job, may_wake=came_to_its_end)

    async def _work(self, child: LiveSession, job: AgentJob) -> None:
        run, limit = self._run, self._run.inputs.settings.agents_at_once
        leave = None
        # Only the wait for a slot is in this scope: once there is a turn, stopping means ending the turn, which settles
        # it.
        with self._waiting:
            leave = await self._children.gate.enter(1, limit=limit, in_background=True)
        if leave is None:
            return
        try:
            if job.is_stopped:
                return
            above = ParentTurn(run=run, entry=self._entry, in_background=True)
            turn = self._turn = begin_turn(
                child, self._request.prompt, settings=_settings(run, self._request), parent=above
            )
            try:
                await run_turn(turn)
            finally:
                if turn.result is not None:
                    job.result = agent_result(turn, turn.result)
        finally:
            leave()

    def _stop(self) -> None:
        self._waiting.cancel(reason="the sub-agent was stopped")
        if self._turn is not None:
            self._turn.end(_STOPPED)


def _last_text(child: LiveSession) -> str:
    """Return the last text of a running sub-agent."""
    state = child.journal.snapshot()
    step = None if state.turn is None else state.turn.step
    texts = [] if step is None else [part.text for part in step.parts if part.kind == "text" and part.text]
    # The text being written, or else that of the last complete message.
    return (
        texts[-1]
        if texts
        else next((m.text for m in reversed(state.transcript[:]) if isinstance(m, AssistantMessage) and m.text), "")
    )
