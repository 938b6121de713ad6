"""What one message to a subscriber holds: bounded, merged, and nothing lost."""

from __future__ import annotations

from engine.control.event_batches import MOST_CHARACTERS, MOST_EVENTS, Batch, Entry, EventTexts
from engine.core import events as ev
from engine.core.ids import CallId, MessageId, PartId, SessionId, TurnId
from engine.journal.position import Position

PLACE = {"session_id": SessionId("s"), "turn_id": TurnId("t"), "path": (SessionId("s"),), "time": 0.0}


def titled(seq: int, size: int = 1) -> ev.SessionTitled:
    return ev.SessionTitled(**PLACE, seq=seq, title="x" * size, by="user")  # type: ignore[arg-type]


def progress(call: str, output: str, message: str = "") -> ev.CallProgress:
    return ev.CallProgress(**PLACE, call_id=CallId(call), message=message, output=output)  # type: ignore[arg-type]


def delta(text: str, offset: int) -> ev.TextDelta:
    place = {"message_id": MessageId("m"), "part_id": PartId("p"), "after": 1, "offset": offset}
    return ev.TextDelta(**PLACE, **place, text=text)  # type: ignore[arg-type]


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
    batch = fill(Source(delta("a" * 50, 0), delta("b" * 50, 50), titled(2, 500)), elide=100)
    first, second = batch.texts()
    assert "a" * 50 + "b" * 50 in first
    assert '"type":"elided"' in second
    assert "events?after=1&limit=1" in second
