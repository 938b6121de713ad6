"""Arguments of a call: JSON text to an attrs instance, strictly, or a text which asks to rewrite them.

cattrs is imported at the first call, so that importing the engine stays cheap.
"""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import attrs

from engine.errors import InvalidArguments

if TYPE_CHECKING:
    from cattrs import Converter

MAX_ISSUES = 5
MAX_ISSUE_CHARS = 100
SHOWN_CHARS = 200

A = TypeVar("A", bound=attrs.AttrsInstance)


def parse(cls: type[A], arguments: str) -> A:
    """Return *arguments* as an instance of *cls*. Raises `InvalidArguments`, whose text is for the model."""
    try:
        # A call without arguments streams nothing at all at some hosts.
        value: object = json.loads(arguments or "{}")
    except (ValueError, RecursionError) as error:
        shown = arguments[:SHOWN_CHARS]
        raise InvalidArguments(f"the arguments are not valid JSON ({error}). They begin with: {shown}") from error
    if not isinstance(value, dict):
        raise InvalidArguments(f"the arguments must be a JSON object, not {type(value).__name__}")
    return structure(cls, typing.cast("dict[str, object]", value))


def structure(cls: type[A], value: dict[str, object]) -> A:
    """Return a JSON object as an instance of *cls*. Raises `InvalidArguments`."""
    from cattrs.errors import BaseValidationError, ForbiddenExtraKeysError
    from cattrs.v import format_exception

    def describe(error: BaseException, expected: type | None) -> str:
        if isinstance(error, ForbiddenExtraKeysError):
            known = ", ".join(field.alias or field.name for field in attrs.fields(cls))
            return f"unknown fields {', '.join(sorted(error.extra_fields))} (known: {known})"
        if isinstance(error, (ValueError, TypeError)) and str(error):
            return str(error)
        return format_exception(error, expected)

    from cattrs import transform_error

    try:
        return _converter().structure(value, cls)
    except (BaseValidationError, ValueError, TypeError) as error:
        issues = [issue[:MAX_ISSUE_CHARS] for issue in transform_error(error, format_exception=describe)]
        more = f"\n(and {len(issues) - MAX_ISSUES} more)" if len(issues) > MAX_ISSUES else ""
        raise InvalidArguments("\n".join(issues[:MAX_ISSUES]) + more) from error


@lru_cache(maxsize=1)
def _converter() -> Converter:
    from cattrs import Converter
    from cattrs.gen import make_dict_structure_fn

    converter = Converter(forbid_extra_keys=True, detailed_validation=True)
    # cattrs' own hooks coerce (5 becomes "5"); a model should be told instead.
    for kind in (str, int, float, bool):
        converter.register_structure_hook(kind, _strict)
    converter.register_structure_hook_func(_is_union_of_primitives, _strict_union)

    def structure_fields(cls: type[attrs.AttrsInstance]) -> Callable[[Mapping[str, object], object], object]:
        return make_dict_structure_fn(cls, converter, _cattrs_forbid_extra_keys=True, _cattrs_use_alias=True)

    converter.register_structure_hook_factory(attrs.has, structure_fields)
    return converter


def _strict(value: object, kind: type) -> object:
    if kind is float and type(value) is int:
        return float(value)
    if type(value) is not kind:
        raise ValueError(f"expected {kind.__name__}, got {type(value).__name__}")
    return value


def _is_union_of_primitives(kind: object) -> bool:
    if typing.get_origin(kind) not in {typing.Union, types.UnionType}:
        return False
    return all(arg in {str, int, float, bool, type(None)} for arg in typing.get_args(kind))


def _strict_union(value: object, kind: object) -> object:
    allowed = typing.get_args(kind)
    if type(value) in allowed:
        return value
    if float in allowed and type(value) is int:
        return float(value)
    names = " or ".join("null" if arg is type(None) else str(arg.__name__) for arg in allowed)
    raise ValueError(f"expected {names}, got {type(value).__name__}")
