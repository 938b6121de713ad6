"""JSON schemas in the dialects that hosts accept, as pure transforms.

Every host accepts a subset of JSON Schema, and refuses the request or the tool for anything outside of it. A schema
is rewritten into that subset, as close to its meaning as possible. Rules that the subset lacks are dropped, so the
result may allow more than the original; the tool's own validation of its arguments decides.

For all dialects: `const` becomes an `enum` of one, `oneOf` becomes `anyOf`, `allOf` is merged, a tuple becomes an
array of its first item, every schema gets a type, objects get `properties` and arrays `items`; keywords that do not
apply to the type, or that the dialect does not list, are dropped.

- `openai`: only these.
- `moonshot`: `$ref` and `anyOf` stand alone, except for annotations.
- `gemini`: no references (they are inlined; a recursion ends in a plain object), `anyOf` stands alone, one type per
  schema, null is `nullable`, an `enum` holds strings.
- `gemini-json`: the JSON Schema of newer Gemini models: references; `$ref` and `anyOf` as for `moonshot`; of the
  validation keywords only those that Google lists.

Property names are never read as keywords, and data (`enum`, `default`) never as schemas.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

import attrs

from engine.core.value_base import Value
from engine.providers.wire.quirks import SchemaDialect
from engine.providers.wire.schema_keywords import (
    ANNOTATIONS,
    COMMON,
    applies_to,
    drop_malformed,
    has_any_keyword,
    infer_types,
    is_object_schema,
    merge_schemas,
    pick,
    required_names,
    types_of,
)
from engine.providers.wire.untrusted_json import Json, as_list, as_object, dumps, text

# Google documents these; with another one it refuses the whole request.
_GEMINI_FORMATS = {"date-time", "enum", "int32", "int64", "float", "double"}
_DEFS = ("$defs", "definitions")
# Bounds for schemas of untrusted servers: a few references can expand exponentially.
_MAX_DEPTH = 48
_MAX_INLINED = 500
_MAX_SCHEMAS = 5_000


@attrs.frozen(kw_only=True, eq=False, repr=False)
class _Rules(Value):
    """The rules of a dialect.

    Attributes:
        keywords: those it accepts; all others are dropped.
        has_refs: it accepts references to `$defs`.
        lone_ref: `$ref` allows no sibling keywords.
        lone_union: the only siblings that `anyOf` allows; None: any.
        is_gemini: one type per schema, `nullable`, enums of strings.
    """

    keywords: frozenset[str]
    has_refs: bool = True
    lone_ref: bool = False
    lone_union: tuple[str, ...] | None = None
    is_gemini: bool = False


_RULES: Mapping[SchemaDialect, _Rules] = {
    "openai": _Rules(keywords=COMMON),
    "moonshot": _Rules(keywords=COMMON, lone_ref=True, lone_union=ANNOTATIONS),
    "gemini-json": _Rules(
        keywords=COMMON
        - {"default", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "uniqueItems", "minProperties"}
        - {"maxProperties", "pattern", "format", "minLength", "maxLength"},
        lone_ref=True,
        lone_union=ANNOTATIONS,
    ),
    "gemini": _Rules(
        keywords=COMMON
        - {"$ref", "additionalProperties", "default", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"}
        - {"uniqueItems"}
        | {"nullable"},
        has_refs=False,
        lone_union=(),
        is_gemini=True,
    ),
}


def adapt(schema: Json, dialect: SchemaDialect) -> Json:
    """Return *schema*, of a tool or of an answer, in *dialect*. Does not change its argument."""
    rules = _RULES.get(dialect)
    return schema if rules is None else _Adapter(schema, rules).adapt()


@attrs.define(eq=False, repr=False)
class _Adapter:
    """Rewrites one schema."""

    root: Json
    rules: _Rules
    inlined: int = 0
    schemas: int = 0

    def adapt(self) -> Json:
        """Return the whole schema."""
        schema = drop_malformed(self.root)
        if "$ref" in schema:
            schema, _ = self._inline_ref(schema, ("#",))
        # A schema without a type is an object: tools have arguments, never a bare value.
        if not has_any_keyword(schema, ("type", "enum", "const", "anyOf", "oneOf", "allOf", "items", "prefixItems")):
            schema = {"type": "object"} | schema
        whole = self._schema(schema, ("#",))
        defs = {name: each for word in _DEFS for name, each in as_object(self.root.get(word)).items()}
        if self.rules.has_refs and defs:
            whole["$defs"] = {name: self._schema(each, (f"#/$defs/{name}",)) for name, each in defs.items()}
        # Once more, since merging may bring keywords that the dialect does not list.
        one = _merge_root_union(whole)
        return whole if one is whole else self._schema(one, ("#",)) | pick(whole, ("$defs",))

    def _schema(self, value: object, path: tuple[str, ...]) -> Json:
        """Rewrite a subschema; *path* is its position, including the references followed."""
        self.schemas += 1
        if len(path) > _MAX_DEPTH or self.schemas > _MAX_SCHEMAS:
            # Too deep or too large: the rest is any object.
            return self._write_schema({"type": "object"}, path)
        schema, path = self._simplify(as_object(value), path)
        choices = as_list(schema.get("anyOf"))
        if choices and self.rules.lone_union is not None:
            return self._union(schema, choices, path)
        if self.rules.is_gemini:
            if _has_several_types(schema):
                return self._union(schema, [{"type": name} for name in types_of(schema)], path)
            _make_gemini(schema)
        if "$ref" in schema and self.rules.lone_ref:
            return {"$ref": schema["$ref"]}
        return self._write_schema(schema, path)

    def _simplify(self, schema: Json, path: tuple[str, ...]) -> tuple[Json, tuple[str, ...]]:
        """Return an equivalent schema with fewer keywords, and its path."""
        schema = drop_malformed(schema)
        if "$ref" in schema and (reference := self._local_ref(schema)) is not None:
            schema = schema | {"$ref": reference}
        elif "$ref" in schema:
            schema, path = self._inline_ref(schema, path)
        schema, path = self._merge_all_of(schema, path)
        return _with_plain_keywords(schema), path

    def _merge_all_of(self, schema: Json, path: tuple[str, ...]) -> tuple[Json, tuple[str, ...]]:
        """Merge the parts of `allOf` into *schema*; return it and its path."""
        parts = as_list(schema.get("allOf"))
        is_alone = len(parts) == 1 and schema.keys() <= {"allOf", *ANNOTATIONS} and path != ("#",)
        for part in reversed(parts):
            whole, path = self._simplify(as_object(part), (*path, "allOf")) if len(path) < _MAX_DEPTH else ({}, path)
            if "$ref" in whole and not is_alone:
                whole, path = self._simplify(*self._inline_ref(whole, path))
            schema = merge_schemas(whole, schema)
        return {word: value for word, value in schema.items() if word != "allOf"}, path

    def _local_ref(self, schema: Json) -> str | None:
        """Return the reference if the dialect accepts it; None if it must be inlined."""
        reference = text(schema, "$ref")
        for word in _DEFS:
            name = reference.removeprefix(f"#/{word}/")
            if self.rules.has_refs and name != reference and name in as_object(self.root.get(word)):
                return f"#/$defs/{name}"
        return None

    def _inline_ref(self, schema: Json, path: tuple[str, ...]) -> tuple[Json, tuple[str, ...]]:
        """Inline the reference of *schema*; return the schema and its path."""
        siblings = {word: value for word, value in schema.items() if word != "$ref"}
        # Siblings of `$ref` count since draft 2019-09; before, they were ignored.
        reference = text(schema, "$ref")
        if not reference:
            return siblings, path
        self.inlined += 1
        # A recursion can't be inlined: it ends in any object.
        if reference in path or self.inlined > _MAX_INLINED or len(path) > _MAX_DEPTH:
            return {"type": "object"} | siblings, path
        return self._inline_ref(merge_schemas(self._resolve_pointer(reference), siblings), (*path, reference))

    def _resolve_pointer(self, reference: str) -> Json:
        """Resolve a JSON pointer; an empty schema if it points at nothing."""
        name = reference.removeprefix("#/$defs/")
        if name != reference and name in as_object(self.root.get("definitions")):
            reference = f"#/definitions/{name}"  # `definitions` is renamed to `$defs` in the output
        if reference == "#":
            return drop_malformed(self.root)
        place: object = self.root if reference.startswith("#/") else {}
        for step in reference.removeprefix("#/").split("/"):
            # As the JSON pointer standard requires: `~1` first, or `~01` would become a slash.
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            steps = {str(number): each for number, each in enumerate(as_list(place))} or as_object(place)
            place = steps.get(name)
        return drop_malformed(as_object(place))

    def _union(self, schema: Json, choices: list[object], path: tuple[str, ...]) -> Json:
        """Return a lone `anyOf`: its sibling keywords move into each choice."""
        kept = self.rules.lone_union or ()
        shared = {word: value for word, value in schema.items() if word not in {"anyOf", *kept}}
        written = self._choices(choices, shared, path)
        about = pick(schema, (word for word in kept if word in self.rules.keywords))
        # A union of one is no union; some hosts refuse it.
        if len(written) == 1 and "$ref" not in written[0]:
            return about | written[0]
        return about | {"anyOf": written}

    def _choices(self, choices: list[object], shared: Json, path: tuple[str, ...]) -> list[Json]:
        """Rewrite the choices of a lone `anyOf`; for Gemini, null becomes `nullable`."""
        schemas = [as_object(choice) for choice in choices]
        values = [each for each in schemas if types_of(each) != ["null"]] if self.rules.is_gemini else schemas
        written = [each for choice in values for each in self._choice(choice, shared, path)]
        if len(values) == len(choices):
            return written
        return [each | {"nullable": True} for each in written] or [{"type": "string", "nullable": True}]

    def _choice(self, choice: Json, shared: Json, path: tuple[str, ...]) -> list[Json]:
        """Rewrite a choice of a lone `anyOf`, with the sibling keywords *shared*; a nested `anyOf` is flattened."""
        own = drop_malformed(choice)
        base = {} if self._local_ref(own) is not None else shared
        each = self._schema(merge_schemas(base, own), (*path, "anyOf"))
        nested = as_list(each.get("anyOf")) if self.rules.is_gemini else []
        return [as_object(one) for one in nested] or [each]

    def _write_schema(self, schema: Json, path: tuple[str, ...]) -> Json:
        # A type is added where it can be inferred from the keywords: several hosts require one.
        types = types_of(schema) or ([] if "anyOf" in schema or "$ref" in schema else infer_types(schema))
        out: Json = {}
        for word, value in schema.items():
            if word in self.rules.keywords and applies_to(word, types) and word != "type":
                self._write_keyword(word, value, out, path)
        if types:
            out = {"type": types[0] if len(types) == 1 else types} | out
        self._complete(out, types, path)
        self._add_required(schema, out)
        return out

    def _add_required(self, schema: Json, out: Json) -> None:
        """Add `required` without the names that `properties` lacks: hosts refuse those."""
        if required := [name for name in required_names(schema) if name in as_object(out.get("properties"))]:
            out["required"] = required

    def _complete(self, out: Json, types: list[str], path: tuple[str, ...]) -> None:
        """Add the `properties` and `items` that hosts require."""
        if "object" in types and not out.get("properties"):
            out["properties"] = {}
            if self.rules.is_gemini:
                # Gemini refuses empty `properties`.
                del out["properties"]
        if "array" in types and "items" not in out:
            out["items"] = self._schema({}, (*path, "items"))

    def _write_keyword(self, word: str, value: object, out: Json, path: tuple[str, ...]) -> None:
        inner = (*path, word)
        match word:
            case "properties":
                out[word] = {name: self._schema(each, inner) for name, each in as_object(value).items()}
            case "items":
                out[word] = self._schema(value, inner)
            case "additionalProperties":
                out[word] = value if isinstance(value, bool) else self._schema(value, inner)
            case "anyOf":
                out[word] = [self._schema(each, inner) for each in as_list(value)]
            case "required":
                pass  # written last: only existing properties can be required
            case _:
                out[word] = value


def _with_plain_keywords(schema: Json) -> Json:
    """Return *schema* with `enum`, `anyOf` and `items` for `const`, `oneOf` and tuples."""
    if "const" in schema:
        schema = {"enum": [schema["const"]]} | schema
    if "oneOf" in schema:
        schema = {"anyOf": schema["oneOf"]} | schema
    if (tuple_items := as_list(schema.get("prefixItems") or schema.get("items"))) or schema.get("items") == []:
        schema = schema | {"items": next(iter(tuple_items), Json())}
    return schema


def _merge_root_union(whole: Json) -> Json:
    """Merge a root-level `anyOf` of objects into one object, which hosts require there."""
    choices = [_resolve_ref(as_object(each), whole) for each in as_list(whole.get("anyOf"))]
    if not choices or not all(is_object_schema(each) or is_object_schema(whole) for each in choices):
        return whole
    properties = {name: each for choice in choices for name, each in as_object(choice.get("properties")).items()}
    # The merged object allows more than the union, so the tool's own validation decides.
    merged: Json = {"type": "object", "properties": properties, "required": _required_by_all(choices)}
    rest = {word: value for word, value in whole.items() if word != "anyOf"}
    return merge_schemas(pick(choices[0], ANNOTATIONS) | merged, rest)


def _required_by_all(choices: Sequence[Json]) -> list[str]:
    """Return the properties that every choice requires: the union of objects requires only those."""
    first, *others = (required_names(choice) for choice in choices)
    return [name for name in first if all(name in names for names in others)]


def _resolve_ref(schema: Json, whole: Json) -> Json:
    for _ in range(_MAX_DEPTH):
        if "$ref" not in schema:
            break
        schema = as_object(as_object(whole.get("$defs")).get(text(schema, "$ref").removeprefix("#/$defs/")))
    return schema


def _has_several_types(schema: Json) -> bool:
    return "enum" not in schema and len([name for name in types_of(schema) if name != "null"]) > 1


def _make_gemini(schema: Json) -> None:
    """Change *schema* in place to one type, `nullable` and an enum of strings."""
    types = types_of(schema)
    values = as_list(schema.get("enum"))
    if "null" in types or None in values:
        schema["nullable"] = True
    if "enum" in schema:
        schema["type"] = "string"
        if strings := _enum_strings(values):
            schema["enum"] = strings
        else:
            del schema["enum"]
    elif types:
        schema["type"] = next((name for name in types if name != "null"), "string")
    if text(schema, "format") not in _GEMINI_FORMATS:
        schema.pop("format", None)
    if schema.get("nullable") is not True:
        schema.pop("nullable", None)


def _enum_strings(values: list[object]) -> list[str]:
    """Return the values of an enum as strings, each once. Gemini refuses empty strings."""
    strings = [each if isinstance(each, str) else dumps(each) for each in values if each is not None]
    return list(dict.fromkeys(each for each in strings if each))
