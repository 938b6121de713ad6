"""Arguments of a call: what the schema allows is accepted, all else is told, each thing with its place."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Optional

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.arguments import MAX_ISSUE_CHARS, MAX_ISSUES, parse
from engine.core.errors import InvalidArguments
from engine.core.schema import doc, schema_of
from tests.core.test_schema import Colour, Level, Place, class_with


@attrs.frozen
class Point:
    x: int
    y: int = 0


@attrs.frozen
class Search:
    """Look for something."""

    query: Annotated[str, doc("the words")]
    limit: int = attrs.field(default=10, validator=attrs.validators.le(100))
    paths: tuple[str, ...] = ()
    near: Point | None = None
    _case: bool = attrs.field(default=False, alias="case")


def told(cls: type[attrs.AttrsInstance], arguments: str) -> str:
    with pytest.raises(InvalidArguments) as caught:
        parse(cls, arguments)
    return str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        ('{"query":"a"}', Search(query="a")),
        ('{"query":"a","limit":3,"case":true}', Search(query="a", limit=3, case=True)),
        ('{"query":"a","paths":["x","y"]}', Search(query="a", paths=("x", "y"))),
        ('{"query":"a","near":{"x":1}}', Search(query="a", near=Point(1))),
        ('{"query":"a","near":null}', Search(query="a")),
        ('{"query":"\\ud800"}', Search(query="\ud800")),
        (' {"query": "first", "query": "last"} ', Search(query="last")),
    ],
)
def test_valid_arguments(arguments: str, meant: Search) -> None:
    assert parse(Search, arguments) == meant


def test_no_text_at_all_is_no_arguments() -> None:
    nothing = attrs.make_class("Nothing", {})
    assert isinstance(parse(nothing, ""), nothing)
    assert told(Search, "") == "query: is required"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("{}", "query: is required"),
        ('{"query":5}', "query: expected string, got integer"),
        ('{"query":null}', "query: expected string, got null"),
        ('{"query":"a","limit":"5"}', "limit: expected integer, got string"),
        ('{"query":"a","limit":5.5}', "limit: expected integer, got number"),
        ('{"query":"a","limit":true}', "limit: expected integer, got boolean"),
        ('{"query":"a","limit":101}', "'limit' must be <= 100: 101"),
        ('{"query":"a","paths":"abc"}', "paths: expected array, got string"),
        ('{"query":"a","paths":{"a":"b"}}', "paths: expected array, got object"),
        ('{"query":"a","paths":["a",2,null]}', "paths[1]: expected string, got integer\npaths[2]: expected string, got null"),
        ('{"query":"a","near":"x"}', "near: expected object or null, got string"),
        ('{"query":"a","near":[1]}', "near: expected object or null, got array"),
        ('{"query":"a","near":{}}', "near.x: is required"),
        ('{"query":"a","near":{"x":"1"}}', "near.x: expected integer, got string"),
        ('{"query":"a","near":{"x":1,"z":2}}', "near.z: no such field; there are: x, y"),
        ('{"query":"a","_case":true}', "_case: no such field; did you mean case?"),
        ('{"qurey":"a"}', "query: is required\nqurey: no such field; did you mean query?"),
        ('{"query":"a","b":1}', "b: no such field; there are: query, limit, paths, near, case"),
        ('{"query":1,"limit":"x","near":3}', "query: expected string, got integer\nlimit: expected integer, got string\nnear: expected object or null, got integer"),
        ("[]", "the arguments must be a JSON object, not array"),
        ('"x"', "the arguments must be a JSON object, not string"),
        ("null", "the arguments must be a JSON object, not null"),
        ("5", "the arguments must be a JSON object, not integer"),
    ],
)  # fmt: skip
def test_mismatch_is_reported_with_its_location(arguments: str, text: str) -> None:
    assert told(Search, arguments) == text


@pytest.mark.parametrize(
    "arguments",
    [
        "{",
        '{"query": "cut o',
        "nonsense",
        '{"query": NaN}',
        '{"query":"a"} {}',
        "[" * 100_000,
        '{"limit":' + "9" * 5_000,
    ],
    ids=lambda text: text[:10],
)
def test_invalid_json_is_quoted(arguments: str) -> None:
    text = told(Search, arguments)
    assert text.startswith("the arguments are not valid JSON (")
    assert text.endswith(f"They begin with: {arguments[:200]}")
    assert len(text) < 500


def test_forty_issues_are_less_than_a_kilobyte() -> None:
    many = json.dumps({f"unknown_field_with_a_long_name_{number}": "x" * 500 for number in range(39)})
    text = told(Search, many)
    *issues, more = text.split("\n")
    assert len(issues) == MAX_ISSUES
    assert all(len(issue) <= MAX_ISSUE_CHARS for issue in issues)
    assert more == f"(and {40 - MAX_ISSUES} more)"
    assert len(text) < 1_000


def test_only_part_of_a_long_array_is_checked() -> None:
    @attrs.frozen
    class Numbers:
        numbers: list[int]

    issues = told(Numbers, json.dumps({"numbers": ["x"] * 1_000})).split("\n")
    assert issues[0] == "numbers[0]: expected integer, got string"
    assert issues[-1] == "(and 95 more)"


# -- every type that a schema can have ---------------------------------------------------------------

WRONG = object()


class Word(enum.StrEnum):
    YES = "yes"


@pytest.mark.parametrize(
    ("hint", "value", "meant"),
    [
        (str, "a", "a"),
        (int, 5, 5),
        (int, 5.0, 5),
        (int, 10**30, 10**30),
        (float, 5, 5.0),
        (float, 0.5, 0.5),
        (float, 10**400, WRONG),
        (float, True, WRONG),
        (bool, 1, WRONG),
        (bool, "true", WRONG),
        (None, None, None),
        (None, 0, WRONG),
        (int | str, 5, 5),
        (int | str, "5", "5"),
        (int | str, None, WRONG),
        (int | float, 0.5, 0.5),
        (str | list[str], "ab", "ab"),
        (str | list[str], ["a"], ["a"]),
        (str | list[str], 5, WRONG),
        (Literal["a"] | int, "a", "a"),
        (Literal["a"] | int, "b", WRONG),
        (Literal["a", "b"], "b", "b"),
        (Literal["a", "b"], "c", WRONG),
        (Literal["a", "b"], ["a"], WRONG),
        (Literal[1, 2], 1, 1),
        (Literal[1, 2], True, WRONG),
        (Literal[True], 1, WRONG),
        (Colour, "red", Colour.RED),
        (Colour, "RED", WRONG),
        (Colour | None, None, None),
        (Level, 2, Level.HIGH),
        (Level, "2", WRONG),
        (Level, 3, WRONG),
        (Word, "yes", Word.YES),
        (Word, "no", WRONG),
        (list[int], [1, 2], [1, 2]),
        (list[int], "12", WRONG),
        (list[str], "ab", WRONG),
        (list[str], {"a": 1}, WRONG),
        (list[list[int]], [[1], []], [[1], []]),
        (tuple[int, ...], [1], (1,)),
        (tuple[int, ...], 1, WRONG),
        (Sequence[str], ["a"], ("a",)),
        (Sequence[str], "ab", WRONG),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (dict[str, int], {"a": "1"}, WRONG),
        (dict[str, int], [["a", 1]], WRONG),
        (Mapping[str, list[Colour]], {"a": ["red"]}, {"a": [Colour.RED]}),
        (Place, {"name": "here"}, Place("here")),
        (Place | Point, {"name": "here"}, Place("here")),
        (Place | Point, {"x": 1}, Point(1)),
        (Place | Point, {"z": 1}, WRONG),
        (list[Point | None], [{"x": 1}, None], [Point(1), None]),
        (Annotated[list[Annotated[int, doc("one")]] | None, doc("many")], [1], [1]),
    ],
    ids=lambda value: "refused" if value is WRONG else str(value)[:40],
)
def test_values_are_read_strictly_by_type(hint: object, value: object, meant: object) -> None:
    cls = class_with(hint)
    assert schema_of(cls), "what can be read has a schema"
    arguments = json.dumps({"x": value})
    if meant is WRONG:
        assert told(cls, arguments).startswith("x")
    else:
        read = attrs.asdict(parse(cls, arguments), recurse=False)["x"]
        assert read == meant
        assert type(read) is type(meant)


@pytest.mark.parametrize(
    ("hint", "value", "text"),
    [
        (Literal["a", "b"], "c", 'x: expected "a" or "b", got "c"'),
        (Colour, 5, 'x: expected "red" or "blue", got 5'),
        (Literal["a"] | int, "b", 'x: expected "a" or integer, got string'),
        (str | list[str], 5, "x: expected string or array, got integer"),
        (str | list[str], [5], "x[0]: expected string, got integer"),
        (dict[str, list[Point]], {"k": [{"x": 1}, {"x": "1"}]}, "x.k[1].x: expected integer, got string"),
        (Place | Point, {"z": 1}, "x.name: is required\nx.z: no such field; there are: name"),
        (Place | Point, 1, "x: expected object, got integer"),
        (Optional[Annotated[list[int], doc("many")]], "a", "x: expected array or null, got string"),  # noqa: UP045  # pyright knows no | of Annotated
        (Colour | dict[str, int], 5, 'x: expected "red" or "blue" or object, got integer'),
    ],
)
def test_expectation_uses_the_words_of_the_schema(hint: object, value: object, text: str) -> None:
    assert told(class_with(hint), json.dumps({"x": value})) == text


# -- what the class itself says -------------------------------------------------------------------------


def _no(*_: object) -> None:
    raise KeyError("not that one")


def _nothing(*_: object) -> None:
    raise RuntimeError


@pytest.mark.parametrize(
    ("more", "value", "text"),
    [
        ({"validator": attrs.validators.instance_of(int)}, 1, None),
        ({"validator": attrs.validators.in_([1])}, 2, "'x' must be in [1] (got 2)"),
        ({"validator": attrs.validators.min_len(3)}, 1, "TypeError"),
        ({"validator": _no}, 1, "not that one"),
        ({"validator": _nothing}, 1, "RuntimeError: "),
        ({"converter": _nothing}, 1, "RuntimeError: "),
    ],
)
def test_validator_exceptions_are_reported(more: dict[str, Any], value: int, text: str | None) -> None:
    cls = class_with(int, **more)
    arguments = json.dumps({"x": value})
    if text is None:
        assert attrs.asdict(parse(cls, arguments)) == {"x": value}
    elif text == "TypeError":
        assert "len()" in told(cls, arguments)
    else:
        assert told(cls, arguments) == text


def test_nested_validator_is_reported_with_its_location() -> None:
    @attrs.frozen
    class Inner:
        n: int = attrs.field(validator=attrs.validators.ge(1))

    assert told(class_with(list[Inner]), '{"x":[{"n":1},{"n":0}]}') == "x[1]: 'n' must be >= 1: 0"


def test_an_error_keeps_its_cause() -> None:
    with pytest.raises(InvalidArguments) as caught:
        parse(class_with(int, validator=_no), '{"x":1}')
    assert isinstance(caught.value.__cause__, KeyError)


# -- anything ---------------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def read_or_told(cls: type[attrs.AttrsInstance], arguments: str) -> attrs.AttrsInstance | str:
    try:
        return parse(cls, arguments)
    except InvalidArguments as error:
        return str(error)


NAMES = st.sampled_from(["query", "limit", "paths", "near", "case", "x", ""])


@given(value=st.dictionaries(NAMES, JSON, max_size=6))
def test_any_object_is_read_or_refused(value: dict[str, object]) -> None:
    """And what is read is what was given: nothing is turned into something else."""
    read = read_or_told(Search, json.dumps(value))
    if isinstance(read, str):
        assert 0 < len(read) < 600
        return
    for name, given_value in value.items():
        field = getattr(read, {"case": "_case"}.get(name, name))
        if isinstance(field, Point):
            field = {key: getattr(field, key) for key in given_value}  # type: ignore[attr-defined]  # a dict, or it had not been read
        assert (list(field) if isinstance(field, tuple) else field) == given_value


@given(text=st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    assert read_or_told(class_with(int, default=0), text)
