"""The JSON of events, messages and state: round trips, strictness, versions, and the very bytes."""

from __future__ import annotations

import contextlib
import json
import re
import sys
import time
import typing
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.errors import JournalCorrupt
from engine.core.events import (
    DURABLE_TYPES,
    LIVE_TYPES,
    CallStarted,
    Durable,
    Live,
    Notice,
    PartEnded,
    RetryScheduled,
    SharedContext,
    TextDelta,
    TurnEnded,
    TurnResult,
    TurnStarted,
)
from engine.core.ids import CallId, MessageId, PartId, RequestId, SessionId, TurnId
from engine.core.messages import (
    AssistantMessage,
    CallPart,
    CallResult,
    ImagePart,
    Message,
    ResultsMessage,
    Settlement,
    TextPart,
    UserMessage,
)
from engine.journal import codec
from engine.journal.codec import (
    Schema,
    Unknown,
    decode_event,
    decode_message,
    decode_received,
    decode_resync,
    decode_state,
    decode_status,
    encode_event,
    encode_message,
    encode_resync,
    encode_state,
    encode_status,
)
from engine.journal.json_converter import TAGS
from engine.journal.state import Busy, Idle, Resync, Retry, SessionState, Status, Waiting
from tests.support.values import samples, values, values_of

EVENT_TYPES: tuple[type[Durable | Live], ...] = (*DURABLE_TYPES, *LIVE_TYPES)
EVENTS: st.SearchStrategy[Durable | Live] = st.one_of([values(kind) for kind in EVENT_TYPES])
GOLDEN = Path(__file__).parents[1] / "support" / "events.v1.jsonl"


# -- round trips -----------------------------------------------------------------------


@settings(max_examples=5 * settings().max_examples)
@given(event=EVENTS)
def test_every_event_survives_a_round_trip(event: Durable | Live) -> None:
    text = encode_event(event)
    assert text.isascii()
    assert decode_event(text) == event
    assert decode_event(text.encode()) == event
    assert decode_received(text) == event
    assert encode_event(decode_event(text)) == text


DOCUMENTS: list[tuple[object, Callable[[typing.Any], str], Callable[[str], object]]] = [
    (Message, encode_message, decode_message),
    (Status, encode_status, decode_status),
    (SessionState, encode_state, decode_state),
    (Resync, encode_resync, decode_resync),
    (Resync, encode_resync, decode_received),
]


@pytest.mark.parametrize(("kind", "encode", "decode"), DOCUMENTS)
@given(data=st.data())
def test_every_other_document_survives_a_round_trip(
    kind: object, encode: Callable[[typing.Any], str], decode: Callable[[str], object], data: st.DataObject
) -> None:
    value = data.draw(values_of(kind))
    text = encode(value)
    assert text.isascii()
    assert decode(text) == value
    assert encode(decode(text)) == text


@pytest.mark.parametrize(
    "text",
    [
        "\ud800",
        "\udfff\ud800",
        "a\x00b\x1b[0m\x7f",
        "\u2028\u2029\ufeff\uffff",
        "\r\n\t",
        '"\\/',
        "😀",
        "\N{RIGHT-TO-LEFT OVERRIDE}",
    ],
)
def test_any_text_survives(text: str) -> None:
    message = UserMessage(id=MessageId(text), parts=(TextPart(id=PartId(text), text=text),), display=text)
    assert decode_message(encode_message(message)) == message


def test_surrogate_pair_becomes_its_character() -> None:
    split = TextPart(id=PartId("p"), text="\ud83d" + "\ude00")
    message = UserMessage(id=MessageId("m"), parts=(split,))
    assert decode_message(encode_message(message)).text == "😀"  # type: ignore[union-attr]  # it is a user's


def test_floats_that_json_lacks_survive_as_strings() -> None:
    event = RetryScheduled(attempt=1, message="", next_at=float("inf"), time=float("-inf"))
    text = encode_event(event)
    assert '"time":"-Infinity"' in text
    assert '"next_at":"Infinity"' in text
    assert decode_event(text) == event
    ended = encode_event(TurnEnded(result=TurnResult(stop_reason="completed", cost=float("nan"))))
    assert '"cost":"NaN"' in ended
    assert encode_event(decode_event(ended)) == ended


def test_equal_values_give_equal_bytes() -> None:
    assert encode_event(TurnStarted(time=1)) == encode_event(TurnStarted(time=1.0))


# -- the shape ---------------------------------------------------------------------------


def test_tags_are_unique_and_shadow_no_field() -> None:
    assert len(set(TAGS.values())) == len(TAGS)
    for kind in TAGS:
        assert not {"type", "v"} & {field.name for field in attrs.fields(typing.cast("type[Durable]", kind))}
    assert all(re.fullmatch(r"[a-z]+(_[a-z]+)*", tag) for tag in TAGS.values())
    assert TAGS[TextDelta] == "text_delta"


