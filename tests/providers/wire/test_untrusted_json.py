"""Reading of untrusted JSON, and writing of JSON that every host accepts."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.providers.wire.untrusted_json import (
    as_list,
    as_object,
    dumps,
    is_object,
    loads,
    number,
    text,
    to_bytes,
    whole_characters,
)

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)
BLANKS = st.sampled_from(["", " ", "\n\t", "\r\n "])


@given(VALUES, BLANKS, BLANKS, st.sampled_from([None, 2]))
def test_written_values_are_read_back(value: object, before: str, after: str, indent: int | None) -> None:
    document = before + json.dumps(value, indent=indent) + after
    assert loads(document) == json.loads(document)
    assert loads(document.encode()) == json.loads(document)


@given(st.text(st.sampled_from('{}[]":,0e-tn \\ux\n'), max_size=8))
def test_invalid_json_is_a_value_error(document: str) -> None:
    try:
        expected = json.loads(document)
    except ValueError:
        with pytest.raises(ValueError, match=r"."):
            loads(document)
        return
    assert loads(document) == expected


@pytest.mark.parametrize("document", ["[" * 100_000, b"[" * 100_000, "", b"", "{}x", "\ufeff{}", b"\xff"])
def test_no_other_error_is_raised(document: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        loads(document)


def test_non_json_numbers_reach_the_hooks() -> None:
    assert math.isnan(float(str(loads("NaN"))))
    assert loads("[NaN, 1.5]", parse_constant=lambda name: name, parse_float=lambda digits: digits) == ["NaN", "1.5"]


@pytest.mark.parametrize(
    ("message", "sent"),
    [("a\ud800b", "a\ufffdb"), ("\ud83d\ude00", "😀"), ("\udc00\ud800", "\ufffd\ufffd"), ("é", "é"), ("😀", "😀")],
)
def test_halves_of_characters(message: str, sent: str) -> None:
    assert whole_characters(message) == sent
    assert to_bytes({message: [message]}) == f'{{"{sent}":["{sent}"]}}'.encode()


@given(VALUES)
def test_own_json_is_compact_utf8(value: object) -> None:
    assert json.loads(to_bytes(value).decode()) == json.loads(whole_characters(json.dumps(value, ensure_ascii=False)))
    assert to_bytes({"a": [1, 2]}) == b'{"a":[1,2]}'
    assert dumps({"é": None}) == '{"é":null}'


def test_a_wrong_shape_is_as_good_as_absent() -> None:
    odd: dict[str, object] = {"number": 1, "yes": True, "null": None, "real": 1.5, "list": ["a"]}
    assert [text(odd, name) for name in (*odd, "absent")] == [""] * 6
    odd["number"] = "1"
    assert [number(odd, name, 7) for name in (*odd, "absent")] == [7] * 6
    assert (text({"a": "b"}, "a"), number({"a": 3}, "a", 7)) == ("b", 3)
    values: list[object] = [None, [1], "a", {"a": 1}]
    assert [as_object(value) for value in values] == [{}, {}, {}, {"a": 1}]
    assert [as_list(value) for value in values] == [[], [1], [], []]
    assert [is_object(value) for value in values] == [False, False, False, True]
