"""`enqueue`: adds a task to the queue of a store."""

from __future__ import annotations

import hashlib
import os
import secrets
from typing import Final

from engine.core.errors import ConfigError, SessionNotFound
from engine.core.foreign_calls import call_foreign
from engine.core.ids import SessionId
from engine.core.protocols import Store
from engine.session.answer_types import require_text
from engine.session.validation import absolute
from engine.store.store_protocols import Catalogue, SessionQuery
from engine.store.work_queue import HasTasks, QueuedTask, TaskSpec, WorkQueue

MOST_KEY_CHARS: Final = 200


def queue_of(store: Store) -> WorkQueue:
    """Return the queue of a store. Raises `ConfigError` if it has none."""
    if not isinstance(store, HasTasks):
        raise ConfigError("only a PostgreSQL database has a queue of tasks: name one as the store")
    return store.tasks


async def enqueue(
    store: Store,
    text: str,
    *,
    cwd: str | os.PathLike[str] | None = None,
    session_id: str | None = None,
    model: str | None = None,
    agent: str | None = None,
    key: str | None = None,
) -> QueuedTask:
    """Add a task to the queue, and return it. A checkpoint; if cancelled, it may be there.

    A worker runs it as a turn of a session of its own, or of *session_id*.

    Args:
        store: a store in PostgreSQL.
        text: the prompt.
        cwd: where the new session works, on the machine of the worker; by default this process's own folder.
        session_id: a session that exists, to be continued.
        model: that of the new session; None: the worker's.
        agent: that of the new session; None: the worker's.
        key: makes it idempotent, for ever: the same key with the same content is the same task, and one turn.

    Raises:
        ConfigError: an argument is invalid, or the store has no queue.
        InputConflict: the key was used for another task.
        SessionNotFound: there is no such session, or it is a sub-agent's.
        StoreError: the database can't be reached or written.
    """
    queue = queue_of(store)
    name = secrets.token_hex(8) if key is None else _require_storable(key, "a task's key", most=MOST_KEY_CHARS)
    prompt = _require_storable(text, "a task")
    if session_id is not None:
        if cwd is not None or model is not None or agent is not None:
            raise ConfigError("a session that exists has its own folder, model and agent")
        await _check_session(store, session_id)
        return await queue.add(TaskSpec(key=name, session_id=SessionId(session_id), text=prompt, cwd=None))
    spec = TaskSpec(
        key=name,
        # From the key: so the session is the same one, and has one such turn, even when the row is long gone.
        session_id=SessionId(f"ses_{hashlib.blake2b(name.encode(), digest_size=16).hexdigest()}"),
        text=prompt,
        cwd=_require_storable(absolute("." if cwd is None else cwd), "a folder"),
        model="" if model is None else _require_storable(model, "a model"),
        agent="" if agent is None else _require_storable(agent, "an agent"),
    )
    return await queue.add(spec)


async def _check_session(store: Store, session_id: str) -> None:
    """Raise `SessionNotFound` unless there is such a session, and it is no sub-agent's. A checkpoint."""
    assert isinstance(store, Catalogue)  # every store with a queue is
    own_id = SessionId(_require_storable(session_id, "a session id"))
    rows = await call_foreign("the store", store.list_sessions, SessionQuery(id=own_id, limit=1))
    if not rows:
        raise SessionNotFound(f"the store has no session {session_id!r}")
    if rows[0].parent_id is not None:
        raise SessionNotFound(f"{session_id} is a sub-agent's session: name the session that started it")


def _require_storable(value: str, what: str, *, most: int | None = None) -> str:
    """Return *value* if a database can store it. Raises `ConfigError`."""
    text = require_text(value, what)
    if most is not None and len(text) > most:
        raise ConfigError(f"{what} has at most {most} characters, not {len(text)}")
    if "\x00" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise ConfigError(f"{what} can't hold a NUL or half a character")
    return text
