"""Sessions from the store: opened again, or forked into a new one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

import attrs
import trio

from engine.core.errors import ConfigError, MessageNotFound
from engine.core.events import Durable, HistoryReplaced, PromptBlocked, PromptSet, SessionTitled, SharedContext
from engine.core.ids import MessageId, SessionId
from engine.core.messages import AssistantMessage, Message, ResultsMessage, Transcript
from engine.core.threads import to_thread
from engine.journal.fold import apply
from engine.journal.state import SessionState
from engine.permission.permission_scope import renew_bounds

if TYPE_CHECKING:
    from engine.session.engine_runtime import EngineRuntime
    from engine.session.live_session import LiveSession
    from engine.session.session_config import SessionConfig, SessionOptions
    from engine.store.lazy_events import StoredSession


async def open_stored(runtime: EngineRuntime, session_id: str, options: SessionOptions) -> tuple[LiveSession, bool]:
    """Return a session, and whether it was opened by this call (see `Engine.open_session`). Always a checkpoint."""
    runtime.services.tasks.check_open()
    if not isinstance(cast("object", session_id), str):
        raise ConfigError(f"a session id is a str, not {session_id!r}")
    own_id = SessionId(session_id)
    if (session := runtime.sessions.by_id.get(own_id)) is not None:
        await trio.lowlevel.checkpoint()
        return session, False
    if options.agent is not None:
        runtime.setup.config.check_primary(options.agent)
    # A command of the dead engine may still be writing into the folder that the next prompt works in.
    await runtime.wait_for_leftovers()
    # One task after the other: the lease is the engine's, so a second task that fails would release it for both.
    async with runtime.services.locks.hold(f"session:{session_id}"):
        if (session := runtime.sessions.by_id.get(own_id)) is not None:
            # Another task was quicker, and one session has one journal.
            return session, False
        stored = await runtime.services.store.open_for_writing(own_id)
        try:
            agents = await runtime.services.store.running_agents(stored.state)
            await runtime.prepare_rules(stored.state.context.cwd)
            config = _config_of(runtime, stored, options)
            await runtime.learn_models(config)
            # Before this session is open, since a cancel may strike in it.
            await runtime.sessions.settle_agents(agents)
            session = runtime.sessions.restore(stored, config, agents=agents)
            if options.agent is not None:
                renew_bounds(session.journal)
        except BaseException:  # also a cancel: a lease that is not released would lock out every other engine
            if own_id not in runtime.sessions.by_id:
                runtime.services.store.release(own_id)
            raise
    return session, True


async def fork_stored(
    runtime: EngineRuntime, session_id: str, options: SessionOptions, *, at: str | None
) -> LiveSession:
    """Return a new session that begins with the history of another (see `Engine.fork_session`). Always a checkpoint."""
    runtime.services.tasks.check_open()
    if not isinstance(cast("object", session_id), str):
        raise ConfigError(f"a session id is a str, not {session_id!r}")
    if options.agent is not None:
        runtime.setup.config.check_primary(options.agent)
    # Read without a lease: the other session may be open in another engine, and goes on there.
    stored = await runtime.services.store.read(SessionId(session_id))
    state = stored.state
    messages = state.transcript[:] if at is None else await to_thread(forked, stored.events, at)
    config = _config_of(runtime, stored, options)
    # The context that tools keep is that of the end: an earlier point begins with an empty one.
    context = state.context if at is None else SharedContext(cwd=state.context.cwd)
    await runtime.prepare_rules(context.cwd)
    await runtime.learn_models(config)
    session = runtime.sessions.create(context=context, config=config, forked_from=state.session_id)
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
    if options.agent is None and stored.state.agent in runtime.setup.config.all_agents:
        options = attrs.evolve(options, agent=stored.state.agent)
    return runtime.setup.defaults.with_options(runtime.setup.config, options)


# -- the history of a fork ----------------------------------------------------------------------


def forked(events: Iterable[Durable], at: str | None = None) -> tuple[Message, ...]:
    """Return the messages that a fork begins with: up to the one whose id is *at*, it included; by default all.

    A message counts as it came: what stands before it is what stood there then, so a fork before a compaction has the
    messages that it replaced, and one inside a turn that was undone later has that turn. A model's message and the
    results of its calls are one: hosts take neither without the other.

    Raises `MessageNotFound` if it was never in the transcript, or its words were not let
    pass; `JournalCorrupt` for an event that can't follow.
    """
    state = SessionState()
    messages: tuple[Message, ...] | None = None
    for event in events:
        before = state.transcript
        state = apply(state, event)
        if at is None or state.transcript is before:
            continue
        if messages is None:
            messages = _up_to(state.transcript, _first_new(before, state.transcript), MessageId(at))
        elif isinstance(event, PromptBlocked) and event.message_id == at:
            # A hook has blocked this prompt, and a fork must not undo that.
            messages = None
    if at is None:
        return state.transcript[:]
    if messages is None:
        raise MessageNotFound(f"session {state.session_id} never had a message {at!r}")
    return messages


def _first_new(before: Transcript, now: Transcript) -> int:
    """Return from where on messages have to be looked at."""
    return len(before) if now.lineage is before.lineage else 0


def _up_to(messages: Sequence[Message], start: int, at: MessageId) -> tuple[Message, ...] | None:
    for index in range(start, len(messages)):
        message = messages[index]
        if message.id == at:
            after = messages[index + 1] if index + 1 < len(messages) else None
            has_results = isinstance(message, AssistantMessage) and isinstance(after, ResultsMessage)
            return tuple(messages[: index + 1 + has_results])
    return None
