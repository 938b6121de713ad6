"""What was sent before, and the way through it with Up and Down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import attrs

_MAX_ENTRIES: Final = 1_000
_MAX_SEARCHED: Final = 20_000


@attrs.define(eq=False)
class PromptHistory:
    """What was sent, the oldest first; an entry may have many lines.

    Attributes:
        entries: those of this folder, which Up and Down go through.
        everywhere: those of all folders, which are searched.
    """

    entries: list[str] = attrs.field(factory=list[str])
    everywhere: list[str] = attrs.field(factory=list[str])
    _at: int | None = attrs.field(default=None, init=False)
    _new: list[str] = attrs.field(factory=list[str], init=False)
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
            self.everywhere.append(text)
            self._new.append(text)
            del self.entries[:-_MAX_ENTRIES]

    def take_new(self) -> list[str]:
        """Return the entries that were added since the last time."""
        added, self._new = self._new, []
        return added

    def load(self, entries: Sequence[str], everywhere: Sequence[str]) -> None:
        """Put older entries before those that are here."""
        self.entries[:0] = entries[-_MAX_ENTRIES:]
        self.everywhere[:0] = everywhere[-_MAX_SEARCHED:]

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
