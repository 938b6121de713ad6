"""What a check says."""

from __future__ import annotations

from typing import Literal

import attrs

State = Literal["ok", "warn", "fail"]


@attrs.frozen
class CheckResult:
    """One line of the report.

    Attributes:
        name: what was checked.
        state: ok; warn: it works in part; fail: it has to be mended.
        text: the result.
        next: the command that mends it; empty: none.
    """

    name: str
    state: State
    text: str
    next: str = ""


CheckResults = list[CheckResult]
