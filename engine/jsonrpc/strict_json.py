"""JSON from outside, read strictly: no duplicate names, no NaN, and limits on its size and nesting."""

from __future__ import annotations

import json
from collections import Counter
from typing import NoReturn, cast

import attrs

from engine.core.schema import Json


@attrs.frozen(kw_only=True)
class RpcLimits:
    """How much one message, one batch and one connection may hold.

    Attributes:
        bytes: the maximum size of a message.
        nesting: how deep lists and objects may be nested.
        batch: the maximum number of messages in one batch.
        id_chars: the maximum length of a request's id.
        in_flight: how many requests may run at once.
    """

    bytes: int = 1 << 20
    nesting: int = 64
    batch: int = 32
    id_chars: int = 64
    in_flight: int = 64


class BadJson(ValueError):
    """This is not JSON, or not acceptable as JSON."""


class FrameTooLarge(BadJson):
    """The message is too large, or nested too deeply.

    Attributes:
        limit: how large, or how deep, it may be.
    """

    def __init__(self, message: str, *, limit: int) -> None:
        super().__init__(message)
        self.limit = limit


def read_json(text: str | bytes, limits: RpcLimits) -> Json:
    """Return the value that *text* holds. Raises `BadJson`, `FrameTooLarge`."""
    # A character is at least one byte; counting the bytes of a text would mean to encode it.
    if len(text) > limits.bytes:
        raise FrameTooLarge(f"a message has at most {limits.bytes} bytes", limit=limits.bytes)
    try:
        decoded = text if isinstance(text, str) else text.decode()
        value: object = json.loads(
            decoded, parse_constant=_no_constant, parse_float=_finite_float, object_pairs_hook=_distinct
        )
    except RecursionError as error:
        raise _too_deep(limits) from error
    except ValueError as error:
        raise BadJson(f"this is not JSON: {error}"[:200]) from error
    parsed = cast("Json", value)
    if _is_deeper(parsed, limits.nesting):
        raise _too_deep(limits)
    return parsed


def _too_deep(limits: RpcLimits) -> FrameTooLarge:
    return FrameTooLarge(f"a message is nested at most {limits.nesting} levels deep", limit=limits.nesting)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


def _finite_float(text: str) -> float:
    value = float(text)
    # 1e999 is correct JSON, but would be an infinity here, and could not be written again.
    if value in {float("inf"), float("-inf")}:
        raise ValueError(f"the number {text[:20]} is too large")
    return value


def _distinct(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    value = dict(pairs)
    if len(value) < len(pairs):
        # Counted in one pass: looking through all names for each of them takes minutes for one message.
        twice = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"the name {twice!r} appears twice")
    return value


def _is_deeper(value: Json, most: int) -> bool:
    """Return whether *value* has more than *most* levels of lists and objects. Level by level, without recursion."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(most):
        inner: list[dict[str, Json] | list[Json]] = []
        for container in level:
            items = container.values() if isinstance(container, dict) else container
            inner.extend([item for item in items if isinstance(item, (dict, list))])
        if not inner:
            return False
        level = inner
    return bool(level)
