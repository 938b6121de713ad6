"""`SessionFiles`: lets a host compare, undo, redo and restore a session's changes of files."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, final

import attrs

from engine.core.errors import ConfigError
from engine.session.validation import require_paths

if TYPE_CHECKING:
    from engine.session.live_session import LiveSession
    from engine.session.rewind import RewindPoint, RewindPreview, RewindScope, Rewound
    from engine.session.undo import FileDiff, Redone, UndoHistory, Undone
    from engine.snapshots.file_versions import FileVersion


@final
@attrs.frozen(eq=False, repr=False)
class SessionFiles:
    """The changes that a session's turns made to files. Every method raises `SessionBusy` while a turn runs."""

    _session: LiveSession

    async def undo(self, *, force: bool = False) -> Undone:
        """Undo the newest turn: its messages, and its changes of files. Always a checkpoint.

        Each further call undoes one more turn. What it overwrites is recorded first, so that `redo` restores exactly
        that. The user's prompt is in the result. See docs/how-to/undo.md.

        Args:
            force: also overwrite what something else has changed since, or while the turn ran; and if no file can be
                restored (the engine was opened without snapshots, say), undo only the messages.

        Raises `SessionBusy`; `NothingToUndo`; `UndoConflict` and `SnapshotError` where nothing was
        done; `UndoIncomplete`. If cancelled, the turn still counts until everything is done; undoing it again does the
        rest.
        """
        async with self._history() as history:
            return await history.undo(force=force)

    async def redo(self, *, force: bool = False) -> Redone:
        """Redo the turn that was undone last, with its changes of files. Always a checkpoint.

        If several were rewound at once, all of them are redone; if only files were rewound, they come back.
        Errors and cancellation are as for `undo`. After a new prompt there is nothing to redo.
        """
        # Imported here: most sessions undo nothing.
        from engine.session.rewind import RewindHistory

        async with self._history() as history:
            return await RewindHistory(history).redo(force=force)

    async def rewind_points(self) -> tuple[RewindPoint, ...]:
        """Return the prompts to which the session can be rewound, the oldest first. Always a checkpoint.

        Raises `SessionBusy`.
        """
        from engine.session.rewind import RewindHistory

        async with self._history() as history:
            return await RewindHistory(history).points()

    async def preview_rewind(self, turn_id: str) -> RewindPreview:
        """Return what rewinding to before a turn would do to files. Always a checkpoint.

        Raises `SessionBusy`, `NothingToUndo`, `SnapshotError`.
        """
        from engine.session.rewind import RewindHistory

        async with self._history() as history:
            return await RewindHistory(history).preview(turn_id)

    async def rewind(self, turn_id: str, *, scope: RewindScope = "both", force: bool = False) -> Rewound:
        """Undo a turn and all later ones: `redo` brings all of them back. Always a checkpoint.

        Nothing is done if another program has changed one of the files, unless by force. If cancelled, the newest turns
        may be undone and the others count; rewinding to the same turn does the rest.

        Args:
            turn_id: the oldest turn to undo.
            scope: "both"; "conversation": only the messages, and files stay as they are; "files": only files.
            force: as for `undo`.

        Errors are as for `undo`; `NothingToUndo` also if there are no files to rewind.
        """
        from engine.session.rewind import RewindHistory

        async with self._history() as history:
            return await RewindHistory(history).rewind(turn_id, scope, force=force)

    async def diff(self, turn_id: str | None = None) -> tuple[FileDiff, ...]:
        """Return a turn's changes of files; by default those of the newest turn that made any. Always a checkpoint.

        Raises `SessionBusy`, `NothingToUndo`, `SnapshotError`.
        """
        async with self._history() as history:
            return await history.diff(turn_id)

    async def versions(self, path: str | os.PathLike[str]) -> tuple[FileVersion, ...]:
        """Return the contents that a file has had, the oldest first, as far as snapshots hold them. Always a checkpoint.

        Also those that a call, an undo, a redo or a restore has overwritten: `restore` puts each back. It raises
        `SessionBusy`, `SnapshotError`.

        Args:
            path: relative to the working directory.
        """
        (named,) = require_paths([path])
        async with self._history() as history:
            return await history.versions(named)

    async def restore(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        turn_id: str | None = None,
        version: str | None = None,
        force: bool = False,
    ) -> tuple[str, ...]:
        """Restore files, or all files in folders, as they were before a turn; return which. Always a checkpoint.

        What a forced undo or redo has overwritten since is restored, too; if *turn_id* names an undone turn, everything
        that its undo has overwritten. The conversation is not changed. Errors and cancellation are as for `undo`.

        Args:
            paths: relative to the working directory.
            turn_id: by default the newest turn that changed files.
            version: instead, the id of a version of a single file; what it overwrites is then a version, too.
            force: also overwrite what another program has changed since.
        """
        named = require_paths(paths)
        if version is not None and (turn_id is not None or len(named) != 1):
            raise ConfigError("a version is of one file, and needs no turn")
        async with self._history() as history:
            if version is not None:
                return await history.restore_version(named[0], version)
            return await history.restore(named, turn_id, force=force)

    @asynccontextmanager
    async def _history(self) -> AsyncGenerator[UndoHistory]:
        """Prevent turns from starting while the history is changed. Entering is a checkpoint if the last turn was cut off."""
        # Imported here: most sessions undo nothing.
        from engine.session.undo import UndoHistory

        session = self._session
        session.check_open()
        session.check_idle()
        session.is_reverting = True
        try:
            if (last := session.background.last_snapshots) is not None:
                await last.finish()
            yield UndoHistory(session.journal, session.deps)
        finally:
            session.is_reverting = False
            # Input may have been queued in the meantime, and reports may have come.
            session.input.start_missed()
