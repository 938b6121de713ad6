"""`Subscription`: a session's events on their way to one client.

It has a cursor and no queue: nothing is taken while the connection is not ready, and what was missed meanwhile comes merged.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, Protocol, final

import attrs
import trio

from engine.control.control_methods import Followed
from engine.control.event_batches import Batch, Entry, EventTexts, HeartbeatFilter, is_live
from engine.control.protocol.server_side import events_text, note_text
from engine.control.protocol.session_methods import SessionHead
from engine.control.protocol.watch_methods import HeadNote, ResyncNote, SubscribeParams
from engine.control.service.metrics import Metrics
from engine.control.time_slots import PassLimit, TimeSlots
from engine.core.ids import SessionId
from engine.journal.position import encode_position
from engine.journal.state import Resync

_EVENTS: Final = "engine_control_events_total"
# In a second, of all subscribers together; each takes about 0.1 ms.
_LIVE_SENDS: Final = 3_200
_DURABLE_SENDS: Final = 4_000
# What is refused, of all clients together: about a fiftieth of a core.
_REFUSALS: Final = 150
# In one pass of the scheduler.
_SENDS_OF_PASS: Final = 16


class NoteSink(Protocol):
    """Where events go."""

    async def send_note(self, name: str, note: object) -> None:
        """Send a notification. A checkpoint."""
        ...

    async def send_next(self, take: Callable[[], str | None]) -> None:
        """Send what *take* returns, which is asked when it is its turn. A checkpoint."""
        ...


@attrs.frozen
class SubscriptionShare:
    """What all connections and subscriptions of a server share.

    Attributes:
        metrics: count what is sent.
        now: returns the time, in seconds since the epoch.
        with_clients: returns a head with those who are connected.
        texts: the JSON of events.
        live: when they send live events: a thousand subscribers of one turn get them every 0.3 s.
        durable: when they send events of the record: one wakes all subscribers at once.
        passes: how many send before others get their turn.
        refusals: when connections read on after what was refused or brought nothing.
    """

    metrics: Metrics
    now: Callable[[], float]
    with_clients: Callable[[SessionHead], SessionHead]
    texts: EventTexts = attrs.field(factory=EventTexts)
    live: TimeSlots = attrs.field(factory=partial(TimeSlots, _LIVE_SENDS))
    durable: TimeSlots = attrs.field(factory=partial(TimeSlots, _DURABLE_SENDS))
    passes: PassLimit = attrs.field(factory=partial(PassLimit, _SENDS_OF_PASS))
    refusals: TimeSlots = attrs.field(factory=partial(TimeSlots, _REFUSALS))


@final
class Subscription:
    """A subscription; `run` serves it until the connection or the session ends.

    Attributes:
        id: names it in notifications.
        session_id: the session.
        seq: the last event of the session itself that was sent; the cursor may be ahead, with a message that waits.
        position: where the client is, as text that it can continue from.
    """

    def __init__(
        self,
        subscription_id: str,
        params: SubscribeParams,
        followed: Followed,
        *,
        share: SubscriptionShare,
    ) -> None:
        """Make it.

        Args:
            subscription_id: its name.
            params: what the client wants.
            followed: where it begins; nothing else uses its cursor.
            share: what all subscriptions of the server share.
        """
        self.id = subscription_id
        self.session_id: SessionId = SessionId(params.session_id)
        self.seq: int = followed.cursor.position.seq
        self.position: str = encode_position(followed.cursor.position)
        self._params = params
        self._followed = followed
        self._cursor = followed.cursor
        self._share = share
        self._since = share.now()
        self._heartbeats = HeartbeatFilter()
        self._next_live = trio.current_time()

    async def run(self, sink: NoteSink, head: SessionHead) -> None:
        """Send the head, then the events as they come. A checkpoint; it ends with the session, or if cancelled."""
        await sink.send_note("head", HeadNote(sub=self.id, head=head))
        while await self._is_due():
            await self._share.passes.wait()
            await sink.send_next(self._take)
            self._next_live = trio.current_time() + self._params.interval / 1000

    async def _is_due(self) -> bool:
        """Wait until there is something to send, and it is time to: live events wait a while after the last ones.

        Returns False once the session has ended. A checkpoint; nothing is taken from the cursor.
        """
        cursor, only_durable = self._cursor, not self._params.live
        await self._wait_until(self._next_live)
        if not cursor.has_next(durable=only_durable) and not await cursor.wait(durable=only_durable):
            return False
        if not cursor.has_next(durable=True):
            # One slot for each send; what has come now has woken the others, too.
            slot = self._share.live.book()
            if slot > trio.current_time():
                await self._wait_until(slot)
        if cursor.has_next(durable=True):
            await self._share.durable.wait()
        return True

    async def _wait_until(self, time: float) -> None:
        """Wait until then, or until there is an event of the record. A checkpoint."""
        with trio.move_on_at(time):  # noqa: ASYNC912  # none where there is one
            await self._cursor.wait(durable=True)

    def _take(self) -> str | None:
        """Return the next message, with all that has come while the connection was busy. Not a checkpoint."""
        if (head := self._cursor.take_head()) is not None:
            return note_text("head", HeadNote(sub=self.id, head=self._share.with_clients(head)))
        batch = Batch(self._share.texts, self._params.elide)
        waiting = self._cursor.merge()
        batch.add_ready(self._cursor, self._wants)
        if batch.resync is not None:
            # A cursor resyncs before anything else, so there is nothing else.
            return self._resync_text(batch.resync)
        position = self._cursor.position
        self.seq, self.position = position.seq, encode_position(position)
        if batch.is_empty:
            return None
        events = batch.texts()
        self._count(batch, waiting)
        return events_text(self.id, self.position, events)

    def _resync_text(self, resync: Resync) -> str:
        snapshot = self._followed.snapshot(resync)
        self._share.metrics.add("engine_control_resyncs_total", self._followed.resync_reason or "behind")
        self.seq = resync.seq
        self.position = snapshot.position
        return note_text("resync", ResyncNote(sub=self.id, snapshot=snapshot))

    def _count(self, batch: Batch, waiting: int) -> None:
        metrics = self._share.metrics
        live = sum(map(is_live, batch.entries))
        for kind, count in (("live", live), ("durable", len(batch.entries) - live)):
            if count:
                metrics.add(_EVENTS, kind, value=count)
        if merged := batch.merged + max(0, waiting - live):
            metrics.add("engine_control_merged_total", value=merged)
        # What had happened before this client came is old, and not late.
        if batch.entries and (time := batch.entries[0].time) >= self._since:
            metrics.observe("engine_control_lag_seconds", self._share.now() - time)

    def _wants(self, entry: Entry) -> bool:
        is_ours = self._params.tree or entry.session_id == self.session_id
        return is_ours and (self._params.live or not is_live(entry)) and self._heartbeats.lets_through(entry)
