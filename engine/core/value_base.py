"""`Value`: equality, hash and repr for the engine's many small values, written once.

attrs generates these methods for every class, as source text that is compiled at each import; that took a third of the
time of loading `open_engine`. Most values are hardly ever compared. So they are defined with `eq=False, repr=False` and
inherit from `Value`. The few that a turn compares or hashes all the time keep the generated methods, which are quicker.

Classes with an identity, which are compared by `is`, need none of this: `eq=False, repr=False` and no base.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import cast

import attrs


class Value:
    """The base of attrs classes; it compares, hashes and prints by fields, as the generated methods would."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Return whether *other* is of the same class and has equal fields."""
        if other.__class__ is not self.__class__:
            return NotImplemented
        compared = _compared(self.__class__)
        return compared(self) == compared(other)

    def __hash__(self) -> int:
        """Return the hash of its class and fields."""
        return hash(_compared(self.__class__)(self))

    def __repr__(self) -> str:
        """Return the expression that constructs it."""
        name = self.__class__.__qualname__.rsplit(">.", 1)[-1]
        shown = [field.name for field in _fields(self.__class__) if field.repr]
        return f"{name}({', '.join(f'{field}={getattr(self, field)!r}' for field in shown)})"


# Looked up once for each class: `attrs.fields` is slow, and transcripts are compared message by message.
_COMPARED: dict[type[Value], Callable[[object], object]] = {}


def _compared(kind: type[Value]) -> Callable[[object], object]:
    """Return what gets the fields that are compared, and the class, of a value."""
    getter = _COMPARED.get(kind)
    if getter is None:
        getter = _COMPARED[kind] = attrgetter("__class__", *(field.name for field in _fields(kind) if field.eq))
    return getter


def _fields(kind: type[Value]) -> tuple[attrs.Attribute[object], ...]:
    fields: tuple[attrs.Attribute[object], ...] = attrs.fields(cast("type[attrs.AttrsInstance]", kind))
    return fields
