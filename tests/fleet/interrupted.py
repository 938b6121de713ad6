"""A turn of several steps that is cut off anywhere, and gone on with by another engine: in memory, on Trio's clock."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

import engine
from engine.core.events import CallStarted, Durable
from engine.core.ids import SessionId
from engine.core.llm_types import ModelRequest
from engine.core.messages import ResultsMessage
from engine.core.settings import Settings
from engine.fleet.recovery import take_over
from engine.journal.interrupted_turn import Takeover
from engine.permission.allow_all import AllowAll
from engine.store.memory import MemoryStore
from engine.testing.fakes import CountingIds
from engine.testing.script import Answer, done, text
from tests.support.parked import FINE, Home, asks, do, look

AUTO = Settings(resume="auto")
SESSION = SessionId("ses_1")
DEAD = Takeover(host="elsewhere", pid=7)


def answer(request: ModelRequest) -> Answer:
    """Look at two things and do two, step by step; each call has a key of its own."""
    results = sum(len(m.results) for m in request.transcript if isinstance(m, ResultsMessage))
    if results < 2:
        return asks(*look(f"look_{results}", 0.1), *do(f"first_{results}", 0.2), *look(f"see_{results}"))
    if results < 6:
        return asks(*do(f"then_{results}", 0.1), *do(f"last_{results}"))
    return FINE if results % 2 else [*text("That is all.", pieces=2), *done()]


def home_of(events: Sequence[Durable], ids: CountingIds | None = None, settings: Settings = AUTO) -> Home:
    """Return a place whose store holds those events."""
    home = Home([answer] * 40, settings=settings, approver=AllowAll(), ids=CountingIds() if ids is None else ids)
    for event in events:
        home.store.put(event)
    return home


async def whole_turn(settings: Settings = AUTO) -> tuple[Home, list[Durable]]:
    """Run the turn to its end; return where, and its events."""
    home = home_of((), settings=settings)
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt", session_id=SESSION)
        await eng.start_turn(session, "go").wait()
        events = list(session.events())
    return home, events


@attrs.define(eq=False)
class Recovered:
    """What an engine made of a session whose engine had died."""

    home: Home
    events: list[Durable]
    turn: engine.Turn | None
    problems: list[str]


def started(events: Sequence[Durable]) -> set[str]:
    """Return the calls that were recorded as started. (The key of each is its id.)"""
    return {event.call_id for event in events if isinstance(event, CallStarted)}


async def recovered(
    events: Sequence[Durable], ids: CountingIds, *, settings: Settings = AUTO, takeover: Takeover = DEAD
) -> Recovered:
    """Take the session over, and go on with its turn to the end."""
    home = home_of(events, ids, settings)
    turn: engine.Turn | None = None
    async with home.open() as eng:
        turn = await take_over(eng, SESSION, takeover)
        if turn is not None:
            await turn.wait()
        session = await eng.open_session(SESSION)
        after = list(session.events())
        found = list[str]() if session.state.turn is None else ["the turn is still open"]
    again = set(home.done) & started(events)
    found += [f"{key} was run again" for key in sorted(again)]
    return Recovered(home, after, turn, found)


def store_of(home: Home) -> MemoryStore:
    assert isinstance(home.store, MemoryStore)
    return home.store
