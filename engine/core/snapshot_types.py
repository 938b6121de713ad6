"""The values of snapshots: entries, their changes between two snapshots, and the changes that restore them.

Paths are real and absolute, so that no caller has to know the folder of a snapshot to say which
file is meant. Names that are no UTF-8 have the form that `os.fsdecode` gives them.
"""

from __future__ import annotations

from typing import Final

import attrs

from engine.core.value_base import Value

FILE: Final = "100644"
PROGRAM: Final = "100755"
LINK: Final = "120000"
# Something is there of which snapshots hold nothing: it is too large, say.
LEFT_OUT: Final = "160000"


@attrs.frozen(eq=False, repr=False)
class TreeEntry(Value):
    """A file, a program or a symbolic link as a snapshot holds it; of what is left out, only that it was there.

    Attributes:
        mode: which of them it is.
        id: names what is in it; of what is left out, its state.
    """

    mode: str
    id: str

    @property
    def is_left_out(self) -> bool:
        """Whether snapshots hold nothing of it."""
        return self.mode == LEFT_OUT


@attrs.frozen(eq=False, repr=False)
class Change(Value):
    """What became of a path from one snapshot to another. None: nothing is there."""

    path: str
    before: TreeEntry | None
    after: TreeEntry | None

    @property
    def is_left_out(self) -> bool:
        """Whether snapshots do not hold what was there before, or what came after."""
        return any(entry is not None and entry.is_left_out for entry in (self.before, self.after))


@attrs.frozen(eq=False, repr=False)
class Put(Value):
    """What is to be put at a path, in place of what must be there now. None: nothing."""

    path: str
    now: TreeEntry | None
    want: TreeEntry | None


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Attribution(Value):
    """Whose calls have changed what while a turn ran. Paths may be those of folders.

    Attributes:
        calls: for each snapshot but the first, what the turn's calls have changed since the one before; None: any.
        others: what calls of other sessions have reported to have changed since the first snapshot.
        others_unsure: what differed around calls of other sessions that report nothing.
        busy_since: since when a call of another session may be changing any file; infinity: there is none.
    """

    calls: tuple[tuple[str, ...] | None, ...]
    others: frozenset[str] = frozenset()
    others_unsure: frozenset[str] = frozenset()
    busy_since: float = float("inf")


@attrs.frozen(eq=False, repr=False)
class SnapshotResult(Value):
    """A snapshot, or None if none could be taken, and remarks about it.

    Attributes:
        tree: names the snapshot.
        remarks: shown once for each project.
    """

    tree: str | None
    remarks: tuple[str, ...] = ()
