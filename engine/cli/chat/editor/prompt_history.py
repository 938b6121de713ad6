"""What was sent before, and the way through it with Up and Down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

_MAX_ENTRIES: Final = 1_000


@attrs.define(eq=False)
class PromptHistory:
    """The entries, the oldest first; an entry may have many lines."""

    entries: list[str] = attrs.field(factory=list[str])
    _at: int | None = attrs.field(default=None, init=False)
    _draft: str = attrs.field(default="", init=False)

    @property
    def is_browsing(self) -> bool:
        """Whether the composer shows an entry."""
        return self._at is not None

    def add(self, text: str) -> None:
        """Add an entry, unless it repeats the last one."""
        self._at = None
        if text.strip() and self.entries[-1:] != [text]:
            self.entries.append(text)
            del self.entries[:-_MAX_ENTRIES]

    def load(self, entries: Sequence[str]) -> None:
        """Put older entries before those that are here."""
        self.entries[:0] = entries

    def earlier(self, draft: str) -> str | None:
        """Return the entry before; None: there is none. *draft* is kept for the way back."""
        at = len(self.entries) if self._at is None else self._at
        if at == 0:
            return None
        if self._at is None:
            self._draft = draft
        self._at = at - 1
        return self.entries[self._at]

    def later(self) -> str | None:
        """Return the entry after, or at last the draft; None: no entry is shown."""
        if self._at is None:
            return None
        self._at += 1
        if self._at < len(self.entries):
            return self.entries[self._at]
        self._at = None
        return self._draft

    def leave(self) -> None:
        """What is shown is now the draft."""
        self._at = None

    def search(self, text: str, before: int | None = None) -> int | None:
        """Return the index of the newest entry with *text*, before the entry *before*."""
        last = len(self.entries) if before is None else before
        return next((index for index in range(last - 1, -1, -1) if text in self.entries[index]), None)
