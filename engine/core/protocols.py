"""The ports: what the turn needs from the world, each a small Protocol.

A turn gets them in one record, `Deps`, and reaches the world by nothing else
(C13), so that a test, or a host, can put something of its own in each place.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import attrs

from engine.core.events import Durable, GrantScope, Offer, Right, SharedContext, Verdict
from engine.core.ids import CallId, SessionId, TurnId
from engine.core.llm_types import ModelInfo, ModelRequest, StreamEvent, ToolSchema
from engine.core.messages import Message, Transcript, Usage

if TYPE_CHECKING:
    from engine.core.compaction_types import Compaction, CompactionWish, NotCompacted, Summariser
    from engine.core.named_locks import Locks
    from engine.core.snapshot_types import Change, Entry, Put, Taken
    from engine.permission.rules.rules import Rule


class ModelStream(Protocol):
    """An answer as it comes in."""

    async def receive(self) -> Sequence[StreamEvent]:
        """Return the next events, as many as one network chunk holds; none: the end.

        A checkpoint. Raises `ProviderError` for what goes wrong. If cancelled,
        nothing that was not returned is lost to a caller who never comes back.
        """
        ...

    async def aclose(self) -> None:
        """Close the connection. If cancelled, close it forcefully, as `trio.abc.AsyncResource`."""
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
        """Do what is to be done beside the requests, until cancelled. Must raise nothing ordinary."""
        ...


@runtime_checkable
class Learning(Protocol):
    """A model whose host can be asked about it."""

    async def learn(self) -> object:
        """Ask, for a short time; that nothing was told is no error. A checkpoint."""
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
        """Names this life of the store; a cursor of another one must resync."""
        ...

    def put(self, event: Durable) -> None:
        """Take *event*, in order; never blocks, never a checkpoint."""
        ...

    async def flushed(self, session_id: SessionId, seq: int) -> None:
        """Wait until everything up to *seq* is durable. Raises `StoreError`."""
        ...

    async def load(self, session_id: SessionId) -> Sequence[Durable]:
        """Return the events of a session; none if it is not known."""
        ...

    async def aclose(self) -> None:
        """Write what is left and close."""
        ...


@attrs.frozen(kw_only=True)
class Needed:
    """A right that a call needs.

    Attributes:
        permission: its name.
        pattern: what for: a path, a command; "*" for the permission as a whole.
        spellings: other names of the same thing: a rule that forbids one of them, or asks, holds as well.
        reads_only: it changes nothing.
        follows: the rights, by their patterns, that this one is a consequence of: where rules allow all of them,
            nothing but a rule asks about this one.
    """

    permission: str
    pattern: str
    spellings: tuple[str, ...] = ()
    reads_only: bool = False
    follows: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Judgement:
    """What the rules say of a call, and which rule said it.

    Attributes:
        verdict: go on, ask, or no.
        source: the rule, for people.
        is_default: no rule said it, it is what holds where there is none: a hook's "allow" may answer it.
        asked: the rights that somebody has to allow, where the verdict is "ask".
        offers: those of the query's offers that would have answered it; None: all of them.
    """

    verdict: Verdict
    source: str
    is_default: bool = False
    asked: tuple[Right, ...] = ()
    offers: tuple[Offer, ...] | None = None


@attrs.frozen(kw_only=True)
class Link:
    """A session in the chain from the root to the one that asks: what is done there must be allowed to all of them.

    Attributes:
        session_id: the session.
        turn_id: its turn.
        rules: those of its agent.
        is_bound: the rules are no more than bounds, beside another link of the session: they end when a plan was approved.
    """

    session_id: SessionId
    turn_id: TurnId
    rules: tuple[Rule, ...] = ()
    is_bound: bool = False


@attrs.frozen(kw_only=True)
class PermissionQuery:
    """The rights that a parsed call needs.

    Attributes:
        chain: the sessions from the root down to the one that asks.
        call_id: the call.
        cwd: the working directory; patterns which are paths are relative to it.
        tool: the tool's name.
        read_only: the tool says that it changes nothing.
        permission: the kind of right that the call is about.
        rights: all that it needs, the others too.
        offers: what "always" may allow, narrowest first.
        opaque: why nobody can tell what else it would do.
        sandboxed: it is done in a sandbox.
        detail: for a person.
        metadata: for clients, as JSON text.
    """

    chain: tuple[Link, ...]
    call_id: CallId
    cwd: str
    tool: str
    read_only: bool
    permission: str
    rights: tuple[Needed, ...]
    offers: tuple[Offer, ...] = ()
    opaque: str = ""
    sandboxed: bool = False
    detail: str = ""
    metadata: str = ""

    @property
    def session_id(self) -> SessionId:
        """The session that asks."""
        return self.chain[-1].session_id

    @property
    def patterns(self) -> tuple[str, ...]:
        """What the permission is needed for."""
        return tuple(right.pattern for right in self.rights if right.permission == self.permission)


@attrs.frozen(kw_only=True)
class Allowance:
    """What somebody has allowed for longer than one call.

    Attributes:
        rights: exactly these.
        scope: how far it reaches. A session's holds for its sub-agents as well.
        seconds: how long at most; None: as long as the scope.
    """

    rights: tuple[Right, ...]
    scope: GrantScope
    seconds: float | None = None


class Approver(Protocol):
    """The rules."""

    def judge(self, query: PermissionQuery) -> Judgement:
        """Return what the rules say; pure and quick."""
        ...

    def grant(self, query: PermissionQuery, allowed: Allowance) -> None:
        """Somebody answered "always" to what *query* needs: remember it. Not a checkpoint."""
        ...


@runtime_checkable
class Standing(Approver, Protocol):
    """An approver with something to read before a session begins, and to write when somebody has allowed something."""

    async def prepare(self, cwd: str) -> None:
        """Get ready for sessions that work in *cwd*. A checkpoint. Raises `EngineError`."""
        ...

    async def save(self) -> None:
        """Write what is to outlive the engine. Raises `EngineError`; what was allowed holds all the same."""
        ...


@runtime_checkable
class Hiding(Approver, Protocol):
    """An approver that can tell of a right whether it is denied whatever it is for."""

    def hides(self, chain: Sequence[Link], cwd: str, permission: str) -> bool:
        """Tell whether the last session of *chain* can never have that right: a tool that needs it is not offered. Quick."""
        ...


class Opinion(Protocol):
    """A second opinion on what the rules would ask a person about: a model, a program."""

    async def __call__(self, query: PermissionQuery, judgement: Judgement) -> Verdict:
        """Return "allow" or "deny" to answer in the person's place, "ask" to let the person answer. A checkpoint.

        What it raises, and silence beyond the hooks' deadline, count as "ask".
        """
        ...


@attrs.frozen(kw_only=True)
class ContextView:
    """What the context keeper may look at: the next request as it would be now.

    Attributes:
        model: who will read it.
        last_usage: what the last request took, as its host counts.
        counted: the transcript of that request; None: there was none.
        system: the system prompt.
        tools: those that are offered.
        max_output: tokens that the answer may have.
        shared: what calls share: the list of what is to be done, the files that are known.
        protected: tools whose results are never cleared.
        read_only: tools that can be called again for the same result.
        failure: how the last request failed, where that is why room is wanted.
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
    """Keeps the transcript inside the window (T7-T12).

    Each method returns what replaces the transcript, or None where there is
    nothing to do. They may take their time: a cancel leaves the old transcript in
    place. They are asked before every request, in this order.
    """

    async def prune(self, view: ContextView) -> Sequence[Message] | None:
        """Clear old results, if that spares a compaction. A checkpoint."""
        ...

    async def collapse(self, view: ContextView, *, forced: bool) -> Sequence[Message] | None:
        """Make room without a summary; with *forced*, because a request was too large. A checkpoint."""
        ...

    def wants_compaction(self, view: ContextView) -> bool:
        """Tell whether the history has to be summarised before the next request; pure and quick.

        Where *view* says how the last request failed: whether `compact` may help against that.
        """
        ...

    async def compact(
        self, view: ContextView, summariser: Summariser, wish: CompactionWish
    ) -> Compaction | NotCompacted | None:
        """Summarise what is old, also if the window seems large enough. A checkpoint."""
        ...

    def is_blocked(self, view: ContextView) -> bool:
        """Tell whether the next request can't fit whatever is done."""
        ...


