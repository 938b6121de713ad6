"""A fork at any message: what stood there when it came, and nothing that was taken back."""

from __future__ import annotations

import hypothesis
import pytest

from engine.core.errors import JournalCorrupt, MessageNotFound
from engine.core.events import Durable
from engine.core.messages import AssistantMessage, Message, UserMessage
from engine.journal.fold import fold
from engine.session.stored_sessions import forked
from tests.export.histories import is_whole, journal_of, journals, transcripts_of
from tests.store.journals import A, session


def ids(messages: tuple[Message, ...]) -> list[str]:
    return [message.id for message in messages]


@hypothesis.given(events=journals())
def test_fork_without_message_has_the_current_transcript(events: list[Durable]) -> None:
    assert forked(events) == fold(events).transcript[:]


@hypothesis.given(events=journals())
def test_fork_restores_the_transcript_at_a_message(events: list[Durable]) -> None:
    transcripts = list(transcripts_of(events))
    for message_id in {message.id for transcript in transcripts for message in transcript}:
        if any(
            isinstance(m, UserMessage) and m.id == message_id and m.text == "not to be said"
            for transcript in transcripts
            for m in transcript
        ):
            continue
        then = next(t for t in transcripts if any(message.id == message_id for message in t))
        found = forked(events, message_id)
        assert found == then[: len(found)]
        # Of a step, both of its messages are at the end.
        ends = [message.id for message in found[-2:]]
        assert message_id == ends[-1] or (message_id == ends[0] and isinstance(list(found)[-2], AssistantMessage))
        assert is_whole(found)


@hypothesis.given(events=journals())
def test_blocked_prompt_is_in_no_fork(events: list[Durable]) -> None:
    for transcript in transcripts_of(events):
        for message in transcript:
            if isinstance(message, UserMessage) and message.text == "not to be said":
                with pytest.raises(MessageNotFound):
                    forked(events, message.id)


def test_calls_stay_with_their_results() -> None:
    events = session(A, ("look", "I looked"), steps=2)
    whole = ["u1", "m1.1", "m1.1.results"]
    assert ids(forked(events, "m1.1")) == whole
    assert ids(forked(events, "m1.1.results")) == whole
    assert ids(forked(events, "u1")) == ["u1"]
    assert ids(forked(events, "m1.2")) == [*whole, "m1.2"]


def test_fork_before_a_compaction() -> None:
    events = journal_of(["turn", "turn", "compact", "turn"])
    assert ids(forked(events)) == ["sum4", "u3", "m3.1", "u5", "m5.1"]
    assert ids(forked(events, "m2.1")) == ["u2", "m2.1"]
    assert ids(forked(events, "m3.1")) == ["u2", "m2.1", "u3", "m3.1"]
    assert ids(forked(events, "sum4")) == ["sum4"]


def test_fork_at_a_message_of_an_undone_turn() -> None:
    events = journal_of(["turn", "turn", "undo", "turn"])
    assert ids(forked(events)) == ["u2", "m2.1", "u5", "m5.1"]
    assert ids(forked(events, "m3.1")) == ["u2", "m2.1", "u3", "m3.1"]


def test_unknown_message_is_reported() -> None:
    with pytest.raises(MessageNotFound, match="session ses_a never had a message 'nonsense'"):
        forked(session(A, ("hello", "hi")), "nonsense")


def test_inconsistent_events_are_reported() -> None:
    with pytest.raises(JournalCorrupt):
        forked(session(A, ("hello", "hi"))[::2])
