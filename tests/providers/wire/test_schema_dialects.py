from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.providers.wire.quirks import SchemaDialect
from engine.providers.wire.schema_dialects import adapt

DIALECTS: list[SchemaDialect] = ["openai", "moonshot", "gemini", "gemini-json"]
TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
OBJECT_WORDS = {"properties", "required", "additionalProperties"}


def prop(schema: object, dialect: SchemaDialect, **more: Any) -> Any:
    """What becomes of a property with *schema*."""
    whole = {"type": "object", "properties": {"p": schema}, **more}
    return adapt(whole, dialect)["properties"]["p"]


def test_plain_is_left_alone() -> None:
    schema = {"const": 1, "anything": [True]}
    assert adapt(schema, "plain") is schema


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_ordinary_schema_of_arguments_passes(dialect: SchemaDialect) -> None:
    schema = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "A file."},
            "lines": {"type": "array", "items": {"type": "integer", "minimum": 1}},
            "how": {"type": "string", "enum": ["fast", "slow"]},
        },
        "required": ["path"],
    }
    assert adapt(schema, dialect) == schema


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (True, {"type": "string"}),
        ({}, {"type": "string"}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"const": None}, {"type": "null", "enum": [None]}),
        ({"enum": [1, "a"]}, {"type": ["integer", "string"], "enum": [1, "a"]}),
        ({"enum": [1.5, True, []]}, {"type": ["number", "boolean", "array"], "enum": [1.5, True, []], "items": {"type": "string"}}),
        ({"enum": [{}]}, {"type": "object", "enum": [{}], "properties": {}}),
        ({"properties": {"const": True}}, {"type": "object", "properties": {"const": {"type": "string"}}}),
        ({"items": {}}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "array"}, {"type": "array", "items": {"type": "string"}}),
        ({"type": "array", "items": [{"type": "null"}, {}]}, {"type": "array", "items": {"type": "null"}}),
        ({"prefixItems": [{"type": "null"}], "items": False}, {"type": "array", "items": {"type": "null"}}),
        ({"minimum": 1}, {"type": "number", "minimum": 1}),
        ({"pattern": "a"}, {"type": "string", "pattern": "a"}),
        ({"type": ["string", "null", "file"]}, {"type": ["string", "null"]}),
        ({"type": "file", "description": "d"}, {"type": "string", "description": "d"}),
        ({"type": "string", "properties": {"a": {}}, "minimum": 1}, {"type": "string"}),
        ({"type": "object", "additionalProperties": {}}, {"type": "object", "additionalProperties": {"type": "string"}, "properties": {}}),
        ({"type": "object", "additionalProperties": True}, {"type": "object", "additionalProperties": True, "properties": {}}),
        ({"oneOf": [{"const": 1}, {"type": "null"}]}, {"anyOf": [{"type": "integer", "enum": [1]}, {"type": "null"}]}),
        ({"type": "string", "if": {}, "$comment": "c", "examples": ["e"], "default": "d"}, {"type": "string", "default": "d"}),
        ({"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a", "b"]}, {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}),
    ],
)  # fmt: skip
def test_the_openai_dialect(schema: object, expected: object) -> None:
    assert prop(schema, "openai") == expected


def test_all_of_is_merged() -> None:
    schema = {
        "description": "over",
        "allOf": [
            {"$ref": "#/properties/other"},
            {"type": "object", "properties": {"b": {"type": "null"}}, "required": ["b"], "description": "under"},
        ],
    }
    other = {"type": "object", "properties": {"a": {"type": "null"}}, "required": ["a"]}
    adapted = adapt({"type": "object", "properties": {"p": schema, "other": other}}, "openai")["properties"]["p"]
    assert adapted == {
        "type": "object",
        "description": "over",
        "properties": {"a": {"type": "null"}, "b": {"type": "null"}},
        "required": ["a", "b"],
    }


def test_a_root_union_of_objects_is_merged() -> None:
    schema = {
        "anyOf": [
            {"type": "object", "properties": {"a": {"type": "null"}, "c": {"type": "null"}}, "required": ["a", "c"]},
            {"type": "object", "properties": {"b": {"type": "null"}, "c": {"type": "null"}}, "required": ["b", "c"]},
        ],
        "description": "d",
    }
    for dialect in DIALECTS:
        adapted = adapt(schema, dialect)
        assert adapted["type"] == "object"
        assert adapted["description"] == "d"
        assert list(adapted["properties"]) == ["a", "c", "b"]
        assert adapted["required"] == ["c"]


