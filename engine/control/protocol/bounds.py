"""Annotations of fields of the protocol: limits of numbers and texts, checked on arrival and shown in the schema."""

from __future__ import annotations

import re
from typing import Annotated, Final, TypeAlias

import attrs


@attrs.frozen
class Bounds:
    """The limits of a number, or of the length of a text.

    Attributes:
        pattern: what the whole text must match; empty: anything.
    """

    least: float
    most: float
    pattern: str = ""

    def check(self, value: float | str) -> None:
        """Raise `ValueError` if *value* is outside."""
        is_text = isinstance(value, str)
        if not self.least <= (len(value) if isinstance(value, str) else value) <= self.most:
            unit = " characters" if is_text else ""
            raise ValueError(f"expected {self.least:,} to {self.most:,}{unit}")
        if isinstance(value, str) and self.pattern and not re.fullmatch(self.pattern, value):
            raise ValueError(f"expected a text that matches {self.pattern}")


# As long as the largest frame; a text needs no smaller limit of its own.
_ANY: Final = 1 << 20
Text: TypeAlias = Annotated[str, Bounds(1, _ANY)]
# Ids of the engine are shorter; what is longer is not even looked up.
Id: TypeAlias = Annotated[str, Bounds(1, 200)]
Name: TypeAlias = Annotated[str, Bounds(1, 200)]
Title: TypeAlias = Annotated[str, Bounds(1, 500)]
# May be empty.
ShortText: TypeAlias = Annotated[str, Bounds(0, 200)]
# Opaque. Any text is a position: one that can't be used is answered by a snapshot, not by an error.
Place: TypeAlias = str
Key: TypeAlias = Annotated[str, Bounds(1, 128, "[ -~]+")]
