"""What many subscribers of one event share: its text, and the time in which it is sent."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

import trio
from trio.testing import MockClock

from engine.control.control_methods import Followed
from engine.control.event_batches import (
    HEARTBEAT_SECONDS,
    MOST_CHARACTERS,
    MOST_EVENTS,
    Batch,
    Entry,
    EventTexts,
    HeartbeatFilter,
)
from engine.control.event_source import SessionSource
from engine.control.protocol.session_methods import SessionHead
from engine.control.protocol.watch_methods import SubscribeParams, SubscribeResult
from engine.control.service.metrics import Metrics
from engine.control.subscription import Subscription, SubscriptionShare
from engine.control.time_slots import PassLimit, TimeSlots
from engine.control.transport.send_lock import SendLock
from engine.core import events as ev
from engine.core.events import TextDelta
from engine.core.ids import CallId, MessageId, PartId, SessionId, TurnId
from engine.journal.position import Position
from engine.journal.state import Idle


def delta(text: str, *, offset: int = 0, session: str = "s") -> TextDelta:
    return TextDelta(
        session_id=SessionId(session),
        turn_id=None,
        path=(),
        time=1.0,
        message_id=MessageId("m"),
        part_id=PartId("p"),
        after=1,
        offset=offset,
        text=text,
    )


def test_merged_deltas_are_encoded_once() -> None:
    texts = EventTexts()
    first = texts.text(delta("Hello"), 0)
    # Another object, as each subscriber's cursor makes it.
    assert texts.text(delta("Hello"), 0) is first


def test_other_deltas_have_texts_of_their_own() -> None:
    texts = EventTexts()
    others = [delta("Hello"), delta("World"), delta("Hello", offset=5), delta("Hello", session="t")]
    assert len({texts.text(each, 0) for each in others}) == 4
    assert '"text":"World"' in texts.text(delta("World"), 0)


def test_kept_texts_are_bounded_by_size() -> None:
    texts = EventTexts()
    first = texts.text(delta("a" * 1_000_000), 0)
    for number in range(20):
        texts.text(delta("b" * 1_000_000, offset=number), 0)
    assert texts.text(delta("a" * 1_000_000), 0) is not first


async def test_few_are_not_delayed(autojump_clock: MockClock) -> None:
    slots = TimeSlots(1000)
    for _ in range(10):
        await slots.wait()
        await trio.sleep(0.001)
    assert slots.book() == trio.current_time()


async def test_many_are_spread_evenly(autojump_clock: MockClock) -> None:
    slots = TimeSlots(1000)
    now = trio.current_time()
    booked = [round((slots.book() - now) * 1000) for _ in range(300)]
    assert booked == list(range(300))


async def test_none_waits_longer_than_half_a_second(autojump_clock: MockClock) -> None:
    slots = TimeSlots(1000)
    assert max([slots.book() for _ in range(5000)]) <= trio.current_time() + 0.5


class Passes(trio.abc.Instrument):
    """Counts anew in each pass of the scheduler."""

    sent = 0

    def before_io_wait(self, timeout: float) -> None:
        del timeout
        self.sent = 0


async def test_crowd_goes_on_a_few_at_a_time(autojump_clock: MockClock) -> None:
    limit = PassLimit(10)
    sent, passes = 0, Passes()
    most = 0

    async def send() -> None:
        nonlocal sent, most
        await limit.wait()
        sent += 1
        passes.sent += 1
        most = max(most, passes.sent)

    trio.lowlevel.add_instrument(passes)
    async with trio.open_nursery() as nursery:
        for _ in range(100):
            nursery.start_soon(send)
    trio.lowlevel.remove_instrument(passes)
    assert (sent, most) == (100, 10)


async def test_cancelled_at_the_limit_keeps_nobody_waiting(autojump_clock: MockClock) -> None:
    limit = PassLimit(1)
    order: list[str] = []

    async def send(name: str) -> None:
        await limit.wait()
        order.append(name)

    await send("first")
    async with trio.open_nursery() as nursery:
        with trio.CancelScope() as scope:
            async with trio.open_nursery() as cancelled:
                cancelled.start_soon(send, "cancelled")
                await trio.testing.wait_all_tasks_blocked()
                nursery.start_soon(send, "second")
                scope.cancel()
    with trio.fail_after(60):
        await send("third")
    assert order[0] == "first"
    assert order[-2:] == ["second", "third"]


async def test_cancelled_sender_leaves_the_lock_free(autojump_clock: MockClock) -> None:
    lock = SendLock()
    order: list[str] = []

    async def send(name: str) -> None:
        async with lock:
            order.append(name)
            await trio.sleep(1)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(send, "first")
        await trio.sleep(0.1)
        with trio.move_on_after(0.1):
            await send("cancelled while it waits")
        nursery.start_soon(send, "second")
        await trio.sleep(0.1)
        nursery.start_soon(send, "third")
    with trio.fail_after(1):
        async with lock:
            pass
    assert order == ["first", "second", "third"]


# -- batches ---------------------------------------------------------------------------------

PLACE = {"session_id": SessionId("s"), "turn_id": TurnId("t"), "path": (SessionId("s"),), "time": 0.0}


def titled(seq: int, size: int = 1) -> ev.SessionTitled:
    return ev.SessionTitled(**PLACE, seq=seq, title="x" * size, by="user")  # type: ignore[arg-type]


def progress(call: str, output: str, message: str = "") -> ev.CallProgress:
    return ev.CallProgress(**PLACE, call_id=CallId(call), message=message, output=output)  # type: ignore[arg-type]


class Source:
    """Events that are all there already."""

    def __init__(self, *entries: Entry) -> None:
        self.left = list(entries)
        self.position = Position(epoch="e", seq=0)

    async def wait(self, *, durable: bool = False) -> bool:
        return self.has_next(durable=durable)

    def has_next(self, *, durable: bool = False) -> bool:
        return any(not durable or entry.seq is not None for entry in self.left)

    def merge(self) -> int:
        return 0

    def try_next(self) -> Entry | None:
        return self.left.pop(0) if self.left else None


def fill(source: Source, elide: int = 0) -> Batch:
    batch = Batch(EventTexts(), elide)
    batch.add_ready(source, lambda _: True)
    return batch


def test_long_events_fill_a_batch() -> None:
    source = Source(*[titled(seq, 100_000) for seq in range(1, 40)])
    sizes: list[int] = []
    seqs: list[int] = []
    while source.left:
        batch = fill(source)
        sizes.append(sum(map(len, batch.texts())))
        seqs += [entry.seq or 0 for entry in batch.entries]
    assert max(sizes) <= MOST_CHARACTERS + 100_500
    assert seqs == list(range(1, 40))


def test_short_events_fill_a_batch() -> None:
    source = Source(*map(titled, range(1, 1000)))
    assert len(fill(source).texts()) == MOST_EVENTS


def test_progress_of_calls_merges_without_loss() -> None:
    batch = fill(
        Source(progress("a", "1", "begun"), progress("b", "x"), progress("a", "2"), progress("b", "y"), titled(1))
    )
    merged = [entry for entry in batch.entries if isinstance(entry, ev.CallProgress)]
    assert [(each.call_id, each.message, each.output) for each in merged] == [("a", "begun", "12"), ("b", "", "xy")]


def test_flood_of_output_keeps_its_end() -> None:
    batch = fill(Source(*[progress("a", f"{number:05}" * 2000) for number in range(20)]))
    (merged,) = batch.entries
    assert isinstance(merged, ev.CallProgress)
    assert len(merged.output) <= 64 * 1024
    assert merged.output.endswith("00019")


def test_elided_events_leave_the_text_whole() -> None:
    batch = fill(Source(delta("a" * 50), delta("b" * 50, offset=50), titled(2, 500)), elide=100)
    first, second = batch.texts()
    assert "a" * 50 + "b" * 50 in first
    assert '"type":"elided"' in second
    assert "events?after=1&limit=1" in second


def test_heartbeats_of_each_call_are_spaced() -> None:
    def beat(call: str, time: float) -> ev.CallHeartbeat:
        return ev.CallHeartbeat(
            call_id=CallId(call), tool="bash", elapsed=time, last_progress="", pending_inputs=0, time=time
        )

    spaced = HeartbeatFilter()
    passed = [quarter for quarter in range(40) if spaced.lets_through(beat("a", quarter / 4))]
    assert passed == list(range(0, 40, int(4 * HEARTBEAT_SECONDS)))
    assert spaced.lets_through(beat("b", 9.75))
    # The clock was set back, or a call has the id again.
    assert spaced.lets_through(beat("a", 1.0))
    assert spaced.lets_through(delta("text"))


# -- when they are sent ----------------------------------------------------------------------


class Feed(Source):
    """Events that come when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.came = trio.Event()

    def push(self, entry: Entry) -> None:
        self.left.append(entry)
        self.came.set()
        self.came = trio.Event()

    async def wait(self, *, durable: bool = False) -> bool:
        while not self.has_next(durable=durable):
            await self.came.wait()
        return True

    def take_head(self) -> None:
        return None


