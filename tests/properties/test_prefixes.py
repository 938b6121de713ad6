"""A transcript that is repaired on load is a valid request for every wire format, whatever state its journal was cut in."""

from __future__ import annotations

import random
from collections.abc import Sequence

import hypothesis
import pytest
from hypothesis import strategies as st

from engine.core.events import (
    DURABLE_TYPES,
    Durable,
    HistoryReplaced,
    InputAdmitted,
    InputPromoted,
    LoopContinued,
    PartEnded,
    StepEnded,
    TurnStarted,
)
from engine.core.ids import InputId, MessageId, PartId, TurnId
from engine.core.llm_types import ModelRequest
from engine.core.messages import CallPart, TextPart, Transcript, UserMessage
from engine.journal.closing_events import closing_events
from engine.journal.fold import apply, fold
from engine.journal.log import TurnJournal
from engine.journal.state import SessionState
from engine.nursery.parkable import only_waits
from engine.providers.models.quirks_lookup import quirks_of
from tests.conftest import CountRuns
from tests.properties.test_encodings import READ, SPOKEN, check, encode, hosts_of, model_of
from tests.support.scribe import Scribe, Wall, new_journal

pytestmark = pytest.mark.slow

# A scribe begins turns without a word; an engine does not.
BEGIN = UserMessage(id=MessageId("begin"), parts=(TextPart(id=PartId("begin"), text="begin"),))


def history(seed: int, moves: int) -> Sequence[Durable]:
    """A journal such as an engine may be killed in."""
    wall = Wall()
    scribe = Scribe(new_journal(wall=wall), wall, whims=False)
    draw = random.Random(seed).randrange
    for _ in range(moves):
        scribe.move(draw)
    return scribe.journal.events()


def next_request(events: Sequence[Durable], *, parked: bool) -> Transcript:
    """Open a session as an engine does, from what a store has of it, and say something."""
    journal = new_journal()
    journal.restore(events)
    open_turn = journal.state.turn
    waits = only_waits(journal.state, lambda _: True)
    for event in closing_events(journal.state, MessageId("results"), superseded=parked and waits):
        journal.append(event, turn_id=None if open_turn is None else open_turn.turn_id)
    turn = TurnJournal(journal, TurnId("next"))
    turn.append(TurnStarted())
    said = UserMessage(id=MessageId("next"), parts=(TextPart(id=PartId("next"), text="and now?"),))
    turn.append(InputAdmitted(input_id=InputId("next"), mode="prompt", message=said))
    turn.append(InputPromoted(input_id=InputId("next")))
    assert fold(journal.events()) == journal.state
    return journal.state.transcript


@pytest.mark.parametrize("wire", SPOKEN)
@hypothesis.settings(max_examples=25)
@hypothesis.given(seed=st.integers(0, 2**32), moves=st.integers(1, 150), parked=st.booleans())
def test_every_prefix_is_a_valid_request(wire: str, seed: int, moves: int, parked: bool, count_runs: CountRuns) -> None:
    host = hosts_of(wire)[seed % len(hosts_of(wire))]
    quirks = quirks_of(host, host.example)
    events = history(seed, moves)
    before = None
    for length in range(1, len(events) + 1):
        transcript = Transcript((BEGIN, *next_request(events[:length], parked=parked)))
        if transcript[:] == before:
            continue
        before = transcript[:]
        request = ModelRequest(
            model=model_of(host), system="be brief", transcript=transcript, tools=(READ,), max_output=1_000
        )
        turns = check(wire, encode(host, quirks, request), quirks, request)
        assert turns[-1].role == "user"
    count_runs(len(events), "journals cut short")


def test_the_histories_have_what_they_are_to_try() -> None:
    """They end in the middle of everything, and there are calls in them."""
    events = [event for seed in range(60) for event in history(seed, 150)]
    kinds = {type(event).__name__ for event in events}
    assert kinds == {kind.__name__ for kind in DURABLE_TYPES}
    assert {event.kind for event in events if isinstance(event, HistoryReplaced)} >= {"compact", "restore", "prune"}
    assert {"provider_pause", "signature_retry"} <= {e.reason for e in events if isinstance(e, LoopContinued)}
    calls = [e.part for e in events if isinstance(e, PartEnded) and isinstance(e.part, CallPart)]
    assert {call.complete for call in calls} == {True, False}
    assert any(isinstance(event, StepEnded) and event.kept for event in events)
    waiting = 0
    for seed in range(60):
        written, state = history(seed, 150), SessionState()
        for event in written:
            state = apply(state, event)
            waiting += only_waits(state, lambda _: True)
    assert waiting > 10
