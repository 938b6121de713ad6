"""Check JSON values against a JSON Schema (draft 2020-12) that a user has written.

Everything that can not be honoured is refused when the schema is read, never ignored: references to other documents, which
would have to be fetched, and the few keywords that need more than the value itself (`unevaluatedProperties`, dynamic
references). `format` is an annotation, as the draft has it.

Pure: no file, no network.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, cast
from urllib.parse import unquote

import attrs

from engine.core.errors import ConfigError
from engine.json_schema.keywords import CHECKS, TYPES, JsonValue, is_number, shown

# They say something about a schema, and nothing about a value.
_ANNOTATIONS: Final = frozenset(
    {
        *("$schema", "$comment", "$anchor", "$vocabulary", "title", "description", "default", "examples", "deprecated"),
        *("readOnly", "writeOnly", "format", "contentEncoding", "contentMediaType", "contentSchema"),
    }
)


@attrs.frozen(eq=False, repr=False)
class JsonSchema:
    """A schema that can be checked against; made by `parse_schema`."""

    root: JsonValue

    def problem(self, value: JsonValue) -> str | None:
        """Return what is wrong with *value*, and where; None if it is valid."""
        return next(self.problems(value), None)

    def problems(self, value: JsonValue) -> Iterator[str]:
        """Yield everything that is wrong with *value*."""
        return self._problems(self.root, value, "")

    def is_valid(self, schema: JsonValue, value: JsonValue) -> bool:
        """Return whether *value* fits a part of this schema."""
        return next(self._problems(schema, value, ""), None) is None

    def resolve(self, reference: str) -> JsonValue:
        """Return the part of this schema that a local reference names. Raises `ConfigError`."""
        if not reference.startswith("#"):
            raise ConfigError(f"the schema refers to another document: {reference!r}; copy it to $defs")
        node = self.root
        for name in reference[1:].split("/")[1:]:
            key = unquote(name).replace("~1", "/").replace("~0", "~")
            if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
                node = node[int(key)]
            elif isinstance(node, dict) and key in node:
                node = node[key]
            else:
                raise ConfigError(f"the schema has no {reference!r}")
        if reference not in {"#", ""} and not reference.startswith("#/"):
            raise ConfigError(f"the schema refers to an anchor: {reference!r}; write a path, such as #/$defs/name")
        return node

    def _problems(self, schema: JsonValue, value: JsonValue, at: str) -> Iterator[str]:
        if not isinstance(schema, dict):
            if schema is False:
                yield f"{at or 'the value'}: nothing is allowed here"
            return
        for word, argument in schema.items():
            check = CHECKS.get(word)
            if check is not None:
                yield from check(self, argument, schema, value, at)

    def below(self, schema: JsonValue, value: JsonValue, at: str, name: str | int) -> Iterator[str]:
        """Yield what is wrong with a member or an item."""
        return self._problems(schema, value, f"{at}[{name}]" if isinstance(name, int) else f"{at}.{name}".lstrip("."))

    def here(self, schema: JsonValue, value: JsonValue, at: str) -> Iterator[str]:
        """Yield what is wrong with the same value by another part of the schema."""
        return self._problems(schema, value, at)


def parse_schema(text: str) -> JsonSchema:
    """Parse a JSON Schema. Raises `ConfigError` for what can't be honoured."""
    try:
        root: JsonValue = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"the schema is not JSON: {error}") from error
    except RecursionError as error:
        raise ConfigError("the schema is nested too deeply") from error
    return check_schema(JsonSchema(root))


def check_schema(schema: JsonSchema) -> JsonSchema:
    """Return *schema* if it can be honoured. Raises `ConfigError`."""
    try:
        _check_schema(schema, schema.root, "")
        # A reference that leads back to itself without a step into the value would never end.
        samples: list[JsonValue] = [None, 0, "", [], {}]
        for sample in samples:
            schema.problem(sample)
    except RecursionError as error:
        raise ConfigError("the schema refers to itself without end") from error
    return schema


def _check_schema(whole: JsonSchema, node: JsonValue, at: str) -> None:
    if isinstance(node, bool):
        return
    if not isinstance(node, dict):
        raise ConfigError(f"the schema{_place(at)} must be an object, true or false, not {shown(node)}")
    for word, argument in node.items():
        check = _ARGUMENTS.get(word)
        if check is not None:
            check(whole, argument, f"{at}.{word}".lstrip("."))
        elif word not in _ANNOTATIONS:
            raise ConfigError(f"the schema has a keyword{_place(at)} that is not supported: {word}")


