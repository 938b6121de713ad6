"""Messages: what they tell of themselves, usage that adds up, and a transcript that grows for nothing."""

from __future__ import annotations

import time

import attrs
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from engine.core.ids import CallId, MessageId, PartId
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    ImagePart,
    Message,
    ProviderPart,
    ReasoningPart,
    TextPart,
    Transcript,
    Usage,
    UserMessage,
)


def user(name: str) -> UserMessage:
    return UserMessage(id=MessageId(name), parts=(TextPart(id=PartId(f"{name}.p"), text=f"text of {name}"),))


A, B, C, D = user("a"), user("b"), user("c"), user("d")


# -- values ---------------------------------------------------------------------------------------


def test_usage_adds_up() -> None:
    one = Usage(input=1, output=2, cache_read=3, cache_write=4, reasoning=1)
    assert one + one == Usage(input=2, output=4, cache_read=6, cache_write=8, reasoning=2)
    assert one + Usage() == one
    assert one.total == 10, "reasoning is a part of the output"


def test_user_text_is_the_recognisable_part() -> None:
    image = ImagePart(media_type="image/png", data="AA==")
    parts = (TextPart(id=PartId("1"), text="look: "), image, TextPart(id=PartId("2"), text="here"))
    message = UserMessage(id=MessageId("m"), parts=parts)
    assert message.text == "look: here"
    assert attrs.evolve(message, display="look").text == "look"
    assert attrs.evolve(message, display="").text == ""
    assert UserMessage(id=MessageId("m"), parts=()).text == ""


def test_assistant_message_has_text_and_calls() -> None:
    first = CallPart(id=PartId("3"), call_id=CallId("c1"), tool="a", arguments="{}")
    second = attrs.evolve(first, id=PartId("4"), call_id=CallId("c2"))
    message = AssistantMessage(
        id=MessageId("m"),
        parts=(
            ReasoningPart(id=PartId("1"), text="hm"),
            TextPart(id=PartId("2"), text="I will "),
            first,
            TextPart(id=PartId("5"), text="look"),
            second,
            ProviderPart(id=PartId("6"), kind="search", data="{}"),
        ),
        model="m",
    )
    assert (message.text, message.calls) == ("I will look", (first, second))


@pytest.mark.parametrize(("value", "name"), [(A, "id"), (A.parts[0], "text"), (Usage(), "input")])
def test_values_cannot_be_changed(value: object, name: str) -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        setattr(value, name, "other")


# -- the transcript ----------------------------------------------------------------------------------


def test_a_transcript_is_a_sequence() -> None:
    transcript = Transcript([A, B, C])
    assert list(transcript) == [A, B, C]
    assert (len(transcript), transcript[0], transcript[-1], transcript[-3]) == (3, A, C, A)
    assert (transcript[1:], transcript[::-1], transcript[-2:], transcript[5:]) == ((B, C), (C, B, A), (B, C), ())
    assert A in transcript
    assert D not in transcript
    assert transcript.index(B) == 1
    assert list(reversed(transcript)) == [C, B, A]
    assert not Transcript()


@pytest.mark.parametrize("index", [3, -4, 100])
def test_an_index_outside_of_it_is_an_error(index: int) -> None:
    transcript = Transcript([A, B, C])
    transcript.append(D)  # the list behind it is longer now
    with pytest.raises(IndexError):
        _ = transcript[index]


def test_appending_makes_another_transcript() -> None:
    one = Transcript([A])
    two = one.append(B, C)
    assert (list(one), list(two)) == ([A], [A, B, C])
    assert list(two.append()) == [A, B, C]


def test_a_second_branch_does_not_disturb_the_first() -> None:
    trunk = Transcript([A])
    left, right = trunk.append(B), trunk.append(C)
    longer = left.append(D)
    assert [list(each) for each in (trunk, left, right, longer)] == [[A], [A, B], [A, C], [A, B, D]]


def test_equal_transcripts_are_equal_however_they_came_about() -> None:
    trunk = Transcript([A])
    grown = trunk.append(B)
    trunk.append(C)
    assert grown == Transcript([A, B])
    assert hash(grown) == hash(Transcript([A, B]))
    assert trunk == Transcript([A])
    assert trunk != grown
    assert trunk != (A,)
    assert trunk != [A]


def test_source_list_may_change() -> None:
    messages: list[Message] = [A]
    transcript = Transcript(messages)
    messages.append(B)
    assert list(transcript) == [A]


def test_transcript_can_be_inspected() -> None:
    assert repr(Transcript([A])) == f"Transcript([{A!r}])"


def seconds_to_append(count: int) -> float:
    best = float("inf")
    for _ in range(5):
        transcript = Transcript()
        start = time.process_time()
        for _ in range(count):
            transcript = transcript.append(A)
        best = min(best, time.process_time() - start)
        assert len(transcript) == count
    return best


def test_append_cost_is_independent_of_length() -> None:
    assert seconds_to_append(20_000) < 40 * seconds_to_append(2_000)  # a copy each time would be 100 times


class Transcripts(RuleBasedStateMachine):
    """Any growth from any point of any branch: each version is what a tuple would be."""

    versions: Bundle[tuple[Transcript, tuple[Message, ...]]] = Bundle("versions")

    def __init__(self) -> None:
        super().__init__()
        self.all: list[tuple[Transcript, tuple[Message, ...]]] = []

    def _keep(self, transcript: Transcript, model: tuple[Message, ...]) -> tuple[Transcript, tuple[Message, ...]]:
        self.all.append((transcript, model))
        return self.all[-1]

    @rule(target=versions, messages=st.lists(st.sampled_from([A, B, C, D]), max_size=3))
    def begin(self, messages: list[Message]) -> tuple[Transcript, tuple[Message, ...]]:
        return self._keep(Transcript(messages), tuple(messages))

    @rule(target=versions, version=versions, messages=st.lists(st.sampled_from([A, B, C, D]), max_size=3))
    def append(
        self, version: tuple[Transcript, tuple[Message, ...]], messages: list[Message]
    ) -> tuple[Transcript, tuple[Message, ...]]:
        transcript, model = version
        return self._keep(transcript.append(*messages), (*model, *messages))

    @rule(target=versions, version=versions, start=st.integers(-4, 4), end=st.integers(-4, 8))
    def slice(
        self, version: tuple[Transcript, tuple[Message, ...]], start: int, end: int
    ) -> tuple[Transcript, tuple[Message, ...]]:
        transcript, model = version
        assert transcript[start:end] == model[start:end]
        return self._keep(Transcript(transcript[start:end]), model[start:end])

    @rule(one=versions, other=versions)
    def compare(
        self, one: tuple[Transcript, tuple[Message, ...]], other: tuple[Transcript, tuple[Message, ...]]
    ) -> None:
        assert (one[0] == other[0]) == (one[1] == other[1])

    @invariant()
    def every_version_is_as_it_was(self) -> None:
        for transcript, model in self.all:
            assert tuple(transcript) == model
            assert len(transcript) == len(model)


TestTranscripts = Transcripts.TestCase
