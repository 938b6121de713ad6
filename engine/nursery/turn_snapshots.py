"""The snapshots of a turn: one before the first call of a step that may change something, one after each such step.

So what changes between two steps is known to be the work of others. If nothing has changed, the second one is no event.

They belong to the root turn, and cover what its sub-agents do. A turn that only reads has none, and pays nothing. The turn
itself needs none of them: a snapshot that fails or takes too long is reported, and the turn goes on; one that is cancelled
was never taken. A snapshot is in the record once it is complete.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal

import attrs
import trio
from trio.lowlevel import enable_ki_protection

from engine.core.errors import SnapshotError
from engine.core.events import Notice, SnapshotTaken
from engine.core.exception_groups import describe
from engine.core.foreign_calls import call_foreign
from engine.core.ids import CallId
from engine.core.protocols import Attributing, Snapshots, Trace
from engine.journal.log import TurnJournal

if TYPE_CHECKING:
    from engine.core.snapshot_types import SnapshotResult

# Seconds. The first snapshot of an engine may have to read the whole project, the others only what has changed since.
# Longer than that a user would not wait for a tool to start, and undo is a convenience.
FIRST_SECONDS: Final = 5.0
SECONDS: Final = 2.0

_log = logging.getLogger(__name__)


@attrs.define(eq=False, repr=False)
class FileChanges:
    """The files that a turn and its sub-agents have changed, as far as the tools report it.

    Attributes:
        files: their absolute paths, in the order in which they were changed first.
        are_complete: whether these are all: nothing has run that may have changed others.
    """

    files: dict[str, None] = attrs.field(factory=dict[str, None], init=False)
    are_complete: bool = attrs.field(default=True, init=False)

    def note(self, changed: Iterable[str] | None, *, may_have: bool) -> None:
        """Add what a call reports as changed; None: it reports nothing, though it *may have*. Not a checkpoint."""
        if changed is None:
            self.are_complete = self.are_complete and not may_have
        else:
            self.files.update(dict.fromkeys(changed))

    def add(self, other: FileChanges) -> None:
        """Add what a sub-agent has changed. Not a checkpoint."""
        self.files.update(other.files)
        self.are_complete = self.are_complete and other.are_complete


@attrs.define(eq=False, repr=False, kw_only=True)
class TurnSnapshots:
    """The snapshots of one root turn.

    Attributes:
        snapshots: takes them.
        journal: the turn's.
        cwd: returns the session's working directory.
        has_jobs: returns whether a command of the session runs in the background.
        now: returns the time.
        previous: the snapshots of the turn before, if they are not finished.
    """

    snapshots: Snapshots
    journal: TurnJournal
    cwd: Callable[[], str]
    trace: Trace
    has_jobs: Callable[[], bool] = lambda: False
    now: Callable[[], float] = time.time
    previous: TurnSnapshots | None = None
    _state: Literal["none", "taken", "failed"] = attrs.field(default="none", init=False)
    _is_dirty: bool = attrs.field(default=False, init=False)
    _is_delay_reported: bool = attrs.field(default=False, init=False)
    _last: str = attrs.field(default="", init=False)
    _step: int = attrs.field(default=0, init=False)
    _running: set[CallId] = attrs.field(factory=set[CallId], init=False)
    # What calls have changed since the last snapshot, and whether one may have changed anything.
    _changed: dict[str, None] = attrs.field(factory=dict[str, None], init=False)
    _is_unknown: bool = attrs.field(default=False, init=False)
    # When the turn ended, if it has changed something since the last snapshot.
    _ended: float | None = attrs.field(default=None, init=False)
    _lock: trio.Lock = attrs.field(factory=trio.Lock, init=False)

    async def before_change(self, call_id: CallId) -> None:
        """Take a snapshot if no call has changed anything since the last: one is about to start that may.

        What differs from the last snapshot is the work of others. A checkpoint if it is the first such call of a step; if
        cancelled, no snapshot was taken, and the next call takes it.
        """
        if self.journal.is_closed:
            # A sub-agent in the background goes on when the turn is over; its changes then belong to no turn.
            self._report_late_changes()
            return
        if self._state == "none":
            # Other calls may start at the same time, those of sub-agents too: they wait for the one snapshot, since
            # each would change what it is to record.
            async with self._lock:
                await self._finish_previous()
                if self._state == "none":
                    snapshot = await self._take(0, FIRST_SECONDS)
                    self._state = "taken" if snapshot else "failed"
        elif self._is_undisturbed:
            async with self._lock:
                if self._is_undisturbed:
                    await self._take(self._step, SECONDS, is_silent=True)
        if not self._is_dirty:
            await self._note_beginning(None)
        self._running.add(call_id)
        self._is_dirty = True

    @enable_ki_protection
    def note_end(self, call_id: CallId, changed: Iterable[str] | None, *, may_have: bool) -> None:
        """Note that a call has ended, and what it reports as changed; None: nothing, though it *may have*. Not a checkpoint."""
        self._running.discard(call_id)
        if changed is None:
            self._is_unknown = self._is_unknown or may_have
        else:
            self._changed.update((os.path.join(self.cwd(), path), None) for path in changed)  # noqa: PTH118 - of a str, which may be no UTF-8

    async def about_to_change(self, paths: Sequence[str]) -> None:
        """Keep these files as they are, since a tool is about to change them. A checkpoint if there are snapshots."""
        if self._state != "taken":
            return
        await self._note_beginning(paths)
        try:
            with trio.move_on_after(SECONDS) as scope:
                await call_foreign("the snapshots", self.snapshots.about_to_change, self.cwd(), paths)
        except Exception as error:  # noqa: BLE001  # a port's; the change is made all the same
            self._notice("warning", "snapshot_missed", f"what is changed now can't be put back: {describe(error)}")
        else:
            if scope.cancelled_caught:
                self._notice(
                    "warning", "snapshot_missed", f"what is changed now can't be put back: {SECONDS:g} s were too short"
                )

    async def after_step(self, step: int) -> None:
        """Take a snapshot after a step, if one of its calls may have changed something. A checkpoint if it does."""
        self._step = step
        if not self._is_dirty or self._state != "taken":
            return
        # Before the snapshot: a sub-agent in the background may change something while it is taken.
        self._is_dirty = False
        is_complete = False
        try:
            is_complete = await self._take(step, SECONDS)
        finally:
            # The snapshot of the next step makes up for one that failed.
            self._is_dirty = self._is_dirty or not is_complete

    @enable_ki_protection
    def conclude(self) -> None:
        """Report changes at the end of the turn that no snapshot has. Not a checkpoint.

        It takes none: the cleanup has no time for it. `finish` does, once the turn is over.
        """
        if self._is_dirty and self._state == "taken":
            self._notice("info", "snapshot_missed", "the turn ended before its last changes of files were noted")
            if isinstance(self.snapshots, Attributing):
                self._ended = self.now()
        self._is_dirty = False

    @property
    def is_unfinished(self) -> bool:
        """Whether `finish` has something to do."""
        return self._ended is not None or self.previous is not None

    async def finish(self) -> None:
        """Take the snapshot for which the end of the turn had no time, unless that was tried before. A checkpoint if not.

        If cancelled, it can be called again. Where the engine is gone before that, undo goes by the times of files.
        """
        if self.is_unfinished:
            async with self._lock:
                await self._finish_previous()
                if self._ended is not None:
                    await self._take_last(self._ended)

    async def _take_last(self, ended: float) -> None:
        """Take the snapshot of the turn's end. A checkpoint; if cancelled, it is still to be taken."""
        try:
            snapshot = await call_foreign("the snapshots", self._new_snapshot, SECONDS, until=ended)
        except Exception as error:  # noqa: BLE001  # a port's; undo can do without
            self._ended = None
            _log.warning("the files as a turn has left them could not be noted: %s", describe(error))
            return
        self._ended = None
        journal = self.journal.log
        if snapshot.tree is not None and not journal.is_closed:
            # Without the turn's id: its record has ended. Only such a snapshot has a step and no turn.
            journal.append(SnapshotTaken(step=self._step + 1, tree=snapshot.tree))

    async def _note_beginning(self, paths: Sequence[str] | None) -> None:
        """Tell other sessions of the folder what calls are about to change; None: any file. A checkpoint if that is possible."""
        if self._state == "taken" and isinstance(self.snapshots, Attributing):
            owner = self.journal.log.session_id
            try:
                with trio.move_on_after(SECONDS):
                    await call_foreign(
                        "the snapshots", self.snapshots.note_beginning, self.cwd(), owner=owner, paths=paths
                    )
            except Exception as error:  # noqa: BLE001  # a port's; the next snapshot says it, too
                _log.warning("what a turn is about to change could not be noted: %s", describe(error))

    async def _finish_previous(self) -> None:
        """Finish the snapshots of the turn before. A checkpoint if they are not."""
        if self.previous is not None:
            await self.previous.finish()
            self.previous = None

    @enable_ki_protection
    def _report_late_changes(self) -> None:
        journal = self.journal.log
        if not self._is_delay_reported and not journal.is_closed:
            self._is_delay_reported = True
            text = "a sub-agent in the background goes on to change files: to undo the turn that started it does not put these back"
            journal.append(Notice(level="info", code="snapshot_missed", text=text))

    @property
    def _is_undisturbed(self) -> bool:
        """Whether what has changed since the last snapshot can't be the work of calls, and the port can note that."""
        is_idle = not self._is_dirty and not self._running and not self.has_jobs()
        return self._state == "taken" and is_idle and isinstance(self.snapshots, Attributing)

    async def _take(self, step: int, seconds: float, *, is_silent: bool = False) -> bool:
        """Take a snapshot and record it; return whether there is one. A checkpoint if the port is one; if cancelled, there is none."""
        self.trace.point("snapshot")
        try:
            # Twice its own limit: a port that does not keep to that must not hold the turn up.
            with trio.fail_after(2 * seconds):
                snapshot = await call_foreign("the snapshots", self._new_snapshot, seconds)
        except SnapshotError as error:
            if is_silent:
                return False  # the one after the step reports it, if it fails, too
            self._notice("warning", "snapshot_failed", f"what this turn changes can't all be put back: {error}")
            return False
        except Exception as error:  # noqa: BLE001  # a port's; the turn itself needs no snapshot
            if is_silent:
                return False
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
        if snapshot.tree is None and not snapshot.remarks and not is_silent:
            # The reason was reported once, in an earlier turn; the record still has to say that this turn has none.
            self._notice("info", "snapshot_missed", "what this turn changes is not noted, so undo leaves it as it is")
        # The same tree again says nothing new: the calls have changed nothing after all.
        if snapshot.tree is not None and snapshot.tree != self._last:
            self._last = snapshot.tree
            self.journal.append(SnapshotTaken(step=step, tree=snapshot.tree))
        return snapshot.tree is not None

    async def _new_snapshot(self, seconds: float, *, until: float | None = None) -> SnapshotResult:
        cwd, owner = self.cwd(), self.journal.log.session_id
        if not isinstance(self.snapshots, Attributing):
            return await self.snapshots.take(cwd, owner=owner, within=seconds)
        # A job in the background, or a call of a sub-agent, changes files before and after this one.
        goes_on = bool(self._running) or self.has_jobs()
        before, was_unknown = self._changed, self._is_unknown
        changed = None if was_unknown or goes_on else tuple(before)
        # What ends while it is taken counts for the next one.
        self._changed, self._is_unknown = {}, goes_on
        is_complete = False
        try:
            snapshot = await self.snapshots.take_since(
                cwd, self._last, owner=owner, changed=changed, within=seconds, until=until
            )
            is_complete = snapshot.tree is not None
        finally:
            if not is_complete:
                self._changed, self._is_unknown = before | self._changed, was_unknown or self._is_unknown
        return snapshot

    def _notice(self, level: Literal["info", "warning"], code: str, text: str) -> None:
        self.journal.append(Notice(level=level, code=code, text=text))
