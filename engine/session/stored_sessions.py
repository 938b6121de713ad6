"""Sessions and the store: opened again, forked into a new one, or closed while the engine goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import ConfigError, InputConflict, MessageNotFound, SessionBusy, SessionNotFound, StoreError
from engine.core.events import (
    Durable,
    HistoryReplaced,
    PromptBlocked,
    PromptSet,
    SessionCreated,
    SessionTitled,
    SharedContext,
)
from engine.core.foreign_calls import call_foreign
from engine.core.ids import MessageId, SessionId
from engine.core.messages import AssistantMessage, Message, ResultsMessage, Transcript
from engine.core.threads import to_thread
from engine.journal.fold import apply
from engine.journal.state import SessionState
from engine.nursery.cleanup import all_over, close_bounded
from engine.nursery.parking import park
from engine.permission.permission_scope import renew_bounds
from engine.session.engine_runtime import END_HOOKS_SHARE, finish_snapshots

if TYPE_CHECKING:
    from engine.nursery.running_turn import TurnRun
    from engine.session.engine_runtime import EngineRuntime
    from engine.session.live_session import LiveSession
    from engine.session.session_config import SessionConfig, SessionOptions
    from engine.store.lazy_events import StoredSession


# For commands and sub-agents in the background: their grace periods, and the flush of a turn.
_BACKGROUND_SECONDS: Final = 10.0


async def open_stored(runtime: EngineRuntime, session_id: str, options: SessionOptions) -> tuple[LiveSession, bool]:
    """Return a session, and whether this call opened it (see `Engine.open_session`). Always a checkpoint."""
    runtime.services.tasks.check_open()
    if not isinstance(cast("object", session_id), str):
        raise ConfigError(f"a session id is a str, not {session_id!r}")
    own_id = SessionId(session_id)
    if (session := runtime.sessions.by_id.get(own_id)) is not None and not session.is_closing:
        await trio.lowlevel.checkpoint()
        return session, False
    if options.agent is not None:
        runtime.setup.config.check_primary(options.agent)
    # A command of the crashed engine may still be writing in the folder of the next prompt.
    await runtime.wait_for_leftovers()
    # One task at a time: the lease is the engine's, so a second task that fails would release it for both.
    async with runtime.services.locks.hold(f"session:{session_id}"):
        if (session := runtime.sessions.by_id.get(own_id)) is not None:
            # Another task was faster, and a session has only one journal.
            return session, False
        stored = await runtime.services.store.open_for_writing(own_id)
        try:
            agents = await runtime.services.store.running_agents(stored.state)
            await runtime.prepare_rules(stored.state.context.cwd)
            config = _config_of(runtime, stored, options)
            await runtime.learn_models(config)
            # Before this session is open, since it may be cancelled.
            await runtime.sessions.settle_agents(agents)
            session = runtime.sessions.restore(stored, config, agents=agents)
            if options.agent is not None:
                renew_bounds(session.journal)
        except BaseException:  # also a cancel: a lease that is not released would lock out every other engine
            if own_id not in runtime.sessions.by_id:
                runtime.services.store.release(own_id)
            raise
    return session, True


async def open_created(
    runtime: EngineRuntime, session_id: SessionId, options: SessionOptions, *, cwd: str, model: str | None
) -> tuple[LiveSession, bool] | None:
    """Return the session that was created with that id, and whether this call opened it; None: there is none yet.

    Always a checkpoint. Raises `InputConflict` if it was created in another folder, or with the other agent or model
    that is named; and what `open_stored` raises.
    """
    try:
        live, is_new = await open_stored(runtime, session_id, options)
    except SessionNotFound:
        return None
    created = next(event for event in live.journal.events() if isinstance(event, SessionCreated))
    is_same = (
        created.parent_id is None
        and created.forked_from is None
        and created.context.cwd == cwd
        and options.agent in {None, created.agent}
        and model in {None, created.model}
    )
    if not is_same:
        raise InputConflict(
            f"session {session_id!r} was created before in another folder, or with another agent or model"
        )
    return live, is_new


async def fork_stored(
    runtime: EngineRuntime, session_id: str, options: SessionOptions, *, at: str | None
) -> LiveSession:
    """Return a new session that begins with the history of another (see `Engine.fork_session`). Always a checkpoint."""
    runtime.services.tasks.check_open()
    if not isinstance(cast("object", session_id), str):
        raise ConfigError(f"a session id is a str, not {session_id!r}")
    if options.agent is not None:
        runtime.setup.config.check_primary(options.agent)
    # Read without a lease: the other session may be open in another engine, and stays so.
    stored = await runtime.services.store.read(SessionId(session_id))
    state = stored.state
    messages = state.transcript[:] if at is None else await to_thread(forked, stored.events, at)
    config = _config_of(runtime, stored, options)
    # The shared context of tools is known for the end only; a fork at an earlier point starts with an empty one.
    context = state.context if at is None else SharedContext(cwd=state.context.cwd)
    await runtime.prepare_rules(context.cwd)
    await runtime.learn_models(config)
    session = runtime.sessions.create(context=context, config=config, forked_from=state.session_id)
    if options.agent is not None:
        renew_bounds(session.journal)
    if messages:
        session.journal.append(HistoryReplaced(kind="fork", messages=messages))
    if (prompt := state.prompt) is not None and not prompt.is_outdated:
        # Its requests share a prefix with the other session's, which a host may still have in its cache.
        session.journal.append(PromptSet(sections=prompt.sections, cwd=prompt.cwd, project=prompt.project))
    if state.title:
        session.journal.append(SessionTitled(title=state.title, by="model"))
    return session


def _config_of(runtime: EngineRuntime, stored: StoredSession, options: SessionOptions) -> SessionConfig:
    """Return a stored session's configuration; its own agent is used if it still exists and no other was requested."""
    if options.agent is None and stored.state.agent in runtime.setup.config.all_agents:
        options = attrs.evolve(options, agent=stored.state.agent)
    return runtime.setup.defaults.with_options(runtime.setup.config, options)


