"""`open_engine` and `Engine`, a host's handle to an engine."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, cast, final
from weakref import WeakValueDictionary

from trio.lowlevel import enable_ki_protection

from engine.config.config import Config
from engine.core.errors import ConfigError
from engine.core.events import SharedContext
from engine.core.foreign_calls import call_foreign
from engine.core.hooks import Hooks
from engine.core.ids import SessionId
from engine.core.messages import MediaPart
from engine.core.protocols import NoTrace, Store
from engine.core.settings import Settings
from engine.journal.span_port import NoTelemetry
from engine.journal.system_clock import RandomIds, SystemClock
from engine.session.engine_options import ContextOptions, FileOptions, PermissionOptions, Ports
from engine.session.engine_runtime import EngineRuntime
from engine.session.engine_services import EngineSetup
from engine.session.live_session import LiveSession, use_profile
from engine.session.session import Session, live_session, new_session
from engine.session.session_config import SessionConfig, SessionOptions, default_config
from engine.session.turn import Turn, start_turn
from engine.session.turn_start import let_park
from engine.session.validation import (
    ModelChoice,
    absolute,
    approver_of,
    configure_of,
    existing_folder,
    hooks_of,
    keeper_of,
    opinion_of,
    require_port,
    require_session_id,
    require_type,
    secrets_of,
    snapshots_of,
    sources_of,
    store_of,
    titles_of,
)
from engine.store.memory import MEMORY
from engine.tools.output.spill import SpillStore
from engine.tools.tool import Tool

if TYPE_CHECKING:
    from engine.session.session_watch import SessionChanges, Watch
    from engine.tools.editor_files import EditorFiles
    from engine.tools.tool_source import ToolSource


def open_engine(
    *,
    model: ModelChoice | Sequence[ModelChoice] | None = None,
    config: Config | None = None,
    tools: Iterable[Tool] = (),
    settings: Settings | None = None,
    hooks: Hooks | None = None,
    permissions: PermissionOptions | None = None,
    context: ContextOptions | None = None,
    store: Store | str | os.PathLike[str] | None = None,
    files: FileOptions | None = None,
    ports: Ports | None = None,
) -> Engine:
    """Return an engine, to be opened with `async with`.

    Args:
        model: a name such as `"anthropic/claude-sonnet-4-5"`, or a `Model`; several form a fallback chain: the next is
            used when one fails permanently. None: the configured model.
        config: hosts, models, agents and hooks; `engine.settings_file.load_config` reads the user's.
        tools: what the model may call.
        settings: for all sessions; a prompt may bring its own.
        hooks: the host's functions, called at fixed points, after the configured ones.
        permissions: what tools may do without asking; by default they may read the project, and ask for everything
            else.
        context: prompt layers, the context keeper, titles.
        store: where sessions are kept: a file's path, a PostgreSQL URL, or a `Store`; by default in memory.
        files: snapshots for undo, the folder for long outputs, diagnostics of changed files.
        ports: sources of tools that come and go; the pace of requests; the clock, ids and so on, mostly for tests.

    Raises:
        ConfigError: an argument is invalid; `UnknownModel` for an unknown model name.
    """
    # Everything is checked here, before the `async with`, so a mistake is reported at the line that made it.
    config = require_type(config, Config)
    permissions = require_type(permissions, PermissionOptions)
    context = require_type(context, ContextOptions)
    files = require_type(files, FileOptions)
    ports = require_type(ports, Ports)
    setup = EngineSetup(
        config=config,
        defaults=default_config(config, model, settings, tools, prompt=context.prompt, diagnostics=files.diagnostics),
        hooks=hooks_of(config).then(require_type(hooks, Hooks)),
        approver=approver_of(permissions.approver, config, permissions.profile, permissions.rules),
        opinion=opinion_of(permissions.opinion),
        place=store_of(store),
        is_kept=store is not None and store != MEMORY,
        spills=SpillStore(None if files.spill is None else Path(absolute(files.spill, "spill"))),
        keeper=keeper_of(context.keeper, config),
        clock=require_port("clock", ports.clock, SystemClock, "now"),
        ids=require_port("ids", ports.ids, RandomIds, "new"),
        trace=require_port("trace", ports.trace, NoTrace, "point"),
        jitter=require_port("jitter", ports.jitter, lambda: random.random, "__call__"),
        diagnostics=files.diagnostics,
        secrets=secrets_of(config),
        title_model=titles_of(context.titles, config),
        snapshots=snapshots_of(files.snapshots, store_of(store)),
        sources=sources_of(ports.sources),
        configure=configure_of(ports.configure),
        telemetry=require_port("telemetry", ports.telemetry, NoTelemetry, "follow"),
        ports=ports,
    )
    return new_engine(EngineRuntime(setup))


@final
class Engine:
    """An engine: it owns the store and one nursery, and shares nothing with others. Made by `open_engine` only."""

    _runtime: EngineRuntime
    # Weak: a handle holds the whole history of a session, also of one that was closed.
    _handles: WeakValueDictionary[SessionId, Session]

    def __init__(self) -> None:
        """Raise TypeError."""
        raise TypeError("an engine is made by engine.open_engine()")

    @property
    def is_closed(self) -> bool:
        """Whether it is closed: not opened yet, closed again, or inherited through a fork."""
        return self._runtime.services.tasks.is_closed

    @enable_ki_protection
    async def __aenter__(self) -> Self:
        """Open it. A checkpoint if it opens a store; if cancelled, it is not open.

        The first engine of a process looks for what a crashed one left behind, which takes some milliseconds. Raises
        `UnknownModel`, or another error of a model; `StoreError`.
        """
        await self._runtime.open()
        return self

    @enable_ki_protection
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        """Close it: turns in its nursery are cancelled and settled, and the store is closed. A schedule point.

        The body's own exception propagates unchanged.
        """
        await self._runtime.close(error)  # noqa: ASYNC102  # by design: see EngineRuntime.close
        return False

    async def create_session(
        self,
        *,
        cwd: str | os.PathLike[str] = ".",
        settings: Settings | None = None,
        tools: Iterable[Tool] | None = None,
        model: ModelChoice | Sequence[ModelChoice] | None = None,
        agent: str | None = None,
        rules: Iterable[str] = (),
        sources: Iterable[ToolSource] = (),
        editor: EditorFiles | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Return a new session. Always a checkpoint; if cancelled before the first hook runs, there is none.

        A model server on this machine is asked for the size of its context window, which takes a moment.

        Args:
            cwd: its working directory. Raises `ConfigError` if there is no such directory.
            settings: instead of the engine's.
            tools: instead of the engine's.
            model: instead of the engine's.
            agent: the name of a configured agent: its model and options are used where no others are passed,
                its system prompt replaces the settings', its rules come last.
            rules: permission rules for this session only, such as `"deny bash *"`; after the agent's.
            sources: of tools that come and go, for this session and its sub-agents, besides the engine's.
            editor: the user's editor: the tools for files read and change what it holds unsaved.
            session_id: makes it idempotent, for ever: a session that was created with this id is opened and returned.
                When this returns, the session is saved. Raises `InputConflict` if it was created in another folder, or
                with another agent or model; `SessionElsewhere` if another engine has it open; `StoreError`.
        """
        runtime = self._runtime
        own_id = require_session_id(session_id)
        options = SessionOptions(
            settings=settings, tools=tools, model=model, agent=agent, rules=rules, sources=tuple(sources), editor=editor
        )
        folder = existing_folder(cwd)
        defaults = await runtime.configure(folder)
        defaults.folder_config.check_primary(agent)
        config = defaults.with_options(options)
        # Called after all checkpoints but those of the hooks, so that an earlier cancel leaves nothing behind.
        create = partial(runtime.sessions.create, context=SharedContext(cwd=folder), config=config)
        live: LiveSession | None = None
        while live is None:
            if own_id is not None and (found := await self._find_created(own_id, options, folder, config)) is not None:
                return found
            await runtime.prepare_rules(folder)
            await runtime.learn_models(config)
            # None: another task or engine has made it meanwhile.
            live = create() if own_id is None else await runtime.sessions.create_once(own_id, create)
        return await self._finish_opening(live, "new", is_named=own_id is not None)

    async def open_session(
        self,
        session_id: str,
        *,
        settings: Settings | None = None,
        tools: Iterable[Tool] | None = None,
        model: ModelChoice | Sequence[ModelChoice] | None = None,
        agent: str | None = None,
        rules: Iterable[str] = (),
        sources: Iterable[ToolSource] = (),
        editor: EditorFiles | None = None,
    ) -> Session:
        """Return a session from the store. Always a checkpoint; if cancelled before the first hook runs, it is not open.

        A turn that a crash interrupted is settled and ended first; nothing is run again. Processes left by a crashed
        engine are ended before that, within half a second.

        Args:
            session_id: the session. If it is already open in this engine, it is returned as it is.
            settings: as for `create_session`.
            tools: as for `create_session`.
            model: as for `create_session`; None: the engine's, not the one it had.
            agent: as for `create_session`; one that plans first will plan again. None: the agent it had, if still
                configured; an approved plan stays approved.
            rules: as for `create_session`; the rules it had are not stored.
            sources: as for `create_session`.
            editor: as for `create_session`.

        Raises:
            SessionNotFound: it is not in the store.
            SessionElsewhere: another engine has it open.
            JournalCorrupt: its record in the store is damaged.
        """
        from engine.session.stored_sessions import open_stored

        options = SessionOptions(
            settings=settings, tools=tools, model=model, agent=agent, rules=rules, sources=tuple(sources), editor=editor
        )
        live, is_new = await open_stored(self._runtime, session_id, options)
        return await self._finish_opening(live, "resumed" if is_new else None, is_named=False)

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
        sources: Iterable[ToolSource] = (),
        editor: EditorFiles | None = None,
        fork_id: str | None = None,
    ) -> Session:
        """Return a new session that begins with the history of another. Always a checkpoint.

        The other session is not changed, and may be open anywhere. If cancelled before the first hook runs, there is no
        new one.

        Args:
            session_id: the other session.
            at: the id of the last message to include, which may be any that was ever in it; by default all.
            settings: as for `create_session`.
            tools: as for `create_session`.
            model: as for `create_session`.
            agent: as for `create_session`; None: that of the other session, if still configured.
            rules: as for `create_session`.
            sources: as for `create_session`.
            editor: as for `create_session`.
            fork_id: the id of the new one; makes it idempotent, as for `create_session`. Raises `InputConflict` if the
                session with that id is no fork of the other one at that message.

        Raises:
            SessionNotFound: it is not in the store.
            MessageNotFound: it never had such a message.
            JournalCorrupt: its record in the store is damaged.
        """
        from engine.session.stored_sessions import fork_stored

        options = SessionOptions(
            settings=settings, tools=tools, model=model, agent=agent, rules=rules, sources=tuple(sources), editor=editor
        )
        own_id = require_session_id(fork_id)
        live, source = await fork_stored(self._runtime, session_id, options, at=at, fork_id=own_id)
        return await self._finish_opening(live, source, is_named=own_id is not None)

    async def close_session(self, session_id: str) -> bool:
        """Close a session, so that another engine can open it; return whether it was open. Always a checkpoint.

        A turn that only waits for an answer is parked, if it may be (`Settings.park`); commands and sub-agents in the
        background are ended. Cursors return what is left, and end; other methods of its handle raise `SessionClosed`.
        `open_session` opens it again. If cancelled before it has begun to close, it stays open; from then on it closes
        in any case, within seconds.

        Raises:
            SessionBusy: a turn runs, files are being restored, or it belongs to a sub-agent at work; it stays open.
            StoreError: it is closed, but not all of it could be saved.
        """
        from engine.session.stored_sessions import close_open

        return await close_open(self._runtime, session_id)

    def watch_session(self, session_id: str, *, after: int = 0) -> Watch:
        """Return a session's events after that number, no matter which engine has it open. Not a checkpoint.

        For a session that is open in this engine, `Session.subscribe` delivers more events, and sooner. Raises
        `ConfigError` if the store can't be watched.
        """
        from engine.session.session_watch import Watch

        self._runtime.services.tasks.check_open()
        return Watch.of(self._runtime.services.store.store, SessionId(session_id), after)

    def watch_sessions(self) -> SessionChanges:
        """Return which sessions of this engine change from now on: opened, any event, closed. Not a checkpoint.

        For a list with live status: each look names the sessions whose rows may have changed since the one before.
        """
        self._runtime.services.tasks.check_open()
        return self._runtime.services.changes.watch(self._runtime.services.tasks.token)

    async def use_profile(self, session: Session, profile: str | None, *, by: str = "") -> None:
        """Use another permission profile in a session and its sub-agents, from now on. Always a checkpoint.

        It decides about calls that no rule matches, at once and after the session is opened again; open questions that
        it allows are answered. No deny is lifted. It is in the record (`SessionConfigured`) and in `session.state`, so
        that all clients can show it. If cancelled, it may be selected, but not saved.

        Args:
            session: a session that is no sub-agent's.
            profile: as in `PermissionOptions`, such as "full"; None: that of its folder, or the engine's, again.
            by: the client that selects it, for the record.

        Raises `ConfigError` for an unknown profile, for an approver without profiles, or if the configured one denies;
        `StoreError` if it could not be saved.
        """
        await use_profile(self._check_own(session, "use_profile"), profile, by)

    @enable_ki_protection
    def start_turn(
        self,
        session: Session,
        text: str,
        *,
        attachments: Sequence[MediaPart] = (),
        settings: Settings | None = None,
        input_id: str | None = None,
        by: str = "",
    ) -> Turn:
        """Run a turn in the engine's own nursery, where it outlives the task that started it. Not a checkpoint.

        Watch it with the returned turn or with `session.subscribe`. With *input_id* it is idempotent: the same prompt
        again returns the turn that exists. *by* names the client that sends it. See `Session.prompt`, also for the errors.
        """
        live = self._check_own(session, "start_turn")
        turn = session.prompt(text, attachments=attachments, settings=settings, input_id=input_id, by=by)
        return self._start(live, turn)

    @enable_ki_protection
    def resume_turn(self, session: Session, *, settings: Settings | None = None) -> Turn:
        """Resume, in the engine's own nursery, a turn that was parked when its engine was closed or killed.

        Not a checkpoint. Raises `NothingParked`, `SessionBusy`. See `Session.resume`.
        """
        live = self._check_own(session, "resume_turn")
        return self._start(live, session.resume(settings=settings))

    async def _find_created(
        self, session_id: SessionId, options: SessionOptions, folder: str, config: SessionConfig
    ) -> Session | None:
        """Return the session that was created with that id, if there is one. Always a checkpoint."""
        from engine.session.stored_sessions import open_created

        models = self._runtime.services.models.models_of(config.choices, config.folder_config)
        model = None if options.model is None else models[0].info.name
        opened = await open_created(self._runtime, session_id, options, cwd=folder, model=model)
        if opened is None:
            return None
        return await self._finish_opening(opened[0], "resumed" if opened[1] else None, is_named=True)

    async def _finish_opening(
        self, live: LiveSession, source: Literal["new", "resumed"] | None, *, is_named: bool
    ) -> Session:
        """Return the handle of a session after its first hooks, if it is new here. A checkpoint if there are any.

        One that a host has named is saved first: the host may tell others its name, or end and repeat the request.
        """
        session = self._handle(live)
        if is_named:
            await call_foreign("the store", live.deps.store.flushed, live.id, live.journal.seq)
        if source is not None:
            await live.own_hooks.run_start(live.deps.ids, source, live.deps.models[0].info.name)
        return session

    def _start(self, live: LiveSession, turn: Turn) -> Turn:
        run = start_turn(turn)
        if run is not None:
            let_park(live, run)
            self._runtime.services.tasks.run_turn(run)
        return turn

    def _handle(self, live: LiveSession) -> Session:
        """Return the only handle of an open session."""
        # One handle per session, so that a host can compare them. A sub-agent's session that was closed and opened
        # again has a new one.
        session = self._handles.get(live.id)
        if session is None or live_session(session) is not live:
            session = self._handles[live.id] = new_session(live)
        return session

    def _check_own(self, session: Session, what: str) -> LiveSession:
        self._runtime.services.tasks.check_open()
        if not isinstance(cast("object", session), Session):
            raise ConfigError(f"{what} takes a Session of this engine, not {session!r}")
        live = live_session(session)
        live.check_open()
        # By identity: another engine may have opened a session with the same id from the same store.
        if self._runtime.sessions.by_id.get(live.id) is not live:
            raise ConfigError(f"session {live.id} belongs to another engine: start its turns there")
        return live


def new_engine(runtime: EngineRuntime) -> Engine:
    """Return a handle to an engine."""
    engine = object.__new__(Engine)
    engine._runtime = runtime  # pyright: ignore[reportPrivateUsage]  # its factory
    engine._handles = WeakValueDictionary()  # pyright: ignore[reportPrivateUsage]  # its factory
    return engine


def engine_runtime(engine: Engine) -> EngineRuntime:
    """Return the engine behind a handle."""
    return engine._runtime  # pyright: ignore[reportPrivateUsage]  # hosts have no way to it
