"""What every store promises, as tests: a class to be subclassed with the places of one kind of store."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

import trio
from hypothesis import given
from hypothesis import strategies as st

from engine.core.events import Durable
from engine.core.ids import SessionId
from engine.core.protocols import NoTrace, Store
from engine.journal.log import Journal
from engine.journal.system_clock import SystemClock
from tests.store.journals import A, B, any_journals, created, noted, notes, session


class Place(Protocol):
    """Where stores that follow one another keep the same sessions."""

    async def open(self) -> Store:
        """Open a store there."""
        ...


class StoreSuite(ABC):
    """The port that a turn needs."""

    @abstractmethod
    def places(self) -> AbstractContextManager[Place]:
        """Make a place which is empty, and is gone after the block."""

    # ---- what is put is loaded -----------------------------------------------------------

    async def test_unknown_session_has_nothing(self) -> None:
        with self.places() as place:
            store = await place.open()
            assert list(await store.load(A)) == []
            await store.flushed(A, 0)
            await store.aclose()

    async def test_put_events_are_loaded_at_once(self) -> None:
        with self.places() as place:
            store = await place.open()
            events = session(A, ("hello", "well?"))
            for event in events:
                store.put(event)
            assert list(await store.load(A)) == events
            assert list(await store.load(B)) == []
            await store.aclose()

    async def test_put_events_survive_closing(self) -> None:
        with self.places() as place:
            store = await place.open()
            events = notes(A, 500)
            for event in events:
                store.put(event)
            await store.aclose()
            again = await place.open()
            assert list(await again.load(A)) == events
            await again.aclose()

    async def test_session_continues_where_it_was(self) -> None:
        with self.places() as place:
            for after in (0, 5, 10):
                store = await place.open()
                assert list(await store.load(A)) == notes(A, after)
                for event in notes(A, 5, after=after):
                    store.put(event)
                await store.flushed(A, after + 5)
                await store.aclose()

    async def test_sessions_do_not_mix(self) -> None:
        with self.places() as place:
            store = await place.open()
            for seq in range(1, 101):
                store.put(noted(A, seq))
                store.put(noted(B, seq))
            await store.flushed(B, 100)
            await store.flushed(A, 100)
            assert (list(await store.load(A)), list(await store.load(B))) == (notes(A, 100), notes(B, 100))
            await store.aclose()

    async def test_large_event(self) -> None:
        with self.places() as place:
            store = await place.open()
            large = noted(A, 1, "x" * 3_000_000 + "\ud800\x00ü")
            store.put(large)
            assert list(await store.load(A)) == [large]
            await store.aclose()

    def test_any_events_survive_close_and_open(self) -> None:
        @given(journals=st.tuples(any_journals(A), any_journals(B)), cut=st.integers(0, 12), flushes=st.booleans())
        def check(journals: tuple[list[Durable], list[Durable]], cut: int, *, flushes: bool) -> None:
            with self.places() as place:
                trio.run(_through_close_and_open, place, journals, cut, flushes)

        check()

    # ---- flushing, closing ---------------------------------------------------------------

    async def test_flushed_returns_for_durable_events(self) -> None:
        with self.places() as place:
            store = await place.open()
            for event in notes(A, 3):
                store.put(event)
            for seq in (3, 1, 2, 3, 0):
                await store.flushed(A, seq)
            await store.aclose()
            again = await place.open()
            await again.flushed(A, 3)
            await again.aclose()

    async def test_flushed_and_load_are_checkpoints(self) -> None:
        with self.places() as place:
            store = await place.open()
            store.put(noted(A, 1))
            await store.flushed(A, 1)
            with trio.CancelScope() as scope:
                scope.cancel(reason="test")
                await store.flushed(A, 1)
            assert scope.cancelled_caught
            with trio.CancelScope() as scope:
                scope.cancel(reason="test")
                await store.load(A)
            assert scope.cancelled_caught
            assert list(await store.load(A)) == notes(A, 1)
            await store.aclose()

    async def test_cancelled_flush_loses_nothing(self) -> None:
        with self.places() as place:
            store = await place.open()
            for event in notes(A, 1_000):
                store.put(event)
            with trio.CancelScope() as scope:
                scope.cancel(reason="test")
                await store.flushed(A, 1_000)
            await store.aclose()
            again = await place.open()
            assert list(await again.load(A)) == notes(A, 1_000)
            await again.aclose()

    async def test_many_tasks_flush_at_once(self) -> None:
        with self.places() as place:
            store = await place.open()
            sessions = [SessionId(f"ses_{number}") for number in range(30)]

            async def work(session_id: SessionId) -> None:
                for seq in range(1, 21):
                    store.put(noted(session_id, seq))
                    await store.flushed(session_id, seq)

            async with trio.open_nursery() as nursery:
                for session_id in sessions:
                    nursery.start_soon(work, session_id)
            for session_id in sessions:
                assert list(await store.load(session_id)) == notes(session_id, 20)
            await store.aclose()

    async def test_closing_is_idempotent(self) -> None:
        with self.places() as place:
            store = await place.open()
            store.put(noted(A, 1))
            await store.aclose()
            await store.aclose()

    async def test_epoch_is_a_name(self) -> None:
        with self.places() as place:
            store = await place.open()
            assert store.epoch
            assert store.epoch == store.epoch
            await store.aclose()

    # ---- under a journal -----------------------------------------------------------------

    async def test_journal_is_restored_unchanged(self) -> None:
        with self.places() as place:
            store = await place.open()
            journal = _journal(store)
            journal.append(created())
            for event in session(A, ("one", "1"), ("two", "2"), steps=3)[1:]:
                journal.append(event, turn_id=event.turn_id)
            await store.flushed(A, journal.seq)
            await store.aclose()
            again = await place.open()
            restored = _journal(again)
            restored.restore(await again.load(A))
            assert restored.state == journal.state
            assert restored.events() == journal.events()
            assert journal.refused is None
            await again.aclose()


def _journal(store: Store) -> Journal:
    return Journal(session_id=A, path=(A,), store=store, clock=SystemClock(), trace=NoTrace())


async def _through_close_and_open(
    place: Place, journals: tuple[Sequence[Durable], Sequence[Durable]], cut: int, flushes: bool
) -> None:
    store = await place.open()
    for parts in ([journal[:cut] for journal in journals], [journal[cut:] for journal in journals]):
        for event in (event for pair in zip(*parts, strict=False) for event in pair):
            store.put(event)
        shorter = min(map(len, parts))
        for event in (event for part in parts for event in part[shorter:]):
            store.put(event)
        for journal, part in zip(journals, parts, strict=True):
            if part and flushes:
                await store.flushed(journal[0].session_id, part[-1].seq or 0)
        await store.aclose()
        store = await place.open()
    loaded = [list(await store.load(session_id)) for session_id in (A, B)]
    await store.aclose()
    assert loaded == [list(journal) for journal in journals]
