"""`Value`: equality, hash and repr for the engine's many small values, written once.

attrs generates these methods for every class, as source text that is compiled at each import. The hundred events, hook
payloads and stream events are hardly ever compared, and generating them would make the import half as long again. So
they are
defined with `eq=False, repr=False` and inherit from `Value`.
"""

from __future__ import annotations

from typing import cast

import attrs


class Value:
    """The base of attrs classes; it compares, hashes and prints by fields, as the generated methods would."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Return whether *other* is of the same class and has equal fields."""
        if not isinstance(other, Value) or other.__class__ is not self.__class__:
            return NotImplemented
        return _compared(self) == _compared(other)

    def __hash__(self) -> int:
        """Return the hash of its class and fields."""
        return hash((self.__class__, _compared(self)))

    def __repr__(self) -> str:
        """Return the expression that constructs it."""
        name = self.__class__.__qualname__.rsplit(">.", 1)[-1]
        return f"{name}({', '.join(f'{shown}={getattr(self, shown)!r}' for shown in _fields(self.__class__)[1])})"


# Looked up once for each class: `attrs.fields` is slow, and transcripts are compared message by message.
_FIELDS: dict[type[Value], tuple[tuple[str, ...], tuple[str, ...]]] = {}


def _fields(kind: type[Value]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the fields that are compared, and of those that are shown."""
    names = _FIELDS.get(kind)
    if names is None:
        fields = attrs.fields(cast("type[attrs.AttrsInstance]", kind))
        names = tuple(field.name for field in fields if field.eq), tuple(field.name for field in fields if field.repr)
        _FIELDS[kind] = names
    return names


def _compared(value: Value) -> tuple[object, ...]:
    return tuple([getattr(value, name) for name in _fields(value.__class__)[0]])
