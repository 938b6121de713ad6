"""The ports: what the turn needs from the world, each a small Protocol.

A turn gets them in one record, `Deps`, and reaches the world through nothing else (C13), so that a test or a host can
replace each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import attrs

from engine.core.events import Durable, SharedContext
from engine.core.ids import SessionId
from engine.core.llm_types import ModelInfo, ModelRequest, StreamEvent, ToolSchema
from engine.core.messages import Message, Transcript, Usage
from engine.core.value_base import Value

if TYPE_CHECKING:
    from engine.core.compaction_types import Compaction, CompactionRequest, NotCompacted, Summariser
    from engine.core.named_locks import Locks
    from engine.core.permission_types import Approver, Opinion
    from engine.core.snapshot_types import Attribution, Change, Put, SnapshotResult, TreeEntry


class ModelStream(Protocol):
    """An answer as it comes in."""

    async def receive(self) -> Sequence[StreamEvent]:
        """Return the events of the next network chunk; an empty sequence at the end.

        A checkpoint. Raises `ProviderError` on any failure. A cancelled call loses no event that was returned.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection. If cancelled, close it forcefully, like a `trio.abc.AsyncResource`."""
        ...


class Model(Protocol):
    """A model at its host."""

    @property
    def info(self) -> ModelInfo:
        """Limits and prices."""
        ...

    async def open(self, request: ModelRequest) -> ModelStream:
        """Send *request*, return when the answer begins. Raises `ProviderError`.

        If cancelled, no connection is left behind.
        """
        ...


@runtime_checkable
class Served(Model, Protocol):
    """A model that needs a task of its own while the engine is open: a server on this machine, say."""

    async def serve(self) -> None:
        """Do background work until cancelled. Must raise no ordinary exception."""
        ...


@runtime_checkable
class Learning(Protocol):
    """A model whose host can be asked about it."""

    async def learn(self) -> object:
        """Ask the host, with a short time limit. A missing answer is no error. A checkpoint."""
        ...


@runtime_checkable
class Closeable(Protocol):
    """A model that holds connections."""

    async def aclose(self) -> None:
        """Close them."""
        ...


class Store(Protocol):
    """Where the journal is kept."""

    @property
    def epoch(self) -> str:
        """Identifies this opening of the store; a cursor from another one must resync."""
        ...

    def put(self, event: Durable) -> None:
        """Queue *event* to be written, in order; never blocks, never a checkpoint."""
        ...

    async def flushed(self, session_id: SessionId, seq: int) -> None:
        """Wait until everything up to *seq* is durable. Raises `StoreError`."""
        ...

    async def load(self, session_id: SessionId) -> Sequence[Durable]:
        """Return a session's events; none if there is no such session."""
        ...

    async def aclose(self) -> None:
        """Write what is queued, and close."""
        ...


@attrs.frozen(kw_only=True, eq=False, repr=False)
class ContextView(Value):
    """What the context keeper sees: the next request as it would be now.

    Attributes:
        model: the model that will read it.
        last_usage: the size of the last request, as counted by its host.
        counted: the transcript of that request; None: there was none.
        system: the system prompt.
        tools: the offered tools.
        max_output: the maximum tokens of the answer.
        shared: the state that calls share: the to-do list, the files that were read.
        protected: tools whose results are never cleared.
        read_only: tools that can be called again for the same result.
        failure: how the last request failed, if that is why room is needed.
    """

    transcript: Transcript
    model: ModelInfo
    last_usage: Usage
    counted: Transcript | None = None
    system: str = ""
    tools: tuple[ToolSchema, ...] = ()
    max_output: int = 0
    shared: SharedContext = SharedContext(cwd="")
    protected: frozenset[str] = frozenset()
    read_only: frozenset[str] = frozenset()
    failure: Literal["none", "overflow", "media"] = "none"


class ContextKeeper(Protocol):
    """Keeps the transcript within the window (T7-T12).

    Each method returns a replacement for the transcript, or None if there is nothing to do. They may take long: a
    cancel leaves the old transcript in place. They are called before every request, in this order.
    """

    async def prune(self, view: ContextView) -> Sequence[Message] | None:
        """Clear old results, if that avoids a compaction. A checkpoint."""
        ...

    async def collapse(self, view: ContextView, *, forced: bool) -> Sequence[Message] | None:
        """Make room without a summary; with *forced*, because a request was too large. A checkpoint."""
        ...

    def wants_compaction(self, view: ContextView) -> bool:
        """Return whether the history has to be summarised before the next request; pure and quick.

        If *view* holds the failure of the last request, return whether `compact` may fix it.
        """
        ...

    async def compact(
        self, view: ContextView, summariser: Summariser, wish: CompactionRequest
    ) -> Compaction | NotCompacted | None:
        """Summarise old messages, even if the window seems large enough. A checkpoint."""
        ...

    def is_blocked(self, view: ContextView) -> bool:
        """Return whether the next request can't fit even after a compaction."""
        ...


