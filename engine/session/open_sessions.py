"""`OpenSessions` creates an engine's sessions, restores them from the store, and closes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol, final

import attrs
from trio.lowlevel import enable_ki_protection

from engine.core.errors import EngineError, SessionNotFound, SubAgentRefused
from engine.core.events import BackgroundEnded, ModelSwitched, Notice, SessionCreated, SharedContext, TurnEnded
from engine.core.foreign_calls import call_at_end
from engine.core.ids import CallId, MessageId, SessionId
from engine.core.permission_types import ScopedApprover
from engine.journal.closing_events import RunningAgent, closing_events
from engine.journal.interrupted_turn import Takeover, why_not_resumed
from engine.journal.log import Journal
from engine.nursery.inbox import report
from engine.nursery.parkable import only_waits
from engine.nursery.parking import may_enter_again
from engine.nursery.questions import Questions
from engine.session.engine_services import EngineServices
from engine.session.live_session import LiveSession, restore_profile
from engine.session.session_background import SubAgentRunner
from engine.session.session_config import SessionConfig
from engine.session.turn_start import begin_queued_turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.core.protocols import IdSource
    from engine.store.lazy_events import StoredSession


class SessionMaker(Protocol):
    """Makes a session with a certain id."""

    def __call__(self, *, session_id: SessionId) -> LiveSession:
        """Return the new session. Not a checkpoint."""
        ...


@final
@attrs.define(eq=False, repr=False)
class OpenSessions:
    """The open sessions of an engine, those of sub-agents included.

    Attributes:
        by_id: the sessions.
    """

    _services: EngineServices
    _make_sub_agents: Callable[[LiveSession], SubAgentRunner]
    by_id: dict[SessionId, LiveSession] = attrs.field(factory=dict[SessionId, LiveSession], init=False)

    @enable_ki_protection
    def create(
        self,
        *,
        context: SharedContext,
        config: SessionConfig,
        parent: LiveSession | None = None,
        call_id: CallId | None = None,
        forked_from: SessionId | None = None,
        session_id: SessionId | None = None,
    ) -> LiveSession:
        """Return a new session. Not a checkpoint. Raises `EngineClosed`, `ConfigError`."""
        self._services.tasks.check_open()
        if session_id is None:
            session_id = SessionId(self._services.setup.ids.new("ses"))
        path = (session_id,) if parent is None else (*parent.journal.path, session_id)
        journal = self._journal(session_id, path, None if parent is None else parent.journal)
        session = self._add(journal, config, parent)
        journal.append(
            SessionCreated(
                context=context,
                model=session.deps.models[0].info.name,
                parent_id=None if parent is None else parent.id,
                parent_call_id=call_id,
                agent=config.agent,
                forked_from=forked_from,
            )
        )
        return session

    async def create_once(self, session_id: SessionId, create: SessionMaker) -> LiveSession | None:
        """Return what *create* makes with that id; None: another task or engine has made it meanwhile. A checkpoint.

        If cancelled, it is made or not; then no other engine is kept from making it.
        """
        # Locked: a task that is opening it would find in the store what is created here, and open it a second time.
        async with self._services.locks.hold(f"session:{session_id}"):
            if session_id in self.by_id or not await self._services.store.claim_new(session_id):
                return None
            try:
                return create(session_id=session_id)
            finally:
                if session_id not in self.by_id:
                    self._services.store.release(session_id)

    @enable_ki_protection
    def restore(
        self,
        stored: StoredSession,
        config: SessionConfig,
        parent: LiveSession | None = None,
        *,
        agents: Sequence[RunningAgent] = (),
        takeover: Takeover | None = None,
    ) -> LiveSession:
        """Return a session from the store, repaired and idle. Not a checkpoint.

        With a *takeover*, an interrupted turn that may be resumed is left open, for `resume_turn`: only its calls are
        settled, and its step is saved. The user is told of any other.
        """
        ids = self._services.setup.ids
        journal = self._journal(stored.state.session_id, stored.events[0].path, None)
        journal.restore(stored.events, state=stored.state)
        session = self._add(journal, config, parent)
        # A parked turn is left open for `Session.resume`; that of a sub-agent is closed, as nothing can resume it.
        may_stay_open = config.settings.park and len(journal.path) == 1
        if not (may_stay_open and only_waits(journal.state, partial(may_enter_again, config.registry))):
            _settle_interrupted(journal, ids, agents, takeover)
        if journal.state.background:
            _report_lost_work(journal, ids)
        # Another model's reasoning must go to this one as plain text, so the change of model has to be in the record.
        if (model := session.deps.models[0].info.name) != journal.state.model:
            journal.append(ModelSwitched(model=model))
        if journal.state.profile:
            restore_profile(session)
        if parent is not None:
            # Last: what was closed above is history, which the parent's cursors need not see again.
            journal.attach(parent.journal)
        return session

    async def open_child(self, parent: LiveSession, session_id: str, config: SessionConfig) -> LiveSession:
        """Return a child session of *parent* from the store. A checkpoint; if cancelled, it is not open.

        Raises `SessionNotFound`, also if it is the child of another session; `SessionElsewhere`, `JournalCorrupt`.
        """
        services = self._services
        services.tasks.check_open()
        child_id = SessionId(session_id)
        path = (*parent.journal.path, child_id)
        # A host may be opening it at the same time, and a session has only one journal.
        async with services.locks.hold(f"session:{session_id}"):
            self._check_not_open(path)
            stored = await services.store.open_for_writing(child_id)
            try:
                agents = await services.store.running_agents(stored.state)
                services.tasks.check_open()
                if stored.events[0].path != path:
                    raise SessionNotFound(f"{session_id} is no child of {parent.id}")
                return self.restore(stored, config, parent, agents=agents)
            except BaseException:  # also a cancel: a lease that is not released would lock out every other engine
                if child_id not in self.by_id:
                    services.store.release(child_id)
                raise

    async def settle_agents(self, agents: Iterable[RunningAgent]) -> None:
        """Close the turns that a crash left open in sub-agents' sessions, at any depth. A checkpoint if there are any.

        If cancelled, or where a session can't be opened, the turn is closed when that session is opened by itself.
        """
        services = self._services
        for agent in agents:
            with suppress(EngineError):
                async with services.locks.hold(f"session:{agent.session_id}"):
                    if agent.session_id in self.by_id:
                        continue
                    stored = await services.store.open_for_writing(agent.session_id)
                    try:
                        inner = await services.store.running_agents(stored.state)
                        # The innermost first: once a session's own calls are settled, they no longer lead to further
                        # sessions.
                        await self.settle_agents(inner)
                        self._settle(stored, inner)
                    finally:
                        services.store.release(agent.session_id)

    @enable_ki_protection
    def _settle(self, stored: StoredSession, agents: Iterable[RunningAgent]) -> None:
        """Close the open turn of a session without opening the session. Not a checkpoint."""
        journal = self._journal(stored.state.session_id, stored.events[0].path, None)
        journal.restore(stored.events, state=stored.state)
        _close_turn(journal, self._services.setup.ids, agents)
        journal.close()

    @enable_ki_protection
    def close(self, session: LiveSession) -> None:
        """Close one session; it stays in the store, where `open_session` finds it. Not a checkpoint."""
        # Out of the dict first, so that from now on `open_session` reads it from the store.
        self.by_id.pop(session.id, None)
        session.background.close()
        self._end(session)
        self._services.store.release(session.id)

    @enable_ki_protection
    def end_all(self) -> None:
        """Close the journals of all sessions, since the engine closes. Not a checkpoint."""
        for session in self.by_id.values():
            self._end(session)
        self._services.changes.close()

    def _end(self, session: LiveSession) -> None:
        session.journal.close()
        approver = self._services.setup.approver
        if isinstance(approver, ScopedApprover):
            # What the user has allowed for this session only.
            call_at_end("`end_session` of the approver", approver.end_session, session.id)

    @enable_ki_protection
    def start_queued_turn(self, session: LiveSession) -> None:
        """Start the next queued input of an idle session. Not a checkpoint."""
        if not self._services.tasks.is_closed:
            run = begin_queued_turn(session)
            if run is not None:
                self._services.tasks.run_turn(run)

    def _check_not_open(self, path: tuple[SessionId, ...]) -> None:
        """Raise `SubAgentRefused` if a host has this child open, `SessionNotFound` if it has another parent."""
        session = self.by_id.get(path[-1])
        if session is not None and session.journal.path != path:
            raise SessionNotFound(f"{path[-1]} is no child of {path[-2]}")
        if session is not None:
            raise SubAgentRefused(
                f"{path[-1]} is open by itself in this engine: it can't resume as a sub-agent at the same time"
            )

    def _journal(self, session_id: SessionId, path: tuple[SessionId, ...], parent: Journal | None) -> Journal:
        services = self._services
        return Journal(
            session_id=session_id,
            path=path,
            store=services.store.store,
            clock=services.setup.clock,
            trace=services.setup.trace,
            parent=parent,
            drafts=services.store.drafts(),
            telemetry=services.setup.telemetry,
            note_change=services.changes.note,
        )

    def _add(self, journal: Journal, config: SessionConfig, parent: LiveSession | None) -> LiveSession:
        services = self._services
        session = LiveSession(
            engine=services,
            journal=journal,
            deps=services.deps(config),
            config=config,
            # A sub-agent's questions go to the host of its parent session, through the same object.
            questions=Questions(services.setup.approver, self._all_questions) if parent is None else parent.questions,
            make_sub_agents=self._make_sub_agents,
            start_next=self.start_queued_turn,
            sources=services.sources if parent is None else parent.tools.sources,
        )
        if parent is not None:
            session.tools.inherit(parent.tools)
        session.tools.start(config.sources, services.tasks.start)
        self.by_id[session.id] = session
        services.changes.note(session.id)
        return session

    def _all_questions(self) -> Iterable[Questions]:
        # A sub-agent's session shares the questions of the session above it.
        return dict.fromkeys(session.questions for session in self.by_id.values())


@enable_ki_protection
def _settle_interrupted(
    journal: Journal, ids: IdSource, agents: Iterable[RunningAgent], takeover: Takeover | None
) -> None:
    """Settle what is open in an interrupted turn, and end the turn unless it is to be resumed. Not a checkpoint."""
    turn = journal.state.turn
    if turn is None or takeover is None:
        _close_turn(journal, ids, agents)
        return
    reason = takeover.obstacle or why_not_resumed(journal.newest_first(), turn.turn_id)
    _close_turn(journal, ids, agents, stays_open=reason is None)
    if reason is not None and len(journal.path) == 1:
        journal.append(Notice(level="warning", code="interrupted", text=takeover.notice(reason)))


@enable_ki_protection
def _close_turn(journal: Journal, ids: IdSource, agents: Iterable[RunningAgent], *, stays_open: bool = False) -> None:
    """Append the events that close an open turn, or only what is open in it. Not a checkpoint."""
    turn = journal.state.turn
    for event in closing_events(journal.state, MessageId(ids.new("msg")), agents=agents):
        if not (stays_open and isinstance(event, TurnEnded)):
            journal.append(event, turn_id=None if turn is None else turn.turn_id)


def _report_lost_work(journal: Journal, ids: IdSource) -> None:
    """Report background work that a crash ended, with the next request. Not a checkpoint."""
    # Imported here: needed only after a crash.
    from engine.agents.reports import render_lost

    for work in journal.state.background:
        text, display = render_lost(work)
        report(journal, ids, text, "steer", display=display)
        # After its report, so that a crash between the two makes it reported twice rather than never.
        journal.append(BackgroundEnded(work_id=work.work_id))