class TimedSink:
    """Knows when it was sent what."""

    def __init__(self) -> None:
        self.began = trio.current_time()
        self.sent: list[tuple[float, list[dict[str, Any]]]] = []

    async def send_note(self, name: str, note: object) -> None:
        del name, note
        await trio.lowlevel.checkpoint()

    async def send_next(self, take: Callable[[], str | None]) -> None:
        await trio.lowlevel.checkpoint()
        if (text := take()) is not None:
            self.sent.append((round(trio.current_time() - self.began, 2), json.loads(text)["params"]["events"]))


async def test_record_waits_for_no_interval(autojump_clock: MockClock) -> None:
    feed, sink = Feed(), TimedSink()
    head = SessionHead(seq=0, status=Idle())
    followed = Followed(
        cast("SessionSource", feed), SubscribeResult(sub="s1", head=head, mode="live"), lambda _: cast("Any", None)
    )
    share = SubscriptionShare(Metrics(), now=lambda: 0.0, with_clients=lambda each: each)
    params = SubscribeParams(session_id="s", interval=1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(Subscription("s1", params, followed, share=share).run, sink, head)
        for seconds, entry in (
            (0.1, delta("a")),
            (0.1, delta("b", offset=1)),
            (0.1, titled(1)),
            (0.1, delta("c", offset=2)),
            (0.1, delta("d", offset=3)),
        ):
            await trio.sleep(seconds)
            feed.push(entry)
        await trio.sleep(2)
        nursery.cancel_scope.cancel()
    sent = [(time, [event.get("text", event["type"]) for event in events]) for time, events in sink.sent]
    # Live events alone wait for the next second; with one of the record, all that came before it goes out at once.
    assert sent == [(0.1, ["a"]), (0.3, ["b", "session_titled"]), (1.3, ["cd"])]
