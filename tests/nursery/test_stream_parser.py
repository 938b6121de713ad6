"""The stream parser: interleaved blocks are kept apart, slips are put right and counted, splits don't matter."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.events import PartKind
from engine.core.ids import CallId, PartId
from engine.core.llm_types import (
    STREAM_EVENT_TYPES,
    Finished,
    Ping,
    ProviderItem,
    ReasoningChunk,
    ReasoningDone,
    ReasoningStarted,
    StreamEvent,
    TextChunk,
    TextDone,
    TextStarted,
    ToolCallChunk,
    ToolCallDone,
    ToolCallStarted,
    UsageReported,
)
from engine.core.messages import Usage
from engine.nursery.stream_parser import (
    CloseBlock,
    CloseCall,
    CloseItem,
    Command,
    Grow,
    OpenBlock,
    Restart,
    StreamParser,
)
from engine.testing.fakes import CountingIds
from tests.support.values import values


def parsed(events: Iterable[StreamEvent]) -> tuple[list[Command], StreamParser]:
    """Return all commands for *events*, the end of the stream included."""
    parser = StreamParser(CountingIds().new)
    return [*parser.feed(events), *parser.end()], parser


def opened(number: int, kind: PartKind = "text") -> OpenBlock:
    return OpenBlock(PartId(f"part_{number}"), kind)


def call_opened(number: int, tool: str = "read") -> OpenBlock:
    return OpenBlock(PartId(f"part_{number + 1}"), "call", CallId(f"call_{number}"), tool)


def grown(number: int, text: str) -> Grow:
    return Grow(PartId(f"part_{number}"), text)


def closed(
    number: int,
    kind: Literal["text", "reasoning"] = "text",
    *,
    signature: str | None = None,
    redacted: str | None = None,
) -> CloseBlock:
    return CloseBlock(part_id=PartId(f"part_{number}"), kind=kind, signature=signature, redacted=redacted)


def call_closed(number: int, provider_id: str = "x", tool: str = "read", *, complete: bool = True) -> CloseCall:
    return CloseCall(
        part_id=PartId(f"part_{number + 1}"),
        call_id=CallId(f"call_{number}"),
        tool=tool,
        provider_id=provider_id,
        complete=complete,
    )


# -- what a provider should do ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "commands"),
    [
        pytest.param([], [], id="nothing"),
        pytest.param([Ping()], [], id="a ping"),
        pytest.param(
            [TextStarted("a"), TextChunk("a", "he"), TextChunk("a", "llo"), TextDone("a")],
            [opened(1), grown(1, "he"), grown(1, "llo"), closed(1)],
            id="text",
        ),
        pytest.param(
            [TextStarted("a"), TextChunk("a", ""), TextDone("a")], [opened(1), closed(1)], id="an empty delta is none"
        ),
        pytest.param(
            [
                TextStarted("a"),
                TextStarted("b"),
                TextChunk("a", "1"),
                TextChunk("b", "2"),
                TextChunk("a", "3"),
                TextDone("b"),
                TextDone("a"),
            ],
            [opened(1), opened(2), grown(1, "1"), grown(2, "2"), grown(1, "3"), closed(2), closed(1)],
            id="two interleaved texts",
        ),
        pytest.param(
            [TextStarted("a"), ReasoningStarted("a"), TextChunk("a", "t"), ReasoningChunk("a", "r")],
            [opened(1), opened(2, "reasoning"), grown(1, "t"), grown(2, "r"), closed(1), closed(2, "reasoning")],
            id="one id for a text and a thought",
        ),
        pytest.param(
            [ReasoningStarted("r"), ReasoningChunk("r", "hm"), ReasoningDone("r", signature="sig")],
            [opened(1, "reasoning"), grown(1, "hm"), closed(1, "reasoning", signature="sig")],
            id="a signed thought",
        ),
        pytest.param(
            [ReasoningDone("r", redacted="###")],
            [opened(1, "reasoning"), closed(1, "reasoning", redacted="###")],
            id="a redacted thought has no start",
        ),
        pytest.param(
            [ToolCallStarted("x", "read"), ToolCallChunk("x", '{"a"'), ToolCallChunk("x", ":1}"), ToolCallDone("x")],
            [call_opened(1), grown(2, '{"a"'), grown(2, ":1}"), call_closed(1)],
            id="a call",
        ),
        pytest.param(
            [ToolCallDone("x", arguments="{}", tool="read")],
            [call_opened(1), grown(2, "{}"), call_closed(1)],
            id="a call that comes whole",
        ),
        pytest.param(
            [ToolCallStarted("x", "read"), ToolCallChunk("x", '{"a'), ToolCallDone("x", arguments='{"a":1}')],
            [call_opened(1), grown(2, '{"a'), grown(2, '":1}'), call_closed(1)],
            id="the end of a call brings the rest",
        ),
        pytest.param(
            [
                ToolCallStarted("x", "read"),
                ToolCallStarted("y", "write"),
                ToolCallChunk("y", "2"),
                ToolCallChunk("x", "1"),
                ToolCallDone("y"),
                ToolCallDone("x"),
            ],
            [
                call_opened(1),
                call_opened(3, "write"),
                grown(4, "2"),
                grown(2, "1"),
                call_closed(3, "y", "write"),
                call_closed(1),
            ],
            id="two interleaved calls",
        ),
        pytest.param(
            [ProviderItem("i", "web_search", '{"q":1}')],
            [opened(1, "provider"), CloseItem(part_id=PartId("part_1"), kind="web_search", data='{"q":1}')],
            id="an item of the provider's own",
        ),
        pytest.param(
            [TextChunk("a", "1"), TextDone("a"), TextStarted("a"), TextChunk("a", "2"), TextDone("a")],
            [opened(1), grown(1, "1"), closed(1), opened(2), grown(2, "2"), closed(2)],
            id="an id that is used again is another block",
        ),
    ],
)
def test_provider_events_become_commands(events: list[StreamEvent], commands: list[Command]) -> None:
    assert parsed(events)[0] == commands


def test_summary_of_the_whole_answer() -> None:
    events: list[StreamEvent] = [
        UsageReported(Usage(input=5)),
        UsageReported(Usage(input=5, output=7)),
        Finished("stop", raw="end_turn"),
    ]
    _, parser = parsed(events)
    assert (parser.finish, parser.finish_detail, parser.usage) == ("stop", "end_turn", Usage(input=5, output=7))
    assert parser.slips == {}
    assert parsed([Finished("refusal", raw="refusal", detail="not that")])[1].finish_detail == "not that"


def test_answer_without_end_has_no_finish_reason() -> None:
    _, parser = parsed([TextChunk("a", "cut")])
    assert parser.finish is None


# -- slips -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("events", "commands", "slips"),
    [
        pytest.param(
            [TextChunk("a", "1"), TextDone("a")],
            [opened(1), grown(1, "1"), closed(1)],
            {"delta_before_start": 1},
            id="text before its start",
        ),
        pytest.param(
            [ReasoningChunk("a", "1"), ReasoningDone("a")],
            [opened(1, "reasoning"), grown(1, "1"), closed(1, "reasoning")],
            {"delta_before_start": 1},
            id="a thought before its start",
        ),
        pytest.param(
            [ToolCallChunk("x", "{}"), ToolCallDone("x", tool="read")],
            [call_opened(1, ""), grown(2, "{}"), call_closed(1)],
            {"delta_before_start": 1},
            id="arguments before their call",
        ),
        pytest.param(
            [ToolCallDone("x", arguments="{}")],
            [call_opened(1, ""), grown(2, "{}"), call_closed(1, tool="")],
            {"delta_before_start": 1},
            id="a call without a name",
        ),
        pytest.param(
            [TextStarted("a"), TextChunk("a", "1"), TextStarted("a"), TextChunk("a", "2"), TextDone("a")],
            [opened(1), grown(1, "1"), grown(1, "2"), closed(1)],
            {"duplicate_start": 1},
            id="a second start of a text",
        ),
        pytest.param(
            [ReasoningStarted("a"), ReasoningStarted("a"), ReasoningDone("a")],
            [opened(1, "reasoning"), closed(1, "reasoning")],
            {"duplicate_start": 1},
            id="a second start of a thought",
        ),
        pytest.param(
            [ToolCallStarted("x", "read"), ToolCallStarted("x", "write"), ToolCallDone("x")],
            [call_opened(1), call_closed(1)],
            {"duplicate_start": 1},
            id="a second start of a call",
        ),
        pytest.param(
            [ToolCallStarted("x", ""), ToolCallStarted("x", "read"), ToolCallDone("x")],
            [call_opened(1, ""), call_closed(1)],
            {"duplicate_start": 1},
            id="the name comes with the second start",
        ),
        pytest.param([TextDone("a")], [], {"end_without_start": 1}, id="an end of nothing"),
        pytest.param(
            [TextChunk("a", "1"), TextDone("a"), TextDone("a")],
            [opened(1), grown(1, "1"), closed(1)],
            {"delta_before_start": 1, "end_without_start": 1},
            id="a second end of a text",
        ),
        pytest.param(
            [TextStarted("a"), TextChunk("a", "drfat"), TextDone("a", "draft")],
            [opened(1), grown(1, "drfat"), Restart(PartId("part_1")), grown(1, "draft"), closed(1)],
            {"text_replaced": 1},
            id="the text at the end counts",
        ),
        pytest.param(
            [TextStarted("a"), TextChunk("a", "no"), TextDone("a", "")],
            [opened(1), grown(1, "no"), Restart(PartId("part_1")), closed(1)],
            {"text_replaced": 1},
            id="no text at the end counts too",
        ),
        pytest.param(
            [ToolCallDone("x", arguments="{}", tool="read")] * 2,
            [call_opened(1), grown(2, "{}"), call_closed(1)],
            {"after_end": 1},
            id="a second end of a call is no second call",
        ),
        pytest.param(
            [ToolCallStarted("x", "read"), ToolCallDone("x", arguments="{}"), ToolCallChunk("x", "late")],
            [call_opened(1), grown(2, "{}"), call_closed(1)],
            {"after_end": 1},
            id="arguments after their end",
        ),
        pytest.param(
            [ToolCallStarted("x", "read"), ToolCallDone("x", tool="write")],
            [call_opened(1), call_closed(1)],
            {"tool_name_changed": 1},
            id="the first name of a call counts",
        ),
        pytest.param(
            [ToolCallStarted("x", "read"), ToolCallChunk("x", '{"a": 1}'), ToolCallDone("x", arguments='{"b":2}')],
            [
                call_opened(1),
                grown(2, '{"a": 1}'),
                Restart(PartId("part_2")),
                grown(2, '{"b":2}'),
                call_closed(1),
            ],
            {"arguments_replaced": 1},
            id="the arguments at the end count",
        ),
        pytest.param(
            [ToolCallStarted("x", "read"), ToolCallChunk("x", '{"a": 1}'), ToolCallDone("x", arguments="")],
            [call_opened(1), grown(2, '{"a": 1}'), Restart(PartId("part_2")), call_closed(1)],
            {"arguments_replaced": 1},
            id="no arguments at the end count too",
        ),
        pytest.param(
            [Finished("stop"), TextStarted("a"), TextChunk("a", "more")],
            [opened(1), grown(1, "more"), closed(1)],
            {"block_after_finish": 1},
            id="a block after the finish",
        ),
        pytest.param([Finished("stop"), Finished("length")], [], {"second_finish": 1}, id="a second finish"),
        pytest.param(
            [TextStarted("a"), ReasoningStarted("r"), ToolCallStarted("x", "read"), ToolCallChunk("x", '{"a')],
            [
                opened(1),
                opened(2, "reasoning"),
                call_opened(3),
                grown(4, '{"a'),
                closed(1),
                closed(2, "reasoning"),
                call_closed(3, complete=False),
            ],
            {},
            id="what is open at the end is closed, and a call was cut off",
        ),
    ],
)
def test_a_slip_is_put_right_and_counted(
    events: list[StreamEvent], commands: list[Command], slips: dict[str, int]
) -> None:
    told, parser = parsed(events)
    assert told == commands
    assert parser.slips == slips


def test_the_first_finish_counts() -> None:
    _, parser = parsed([Finished("stop", detail="1"), Finished("length", detail="2")])
    assert (parser.finish, parser.finish_detail) == ("stop", "1")


# -- whatever comes --------------------------------------------------------------------------------


@attrs.define
class Shown:
    """A part as a client sees it, made from the commands; it complains at what can't follow."""

    kind: PartKind
    text: str = ""
    end: CloseBlock | CloseCall | CloseItem | None = None


