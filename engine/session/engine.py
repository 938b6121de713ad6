"""`open_engine`: puts the parts together and owns the service nursery."""

from __future__ import annotations

import os
import random
import typing
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, final

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.config.config import Config
from engine.core.errors import ConfigError, EngineClosed, EngineError, SessionNotFound, StoreError, SubAgentRefused
from engine.core.events import (
    HistoryReplaced,
    InputAdmitted,
    ModelSwitched,
    PromptSet,
    SessionCreated,
    SessionTitled,
    SharedContext,
)
from engine.core.exception_groups import describe, leave, public
from engine.core.hooks import Hooks
from engine.core.ids import CallId, MessageId, SessionId
from engine.core.messages import MediaPart
from engine.core.named_locks import Locks
from engine.core.null_trace import NoTrace
from engine.core.permission_types import Approver, Opinion, PersistentApprover
from engine.core.protocols import ContextKeeper, Deps, IdSource, Model, Snapshots, Store, Tending, Trace, WallClock
from engine.core.settings import Settings
from engine.core.system_clock import RandomIds, SystemClock
from engine.core.threads import to_thread
from engine.journal.closing_events import RunningAgent, closing_events
from engine.journal.log import Journal
from engine.nursery.concluder import all_over, close_bounded
from engine.nursery.parkable import only_waits
from engine.nursery.parking import may_enter_again, run_own_turn
from engine.nursery.permission_scope import bind_anew
from engine.nursery.questions import Questions
from engine.nursery.rate_limiter import Traffic
from engine.nursery.running_turn import Cause
from engine.process.crash_cleanup import end_leftovers, look_once
from engine.session.background_tasks import Beside
from engine.session.fork import forked
from engine.session.model_cache import ResolvedModels
from engine.session.open_store import opened
from engine.session.session import Session
from engine.session.session_config import Way
from engine.session.session_watch import Watch
from engine.session.turn import Turn
from engine.session.validation import (
    ModelChoice,
    absolute,
    approver_of,
    around_of,
    checked,
    chosen,
    hooks_of,
    keeper_of,
    opinion_of,
    port,
    prompt_of,
    registry_of,
    snapshots_of,
    store_of,
    titles_of,
)
from engine.store.adapter import StoreAdapter
from engine.store.sqlite.location import MEMORY
from engine.tools.output.spill import SpillStore
from engine.tools.registry import Registry
from engine.tools.tool import Tool

if typing.TYPE_CHECKING:
    from engine.prompt.layers import PromptLayers
    from engine.store.lazy_events import StoredSession
    from engine.tools.background_jobs import TaskFunction
    from engine.tools.context import EditReviewer
    from engine.tools.edit.formatters import Diagnose


# Of the time that closing has: the rest is for telling who was late.
LEAVE_SHARE = 0.9


