"""The context report: what fills the window, as a value, a text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Final

import attrs

_WIDTH: Final = 24
_BRIEF: Final = 4
_MOST_FILES: Final = 10


@attrs.frozen
class Share:
    """The share of the window that one kind of content takes.

    Attributes:
        kind: what it is: `system`, `tools`, `results of read`.
        tokens: estimated.
        count: the number of items.
    """

    kind: str
    tokens: int
    count: int = 1


@attrs.frozen(kw_only=True)
class ContextReport:
    """What fills the window.

    Attributes:
        model: whose window it is.
        context: tokens of the window.
        usable: how much of it the next request may take.
        tokens: how much it takes.
        is_counted: whether that is the host's count plus an estimate of what came since; otherwise it is all estimated.
        shares: by kind, the largest first; their sum is `tokens`.
        pinned: the part of it that a summary leaves unchanged.
        files: the files that calls have read or written, the largest first: a part of `shares`, by another measure.
    """

    model: str
    context: int
    usable: int
    tokens: int
    is_counted: bool
    shares: tuple[Share, ...]
    pinned: int = 0
    files: tuple[Share, ...] = ()

    @property
    def free(self) -> int:
        """The tokens left before room has to be made."""
        return max(0, self.usable - self.tokens)

    @property
    def brief(self) -> str:
        """The report in one line, for errors and for the model."""
        largest = ", ".join(f"{share.kind} {share.tokens:,}" for share in self.shares[:_BRIEF])
        return f"about {self.tokens:,} tokens, of {self.usable:,} that a request may have: {largest or 'nothing'}"

    def as_text(self, *, is_linear: bool = False) -> str:
        """Return the report as a table; *is_linear*: as lines to be read aloud."""
        how = "counted by the host, and estimated since" if self.is_counted else "estimated"
        head = [
            f"{self.model}: about {self.tokens:,} of {self.usable:,} usable tokens ({_percent(self.tokens, self.usable)}), {how}",
            f"window {self.context:,}, free {self.free:,}, kept word for word by a summary {self.pinned:,}",
            "",
        ]
        files = self.files[:_MOST_FILES]
        left_out = len(self.files) - len(files)
        more = [f"and {left_out:,} more files"] if left_out else []
        if is_linear:
            rows = self._sentences(self.shares)
            return "\n".join(
                [*head[:2], *rows, *(["Of these, by file:"] if files else []), *self._sentences(files), *more]
            )
        width = max([len(share.kind) for share in (*self.shares, *files)], default=0)
        below = ["", "of these, by file:", *self._rows(files, width), *more] if files else []
        return "\n".join([*head, *self._rows(self.shares, width), *below])

    def _sentences(self, shares: Iterable[Share]) -> list[str]:
        return [
            f"{share.kind}: {share.tokens:,} tokens, {_percent(share.tokens, self.tokens)}, {share.count:,} in number"
            for share in shares
        ]

    def _rows(self, shares: Iterable[Share], width: int) -> list[str]:
        return [
            f"{share.kind.ljust(width)}  {share.tokens:>9,}  {_percent(share.tokens, self.tokens):>5}  "
            f"{_bar(share.tokens, self.tokens)}  {share.count:,}"
            for share in shares
        ]

    def as_json(self) -> str:
        """Return the report as a JSON document."""
        return json.dumps(attrs.asdict(self) | {"free": self.free}, ensure_ascii=False)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / max(1, whole):.0f} %"


def _bar(part: int, whole: int) -> str:
    return ("#" * round(_WIDTH * part / max(1, whole))).ljust(_WIDTH)
