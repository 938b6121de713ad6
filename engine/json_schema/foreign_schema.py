"""Schemas that strangers have written, such as those of MCP servers: bounded, made regular, and checked against.

A stranger's schema may be a bomb, a draft of years ago, or nonsense. What is malformed, too large, or refers to another
document is refused: hosts would refuse it too, and with it the whole request. Older drafts are brought to 2020-12. What is
unknown here, or can't be checked in bounded time, is dropped, as the draft has it: the stranger checks its arguments again.

Pure: no file, no network. A check takes at most a fixed number of steps; an argument that would take more counts as valid.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, cast

import attrs

from engine.core.errors import ConfigError, InvalidArguments
from engine.core.lazy import regex
from engine.json_schema.clean_text import clean_text, has_hidden
from engine.json_schema.keywords import JsonValue
from engine.json_schema.parse_schema import JsonSchema, check_schema
from engine.json_schema.repair_value import repair

MAX_BYTES: Final = 262_144
MAX_DEPTH: Final = 64
MAX_SCHEMAS: Final = 2_000
MAX_ISSUES: Final = 5
MAX_ISSUE_CHARS: Final = 200
SHOWN_CHARS: Final = 200
# Of one check, apart from what the size of the value accounts for: about 20 ms.
_STEPS: Final = 20_000

_SCHEMAS: Final = frozenset({"additionalProperties", "propertyNames", "contains", "not", "if", "then", "else", "items"})
_SCHEMA_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SCHEMA_MAPS: Final = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
_ANNOTATIONS: Final = frozenset({"title", "description", "default", "examples", "deprecated", "format"})
_ASSERTIONS: Final = frozenset(
    {
        *("type", "enum", "const", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        *("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains"),
        *("maxContains", "required", "dependentRequired", "uniqueItems", "$ref"),
    }
)
# What a model reads.
_WORDS: Final = frozenset({"title", "description"})
# What may be left out: it refuses no arguments, or the stranger checks it as well.
_OPTIONAL: Final = (_ANNOTATIONS - _WORDS) | {"pattern"}
_KEPT: Final = _SCHEMA_LISTS | _SCHEMA_MAPS | _ANNOTATIONS | _ASSERTIONS | {"pattern"}
# Python's engine backtracks, and holds the whole process meanwhile: patterns and texts that could take it long are left to
# the stranger. Not looked at by its grammar: what looks like a repetition counts, also in a class of characters.
_REPEATED_GROUP: Final = regex(r"\)[*+{]|\\[1-9]|\(\?P=")
_REPEAT: Final = regex(r"[*+]|,\d*\}")
_OPTION: Final = regex(r"(?<!\()\?|\|")
_MAX_PATTERN_CHARS: Final = 200
_MAX_REPEATS: Final = 2
_MAX_OPTIONS: Final = 6
_MAX_MATCHED_CHARS: Final = 2_000
_PATTERNED: Final = frozenset({"pattern", "patternProperties", "additionalProperties"})


class _TooMuchWork(Exception):  # it never leaves this module
    pass


@attrs.frozen(eq=False, repr=False)
class _BoundedSchema(JsonSchema):
    """A schema whose checks take a bounded number of steps."""

    left: list[int] = attrs.field(factory=lambda: [_STEPS])

    def _problems(self, schema: JsonValue, value: JsonValue, at: str) -> Iterator[str]:
        self.left[0] -= 1
        if self.left[0] < 0:
            raise _TooMuchWork
        return super()._problems(_quick_part(schema, value), value, at)


@attrs.frozen(eq=False, repr=False)
class ForeignSchema:
    """The schema of a tool's arguments, or of its result; made by `parse_foreign_schema`.

    Attributes:
        root: the schema, in draft 2020-12. That of arguments has the type object.
    """

    root: dict[str, JsonValue]

    @property
    def text(self) -> str:
        """The schema as JSON text."""
        return json.dumps(self.root, ensure_ascii=False, separators=(",", ":"))

    def parse(self, arguments: str) -> tuple[dict[str, JsonValue], str, tuple[str, ...]]:
        """Return the arguments of a call, their JSON text, and what was repaired in them.

        Raises `InvalidArguments`, whose text is for the model.
        """
        value = _loaded(arguments)
        issues = self._issues(value, len(arguments))
        if not issues:
            return value, arguments, ()
        mended, notes = repair(JsonSchema(self.root), value)
        if notes and not self._issues(mended, len(arguments)):
            return mended, json.dumps(mended, ensure_ascii=False), notes
        # The issues of the original, not of the repaired value, which the model has never seen.
        raise InvalidArguments("\n".join(issues))

    def problem(self, value: JsonValue) -> str:
        """Return what is wrong with a value; empty: nothing, or nothing that is found in a bounded number of steps."""
        return next(iter(self._issues(value, len(json.dumps(value)))), "")

    def _issues(self, value: JsonValue, size: int) -> list[str]:
        # The size of the value counts on top: a long list of numbers is no bomb.
        checked = _BoundedSchema(self.root, [_STEPS + 4 * size])
        try:
            return [issue[:MAX_ISSUE_CHARS] for issue in islice(checked.problems(value), MAX_ISSUES)]
        except _TooMuchWork:
            return []
        except RecursionError:
            return ["the arguments are nested too deeply"]


def parse_foreign_schema(text: str, *, of_result: bool = False) -> ForeignSchema:
    """Parse the schema of a stranger's tool. Raises `ConfigError`, which says why it can't be used.

    That of a result may have another type than an object.

    It takes up to a few milliseconds; for many schemas use a thread.
    """
    if len(text) > MAX_BYTES or len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise ConfigError(f"its schema is larger than {MAX_BYTES // 1024} KiB")
    try:
        root = cast("JsonValue", json.loads(text, parse_constant=_refuse_constant))
    except ValueError as error:
        raise ConfigError(f"its schema is not JSON: {error}") from error
    except RecursionError as error:
        raise ConfigError("its schema is nested too deeply") from error
    if not isinstance(root, dict):
        raise ConfigError("its schema is not an object")
    if not of_result and root.get("type", "object") != "object":
        raise ConfigError(f"its schema must have the type object, not {json.dumps(root['type'])[:80]}")
    tidied = cast("dict[str, JsonValue]", _Tidier().tidy(root, 0))
    # Names and values can't be changed, or calls would not fit; a model would read in them what the user has not seen.
    if not of_result and has_hidden(tidied):
        raise ConfigError("its schema has characters that can't be seen, in a name or a value")
    whole: dict[str, JsonValue] = tidied if of_result else {"type": "object", **tidied}
    try:
        check_schema(_BoundedSchema(whole))
    except _TooMuchWork as error:
        raise ConfigError("its schema takes too long to check") from error
    return ForeignSchema(whole)


@attrs.define(eq=False, repr=False)
class _Tidier:
    """Makes a schema regular; counts its parts."""

    count: int = 0

    def tidy(self, node: JsonValue, depth: int) -> JsonValue:
        """Return a schema in draft 2020-12, without what can't be checked. Raises `ConfigError`."""
        if depth > MAX_DEPTH:
            raise ConfigError(f"its schema is nested more than {MAX_DEPTH} levels deep")
        self.count += 1
        if self.count > MAX_SCHEMAS:
            raise ConfigError(f"its schema has more than {MAX_SCHEMAS:,} parts")
        if not isinstance(node, dict):
            return node
        out: dict[str, JsonValue] = {}
        for word, argument in _modern(node).items():
            if word in _OPTIONAL and has_hidden(argument):
                continue
            kept = self._keyword(word, argument, depth + 1)
            if kept is not None or word in {"const", "default"}:
                out[word] = kept
        return out

    def _keyword(self, word: str, argument: JsonValue, depth: int) -> JsonValue:
        """Return the argument of a keyword; None to drop it."""
        if word in _SCHEMAS:
            return self.tidy(argument, depth)
        if word in _SCHEMA_LISTS and isinstance(argument, list):
            return [self.tidy(part, depth) for part in argument]
        if word in _SCHEMA_MAPS and isinstance(argument, dict):
            return self._members(word, argument, depth)
        if isinstance(argument, str):
            return _text(word, argument)
        # Wrong arguments are left to the check; unknown words mean nothing.
        _check_data(argument, depth)
        return argument if word in _KEPT else None

    def _members(self, word: str, parts: dict[str, JsonValue], depth: int) -> JsonValue:
        is_pattern = word == "patternProperties"
        return {name: self.tidy(part, depth) for name, part in parts.items() if not is_pattern or _is_quick(name)}