def test_every_event_has_a_tag() -> None:
    """The tags are a table, since they stay when a class is renamed; today they are the names of the classes."""
    derived = {kind: re.sub(r"(?<=.)(?=[A-Z])", "_", kind.__name__).lower() for kind in EVENT_TYPES}
    assert {kind: TAGS.get(kind) for kind in EVENT_TYPES} == derived


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Idle(), '{"type":"idle","v":1}'),
        (Busy(3), '{"type":"busy","v":1,"step":3}'),
        (Retry(1, "overloaded", 2.5), '{"type":"retry","v":1,"attempt":1,"message":"overloaded","next_at":2.5}'),
        (Waiting((RequestId("r1"),)), '{"type":"waiting","v":1,"request_ids":["r1"]}'),
    ],
)
def test_a_status_is_a_tagged_union(value: Status, text: str) -> None:
    assert encode_status(value) == text
    assert decode_status(text) == value


@pytest.mark.parametrize("text", ['"idle"', '{"type":"idle"}', '{"type":"retry","v":1}', '{"type":"sleepy","v":1}'])
def test_invalid_status_is_an_error(text: str) -> None:
    with pytest.raises(JournalCorrupt):
        decode_status(text)


def test_message_encoding() -> None:
    call = CallPart(id=PartId("p2"), call_id=CallId("c1"), tool="read", arguments='{"a": 1}')
    said = AssistantMessage(
        id=MessageId("m1"), parts=(TextPart(id=PartId("p1"), text="hi"), call), model="m", finish="calls"
    )
    assert json.loads(encode_message(said)) == {
        "type": "assistant",
        "v": 1,
        "id": "m1",
        "parts": [
            {"type": "text", "id": "p1", "text": "hi", "citations": []},
            {
                "type": "call",
                "id": "p2",
                "call_id": "c1",
                "tool": "read",
                "arguments": '{"a": 1}',
                "provider_id": "",
                "complete": True,
            },
        ],
        "model": "m",
        "finish": "calls",
    }
    settlement = Settlement(status="completed", text="ok", images=(ImagePart(media_type="image/png", data="AA=="),))
    results = ResultsMessage(
        id=MessageId("m2"), results=(CallResult(call_id=CallId("c1"), tool="read", settlement=settlement),)
    )
    assert json.loads(encode_message(results))["results"][0]["settlement"]["images"] == [
        {"type": "image", "media_type": "image/png", "data": "AA=="}
    ]


def test_events_keep_their_version_1_encoding() -> None:
    """The golden file: if this fails, the shape has changed; raise its version and add an upcaster."""
    lines = GOLDEN.read_text(encoding="ascii").splitlines()
    events = [decode_event(line) for line in lines]
    assert events == [event for kind in EVENT_TYPES for event in samples(kind)]
    assert [encode_event(event) for event in events] == lines


# -- strictness ----------------------------------------------------------------------------

WHOLE: dict[str, object] = {
    "type": "part_ended",
    "v": 1,
    "session_id": "s",
    "turn_id": "t",
    "path": ["s"],
    "time": 1.5,
    "seq": 3,
    "message_id": "m",
    "part": {"type": "text", "id": "p", "text": "hello"},
}


def test_base_event_of_the_next_cases_is_valid() -> None:
    expected = PartEnded(
        session_id=SessionId("s"),
        turn_id=TurnId("t"),
        path=(SessionId("s"),),
        time=1.5,
        seq=3,
        message_id=MessageId("m"),
        part=TextPart(id=PartId("p"), text="hello"),
    )
    assert decode_event(json.dumps(WHOLE)) == expected


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"session_id": 3}, "expected str, got int @ part_ended.session_id"),
        ({"session_id": None}, "expected str, got NoneType @ part_ended.session_id"),
        ({"turn_id": 3}, "part_ended.turn_id"),
        ({"path": "abc"}, "expected list, got str @ part_ended.path"),
        ({"path": {"a": 1}}, "expected list, got dict @ part_ended.path"),
        ({"path": ["s", 3]}, "part_ended.path"),
        ({"time": "1.5"}, "expected float, got str @ part_ended.time"),
        ({"time": True}, "expected float, got bool @ part_ended.time"),
        ({"time": None}, "part_ended.time"),
        ({"seq": True}, "part_ended.seq"),
        ({"seq": 3.0}, "part_ended.seq"),
        ({"seq": "3"}, "part_ended.seq"),
        ({"message_id": []}, "part_ended.message_id"),
        ({"part": None}, "expected dict, got NoneType @ part_ended.part"),
        ({"part": "text"}, "expected dict, got str @ part_ended.part"),
        ({"part": {"id": "p", "text": "x"}}, "got None @ part_ended.part"),
        ({"part": {"type": "image", "media_type": "a", "data": "b"}}, "got 'image' @ part_ended.part"),
        ({"part": {"type": ["text"], "id": "p", "text": "x"}}, "got ['text'] @ part_ended.part"),
        ({"part": {"type": "text", "id": "p"}}, "missing field: text @ part_ended.part.text"),
        ({"part": {"type": "text", "id": "p", "text": 1}}, "expected str, got int @ part_ended.part.text"),
        ({"part": {"type": "text", "id": "p", "text": "", "v": 1}}, "unknown fields: v @ part_ended.part"),
        ({"extra": 1}, "unknown fields: extra @ part_ended"),
        ({"type": "part_finished"}, "'part_finished' is not known"),
        ({"type": 7}, "no type and version"),
        ({"type": None}, "no type and version"),
        ({"v": None}, "no type and version"),
        ({"v": "1"}, "no type and version"),
        ({"v": True}, "no type and version"),
        ({"v": 0}, "no type and version"),
        ({"v": 2}, "this engine knows 1"),
    ],
)
def test_mismatch_is_named(change: dict[str, object], told: str) -> None:
    with pytest.raises(JournalCorrupt, match=re.escape(told)):
        decode_event(json.dumps({**WHOLE, **change}))


