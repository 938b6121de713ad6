"""The JSON schema of a class of arguments, and what can't be one."""

from __future__ import annotations

import enum
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Optional, Union

import attrs
import pytest

from engine.core.errors import ConfigError
from engine.core.schema import doc, schema_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@attrs.frozen
class Place:
    """Where it is,
    in words."""

    name: str


@attrs.frozen
class Bare:
    x: int


PLACE = {
    "type": "object",
    "properties": {"name": {"type": "string"}},
    "additionalProperties": False,
    "required": ["name"],
    "description": "Where it is, in words.",
}


def class_with(hint: object, **more: Any) -> type[attrs.AttrsInstance]:
    """A class with one field `x` of that type."""
    made: type[attrs.AttrsInstance] = attrs.make_class("Arguments", {"x": attrs.field(type=hint, **more)})  # type: ignore[call-overload]  # any hint
    made.__annotations__ = {"x": hint}
    return made


def schema_with(hint: object, **more: Any) -> object:
    return json.loads(schema_of(class_with(hint, **more)))["properties"]["x"]


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (None, {"type": "null"}),
        (Annotated[str, doc("the words")], {"type": "string", "description": "the words"}),
        (Annotated[int, "something else"], {"type": "integer"}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (Sequence[str], {"type": "array", "items": {"type": "string"}}),
        (tuple[str, ...], {"type": "array", "items": {"type": "string"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Mapping[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),  # noqa: UP045  # both spellings
        (Union[str, int], {"anyOf": [{"type": "string"}, {"type": "integer"}]}),  # noqa: UP007
        (list[int] | str, {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "string"}]}),
        (Place, PLACE),
        (list[Place], {"type": "array", "items": PLACE}),
        (
            Bare,
            {
                "type": "object",
                "properties": {"x": {"type": "integer"}},
                "additionalProperties": False,
                "required": ["x"],
            },
        ),
        (
            list[Annotated[str, doc("a word")]] | None,
            {"anyOf": [{"type": "array", "items": {"type": "string", "description": "a word"}}, {"type": "null"}]},
        ),
    ],
)
def test_each_type_has_its_schema(hint: object, schema: object) -> None:
    assert schema_with(hint) == schema


@pytest.mark.parametrize(
    ("hint", "more", "schema"),
    [
        (int, {"default": 3}, {"type": "integer", "default": 3}),
        (str, {"default": ""}, {"type": "string", "default": ""}),
        (bool, {"default": False}, {"type": "boolean", "default": False}),
        (int | None, {"default": None}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (list[int], {"factory": list}, {"type": "array", "items": {"type": "integer"}}),
    ],
)
def test_a_field_with_a_default_is_not_required(hint: object, more: dict[str, Any], schema: object) -> None:
    made = json.loads(schema_of(class_with(hint, **more)))
    assert made == {"type": "object", "properties": {"x": schema}, "additionalProperties": False}


@attrs.frozen
class Everything:
    """More than one field."""

    second: Annotated[str, doc("comes first")]
    first: int = 1
    _hidden: bool = False
    computed: int = attrs.field(init=False, default=0)


def test_schema_fields_keep_order_and_aliases() -> None:
    assert schema_of(Everything) == (
        '{"type":"object","properties":{"second":{"type":"string","description":"comes first"},'
        '"first":{"type":"integer","default":1},"hidden":{"type":"boolean","default":false}},'
        '"additionalProperties":false,"required":["second"]}'
    )


def test_no_fields_are_a_schema_too() -> None:
    assert (
        schema_of(attrs.make_class("Nothing", {})) == '{"type":"object","properties":{},"additionalProperties":false}'
    )


@pytest.mark.parametrize(
    "hint",
    [
        object,
        Any,
        list,
        dict,
        bytes,
        complex,
        set[int],
        frozenset[str],
        tuple[int, str],
        tuple[()],
        dict[int, str],
        list[bytes],
        int | bytes,
        Literal["a", 1],
        Literal[True, 1],
        Literal[b"a"],
        enum.Enum("Empty", []),
        enum.Enum("Mixed", [("A", 1), ("B", "b")]),
        int.__class__,
    ],
    ids=str,
)
def test_a_type_that_has_no_schema_is_named(hint: object) -> None:
    with pytest.raises(ConfigError, match=r"^Arguments\.x: "):
        schema_of(class_with(hint))


@attrs.frozen
class Tree:
    """It holds itself."""

    branches: tuple[Tree, ...] = ()


def test_a_class_that_holds_itself_has_no_schema() -> None:
    with pytest.raises(ConfigError, match=r"^Tree: a tool's arguments can't hold themselves$"):
        schema_of(Tree)


def test_an_annotation_that_means_nothing_is_named() -> None:
    with pytest.raises(ConfigError, match="can't resolve the annotations of Arguments: name 'Nowhere' is not defined"):
        schema_of(class_with("Nowhere"))