def play(commands: Sequence[Command]) -> dict[PartId, Shown]:
    parts: dict[PartId, Shown] = {}
    calls: set[CallId] = set()
    for command in commands:
        if isinstance(command, OpenBlock):
            assert command.part_id not in parts
            assert (command.call_id is not None) == (command.kind == "call")
            if command.call_id is not None:
                assert command.call_id not in calls
                calls.add(command.call_id)
            parts[command.part_id] = Shown(command.kind)
            continue
        part = parts[command.part_id]
        assert part.end is None, "something came after the end of a part"
        match command:
            case Grow():
                assert command.text
                part.text += command.text
            case Restart():
                part.text = ""
            case CloseBlock():
                assert command.kind == part.kind
                part.end = command
            case CloseCall():
                assert part.kind == "call"
                part.end = command
            case CloseItem():
                assert part.kind == "provider"
                part.end = command
    assert all(part.end is not None for part in parts.values())
    return parts


# Few ids, so that they clash; any event at any time, so that every slip is there.
IDS = st.sampled_from(["a", "b"])
WORDS = st.sampled_from(["", "x", "{}", '{"a":1}', "words"])
ANY_EVENT: st.SearchStrategy[StreamEvent] = st.one_of(
    [values(kind) for kind in STREAM_EVENT_TYPES]
    + [
        st.builds(kind, IDS, WORDS)
        for kind in (TextChunk, ReasoningChunk, ToolCallChunk, ToolCallStarted, ToolCallDone)
    ]
    + [st.builds(kind, IDS) for kind in (TextStarted, TextDone, ReasoningStarted, ReasoningDone, ToolCallDone)]
)
ANYTHING = st.lists(ANY_EVENT, max_size=30)


