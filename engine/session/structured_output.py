"""Structured output, answers that must fit an attrs class: the schema for the model, the check, and the result."""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

import attrs

from engine.core.errors import ConfigError, InvalidArguments
from engine.core.events import TurnResult

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T", bound=attrs.AttrsInstance)
_FENCE = re.compile(r"\A\s*```(?:json)?[^\S\n]*\n(.*)\n```\s*\Z", re.DOTALL)


@attrs.frozen(kw_only=True)
class StructuredResult(TurnResult, Generic[T]):
    """A `TurnResult` whose answer must fit a class; `value` is None if it does not."""

    value: T | None = None


@attrs.frozen
class OutputSpec:
    """The class that an answer must fit.

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

    # Models put JSON into a fenced block even when asked for JSON only.
    match = _FENCE.match(text)
    bare = match.group(1) if match else text
    try:
        parse(output, bare)
    except InvalidArguments as error:
        return None, str(error)
    return bare, None
