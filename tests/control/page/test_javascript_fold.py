"""The fold in JavaScript: from the same events the same state as in Python, and the same refusals."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Iterable
from typing import Any, cast, get_args

import attrs
import hypothesis
import pytest
from hypothesis import strategies as st

from engine.core.errors import JournalCorrupt
from engine.core.events import (
    DURABLE_TYPES,
    LIVE_TYPES,
    ContextChanged,
    Durable,
    Live,
    PartStarted,
    SessionCreated,
    SessionTitled,
    SharedContext,
    StepEnded,
    StepStarted,
    TextDelta,
    TurnStarted,
)
from engine.core.ids import CallId, MessageId, PartId, SessionId, TurnId
from engine.core.messages import Usage
from engine.journal.codec import decode_event, encode_event, encode_state, encode_status
from engine.journal.cursors import follow
from engine.journal.fold import apply
from engine.journal.state import Resync, SessionState
from engine.testing.harness import Scenario, play
from engine.testing.strategies import scenarios
from tests.support.javascript import answers, needs_node
from tests.support.scribe import Scribe, Wall, new_journal
from tests.support.values import values_of

pytestmark = [needs_node, pytest.mark.os]

Event = Durable | Live
Journal = list[str]


def written(seed: int, moves: int) -> list[Event]:
    """What a reader sees of a session into which a scribe has written."""
    wall = Wall()
    scribe = Scribe(new_journal(wall=wall, ring=10_000), wall)
    cursor = follow(scribe.journal, 0)
    draw = random.Random(seed).randrange
    seen: list[Event] = []
    for _ in range(moves):
        scribe.move(draw)
        while (entry := cursor.try_next()) is not None:
            seen.append(cast("Event", entry))
    return seen


def texts(events: Iterable[Event]) -> Journal:
    return [encode_event(event) for event in events]


def in_python(journal: Journal) -> dict[str, Any]:
    """Return what the script of the tests says, by the engine's own fold."""
    state, refused = SessionState(), list[int]()
    for index, text in enumerate(journal):
        try:
            state = apply(state, decode_event(text))
        except JournalCorrupt:
            refused.append(index)
    answer = f'{{"state": {encode_state(state)}, "status": {encode_status(state.status)}, "refused": {refused}}}'
    found: dict[str, Any] = json.loads(answer, parse_int=float)
    del found["status"]["v"]
    return found


def check(journals: list[Journal]) -> None:
    folded = answers("fold_states.mjs", [f"[{','.join(journal)}]" for journal in journals])
    for journal, answer in zip(journals, folded, strict=True):
        assert answer == in_python(journal)


def test_written_journals_fold_alike(is_full: bool) -> None:
    journals = [written(seed, 20 + 5 * seed % 400) for seed in range(600 if is_full else 60)]
    seen = {type(event) for journal in journals for event in journal}
    assert seen == {*DURABLE_TYPES, *LIVE_TYPES}, "the scribe writes no such event"
    check([texts(journal) for journal in journals])


def test_prefixes_fold_alike() -> None:
    journal = texts(written(7, 120))
    check([journal[:length] for length in range(len(journal))])


def test_damaged_journals_are_refused_alike(is_full: bool) -> None:
    journals: list[Journal] = []
    for seed in range(600 if is_full else 80):
        chance = random.Random(seed)
        # Without numbers, or the first gap would be the only thing that is looked at.
        events = [attrs.evolve(event, seq=None) for event in written(seed, 150)]
        for _ in range(chance.randint(1, 12)):
            place, other = chance.randrange(len(events)), chance.randrange(len(events))
            match chance.randrange(4):
                case 0:
                    del events[place]
                case 1:
                    events.insert(place, events[other])
                case 2:
                    events[place], events[other] = events[other], events[place]
                case _:
                    other_journal = written(seed + 1, 150)
                    events.insert(place, attrs.evolve(chance.choice(other_journal), seq=None))
        journals.append(texts(events))
    check(journals)


