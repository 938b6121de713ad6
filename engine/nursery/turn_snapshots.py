"""The snapshots of a turn: one before the first call that may change something, one after each step with such calls.

They belong to the root turn, and cover what its sub-agents do. A turn that only reads has none, and pays nothing. The turn
itself needs none of them: a snapshot that fails or takes too long is reported, and the turn goes on; one that is cancelled
was never taken. A snapshot is in the record once it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Literal

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import SnapshotError
from engine.core.events import Notice, SnapshotTaken
from engine.core.exception_groups import describe
from engine.core.protocols import Snapshots, Trace
from engine.journal.log import TurnJournal

# Seconds. The first snapshot of an engine may have to read the whole project, the others only what has changed since.
# Longer than that a user would not wait for a tool to start, and undo is a convenience.
FIRST_SECONDS: Final = 5.0
SECONDS: Final = 2.0


@attrs.define(eq=False, kw_only=True)
class TurnSnapshots:
    """The snapshots of one root turn.

    Attributes:
        snapshots: takes them.
        journal: the turn's.
        cwd: returns the session's working directory.
    """

    snapshots: Snapshots
    journal: TurnJournal
    cwd: Callable[[], str]
    trace: Trace
    _state: Literal["none", "taken", "failed"] = attrs.field(default="none", init=False)
    _is_dirty: bool = attrs.field(default=False, init=False)
    _is_delay_reported: bool = attrs.field(default=False, init=False)
    _last: str = attrs.field(default="", init=False)
    _lock: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def before_change(self) -> None:
        """Take the first snapshot, unless it was taken: a call is about to start that may change something.

        A checkpoint if it is the first such call; if cancelled, no snapshot was taken, and the next call takes it.
        """
        if self.journal.is_closed:
            # A sub-agent in the background goes on when the turn is over; its changes then belong to no turn.
            self._report_late_changes()
            return
        if self._state == "none":
            # Other calls may start at the same time, those of sub-agents too: they wait for the one snapshot, since
            # each would change what it is to record.
            async with self._lock:
                if self._state == "none":
                    snapshot = await self._take(0, FIRST_SECONDS)
                    self._state = "taken" if snapshot else "failed"
        self._is_dirty = True

    async def about_to_change(self, paths: Sequence[str]) -> None:
        """Keep these files as they are, since a tool is about to change them. A checkpoint if there are snapshots."""
        if self._state != "taken":
            return
        try:
            with trio.move_on_after(SECONDS) as scope:
                await self.snapshots.about_to_change(self.cwd(), paths)
        except Exception as error:  # noqa: BLE001  # a port's; the change is made all the same
            self._notice("warning", "snapshot_missed", f"what is changed now can't be put back: {describe(error)}")
        else:
            if scope.cancelled_caught:
                self._notice(
                    "warning", "snapshot_missed", f"what is changed now can't be put back: {SECONDS:g} s were too short"
                )

    async def after_step(self, step: int) -> None:
        """Take a snapshot after a step, if one of its calls may have changed something. A checkpoint if it does."""
        if not self._is_dirty or self._state != "taken":
            return
        # Before the snapshot: a sub-agent in the background may change something while it is taken.
        self._is_dirty = False
        is_taken = False
        try:
            is_taken = await self._take(step, SECONDS)
        finally:
            # The snapshot of the next step makes up for one that failed.
            self._is_dirty = self._is_dirty or not is_taken

    @enable_ki_protection
    def conclude(self) -> None:
        """Report changes at the end of the turn that no snapshot has. Not a checkpoint.

        It takes none: the concluder has no time for it, and undo compares with the files as they are.
        """
        if self._is_dirty and self._state == "taken":
            self._notice("info", "snapshot_missed", "the turn ended before its last changes of files were noted")
        self._is_dirty = False

    @enable_ki_protection
    def _report_late_changes(self) -> None:
        journal = self.journal.log
        if not self._is_delay_reported and not journal.is_closed:
            self._is_delay_reported = True
            text = "a sub-agent in the background goes on to change files: to undo the turn that started it does not put these back"
            journal.append(Notice(level="info", code="snapshot_missed", text=text))

    async def _take(self, step: int, seconds: float) -> bool:
        """Take a snapshot and record it; return whether there is one. Always a checkpoint; if cancelled, there is none."""
        journal = self.journal.log
        self.trace.point("snapshot")
        try:
            snapshot = await self.snapshots.take(self.cwd(), owner=journal.session_id, within=seconds)
        except SnapshotError as error:
            self._notice("warning", "snapshot_failed", f"what this turn changes can't all be put back: {error}")
            return False
        except Exception as error:  # noqa: BLE001  # a port's; the turn itself needs no snapshot
            self._notice(
                "warning", "snapshot_failed", f"what this turn changes can't all be put back: {describe(error)}"
            )
            return False
        # No checkpoint from here to the record: a snapshot that is not in it can't be undone to.
        for remark in snapshot.remarks:
            if snapshot.tree is None:
                self._notice("warning", "snapshot_limited", remark)
            else:
                self._notice("info", "snapshot_limited", remark)
        if snapshot.tree is None and not snapshot.remarks:
            # The reason was reported once, in an earlier turn; the record still has to say that this turn has none.
            self._notice("info", "snapshot_missed", "what this turn changes is not noted, so undo leaves it as it is")
        # The same tree again says nothing new: the calls have changed nothing after all.
        if snapshot.tree is not None and snapshot.tree != self._last:
            self._last = snapshot.tree
            self.journal.append(SnapshotTaken(step=step, tree=snapshot.tree))
        return snapshot.tree is not None

    def _notice(self, level: Literal["info", "warning"], code: str, text: str) -> None:
        self.journal.append(Notice(level=level, code=code, text=text))
