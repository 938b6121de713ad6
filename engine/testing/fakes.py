"""In-memory ports for tests: deterministic ids and time, a slow or failing store, a scripted context keeper."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

import attrs
import trio

from engine.core.compaction_types import Compaction, CompactionRequest, NotCompacted, Summariser
from engine.core.errors import SnapshotError, StoreError
from engine.core.events import Durable
from engine.core.ids import SessionId
from engine.core.messages import Message
from engine.core.protocols import ContextView, NoTrace, Trace
from engine.core.snapshot_types import Change, Put, SnapshotResult, TreeEntry


@attrs.define(eq=False)
class CountingIds:
    """Identifiers that count, so that equal runs make equal ones."""

    _count: int = attrs.field(default=0, init=False)

    def new(self, kind: str) -> str:
        """Return the next identifier."""
        self._count += 1
        return f"{kind}_{self._count}"


class TrioClock:
    """Wall time that follows trio's clock, so that a mock clock moves both."""

    def now(self) -> float:
        """Return trio's current time."""
        return trio.current_time()


@attrs.define(eq=False, kw_only=True)
class SlowStore:
    """A store in memory whose flush takes time, fails or hangs.

    Attributes:
        delay: the duration of a flush in seconds of trio's clock.
        hangs: a flush never returns.
        fails: a flush raises `StoreError`.
        durable: the number of the last flushed event, by session.
    """

    delay: float = 0.0
    hangs: bool = False
    fails: bool = False
    epoch: str = "test"
    trace: Trace = attrs.field(factory=NoTrace)
    durable: dict[SessionId, int] = attrs.field(factory=dict[SessionId, int], init=False)
    flushes: list[tuple[SessionId, int]] = attrs.field(factory=list[tuple[SessionId, int]], init=False)
    _events: dict[SessionId, list[Durable]] = attrs.field(factory=dict[SessionId, list[Durable]], init=False)

    def put(self, event: Durable) -> None:
        """Keep *event*. Not a checkpoint."""
        self.trace.point("store.put")
        self._events.setdefault(event.session_id, []).append(event)

    async def flushed(self, session_id: SessionId, seq: int) -> None:
        """Wait like a slow disk. Always a checkpoint."""
        self.trace.point("store.flush")
        if self.hangs:
            await trio.sleep_forever()
        await trio.sleep(self.delay)
        # After the delay: a real disk fails as late.
        if self.fails:
            raise StoreError("the disk is full")
        self.durable[session_id] = max(seq, self.durable.get(session_id, 0))
        # Flushes of concurrent turns may overtake each other, hence the maximum above.
        self.flushes.append((session_id, seq))
        self.trace.point("store.flushed")

    async def load(self, session_id: SessionId) -> Sequence[Durable]:
        """Return the events of a session. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return tuple(self._events.get(session_id, ()))

    async def aclose(self) -> None:
        """Do nothing. Always a checkpoint."""
        await trio.lowlevel.checkpoint()


@attrs.define(eq=False, kw_only=True)
class ScriptedSnapshots:
    """Empty snapshots that take time or fail.

    Attributes:
        seconds: the duration of each in seconds of trio's clock.
        fails: each raises `SnapshotError`.
        completed: the names of the completed ones.
    """

    seconds: float = 0.0
    fails: bool = False
    completed: list[str] = attrs.field(factory=list[str], init=False)

    async def take(self, cwd: str, *, owner: str, paths: Collection[str] = (), within: float) -> SnapshotResult:
        """Take a snapshot, unless it takes longer than *within*. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        with trio.move_on_after(within):
            await trio.sleep(self.seconds)
            if self.fails:
                raise SnapshotError("the disk is full")
            self.completed.append(f"tree{len(self.completed) + 1}")
            return SnapshotResult(self.completed[-1])
        return SnapshotResult(None, ("too slow",))

    async def about_to_change(self, cwd: str, paths: Sequence[str]) -> None:
        """Do nothing. Always a checkpoint."""
        await trio.lowlevel.checkpoint()

    async def diff(self, old: str, new: str, *, owner: str) -> Sequence[Change]:
        """Report no changes. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return ()

    async def read(self, tree: str, entries: Collection[TreeEntry]) -> dict[str, bytes]:
        """Return no files. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        return {}

    async def put(self, tree: str, puts: Sequence[Put], *, cwd: str) -> None:
        """Restore nothing. Always a checkpoint."""
        await trio.lowlevel.checkpoint()


Shrink = Callable[[ContextView], Sequence[Message] | None]


@attrs.define(eq=False, kw_only=True)
class ScriptedKeeper:
    """A context keeper that follows a script.

    Attributes:
        prunes / collapses / compacts: the results of these requests, in order; then None.
        forced: the results of requests after an overflow.
        seconds: the duration of each in seconds of trio's clock.
        blocked: the blocking limit is reached.
        requests: the kinds of requests, in order.
    """

    prunes: list[Shrink] = attrs.field(factory=list[Shrink])
    collapses: list[Shrink] = attrs.field(factory=list[Shrink])
    compacts: list[Shrink] = attrs.field(factory=list[Shrink])
    forced: list[Shrink] = attrs.field(factory=list[Shrink])
    seconds: float = 0.0
    blocked: bool = False
    requests: list[str] = attrs.field(factory=list[str], init=False)

    async def prune(self, view: ContextView) -> Sequence[Message] | None:
        """Prune as scripted. Always a checkpoint."""
        return await self._do("prune", self.prunes, view)

    async def collapse(self, view: ContextView, *, forced: bool) -> Sequence[Message] | None:
        """Collapse as scripted. Always a checkpoint."""
        return await self._do("collapse", self.forced if forced else self.collapses, view)

    def wants_compaction(self, view: ContextView) -> bool:
        """Tell whether the script has another compaction."""
        return bool(self.compacts if view.failure == "none" else self.forced)

    async def compact(
        self, view: ContextView, summariser: Summariser, wish: CompactionRequest
    ) -> Compaction | NotCompacted | None:
        """Compact as scripted. Always a checkpoint."""
        made = await self._do("compact", self.compacts if wish.trigger == "full" else self.forced, view)
        return None if made is None else Compaction(messages=tuple(made))

    def is_blocked(self, view: ContextView) -> bool:
        """Return `blocked`."""
        return self.blocked

    async def _do(self, kind: str, script: list[Shrink], view: ContextView) -> Sequence[Message] | None:
        await trio.lowlevel.checkpoint()
        if not script:
            return None
        self.requests.append(kind)
        await trio.sleep(self.seconds)
        # After the await: a cancelled request leaves the script unchanged.
        return script.pop(0)(view)