@pytest.mark.parametrize("field", ["message_id", "part"])
def test_a_missing_field_is_named(field: str) -> None:
    text = json.dumps({key: value for key, value in WHOLE.items() if key != field})
    with pytest.raises(JournalCorrupt, match=f"missing field: {field} @ part_ended.{field}"):
        decode_event(text)


def test_missing_field_gets_its_default() -> None:
    assert decode_event('{"type":"call_started","v":1,"call_id":"c"}') == CallStarted(call_id=CallId("c"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "[]",
        '"turn_started"',
        "{}",
        b"\xff\xfe",
        b'{"type":"notice","v":1,"level":"info","code":"\xff","text":""}',
        "[" * 100_000,
        '{"type":"turn_started","v":1,"time":NaN}',
        '{"type":"turn_started","v":1,"time":Infinity}',
        '{"type":"turn_started","v":1} {}',
        '{"type":"turn_started","v":1,"seq":' + "9" * 5_000 + "}",
        '{"type":"notice","v":1,"level":{},"code":"","text":""}',
        '{"type":"nudge_added","v":1,"message":{"type":"assistant","id":"m","parts":[],"model":"m"}}',
        '{"type":"nudge_added","v":1,"message":{"id":"m","parts":[]}}',
        '{"type":"session_created","v":1,"context":{"cwd":"","values":[["a"]]},"model":""}',
        '{"type":"session_created","v":1,"context":{"cwd":"","values":["ab"]},"model":""}',
        '{"type":"session_created","v":1,"context":{"cwd":"","values":[["a","b","c"]]},"model":""}',
    ],
)
def test_junk_is_an_error_for_store_and_client(text: str | bytes) -> None:
    with pytest.raises(JournalCorrupt):
        decode_event(text)
    with pytest.raises(JournalCorrupt):
        decode_received(text)


def test_an_error_stays_short() -> None:
    text = encode_event(Notice(level="info", code="c", text="x" * 10_000)).replace('"info"', '"' + "y" * 10_000 + '"')
    for junk in (text, "x" * 10_000):
        with pytest.raises(JournalCorrupt) as caught:
            decode_event(junk)
        assert len(str(caught.value)) < 1_100


@given(event=EVENTS, data=st.data())
def test_damaged_event_is_error_or_another_event(event: Durable | Live, data: st.DataObject) -> None:
    text = encode_event(event)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 10)))
    damaged = text[:start] + data.draw(st.text('{}[]",:0', max_size=3)) + text[end:]
    for decode in (decode_event, decode_received):
        with contextlib.suppress(JournalCorrupt):
            decode(damaged)


def test_only_what_has_a_type_can_be_written() -> None:
    with pytest.raises(TypeError, match="there is no JSON of a SharedContext"):
        encode_event(SharedContext(cwd="/"))  # type: ignore[arg-type]  # that is the point


# -- what is newer than this version -----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "tag"),
    [
        ('{"type":"moon_rose","v":1,"phase":[1,2]}', "moon_rose"),
        ('{"type":"notice","v":2,"volume":11}', "notice"),
        ('{"type":"idle","v":1}', "idle"),
        ('{"type":"notice","v":1,"level":"shout","code":"","text":""}', "notice"),
        ('{"type":"part_discarded","v":1,"message_id":"","part_id":"","reason":"whim"}', "part_discarded"),
        ('{"type":"part_ended","v":1,"message_id":"m","part":{"type":"smell","id":"p"}}', "part_ended"),
    ],
)
def test_a_client_gets_unknown_where_the_store_refuses(text: str, tag: str) -> None:
    assert decode_received(text) == Unknown(tag, text)
    assert decode_received(text.encode()) == Unknown(tag, text)
    with pytest.raises(JournalCorrupt):
        decode_event(text)


