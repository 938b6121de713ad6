"""What each task did, and when: recorded in the run that is reported, as lines of text.

`timeline_svg` draws the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

Kind = Literal["step", "start", "end", "cancel", "struck", "swallowed", "mark"]

# What lies this many rows before the cancel is left out; a report is read, not searched.
BEFORE = 10
AFTER = 30


@attrs.frozen(kw_only=True)
class Moment:
    """One thing that happened.

    Attributes:
        point: the number of the point at which it happened, or of the last one before it.
        time: Trio's time, in seconds since the run began.
        task: the task that it happened to; empty: to the run.
    """

    point: int
    time: float
    task: str
    kind: Kind
    text: str


@attrs.define(eq=False)
class Timeline:
    """The moments of one run, in order."""

    moments: list[Moment] = attrs.field(factory=list[Moment])

    def visible(self) -> tuple[Sequence[Moment], int]:
        """Return the moments around the cancel, and how many before them are left out."""
        first = next((index for index, moment in enumerate(self.moments) if moment.kind == "cancel"), None)
        if first is None:
            first = len(self.moments)
        start = max(0, first - BEFORE)
        return self.moments[start : first + AFTER], start

    def lines(self) -> list[str]:
        """Return the moments around the cancel as a table."""
        moments, left_out = self.visible()
        width = max([4, *(len(moment.task) for moment in moments)])
        # A function that does not end has come to a time with more digits.
        digits = max([7, *(len(f"{moment.time:.3f}") for moment in moments)])
        lines = [f"  {'seconds':>{digits}}  point  {'task':<{width}}"]
        gap = f"  {'...':>{digits}}         "
        if left_out:
            lines.append(f"{gap}({left_out} rows before)")
        for moment in moments:
            mark = ">>" if moment.kind in {"cancel", "struck", "swallowed"} else "  "
            lines.append(
                f"{mark}{moment.time:{digits}.3f}  {moment.point:>5}  {moment.task or '-':<{width}}  {moment.text}".rstrip()
            )
        rest = len(self.moments) - left_out - len(moments)
        if rest:
            lines.append(f"{gap}({rest} rows after)")
        return lines
