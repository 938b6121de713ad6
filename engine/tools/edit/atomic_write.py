"""Change several files together, or none. This blocks, and must run to its end: in a thread that is waited for.

Each new text is first written next to its file, so that a full disk or a missing right is noticed before anything has
changed. Then each file is compared with the content that the change was made for, and immediately replaced by a rename:
readers see the old or the new text, never half of it. If one of several files fails, those before it get their old
content back.

All of this happens in folders opened by their real paths, so a link that appears in the meantime leads nowhere else. Between
the comparison and the rename another program has some microseconds to write unnoticed: POSIX offers no way to close
that gap.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from engine.core.errors import ToolError
from engine.files.real_folder import RealFolder, open_real
from engine.files.staging import StagingFolder
from engine.files.text_files import read_in, regular, renamed_errors

# For reading attributes. If the file has been replaced by a pipe, opening must not block.
_LOOK: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY


@attrs.frozen(kw_only=True)
class FileChange:
    """The change of one file.

    Attributes:
        shown: its path as the model wrote it.
        path: its real path.
        before: its content when the change was made; None: it did not exist.
        after: its new content; None: it is deleted.
        like: a file whose mode and owner a new file gets.
    """

    shown: str
    path: Path
    before: bytes | None
    after: bytes | None
    like: Path | None = None


def commit(changes: Sequence[FileChange]) -> tuple[str, ...]:
    """Make all changes, each of another file; return notes on what could not be preserved.

    Raises `ToolError` if that fails; then no file was changed.
    """
    # Deletions last: a file that is moved exists twice for a moment, and never not at all.
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
    """Undo the steps that were made, last one first; return the files that could not be restored."""
    return [outcome for step in reversed(steps) if (outcome := step.undo())]


@attrs.define(eq=False)
class _Step:
    """The change of one file: `prepare`, then `make`; `undo` reverts the latter."""

    change: FileChange
    _folder: RealFolder | None = None
    _staging: StagingFolder | None = None
    # The new text: first in a file without a name, where there are such files, then under a name next to the file.
    _nameless: int = -1
    _may_be_nameless: bool = True
    _data: bytes = b""
    _new: str = ""
    _old: str = ""
    _state: os.stat_result | None = None
    _is_made: bool = False
    notes: list[str] = attrs.field(factory=list[str])

    @property
    def folder(self) -> RealFolder:
        """The file's folder, once it is prepared."""
        assert self._folder is not None
        return self._folder

    @property
    def staging(self) -> StagingFolder:
        """Where its texts wait, next to the file; made when it is first needed. Raises `OSError`."""
        if self._staging is None:
            self._staging = StagingFolder.make(self.folder, str(self.change.path.parent))
        return self._staging

    @property
    def name(self) -> str:
        """The file's name in it."""
        return self.change.path.name

    def prepare(self) -> None:
        """Check what can be checked, and write the new text next to the file."""
        change = self.change
        with renamed_errors(change.shown, change.path):
            self._folder = RealFolder.above(change.path, make=change.before is None)
            if change.before is not None:
                self._state = regular(change.shown, self.folder.state(self.name))
                # A rename needs no permission on the file itself, but its owner has made it read-only.
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
            elif change.after is None:
                self._old = self.staging.new_name()
                self.folder.rename(self.name, self.staging.path_of(self._old))
            else:
                if not is_only:
                    self._keep_old()
                self._take_place()
            self._is_made = True

    def undo(self) -> str:
        """Restore the old state; return an empty text, or what to report if that failed."""
        change = self.change
        try:
            if not self._is_made:
                pass
            elif change.before is None:
                self.folder.remove(self.name)
            elif self._old:
                self.folder.rename(self.staging.path_of(self._old), self.name)
                self._old = ""
            else:
                self._write(change.before)
                self.folder.rename(self._new_path(), self.name)
        except OSError:
            if not self._old:
                return change.shown
            # The only copy now: `clean_up` must not remove it.
            self.staging.keep(self._old)
            return f"{change.shown} (its old content is {change.path.parent / self.staging.path_of(self._old)})"
        self._is_made = False
        return ""

    def clean_up(self) -> None:
        """Remove temporary files, and folders that were created in vain."""
        if self._folder is None:
            return
        self._close_nameless()
        if self._staging is not None:
            self._staging.remove()
        if not self._is_made:
            self.folder.remove_made()
        self.folder.close()

    def _check(self) -> None:
        change = self.change
        if change.before is None:
            if self.folder.has(self.name):
                raise ToolError(f"{change.shown} was created by another program in the meantime. Read it first.")
        elif read_in(change.shown, self.folder, self.name, len(change.before) + 1) != change.before:
            raise ToolError(f"{change.shown} was changed by another program in the meantime. Read it again.")

    def _write(self, data: bytes) -> None:
        # Without a file to imitate, the umask applies. Otherwise no user may see more than before, not even for a
        # moment.
        is_like_another = self.change.like is not None or self._state is not None
        mode = 0o600 if is_like_another else 0o666
        self._close_nameless()
        self._data, self._new = data, ""
        try:
            new = self._open_new(mode)
        except PermissionError as error:
            if self._state is None:
                raise
            raise ToolError(
                f"{self.change.shown} can't be replaced at once, because its folder may not be written to. Change it with "
                "bash, which can write into the file itself."
            ) from error
        with os.fdopen(new, "wb", closefd=new != self._nameless) as file:
            file.write(data)
            file.flush()
            self._look_alike(file.fileno())
            # Before the rename: after a power cut, some file systems keep the rename and lose the content.
            os.fsync(file.fileno())

    def _open_new(self, mode: int) -> int:
        """Return a descriptor of a new file in the same file system."""
        if self._may_be_nameless:
            # Without a name for as long as possible: on a busy disk, `fsync` then waits for fewer changes of folders.
            with suppress(OSError):
                self._nameless = self.folder.open_nameless(mode)
                return self._nameless
        self._new = self.staging.new_name()
        return self.staging.inner.open(self._new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)

    def _new_path(self) -> str:
        """Return the path of the new text, next to the file, after giving it a name if it has none."""
        if not self._new:
            name = self.staging.new_name()
            try:
                self.staging.inner.give_name(self._nameless, name)
                self._new = name
            except OSError:  # a system without /proc, say
                self._may_be_nameless = False
                self._write(self._data)
        return self.staging.path_of(self._new)

    def _close_nameless(self) -> None:
        if self._nameless >= 0:
            os.close(self._nameless)
            self._nameless = -1

    def _look_alike(self, file: int) -> None:
        """Copy the attributes of the old file, or of `like`."""
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
        """Replace the old text by the new one."""
        try:
            self.folder.rename(self._new_path(), self.name)
        except OSError as error:
            if error.errno != errno.EBUSY:
                raise
            raise ToolError(
                f"{self.change.shown} is mounted as a file of its own, so no other can take its place. Change it with bash, "
                "which can write into the file itself."
            ) from error

    def _create(self) -> None:
        """Give the new file its name, unless another file has taken it in the meantime."""
        # A link fails if the name exists; a rename would overwrite the other file.
        try:
            if self._new:
                self.folder.link(self.staging.path_of(self._new), self.name)
            else:
                self.folder.give_name(self._nameless, self.name)
        except FileExistsError:
            raise ToolError(f"{self.change.shown} was created in the meantime. Read it first.") from None
        except OSError:  # a file system without links
            self.folder.rename(self._new_path(), self.name)

    def _keep_old(self) -> None:
        """Keep the old file under another name, for `undo`. Its content is in memory as well."""
        assert self._state is not None
        if os.geteuid() not in {0, self._state.st_uid}:
            return  # in a folder with the sticky bit, such as /tmp, only the owner could remove that name again
        self._old = self.staging.new_name()
        try:
            self.folder.link(self.name, self.staging.path_of(self._old))
        except OSError:  # a file system without links
            self._old = ""


def _copy_metadata(file: int, state: os.stat_result) -> tuple[int, str]:
    """Copy owner and group, as far as allowed; return the mode that the file may have, and a note."""
    mode = stat.S_IMODE(state.st_mode)
    try:
        os.fchown(file, state.st_uid, state.st_gid)
    except PermissionError:  # only root may change the owner
        # A set-uid bit would now run the file as another user.
        mode &= ~stat.S_ISUID
    else:
        return mode, ""
    try:
        os.fchown(file, -1, state.st_gid)
    except PermissionError:
        # The new group must not get the old group's rights.
        mode &= ~(stat.S_ISGID | stat.S_IRWXG) | (mode & stat.S_IRWXO) << 3
        return mode, "belongs to you and your group now: another owner can't be kept"
    return mode, "belongs to you now: another owner can't be kept"


def _copy_attributes(like: int, file: int) -> None:
    """Copy extended attributes, among them access control lists, as far as allowed."""
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(like):
                with suppress(OSError):
                    os.setxattr(file, name, os.getxattr(like, name))
