"""JSON Schema 2020-12: what fits, what does not, and schemas that can't be honoured."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ConfigError
from engine.json_schema.parse_schema import parse_schema

TREE = {
    "$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}, "required": ["name"]}},
    "$ref": "#/$defs/node",
}
LIST = {"prefixItems": [{"type": "string"}], "items": {"type": "integer"}, "minItems": 1}
OBJECT = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "patternProperties": {"^x": {"type": "string"}},
    "additionalProperties": False,
    "required": ["a"],
}
CONDITION = {"if": {"required": ["a"]}, "then": {"required": ["b"]}, "else": {"maxProperties": 0}}

# A schema, values that fit it, values that do not.
CASES: list[tuple[Any, list[Any], list[Any]]] = [
    (True, [None, 1, {}], []),
    (False, [], [None, 1, {}]),
    ({"type": "integer"}, [1, 1.0, -3], [1.5, True, "1", None]),
    ({"type": "number"}, [1, 1.5], [True, "1"]),
    ({"type": ["string", "null"]}, ["", None], [0, []]),
    ({"type": "boolean"}, [True, False], [0, 1, "true"]),
    ({"enum": [1, "a", None, {"x": 1}]}, [1, 1.0, "a", None, {"x": 1.0}], [True, 2, {"x": 2}]),
    ({"const": 0}, [0, 0.0], [False, "", None]),
    ({"minimum": 1, "exclusiveMaximum": 3}, [1, 2.9, "x"], [0.9, 3]),
    ({"maximum": 3, "exclusiveMinimum": 1}, [3, 1.1], [1, 3.1]),
    ({"multipleOf": 0.1}, [0.3, 0, 7], [0.35]),
    ({"minLength": 2, "maxLength": 3}, ["ab", "abc", 1], ["a", "abcd"]),
    ({"pattern": "^a+$"}, ["aa", 3], ["b"]),
    (LIST, [["x"], ["x", 1, 2]], [[], [1], ["x", "y"]]),
    ({"contains": {"const": 1}, "maxContains": 2}, [[1], [1, 0, 1]], [[], [0], [1, 1, 1]]),
    ({"contains": {"const": 1}, "minContains": 0}, [[], [1]], []),
    ({"uniqueItems": True}, [[], [1, True], [{"a": 1}, {"a": 2}]], [[1, 1.0], [{"a": 1}, {"a": 1}]]),
    (OBJECT, [{"a": 1}, {"a": 1, "xy": "s"}], [{}, {"a": "1"}, {"a": 1, "b": 1}, {"a": 1, "xy": 1}]),
    ({"propertyNames": {"maxLength": 1}}, [{"a": 1}, {}], [{"ab": 1}]),
    ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 2}]),
    ({"dependentRequired": {"a": ["b"]}}, [{}, {"b": 1}, {"a": 1, "b": 1}], [{"a": 1}]),
    ({"dependentSchemas": {"a": {"maxProperties": 1}}}, [{"a": 1}, {"b": 1, "c": 1}], [{"a": 1, "b": 1}]),
    ({"allOf": [{"minimum": 1}, {"maximum": 2}]}, [1, 2], [0, 3]),
    ({"anyOf": [{"type": "string"}, {"minimum": 5}]}, ["", 5], [4]),
    ({"oneOf": [{"multipleOf": 2}, {"multipleOf": 3}]}, [2, 3], [6, 1]),
    ({"not": {"type": "null"}}, [0, ""], [None]),
    (CONDITION, [{}, {"a": 1, "b": 1}], [{"a": 1}, {"c": 1}]),
    (TREE, [{"name": 1}, {"name": 1, "next": {"name": 2}}], [{}, {"name": 1, "next": {}}]),
    ({"$defs": {"a/b": {"const": 1}}, "$ref": "#/$defs/a~1b"}, [1], [2]),
    ({"format": "email", "title": "t", "default": 3}, ["no address", 1], []),
]


@pytest.mark.parametrize(("schema", "fits", "fails"), CASES, ids=[json.dumps(case[0])[:40] for case in CASES])
def test_values_fit_or_do_not(schema: Any, fits: list[Any], fails: list[Any]) -> None:
    parsed = parse_schema(json.dumps(schema))
    assert [parsed.problem(value) for value in fits] == [None] * len(fits)
    assert all(parsed.problem(value) for value in fails)


@pytest.mark.parametrize(
    ("schema", "value", "problem"),
    [
        ({"properties": {"a": {"items": {"type": "string"}}}}, {"a": ["x", 1]}, "a[1] must be of type string, not 1"),
        (OBJECT, {}, 'the value lacks the member "a"'),
        (OBJECT, {"a": 1, "b": 2}, 'the value must not have a member "b"'),
        ({"enum": ["x" * 200]}, 1, f"the value must be one of {chr(91)}{chr(34)}{'x' * 77}…, not 1"),
    ],
)
def test_problem_names_the_place(schema: Any, value: Any, problem: str) -> None:
    assert parse_schema(json.dumps(schema)).problem(value) == problem


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", "the schema is not JSON"),
        ("3", "the schema must be an object, true or false, not 3"),
        ('{"$ref": "https://example.com/s.json"}', "refers to another document: 'https://example.com/s.json'"),
        ('{"items": {"$ref": "other.json#/x"}}', "refers to another document"),
        ('{"$ref": "#/$defs/none"}', "the schema has no '#/$defs/none'"),
        ('{"$ref": "#name"}', "refers to an anchor"),
        ('{"$ref": "#/title", "title": "t"}', "is no schema"),
        ('{"$ref": "#"}', "refers to itself without end"),
        ('{"unevaluatedProperties": false}', "not supported: unevaluatedProperties"),
        ('{"properties": {"a": {"typ": "string"}}}', "a keyword at properties.a that is not supported: typ"),
        ('{"items": {"$id": "x"}}', "items.$id is not supported"),
        ('{"type": "text"}', 'there is no type "text"'),
        ('{"required": "a"}', "required must be a list"),
        ('{"properties": []}', "properties must be an object"),
        ('{"minimum": "1"}', "minimum must be a number"),
        ('{"multipleOf": 0}', "multipleOf must be a number above 0"),
        ('{"pattern": "("}', "is no regular expression"),
        ('{"anyOf": [{"type": "text"}]}', 'anyOf[0].type: there is no type "text"'),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_schema_that_can_not_be_honoured_is_refused(text: str, error: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_schema(text)
    assert error in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)


@given(JSON)
def test_every_value_fits_what_describes_it(value: Any) -> None:
    assert parse_schema(json.dumps({"const": value})).problem(value) is None
    assert parse_schema(json.dumps({"not": {"enum": [value]}})).problem(value) is not None
