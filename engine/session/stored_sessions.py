"""Sessions from the store: opened again, or forked into a new one."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import attrs
import trio

from engine.core.errors import ConfigError
from engine.core.events import HistoryReplaced, PromptSet, SessionTitled, SharedContext
from engine.core.ids import SessionId
from engine.core.threads import to_thread
from engine.nursery.permission_scope import renew_bounds

if TYPE_CHECKING:
    from engine.session.engine_runtime import EngineRuntime
    from engine.session.live_session import LiveSession
    from engine.session.session_config import SessionConfig, SessionOptions
    from engine.store.lazy_events import StoredSession


async def open_stored(runtime: EngineRuntime, session_id: str, options: SessionOptions) -> tuple[LiveSession, bool]:
    """Return a session, and whether it was opened by this call (see `Engine.open_session`). Always a checkpoint."""
    runtime.check_open()
    if not isinstance(cast("object", session_id), str):
        raise ConfigError(f"a session id is a str, not {session_id!r}")
    own_id = SessionId(session_id)
    if (session := runtime.sessions.get(own_id)) is not None:
        await trio.lowlevel.checkpoint()
        return session, False
    if options.agent is not None:
        runtime.config.check_primary(options.agent)
    # The next prompt must not meet a command of the dead engine that is still at work.
    await runtime.wait_for_leftovers()
    # One after the other: a task that gives up lets go of its lease, and two would hold the same.
    async with runtime.locks.hold(f"session:{session_id}"):
        if (session := runtime.sessions.get(own_id)) is not None:
            # Another task was quicker. One session has one journal.
            return session, False
        stored = await runtime.store.open_for_writing(own_id)
        try:
            agents = await runtime.store.running_agents(stored.state)
            await runtime.prepare_rules(stored.state.context.cwd)
            config = _config_of(runtime, stored, options)
            await runtime.learn_models(config)
            session = runtime.restore(stored, config, agents=agents)
            if options.agent is not None:
                renew_bounds(session.journal)
        except BaseException:  # it goes on: a lease that nobody uses would keep all others out
            if own_id not in runtime.sessions:
                runtime.store.release(own_id)
            raise
    return session, True


async def fork_stored(
    runtime: EngineRuntime, session_id: str, options: SessionOptions, *, at: str | None
) -> LiveSession:
    """Return a new session that begins with the history of another (see `Engine.fork_session`). Always a checkpoint."""
    from engine.session.fork import forked

    runtime.check_open()
    if not isinstance(cast("object", session_id), str):
        raise ConfigError(f"a session id is a str, not {session_id!r}")
    if options.agent is not None:
        runtime.config.check_primary(options.agent)
    stored = await runtime.store.read(SessionId(session_id))
    state = stored.state
    messages = state.transcript[:] if at is None else await to_thread(forked, stored.events, at)
    config = _config_of(runtime, stored, options)
    # The context that tools keep is that of the end: an earlier point begins with an empty one.
    context = state.context if at is None else SharedContext(cwd=state.context.cwd)
    await runtime.prepare_rules(context.cwd)
    await runtime.learn_models(config)
    session = runtime.create(context=context, config=config, forked_from=state.session_id)
    if options.agent is not None:
        renew_bounds(session.journal)
    if messages:
        session.journal.append(HistoryReplaced(kind="fork", messages=messages))
    if (prompt := state.prompt) is not None and not prompt.is_outdated:
        # Its requests begin like those of the other session, which a host may still have in its cache.
        session.journal.append(PromptSet(sections=prompt.sections, cwd=prompt.cwd, project=prompt.project))
    if state.title:
        session.journal.append(SessionTitled(title=state.title, by="model"))
    return session


def _config_of(runtime: EngineRuntime, stored: StoredSession, options: SessionOptions) -> SessionConfig:
    """Return how a stored session works: with its own agent where no other was asked for, if that still exists."""
    if options.agent is None and stored.state.agent in runtime.config.all_agents:
        options = attrs.evolve(options, agent=stored.state.agent)
    return runtime.defaults.with_options(runtime.config, options)