class Snapshots(Protocol):
    """Notes the files of a project as they are, and puts them back. Paths are real and absolute."""

    async def take(self, cwd: str, *, owner: str, paths: Collection[str] = (), within: float) -> Taken:
        """Note the files of the project around *cwd* as they are. A checkpoint.

        If cancelled, or not done *within* so many seconds, nothing was taken. Raises `SnapshotError`.

        Args:
            cwd: the working directory.
            owner: the session that keeps the snapshot.
            paths: files to be noted even if nobody has been told of them by `about_to_change`.
            within: seconds.
        """
        ...

    async def about_to_change(self, cwd: str, paths: Sequence[str]) -> None:
        """A tool is going to change *paths*: keep what is there, if nobody else does. A checkpoint. Raises `SnapshotError`."""
        ...

    async def diff(self, old: str, new: str, *, owner: str) -> Sequence[Change]:
        """Return what became of each path from one snapshot to another. A checkpoint.

        A record may come from elsewhere and name what it likes: only snapshots that were taken for that *owner* count.
        Raises `SnapshotError`.
        """
        ...

    async def read(self, tree: str, entries: Collection[Entry]) -> dict[str, bytes]:
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
    """Snapshots that can be told what is no part of any project."""

    def leave_out(self, path: str) -> None:
        """Let *path*, and what begins as it, be no part of any project. Not a checkpoint."""
        ...


@runtime_checkable
class Tending(Snapshots, Protocol):
    """Snapshots with something to do beside the turns, while the engine is open."""

    async def tend(self) -> None:
        """Do it, until cancelled. Must raise nothing ordinary."""
        ...


class WallClock(Protocol):
    """Time for people; all waiting is on trio's clock."""

    def now(self) -> float:
        """Return seconds since the epoch."""
        ...


class IdSource(Protocol):
    """Makes identifiers."""

    def new(self, kind: str) -> str:
        """Return a fresh identifier which begins with *kind*."""
        ...


class Trace(Protocol):
    """Sees the engine's inner points; the test kit cancels there."""

    def point(self, name: str) -> None:
        """Take note that *name* is passed now."""
        ...


@attrs.frozen(kw_only=True)
class Deps:
    """All the ports of a turn, and the locks that its tools share with all other turns of the engine.

    Attributes:
        summariser: the model that writes summaries; None: the turn's own.
        snapshots: notes the files around what changes them; None: nobody does.
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
