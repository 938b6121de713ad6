"""The type of the file system that a path is on, from Linux's list of mounts; unknown on other systems."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Final

MOUNTS: Final = Path("/proc/self/mountinfo")
# On these, other machines may have the same file open, or processes can't share mapped memory, which SQLite's WAL
# needs.
_SHARED: Final = frozenset(
    {"9p", "afs", "beegfs", "ceph", "cifs", "coda", "davfs", "drvfs", "gfs2", "glusterfs", "gpfs", "lustre", "ncpfs"}
    | {"nfs", "nfs4", "ocfs2", "orangefs", "prl_fs", "smb2", "smb3", "smbfs", "vboxsf", "virtiofs", "vmhgfs"}
)
# A FUSE file system can be anything. These are known to be on a local disk.
_LOCAL_FUSE: Final = frozenset(
    {"fuse.ntfs-3g", "fuse.ntfs", "fuse.exfat", "fuse.encfs", "fuse.fuse-overlayfs"} | {"fuse.gocryptfs", "fuseblk"}
)


def filesystem_type(path: Path, mounts: Path = MOUNTS) -> str:
    """Return the type of the file system of *path*; empty if unknown. It blocks."""
    try:
        mountinfo = mounts.read_text(encoding="utf-8", errors="surrogateescape")
        real = path.resolve()
    except OSError:
        return ""
    kinds = _mounted(mountinfo)
    return next((kinds[parent] for parent in (str(real), *map(str, real.parents)) if parent in kinds), "")


def is_shared(kind: str) -> bool:
    """Return whether a file system of that type is, or may be, shared with other machines."""
    return kind in _SHARED or (kind.startswith("fuse.") and kind not in _LOCAL_FUSE)


def _mounted(mountinfo: str) -> Mapping[str, str]:
    """Return the file system of each mount point. A later mount covers an earlier one."""
    kinds: dict[str, str] = {}
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields, rest = before.split(" "), after.split(" ")
        if separator and len(fields) > 4:
            kinds[str(PurePosixPath(_unescaped(fields[4])))] = rest[0]
    return kinds


def _unescaped(text: str) -> str:
    """Replace octal escapes, which the kernel uses for blanks and backslashes."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
