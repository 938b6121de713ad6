"""Builds `SessionRow` values from rows of the table `sessions`, whose columns are the same in every database."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, TypeAlias

from engine.core.events import StopReason
from engine.core.ids import SessionId
from engine.core.messages import Usage
from engine.store.leases import Lease, Owner
from engine.store.store_protocols import Holder, RowStatus, SessionRow

# Search stops after this many matching texts, however few sessions they belong to.
MAX_SEARCHED_TEXTS: Final = 5_000
SNIPPET_TOKENS: Final = 24

COLUMNS: Final = (
    "id, parent_id, root_id, CASE given_title WHEN '' THEN title ELSE given_title END, cwd, model, created, updated,"
    " seq, messages, turns, is_busy, asked, stop_reason, input, output, cache_read, cache_write, reasoning,"
    " cost, titled_by, forked_from, agent, CASE given_title WHEN '' THEN '' ELSE title END"
)
Columns: TypeAlias = tuple[
    SessionId,
    SessionId | None,
    SessionId,
    str,
    str,
    str,
    float,
    float,
    int,
    int,
    int,
    int,
    int,
    StopReason | None,
    int,
    int,
    int,
    int,
    int,
    float,
    Literal["", "user", "model"],
    SessionId | None,
    str,
    str,
]


def holders(leases: Mapping[SessionId, Lease], owner: Owner) -> Mapping[SessionId, Holder]:
    """Return for each lease whether *owner* or another live engine has the session open."""
    return {session_id: _holder(owner, lease) for session_id, lease in leases.items()}


def session_row(row: Columns, holders: Mapping[SessionId, Holder]) -> SessionRow:
    """Build a `SessionRow` from the values of `COLUMNS`; a session that is not in *holders* is open in no engine."""
    # One list may need ten thousand of these, so everything is done in a single expression.
    (
        session_id,
        parent_id,
        root_id,
        title,
        cwd,
        model,
        created,
        updated,
        seq,
        messages,
        turns,
        is_busy,
        asked,
        stop_reason,
        read,
        written,
        cache_read,
        cache_write,
        reasoning,
        cost,
        titled_by,
        forked_from,
        agent,
        first_words,
    ) = row
    holder = holders.get(session_id, "nobody")
    return SessionRow(
        id=session_id,
        parent_id=parent_id,
        root_id=root_id,
        title=title,
        cwd=cwd,
        model=model,
        created=created,
        updated=updated,
        seq=seq,
        messages=messages,
        turns=turns,
        status=_status(asked, holder) if is_busy else "idle",
        stop_reason=stop_reason,
        usage=Usage(input=read, output=written, cache_read=cache_read, cache_write=cache_write, reasoning=reasoning),
        cost=cost,
        holder=holder,
        titled_by=titled_by,
        forked_from=forked_from,
        agent=agent,
        first_words=first_words,
    )


def _status(asked: int, holder: Holder) -> RowStatus:
    if asked > 0:
        return "waiting"
    return "interrupted" if holder == "nobody" else "busy"


def _holder(owner: Owner, lease: Lease) -> Holder:
    if owner.holds(lease):
        return "here"
    return "elsewhere" if owner.is_live(lease) else "nobody"