def _with_news(value: object) -> object:
    """Add a field that nobody knows to every object of a document."""
    if isinstance(value, dict):
        return {**{key: _with_news(item) for key, item in value.items()}, "news": [{"deep": 1}]}
    return [_with_news(item) for item in value] if isinstance(value, list) else value


@given(event=EVENTS, version=st.integers(1, 3))
def test_client_ignores_what_a_newer_server_added(event: Durable | Live, version: int) -> None:
    document = typing.cast("dict[str, object]", _with_news(json.loads(encode_event(event))))
    text = json.dumps({**document, "v": version})
    assert decode_received(text) == event
    # What is stored is written by engines that know it: there a field too many means damage.
    with pytest.raises(JournalCorrupt):
        decode_event(text)


@given(resync=values(Resync))
def test_client_reads_a_newer_servers_resync(resync: Resync) -> None:
    assert decode_received(json.dumps(_with_news(json.loads(encode_resync(resync))))) == resync


# -- versions ---------------------------------------------------------------------------------------


def _rename_words(document: dict[str, typing.Any]) -> dict[str, typing.Any]:
    return {"text" if key == "words" else key: value for key, value in document.items()}


def _add_level(document: dict[str, typing.Any]) -> dict[str, typing.Any]:
    return {"level": "info", **document}


def _from_shout(document: dict[str, typing.Any]) -> dict[str, typing.Any]:
    return {**document, "type": "notice", "level": "warning"}


# A notice once was {code, words}, then {code, text}; before version 3 a warning was an event of its own.
HISTORY = Schema(
    versions={"notice": 3},
    upcasters={("notice", 1): _rename_words, ("notice", 2): _add_level, ("shout", 2): _from_shout},
)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ('{"type":"notice","v":1,"code":"c","words":"w"}', "info"),
        ('{"type":"notice","v":2,"code":"c","text":"w"}', "info"),
        ('{"type":"notice","v":3,"level":"warning","code":"c","text":"w"}', "warning"),
        ('{"type":"shout","v":2,"code":"c","text":"w"}', "warning"),
    ],
)
def test_an_older_event_is_lifted(text: str, level: typing.Literal["info", "warning"]) -> None:
    expected = Notice(level=level, code="c", text="w")
    assert decode_event(text, schema=HISTORY) == expected
    assert decode_received(text, schema=HISTORY) == expected
    assert decode_event(encode_event(expected, schema=HISTORY), schema=HISTORY) == expected


def test_an_event_is_written_in_the_present_version() -> None:
    assert encode_event(Notice(level="info", code="", text=""), schema=HISTORY).startswith('{"type":"notice","v":3,')
    assert encode_event(TurnStarted(), schema=HISTORY).startswith('{"type":"turn_started","v":1,')


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"type":"shout","v":1,"code":"c","text":"w"}', "'shout' is not known"),
        ('{"type":"notice","v":4,"code":"c","text":"w"}', "this engine knows 3"),
        ('{"type":"notice","v":1,"code":"c"}', "missing field: text"),
    ],
)
def test_unmigratable_event_is_an_error(text: str, told: str) -> None:
    with pytest.raises(JournalCorrupt, match=told):
        decode_event(text, schema=HISTORY)


def test_a_hole_among_the_upcasters_is_an_error() -> None:
    holed = Schema(versions={"notice": 3}, upcasters={("notice", 2): _add_level})
    with pytest.raises(JournalCorrupt, match="there is no migration from there to 3"):
        decode_event('{"type":"notice","v":1,"code":"c","words":"w"}', schema=holed)


def test_an_upcaster_that_stumbles_is_an_error() -> None:
    schema = Schema(versions={"notice": 2}, upcasters={("notice", 1): lambda document: {"text": document["words"]}})
    with pytest.raises(JournalCorrupt, match=r"notice can't be lifted from version 1: KeyError\('words'\)"):
        decode_event('{"type":"notice","v":1}', schema=schema)


def test_there_is_nothing_to_lift_yet() -> None:
    assert not codec.PRESENT.versions
    assert not codec.PRESENT.upcasters


# -- cost ----------------------------------------------------------------------------------------------


def test_encoding_is_fast_enough() -> None:
    """A floor with much room (see benchmarks for figures): 30,000 events a second."""
    event = TextDelta(message_id=MessageId("m"), part_id=PartId("p"), after=1, offset=2, text="some words of text")
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(1_000):
            encode_event(event)
        best = min(best, time.process_time() - start)
    assert best < 1_000 / 30_000


if __name__ == "__main__":  # write the golden file anew
    sys.stdout.write("".join(encode_event(event) + "\n" for kind in EVENT_TYPES for event in samples(kind)))
