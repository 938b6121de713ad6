"""Structured output, answers that must fit an attrs class or a JSON schema: the schema for the model, the check, and the result."""

from __future__ import annotations

import json
import re
from functools import partial
from typing import TYPE_CHECKING, Final, Generic, NoReturn, TypeVar

import attrs

from engine.core.errors import ConfigError, InvalidArguments
from engine.core.events import TurnResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from engine.json_schema.keywords import JsonValue
    from engine.json_schema.parse_schema import JsonSchema

# The member that holds a value which is no object, and what its schema keeps at the root.
_MEMBER: Final = "value"
_SHARED: Final = ("$defs", "definitions")

T = TypeVar("T", bound=attrs.AttrsInstance)
_FENCE = re.compile(r"\A\s*```(?:json)?[^\S\n]*\n(.*)\n```\s*\Z", re.DOTALL)


@attrs.frozen(kw_only=True)
class StructuredResult(TurnResult, Generic[T]):
    """A `TurnResult` whose answer must fit a class; `value` is None if it does not."""

    value: T | None = None


@attrs.frozen
class OutputSpec:
    """What an answer must fit; made by `answer_schema`.

    Attributes:
        schema: the JSON schema, for the model.
        check: returns the JSON text of a valid answer, or what is wrong with it.
    """

    schema: str
    check: Callable[[str], tuple[str | None, str | None]]


def output_spec(output: type[attrs.AttrsInstance]) -> OutputSpec:
    """Return the schema of the class, and the check for answers."""
    # Imported here, as below: most turns answer in plain text.
    from engine.core.schema import schema_of

    return OutputSpec(schema_of(output), partial(_fitted, output))


def answer_schema(text: str) -> OutputSpec:
    """Return what answers must fit: a JSON Schema, draft 2020-12, as JSON text. For `Session.prompt`.

    Raises `ConfigError` for what is no schema, refers to another document, or has a keyword that can't be checked.
    """
    from engine.json_schema.parse_schema import parse_schema

    schema = parse_schema(text)
    is_object = isinstance(schema.root, dict) and schema.root.get("type") == "object"
    request = schema.root if is_object else _in_object(schema.root)
    return OutputSpec(json.dumps(request), partial(_fitted_value, schema, is_object=is_object))


def _in_object(root: JsonValue) -> JsonValue:
    """Return the schema of an object whose only member fits *root*: hosts accept nothing but objects."""
    members = dict(root) if isinstance(root, dict) else {}
    shared: dict[str, JsonValue] = {name: _moved(members.pop(name)) for name in _SHARED if name in members}
    member = _moved(members) if isinstance(root, dict) else root
    return {
        "type": "object",
        "properties": {_MEMBER: member},
        "required": [_MEMBER],
        "additionalProperties": False,
        **shared,
    }


def _moved(node: JsonValue) -> JsonValue:
    """Return a part of a schema whose references still hold, with the root one level deeper."""
    if isinstance(node, list):
        return [_moved(item) for item in node]
    if not isinstance(node, dict):
        return node
    out = {name: _moved(member) for name, member in node.items()}
    reference = node.get("$ref")
    if isinstance(reference, str) and not reference.startswith(tuple(f"#/{name}/" for name in _SHARED)):
        out["$ref"] = f"#/properties/{_MEMBER}{reference.removeprefix('#')}"
    return out


def _fitted_value(schema: JsonSchema, text: str, *, is_object: bool) -> tuple[str | None, str | None]:
    """Return the JSON of a valid answer, or what is wrong with it."""
    try:
        value: JsonValue = json.loads(_bare(text), parse_constant=_refuse_constant)
        # Asked for an object with one member; where the host did not hold the model to that, the value may come alone.
        if not is_object and isinstance(value, dict) and list(value) == [_MEMBER]:
            value = value[_MEMBER]
        problem = schema.problem(value)
        return (json.dumps(value), None) if problem is None else (None, problem)
    except RecursionError:
        return None, "it is nested too deeply"
    except ValueError as error:
        return None, f"it is not JSON: {error}"


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"JSON has no {name}")


def require_spec(value: object) -> OutputSpec | None:
    """Return *value* if it is what an answer must fit, or None. Raises `ConfigError`."""
    if value is not None and not isinstance(value, OutputSpec):
        raise ConfigError(f"output must be made by engine.options.answer_schema, not {value!r}")
    return value


def check_class(value: object) -> None:
    """Raise `ConfigError` unless it is an attrs class with a schema."""
    if not (isinstance(value, type) and attrs.has(value)):
        raise ConfigError(f"output must be an attrs class, not {value!r}")


def structured(output: type[T], result: TurnResult) -> StructuredResult[T]:
    """Return *result* with the value of its answer, if it is valid."""
    from engine.core.arguments import parse

    value = None if result.output is None else parse(output, result.output)
    return StructuredResult(value=value, **attrs.asdict(result, recurse=False))


def _fitted(output: type[attrs.AttrsInstance], text: str) -> tuple[str | None, str | None]:
    """Return the JSON of a valid answer, or what is wrong with it."""
    from engine.core.arguments import parse

    bare = _bare(text)
    try:
        parse(output, bare)
    except InvalidArguments as error:
        return None, str(error)
    return bare, None


def _bare(text: str) -> str:
    # Models put JSON into a fenced block even when asked for JSON only.
    match = _FENCE.match(text)
    return match.group(1) if match else text
