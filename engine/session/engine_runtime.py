"""`EngineRuntime`: what an engine owns while it is open: its nursery, its store, its models and its sessions.

Hosts hold an `Engine`, which delegates to one of these; so do sessions and their sub-agents.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, final

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.config.config import Config
from engine.core.errors import EngineClosed, EngineError, SessionNotFound, StoreError, SubAgentRefused
from engine.core.events import InputAdmitted, ModelSwitched, SessionCreated, SharedContext
from engine.core.exception_groups import describe, leave, public
from engine.core.hooks import Hooks
from engine.core.ids import CallId, MessageId, SessionId
from engine.core.named_locks import Locks
from engine.core.permission_types import Approver, Opinion, PersistentApprover, ScopedApprover
from engine.core.protocols import ContextKeeper, Deps, IdSource, Model, Snapshots, Store, Tending, Trace, WallClock
from engine.journal.closing_events import RunningAgent, closing_events
from engine.journal.log import Journal
from engine.nursery.concluder import all_over, close_bounded
from engine.nursery.parkable import only_waits
from engine.nursery.parking import may_enter_again, run_own_turn
from engine.nursery.questions import Questions
from engine.nursery.rate_limiter import Traffic
from engine.nursery.running_turn import TurnCause, TurnRun
from engine.process.crash_cleanup import end_leftovers, look_once
from engine.session.background_tasks import BackgroundTasks
from engine.session.live_session import LiveSession
from engine.session.model_cache import ResolvedModels
from engine.session.open_store import open_store_at
from engine.session.session_config import SessionConfig
from engine.session.turn_start import begin_queued_turn
from engine.session.validation import ModelChoice
from engine.store.adapter import StoreAdapter
from engine.tools.output.spill import SpillStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engine.prompt.layers import PromptLayers
    from engine.store.lazy_events import StoredSession
    from engine.tools.background_jobs import TaskFunction
    from engine.tools.tool_context import EditReviewer


# Of the time that closing has: the rest is for telling which hooks were late.
END_HOOKS_SHARE = 0.9


@final
@attrs.define(eq=False, kw_only=True)
class EngineRuntime:
    """An engine.

    Attributes:
        defaults: how sessions work for which nothing else was asked.
        hooks: of all its sessions.
        is_kept: its store outlives it.
        place: the store, or where one is to be opened.
        sessions: those that are open.
    """

    config: Config
    defaults: SessionConfig
    hooks: Hooks
    approver: Approver
    opinion: Opinion | None
    place: Store | str = attrs.field(repr=False)  # a URL may hold a password
    is_kept: bool
    spills: SpillStore
    keeper: ContextKeeper
    snapshots: Snapshots | None
    clock: WallClock
    ids: IdSource
    trace: Trace
    jitter: Callable[[], float]
    around: EditReviewer | None
    title_model: ModelChoice | None
    prompt: PromptLayers | None
    titler: Model | None = attrs.field(default=None, init=False)
    store: StoreAdapter = attrs.field(init=False)
    locks: Locks = attrs.field(factory=Locks, init=False)
    traffic: Traffic = attrs.field(factory=Traffic, init=False)
    models: ResolvedModels = attrs.field(init=False)
    sessions: dict[SessionId, LiveSession] = attrs.field(factory=dict[SessionId, LiveSession], init=False)
    _tasks: BackgroundTasks = attrs.field(init=False)
    _manager: AbstractAsyncContextManager[trio.Nursery] | None = attrs.field(default=None, init=False)
    _nursery: trio.Nursery | None = attrs.field(default=None, init=False)
    # Until it is set, what a crashed engine has left may still be at work in the folder of a session.
    _leftovers_ended: trio.Event | None = attrs.field(default=None, init=False)
    _pid: int = attrs.field(factory=os.getpid, init=False)
    _closed: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.models = ResolvedModels(self.config)

    # -- its life -----------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, not opened yet, or came here through a fork."""
        return self._closed or self._nursery is None or self._pid != os.getpid()

    def check_open(self) -> trio.Nursery:
        """Return its nursery. Raises `EngineClosed`."""
        if self._pid != os.getpid():
            raise EngineClosed("this process was forked; an engine works only in the process that opened it")
        if self._closed:
            raise EngineClosed("the engine was closed; open a new one")
        if self._nursery is None:
            raise EngineClosed("the engine is not open; use it as: async with open_engine(...) as eng")
        return self._nursery

    @enable_ki_protection
    async def open(self) -> None:
        """See `Engine.__aenter__`."""
        if self._manager is not None:
            raise EngineClosed("an engine is opened once; call open_engine() again")
        # Names are resolved here so that a wrong one is told before any work is done.
        self.models.models_of(self.defaults.choices)
        if self.title_model is not None:
            self.titler = self.models.models_of((self.title_model,))[0]
        _ = self.models.summariser
        self._manager = trio.open_nursery()
        self.store = StoreAdapter.of(await open_store_at(self.place) if isinstance(self.place, str) else self.place)
        self._nursery = await self._manager.__aenter__()
        self._tasks = BackgroundTasks(self._nursery)
        self.models.serve_with(self._tasks)
        if self.spills.is_due():
            self._tasks.start(self.spills.sweep, name="sweep of the spill")
        if crashed := look_once():
            self._leftovers_ended = trio.Event()
            self._tasks.start(partial(self._end_leftovers, crashed), name="leftovers of a crash")
        if isinstance(self.snapshots, Tending):
            self._tasks.start(self.snapshots.tend, name="snapshots")

    @enable_ki_protection
    async def close(self, error: BaseException | None) -> None:
        """See `Engine.__aexit__`; *error* is the body's own."""
        assert self._manager is not None
        self._closed = True
        cause = TurnCause(kind="left", reason="aborted", detail="the engine was closed")
        ending = [run for session in self.sessions.values() if (run := session.end_turn(cause)) is not None]
        for session in self.sessions.values():
            session.background.close()
        self._tasks.cancel()
        try:
            await leave(self._manager, error)  # noqa: ASYNC102  # by design: a block is left when its last task has gone
        finally:
            # Turns in blocks of the host's own nurseries still have to be saved.
            await all_over(ending)  # noqa: ASYNC102  # bounded: see concluder.py
            try:
                if self.hooks.session_end:
                    await close_bounded(self._run_end_hooks, self._seconds)  # noqa: ASYNC102  # bounded: see concluder.py
            finally:
                for session in self.sessions.values():
                    self._close_session(session)
                failed = await self._close_ports()  # noqa: ASYNC102  # bounded: see concluder.py
        if failed is not None and error is None:
            raise failed

    @property
    def _seconds(self) -> float:
        """How long each part of closing may take."""
        return self.defaults.settings.durable_within

    async def _end_leftovers(self, crashed: frozenset[str]) -> None:
        """End what crashed engines have left. Always a checkpoint."""
        assert self._leftovers_ended is not None
        try:
            await end_leftovers(crashed)
        finally:
            self._leftovers_ended.set()

    async def wait_for_leftovers(self) -> None:
        """Wait until what a crashed engine has left running is ended. A checkpoint if there was something."""
        if self._leftovers_ended is not None:
            await self._leftovers_ended.wait()
            self.check_open()

    async def _run_end_hooks(self) -> None:
        """Tell the hooks that all sessions end, all at once. A checkpoint if there is a session."""
        failure: BaseException | None = None
        until = trio.current_time() + END_HOOKS_SHARE * self._seconds
        try:
            async with trio.open_nursery() as nursery:
                for session in self.sessions.values():
                    if len(session.journal.path) == 1:
                        nursery.start_soon(session.run_end_hooks, until, name=f"end hooks of {session.id}")
        except BaseExceptionGroup as group:
            failure = public(group)
        if failure is not None:
            raise failure

    async def _close_ports(self) -> EngineError | None:
        """Close the store and the models, all of them even if one fails; return the first error."""
        store = self.store.store
        failed: EngineError | None = None
        for closed in (store, *self.models.closeable):
            try:
                if not await close_bounded(closed.aclose, self._seconds) and closed is store:
                    failed = StoreError(
                        f"the store was not closed within {self._seconds:g} s: what it has not written by then may be lost"
                    )
            except Exception as error:  # noqa: BLE001  # a port is somebody else's code; the others are closed all the same
                own = error if isinstance(error, EngineError) else StoreError(f"closing failed: {describe(error)}")
                failed = failed or own
        return failed

    # -- its tasks ------------------------------------------------------------------------------

    @enable_ki_protection
    def run_turn(self, run: TurnRun) -> None:
        """Run a turn that has begun in the engine's nursery. Not a checkpoint."""
        self.check_open().start_soon(run_own_turn, run, name=f"turn {run.journal.turn_id}")

    @enable_ki_protection
    def start_queued_turn(self, session: LiveSession) -> None:
        """Start the next queued input of an idle session. Not a checkpoint."""
        if self.is_closed or self._nursery is None:
            return
        run = begin_queued_turn(session)
        if run is not None:
            self.run_turn(run)

    @enable_ki_protection
    def run_in_background(self, work: Callable[[], Awaitable[None]], *, name: str) -> trio.CancelScope | None:
        """Run *work* in the engine's nursery until it is done or the engine is closed. Not a checkpoint.

        Returns the scope that cancels it; None if the engine is closed already.
        """
        if self.is_closed or self._nursery is None:
            return None
        return self._tasks.start(work, name=name)

    async def start_task(self, task: TaskFunction, *, name: str) -> None:
        """Start a task in the engine's nursery, and return when it says that it has started. A checkpoint.

        If cancelled, so is the task, and it is waited for. Raises `EngineClosed`, and what the task raised until then.
        """
        await self.check_open().start(task, name=name)

    # -- its sessions -----------------------------------------------------------------------------

    @enable_ki_protection
    def create(
        self,
        *,
        context: SharedContext,
        config: SessionConfig,
        parent: LiveSession | None = None,
        call_id: CallId | None = None,
        forked_from: SessionId | None = None,
    ) -> LiveSession:
        """Return a new session. Not a checkpoint. Raises `EngineClosed`, `ConfigError`."""
        self.check_open()
        session_id = SessionId(self.ids.new("ses"))
        path = (session_id,) if parent is None else (*parent.journal.path, session_id)
        journal = self._journal(session_id, path, None if parent is None else parent.journal)
        session = self._add(journal, config, questions=None if parent is None else parent.questions)
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

    @enable_ki_protection
    def restore(
        self,
        stored: StoredSession,
        config: SessionConfig,
        parent: LiveSession | None = None,
        *,
        agents: Sequence[RunningAgent] = (),
    ) -> LiveSession:
        """Return a session from the store, in order and idle. Not a checkpoint."""
        journal = self._journal(stored.state.session_id, stored.events[0].path, None)
        journal.restore(stored.events, state=stored.state, inputs=partial(stored.events.of_type, InputAdmitted))
        session = self._add(journal, config, questions=None if parent is None else parent.questions)
        open_turn = journal.state.turn
        # A turn that only waits is left for `resume`; nobody is left to resume a sub-agent's.
        waits = config.settings.park and len(journal.path) == 1
        if not (waits and only_waits(journal.state, partial(may_enter_again, config.registry))):
            for event in closing_events(journal.state, MessageId(self.ids.new("msg")), agents=agents):
                journal.append(event, turn_id=None if open_turn is None else open_turn.turn_id)
        if journal.state.background:
            # Imported here: it takes a crash.
            from engine.session.crash_notice import report_lost_work

            report_lost_work(journal, self.ids)
        if (model := session.deps.models[0].info.name) != journal.state.model:
            journal.append(ModelSwitched(model=model))
        if parent is not None:
            journal.attach(parent.journal)
        return session

    @enable_ki_protection
    def forget(self, session: LiveSession) -> None:
        """Close a sub-agent's session: it stays in the store, and `open_session` finds it there. Not a checkpoint."""
        self.sessions.pop(session.id, None)
        session.background.close()
        self._close_session(session)
        self.store.release(session.id)

    def _close_session(self, session: LiveSession) -> None:
        session.journal.close()
        if isinstance(self.approver, ScopedApprover):
            self.approver.end_session(session.id)

    def remember(self, journal: Journal) -> None:
        """A turn has ended: the store may keep where the session stands. Not a checkpoint."""
        self.store.save_state(journal.state)

    async def open_child(self, parent: LiveSession, session_id: str, config: SessionConfig) -> LiveSession:
        """Return a child session of *parent* from the store. A checkpoint; if cancelled, it is not open.

        Raises `SessionNotFound`, also if it is nobody's child or somebody else's; `SessionElsewhere`, `JournalCorrupt`.
        """
        self.check_open()
        child_id = SessionId(session_id)
        path = (*parent.journal.path, child_id)
        # A host may be opening it, too. One session has one journal.
        async with self.locks.hold(f"session:{session_id}"):
            self._check_not_open(path)
            stored = await self.store.open_for_writing(child_id)
            try:
                agents = await self.store.running_agents(stored.state)
                self.check_open()
                if stored.events[0].path != path:
                    raise SessionNotFound(f"{session_id} is no child of {parent.id}")
                return self.restore(stored, config, parent, agents=agents)
            except BaseException:  # it goes on: a lease that nobody uses would keep all others out
                if child_id not in self.sessions:
                    self.store.release(child_id)
                raise

    def _check_not_open(self, path: tuple[SessionId, ...]) -> None:
        """Raise `SubAgentRefused` if a host has this child open, `SessionNotFound` if it is somebody else's session."""
        session = self.sessions.get(path[-1])
        if session is not None and session.journal.path != path:
            raise SessionNotFound(f"{path[-1]} is no child of {path[-2]}")
        if session is not None:
            raise SubAgentRefused(f"{path[-1]} is open by itself in this engine: it can't go on here meanwhile")

    def _journal(self, session_id: SessionId, path: tuple[SessionId, ...], parent: Journal | None) -> Journal:
        return Journal(
            session_id=session_id,
            path=path,
            store=self.store.store,
            clock=self.clock,
            trace=self.trace,
            parent=parent,
            drafts=self.store.drafts(),
        )

    def _add(self, journal: Journal, config: SessionConfig, *, questions: Questions | None = None) -> LiveSession:
        deps = Deps(
            models=self.models.models_of(config.choices),
            store=self.store.store,
            approver=self.approver,
            keeper=self.keeper,
            clock=self.clock,
            ids=self.ids,
            trace=self.trace,
            locks=self.locks,
            opinion=self.opinion,
            summariser=self.models.summariser,
            snapshots=self.snapshots,
        )
        session = LiveSession(
            engine=self,
            journal=journal,
            deps=deps,
            hooks=self.hooks,
            config=config,
            questions=Questions(self.approver, self._all_questions) if questions is None else questions,
        )
        self.sessions[session.id] = session
        return session

    def _all_questions(self) -> Iterable[Questions]:
        return dict.fromkeys(session.questions for session in self.sessions.values())

    # -- before there is a session ------------------------------------------------------------------

    async def prepare_rules(self, cwd: str) -> None:
        """Let the rules read what they need of a folder. A checkpoint if there is something to read. Raises `EngineError`."""
        if isinstance(self.approver, PersistentApprover):
            await self.approver.prepare(cwd)
        self.check_open()

    async def learn_models(self, config: SessionConfig) -> None:
        """Ask servers on this machine about the models of a session. Always a checkpoint. Raises `EngineClosed`."""
        await self.models.learn(self.models.models_of(config.choices))
        self.check_open()

    async def save_grants(self) -> EngineError | None:
        """Let the rules write what was allowed; return why they could not. A checkpoint if there is something to write."""
        try:
            if isinstance(self.approver, PersistentApprover):
                await self.approver.save()
        except EngineError as error:
            return error
        return None
