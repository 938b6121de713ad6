"""What must be true after a kill; and how much text it has cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

import attrs
import trio

import engine
from engine.core.events import (
    CallQueued,
    CallSettled,
    CallStarted,
    Durable,
    InputPromoted,
    PartEnded,
    StepEnded,
)
from engine.core.ids import SessionId
from engine.core.messages import TextPart
from engine.journal.fold import fold
from engine.journal.state import SessionState
from engine.nursery.parkable import only_waits
from engine.process.kill_tree import find_marked
from engine.store.sqlite.store import SqliteStore, open_sqlite_store
from engine.store.store_protocols import SessionQuery
from engine.testing.invariants import Seen, check_events, check_transcript
from engine.tools.shell_environment import marker
from tests.os.killing_engine import Place, answer
from tests.os.killing_host import NEXT, WELL

# Tools that wait for somebody, and may be entered again.
WAITING = {"question", "office"}
REASONS = {"interrupted_by_crash", "not_executed", "cancelled", "timeout"}


@attrs.frozen(kw_only=True)
class Promised:
    """What the killed program has told.

    Attributes:
        session: which session it was.
        flushed: the events that were durable, by their numbers, each with its time.
        texts: of each part, how long it was at which time.
        killed_at: when it was killed.
    """

    session: str = ""
    flushed: Mapping[int, float] = attrs.field(factory=dict[int, float])
    texts: Sequence[tuple[str, int, float]] = ()
    killed_at: float = 0.0


# What is done with a turn that only waited: another engine is to find it, it goes on, or a new prompt ends it.
Then = Literal["leave", "resume", "prompt"]


@attrs.frozen(kw_only=True)
class Found:
    """What a kill has left.

    Attributes:
        lost: seconds of text.
        parked: the turn only waited.
        phase: where the turn was, by the record.
    """

    lost: float
    parked: bool
    phase: str


async def check(place: Place, promised: Promised, then: Then) -> Found | None:
    """Open what was left, and go on with it. Raises `AssertionError`.

    Return what was found; None: the session was not even promised to be there.
    """
    before = place.effects
    store = await open_sqlite_store(place.store)
    assert list(store.damaged) == []
    async with place.engine(store) as eng:
        known = await _ids(store)
        if promised.session not in known:
            assert not promised.flushed, "a session that was promised to be durable is gone"
            return None
        left = fold(await store.load(SessionId(promised.session)))
        opened = [await eng.open_session(session_id) for session_id in known]
        await _check_nobody_is_left(known)
        for session in opened:
            if session.state.turn is not None:
                assert session.id == promised.session
                assert only_waits(session.state, WAITING.__contains__), session.state.turn
            _check_journal(session)
        _check_effects(before, [event for session in opened for event in session.events()])
        session = next(session for session in opened if session.id == promised.session)
        # By their times: what closes an open turn would else pass for what was lost.
        times = {event.seq: event.time for event in session.events()}
        assert [seq for seq, at in promised.flushed.items() if times.get(seq) != at] == [], "what was flushed is lost"
        if session.state.turn is None:
            _check_settled(left, session.events())
        phase = phase_of(left)
        lost = _seconds_lost(session.events(), promised)
        is_parked = session.state.turn is not None
        if is_parked and then == "leave":
            return Found(lost=lost, parked=True, phase=phase)
        if is_parked and then == "resume":
            await _resume(session)
        result = await session.run(NEXT)
        assert (result.stop_reason, result.text, result.durable) == ("completed", WELL, True), result
        _check_journal(session)
        assert list(await store.load(session.id)) == list(session.events())
        await _check_lists(store, session)
    assert place.effects[: len(before)] == before
    assert len(set(place.effects)) == len(place.effects), "something was run again"
    return Found(lost=lost, parked=is_parked, phase=phase)


def phase_of(state: SessionState) -> str:
    """Return where a turn was when it was cut off: its step, and what was under way."""
    turn = state.turn
    if turn is None:
        return "no turn"
    if turn.step is None:
        return f"after step {turn.steps}"
    calls = [call.tool for call in turn.step.calls if call.state == "running"]
    if turn.requests or turn.questions or WAITING.intersection(calls):
        what = "waiting"
    elif calls:
        what = "tools"
    else:
        what = "answer" if turn.step.received is None and not turn.step.calls else "calls"
    return f"step {turn.step.step}: {what}"


async def _resume(session: engine.Session) -> None:
    async with session.resume() as turn:
        async for event in turn:
            await answer(session, turn, event)
    assert turn.result.stop_reason == "completed", turn.result
    _check_journal(session)


async def _ids(store: SqliteStore) -> list[SessionId]:
    roots = [row.id for row in await store.list_sessions(SessionQuery(limit=1_000))]
    children = [await store.list_sessions(SessionQuery(limit=1_000, parent_id=root)) for root in roots]
    return [*roots, *(row.id for rows in children for row in rows)]


async def _check_nobody_is_left(known: Sequence[SessionId]) -> None:
    """The processes of the dead engine are ended a moment after the start of the next."""
    marks = tuple(marker(session_id) for session_id in known)
    with trio.fail_after(30):
        while find_marked(lambda mark: mark.startswith(marks)):
            await trio.sleep(0.01)


def _check_journal(session: engine.Session) -> None:
    events = session.events()
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert fold(events) == session.state
    problems = check_events(_replayed(session)) if session.state.turn is None else []
    assert problems == [], problems
    problems = check_transcript(session.state.transcript)
    assert problems == [], problems
    for event in events:
        if isinstance(event, CallSettled) and event.settlement.status == "aborted":
            assert event.settlement.reason in REASONS
            assert event.settlement.text


def _check_settled(left: SessionState, events: Sequence[Durable]) -> None:
    """A call that may have done something is told as cut off, one that was not let go as not executed."""
    calls = () if left.turn is None or left.turn.step is None else left.turn.step.calls
    settled = {event.call_id: event.settlement for event in events if isinstance(event, CallSettled)}
    for call in calls:
        if call.settlement is None:
            told = settled[call.call_id]
            expected = ("interrupted_by_crash", True) if call.state == "running" else ("not_executed", False)
            assert (told.status, told.reason, told.outcome_unknown) == ("aborted", *expected)


def _replayed(session: engine.Session) -> list[Seen]:
    """Return what a subscriber is shown who begins at the beginning: the deltas are told again."""
    cursor, seen = session.subscribe(after=0), list[Seen]()
    while (event := cursor.try_next()) is not None:
        seen.append(event)
    return seen


def _check_effects(effects: Sequence[str], events: Sequence[Durable]) -> None:
    """Each happened once, and was recorded as begun before it happened."""
    twice = [key for key, count in Counter(effects).items() if count > 1]
    assert twice == []
    arguments = {event.call_id: event.arguments for event in events if isinstance(event, CallQueued)}
    begun = "\n".join(arguments[event.call_id] for event in events if isinstance(event, CallStarted))
    assert [key for key in effects if key not in begun] == []


def _seconds_lost(events: Sequence[Durable], promised: Promised) -> float:
    """Return how old the oldest text was, when the kill came, that was shown and is not there."""
    kept: dict[str, int] = {}
    for event in events:
        if isinstance(event, PartEnded) and isinstance(event.part, TextPart):
            kept[event.part.id] = len(event.part.text)
    missing = [at for part, length, at in promised.texts if length > kept.get(part, 0)]
    return promised.killed_at - min(missing) if missing else 0.0


async def _check_lists(store: SqliteStore, session: engine.Session) -> None:
    rows = {row.id: row for row in await store.list_sessions(SessionQuery(limit=1_000))}
    row, state = rows[session.id], session.state
    found = (row.seq, row.turns, row.status, row.usage.total, row.messages)
    events = session.events()
    said = sum(isinstance(event, InputPromoted) or (isinstance(event, StepEnded) and event.kept) for event in events)
    assert found == (state.seq, state.turns, "idle", state.usage.total, said)
    assert session.id in {hit.session.id for hit in await store.search(NEXT)}