@given(events=ANYTHING)
def test_any_input_makes_whole_parts(events: list[StreamEvent]) -> None:
    play(parsed(events)[0])


HALVES = re.compile("[\ud800-\udfff]")
# What two halves may become, or one alone.
MADE_OF_HALVES = re.compile("[\ud800-\udfff\ufffd\U00010000-\U0010ffff]")


@given(events=ANYTHING)
def test_no_text_is_lost(events: list[StreamEvent]) -> None:
    """Every character of text and of thinking is in a part of its kind, in order for each id. (A half is none.)"""
    # An end that brings the whole text replaces what was sent; that is a case of its own.
    events = [TextDone(event.id) if isinstance(event, TextDone) else event for event in events]
    parts = play(parsed(events)[0]).values()
    for kind, chunk in (("text", TextChunk), ("reasoning", ReasoningChunk)):
        sent = "".join(event.text for event in events if isinstance(event, chunk))
        told = "".join(part.text for part in parts if part.kind == kind)
        if HALVES.search(sent):
            sent, told = MADE_OF_HALVES.sub("", sent), MADE_OF_HALVES.sub("", told)
        assert sorted(told) == sorted(sent)


@given(events=ANYTHING, cuts=st.lists(st.integers(0, 30)))
def test_any_split_into_batches_gives_the_same(events: list[StreamEvent], cuts: list[int]) -> None:
    whole, one = parsed(events)
    parser = StreamParser(CountingIds().new)
    edges = [0, *sorted(cuts), len(events)]
    split = [command for start, end in itertools.pairwise(edges) for command in parser.feed(events[start:end])]
    split += parser.end()
    assert split == whole
    assert (parser.slips, parser.finish, parser.usage) == (one.slips, one.finish, one.usage)