def _text(word: str, argument: str) -> JsonValue:
    """Return a text that a keyword has; None to drop it."""
    if word in _WORDS:
        return clean_text(argument)
    return argument if word in _KEPT and (word != "pattern" or _is_quick(argument)) else None


def _modern(node: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a schema with the keywords of older drafts rewritten."""
    out = dict(node)
    if isinstance(items := out.get("items"), list):
        out["prefixItems"] = items
        out["items"] = out.pop("additionalItems", True)
    _modernise_bounds(out)
    if isinstance(dependencies := out.pop("dependencies", None), dict):
        out["dependentRequired"] = {name: part for name, part in dependencies.items() if isinstance(part, list)}
        out["dependentSchemas"] = {name: part for name, part in dependencies.items() if not isinstance(part, list)}
    if out.pop("nullable", False) is True and isinstance(kind := out.get("type"), str):
        out["type"] = [kind, "null"]
    return out


def _modernise_bounds(schema: dict[str, JsonValue]) -> None:
    """Replace a boolean `exclusiveMinimum`, which made the bound next to it an exclusive one."""
    for word, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(schema.get(word), bool):
            is_exclusive = schema.pop(word)
            if is_exclusive and bound in schema:
                schema[word] = schema.pop(bound)


def _is_quick(pattern: str) -> bool:
    """Return whether Python can match a pattern, and in bounded time whatever the text is."""
    repeats = len(_REPEAT.findall(pattern)) + (not pattern.startswith("^"))
    if len(pattern) > _MAX_PATTERN_CHARS or _REPEATED_GROUP.search(pattern) is not None:
        return False
    if repeats > _MAX_REPEATS or len(_OPTION.findall(pattern)) > _MAX_OPTIONS:
        return False
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


def _quick_part(schema: JsonValue, value: JsonValue) -> JsonValue:
    """Return *schema* without its patterns if they would be matched against a long text."""
    if not isinstance(schema, dict) or not isinstance(value, (str, dict)):
        return schema
    if not _PATTERNED.isdisjoint(schema):
        longest = len(value) if isinstance(value, str) else max(map(len, value), default=0)
        if longest > _MAX_MATCHED_CHARS:
            return {word: argument for word, argument in schema.items() if word not in _PATTERNED}
    return schema


def _check_data(value: JsonValue, depth: int) -> None:
    """Raise `ConfigError` if a value is nested too deeply."""
    if depth > MAX_DEPTH:
        raise ConfigError(f"its schema is nested more than {MAX_DEPTH} levels deep")
    if isinstance(value, (list, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            _check_data(item, depth + 1)


def _loaded(arguments: str) -> dict[str, JsonValue]:
    try:
        # Some hosts send no text at all for a call without arguments.
        value = cast("JsonValue", json.loads(arguments or "{}", parse_constant=_refuse_constant))
    except (ValueError, RecursionError) as error:
        raise InvalidArguments(
            f"the arguments are not valid JSON ({error}). They begin with: {arguments[:SHOWN_CHARS]}"
        ) from error
    if not isinstance(value, dict):
        raise InvalidArguments("the arguments must be a JSON object")
    return value


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no JSON")
