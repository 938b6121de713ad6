"""`EngineRuntime`, the engine behind its handle: opens and closes it, and prepares what a new session needs."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import AsyncExitStack
from functools import partial
from typing import TYPE_CHECKING, Final, final

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import ConfigError, EngineError, StoreError
from engine.core.exception_groups import describe, public
from engine.core.foreign_calls import call_foreign
from engine.core.permission_types import PersistentApprover, ProfileApprover
from engine.core.protocols import Closeable, Store, Tending
from engine.core.threads import current_token, to_thread
from engine.files.staging import remove_leftovers
from engine.nursery.cleanup import all_over, close_bounded
from engine.nursery.loop_state import TurnCause
from engine.nursery.parking import park
from engine.nursery.running_turn import TurnRun
from engine.process.crash_cleanup import end_leftovers, look_once
from engine.session.engine_options import FolderSetup
from engine.session.engine_services import EngineServices, EngineSetup
from engine.session.live_session import LiveSession
from engine.session.open_sessions import OpenSessions
from engine.session.open_store import open_store_at
from engine.session.session_background import SubAgentRunner
from engine.session.session_config import SessionConfig
from engine.session.validation import require_type
from engine.sources.running_source import start_sources
from engine.store.adapter import StoreAdapter
from engine.tools.tool_context import EditDiagnostics

if TYPE_CHECKING:
    from engine.pace.pace_port import ServedPace

# The hooks' share of the time for closing; the rest is for reporting which of them were late.
END_HOOKS_SHARE = 0.9
# For the files as turns that were cut off have left them.
_SNAPSHOT_SECONDS: Final = 1.0


@final
@attrs.define(eq=False, repr=False)
class EngineRuntime:
    """An engine.

    Attributes:
        services: what its sessions share.
        sessions: those that are open.
    """

    setup: EngineSetup
    services: EngineServices = attrs.field(init=False)
    sessions: OpenSessions = attrs.field(init=False)
    _served_pace: ServedPace | None = attrs.field(default=None, init=False)
    # Until it is set, processes of a crashed engine may still be working in a session's folder.
    _leftovers_ended: trio.Event | None = attrs.field(default=None, init=False)

    def __attrs_post_init__(self) -> None:
        self.services = EngineServices(self.setup)
        self.sessions = OpenSessions(self.services, self._make_sub_agents)

    def _make_sub_agents(self, session: LiveSession) -> SubAgentRunner:
        # Imported here: most sessions have none.
        from engine.session.sub_agents import SubAgents

        return SubAgents(session, self.services, self.sessions)

    # -- its life -----------------------------------------------------------------------------

    @enable_ki_protection
    async def open(self) -> None:
        """See `Engine.__aenter__`."""
        services, tasks, place = self.services, self.services.tasks, self.setup.place
        if current_token() is None:
            raise ConfigError(
                "an engine needs Trio, and this is no Trio program: start yours with trio.run(main). In asyncio, run Trio "
                "as a guest of its loop: docs/how-to/embed.md shows how"
            )
        tasks.check_unused()
        services.resolve_models()
        # Not in a thread: usually there are none, and finding that out takes one look into an empty folder.
        remove_leftovers()
        # The store before the nursery, so that a store that can't be opened leaves no nursery open.
        config = self.setup.config.store
        services.store = StoreAdapter.of(await open_store_at(place, config=config) if isinstance(place, str) else place)
        await tasks.open()
        services.models.serve_with(tasks)
        services.sources = start_sources(self.setup.sources, tasks.start)
        if self.setup.spills.is_due():
            tasks.start(self.setup.spills.sweep, name="sweep of the spill")
        if crashed := look_once():
            self._leftovers_ended = trio.Event()
            tasks.start(partial(self._end_leftovers, crashed), name="leftovers of a crash")
        if isinstance(self.setup.snapshots, Tending):
            tasks.start(self.setup.snapshots.tend, name="snapshots")
        if (pace := self.setup.ports.pace) is not None:
            # Imported here: most engines have no pace.
            from engine.pace.pace_port import ServedPace

            if isinstance(pace, ServedPace):
                self._served_pace = pace
                tasks.start(pace.serve, name="pace")
        if isinstance(self.setup.diagnostics, EditDiagnostics):
            tasks.start(self.setup.diagnostics.run, name="diagnostics")

    @enable_ki_protection
    async def close(self, error: BaseException | None) -> None:
        """See `Engine.__aexit__`; *error* is the body's exception."""
        tasks = self.services.tasks
        # First, so that a turn that ends starts no queued one, and no hook opens a session.
        tasks.close()
        sessions = tuple(self.sessions.by_id.values())
        cause = TurnCause(kind="left", reason="aborted", detail="the engine was closed")
        ending = [run for session in sessions if (run := _end_turn(session, cause)) is not None]
        for session in sessions:
            session.background.close()
        tasks.cancel()
        try:
            await tasks.leave(error)  # noqa: ASYNC102  # by design: a block is left when its last task has gone
        finally:
            # Turns in the host's own blocks still have to be saved.
            await all_over(ending)  # noqa: ASYNC102  # bounded: see cleanup.py
            await finish_snapshots(sessions)  # noqa: ASYNC102  # bounded: see cleanup.py
            try:
                if self.setup.hooks.session_end:
                    await close_bounded(self._run_end_hooks, self._seconds)  # noqa: ASYNC102  # bounded: see cleanup.py
            finally:
                self.sessions.end_all()
                # Last: hooks and turns may have written to the store until now.
                failed = await self._close_ports()  # noqa: ASYNC102  # bounded: see cleanup.py
                if failed is not None and (raised := sys.exception() or error) is not None:
                    # The exception in flight, mostly the body's own, propagates; this one must not get lost.
                    raised.add_note(f"and as the engine was closed: {describe(failed)}")
        if failed is not None and error is None:
            raise failed

    @property
    def _seconds(self) -> float:
        """The time limit for each part of closing."""
        return self.setup.defaults.settings.durable_within

    async def _end_leftovers(self, crashed: frozenset[str]) -> None:
        """End the processes of crashed engines. Always a checkpoint."""
        assert self._leftovers_ended is not None
        try:
            await end_leftovers(crashed)
        finally:
            # Also on a cancel: `open_session` waits for this, and must notice that the engine is closed.
            self._leftovers_ended.set()

    async def wait_for_leftovers(self) -> None:
        """Wait until the processes of a crashed engine have ended. A checkpoint if there were some."""
        if self._leftovers_ended is not None:
            await self._leftovers_ended.wait()
            self.services.tasks.check_open()

    async def _run_end_hooks(self) -> None:
        """Run the session-end hooks of all sessions at once. A checkpoint if there is a session."""
        failure: BaseException | None = None
        until = trio.current_time() + END_HOOKS_SHARE * self._seconds
        try:
            async with trio.open_nursery() as nursery:
                for session in self.sessions.by_id.values():
                    # Not for sub-agents: the host opened only the top session. `close_session` runs its own.
                    if len(session.journal.path) == 1 and not session.is_closing:
                        nursery.start_soon(session.own_hooks.run_end, until, name=f"end hooks of {session.id}")
        except BaseExceptionGroup as group:
            failure = public(group)
        if failure is not None:
            raise failure

    async def _close_ports(self) -> EngineError | None:
        """Close the store, the models and the pace, all of them even if one fails; return the first error."""
        errors: list[EngineError] = []
        # A stack: the next one is closed also if Ctrl-C interrupts one that blocks.
        async with AsyncExitStack() as stack:
            if self._served_pace is not None:
                stack.push_async_callback(self._close_port, self._served_pace, errors)
            for model in reversed(self.services.models.closeable):
                stack.push_async_callback(self._close_port, model, errors)
            stack.push_async_callback(self._close_port, self.services.store.store, errors)
        return errors[0] if errors else None

    async def _close_port(self, port: Store | Closeable, errors: list[EngineError]) -> None:
        """Close one port; note an error in *errors*."""
        aclose = partial(call_foreign, f"`aclose` of {type(port).__name__}", port.aclose)
        try:
            if not await close_bounded(aclose, self._seconds) and port is self.services.store.store:
                errors.append(
                    StoreError(
                        f"the store was not closed within {self._seconds:g} s: what it has not written by then may be lost"
                    )
                )
        except Exception as error:  # noqa: BLE001  # a port is foreign code; the others are still closed
            errors.append(error if isinstance(error, EngineError) else StoreError(f"closing failed: {describe(error)}"))

    # -- before there is a session ------------------------------------------------------------------

    async def configure(self, cwd: str) -> SessionConfig:
        """Return what the sessions of a folder have by default. A checkpoint if the host says so by folder.

        Raises `ConfigError`, and what the host's function raises.
        """
        setup = self.setup
        if setup.configure is None:
            return setup.defaults
        folder = await to_thread(setup.configure, cwd)
        self.services.tasks.check_open()
        if folder is None:
            return setup.defaults
        config = setup.defaults.in_folder(require_type(folder, FolderSetup), setup.diagnostics)
        if config.profile and not isinstance(setup.approver, ProfileApprover):
            raise ConfigError("this engine's host decides about permissions by itself, without profiles of folders")
        return config

    async def prepare_rules(self, cwd: str) -> None:
        """Let the rules read what they need from a folder. A checkpoint if there is something to read.

        Raises `EngineError`.
        """
        if isinstance(self.setup.approver, PersistentApprover):
            await call_foreign("the approver", self.setup.approver.prepare, cwd)
        self.services.tasks.check_open()

    async def learn_models(self, config: SessionConfig) -> None:
        """Ask model servers on this machine about a session's models. Always a checkpoint. Raises `EngineClosed`."""
        models = self.services.models
        await models.learn(models.models_of(config.choices, config.folder_config))
        self.services.tasks.check_open()


async def finish_snapshots(sessions: Iterable[LiveSession]) -> None:
    """Take the snapshots for which the ends of turns had no time. A checkpoint if there are any; shielded, with a deadline.

    A user who has interrupted a turn may undo it next, in another engine.
    """
    last = [session.background.last_snapshots for session in sessions]
    unfinished = [snapshots for snapshots in last if snapshots is not None and snapshots.is_unfinished]

    async def finish() -> None:
        for snapshots in unfinished:
            await snapshots.finish()

    if unfinished:
        await close_bounded(finish, _SNAPSHOT_SECONDS)


def _end_turn(session: LiveSession, cause: TurnCause) -> TurnRun | None:
    """Park the running turn if it only waits for an answer, or else end it; return it. Not a checkpoint."""
    if session.active is not None and not park(session.active):
        session.active.end(cause)
    return session.active
