"""Opens exactly the file that was checked: by its real path, one folder after the other, without following links.

A real path has no link in it when permission is checked. If it has one when it is used,
the link was made after the check, and its target was never checked: so it is refused. An open folder stays the same folder, even if its name leads elsewhere later:
what is done in it is done through its descriptor.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final, Self

import attrs

# O_PATH: a folder on the way need not be readable. (macOS does not have it, and requires the right to read.)
_PASS: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Swapped(OSError):
    """A part of a path has become a link since it was checked."""

    def __init__(self, name: str) -> None:
        super().__init__(errno.ELOOP, f"{name} has been replaced by a symbolic link, so nothing was done")


def open_real(path: str | os.PathLike[str], flags: int) -> int:
    """Return a descriptor of the file at a real path. It blocks. Raises `OSError`, of it `Swapped` if a link is in the way."""
    with open_folder(path) as (folder, name):
        return folder.open(name, flags)


@contextmanager
def open_folder(path: str | os.PathLike[str]) -> Generator[tuple[RealFolder, str]]:
    """Open the folder that a real path lies in; yield it and the name in it. It blocks. Raises `OSError`."""
    folder = RealFolder.above(path)
    try:
        yield folder, os.path.basename(path) or "."  # noqa: PTH119 - of a str as well
    finally:
        folder.close()


@attrs.define(eq=False, repr=False)
class RealFolder:
    """An open folder. Its methods follow no links."""

    _descriptor: int
    _made: list[tuple[int, str]] = attrs.field(factory=list[tuple[int, str]], init=False)

    @classmethod
    def above(cls, path: str | os.PathLike[str], *, make: bool = False) -> Self:
        """Open the folder that a real path lies in, and *make* it, and those above it, where they are missing.

        Raises `OSError`; then none was made.
        """
        whole = os.path.abspath(path)  # noqa: PTH100 - a real path has no link that this could get wrong
        folder = cls(os.open("/", _PASS))
        try:
            # One folder after the other: O_NOFOLLOW covers only the last part of a path.
            for name in filter(None, whole.split("/")[:-1]):
                folder._enter(name, make=make)
        except BaseException:  # any error goes on; what was created must not stay
            folder.remove_made()
            folder.close()
            raise
        return folder

    def open(self, name: str, flags: int, mode: int = 0o666) -> int:
        """Return a descriptor of what has that *name* in it; with `O_CREAT`, the umask counts."""
        try:
            return os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=self._descriptor)
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR} and self._is_link(name):
                raise Swapped(name) from error
            raise

    def state(self, name: str) -> os.stat_result:
        """Return the state of what has that *name*. Raises `Swapped` for a link."""
        state = os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        if stat.S_ISLNK(state.st_mode):
            raise Swapped(name)
        return state

    def has(self, name: str) -> bool:
        """Tell whether something has that *name*, be it a link."""
        try:
            os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def may_write(self, name: str) -> bool:
        """Tell whether the file of that *name* may be written to."""
        return os.access(name, os.W_OK, dir_fd=self._descriptor, effective_ids=os.access in os.supports_effective_ids)

    def rename(self, old: str, new: str) -> None:
        """Give a file the name *new*, in place of what has it."""
        os.replace(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor)

    def link(self, old: str, new: str) -> None:
        """Give a file a second name, which nothing has yet."""
        os.link(old, new, src_dir_fd=self._descriptor, dst_dir_fd=self._descriptor, follow_symlinks=False)

    def remove(self, name: str) -> None:
        """Remove the file of that *name*."""
        os.unlink(name, dir_fd=self._descriptor)

    def look(self, name: str) -> os.stat_result:
        """Return the state of what has that *name*, be it a link."""
        return os.stat(name, dir_fd=self._descriptor, follow_symlinks=False)

    def read_link(self, name: str) -> str:
        """Return the target of the link of that *name*."""
        return os.readlink(name, dir_fd=self._descriptor)

    def make_link(self, text: str, name: str) -> None:
        """Make a symbolic link of that *name*, which nothing has yet."""
        os.symlink(text, name, dir_fd=self._descriptor)

    def take(self, other: RealFolder, old: str, new: str) -> None:
        """Take the file *old* out of another folder, and give it the name *new* here, in place of what has it."""
        os.replace(old, new, src_dir_fd=other._descriptor, dst_dir_fd=self._descriptor)

    def make_inner(self, name: str) -> RealFolder:
        """Make a folder of that *name*, for this user alone, and open it."""
        os.mkdir(name, 0o700, dir_fd=self._descriptor)
        return RealFolder(self.open(name, _PASS))

    def make_whole(self, name: str, data: bytes) -> None:
        """Make a small file of that *name*, which nothing has yet; where possible it is never seen without its content."""
        try:
            with os.fdopen(self.open_nameless(0o600), "wb", buffering=0) as file:
                file.write(data)
                self.give_name(file.fileno(), name)
        except OSError:
            descriptor = self.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)

    def open_nameless(self, mode: int) -> int:
        """Return a descriptor of a new file that has no name yet, so a kill leaves nothing of it.

        Raises `OSError`, also on a system, or a file system, that has no such files. The umask counts.
        """
        if not hasattr(os, "O_TMPFILE"):
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return os.open(".", os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, mode, dir_fd=self._descriptor)

    def give_name(self, descriptor: int, name: str) -> None:
        """Give the file of `open_nameless` a *name*, which nothing has yet."""
        os.link(f"/proc/self/fd/{descriptor}", name, dst_dir_fd=self._descriptor, follow_symlinks=True)

    def remove_empty(self, name: str) -> bool:
        """Remove the folder of that *name* if there is nothing in it; tell whether it is gone."""
        try:
            os.rmdir(name, dir_fd=self._descriptor)
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def remove_made(self) -> None:
        """Remove the folders that were made on the way to it, as far as they are empty."""
        for above, name in reversed(self._made):
            with suppress(OSError):
                os.rmdir(name, dir_fd=above)

    def close(self) -> None:
        """Close its descriptor."""
        for descriptor in {self._descriptor, *(above for above, _ in self._made)}:
            os.close(descriptor)
        self._made.clear()

    def _enter(self, name: str, *, make: bool) -> None:
        above = self._descriptor
        try:
            self._descriptor = self.open(name, _PASS)
        except FileNotFoundError:
            if not make:
                raise
            # If another process has made it since, it is not ours to remove.
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=above)
                self._made.append((above, name))
            self._descriptor = self.open(name, _PASS)
        # A folder in which one was made stays open, for `remove_made`.
        if not self._made or self._made[-1][0] != above:
            os.close(above)

    def _is_link(self, name: str) -> bool:
        with suppress(OSError):
            return stat.S_ISLNK(os.stat(name, dir_fd=self._descriptor, follow_symlinks=False).st_mode)
        return False