def test_an_answer_may_be_no_object() -> None:
    schema = {"type": "array", "items": {"type": "string"}}
    assert all(adapt(schema, dialect) == schema for dialect in DIALECTS)


REFERENCE = {"$ref": "#/definitions/Node", "description": "d"}
NODE = {"type": "object", "properties": {"next": {"$ref": "#/definitions/Node"}, "v": {"type": "null"}}}


def test_references_are_kept_where_they_are_read() -> None:
    for dialect, expected in (
        ("openai", {"$ref": "#/$defs/Node", "description": "d"}),
        ("moonshot", {"$ref": "#/$defs/Node"}),
    ):
        schema = {"type": "object", "properties": {"p": REFERENCE}, "definitions": {"Node": NODE}}
        adapted = adapt(schema, dialect)  # type: ignore[arg-type]  # a literal, out of a tuple
        assert adapted["properties"]["p"] == expected
        assert adapted["$defs"] == {
            "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "v": {"type": "null"}}}
        }
        assert "definitions" not in adapted


def test_gemini_has_references_written_out() -> None:
    assert prop(REFERENCE, "gemini", definitions={"Node": NODE}) == {
        "type": "object",
        "description": "d",
        "properties": {"next": {"type": "object"}, "v": {"type": "string", "nullable": True}},
    }


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("reference", ["#/$defs/Missing", "other.json#/a", "#", "#/properties/p", "#/anyOf/7"])
def test_references_to_nothing_and_to_themselves_end(dialect: SchemaDialect, reference: str) -> None:
    adapted = prop({"$ref": reference}, dialect)
    assert adapted["type"] in {"string", "object"}


def test_exploding_schema_stays_small() -> None:
    defs = {f"d{n}": {"properties": {x: {"$ref": f"#/$defs/d{n + 1}"} for x in "abcd"}} for n in range(30)}
    adapted = adapt({"type": "object", "properties": {"p": {"$ref": "#/$defs/d0"}}, "$defs": defs}, "gemini")
    assert len(json.dumps(adapted)) < 1_000_000


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_deep_schema_is_cut(dialect: SchemaDialect) -> None:
    schema: Any = {"type": "string"}
    for _ in range(900):
        schema = {"type": "object", "properties": {"p": schema}}
    check(adapt(schema, dialect), dialect)


def test_moonshot_wants_the_type_within_a_choice() -> None:
    schema = {"type": "string", "description": "d", "anyOf": [{"enum": ["a"]}, {"pattern": "b"}]}
    assert prop(schema, "moonshot") == {
        "description": "d",
        "anyOf": [{"type": "string", "enum": ["a"]}, {"type": "string", "pattern": "b"}],
    }


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": ["string", "null"], "description": "d"}, {"type": "string", "nullable": True, "description": "d"}),
        (
            {"type": ["string", "integer", "null"], "description": "d"},
            {
                "anyOf": [
                    {"type": "string", "description": "d", "nullable": True},
                    {"type": "integer", "description": "d", "nullable": True},
                ]
            },
        ),
        (
            {"anyOf": [{"type": "integer"}, {"type": "null"}], "description": "d"},
            {"type": "integer", "nullable": True, "description": "d"},
        ),
        ({"type": "integer", "enum": [1, 2, None]}, {"type": "string", "enum": ["1", "2"], "nullable": True}),
        ({"enum": ["", "a", True]}, {"type": "string", "enum": ["a", "true"]}),
        ({"type": "string", "format": "uri"}, {"type": "string"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "null"}, {"type": "string", "nullable": True}),
        ({"type": "object", "additionalProperties": False}, {"type": "object"}),
        (
            {"anyOf": [{"anyOf": [{"type": "integer"}, {"type": "string"}]}, {"type": "boolean"}]},
            {"anyOf": [{"type": "integer"}, {"type": "string"}, {"type": "boolean"}]},
        ),
    ],
)
def test_the_gemini_dialect(schema: object, expected: object) -> None:
    assert prop(schema, "gemini") == expected