class Snapshots(Protocol):
    """Notes the files of a project as they are, and puts them back. Paths are real and absolute."""

    async def take(self, cwd: str, *, owner: str, paths: Collection[str] = (), within: float) -> SnapshotResult:
        """Note the files of the project around *cwd* as they are. A checkpoint.

        If cancelled, or not done *within* so many seconds, nothing was taken. Raises `SnapshotError`.

        Args:
            cwd: the working directory.
            owner: the session that keeps the snapshot.
            paths: files to record even if `about_to_change` was not called for them.
            within: seconds.
        """
        ...

    async def about_to_change(self, cwd: str, paths: Sequence[str]) -> None:
        """A tool is going to change *paths*: record their content, if no other snapshot has. A checkpoint. Raises `SnapshotError`."""
        ...

    async def diff(self, old: str, new: str, *, owner: str) -> Sequence[Change]:
        """Return what became of each path from one snapshot to another. A checkpoint.

        A record may come from elsewhere and name what it likes: only snapshots that were taken for that *owner* count.
        Raises `SnapshotError`.
        """
        ...

    async def read(self, tree: str, entries: Collection[TreeEntry]) -> dict[str, bytes]:
        """Return what is in entries of a project's snapshots, by their ids. A checkpoint. Raises `SnapshotError`."""
        ...

    async def put(self, tree: str, puts: Sequence[Put], *, cwd: str) -> None:
        """Put back what the snapshots of the project of *tree* hold. A checkpoint; there is none after the last change.

        Raises `SnapshotError` and `UndoConflict` where nothing was done, and `UndoIncomplete`. If cancelled, each file
        is as it was or as it shall be, and the same again does the rest.
        """
        ...


@runtime_checkable
class LeavingOut(Snapshots, Protocol):
    """Snapshots that can exclude folders."""

    def leave_out(self, path: str) -> None:
        """Let *path*, and what begins as it, be no part of any project. Not a checkpoint."""
        ...


@runtime_checkable
class Attributing(Snapshots, Protocol):
    """Snapshots that note whose calls have changed what."""

    async def take_since(
        self,
        cwd: str,
        last: str,
        *,
        owner: str,
        changed: Collection[str] | None,
        within: float,
        until: float | None = None,
    ) -> SnapshotResult:
        """Note the files, as `take` does, and what calls have *changed* since the snapshot *last*; None: any of them.

        What has changed after the time *until*, in seconds since the epoch, is not theirs. A checkpoint. Raises
        `SnapshotError`.
        """
        ...

    async def note_beginning(self, cwd: str, *, owner: str, paths: Collection[str] | None) -> None:
        """Note that calls are about to change *paths*; None: any file. Always a checkpoint. Raises `SnapshotError`.

        So that other sessions know of it before the next snapshot is taken.
        """
        ...

    async def attribution(self, trees: Sequence[str], *, owner: str, began: float) -> Attribution:
        """Return who has changed what from one of a turn's snapshots to the next. A checkpoint. Raises `SnapshotError`."""
        ...


@runtime_checkable
class Tending(Snapshots, Protocol):
    """Snapshots with background work while the engine is open."""

    async def tend(self) -> None:
        """Do background work until cancelled. Must raise no ordinary exception."""
        ...


class WallClock(Protocol):
    """The wall clock; all waiting uses trio's clock."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...


class IdSource(Protocol):
    """Makes identifiers."""

    def new(self, kind: str) -> str:
        """Return a fresh identifier which begins with *kind*."""
        ...


class Trace(Protocol):
    """Is called at the engine's internal trace points; the test kit cancels there."""

    def point(self, name: str) -> None:
        """Note that the point *name* is reached."""
        ...


class NoTrace:
    """The default `Trace`: it does nothing."""

    def point(self, name: str) -> None:
        """Do nothing."""


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Deps(Value):
    """All the ports of a turn, and the locks that its tools share with all other turns of the engine.

    Attributes:
        summariser: the model that writes summaries; None: the turn's own.
        snapshots: records files before they change; None: no snapshots are taken.
    """

    models: tuple[Model, ...]
    store: Store
    approver: Approver
    keeper: ContextKeeper
    clock: WallClock
    ids: IdSource
    trace: Trace
    locks: Locks
    opinion: Opinion | None = None
    summariser: Model | None = None
    snapshots: Snapshots | None = None
