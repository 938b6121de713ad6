"""Files change all at once, or not at all. All of it blocks, and must run to its end: in a thread that is waited for.

Each new text is first written beside its file, so that a full disk or a missing
right is found while nothing has happened yet. Then each file is compared with what
the change was made for, and at once the new one takes its place by a rename: whoever
reads it sees the old or the new, never a half. If that fails for one of several
files, those before it get their old content back.

Between the comparison and the rename another program has some microseconds to write
to a file unseen: nothing in POSIX closes that gap.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import attrs

from engine.errors import ToolError
from engine.tools.builtin.files import check_regular, renamed_errors


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


def commit(changes: Sequence[FileChange]) -> None:
    """Make all changes, of files that differ. Raises `ToolError` if that is not possible; then none was made."""
    steps = [_Step(change) for change in sorted(changes, key=lambda change: change.after is None)]
    try:
        for step in steps:
            step.prepare()
        for step in steps:
            step.make(is_only=len(steps) == 1)
    except BaseException as error:
        lost = [told for step in reversed(steps) if (told := step.undo())]
        if isinstance(error, ToolError) and len(steps) > 1:
            told = f"Some files could not be put back: {', '.join(lost)}." if lost else "No file was changed."
            raise ToolError(f"{error} {told}") from error  # noqa: ASYNC104  # no Cancelled comes to a thread
        raise
    finally:
        for step in steps:
            step.clean_up()


def replace_file(shown: str, path: Path, data: bytes) -> bool:
    """Put *data* in place of a file, whatever it holds, or create it; return whether it was created."""
    with renamed_errors(shown, path):
        target = Path(os.path.realpath(path))
        try:
            check_regular(shown, target)
        except FileNotFoundError:
            commit([FileChange(shown=shown, path=target, before=None, after=data)])
            return True
        commit([FileChange(shown=shown, path=target, before=target.read_bytes(), after=data)])
    return False


@attrs.define(eq=False)
class _Step:
    """One file on its way. It is made by `prepare`, then `make`; `undo` takes the latter back."""

    change: FileChange
    _new: Path | None = None
    _old: Path | None = None
    _folders: list[Path] = attrs.field(factory=list[Path])
    _state: os.stat_result | None = None
    _is_made: bool = False

    def prepare(self) -> None:
        """Find out what can be found out, and write the new text beside the file."""
        change = self.change
        with renamed_errors(change.shown, change.path):
            if change.before is None:
                self._make_folders()
            else:
                self._state = check_regular(change.shown, change.path)
                # A rename needs no right to the file itself, but its owner has said no.
                if not os.access(change.path, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
                    raise ToolError(f"{change.shown} is read-only.")
            if change.after is not None:
                self._write(change.after)

    def make(self, *, is_only: bool) -> None:
        """Put the new text in its place."""
        change = self.change
        with renamed_errors(change.shown, change.path):
            self._check()
            if change.before is None:
                self._create()
            elif self._new is None:
                self._old = self._beside()
                change.path.replace(self._old)
            else:
                if not is_only:
                    self._keep_old()
                self._new.replace(change.path)
            self._is_made = True

    def undo(self) -> str:
        """Put back what there was; return an empty text, or what to tell if that failed."""
        change = self.change
        try:
            if not self._is_made:
                pass
            elif change.before is None:
                change.path.unlink()
            elif self._old is not None:
                self._old.replace(change.path)
                self._old = None
            else:
                self._write(change.before)
                assert self._new is not None
                self._new.replace(change.path)
        except OSError:
            kept, self._old = self._old, None  # it is all that there is of it now
            return f"{change.shown} (its old content is {kept})" if kept else change.shown
        self._is_made = False
        return ""

    def clean_up(self) -> None:
        """Remove what lies beside the file, and folders that were made for nothing."""
        for path in (self._new, self._old):
            if path is not None:
                with suppress(OSError):
                    path.unlink(missing_ok=True)
        if not self._is_made:
            for folder in reversed(self._folders):
                with suppress(OSError):
                    folder.rmdir()

    def _check(self) -> None:
        change = self.change
        if change.before is None:
            if os.path.lexists(change.path):
                raise ToolError(
                    f"{change.shown} has come into being meanwhile: another program wrote it. Read it first."
                )
        elif change.path.read_bytes() != change.before:
            raise ToolError(f"{change.shown} has changed meanwhile: another program wrote to it. Read it again.")

    def _make_folders(self) -> None:
        missing = [folder for folder in self.change.path.parents if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            self._folders.append(folder)

    def _write(self, data: bytes) -> None:
        state = self._state if self.change.like is None else self.change.like.stat()
        self._new = self._beside()
        # Opened so that the umask counts for a file without a model.
        with os.fdopen(os.open(self._new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(data)
            file.flush()
            if state is not None:
                _copy_attributes(self.change.like or self.change.path, file.fileno())
                with suppress(PermissionError):  # only root may give a file away
                    os.fchown(file.fileno(), state.st_uid, state.st_gid)
                os.fchmod(file.fileno(), stat.S_IMODE(state.st_mode))
            os.fsync(file.fileno())

    def _create(self) -> None:
        """Give the new file its name, unless another file has got it meanwhile."""
        assert self._new is not None
        try:
            self.change.path.hardlink_to(self._new)
        except FileExistsError:
            raise ToolError(f"{self.change.shown} has come into being meanwhile. Read it first.") from None
        except OSError:  # a file system without links
            self._new.rename(self.change.path)

    def _keep_old(self) -> None:
        """Keep the old file under another name, to put it back if need be. Its content is in memory, too."""
        assert self._state is not None
        if os.geteuid() not in {0, self._state.st_uid}:
            return  # in a folder like /tmp, nobody but the owner could remove that name again
        self._old = self._beside()
        try:
            self._old.hardlink_to(self.change.path)
        except OSError:  # a file system without links
            self._old = None

    def _beside(self) -> Path:
        # A name of its own, however long the file's is.
        return self.change.path.with_name(f".{uuid4().hex}.tmp")


def _copy_attributes(path: Path, file: int) -> None:
    """Take over the extended attributes, among them access control lists, as far as that is allowed."""
    if hasattr(os, "listxattr"):
        with suppress(OSError):
            for name in os.listxattr(path):
                with suppress(OSError):
                    os.setxattr(file, name, os.getxattr(path, name))
