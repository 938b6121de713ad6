"""Change files all at once, or not at all. This blocks, and must run to its end: in a thread that is waited for.

Each new text is first written next to its file, so that a full disk or a missing
right is found while nothing has happened yet. Then each file is compared with what
the change was made for, and at once the new one takes its place by a rename: whoever
reads it sees the old or the new, never a half. If that fails for one of several
files, those before it get their old content back.

All of it is done in folders that were opened by their real paths, so a link that is put in
the way meanwhile leads nothing elsewhere. Between the comparison and the rename another
program has some microseconds to write to a file unseen: nothing in POSIX closes that gap.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final
from uuid import uuid4

import attrs

from engine.core.errors import ToolError
from engine.files.safe_open import RealFolder, open_real
from engine.files.text_files import read_in, regular, renamed_errors

# To look at a file's attributes; a pipe that has taken its place must not keep us waiting.
_LOOK: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


@attrs.frozen(kw_only=True)
class FileChange:
    """What one file becomes.

    Attributes:
        shown: its path as the model wrote it.
        path: the file itself, links followed.
        before: what it held when the change was made for it; None: it did not exist.
        after: what it shall hold; None: it shall not exist.
        like: a file whose mode and owner a new file takes over.
    """

    shown: str
    path: Path
    before: bytes | None
    after: bytes | None
    like: Path | None = None


def commit(changes: Sequence[FileChange]) -> tuple[str, ...]:
    """Make all changes, of files that differ; return what about the files could not be kept.

    Raises `ToolError` if that is not possible; then none was made.
    """
    steps = [_Step(change) for change in sorted(changes, key=lambda change: change.after is None)]
    try:
        for step in steps:
            step.prepare()
        for step in steps:
            step.make(is_only=len(steps) == 1)
    except BaseException as error:
        lost = _undo(steps)
        if isinstance(error, ToolError) and len(steps) > 1:
            outcome = f"Some files could not be put back: {', '.join(lost)}." if lost else "No file was changed."
            raise ToolError(f"{error} {outcome}") from error  # noqa: ASYNC104  # no Cancelled comes to a thread
        raise
    finally:
        for step in steps:
            step.clean_up()
    return tuple(note for step in steps for note in step.notes)


def _undo(steps: Sequence[_Step]) -> list[str]:
    """Take back the steps that were made, last one first; return the files that could not be put back."""
    return [outcome for step in reversed(steps) if (outcome := step.undo())]


@attrs.define(eq=False)
class _Step:
    """One file on its way. It is made by `prepare`, then `make`; `undo` takes the latter back."""

    change: FileChange
    _folder: RealFolder | None = None
    _new: str = ""
    _old: str = ""
    _state: os.stat_result | None = None
    _is_made: bool = False
    notes: list[str] = attrs.field(factory=list[str])

    @property
    def folder(self) -> RealFolder:
        """The folder that the file is in, once it is prepared."""
        assert self._folder is not None
        return self._folder

    @property
    def name(self) -> str:
        """The file's name in it."""
        return self.change.path.name

    def prepare(self) -> None:
        """Find out what can be found out, and write the new text next to the file."""
        change = self.change
        with renamed_errors(change.shown, change.path):
            self._folder = RealFolder.above(change.path, make=change.before is None)
            if change.before is not None:
                self._state = regular(change.shown, self.folder.state(self.name))
                # A rename needs no right to the file itself, but its owner has made it read-only.
                if not self.folder.may_write(self.name):
                    raise ToolError(f"{change.shown} is read-only.")
            if change.after is not None:
                self._write(change.after)
                if self._state is not None and self._state.st_nlink > 1:
                    self.notes.append(f"[{change.shown} had more names (hard links): under those the old text is kept]")

    def make(self, *, is_only: bool) -> None:
        """Put the new text in its place."""
        change = self.change
        with renamed_errors(change.shown, change.path):
            self._check()
            if change.before is None:
                self._create()
            elif not self._new:
                self._old = _temporary_name()
                self.folder.rename(self.name, self._old)
            else:
                if not is_only:
                    self._keep_old()
                self._take_place()
            self._is_made = True

    def undo(self) -> str:
        """Put back what there was; return an empty text, or what to tell if that failed."""
        change = self.change
        try:
            if not self._is_made:
                pass
            elif change.before is None:
                self.folder.remove(self.name)
            elif self._old:
                self.folder.rename(self._old, self.name)
                self._old = ""
            else:
                self._write(change.before)
                self.folder.rename(self._new, self.name)
        except OSError:
            kept, self._old = self._old, ""  # it is all that there is of it now
            return f"{change.shown} (its old content is {change.path.with_name(kept)})" if kept else change.shown
        self._is_made = False
        return ""

    def clean_up(self) -> None:
        """Remove the temporary file, and folders that were created in vain."""
        if self._folder is None:
            return
        for name in filter(None, (self._new, self._old)):
            with suppress(OSError):
                self.folder.remove(name)
        if not self._is_made:
            self.folder.remove_made()
        self.folder.close()

    def _check(self) -> None:
        change = self.change
        if change.before is None:
            if self.folder.has(self.name):
                raise ToolError(
                    f"{change.shown} has come into being meanwhile: another program wrote it. Read it first."
                )
        elif read_in(change.shown, self.folder, self.name, len(change.before) + 1) != change.before:
            raise ToolError(f"{change.shown} has changed meanwhile: another program wrote to it. Read it again.")

    def _write(self, data: bytes) -> None:
        self._new = _temporary_name()
        # For a file without a model the umask counts. Otherwise, no user may see more than before.
        is_like_another = self.change.like is not None or self._state is not None
        try:
            new = self.folder.open(self._new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600 if is_like_another else 0o666)
        except PermissionError as error:
            if self._state is None:
                raise
            raise ToolError(
                f"{self.change.shown} can't be replaced at once, because its folder may not be written to. Change it with "
                "bash, which can write into the file itself."
            ) from error
        with os.fdopen(new, "wb") as file:
            file.write(data)
            file.flush()
            self._look_alike(file.fileno())
            os.fsync(file.fileno())

    def _look_alike(self, file: int) -> None:
        """Take over the attributes of the file before, or of another one that it shall be like."""
        if self.change.like is not None:
            like = open_real(self.change.like, _LOOK)
        elif self._state is not None:
            like = self.folder.open(self.name, _LOOK)
        else:
            return
        try:
            state = os.fstat(like)
            mode, note = _copy_metadata(file, state)
            _copy_attributes(like, file)
        finally:
            os.close(like)
        os.fchmod(file, mode)
        if note and not self.notes:
            self.notes.append(f"[{self.change.shown} {note}]")

    def _take_place(self) -> None:
        """Put the new text in the place of the old."""
        try:
            self.folder.rename(self._new, self.name)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            raise ToolError(
                f"{self.change.shown} is mounted as a file of its own, so no other can take its place. Change it with bash, "
                "which can write into the file itself."
            ) from error

    def _create(self) -> None:
        """Give the new file its name, unless another file has got it meanwhile."""
        try:
            self.folder.link(self._new, self.name)
        except FileExistsError:
            raise ToolError(f"{self.change.shown} has come into being meanwhile. Read it first.") from None
        except OSError:  # a file system without links
            self.folder.rename(self._new, self.name)

    def _keep_old(self) -> None:
        """Keep the old file under another name, to put it back if need be. Its content is in memory, too."""
        assert self._state is not None
        if os.geteuid() not in {0, self._state.st_uid}:
            return  # in a folder like /tmp, nobody but the owner could remove that name again
        self._old = _temporary_name()
        try:
            self.folder.link(self.name, self._old)
        except OSError:  # a file system without links
            self._old = ""


def _temporary_name() -> str:
    # A name of its own, however long the file's is.
    return f".{uuid4().hex}.tmp"


def _copy_metadata(file: int, state: os.stat_result) -> tuple[int, str]:
    """Give a file its owner and its group, as far as that is allowed; return the mode that it may have, and a note."""
    mode = stat.S_IMODE(state.st_mode)
    try:
        os.fchown(file, state.st_uid, state.st_gid)
    except PermissionError:  # only root may give a file away
        mode &= ~stat.S_ISUID
    else:
        return mode, ""
    try:
        os.fchown(file, -1, state.st_gid)
    except PermissionError:
        # Another group must not get the rights that this one had.
        mode &= ~(stat.S_ISGID | stat.S_IRWXG) | (mode & stat.S_IRWXO) << 3
        return mode, "belongs to you and your group now: another owner can't be kept"
    return mode, "belongs to you now: another owner can't be kept"


def _copy_attributes(like: int, file: int) -> None:
    """Take over the extended attributes, among them access control lists, as far as that is allowed."""
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(like):
                with suppress(OSError):
                    os.setxattr(file, name, os.getxattr(like, name))