@given(events=ANYTHING)
def test_any_split_into_characters_gives_the_same_parts(events: list[StreamEvent]) -> None:
    finer: list[StreamEvent] = []
    for event in events:
        if isinstance(event, (TextChunk, ReasoningChunk, ToolCallChunk)) and event.text:
            finer += [attrs.evolve(event, text=character) for character in event.text]
        else:
            finer.append(event)
    assert play(parsed(finer)[0]) == play(parsed(events)[0])


@attrs.frozen
class Block:
    """A block as a careful provider sends it."""

    kind: Literal["text", "reasoning", "call"]
    chunks: tuple[str, ...]

    def events(self, name: str) -> list[StreamEvent]:
        match self.kind:
            case "text":
                return [TextStarted(name), *(TextChunk(name, text) for text in self.chunks), TextDone(name)]
            case "reasoning":
                thoughts = (ReasoningChunk(name, text) for text in self.chunks)
                return [ReasoningStarted(name), *thoughts, ReasoningDone(name, signature=name)]
            case "call":
                arguments = (ToolCallChunk(name, text) for text in self.chunks)
                return [ToolCallStarted(name, f"tool {name}"), *arguments, ToolCallDone(name)]


BLOCKS = st.lists(
    st.builds(
        Block,
        st.sampled_from(["text", "reasoning", "call"]),
        st.lists(st.text("abc", min_size=1, max_size=3), max_size=4).map(tuple),
    ),
    max_size=5,
)


