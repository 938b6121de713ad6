"""A streamed JSON array is split into its elements at any chunk boundaries."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.providers.gemini.framing import JsonFraming
from engine.providers.wire.sse import ServerSentEvent

DONE = ServerSentEvent("message", "[DONE]")
NO_JSON = ServerSentEvent("message", "(no JSON)")


def framed(*pieces: bytes) -> list[ServerSentEvent]:
    framing = JsonFraming()
    return [event for piece in pieces for event in framing.feed(piece)] + framing.close()


def message(data: str) -> ServerSentEvent:
    return ServerSentEvent("message", data)


@pytest.mark.parametrize(
    ("body", "events"),
    [
        (b'[{"a": 1}\n,\r\n{"b": [1, {"c": 2}]}\n]\n', [message('{"a": 1}'), message('{"b": [1, {"c": 2}]}'), DONE]),
        (b" \n[ ] ", [DONE]),
        (b'{"a": {"b": "}"}}\n', [ServerSentEvent("document", '{"a": {"b": "}"}}')]),
        (b'[{"a": "]} \\" [{ \\\\"}]', [message('{"a": "]} \\" [{ \\\\"}'), DONE]),
        (b"", []),
        (b"[", []),
        (b'[{"a": 1}, {"b": ', [message('{"a": 1}')]),
        # What comes before the fault is kept, what comes after it is nobody's.
        (b'[{"a": 1}, 7, {"b": 2}]', [message('{"a": 1}'), NO_JSON]),
        (b"<html>[{}]</html>", [NO_JSON]),
        (b"[[{}]]", [NO_JSON]),
        (b'[{"a": 1}] [{"b": 2}]', [message('{"a": 1}'), DONE]),
        # The parser of JSON, not the framing, says what is wrong inside of an element.
        (b'[{"a": ]}]', [message('{"a": ]'), NO_JSON]),
    ],
)
def test_elements(body: bytes, events: list[ServerSentEvent]) -> None:
    assert framed(body) == events
    assert framed(*(body[i : i + 1] for i in range(len(body)))) == events


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(
    elements=st.lists(st.dictionaries(st.text(), VALUES, max_size=3), max_size=4),
    indent=st.sampled_from([None, 1]),
    separator=st.sampled_from([",", "\n,\r\n", " , "]),
    escaped=st.booleans(),
    cuts=st.lists(st.integers(0, 400), max_size=8),
)
def test_any_array_cut_anywhere(
    elements: list[dict[str, object]], indent: int | None, separator: str, escaped: bool, cuts: list[int]
) -> None:
    written = separator.join(json.dumps(element, indent=indent, ensure_ascii=escaped) for element in elements)
    body = f"[{written}]".encode("utf-8", "surrogatepass")
    places = sorted({0, len(body), *(min(cut, len(body)) for cut in cuts)})
    *events, end = framed(*(body[a:b] for a, b in pairwise(places)))
    assert [json.loads(event.data) for event in events] == json.loads(body.decode("utf-8", "replace"))
    assert (end, {event.event for event in events}) == (DONE, {"message"} if elements else set())


def test_cost_is_linear() -> None:
    """An element of many pieces is joined once; a string is not looked at letter by letter."""
    element = b'{"data":"' + b"A" * 4_000_000 + b'"}'
    pieces = [b"[", *(element[i : i + 4_000] for i in range(0, len(element), 4_000)), b"]"]
    (event, end) = framed(*pieces)
    assert (len(event.data), end) == (len(element), DONE)
