"""Sessions and the store: opened again, forked into a new one, or closed while the engine goes on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, cast

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
from engine.journal.event_index import select_events
from engine.journal.fold import apply
from engine.journal.lookup import undecoded_events
from engine.journal.state import SessionState
from engine.nursery.cleanup import all_over, close_bounded
from engine.nursery.parking import park
from engine.permission.permission_scope import renew_bounds
from engine.session.engine_runtime import END_HOOKS_SHARE, finish_snapshots

if TYPE_CHECKING:
    from engine.journal.interrupted_turn import Takeover
    from engine.nursery.running_turn import TurnRun
    from engine.session.engine_runtime import EngineRuntime
    from engine.session.live_session import LiveSession
    from engine.session.session_config import SessionConfig, SessionOptions
    from engine.store.lazy_events import StoredSession


# Whether a session is new, or was opened from the store.
Source = Literal["new", "resumed"]
# For commands and sub-agents in the background: their grace periods, and the flush of a turn.
_BACKGROUND_SECONDS: Final = 10.0


async def open_stored(
    runtime: EngineRuntime, session_id: str, options: SessionOptions, *, takeover: Takeover | None = None
) -> tuple[LiveSession, bool]:
    """Return a session, and whether this call opened it (see `Engine.open_session`). Always a checkpoint.

    With a *takeover*, an interrupted turn may stay open: see `OpenSessions.restore`.
    """
    runtime.services.tasks.check_open()
    if not isinstance(cast("object", session_id), str):
        raise ConfigError(f"a session id is a str, not {session_id!r}")
    own_id = SessionId(session_id)
    is_ours = not runtime.services.store.needs_claim(own_id)
    if (session := runtime.sessions.by_id.get(own_id)) is not None and not session.is_closing and is_ours:
        await trio.lowlevel.checkpoint()
        return session, False
    # A command of the crashed engine may still be writing in the folder of the next prompt.
    await runtime.wait_for_leftovers()
    # One task at a time: the lease is the engine's, so a second task that fails would release it for both.
    async with runtime.services.locks.hold(f"session:{session_id}"):
        if (session := runtime.sessions.by_id.get(own_id)) is not None:
            # Another task was faster, and a session has only one journal. But another engine may have gone on with it.
            if await _is_current(session):
                return session, False
            with suppress(StoreError):
                await _close(runtime, session)
        stored = await runtime.services.store.open_for_writing(own_id)
        try:
            agents = await runtime.services.store.running_agents(stored.state)
            await runtime.prepare_rules(stored.state.context.cwd)
            config = await _config_of(runtime, stored, options, cwd=_first_folder(stored))
            await runtime.learn_models(config)
            # Before this session is open, since it may be cancelled.
            await runtime.sessions.settle_agents(agents)
            session = runtime.sessions.restore(stored, config, agents=agents, takeover=takeover)
            if options.agent is not None:
                renew_bounds(session.journal)
        except BaseException:  # also a cancel: a lease that is not released would lock out every other engine
            if own_id not in runtime.sessions.by_id:
                runtime.services.store.release(own_id)
            raise
    return session, True


async def _is_current(session: LiveSession) -> bool:
    """Claim an open session that was released while it was idle; return whether it is as it was. A checkpoint if it was.

    Raises `SessionElsewhere`, `StoreError`.
    """
    store = session.engine.store
    if not store.needs_claim(session.id) or session.active is not None:
        return True
    return await store.reclaim(session.id, session.journal.seq) or session.active is not None


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
    created = _creation(live)
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


async def _config_of(
    runtime: EngineRuntime, stored: StoredSession, options: SessionOptions, *, cwd: str
) -> SessionConfig:
    """Return a stored session's configuration; its own agent is used if it still exists and no other was requested.

    A checkpoint if the host configures sessions by folder.
    """
    defaults = await runtime.configure(cwd)
    if options.agent is not None:
        defaults.folder_config.check_primary(options.agent)
    if options.agent is None and stored.state.agent in defaults.folder_config.all_agents:
        options = attrs.evolve(options, agent=stored.state.agent)
    return defaults.with_options(options)


def _first_folder(stored: StoredSession) -> str:
    """Return the folder in which a session began: the model may have moved it, which must widen nothing."""
    first = stored.events[0]
    return first.context.cwd if isinstance(first, SessionCreated) else stored.state.context.cwd


# -- forks --------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _Fork:
    """What a new session begins with.

    Attributes:
        state: that of the other session.
        messages: the history.
        context: the shared context of tools.
    """

    state: SessionState
    messages: Sequence[Message]
    context: SharedContext
    config: SessionConfig
    options: SessionOptions


async def fork_stored(
    runtime: EngineRuntime, session_id: str, options: SessionOptions, *, at: str | None, fork_id: SessionId | None
) -> tuple[LiveSession, Source | None]:
    """Return a fork, and whether this call has made or opened it (see `Engine.fork_session`). Always a checkpoint."""
    runtime.services.tasks.check_open()
    if not isinstance(cast("object", session_id), str):
        raise ConfigError(f"a session id is a str, not {session_id!r}")
    if fork_id is not None:
        opened = await _open_fork(runtime, fork_id, session_id, options, at)
        if opened is not None:
            return opened
    fork = await _prepare(runtime, session_id, options, at)
    if fork_id is None:
        return _create(runtime, fork), "new"
    made = await runtime.sessions.create_once(fork_id, partial(_create, runtime, fork))
    if made is None:  # by another task or engine
        return await fork_stored(runtime, session_id, options, at=at, fork_id=fork_id)
    return made, "new"


async def _prepare(runtime: EngineRuntime, session_id: str, options: SessionOptions, at: str | None) -> _Fork:
    # Read without a lease: the other session may be open in another engine, and stays so.
    stored = await runtime.services.store.read(SessionId(session_id))
    state = stored.state
    messages = state.transcript[:] if at is None else await to_thread(forked, stored.events, at)
    # The shared context of tools is known for the end only; a fork at an earlier point starts with an empty one.
    context = state.context if at is None else SharedContext(cwd=state.context.cwd)
    config = await _config_of(runtime, stored, options, cwd=context.cwd)
    await runtime.prepare_rules(context.cwd)
    await runtime.learn_models(config)
    return _Fork(state=state, messages=messages, context=context, config=config, options=options)


@enable_ki_protection
def _create(runtime: EngineRuntime, fork: _Fork, session_id: SessionId | None = None) -> LiveSession:
    """Return the new session, with its history. Not a checkpoint."""
    session = runtime.sessions.create(
        context=fork.context, config=fork.config, forked_from=fork.state.session_id, session_id=session_id
    )
    if fork.options.agent is not None:
        renew_bounds(session.journal)
    _add_history(session, fork)
    return session


def _add_history(session: LiveSession, fork: _Fork) -> None:
    if fork.messages:
        session.journal.append(HistoryReplaced(kind="fork", messages=tuple(fork.messages)))
    if (prompt := fork.state.prompt) is not None and not prompt.is_outdated:
        # Its requests share a prefix with the other session's, which a host may still have in its cache.
        session.journal.append(PromptSet(sections=prompt.sections, cwd=prompt.cwd, project=prompt.project))
    if fork.state.title:
        session.journal.append(SessionTitled(title=fork.state.title, by="model"))


async def _open_fork(
    runtime: EngineRuntime, fork_id: SessionId, session_id: str, options: SessionOptions, at: str | None
) -> tuple[LiveSession, Source | None] | None:
    """Return the fork that was made with that id, and whether this call opened it; None: there is none yet.

    A checkpoint. Raises `InputConflict` if that is another session, or a fork at another message; and what `open_stored`
    raises.
    """
    try:
        live, is_new = await open_stored(runtime, fork_id, options)
    except SessionNotFound:
        return None
    created = _creation(live)
    if created.forked_from != session_id or options.agent not in {None, created.agent}:
        raise InputConflict(f"session {fork_id!r} was made before, and is no such fork of {session_id!r}")
    if _is_empty(live):
        # The engine that made it was killed after the first event: the rest is made up for.
        fork = await _prepare(runtime, session_id, options, at)
        if _is_empty(live):
            _add_history(live, fork)
    elif at is not None and not _ends_at(live, at):
        raise InputConflict(f"session {fork_id!r} is a fork of {session_id!r} at another message")
    return live, "resumed" if is_new else None


def _is_empty(live: LiveSession) -> bool:
    """Return whether nothing but its creation is in the record."""
    state = live.journal.state
    return not (state.transcript or state.turns or state.turn or state.prompt or state.title)


def _ends_at(live: LiveSession, at: str) -> bool:
    """Return whether the history that a fork began with ends with that message, or with the results of its calls."""
    history = next(iter(select_events(undecoded_events(live.journal))(HistoryReplaced)), None)
    messages = () if history is None else history.messages
    last = next((message for message in reversed(messages) if not isinstance(message, ResultsMessage)), None)
    return at in {message.id for message in (last, *messages[-1:]) if message is not None}


def _creation(live: LiveSession) -> SessionCreated:
    """Return the first event of a session."""
    first = undecoded_events(live.journal)[0]
    assert isinstance(first, SessionCreated)
    return first


# -- closing one while the engine goes on -------------------------------------------------------


@enable_ki_protection
async def close_open(runtime: EngineRuntime, session_id: str) -> bool:
    """Close a session; return whether it was open. Always a checkpoint."""
    runtime.services.tasks.check_open()
    if not isinstance(cast("object", session_id), str):
        raise ConfigError(f"a session id is a str, not {session_id!r}")
    # The lock is that of `open_session`: a task that opens the session now gets it from the store, once it is there.
    async with runtime.services.locks.hold(f"session:{session_id}"):
        runtime.services.tasks.check_open()
        session = runtime.sessions.by_id.get(SessionId(session_id))
        if session is None:
            return False
        await _close(runtime, session)
    return True


@enable_ki_protection
async def _close(runtime: EngineRuntime, session: LiveSession) -> None:
    """Close a session whose lock is held. Always a checkpoint. Raises `SessionBusy`; then nothing has changed; `StoreError`."""
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
    session.tools.stop()
    return run


async def _end_all(session: LiveSession, run: TurnRun | None) -> None:
    """Wait for what still runs for the session. A checkpoint; shielded, with deadlines."""
    if run is not None:
        await all_over([run])

    async def end_background() -> None:
        await session.background.end_agents()
        await session.background.end_jobs()
        await session.tools.stopped()
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
