"""Schemas of strangers: checked by the original, and refused where they can't be; no bomb goes off."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from typing import Any

import pytest

from engine.core.errors import ConfigError, InvalidArguments
from engine.json_schema.foreign_schema import MAX_BYTES, parse_foreign_schema

BRANCHES = {
    "type": "object",
    "properties": {
        "target": {"oneOf": [{"$ref": "#/$defs/user"}, {"$ref": "#/$defs/team"}]},
        "when": {"format": "date-time"},
    },
    "required": ["target"],
    "$defs": {
        "user": {"type": "object", "properties": {"login": {"type": "string"}}, "required": ["login"]},
        "team": {"type": "object", "properties": {"team": {"type": "integer"}}, "required": ["team"]},
    },
}


def parsed(schema: object, arguments: object) -> tuple[object, tuple[str, ...]]:
    value, _, notes = parse_foreign_schema(json.dumps(schema)).parse(json.dumps(arguments))
    return value, notes


def problem(schema: object, arguments: object) -> str:
    with pytest.raises(InvalidArguments) as raised:
        parsed(schema, arguments)
    return str(raised.value)


def test_choices_and_references_are_checked() -> None:
    good = {"target": {"login": "x"}, "when": "no date at all"}
    assert parsed(BRANCHES, good) == (good, ())
    assert "target fits none of 2 choices" in problem(BRANCHES, {"target": {"other": 1}})
    assert "lacks the member" in problem(BRANCHES, {})


@pytest.mark.parametrize(
    ("part", "given", "taken"),
    [
        ({"type": "integer"}, "5", 5),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "true", True),
        ({"type": "array", "items": {"type": "integer"}}, '["1"]', [1]),
        ({"type": "array", "items": {"type": "string"}}, "x", ["x"]),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"$ref": "#/$defs/n"}, "7", 7),
        ({"type": ["integer", "null"]}, "7", 7),
    ],
)
def test_one_meaning_is_repaired(part: object, given: object, taken: object) -> None:
    schema = {"properties": {"a": part}, "$defs": {"n": {"type": "integer"}}}
    value, notes = parsed(schema, {"a": given})
    assert value == {"a": taken}
    assert notes


def test_null_is_left_out_where_it_may_be() -> None:
    schema = {"properties": {"a": {"type": "string"}, "b": {"type": "string"}}, "required": ["b"]}
    assert parsed(schema, {"a": None, "b": "x"})[0] == {"b": "x"}
    assert "b must be of type string" in problem(schema, {"b": None})


@pytest.mark.parametrize("text", ["[1]", "{", "NaN", '{"a": NaN}', "5"])
def test_only_objects_are_arguments(text: str) -> None:
    with pytest.raises(InvalidArguments):
        parse_foreign_schema("{}").parse(text)


def test_no_text_is_no_arguments() -> None:
    assert parse_foreign_schema("{}").parse("")[0] == {}


@pytest.mark.parametrize(
    ("schema", "value", "is_valid"),
    [
        ({"items": [{"type": "integer"}], "additionalItems": False}, [1], True),
        ({"items": [{"type": "integer"}], "additionalItems": False}, [1, 2], False),
        ({"minimum": 3, "exclusiveMinimum": True}, 3, False),
        ({"minimum": 3, "exclusiveMinimum": False}, 3, True),
        ({"type": "string", "nullable": True}, None, True),
        ({"properties": {"a": {}}, "dependencies": {"a": ["b"]}}, {"a": 1}, False),
        ({"x-own": {"deep": [1]}, "unevaluatedProperties": False}, {"a": 1}, True),
    ],
)
def test_older_drafts_are_understood(schema: object, value: object, is_valid: bool) -> None:
    whole = {"type": "object", "properties": {"v": schema}, "required": ["v"]}
    if is_valid:
        assert parsed(whole, {"v": value})[0] == {"v": value}
    else:
        assert problem(whole, {"v": value})


def nested(depth: int) -> object:
    node: object = {"type": "string"}
    for _ in range(depth):
        node = {"type": "object", "properties": {"a": node}}
    return node


LAUGHS = {
    "type": "object",
    "properties": {"a": {"$ref": "#/$defs/l0"}},
    "$defs": {
        **{f"l{n}": {"allOf": [{"$ref": f"#/$defs/l{n + 1}"}] * 2} for n in range(40)},
        "l40": {"type": "integer"},
    },
}


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"properties": {"a": {"$ref": "https://example.org/schema.json"}}}, "another document"),
        ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "another document"),
        ({"properties": {"a": {"$ref": "#/$defs/none"}}}, "has no"),
        ({"$ref": "#"}, "refers to itself"),
        (nested(70), "levels deep"),
        ({"enum": [json.loads("[" * 80 + "]" * 80)]}, "levels deep"),
        ({"properties": {f"p{n}": {"type": "string"} for n in range(2_001)}}, "2,000 parts"),
        ({"type": "array"}, "must have the type object"),
        ({"properties": {"a": {"type": "strange"}}}, "no type"),
        ({"properties": {"a": {"minLength": "1"}}}, "must be a number"),
        ({"properties": []}, "must be an object"),
        ([], "not an object"),
        (True, "not an object"),
    ],
)
def test_what_is_refused(schema: object, text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        parse_foreign_schema(json.dumps(schema))


@pytest.mark.parametrize("text", ["{", "[" * 100_000, " " * (MAX_BYTES + 1), '{"a": NaN}'])
def test_text_that_is_no_schema(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_foreign_schema(text)


def test_no_reference_opens_a_socket() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        server.setblocking(False)
        with pytest.raises(ConfigError):
            parse_foreign_schema(json.dumps({"$ref": f"http://127.0.0.1:{server.getsockname()[1]}/x.json"}))
        with pytest.raises(BlockingIOError):
            server.accept()


BOUND = 10.0


BOMBS = pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        ({"properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}, {"a": "a" * 60 + "!"}),
        ({"properties": {"a": {"type": "string", "pattern": "^" + "a?" * 30 + "a" * 30 + "$"}}}, {"a": "a" * 30}),
        ({"properties": {"a": {"type": "string", "pattern": r"^\s+\s+$"}}}, {"a": " " * 100_000 + "x"}),
        ({"patternProperties": {"^(a|a)*$": {}}}, {"a" * 60 + "!": 1}),
        (LAUGHS, {"a": 1}),
    ],
)


@BOMBS
def test_no_argument_takes_long(schema: object, arguments: object) -> None:
    began = time.monotonic()
    with contextlib.suppress(InvalidArguments, ConfigError):
        parsed(schema, arguments)
    assert time.monotonic() - began < BOUND


@BOMBS
def test_no_result_takes_long(schema: object, arguments: Any) -> None:
    began = time.monotonic()
    with contextlib.suppress(ConfigError):
        parse_foreign_schema(json.dumps(schema), of_result=True).problem(arguments)
    assert time.monotonic() - began < BOUND


def test_results_need_not_be_objects() -> None:
    schema = parse_foreign_schema('{"type": "array", "items": {"type": "integer"}}', of_result=True)
    assert schema.problem([1, 2]) == ""
    assert "[1] must be of type integer" in schema.problem([1, "two"])


def test_harmless_patterns_are_checked() -> None:
    schema = {"properties": {"a": {"type": "string", "pattern": r"^[a-z]+-\d{4}$"}}}
    assert parsed(schema, {"a": "ab-2026"})[0]
    assert "must match" in problem(schema, {"a": "ab-26"})


def test_long_lists_are_no_bombs() -> None:
    schema = {"properties": {"a": {"type": "array", "items": {"type": "integer"}}}}
    assert "a[99999] must be of type integer" in problem(schema, {"a": [*range(99_999), None]})


def test_words_have_nothing_invisible() -> None:
    # A right-to-left override, a zero-width space, a tag character, an escape; and far too long.
    hidden = "a\u202eb\u200bc\U000e0041d\x1b[1m" + "x" * 5_000
    schema = {"properties": {"a": {"description": hidden, "title": "t\u2066", "enum": ["e"]}}}
    part = parse_foreign_schema(json.dumps(schema)).root["properties"]
    assert isinstance(part, dict)
    assert part["a"] == {"description": "abcd[1m" + "x" * 1_992 + "…", "title": "t", "enum": ["e"]}


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a\u202e": {}}},
        {"properties": {"a": {"enum": ["x", "y\U000e0041"]}}},
        {"properties": {"a": {"const": {"b": ["\x1b[2J"]}}}},
        {"required": ["a\u200b"]},
        {"$defs": {"\u2066": {}}},
        {"dependentRequired": {"a": ["\ufeff"]}},
    ],
)
def test_names_and_values_hide_nothing(schema: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="characters that can't be seen"):
        parse_foreign_schema(json.dumps(schema))
    parse_foreign_schema(json.dumps(schema), of_result=True)


def test_what_may_be_left_out_hides_nothing() -> None:
    hides = {"default": "\u202e", "examples": [{"x": "\x00"}], "format": "\U000e0041", "pattern": "\u200b"}
    useful = {"enum": ["\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645", "\U0001f469\u200d\U0001f4bb", "a\nb"]}
    part = parse_foreign_schema(json.dumps({"properties": {"a": hides | useful}})).root["properties"]
    assert part == {"a": useful}
