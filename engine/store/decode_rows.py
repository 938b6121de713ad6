"""Rebuilds events, sessions and drafts from the rows that a database returned. Every store reads this way."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import inspect
from collections.abc import Iterable, Sequence
from typing import Final

from engine.core import messages
from engine.core.errors import JournalCorrupt
from engine.core.events import DELTA_TYPES, Delta, Durable
from engine.core.ids import SessionId
from engine.core.version import __version__
from engine.journal import codec, fold, fold_turn, json_converter, state
from engine.journal.state import SessionState
from engine.store.lazy_events import LazyEvents, StoredSession, decode_stored_event

# What a user can do about a gap in a file; for a server it is something else.
REPAIR_FILE: Final = "`engine sessions repair` keeps what comes before"


def events_from_rows(
    session_id: SessionId,
    rows: Sequence[tuple[int, str]],
    schema: codec.Schema,
    *,
    after: int,
    remedy: str = REPAIR_FILE,
) -> Sequence[Durable]:
    """Decode *rows*, the events after number *after*. Raises `JournalCorrupt`; for a gap, its message names *remedy*."""
    _check_gapless(session_id, [seq for seq, _ in rows], after, remedy)
    return [decode_stored_event(body, session_id, seq, schema) for seq, body in rows]


def session_from_rows(
    session_id: SessionId,
    rows: Sequence[tuple[int, str]],
    saved: tuple[int, str] | None,
    schema: codec.Schema,
    *,
    remedy: str = REPAIR_FILE,
) -> tuple[StoredSession, int] | None:
    """Fold a session from the *rows* of its events, starting with the *saved* state if that is readable.

    Returns the session and the number of the last event in the saved state; None if there are
    no rows. Raises `JournalCorrupt`.
    """
    if not rows:
        return None
    _check_gapless(session_id, [seq for seq, _ in rows], 0, remedy)
    events = LazyEvents(session_id, [body for _, body in rows], schema)
    start = None if saved is None else _decode_state(session_id, *saved)
    since = 0 if start is None else start.seq
    folded = fold.fold((events[index] for index in range(since, len(events))), start)
    return StoredSession(folded, events), since


def drafts_from_rows(bodies: Iterable[str], schema: codec.Schema) -> Sequence[Delta]:
    """Decode drafts; unreadable ones are skipped."""
    drafts: list[Delta] = []
    for body in bodies:
        # An unreadable draft must not keep the session from opening: it is only the tail of a cut-off answer.
        with contextlib.suppress(JournalCorrupt):
            event = codec.decode_event(body, schema=schema)
            if isinstance(event, DELTA_TYPES):
                drafts.append(event)
    return drafts


@functools.cache
def fold_version() -> str:
    """Return an id of the code that folds events: a state folded by other code can't be trusted."""
    digest = hashlib.sha256()
    for module in (codec, fold, fold_turn, json_converter, messages, state):
        source = inspect.getsource(module)
        digest.update(source.encode())
    return f"{__version__}-{digest.hexdigest()[:16]}"


def _decode_state(session_id: SessionId, seq: int, body: str) -> SessionState | None:
    """Decode a saved state; None if it cannot be read. It is only a cache: the events hold everything."""
    try:
        saved = codec.decode_state(body)
    except JournalCorrupt:
        return None
    return saved if (saved.session_id, saved.seq) == (session_id, seq) else None


def _check_gapless(session_id: SessionId, seqs: Sequence[int], after: int, remedy: str) -> None:
    if seqs and (seqs[0] != after + 1 or seqs[-1] - after != len(seqs)):
        gap = next(
            seq for seq, expected in zip(seqs, range(after + 1, after + len(seqs) + 1), strict=True) if seq != expected
        )
        raise JournalCorrupt(f"session {session_id} has a gap before event {gap}: {remedy}")
