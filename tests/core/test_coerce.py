"""What is mended in arguments, and that nothing else is."""

from __future__ import annotations

import json
from typing import Literal

import attrs
import pytest
from hypothesis import given

from engine.core.arguments import parse, parse_kindly
from engine.core.errors import InvalidArguments
from tests.core.test_arguments import JSON as ANY
from tests.core.test_arguments import NAMES, Point, Search
from tests.core.test_schema import Place, class_with

from hypothesis import strategies as st  # isort: skip

WRONG = object()


@pytest.mark.parametrize(
    ("hint", "value", "meant", "note"),
    [
        (int, "5", 5, 'x: the text "5" was taken for 5'),
        (int, " -12 ", -12, 'x: the text " -12 " was taken for -12'),
        (int, "5.5", WRONG, ""),
        (int, "five", WRONG, ""),
        (int, "\u0665", WRONG, ""),
        (int, "9" * 30, WRONG, ""),
        (float, "0.5", 0.5, 'x: the text "0.5" was taken for 0.5'),
        (float, "nan", WRONG, ""),
        (float, "1e999", WRONG, ""),
        (bool, "True", True, 'x: the text "True" was taken for true'),
        (bool, "yes", WRONG, ""),
        (bool, 1, WRONG, ""),
        (str, 5, WRONG, ""),
        (str, ["a"], WRONG, ""),
        (list[str], "a", ["a"], "x: a single value was taken for a list of one"),
        (list[str], '["a", "b"]', ["a", "b"], "x: JSON text was taken for the list in it"),
        (list[int], '["1"]', [1], 'x: JSON text was taken for the list in it; x[0]: the text "1" was taken for 1'),
        (list[str], "[broken", ["[broken"], "x: a single value was taken for a list of one"),
        (list[str], None, WRONG, ""),
        (list[int], "a", WRONG, ""),
        (tuple[str, ...], "a", ("a",), "x: a single value was taken for a list of one"),
        (dict[str, int], '{"a": 1}', {"a": 1}, "x: JSON text was taken for the object in it"),
        (dict[str, int], {"a": "1"}, {"a": 1}, 'x.a: the text "1" was taken for 1'),
        (Place, '{"name": "here"}', Place("here"), "x: JSON text was taken for the object in it"),
        (Point | None, '{"x": "1"}', Point(1), 'x: JSON text was taken for the object in it; x.x: the text "1" was taken for 1'),
        (int | None, "5", 5, 'x: the text "5" was taken for 5'),
        (int | str, "5", "5", ""),
        (str | list[str], "a", "a", ""),
        (Literal["a", "b"], "c", WRONG, ""),
    ],
    ids=lambda value: "refused" if value is WRONG else str(value)[:40],
)  # fmt: skip
def test_coerced_values(hint: object, value: object, meant: object, note: str) -> None:
    cls = class_with(hint)
    arguments = json.dumps({"x": value})
    if meant is WRONG:
        with pytest.raises(InvalidArguments) as kindly:
            parse_kindly(cls, arguments)
        with pytest.raises(InvalidArguments) as strictly:
            parse(cls, arguments)
        assert str(kindly.value) == str(strictly.value), "what is told is about what the model wrote"
        return
    parsed = parse_kindly(cls, arguments)
    assert attrs.asdict(parsed.arguments, recurse=False)["x"] == meant
    assert "; ".join(parsed.mended) == note


def test_null_for_what_may_be_left_out() -> None:
    parsed = parse_kindly(Search, '{"query":"a","limit":null,"near":null}')
    assert (parsed.arguments, parsed.mended) == (Search(query="a"), ("limit: null was taken for leaving it out",))
    with pytest.raises(InvalidArguments, match="query: expected string, got null"):
        parse_kindly(Search, '{"query":null}')


def test_nothing_is_coerced_beside_another_error() -> None:
    with pytest.raises(InvalidArguments) as caught:
        parse_kindly(Search, '{"query":5,"limit":"7"}')
    assert str(caught.value) == "query: expected string, got integer\nlimit: expected integer, got string"


@given(value=st.dictionaries(NAMES, ANY, max_size=6))
def test_coercions_are_reported(value: dict[str, object]) -> None:
    text = json.dumps(value)
    try:
        strict: object = parse(Search, text)
    except InvalidArguments:
        strict = None
    try:
        kind = parse_kindly(Search, text)
    except InvalidArguments:
        assert strict is None
        return
    assert (strict is None) == bool(kind.mended)
    if strict is not None:
        assert kind.arguments == strict