def open_engine(
    *,
    model: ModelChoice | Sequence[ModelChoice] | None = None,
    config: Config | None = None,
    tools: Iterable[Tool] = (),
    settings: Settings | None = None,
    hooks: Hooks | None = None,
    approver: Approver | None = None,
    profile: str | None = None,
    rules: Iterable[str] = (),
    opinion: Opinion | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    spill: str | os.PathLike[str] | None = None,
    keeper: ContextKeeper | None = None,
    clock: WallClock | None = None,
    ids: IdSource | None = None,
    trace: Trace | None = None,
    jitter: Callable[[], float] | None = None,
    diagnostics: Diagnose | None = None,
    titles: ModelChoice | None = None,
    prompt: PromptLayers | None = None,
    snapshots: Snapshots | None = None,
) -> Engine:
    """Make an engine, which is opened by entering it with `async with`.

    Args:
        model: a name such as `"anthropic/claude-sonnet-4-5"`, or a `Model`; several
            are a chain: the next one is used when the one before fails for good. None: the
            one that the configuration names.
        config: hosts, models, agents and hooks; `engine.settings_file.config_file.load_config` reads a user's own.
        tools: what the model may call.
        settings: for all sessions, unless a prompt brings its own.
        hooks: the host's own functions at fixed points; they come after those of the configuration.
        approver: who judges instead of the rules below.
        profile: what may be done where no rule says otherwise: `"ask"` (reading the project is free, all else is asked
            about), `"auto-edit"`, `"read-only"` or `"full"`. None: the one that the configuration picks.
        rules: of the host's own, such as `"deny bash git push *"`; they come after those of the configuration.
        opinion: asked before the user is: it may answer in the user's place, and overrules no rule.
        store: where sessions are kept: the path of a file, which is opened with the engine, the URL of a PostgreSQL
            database, or a `Store`; by default in memory.
        spill: the folder for outputs that are too long to be shown; by default one in the user's cache.
            `os.devnull`: they are not kept.
        keeper: keeps the transcript inside the window; by default old results are cleared, then what is old is summarised
            (`engine.compaction.manager.Keeper`).
        clock: the time that people read.
        ids: makes identifiers.
        trace: sees inner points; for tests.
        jitter: random fractions for retry delays.
        diagnostics: asked about each file that a tool has changed, once what the configuration names has checked it;
            what it returns goes to the model with the result. A language server's word, say.
        titles: a small model that says in a few words what a session is about, once its first step is over. None: the one
            that the configuration names, or nobody.
        prompt: the layers that requests begin with: a prompt for the model's family, the environment, instruction files,
            skills. None: they begin with `settings.system`, and nothing else.
        snapshots: notes a project's files around what a turn changes, so that `session.undo` can put them back:
            `engine.snapshots.project.ProjectSnapshots()`. None: only the conversation can be undone.

    Raises:
        ConfigError: if something of it can't work; `UnknownModel` for the model's name.
    """
    config = checked(config, Config)
    return Engine(
        choices=chosen(model, config),
        config=config,
        registry=registry_of(tools),
        settings=checked(settings, Settings),
        hooks=hooks_of(config).then(checked(hooks, Hooks)),
        approver=approver_of(approver, config, profile, rules),
        opinion=opinion_of(opinion),
        place=store_of(store),
        is_kept=store is not None and store != MEMORY,
        spills=SpillStore(None if spill is None else Path(absolute(spill, "spill"))),
        keeper=keeper_of(keeper, config),
        clock=port("clock", clock, SystemClock, "now"),
        ids=port("ids", ids, RandomIds, "new"),
        trace=port("trace", trace, NoTrace, "point"),
        jitter=port("jitter", jitter, lambda: random.random, "__call__"),
        around=around_of(config, diagnostics),
        titles=titles_of(titles, config),
        prompt=prompt_of(prompt),
        snapshots=snapshots_of(snapshots, store_of(store)),
    )


