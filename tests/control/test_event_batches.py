"""What many subscribers of one event share: its text, and the time in which it is sent."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from engine.control.event_batches import EventTexts
from engine.control.time_slots import TimeSlots
from engine.control.transport.send_lock import SendLock
from engine.core.events import TextDelta
from engine.core.ids import MessageId, PartId, SessionId


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
    assert slots.book(trio.current_time() + 0.033) == trio.current_time() + 0.033


async def test_many_are_spread_evenly(autojump_clock: MockClock) -> None:
    slots = TimeSlots(1000)
    now = trio.current_time()
    booked = [round((slots.book() - now) * 1000) for _ in range(300)]
    assert booked == list(range(300))


async def test_none_waits_longer_than_half_a_second(autojump_clock: MockClock) -> None:
    slots = TimeSlots(1000)
    assert max([slots.book() for _ in range(5000)]) <= trio.current_time() + 0.5


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
