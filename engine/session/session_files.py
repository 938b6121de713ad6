"""`SessionFiles`: lets a host compare, undo, redo and restore what the turns of a session did to files."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING, final

import attrs

from engine.core.errors import ConfigError
from engine.session.validation import require_paths

if TYPE_CHECKING:
    from engine.session.live_session import LiveSession
    from engine.session.undo import FileDiff, Redone, UndoHistory, Undone
    from engine.snapshots.file_versions import FileVersion


@final
@attrs.frozen(eq=False)
class SessionFiles:
    """What the turns of a session did to files. Every method raises `SessionBusy` while a turn runs."""

    _session: LiveSession

    async def undo(self, *, force: bool = False) -> Undone:
        """Take the newest turn back: its messages, and its changes of files. Always a checkpoint.

        Again and again, it takes back one turn after the other. What it overwrites is noted first, so that
        `redo` brings exactly that back. The user's prompt is in the result. See docs/how-to/undo.md.

        Args:
            force: overwrite also what something else has changed since, or while the turn ran; and where no file can be put back (the engine
                was opened without snapshots, say), take the messages back alone.

        Raises `SessionBusy`; `NothingToUndo`; `UndoConflict` and `SnapshotError` where nothing was
        done; `UndoIncomplete`. If cancelled, the turn counts until all is done, and
        to undo it again does the rest.
        """
        with self._history() as history:
            return await history.undo(force=force)

    async def redo(self, *, force: bool = False) -> Redone:
        """Let the turn that was undone last count again, with its changes of files. Always a checkpoint.

        It raises, and is cancelled, as `undo`. A new prompt ends it: there is nothing to redo then.
        """
        with self._history() as history:
            return await history.redo(force=force)

    async def diff(self, turn_id: str | None = None) -> tuple[FileDiff, ...]:
        """Return what a turn did to files; by default the newest turn that changed some. Always a checkpoint.

        Raises `SessionBusy`, `NothingToUndo`, `SnapshotError`.
        """
        with self._history() as history:
            return await history.diff(turn_id)

    async def versions(self, path: str | os.PathLike[str]) -> tuple[FileVersion, ...]:
        """Return the contents that a file has had, the oldest first, as far as snapshots hold them. Always a checkpoint.

        Also those that a call, an undo, a redo or a restore has overwritten: `restore` puts each back. It raises
        `SessionBusy`, `SnapshotError`.

        Args:
            path: relative to the working directory.
        """
        (named,) = require_paths([path])
        with self._history() as history:
            return await history.versions(named)

    async def restore(
        self,
        paths: Iterable[str | os.PathLike[str]],
        *,
        turn_id: str | None = None,
        version: str | None = None,
        force: bool = False,
    ) -> tuple[str, ...]:
        """Put files, or all in folders, back as they were before a turn; return which. Always a checkpoint.

        What an undo or a redo was forced to overwrite since comes back; if *turn_id* names an undone turn, all that its
        undo has overwritten. The conversation stays as it is. It raises, and is cancelled, as `undo`.

        Args:
            paths: relative to the working directory.
            turn_id: by default the newest turn that changed files.
            version: instead, the id of a version of a single file; what it overwrites is then a version, too.
            force: overwrite also what another program has changed since.
        """
        named = require_paths(paths)
        if version is not None and (turn_id is not None or len(named) != 1):
            raise ConfigError("a version is of one file, and needs no turn")
        with self._history() as history:
            if version is not None:
                return await history.restore_version(named[0], version)
            return await history.restore(named, turn_id, force=force)

    @contextmanager
    def _history(self) -> Generator[UndoHistory]:
        """Keep turns from beginning while the past is changed. Not a checkpoint."""
        # Imported here: most sessions undo nothing.
        from engine.session.undo import UndoHistory

        session = self._session
        session.check_open()
        session.check_idle()
        session.is_reverting = True
        try:
            yield UndoHistory(session.journal, session.deps)
        finally:
            session.is_reverting = False
            # Input may have been queued meanwhile, and reports may have come.
            session.input.start_missed()