# -- what the arguments of keywords must be ------------------------------------------------------------


def _schemas(whole: JsonSchema, argument: JsonValue, at: str) -> None:
    for index, part in enumerate(_list(argument, at)):
        _check_schema(whole, part, f"{at}[{index}]")


def _named_schemas(whole: JsonSchema, argument: JsonValue, at: str) -> None:
    for name, part in _map(argument, at).items():
        _check_schema(whole, part, f"{at}.{name}")


def _patterned_schemas(whole: JsonSchema, argument: JsonValue, at: str) -> None:
    for pattern in _map(argument, at):
        _pattern(whole, pattern, at)
    _named_schemas(whole, argument, at)


def _pattern(_: JsonSchema, argument: JsonValue, at: str) -> None:
    try:
        re.compile(_text(argument, at))
    except re.error as error:
        raise ConfigError(f"{at}: {shown(argument)} is no regular expression: {error}") from error


def _number(_: JsonSchema, argument: JsonValue, at: str) -> None:
    if not is_number(argument):
        raise ConfigError(f"{at} must be a number, not {shown(argument)}")


def _positive(_: JsonSchema, argument: JsonValue, at: str) -> None:
    if not is_number(argument) or not cast("float", argument) > 0:
        raise ConfigError(f"{at} must be a number above 0, not {shown(argument)}")


def _types(_: JsonSchema, argument: JsonValue, at: str) -> None:
    for name in argument if isinstance(argument, list) else [argument]:
        if name not in TYPES:
            raise ConfigError(f"{at}: there is no type {shown(name)}, only {', '.join(TYPES)}")


def _any_list(_: JsonSchema, argument: JsonValue, at: str) -> None:
    _list(argument, at)


def _lists(_: JsonSchema, argument: JsonValue, at: str) -> None:
    for names in _map(argument, at).values():
        _list(names, at)


def _reference(whole: JsonSchema, argument: JsonValue, at: str) -> None:
    target = whole.resolve(_text(argument, at))
    if not isinstance(target, (dict, bool)) or (isinstance(target, dict) and not _KEYWORDS.issuperset(target)):
        raise ConfigError(f"{at}: {shown(argument)} is no schema")


def _root_only(_: JsonSchema, __: JsonValue, at: str) -> None:
    # Below the root it would change what references mean.
    if at != "$id":
        raise ConfigError(f"{at} is not supported: only the whole schema may have an $id")


def _anything(_: JsonSchema, __: JsonValue, ___: str) -> None:
    pass


_Argument = Callable[[JsonSchema, JsonValue, str], None]
_ARGUMENTS: Final[Mapping[str, _Argument]] = {
    **dict.fromkeys(
        ["additionalProperties", "propertyNames", "contains", "not", "if", "then", "else", "items"], _check_schema
    ),
    **dict.fromkeys(["allOf", "anyOf", "oneOf", "prefixItems"], _schemas),
    **dict.fromkeys(["properties", "dependentSchemas", "$defs", "definitions"], _named_schemas),
    **dict.fromkeys(["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"], _number),
    **dict.fromkeys(["minContains", "maxContains"], _number),
    **dict.fromkeys(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"], _number),
    **dict.fromkeys(["enum", "required"], _any_list),
    "patternProperties": _patterned_schemas,
    "pattern": _pattern,
    "multipleOf": _positive,
    "type": _types,
    "dependentRequired": _lists,
    "$ref": _reference,
    "$id": _root_only,
    "const": _anything,
    "uniqueItems": _anything,
}
_KEYWORDS: Final = frozenset({*_ARGUMENTS, *_ANNOTATIONS})


def _place(at: str) -> str:
    return f" at {at}" if at else ""


def _text(value: JsonValue, at: str) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"{at} must be a text, not {shown(value)}")
    return value


def _list(value: JsonValue, at: str) -> list[JsonValue]:
    if not isinstance(value, list):
        raise ConfigError(f"{at} must be a list, not {shown(value)}")
    return value


def _map(value: JsonValue, at: str) -> dict[str, JsonValue]:
    if not isinstance(value, dict):
        raise ConfigError(f"{at} must be an object, not {shown(value)}")
    return value