# -- what holds for any schema ---------------------------------------------------------

names = st.sampled_from(["a", "b", "const", "type", "$ref"])
values = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "y"]) | st.lists(st.just(1))


def objects(schemas: Any) -> Any:
    return st.fixed_dictionaries(
        {},
        optional={
            "type": st.sampled_from([*TYPES, "odd", 7]) | st.lists(st.sampled_from(TYPES), max_size=3),
            "const": values,
            "enum": st.lists(values, max_size=3) | st.just("odd"),
            "properties": st.dictionaries(names, schemas, max_size=2) | st.just([1]),
            "required": st.lists(names, max_size=2) | st.just("a"),
            "items": schemas | st.lists(schemas, max_size=2),
            "prefixItems": st.lists(schemas, max_size=2),
            "additionalProperties": schemas,
            "anyOf": st.lists(schemas, max_size=3) | st.just("odd"),
            "oneOf": st.lists(schemas, max_size=2),
            "allOf": st.lists(schemas, max_size=2),
            "not": schemas,
            "$ref": st.sampled_from(["#", "#/$defs/X", "#/definitions/Y", "#/$defs/Z", "#/properties/a", "x", 3]),
            "format": st.sampled_from(["uri", "date-time"]),
            "minimum": st.integers(0, 2),
            "nullable": st.booleans(),
            "description": st.just("d"),
            "default": values,
        },
    )


leaves = st.booleans() | st.sampled_from([None, 3, "odd"]) | objects(st.booleans())
schemas = st.recursive(leaves, objects, max_leaves=8)
roots = st.builds(
    lambda schema, x, y: schema | {"$defs": {"X": x}, "definitions": {"Y": y}}, objects(schemas), schemas, schemas
)


def children(schema: dict[str, Any]) -> Iterator[Any]:
    yield from schema.get("properties", {}).values()
    yield from schema.get("$defs", {}).values()
    yield from schema.get("anyOf", [])
    if "items" in schema:
        yield schema["items"]
    if not isinstance(schema.get("additionalProperties", True), bool):
        yield schema["additionalProperties"]


def check(schema: Any, dialect: SchemaDialect) -> None:
    """A small validator of the dialects."""
    assert isinstance(schema, dict)
    assert not {"const", "oneOf", "allOf", "not", "prefixItems", "definitions"} & schema.keys()
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    assert set(types) <= set(TYPES)
    assert types or "anyOf" in schema or "$ref" in schema
    assert schema.get("anyOf", [{}])
    assert schema.get("enum", [1])
    if "array" in types:
        assert isinstance(schema["items"], dict)
    if types and "object" not in types:
        assert not OBJECT_WORDS & schema.keys()
    assert set(schema.get("required", ())) <= schema.get("properties", {}).keys()
    if dialect in {"moonshot", "gemini-json"}:
        assert "$ref" not in schema or schema.keys() <= {"$ref", "$defs"}
        assert "anyOf" not in schema or schema.keys() <= {"anyOf", "title", "description", "default", "$defs"}
    if dialect == "gemini":
        assert "$ref" not in schema
        assert isinstance(schema.get("type", ""), str)
        assert "anyOf" not in schema or schema.keys() == {"anyOf"}
        assert all(isinstance(value, str) and value for value in schema.get("enum", ()))
        assert "enum" not in schema or schema["type"] == "string"
        assert "additionalProperties" not in schema
    for child in children(schema):
        check(child, dialect)


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=60)
@given(schema=roots)
def test_any_schema_comes_out_in_the_dialect(dialect: SchemaDialect, schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)
    adapted = adapt(schema, dialect)
    assert schema == before
    check(adapted, dialect)
    for reference in references(adapted):
        assert reference.removeprefix("#/$defs/") in adapted["$defs"]


@pytest.mark.slow
@pytest.mark.parametrize("dialect", DIALECTS)
@settings(max_examples=60)
@given(schema=roots)
def test_twice_is_once(dialect: SchemaDialect, schema: dict[str, Any]) -> None:
    once = adapt(schema, dialect)
    assert adapt(once, dialect) == once


def references(schema: dict[str, Any]) -> Iterator[str]:
    if "$ref" in schema:
        yield schema["$ref"]
    for child in children(schema):
        yield from references(child)