@given(blocks=BLOCKS, data=st.data())
def test_interleaved_blocks_are_kept_apart(blocks: list[Block], data: st.DataObject) -> None:
    waiting = [block.events(str(number)) for number, block in enumerate(blocks)]
    sent: list[StreamEvent] = []
    order: list[int] = []  # in which they opened
    while any(waiting):
        number = data.draw(st.sampled_from([number for number, events in enumerate(waiting) if events]))
        if number not in order:
            order.append(number)
        sent.append(waiting[number].pop(0))
    commands, parser = parsed(sent)
    assert parser.slips == {}
    shown = [(part.kind, part.text, part.end) for part in play(commands).values()]
    assert [(kind, text) for kind, text, _ in shown] == [
        (blocks[number].kind, "".join(blocks[number].chunks)) for number in order
    ]
    for number, (_, _, end) in zip(order, shown, strict=True):
        if isinstance(end, CloseCall):
            assert (end.provider_id, end.tool, end.complete) == (str(number), f"tool {number}", True)
        elif isinstance(end, CloseBlock) and end.kind == "reasoning":
            assert end.signature == str(number)


# -- characters that come in two halves ---------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["text", "reasoning", "call"])
@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        (["a\ud83d", "\ude00b"], "a😀b"),
        (["\ud83d", "", "\ude00"], "😀"),
        (["\ud83d", "\ud83d", "\ude00"], "\ufffd😀"),
        (["a\ud83d"], "a\ufffd"),
        (["\ud83d", "x"], "\ufffdx"),
        (["\ud83dx"], "\ufffdx"),
        (["\ud83d", "\ude00\ude00"], "😀\ude00"),
    ],
)
def test_a_character_cut_in_two_is_one_again(kind: str, pieces: list[str], whole: str) -> None:
    blocks: dict[str, tuple[StreamEvent, Callable[[str], StreamEvent], StreamEvent]] = {
        "text": (TextStarted("1"), partial(TextChunk, "1"), TextDone("1")),
        "reasoning": (ReasoningStarted("1"), partial(ReasoningChunk, "1"), ReasoningDone("1")),
        "call": (ToolCallStarted("1", "t"), partial(ToolCallChunk, "1"), ToolCallDone("1")),
    }
    start, chunk, end = blocks[kind]
    for last in ((end,), ()):
        commands, _ = parsed([start, *(chunk(piece) for piece in pieces), *last])
        assert "".join(command.text for command in commands if isinstance(command, Grow)) == whole