# -- closing one while the engine goes on -------------------------------------------------------


@enable_ki_protection
async def close_open(runtime: EngineRuntime, session_id: str) -> bool:
    """Close a session; return whether it was open. Always a checkpoint."""
    runtime.services.tasks.check_open()
    if not isinstance(cast("object", session_id), str):
        raise ConfigError(f"a session id is a str, not {session_id!r}")
    # The lock is that of `open_session`: whoever opens the session meanwhile gets it from the store, once it is there.
    async with runtime.services.locks.hold(f"session:{session_id}"):
        runtime.services.tasks.check_open()
        session = runtime.sessions.by_id.get(SessionId(session_id))
        if session is None:
            return False
        run = _stop(session)
        # From here on it is closed whatever happens: everything that is awaited is shielded, with a deadline.
        try:
            await _end_all(session, run)
            if runtime.setup.hooks.session_end and len(session.journal.path) == 1:
                seconds = session.config.settings.durable_within
                until = trio.current_time() + END_HOOKS_SHARE * seconds
                await close_bounded(partial(session.own_hooks.run_end, until), seconds)
        finally:
            seq = session.journal.seq
            runtime.sessions.close(session)
            await _wait_until_free(session, seq)  # noqa: ASYNC102  # bounded: see cleanup.py
    return True


@enable_ki_protection
def _stop(session: LiveSession) -> TurnRun | None:
    """Let nothing begin in the session any more; return the turn that was parked. Not a checkpoint.

    Raises `SessionBusy`; then nothing has changed.
    """
    if session.journal.is_attached:
        raise SessionBusy(f"session {session.id} belongs to a sub-agent at work: it closes when that has ended")
    run = session.active
    if run is None or not park(run):
        session.check_no_turn()
    session.is_closing = True
    session.own_hooks.cancel_idle()
    session.background.close()
    return run


async def _end_all(session: LiveSession, run: TurnRun | None) -> None:
    """Wait for what still runs for the session. A checkpoint; shielded, with deadlines."""
    if run is not None:
        await all_over([run])

    async def end_background() -> None:
        await session.background.end_agents()
        await session.background.end_jobs()
        if session.background.title_done is not None:
            await session.background.title_done.wait()

    await close_bounded(end_background, _BACKGROUND_SECONDS)
    await finish_snapshots([session])


async def _wait_until_free(session: LiveSession, seq: int) -> None:
    """Wait until everything is saved and other engines can open the session. A checkpoint; shielded, with a deadline.

    Raises `StoreError`.
    """
    store, seconds = session.engine.store, session.config.settings.durable_within

    async def wait() -> None:
        await call_foreign("the store", store.store.flushed, session.id, seq)
        await store.released()

    if not await close_bounded(wait, seconds):
        raise StoreError(
            f"session {session.id} was closed, but within {seconds:g} s the store has not confirmed that all of it is saved"
        )


# -- the history of a fork ----------------------------------------------------------------------


def forked(events: Iterable[Durable], at: str | None = None) -> tuple[Message, ...]:
    """Return the messages of a fork: up to and including the one with the id *at*; by default all.

    The history is taken as it was when that message came: a fork before a compaction has the messages that the
    compaction replaced, and one inside a turn that was undone later has that turn. A model's message and the results of
    its calls stay together: hosts accept neither without the other.

    Raises `MessageNotFound` if it was never in the transcript, or a hook blocked it; `JournalCorrupt` for an event that
    can't follow.
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
            # A hook blocked this prompt, and a fork must not bypass that.
            messages = None
    if at is None:
        return state.transcript[:]
    if messages is None:
        raise MessageNotFound(f"session {state.session_id} never had a message {at!r}")
    return messages


def _first_new(before: Transcript, now: Transcript) -> int:
    """Return the index of the first message that is new."""
    return len(before) if now.lineage is before.lineage else 0


def _up_to(messages: Sequence[Message], start: int, at: MessageId) -> tuple[Message, ...] | None:
    for index in range(start, len(messages)):
        message = messages[index]
        if message.id == at:
            after = messages[index + 1] if index + 1 < len(messages) else None
            has_results = isinstance(message, AssistantMessage) and isinstance(after, ResultsMessage)
            return tuple(messages[: index + 1 + has_results])
    return None