def test_gaps_in_numbers_are_refused_alike() -> None:
    events = texts(written(3, 60))
    check([[*events[:gap], *events[gap + 1 :]] for gap in range(len(events))])


def small(value: Any) -> Any:
    """Return JSON with whole numbers that are exact in both languages."""
    match value:
        case bool() | str() | float() | None:
            return value
        case int():
            return abs(value) % 1000
        case list():
            return [small(item) for item in value]
        case _:
            return {name: small(item) if name != "v" else item for name, item in value.items()}


def test_values_of_any_kind_fold_alike(is_full: bool) -> None:
    """Lone surrogates, control characters, infinite costs."""
    journals: list[Journal] = []
    drawn = st.sampled_from(get_args(Durable)).flatmap(values_of)

    @hypothesis.given(seed=st.integers(0, 2**16), foreign=st.lists(drawn, min_size=1, max_size=8))
    @hypothesis.settings(max_examples=1000 if is_full else 100)
    def collect(seed: int, foreign: list[Event]) -> None:
        chance = random.Random(seed)
        journal = texts(attrs.evolve(event, seq=None) for event in written(seed, 40))
        for event in foreign:
            place = chance.randrange(1, len(journal))
            near = decode_event(journal[place])
            fitting = attrs.evolve(event, session_id=near.session_id, turn_id=near.turn_id, seq=None)
            journal.insert(place, json.dumps(small(json.loads(encode_event(fitting)))))
        journals.append(journal)

    collect()
    check(journals)


@pytest.mark.slow
def test_journals_of_generated_turns_fold_alike(is_full: bool) -> None:
    journals: list[Journal] = []

    @hypothesis.given(scenario=scenarios(), seed=st.integers(0, 2**16))
    @hypothesis.settings(max_examples=100 if is_full else 12)
    def collect(scenario: Scenario, seed: int) -> None:
        by_session: dict[SessionId, Journal] = {}
        for event in play(scenario, seed=seed).seen:
            assert not isinstance(event, Resync)
            by_session.setdefault(event.session_id, []).append(encode_event(event))
        journals.extend(by_session.values())

    collect()
    check(journals)


S = SessionId("s")
T = TurnId("t")
P = PartId("p")
M = MessageId("m")
CREATED = SessionCreated(session_id=S, context=SharedContext(cwd="/"), model="m", forked_from=SessionId("other"))
STEP = (
    TurnStarted(session_id=S, turn_id=T),
    StepStarted(session_id=S, turn_id=T, step=1, attempt=1, message_id=M, model="m"),
)


def delta(offset: int, text: str) -> TextDelta:
    return TextDelta(session_id=S, turn_id=T, message_id=M, part_id=P, after=3, offset=offset, text=text)


def test_text_beyond_the_first_plane_counts_as_python_does() -> None:
    deltas = [(0, "a😀"), (3, "a gap"), (2, "b"), (1, "😀"), (3, "👩‍👧é"), (7, "\ud800"), (8, "x"), (2, "BÉ")]
    events: list[Event] = [
        *(CREATED, *STEP, PartStarted(session_id=S, turn_id=T, message_id=M, part_id=P, kind="text")),
        *(delta(offset, text) for offset, text in deltas),
    ]
    check([texts(events[:length]) for length in range(len(events) + 1)])


def test_numbers_and_names_compare_as_in_python() -> None:
    values = (("\uffff", "1"), ("😀", "2"), ("", "3"), ("a", "4"), ("ab", "5"))
    usage = Usage(cache_read=3, output=2)
    titles = (SessionTitled(title="t", by="user", cost=cost) for cost in (1e308, math.inf, 0.1, -math.inf))
    step_ended = StepEnded(
        turn_id=T, step=1, message_id=M, results_id=MessageId("r"), finish="stop", usage=usage, cost=0.1, kept=True
    )
    changed = ContextChanged(call_id=CallId("c"), cwd="/", values=values, removed=())
    events: list[Event] = [CREATED, changed, *STEP, step_ended, *titles]
    journal = texts(attrs.evolve(event, session_id=S) for event in events)
    check([journal[:length] for length in range(len(journal) + 1)])
