"""`open_engine` and `Engine`: a host's handle of an engine."""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, cast, final

from trio.lowlevel import enable_ki_protection

from engine.config.config import Config
from engine.core.errors import ConfigError
from engine.core.events import SharedContext
from engine.core.hooks import Hooks
from engine.core.ids import SessionId
from engine.core.messages import MediaPart
from engine.core.protocols import NoTrace, Store
from engine.core.settings import Settings
from engine.core.system_clock import RandomIds, SystemClock
from engine.session.engine_options import ContextOptions, FileOptions, PermissionOptions, Ports
from engine.session.engine_runtime import EngineRuntime
from engine.session.engine_services import EngineSetup
from engine.session.live_session import LiveSession
from engine.session.session import Session, live_session, new_session
from engine.session.session_config import SessionConfig, SessionOptions
from engine.session.turn import Turn, start_turn
from engine.session.turn_start import let_park
from engine.session.validation import (
    ModelChoice,
    absolute,
    approver_of,
    around_of,
    existing_folder,
    hooks_of,
    keeper_of,
    opinion_of,
    prompt_of,
    registry_of,
    require_port,
    require_type,
    select_models,
    snapshots_of,
    store_of,
    titles_of,
)
from engine.store.memory import MEMORY
from engine.tools.output.spill import SpillStore
from engine.tools.tool import Tool

if TYPE_CHECKING:
    from engine.session.session_watch import Watch


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
    """Make an engine, which is opened by entering it with `async with`.

    Args:
        model: a name such as `"anthropic/claude-sonnet-4-5"`, or a `Model`; several
            are a chain: the next one is used when the one before fails for good. None: the
            one that the configuration names.
        config: hosts, models, agents and hooks; `engine.settings_file.config_file.load_config` reads a user's own.
        tools: what the model may call.
        settings: for all sessions, unless a prompt brings its own.
        hooks: the host's own functions at fixed points; they come after those of the configuration.
        permissions: what tools may do without asking; by default reading the project is free, all else is asked about.
        context: prompt layers, the keeper of the model's window, titles.
        store: where sessions are kept: the path of a file, which is opened with the engine, the URL of a PostgreSQL
            database, or a `Store`; by default in memory.
        files: snapshots for undo, the folder of long outputs, diagnostics of changed files.
        ports: the clock, ids and the like; for tests.

    Raises:
        ConfigError: if something of it can't work; `UnknownModel` for the model's name.
    """
    # Everything is checked here, before the `async with`: a mistake is reported at the line that has it.
    config = require_type(config, Config)
    permissions = require_type(permissions, PermissionOptions)
    context = require_type(context, ContextOptions)
    files = require_type(files, FileOptions)
    ports = require_type(ports, Ports)
    setup = EngineSetup(
        config=config,
        defaults=SessionConfig(
            settings=require_type(settings, Settings), registry=registry_of(tools), choices=select_models(model, config)
        ),
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
        edit_reviewer=around_of(config, files.diagnostics),
        title_model=titles_of(context.titles, config),
        prompt=prompt_of(context.prompt),
        snapshots=snapshots_of(files.snapshots, store_of(store)),
    )
    return new_engine(EngineRuntime(setup))


