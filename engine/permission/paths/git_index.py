"""The names in git's index, read without running git."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Final

_HEADER: Final = struct.Struct(">4sII")
# Of an entry: before its flags, and with them.
_FLAGS: Final = struct.Struct(">H")
_BEFORE_FLAGS: Final = 60
_LONGEST: Final = 0xFFF
_MAX_SIZE: Final = 20_000_000


def tracked_files(folder: str) -> list[str] | None:
    """Return the paths of the files in the index of the repository around *folder*; None: they are unknown. It blocks."""
    for root in (Path(folder), *Path(folder).parents):
        if os.path.lexists(root / ".git"):
            try:
                found = _names(root / ".git")
            except (OSError, ValueError, struct.error):
                return None
            return None if found is None else [str(root / name) for name in found]
    return None


def _names(git: Path) -> list[str] | None:
    index = git / "index"
    # A split index has only the latest changes.
    if any(git.glob("sharedindex.*")) or index.stat().st_size > _MAX_SIZE:
        return None
    data = index.read_bytes()
    signature, version, count = _HEADER.unpack_from(data)
    if signature != b"DIRC" or version not in {2, 3}:
        return None
    names: list[str] = []
    at = _HEADER.size
    for _ in range(count):
        (flags,) = _FLAGS.unpack_from(data, at + _BEFORE_FLAGS)
        begin = at + _BEFORE_FLAGS + (4 if flags & 0x4000 else 2)
        end = data.index(b"\0", begin)
        if end - begin != (flags & _LONGEST) and flags & _LONGEST != _LONGEST:
            return None
        names.append(os.fsdecode(data[begin:end]))
        # An entry ends with one to eight NULs.
        at += (end - at + 8) // 8 * 8
    return names
