"""Optional protocols of a store: leases, watching, lists, search, retention, cached states.

A host's own store may implement any of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import attrs

from engine.core.events import Durable, StopReason
from engine.core.ids import SessionId
from engine.core.messages import Usage
from engine.core.protocols import Store
from engine.core.value_base import Value
from engine.journal.state import SessionState

if TYPE_CHECKING:
    # It imports the codec, which takes longer than everything else a first turn imports.
    from engine.store.lazy_events import StoredSession

# Which engine has a session open: none, this one, or another live one.
Holder = Literal["nobody", "here", "elsewhere"]
# The author of a matching text; "title": the session's title.
Role = Literal["user", "assistant", "title"]
# "waiting": a question is open; if no engine has the session open, its turn can be resumed.
# "interrupted": a turn is open without a question, and no engine has the session open.
RowStatus = Literal["idle", "busy", "waiting", "interrupted"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionRow(Value):
    """A session in a list.

    Attributes:
        parent_id: the session whose call created it.
        root_id: the first session of its tree, possibly itself.
        title: its title, or else the beginning of the first prompt.
        created: in seconds since the epoch, like all times.
        updated: when its last event happened.
        seq: the number of that event.
        messages: the number of messages: inputs, steps that were kept, and those of a history that it began with.
        stop_reason: how its last turn ended; None: none has.
        titled_by: "user" or "model"; empty: it has no title.
        forked_from: the session whose history it began with.
        agent: the agent that was selected for it; empty: the default.
        first_words: the beginning of its first prompt, if its title is another text.
    """

    id: SessionId
    parent_id: SessionId | None
    root_id: SessionId
    title: str
    cwd: str
    model: str
    created: float
    updated: float
    seq: int
    messages: int
    turns: int
    status: RowStatus
    stop_reason: StopReason | None
    usage: Usage
    cost: float
    holder: Holder
    titled_by: Literal["", "user", "model"] = ""
    forked_from: SessionId | None = None
    agent: str = ""
    first_words: str = ""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SessionQuery(Value):
    """Which sessions to list, newest first.

    Attributes:
        limit: the maximum number.
        cwd: only those with this working directory.
        parent_id: only the children of this one; None: only sessions without a parent.
        before: only those that come after this row in the list, for the next page.
        id: only this one, whether it has a parent or not.
    """

    limit: int = 100
    cwd: str | None = None
    parent_id: SessionId | None = None
    before: SessionRow | None = None
    id: SessionId | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SearchHit(Value):
    """A session that contains the words.

    Attributes:
        seq: the newest event of the session that contains them.
        role: the author, or that it is the title.
        snippet: the text around them, each match between U+E000 and U+E001.
        time: when the event happened.
    """

    session: SessionRow
    seq: int
    role: Role
    snippet: str
    time: float


SpendingKind = Literal["total", "day", "model", "folder", "session"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class SpendingQuery(Value):
    """How to sum up what was spent.

    Attributes:
        by: the grouping; a sub-agent's spending belongs to its root session.
        since: the earliest time, in seconds since the epoch, rounded to a quarter of an hour.
        until: the end, exclusive.
        clock: by how many seconds local time is ahead of UTC, each from some moment on; none: days are in UTC.
        of: only what these root sessions spent, some hundreds at most; None: everything.
    """

    by: SpendingKind = "total"
    since: float | None = None
    until: float | None = None
    clock: tuple[tuple[float, int], ...] = ()
    of: tuple[SessionId, ...] | None = None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Spending(Value):
    """What was spent by one group.

    Attributes:
        key: the day (`2026-11-18`), the model, the folder, or the root session's id. Empty for the total, for the
            folder and the session of deleted sessions, and for an unknown model.
        name: the title of that session.
        sessions: the number of root sessions that still exist.
        steps: the number of requests that were steps.
    """

    key: str
    name: str = ""
    sessions: int = 0
    steps: int = 0
    usage: Usage
    cost: float


@runtime_checkable
class Catalogue(Protocol):
    """Lists and searches the stored sessions, without reading any journal."""

    async def list_sessions(self, query: SessionQuery) -> Sequence[SessionRow]:
        """Return sessions, newest first. A checkpoint. Raises `StoreError`."""
        ...

    async def search(self, words: str, *, limit: int = 20, cwd: str | None = None) -> Sequence[SearchHit]:
        """Return sessions in which one text contains all *words*, newest first. A checkpoint.

        The last word may be incomplete. Raises `StoreError`.
        """
        ...

    async def ids(self, prefix: str = "") -> Sequence[SessionId]:
        """Return the ids of all sessions, children too, that begin with *prefix*, in order. A checkpoint.

        Raises `StoreError`.
        """
        ...


@runtime_checkable
class Accounting(Protocol):
    """Sums up what was spent. Deleted sessions still count, without their names."""

    async def spending(self, query: SpendingQuery) -> Sequence[Spending]:
        """Return what was spent: days in order, other groups by cost, highest first. A checkpoint.

        Raises `StoreError`.
        """
        ...


@runtime_checkable
class Importing(Protocol):
    """Imports whole sessions."""

    async def import_sessions(self, journals: Sequence[Sequence[Durable]]) -> None:
        """Import *journals*, each the events of one session from the first: all of them or none. A checkpoint.

        If cancelled, all or none are imported. They are not claimed. Raises `StoreError`, for instance if one of them
        exists.
        """
        ...


@runtime_checkable
class Retention(Protocol):
    """Removes sessions for good."""

    async def delete(self, session_id: SessionId) -> Sequence[SessionId]:
        """Delete a session and its descendants, and return their ids; none if there is no such session.

        A checkpoint. Raises `SessionElsewhere` if any engine, even this one, has one of them open; `StoreError`.
        """
        ...

    async def list_inactive(self, *, older_than: float, keep: int = 0) -> Sequence[SessionId]:
        """Return the root sessions of the trees that `prune` considers, including open ones. A checkpoint.

        Raises `StoreError`.
        """
        ...

    async def prune(self, *, older_than: float, keep: int = 0) -> Sequence[SessionId]:
        """Delete the trees of sessions without events since *older_than*, and return the ids of all their sessions.

        The *keep* newest trees stay, and those open in any engine. A checkpoint. If cancelled, some trees may have been
        deleted. Raises `StoreError`.
        """
        ...


@runtime_checkable
class Leasing(Protocol):
    """Lets one engine at a time write a session.

    Putting an event claims the session if it is free. A claim is renewed while the engine runs, and
    ends when the engine dies or is silent for too long.
    """

    async def claim(self, session_id: SessionId) -> None:
        """Claim a session, before it is loaded and prompted. A checkpoint.

        If cancelled, it is not claimed. Raises `SessionElsewhere`, `StoreError`.
        """
        ...

    def release(self, session_id: SessionId) -> None:
        """Release a session, once its queued events are written.

        Never blocks, not a checkpoint, no error if it is not claimed.
        """
        ...


@runtime_checkable
class Releasing(Protocol):
    """Reports when a released session is free."""

    async def released(self) -> None:
        """Wait until everything that was released can be claimed by other engines. Always a checkpoint.

        If cancelled, it still gets free. Raises `StoreError`.
        """
        ...


@runtime_checkable
class ReleasingIdle(Protocol):
    """Releases sessions in which nothing has happened for a while, although their engine has them open."""

    def is_released(self, session_id: SessionId) -> bool:
        """Return whether a session was released like that, or was lost to another engine. Not a checkpoint."""
        ...

    async def reclaim(self, session_id: SessionId, seq: int) -> bool:
        """Claim it again; return whether it still ends with the event of that number. Always a checkpoint.

        Raises `SessionElsewhere`, `JournalCorrupt`, `StoreError`.
        """
        ...


@attrs.frozen(kw_only=True, eq=False, repr=False)
class AbandonedSession(Value):
    """A session with an open turn whose engine has died, or was silent for too long.

    Attributes:
        root_id: the first session of its tree, possibly itself.
        cwd: its working directory.
        host: the machine on which that engine ran.
        pid: its process there.
    """

    id: SessionId
    root_id: SessionId
    cwd: str
    host: str
    pid: int


@runtime_checkable
class Sweeping(Protocol):
    """Finds what engines that have died have left in a store that many share."""

    async def abandoned_sessions(self) -> Sequence[AbandonedSession] | None:
        """Return the abandoned sessions; None: another engine looks after them. Always a checkpoint.

        One engine of a fleet does, as long as it calls this again and again. Raises `StoreError`.
        """
        ...


@runtime_checkable
class Watching(Protocol):
    """Reports what another engine appends."""

    async def wait_for_events(self, session_id: SessionId, after: int) -> Sequence[Durable]:
        """Wait until the session has events after that number, and return them. A checkpoint.

        If cancelled, nothing is lost: call it again with the same number. Raises `JournalCorrupt`, `StoreError`.
        """
        ...


@attrs.frozen(kw_only=True, eq=False, repr=False)
class StoreHealth(Value):
    """How a store's writing goes.

    Attributes:
        commits: how many transactions have written something.
        seconds: how long they took together.
        failure: why the last attempt failed, after which events wait to be written; None: it succeeded.
    """

    commits: int
    seconds: float
    failure: Exception | None


@runtime_checkable
class ReportsHealth(Protocol):
    """A store that says how its writing goes."""

    def health(self) -> StoreHealth:
        """Return it. Not a checkpoint."""
        ...


@runtime_checkable
class StateCaching(Protocol):
    """Caches the folded state of long sessions, so that opening them folds few events."""

    async def open_session(self, session_id: SessionId) -> StoredSession | None:
        """Return a session's events and their fold; None if there is no such session. A checkpoint.

        Raises `JournalCorrupt`, `StoreError`.
        """
        ...

    def save_state(self, state: SessionState) -> None:
        """Save *state*, the fold of all events so far, if worthwhile. Never blocks, not a checkpoint.

        To be called at the end of a turn.
        """
        ...


class FullStore(
    Store, Catalogue, Accounting, Retention, Importing, Leasing, Releasing, Watching, StateCaching, Protocol
):
    """A store that implements all of these protocols."""