@final
class Engine:
    """An open engine: it owns the store and one nursery. Made by `open_engine`, and not by its constructor.

    Two engines in one process do not know each other.
    """

    _runtime: EngineRuntime
    _handles: dict[SessionId, Session]

    def __init__(self) -> None:
        """Raise TypeError."""
        raise TypeError("an engine is made by engine.open_engine()")

    @property
    def is_closed(self) -> bool:
        """Whether it was closed, not opened yet, or came here through a fork."""
        return self._runtime.services.tasks.is_closed

    @enable_ki_protection
    async def __aenter__(self) -> Self:
        """Open it. A checkpoint if it opens a store; if cancelled, it is not open.

        The first in a process looks for what a crashed engine left, some milliseconds.
        Raises `UnknownModel` and what else is wrong with a model; `StoreError`.
        """
        await self._runtime.open()
        return self

    @enable_ki_protection
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> Literal[False]:
        """Close it: turns in its nursery are cancelled and settled, the store is closed. A schedule point.

        The body's own exception goes on as it is.
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
    ) -> Session:
        """Return a new session. Always a checkpoint; if cancelled before the first hook runs, there is none.

        A server on this machine is asked, for a moment, how large its model's window is.

        Args:
            cwd: its working directory. Raises `ConfigError` if there is no such directory.
            settings: instead of the engine's.
            tools: instead of the engine's.
            model: instead of the engine's.
            agent: a way of working that the configuration names: its model and options stand where
                nothing else is given, its system prompt instead of the settings', its rules after all others.
            rules: of this session alone, such as `"deny bash *"`; after the agent's.
        """
        runtime = self._runtime
        runtime.setup.config.check_primary(agent)
        options = SessionOptions(settings=settings, tools=tools, model=model, agent=agent, rules=rules)
        config = runtime.setup.defaults.with_options(runtime.setup.config, options)
        folder = existing_folder(cwd)
        await runtime.prepare_rules(folder)
        await runtime.learn_models(config)
        # After all checkpoints but those of the hooks: a cancel before leaves nothing behind.
        live = runtime.sessions.create(context=SharedContext(cwd=folder), config=config)
        session = self._handle(live)
        await self._run_start_hooks(live, "new")
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
        """Return a session from the store. Always a checkpoint; if cancelled before the first hook runs, it is not open.

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
        from engine.session.stored_sessions import open_stored

        options = SessionOptions(settings=settings, tools=tools, model=model, agent=agent, rules=rules)
        live, is_new = await open_stored(self._runtime, session_id, options)
        session = self._handle(live)
        if is_new:
            await self._run_start_hooks(live, "resumed")
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

        The other one stays as it is, and may be open anywhere. If cancelled before the first hook runs, there is no new one.

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
        from engine.session.stored_sessions import fork_stored

        options = SessionOptions(settings=settings, tools=tools, model=model, agent=agent, rules=rules)
        live = await fork_stored(self._runtime, session_id, options, at=at)
        session = self._handle(live)
        await self._run_start_hooks(live, "new")
        return session

    def watch_session(self, session_id: str, *, after: int = 0) -> Watch:
        """Return the events of a session after that number, whichever engine has it open. Not a checkpoint.

        For a session that this engine has open, `Session.subscribe` has more events, and sooner. Raises `ConfigError` if the
        store can't be watched.
        """
        from engine.session.session_watch import Watch

        self._runtime.services.tasks.check_open()
        return Watch.of(self._runtime.services.store.store, SessionId(session_id), after)

    @enable_ki_protection
    def start_turn(
        self,
        session: Session,
        text: str,
        *,
        attachments: Sequence[MediaPart] = (),
        settings: Settings | None = None,
    ) -> Turn:
        """Run a turn in the engine's own nursery: it goes on when the task that started it is gone. Not a checkpoint.

        Watch it with the returned turn or with `session.subscribe`.
        """
        live = self._check_own(session, "start_turn")
        return self._start(live, session.prompt(text, attachments=attachments, settings=settings))

    @enable_ki_protection
    def resume_turn(self, session: Session, *, settings: Settings | None = None) -> Turn:
        """Go on, in the engine's own nursery, with a turn that waits since its engine was closed, or killed. Not a checkpoint.

        Raises `NothingParked`, `SessionBusy`. See `Session.resume`.
        """
        live = self._check_own(session, "resume_turn")
        return self._start(live, session.resume(settings=settings))

    async def _run_start_hooks(self, live: LiveSession, source: Literal["new", "resumed"]) -> None:
        await live.own_hooks.run_start(live.deps.ids, source, live.deps.models[0].info.name)

    def _start(self, live: LiveSession, turn: Turn) -> Turn:
        run = start_turn(turn)
        let_park(live, run)
        self._runtime.sessions.run_turn(run)
        return turn

    def _handle(self, live: LiveSession) -> Session:
        """Return the one handle of an open session."""
        # One handle for a session, so that a host may compare them. A closed sub-agent's session that is opened again has
        # a new one.
        session = self._handles.get(live.id)
        if session is None or live_session(session) is not live:
            session = self._handles[live.id] = new_session(live)
        return session

    def _check_own(self, session: Session, what: str) -> LiveSession:
        self._runtime.services.tasks.check_open()
        if not isinstance(cast("object", session), Session):
            raise ConfigError(f"{what} takes a Session of this engine, not {session!r}")
        live = live_session(session)
        if self._runtime.sessions.by_id.get(live.id) is not live:
            raise ConfigError(f"session {live.id} belongs to another engine: start its turns there")
        return live


def new_engine(runtime: EngineRuntime) -> Engine:
    """Return a handle of an engine."""
    engine = object.__new__(Engine)
    engine._runtime = runtime  # pyright: ignore[reportPrivateUsage]  # its factory
    engine._handles = {}  # pyright: ignore[reportPrivateUsage]  # its factory
    return engine


def engine_runtime(engine: Engine) -> EngineRuntime:
    """Return what is behind a handle."""
    return engine._runtime  # pyright: ignore[reportPrivateUsage]  # hosts have no way to it
