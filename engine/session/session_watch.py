"""What a host watches without a session's handle: a session of any engine, and which sessions of this one change."""

from __future__ import annotations

from collections import deque
from typing import Final, final
from weakref import WeakSet, WeakValueDictionary

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import ConfigError
from engine.core.events import Durable
from engine.core.ids import SessionId
from engine.core.protocols import Store
from engine.core.threads import check_run
from engine.store.store_protocols import Watching


@final
@attrs.define(eq=False, repr=False)
class Watch:
    """The durable events of one session of any engine: `async for event in watch`. The iteration never ends by itself.

    Events of sub-agents are not among them; `SessionCreated.parent_id` connects the sessions.
    """

    _store: Watching
    _session_id: SessionId
    _seq: int
    _waiting: deque[Durable] = attrs.field(factory=deque[Durable], init=False)

    @classmethod
    def of(cls, store: Store, session_id: SessionId, after: int) -> Watch:
        """Return a watch of a session in *store*. Raises `ConfigError` if the store can't be watched."""
        if not isinstance(store, Watching):
            raise ConfigError(
                "this store can't be watched: open_engine(store=…) takes the path of a file, or the URL of a database"
            )
        return cls(store, session_id, after)

    def __aiter__(self) -> Watch:
        """Return itself."""
        return self

    async def __anext__(self) -> Durable:
        """Return the next event. Always a checkpoint; if cancelled, it is returned next time.

        Raises `JournalCorrupt`, `StoreError`.
        """
        if self._waiting:
            # Otherwise a watcher that reads a long session from its start would block the event loop.
            await trio.lowlevel.checkpoint()
        else:
            self._waiting.extend(await self._store.wait_for_events(self._session_id, self._seq))
        event = self._waiting.popleft()
        assert event.seq is not None
        self._seq = event.seq
        return event

    @property
    def seq(self) -> int:
        """The number of the event returned last, to continue from later."""
        return self._seq


# At least so many sessions are remembered.
_REMEMBERED: Final = 1_000


@attrs.define(eq=False, repr=False)
class ChangeSignal:
    """Which session of an engine changed last, and when: a number for each, and no queue."""

    # The one that changed last is the last.
    _numbers: dict[SessionId, int] = attrs.field(factory=dict[SessionId, int], init=False)
    _last: int = attrs.field(default=0, init=False)
    _room: int = attrs.field(default=_REMEMBERED, init=False)
    _is_closed: bool = attrs.field(default=False, init=False)
    _lot: trio.lowlevel.ParkingLot = attrs.field(factory=trio.lowlevel.ParkingLot, init=False)
    _watchers: WeakSet[SessionChanges] = attrs.field(factory=WeakSet["SessionChanges"], init=False)
    # Weak references: an event lives as long as a task waits for it.
    _next: WeakValueDictionary[SessionId, trio.Event] = attrs.field(
        factory=WeakValueDictionary[SessionId, trio.Event], init=False
    )

    @enable_ki_protection
    def note(self, session_id: SessionId) -> None:
        """Note that a session has changed, or was opened. Not a checkpoint."""
        self._last += 1
        if (event := self._next.pop(session_id, None)) is not None:
            event.set()
        self._numbers.pop(session_id, None)
        self._numbers[session_id] = self._last
        if self._lot:
            self._lot.unpark_all()
        if len(self._numbers) > self._room:
            self._forget()

    def _forget(self) -> None:
        """Forget what every watcher has seen."""
        seen = min((watcher.seen for watcher in self._watchers), default=self._last)
        self._numbers = {name: number for name, number in self._numbers.items() if number > seen}
        self._room = max(_REMEMBERED, 2 * len(self._numbers))

    def __len__(self) -> int:
        """Return how many sessions are remembered."""
        return len(self._numbers)

    @enable_ki_protection
    def close(self) -> None:
        """End the watchers, once they have returned the last changes. Not a checkpoint."""
        self._is_closed = True
        self._lot.unpark_all()
        for event in list(self._next.values()):
            event.set()

    def next_change(self, session_id: SessionId) -> trio.Event:
        """Return an event that is set when one session changes, or the engine closes. Not a checkpoint."""
        event = self._next.setdefault(session_id, trio.Event())
        if self._is_closed:
            event.set()
        return event

    def watch(self, token: trio.lowlevel.TrioToken) -> SessionChanges:
        """Return a watcher that begins now. Not a checkpoint."""
        watcher = SessionChanges(self, token, self._last)
        self._watchers.add(watcher)
        return watcher

    @enable_ki_protection
    def take(self, watcher: SessionChanges) -> frozenset[SessionId]:
        """Return what a watcher has not seen, as seen from now on. Not a checkpoint."""
        found: list[SessionId] = []
        for session_id, number in reversed(self._numbers.items()):
            if number <= watcher.seen:
                break
            found.append(session_id)
        watcher.seen = self._last
        return frozenset(found)

    async def wait(self) -> bool:
        """Wait for a change; return whether there can be one. A checkpoint if there can."""
        if not self._is_closed:
            await self._lot.park()
            return True
        return False


@final
@attrs.define(eq=False, repr=False)
class SessionChanges:
    """Which sessions of an engine have changed since the last look: `async for session_ids in changes`.

    There is no queue: a session that has changed a hundred times is named once, and a host that was away for an hour is
    right again after the next look. Sub-agents' sessions are named, too. It ends when the engine has closed.

    Attributes:
        seen: the number of the last change that was returned.
    """

    _log: ChangeSignal
    _token: trio.lowlevel.TrioToken
    seen: int

    def __aiter__(self) -> SessionChanges:
        """Return itself."""
        return self

    async def __anext__(self) -> frozenset[SessionId]:
        """Wait until a session has changed, and return all that have. Always a checkpoint; if cancelled, none is lost."""
        await trio.lowlevel.checkpoint()
        while not (found := self.take()):
            check_run(self._token)
            if not await self._log.wait():
                raise StopAsyncIteration
        return found

    def take(self) -> frozenset[SessionId]:
        """Return those that have changed, possibly none. Not a checkpoint."""
        return self._log.take(self)
