"""`Value`: equality, hash and repr for the engine's many small values, written once.

attrs generates these methods for every class, as source text that is compiled at each import; that took a third of the
time of loading `open_engine`. Most values are hardly ever compared. So they are defined with `eq=False, repr=False` and
inherit from `Value`. The few that a turn compares or hashes all the time keep the generated methods, which are quicker.

Classes with an identity, which are compared by `is`, need none of this: `eq=False, repr=False` and no base.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
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
        return f"{name}({', '.join(f'{shown}={getattr(self, shown)!r}' for shown in _shown(self.__class__))})"


# Both are looked up once for each class: `attrs.fields` is slow, and transcripts are compared message by message.
@cache
def _compared(kind: type[Value]) -> Callable[[object], object]:
    """Return what gets the fields that are compared, and the class, of a value."""
    fields = attrs.fields(cast("type[attrs.AttrsInstance]", kind))
    return attrgetter("__class__", *(field.name for field in fields if field.eq))


@cache
def _shown(kind: type[Value]) -> tuple[str, ...]:
    """Return the names of the fields that the repr shows."""
    fields = attrs.fields(cast("type[attrs.AttrsInstance]", kind))
    return tuple(field.name for field in fields if field.repr)
