"""A cancel as a value: in which way, at which point, and how many points later a second one follows."""

from __future__ import annotations

import re
from typing import Literal, get_args

import attrs

Means = Literal["scope", "deadline", "sibling", "thread", "interrupt"]
FunctionWay = Literal[
    "scope", "deadline", "sibling", "thread", "interrupt", "scope_twice", "scope_then_interrupt", "interrupt_twice"
]
FUNCTION_WAYS: tuple[FunctionWay, ...] = get_args(FunctionWay)
SINGLE_WAYS: tuple[FunctionWay, ...] = FUNCTION_WAYS[:5]

# What strikes first, and what strikes second.
PARTS: dict[str, tuple[Means, Means | None]] = {
    "scope": ("scope", None),
    "deadline": ("deadline", None),
    "sibling": ("sibling", None),
    "thread": ("thread", None),
    "interrupt": ("interrupt", None),
    "scope_twice": ("scope", "scope"),
    "scope_then_interrupt": ("scope", "interrupt"),
    "interrupt_twice": ("interrupt", "interrupt"),
}

_TEXT = re.compile(r"(?P<way>[a-z_]+)@(?:(?P<point>\d+)|(?P<place>.+ #\d+))(?:\+(?P<second>\d+))?")


@attrs.frozen(kw_only=True)
class Injection:
    """A cancel: how, at which point, and how many points later its second part follows.

    Attributes:
        place: where it strikes if runs differ, instead of the number of a point: `after serve at server.py:12 #3`, when the
            task has come to that line for the third time.
    """

    way: str
    point: int
    second: int = 1
    place: str = ""

    def __str__(self) -> str:
        """Return the text that `parse_injection` takes: `scope@17`, `interrupt_twice@17+3`."""
        return f"{self.way}@{self.place or self.point}" + (f"+{self.second}" if self.second != 1 else "")

    def is_at(self, index: int, name: str) -> bool:
        """Tell whether it strikes at a point."""
        return name == self.place if self.place else index == self.point


def parse_injection(text: str) -> Injection:
    """Return the cancel that *text* names, as `scope@17`. Raises ValueError."""
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no cancel: write WAY@POINT, as in scope@17, or WAY@POINT+DISTANCE")
    point, place = int(match["point"] or 0), match["place"] or ""
    return Injection(way=match["way"], point=point, second=int(match["second"] or 1), place=place)
