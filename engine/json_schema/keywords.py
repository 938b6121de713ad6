"""The keywords of JSON Schema: for each one, what is wrong with a value. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias, cast

JsonValue: TypeAlias = "str | int | float | bool | list[JsonValue] | dict[str, JsonValue] | None"


class Checker(Protocol):
    """The schema as a whole."""

    def is_valid(self, schema: JsonValue, value: JsonValue, /) -> bool:
        """Return whether *value* fits a part of the schema."""
        ...

    def resolve(self, reference: str, /) -> JsonValue:
        """Return the part of the schema that a local reference names."""
        ...

    def here(self, schema: JsonValue, value: JsonValue, at: str, /) -> Iterator[str]:
        """Yield what is wrong with the same value by another part of the schema."""
        ...

    def below(self, schema: JsonValue, value: JsonValue, at: str, name: str | int, /) -> Iterator[str]:
        """Yield what is wrong with a member or an item."""
        ...


# Yields what is wrong with a value, by the keyword's argument and the schema that holds it; the last is the value's place.
Check: TypeAlias = Callable[[Checker, JsonValue, dict[str, JsonValue], JsonValue, str], Iterator[str]]

TYPES: Final[Mapping[str, Callable[[object], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: is_number(value) and float(cast("float", value)).is_integer(),
    "number": lambda value: is_number(value),  # noqa: PLW0108 - defined below
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
_MAX_SHOWN: Final = 80


def _type(_: Checker, argument: JsonValue, __: object, value: JsonValue, at: str) -> Iterator[str]:
    names = cast("list[str]", argument if isinstance(argument, list) else [argument])
    if not any(TYPES[name](value) for name in names):
        yield _wrong(at, value, f"must be of type {' or '.join(names)}")


def _enum(_: Checker, argument: JsonValue, __: object, value: JsonValue, at: str) -> Iterator[str]:
    choices = cast("list[JsonValue]", argument)
    if not any(_equal(value, choice) for choice in choices):
        yield _wrong(at, value, f"must be one of {shown(choices)}")


def _const(_: Checker, argument: JsonValue, __: object, value: JsonValue, at: str) -> Iterator[str]:
    if not _equal(value, argument):
        yield _wrong(at, value, f"must be {shown(argument)}")


def _bound(is_within: Callable[[float, float], bool], text: str) -> Check:
    def check(_: Checker, argument: JsonValue, __: object, value: JsonValue, at: str) -> Iterator[str]:
        if is_number(value) and not is_within(cast("float", value), cast("float", argument)):
            yield _wrong(at, value, f"must be {text} {argument}")

    return check


def _size(kind: type, is_within: Callable[[float, float], bool], text: str) -> Check:
    def check(_: Checker, argument: JsonValue, __: object, value: JsonValue, at: str) -> Iterator[str]:
        if isinstance(value, kind) and not is_within(len(cast("str", value)), cast("float", argument)):
            yield _wrong(at, value, text.format(argument))

    return check


def _at_least(value: float, bound: float) -> bool:
    return value >= bound


def _at_most(value: float, bound: float) -> bool:
    return value <= bound


def _is_multiple(value: float, of: float) -> bool:
    # Decimal fractions are not exact in binary: 0.3 is a multiple of 0.1.
    return value == 0 or abs(value / of - round(value / of)) < 1e-9


def _pattern(_: Checker, argument: JsonValue, __: object, value: JsonValue, at: str) -> Iterator[str]:
    if isinstance(value, str) and not re.search(cast("str", argument), value):
        yield _wrong(at, value, f"must match {shown(argument)}")


def _properties(whole: Checker, argument: JsonValue, _: object, value: JsonValue, at: str) -> Iterator[str]:
    members = cast("dict[str, JsonValue]", argument)
    if isinstance(value, dict):
        for name, part in members.items():
            if name in value:
                yield from whole.below(part, value[name], at, name)


def _pattern_properties(whole: Checker, argument: JsonValue, _: object, value: JsonValue, at: str) -> Iterator[str]:
    if isinstance(value, dict):
        for pattern, part in cast("dict[str, JsonValue]", argument).items():
            for name, member in value.items():
                if re.search(pattern, name):
                    yield from whole.below(part, member, at, name)


def _additional_properties(
    whole: Checker, argument: JsonValue, schema: dict[str, JsonValue], value: JsonValue, at: str
) -> Iterator[str]:
    if not isinstance(value, dict):
        return
    named = cast("dict[str, JsonValue]", schema.get("properties", {}))
    patterns = list(cast("dict[str, JsonValue]", schema.get("patternProperties", {})))
    for name, member in value.items():
        if name in named or any(re.search(pattern, name) for pattern in patterns):
            continue
        if argument is False:
            yield f"{at or 'the value'} must not have a member {shown(name)}"
        else:
            yield from whole.below(argument, member, at, name)


def _property_names(whole: Checker, argument: JsonValue, _: object, value: JsonValue, at: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in value:
            yield from whole.below(argument, name, at, name)


def _required(_: Checker, argument: JsonValue, __: object, value: JsonValue, at: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in cast("list[str]", argument):
            if name not in value:
                yield f"{at or 'the value'} lacks the member {shown(name)}"


def _dependent_required(_: Checker, argument: JsonValue, __: object, value: JsonValue, at: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, others in cast("dict[str, list[str]]", argument).items():
            for other in others if name in value else []:
                if other not in value:
                    yield f"{at or 'the value'} has {shown(name)}, but lacks {shown(other)}"


def _dependent_schemas(whole: Checker, argument: JsonValue, _: object, value: JsonValue, at: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name, part in cast("dict[str, JsonValue]", argument).items():
            if name in value:
                yield from whole.here(part, value, at)


def _prefix_items(whole: Checker, argument: JsonValue, _: object, value: JsonValue, at: str) -> Iterator[str]:
    if isinstance(value, list):
        for index, (part, item) in enumerate(zip(cast("list[JsonValue]", argument), value, strict=False)):
            yield from whole.below(part, item, at, index)


def _items(
    whole: Checker, argument: JsonValue, schema: dict[str, JsonValue], value: JsonValue, at: str
) -> Iterator[str]:
    if isinstance(value, list):
        first = len(cast("list[JsonValue]", schema.get("prefixItems", [])))
        for index, item in enumerate(value[first:], first):
            yield from whole.below(argument, item, at, index)


def _contains(
    whole: Checker, argument: JsonValue, schema: dict[str, JsonValue], value: JsonValue, at: str
) -> Iterator[str]:
    if not isinstance(value, list):
        return
    count = sum(whole.is_valid(argument, item) for item in value)
    least, most = cast("int", schema.get("minContains", 1)), cast("float", schema.get("maxContains", float("inf")))
    if not least <= count <= most:
        yield f"{at or 'the value'} has {count} items of the kind that it must contain"


def _unique(_: Checker, argument: JsonValue, __: object, value: JsonValue, at: str) -> Iterator[str]:
    if argument is True and isinstance(value, list):
        texts = [_canonical(item) for item in value]
        if len(set(texts)) < len(texts):
            yield f"{at or 'the value'} must not hold an item twice"


def _all_of(whole: Checker, argument: JsonValue, _: object, value: JsonValue, at: str) -> Iterator[str]:
    for part in cast("list[JsonValue]", argument):
        yield from whole.here(part, value, at)


def _any_of(whole: Checker, argument: JsonValue, _: object, value: JsonValue, at: str) -> Iterator[str]:
    parts = cast("list[JsonValue]", argument)
    problems = [next(whole.here(part, value, at), None) for part in parts]
    if None not in problems:
        yield f"{at or 'the value'} fits none of {len(parts)} choices: {'; '.join(filter(None, problems))}"


def _one_of(whole: Checker, argument: JsonValue, _: object, value: JsonValue, at: str) -> Iterator[str]:
    parts = cast("list[JsonValue]", argument)
    fitting = sum(whole.is_valid(part, value) for part in parts)
    if fitting == 0:
        yield from _any_of(whole, argument, _, value, at)
    elif fitting > 1:
        yield f"{at or 'the value'} fits {fitting} of {len(parts)} choices, not one"


def _not(whole: Checker, argument: JsonValue, _: object, value: JsonValue, at: str) -> Iterator[str]:
    if whole.is_valid(argument, value):
        yield _wrong(at, value, "is what must not be here")


def _if(whole: Checker, argument: JsonValue, schema: dict[str, JsonValue], value: JsonValue, at: str) -> Iterator[str]:
    branch = "then" if whole.is_valid(argument, value) else "else"
    yield from whole.here(schema.get(branch, True), value, at)


def _ref(whole: Checker, argument: JsonValue, _: object, value: JsonValue, at: str) -> Iterator[str]:
    yield from whole.here(whole.resolve(cast("str", argument)), value, at)


def _nothing(_: Checker, __: JsonValue, ___: object, ____: JsonValue, _____: str) -> Iterator[str]:
    """Another keyword reads this one."""
    return iter(())


CHECKS: Final[Mapping[str, Check]] = {
    "type": _type,
    "enum": _enum,
    "const": _const,
    "minimum": _bound(_at_least, "at least"),
    "maximum": _bound(_at_most, "at most"),
    "exclusiveMinimum": _bound(lambda value, bound: value > bound, "more than"),
    "exclusiveMaximum": _bound(lambda value, bound: value < bound, "less than"),
    "multipleOf": _bound(_is_multiple, "a multiple of"),
    "minLength": _size(str, _at_least, "must have at least {} characters"),
    "maxLength": _size(str, _at_most, "must have at most {} characters"),
    "minItems": _size(list, _at_least, "must have at least {} items"),
    "maxItems": _size(list, _at_most, "must have at most {} items"),
    "minProperties": _size(dict, _at_least, "must have at least {} members"),
    "maxProperties": _size(dict, _at_most, "must have at most {} members"),
    "pattern": _pattern,
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional_properties,
    "propertyNames": _property_names,
    "required": _required,
    "dependentRequired": _dependent_required,
    "dependentSchemas": _dependent_schemas,
    "prefixItems": _prefix_items,
    "items": _items,
    "contains": _contains,
    "minContains": _nothing,
    "maxContains": _nothing,
    "uniqueItems": _unique,
    "allOf": _all_of,
    "anyOf": _any_of,
    "oneOf": _one_of,
    "not": _not,
    "if": _if,
    "then": _nothing,
    "else": _nothing,
    "$ref": _ref,
}


# -- values ----------------------------------------------------------------------------------------


def is_number(value: object) -> bool:
    """Return whether a value is a number; JSON's booleans are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _equal(one: JsonValue, other: JsonValue) -> bool:
    # In Python True is 1; in JSON it is not.
    return _canonical(one) == _canonical(other)


def _canonical(value: JsonValue) -> str:
    def whole(node: JsonValue) -> JsonValue:
        match node:
            case float() if node.is_integer():
                return int(node)
            case list():
                return [whole(item) for item in node]
            case dict():
                return {name: whole(member) for name, member in node.items()}
            case _:
                return node

    return json.dumps(whole(value), sort_keys=True)


def _wrong(at: str, value: JsonValue, rule: str) -> str:
    return f"{at or 'the value'} {rule}, not {shown(value)}"


def shown(value: JsonValue) -> str:
    """Return a value as JSON, cut short."""
    text = json.dumps(value)
    return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"
