"""JSON Schema keywords, and properties of a single schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engine.providers.wire.untrusted_json import Json, as_list, as_object, is_object

_OBJECT_WORDS = ("properties", "required", "additionalProperties", "minProperties", "maxProperties")
_ARRAY_WORDS = ("items", "minItems", "maxItems", "uniqueItems")
_STRING_WORDS = ("pattern", "format", "minLength", "maxLength")
_NUMBER_WORDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
ANNOTATIONS = ("title", "description", "default")
_TYPES: Mapping[str, tuple[str, ...]] = {
    "object": _OBJECT_WORDS,
    "array": _ARRAY_WORDS,
    "string": _STRING_WORDS,
    "number": _NUMBER_WORDS,
    "integer": _NUMBER_WORDS,
    "boolean": (),
    "null": (),
}
COMMON = frozenset(
    {"type", "enum", "anyOf", "$ref", *ANNOTATIONS, *_OBJECT_WORDS, *_ARRAY_WORDS, *_STRING_WORDS, *_NUMBER_WORDS}
)


def pick(schema: Json, words: Iterable[str]) -> Json:
    """Return the members of *schema* that are in *words*."""
    return {word: schema[word] for word in words if word in schema}


def drop_malformed(schema: Json) -> Json:
    """Return *schema* without keywords that have a value of the wrong type."""
    return {word: value for word, value in schema.items() if _is_well_formed(word, value)}


def _is_well_formed(word: str, value: object) -> bool:
    match word:
        case "anyOf" | "oneOf" | "allOf" | "prefixItems" | "enum":
            return bool(as_list(value))
        case "properties":
            return is_object(value)
        case "$ref":
            return isinstance(value, str) and bool(value)
        case _:
            return True


def merge_schemas(under: Json, over: Json) -> Json:
    """Merge two schemas; on a conflict *over* wins."""
    out = under | over
    if "properties" in under and "properties" in over:
        out["properties"] = as_object(under["properties"]) | as_object(over["properties"])
    if required := list(dict.fromkeys([*required_names(under), *required_names(over)])):
        out["required"] = required
    return out


def is_object_schema(schema: Json) -> bool:
    """Return whether *schema* allows only objects."""
    return types_of(schema) == ["object"] or ("properties" in schema and not types_of(schema))


def required_names(schema: Json) -> list[str]:
    """Return the required property names."""
    return [name for name in as_list(schema.get("required")) if isinstance(name, str)]


def types_of(schema: Json) -> list[str]:
    """Return the declared types, each once."""
    value: object = schema.get("type")
    names = as_list(value) or [value]
    return list(dict.fromkeys(name for name in names if isinstance(name, str) and name in _TYPES))


def infer_types(schema: Json) -> list[str]:
    """Infer the types of a schema that declares none."""
    values = as_list(schema.get("enum"))
    if values:
        return list(dict.fromkeys(_type_of(value) for value in values))
    return [
        next(
            (name for name in ("object", "array", "string", "number") if has_any_keyword(schema, _TYPES[name])),
            "string",
        )
    ]


def has_any_keyword(schema: Json, words: Iterable[str]) -> bool:
    """Return whether *schema* has any of the keywords *words*."""
    return any(word in schema for word in words)


def _type_of(value: object) -> str:
    match value:
        case bool():
            return "boolean"
        case None:
            return "null"
        case str():
            return "string"
        case int():
            return "integer"
        case float():
            return "number"
        case list():
            return "array"
        case _:
            return "object"


def applies_to(word: str, types: list[str]) -> bool:
    """Return whether the keyword *word* applies to one of *types*."""
    return (
        not types or any(word in _TYPES[name] for name in types) or not any(word in words for words in _TYPES.values())
    )
