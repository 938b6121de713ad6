"""What a turn, with all its sub-agents, has changed in files, as far as its tools tell."""

from __future__ import annotations

from collections.abc import Iterable

import attrs


@attrs.define(eq=False)
class Changes:
    """The files that were changed.

    Attributes:
        files: their absolute paths, in the order in which they were changed first.
        are_known: whether these are all: nothing has run that may have changed others.
    """

    files: dict[str, None] = attrs.field(factory=dict[str, None], init=False)
    are_complete: bool = attrs.field(default=True, init=False)

    def note(self, changed: Iterable[str] | None, *, may_have: bool) -> None:
        """A call is over: it tells what it has *changed*, or not (None) though it *may have*. Not a checkpoint."""
        if changed is None:
            self.are_complete = self.are_complete and not may_have
        else:
            self.files.update(dict.fromkeys(changed))

    def add(self, other: Changes) -> None:
        """A sub-agent is done: what it has changed was changed here. Not a checkpoint."""
        self.files.update(other.files)
        self.are_complete = self.are_complete and other.are_complete
