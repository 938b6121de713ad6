"""Positions as text: they come back as they were, fit into a header, and nothing that is sent back raises."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.events import SessionCreated, SharedContext
from engine.core.ids import PartId, SessionId
from engine.journal.cursors import follow
from engine.journal.position import MAX_CHARS, Position, decode_position, encode_position
from engine.journal.state import Resync
from tests.support.scribe import new_journal

SAFE = re.compile(r"[A-Za-z0-9_-]+")
# Also what no id is made of: half a character, a NUL, JSON's own signs.
names = st.text(st.characters(), max_size=30)
numbers = st.integers(0, 2**53)
positions = st.builds(
    Position,
    session_id=names.map(SessionId),
    epoch=names,
    seq=numbers,
    offsets=st.dictionaries(names.map(PartId), numbers, max_size=5).map(lambda found: tuple(found.items())),
    children=st.dictionaries(names.map(SessionId), numbers, max_size=5).map(lambda found: tuple(found.items())),
    endings=st.lists(names.map(SessionId), max_size=3).map(tuple),
)


def resyncs(text: str) -> bool:
    """Whether a cursor from there yields one `Resync`, and nothing else of what has happened."""
    journal = new_journal(session_id="s")
    journal.append(SessionCreated(context=SharedContext(cwd="/"), model="m"))
    taken = list(iter(follow(journal, decode_position(text)).try_next, None))
    return [type(event) for event in taken] == [Resync]


@given(position=positions)
def test_position_survives_as_short_safe_text(position: Position) -> None:
    text = encode_position(position)
    assert SAFE.fullmatch(text)
    assert len(text) <= MAX_CHARS
    # Characters beyond ASCII take six: one of the longest may have too much for the text.
    assert decode_position(text) == position or len(repr(position)) > 400


@given(text=st.text() | st.text("1Aab_-=", max_size=50) | positions.map(encode_position).map(lambda text: text[:-1]))
def test_any_text_is_a_position(text: str) -> None:
    assert isinstance(decode_position(text), Position)


@given(position=positions, at=st.integers(0, MAX_CHARS), char=st.characters())
def test_damaged_position_resyncs(position: Position, at: int, char: str) -> None:
    text = encode_position(position)
    at %= len(text)
    damaged = text[:at] + char + text[at + 1 :]
    decoded = decode_position(damaged)
    # The last character has bits that mean nothing.
    assert damaged == text or decoded == position or resyncs(damaged)


@pytest.mark.parametrize(
    "text", ["", "0", "1", "1====", "not a position", "9" * 1_000_000, "1" + "A" * 4_000, "\ud800"]
)
def test_foreign_text_resyncs(text: str) -> None:
    assert resyncs(text)


def test_position_of_another_session_resyncs() -> None:
    own, other = new_journal(session_id="s"), new_journal(session_id="t")
    for journal, is_foreign in ((own, False), (other, True)):
        position = decode_position(encode_position(follow(own).position))
        begin = follow(journal, position).try_next()
        assert isinstance(begin, Resync) is is_foreign


def test_too_many_open_parts_fall_back_to_a_state() -> None:
    def text(count: int) -> str:
        parts = tuple((PartId(f"part_46e8864764ae{number:06}"), 1_000) for number in range(count))
        return encode_position(Position(session_id=SessionId("s"), epoch="e", seq=0, offsets=parts))

    assert len(decode_position(text(80)).offsets) == 80
    assert len(text(80)) > 3_000
    assert len(text(1_000)) < 100
    assert resyncs(text(1_000))