@final
@attrs.define(eq=False, kw_only=True)
class Engine:
    """An open engine: it owns the store and one nursery. Made by `open_engine`.

    Two engines in one process do not know each other.
    """

    _choices: tuple[ModelChoice, ...] = attrs.field(alias="choices")
    _config: Config = attrs.field(alias="config")
    _registry: Registry = attrs.field(alias="registry")
    _settings: Settings = attrs.field(alias="settings")
    _hooks: Hooks = attrs.field(alias="hooks")
    _approver: Approver = attrs.field(alias="approver")
    _opinion: Opinion | None = attrs.field(alias="opinion")
    _place: Store | str = attrs.field(alias="place", repr=False)  # a URL may hold a password
    is_kept: bool
    spills: SpillStore
    _keeper: ContextKeeper = attrs.field(alias="keeper")
    _snapshots: Snapshots | None = attrs.field(alias="snapshots")
    _clock: WallClock = attrs.field(alias="clock")
    _ids: IdSource = attrs.field(alias="ids")
    _trace: Trace = attrs.field(alias="trace")
    jitter: Callable[[], float]
    around: EditReviewer | None
    _titles: ModelChoice | None = attrs.field(alias="titles")
    prompt: PromptLayers | None
    titler: Model | None = attrs.field(default=None, init=False)
    _shelf: StoreAdapter = attrs.field(init=False)
    _locks: Locks = attrs.field(factory=Locks, init=False)
    traffic: Traffic = attrs.field(factory=Traffic, init=False)
    models: ResolvedModels = attrs.field(init=False)
    _beside: Beside = attrs.field(init=False)
    _sessions: dict[SessionId, Session] = attrs.field(factory=dict[SessionId, Session], init=False)
    _manager: AbstractAsyncContextManager[trio.Nursery] | None = attrs.field(default=None, init=False)
    _nursery: trio.Nursery | None = attrs.field(default=None, init=False)
    # Until then, what a crashed engine has left may still be at work in the folder of a session.
    _cleared: trio.Event | None = attrs.field(default=None, init=False)
    _pid: int = attrs.field(factory=os.getpid, init=False)
    _closed: bool = attrs.field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.models = ResolvedModels(self._config)

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, not opened yet, or came here through a fork."""
        return self._closed or self._nursery is None or self._pid != os.getpid()

    @enable_ki_protection
    async def __aenter__(self) -> Self:
        """Open it. A checkpoint if it opens a store; if cancelled, it is not open.

        The first in a process looks for what a crashed engine left, some milliseconds.
        Raises `UnknownModel` and what else is wrong with a model; `StoreError`.
        """
        if self._manager is not None:
            raise EngineClosed("an engine is opened once; call open_engine() again")
        # Names are resolved here so that a wrong one is told before any work is done.
        self.models.models_of(self._choices)
        if self._titles is not None:
            self.titler = self.models.models_of((self._titles,))[0]
        _ = self.models.summariser
        self._manager = trio.open_nursery()
        self._shelf = StoreAdapter.of(await opened(self._place) if isinstance(self._place, str) else self._place)
        self._nursery = await self._manager.__aenter__()
        self._beside = Beside(self._nursery)
        self.models.serve_with(self._beside)
        if self.spills.is_due():
            self._beside.start(self.spills.sweep, name="sweep of the spill")
        if crashed := look_once():
            self._cleared = trio.Event()
            self._beside.start(partial(self._clear, crashed), name="leftovers of a crash")
        if isinstance(self._snapshots, Tending):
            self._beside.start(self._snapshots.tend, name="snapshots")
        return self

    @enable_ki_protection
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        """Close it: turns in its nursery are cancelled and settled, the store is closed. A schedule point.

        The body's own exception goes on as it is.
        """
        assert self._manager is not None
        self._closed = True
        cause = Cause(kind="left", reason="aborted", detail="the engine was closed")
        ending = [run for session in self._sessions.values() if (run := session.end_turn(cause)) is not None]
        for session in self._sessions.values():
            session.end_jobs()
        self._beside.cancel()
        try:
            await leave(self._manager, error)  # noqa: ASYNC102  # by design: a block is left when its last task has gone
        finally:
            # Turns in blocks of the host's own nurseries still have to be saved.
            await all_over(ending)  # noqa: ASYNC102  # bounded: see cleanup.py
            try:
                if self._hooks.session_end:
                    await close_bounded(self._take_leave, self._settings.durable_within)  # noqa: ASYNC102  # bounded: see cleanup.py
            finally:
                for session in self._sessions.values():
                    session.journal.close()
                failed = await self._close_ports()  # noqa: ASYNC102  # bounded: see cleanup.py
        if failed is not None and error is None:
            raise failed
        return False

    async def _clear(self, crashed: frozenset[str]) -> None:
        """End what crashed engines have left. Always a checkpoint."""
        assert self._cleared is not None
        try:
            await end_leftovers(crashed)
        finally:
            self._cleared.set()

    async def _take_leave(self) -> None:
        """Tell the hooks that all sessions end, all at once. A checkpoint if there is a session."""
        failure: BaseException | None = None
        until = trio.current_time() + LEAVE_SHARE * self._settings.durable_within
        try:
            async with trio.open_nursery() as nursery:
                for session in self._sessions.values():
                    if len(session.journal.path) == 1:
                        nursery.start_soon(session.take_leave, until, name=f"end hooks of {session.id}")
        except BaseExceptionGroup as group:
            failure = public(group)
        if failure is not None:
            raise failure

    async def _close_ports(self) -> EngineError | None:
        """Close the store and the models, all of them whatever one says; return the first error."""
        store, seconds = self._shelf.store, self._settings.durable_within
        failed: EngineError | None = None
        for closed in (store, *self.models.closeable):
            try:
                if not await close_bounded(closed.aclose, seconds) and closed is store:
                    failed = StoreError(
                        f"the store was not closed within {seconds:g} s: what it has not written by then may be lost"
                    )
            except Exception as error:  # noqa: BLE001  # a port is somebody else's code; the others are closed all the same
                told = error if isinstance(error, EngineError) else StoreError(f"closing failed: {describe(error)}")
                failed = failed or told
        return failed

    async def create_session(
        self,
        *,
        cwd: str | os.PathLike[str] = ".",
        settings: Settings | None = None,
        tools: Iterable[Tool] | None = None,
        model: ModelChoice | Sequence[ModelChoice] | None = None,
        agent: str | None = None,
        rules: Iterable[str] = (),
    ) -> Session:
        """Return a new session. Always a checkpoint; if cancelled before hooks are told of it, there is none.

        A server on this machine is asked, for a moment, how large its model's window is.

        Args:
            cwd: its working directory.
            settings: instead of the engine's.
            tools: instead of the engine's.
            model: instead of the engine's.
            agent: a way of working that the configuration names: its model and options stand where
                nothing else is given, its system prompt instead of the settings', its rules after all others.
            rules: of this session alone, such as `"deny bash *"`; after the agent's.
        """
        self._config.check_primary(agent)
        way = self._way.with_(self._config, settings=settings, tools=tools, model=model, agent=agent, rules=rules)
        folder = absolute(cwd)
        await self._prepare(folder)
        await self._learn(way)
        session = self._create(context=SharedContext(cwd=folder), way=way)
        await session.greet("new")
        return session

    async def open_session(
        self,
        session_id: str,
        *,
        settings: Settings | None = None,
        tools: Iterable[Tool] | None = None,
        model: ModelChoice | Sequence[ModelChoice] | None = None,
        agent: str | None = None,
        rules: Iterable[str] = (),
    ) -> Session:
        """Return a session from the store. Always a checkpoint; if cancelled before hooks are told of it, it is not open.

        A turn that a crash cut off is settled and ended first; nothing is run again. What a crashed engine has left
        running is ended before, within half a second.

        Args:
            session_id: which one. If it is open in this engine already, it is returned as it is.
            settings: as for `create_session`.
            tools: as for `create_session`.
            model: as for `create_session`; None: the engine's, not the one that it had.
            agent: as for `create_session`; one that plans first does so again. None: the one that it had, if the
                configuration still knows it, and a plan that was approved stays so.
            rules: as for `create_session`: those that it had are gone.

        Raises:
            SessionNotFound: the store does not know it.
            SessionElsewhere: another engine has it open.
            JournalCorrupt: what the store has of it is damaged.
        """
        self._check_open()
        if not isinstance(typing.cast("object", session_id), str):
            raise ConfigError(f"a session id is a str, not {session_id!r}")
        known = self._sessions.get(SessionId(session_id))
        if known is not None:
            await trio.lowlevel.checkpoint()
            return known
        if agent is not None:
            self._config.check_primary(agent)
        if self._cleared is not None:
            # What a command of the dead engine still does, no next prompt should meet.
            await self._cleared.wait()
            self._check_open()
        # One after the other: who gives up lets go of what it holds, and two would hold the same.
        async with self._locks.hold(f"session:{session_id}"):
            known = self._sessions.get(SessionId(session_id))
            if known is not None:
                # Another task was quicker. One session has one journal.
                return known
            stored = await self._shelf.open_for_writing(SessionId(session_id))
            try:
                agents = await self._shelf.running_agents(stored.state)
                await self._prepare(stored.state.context.cwd)
                is_chosen = agent is not None
                if agent is None and stored.state.agent in self._config.all_agents:
                    agent = stored.state.agent
                way = self._way.with_(
                    self._config, settings=settings, tools=tools, model=model, agent=agent, rules=rules
                )
                await self._learn(way)
                session = self._restore(stored, way, agents=agents)
                if is_chosen:
                    bind_anew(session.journal)
            except BaseException:  # whatever it is goes on: a lease that nobody uses would keep all others out
                if SessionId(session_id) not in self._sessions:
                    self._shelf.release(SessionId(session_id))
                raise
        await session.greet("resumed")
        return session

    @enable_ki_protection
    def _restore(
        self, stored: StoredSession, way: Way, parent: Session | None = None, *, agents: Sequence[RunningAgent] = ()
    ) -> Session:
        """Return the session that was stored, in order and idle. Not a checkpoint."""
        journal = self._journal(stored.state.session_id, stored.events[0].path, None)
        journal.restore(stored.events, state=stored.state, inputs=partial(stored.events.of_type, InputAdmitted))
        session = self._adopt(journal, way, questions=None if parent is None else parent.questions)
        open_turn = journal.state.turn
        # What only waits is left as it is, for `resume`; a sub-agent's turn has nobody left to tell.
        waits = way.settings.park and len(journal.path) == 1
        if not (waits and only_waits(journal.state, partial(may_enter_again, way.registry))):
            for event in closing_events(journal.state, MessageId(self._ids.new("msg")), agents=agents):
                journal.append(event, turn_id=None if open_turn is None else open_turn.turn_id)
        if journal.state.background:
            # Imported here: it takes a crash.
            from engine.session.crash_notice import tell_of_lost

            tell_of_lost(journal, self._ids)
        if session.models[0].info.name != journal.state.model:
            journal.append(ModelSwitched(model=session.models[0].info.name))
        if parent is not None:
            journal.attach(parent.journal)
        return session

    async def fork_session(
        self,
        session_id: str,
        *,
        at: str | None = None,
        settings: Settings | None = None,
        tools: Iterable[Tool] | None = None,
        model: ModelChoice | Sequence[ModelChoice] | None = None,
        agent: str | None = None,
        rules: Iterable[str] = (),
    ) -> Session:
        """Return a new session that begins with the history of another. Always a checkpoint.

        The other one stays as it is, and may be open anywhere. If cancelled before hooks are told of it, there is no new one.

        Args:
            session_id: the other one.
            at: the id of the last message to begin with, of any that was ever in it; by default all.
            settings: as for `create_session`.
            tools: as for `create_session`.
            model: as for `create_session`.
            agent: as for `create_session`; None: that of the other one, if the configuration still knows it.
            rules: as for `create_session`.

        Raises:
            SessionNotFound: the store does not know it.
            MessageNotFound: it never had such a message.
            JournalCorrupt: what the store has of it is damaged.
        """
        self._check_open()
        if not isinstance(typing.cast("object", session_id), str):
            raise ConfigError(f"a session id is a str, not {session_id!r}")
        if agent is not None:
            self._config.check_primary(agent)
        stored = await self._shelf.read(SessionId(session_id))
        messages = stored.state.transcript[:] if at is None else await to_thread(forked, stored.events, at)
        is_chosen = agent is not None
        if agent is None and stored.state.agent in self._config.all_agents:
            agent = stored.state.agent
        way = self._way.with_(self._config, settings=settings, tools=tools, model=model, agent=agent, rules=rules)
        # What tools keep there is of the end.
        context = stored.state.context if at is None else SharedContext(cwd=stored.state.context.cwd)
        await self._prepare(context.cwd)
        await self._learn(way)
        session = self._create(context=context, way=way, forked_from=stored.state.session_id)
        if is_chosen:
            bind_anew(session.journal)
        if messages:
            session.journal.append(HistoryReplaced(kind="fork", messages=messages))
        if (prompt := stored.state.prompt) is not None and not prompt.is_outdated:
            # Its requests begin like those of the other one, which a host may still have in its cache.
            session.journal.append(PromptSet(sections=prompt.sections, cwd=prompt.cwd, project=prompt.project))
        if stored.state.title:
            session.journal.append(SessionTitled(title=stored.state.title, by="model"))
        await session.greet("new")
        return session

    def watch_session(self, session_id: str, *, after: int = 0) -> Watch:
        """Return the events of a session after that number, whichever engine has it open. Not a checkpoint.

        `Session.subscribe` tells more, and sooner, of one that this engine has open. Raises `ConfigError` if the
        store can't be watched.
        """
        self._check_open()
        return Watch.of(self._shelf.store, SessionId(session_id), after)

    @enable_ki_protection
    def start_turn(
        self,
        session: Session,
        text: str,
        *,
        attachments: Sequence[MediaPart] = (),
        settings: Settings | None = None,
    ) -> Turn:
        """Run a turn in the engine's own nursery: it goes on when whoever started it is gone. Not a checkpoint.

        Watch it with the returned turn or with `session.subscribe`.
        """
        nursery = self._check_own(session, "start_turn")
        turn, run = session.start(text, attachments=attachments, settings=settings)
        nursery.start_soon(run_own_turn, run, name=f"turn {run.journal.turn_id}")
        return turn

    @enable_ki_protection
    def resume_turn(self, session: Session, *, settings: Settings | None = None) -> Turn:
        """Go on, in the engine's own nursery, with a turn that waits since its engine was closed, or killed. Not a checkpoint.

        Raises `NothingParked`, `SessionBusy`. See `Session.resume`.
        """
        nursery = self._check_own(session, "resume_turn")
        turn, run = session.start_again(settings)
        nursery.start_soon(run_own_turn, run, name=f"turn {run.journal.turn_id}")
        return turn

    # -- for sessions -------------------------------------------------------------------

    @enable_ki_protection
    def pump(self, session: Session) -> None:
        """Start the next queued input of an idle session. Not a checkpoint."""
        if self.is_closed or self._nursery is None:
            return
        run = session.start_queued()
        if run is not None:
            self._nursery.start_soon(run_own_turn, run, name=f"turn {run.journal.turn_id}")

    @enable_ki_protection
    def run_beside(self, work: Callable[[], Awaitable[None]], *, name: str) -> trio.CancelScope | None:
        """Run *work* in the engine's nursery until it is done or the engine is closed. Not a checkpoint.

        Returns the scope that cancels it; None if the engine is closed already.
        """
        if self.is_closed or self._nursery is None:
            return None
        return self._beside.start(work, name=name)

    async def start_task(self, task: TaskFunction, *, name: str) -> None:
        """Start a task in the engine's nursery, and return when it says that it has started. A checkpoint.

        If cancelled, so is the task, and it is waited for. Raises `EngineClosed`, and what the task raised until then.
        """
        await self._check_open().start(task, name=name)

    @enable_ki_protection
    def forget(self, child: Session) -> None:
        """A sub-agent is done: its session is in the store, and `open_session` finds it there. Not a checkpoint."""
        self._sessions.pop(child.id, None)
        child.end_jobs()
        child.journal.close()
        self._shelf.release(child.id)

    def remember(self, journal: Journal) -> None:
        """A turn has ended: the store may keep where the session stands. Not a checkpoint."""
        self._shelf.save_state(journal.state)

    def create_child(self, parent: Session, call_id: CallId, way: Way) -> Session:
        """Return a new child session of *parent*. Raises `ConfigError`. Not a checkpoint."""
        return self._create(
            context=SharedContext(cwd=parent.state.context.cwd), way=way, parent=parent, call_id=call_id
        )

    async def open_child(self, parent: Session, session_id: str, way: Way) -> Session:
        """Return a child session of *parent* from the store. A checkpoint; if cancelled, it is not open.

        Raises `SessionNotFound`, also if it is nobody's child or somebody else's; `SessionElsewhere`, `JournalCorrupt`.
        """
        self._check_open()
        wanted = SessionId(session_id)
        path = (*parent.journal.path, wanted)
        # A host may be opening it, too. One session has one journal.
        async with self._locks.hold(f"session:{session_id}"):
            self._check_not_open(path)
            stored = await self._shelf.open_for_writing(wanted)
            try:
                agents = await self._shelf.running_agents(stored.state)
                self._check_open()
                if stored.events[0].path != path:
                    raise SessionNotFound(f"{session_id} is no child of {parent.id}")
                return self._restore(stored, way, parent, agents=agents)
            except BaseException:  # the same
                if wanted not in self._sessions:
                    self._shelf.release(wanted)
                raise

    def _check_not_open(self, path: tuple[SessionId, ...]) -> None:
        """Raise `SubAgentRefused` if a host has this child open, `SessionNotFound` if it is somebody else's session."""
        known = self._sessions.get(path[-1])
        if known is not None and known.journal.path != path:
            raise SessionNotFound(f"{path[-1]} is no child of {path[-2]}")
        if known is not None:
            raise SubAgentRefused(f"{path[-1]} is open by itself in this engine: it can't go on here meanwhile")

    @enable_ki_protection
    def _create(
        self,
        *,
        context: SharedContext,
        way: Way,
        parent: Session | None = None,
        call_id: CallId | None = None,
        forked_from: SessionId | None = None,
    ) -> Session:
        self._check_open()
        session_id = SessionId(self._ids.new("ses"))
        path = (session_id,) if parent is None else (*parent.journal.path, session_id)
        journal = self._journal(session_id, path, None if parent is None else parent.journal)
        session = self._adopt(journal, way, questions=None if parent is None else parent.questions)
        journal.append(
            SessionCreated(
                context=context,
                model=session.models[0].info.name,
                parent_id=None if parent is None else parent.id,
                parent_call_id=call_id,
                agent=way.agent,
                forked_from=forked_from,
            )
        )
        return session

    def _journal(self, session_id: SessionId, path: tuple[SessionId, ...], parent: Journal | None) -> Journal:
        return Journal(
            session_id=session_id,
            path=path,
            store=self._shelf.store,
            clock=self._clock,
            trace=self._trace,
            parent=parent,
            drafts=self._shelf.drafts(),
        )

    @property
    def _way(self) -> Way:
        """How sessions work for which nothing else was asked."""
        return Way(settings=self._settings, registry=self._registry, choices=self._choices)

    def _adopt(self, journal: Journal, way: Way, *, questions: Questions | None = None) -> Session:
        deps = Deps(
            models=self.models.models_of(way.choices),
            store=self._shelf.store,
            approver=self._approver,
            keeper=self._keeper,
            clock=self._clock,
            ids=self._ids,
            trace=self._trace,
            locks=self._locks,
            opinion=self._opinion,
            summariser=self.models.summariser,
            snapshots=self._snapshots,
        )
        session = Session(
            engine=self,
            journal=journal,
            deps=deps,
            registry=way.registry,
            hooks=self._hooks,
            settings=way.settings,
            questions=Questions(self._approver, self._all_questions) if questions is None else questions,
            choices=way.choices,
            rules=way.rules,
            bounds=way.bounds,
        )
        self._sessions[session.id] = session
        return session

    def _all_questions(self) -> Iterable[Questions]:
        return dict.fromkeys(session.questions for session in self._sessions.values())

    async def _prepare(self, cwd: str) -> None:
        """Let the rules get ready for a folder. A checkpoint if there is something to read. Raises `EngineError`."""
        if isinstance(self._approver, PersistentApprover):
            await self._approver.prepare(cwd)
        self._check_open()

    async def _learn(self, way: Way) -> None:
        """Ask servers on this machine about the models of a session, before there is one. Always a checkpoint. Raises `EngineClosed`."""
        await self.models.learn(self.models.models_of(way.choices))
        self._check_open()

    async def save_grants(self) -> EngineError | None:
        """Let the rules write what was allowed; return why they could not. A checkpoint if there is something to write."""
        try:
            if isinstance(self._approver, PersistentApprover):
                await self._approver.save()
        except EngineError as error:
            return error
        return None

    def _check_own(self, session: Session, what: str) -> trio.Nursery:
        nursery = self._check_open()
        if not isinstance(typing.cast("object", session), Session):
            raise ConfigError(f"{what} takes a Session of this engine, not {session!r}")
        if self._sessions.get(session.id) is not session:
            raise ConfigError(f"session {session.id} belongs to another engine: start its turns there")
        return nursery

    def _check_open(self) -> trio.Nursery:
        if self._pid != os.getpid():
            raise EngineClosed("this process was forked; an engine works only in the process that opened it")
        if self._closed:
            raise EngineClosed("the engine was closed; open a new one")
        if self._nursery is None:
            raise EngineClosed("the engine is not open; use it as: async with open_engine(...) as eng")
        return self._nursery
