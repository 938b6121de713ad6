"""Open a file for reading so that nothing can block, and hash it on the way."""

from __future__ import annotations

import hashlib
import io
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import attrs

from engine.files.read_state import hasher
from engine.files.real_folder import open_folder
from engine.files.text_files import regular

# Larger files are not hashed: that would take longer than reading a few of their lines is worth.
HASHED_BYTES: Final = 200_000_000
_BUFFER_BYTES: Final = 65_536
_SNIFFED_BYTES: Final = 8_192


@attrs.define(eq=False)
class OpenedSource:
    """An open file.

    Attributes:
        file: its bytes, which can be read once, from the beginning.
        size: its size, according to the file system.
        identity: its device and inode.
    """

    file: io.BufferedReader
    size: int
    identity: tuple[int, int]
    _passed: _Hashed

    @property
    def beginning(self) -> bytes:
        """Its first bytes, as long as nothing was read."""
        return self.file.peek(_SNIFFED_BYTES)[:_SNIFFED_BYTES]

    def digest(self) -> str | None:
        """Read the rest, and return the digest of the whole; None if it is too large."""
        if self.size > HASHED_BYTES:
            return None
        # Files in /proc report size 0, no matter what they contain.
        while self._passed.count <= HASHED_BYTES:
            if not self.file.read(_BUFFER_BYTES):
                return self._passed.digest.hexdigest()
        return None


@contextmanager
def opened(shown: str, path: Path) -> Generator[OpenedSource | int]:
    """Open the file at a real path; for a folder, yield its descriptor.

    It blocks, but not for ever. Raises `OSError`, and `ToolError` for a pipe or a device.
    """
    with open_folder(path) as (folder, name):
        # Checked first: opening a device may have effects, opening a pipe may block.
        is_folder = stat.S_ISDIR(folder.state(name).st_mode)
        if not is_folder:
            regular(shown, folder.state(name))
        # Non-blocking nevertheless: the file may have been replaced by a pipe since.
        descriptor = folder.open(name, os.O_RDONLY | (os.O_DIRECTORY if is_folder else os.O_NONBLOCK | os.O_NOCTTY))
    if is_folder:
        try:
            yield descriptor
        finally:
            os.close(descriptor)
        return
    with os.fdopen(descriptor, "rb", buffering=0) as raw:
        state = regular(shown, os.fstat(descriptor))
        passed = _Hashed(raw, hasher())
        yield OpenedSource(
            io.BufferedReader(passed, _BUFFER_BYTES), state.st_size, (state.st_dev, state.st_ino), passed
        )


class _Hashed(io.RawIOBase):
    """Hashes what it reads."""

    def __init__(self, raw: io.FileIO, digest: hashlib.blake2b) -> None:
        super().__init__()
        self._raw = raw
        self.digest = digest
        self.count = 0

    def readable(self) -> bool:
        return True

    # What a BufferedReader passes; the wider type that the parent takes has a name in typeshed alone.
    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]
        count = self._raw.readinto(buffer)
        if count:
            self.digest.update(buffer[:count])
            self.count += count
        return count
