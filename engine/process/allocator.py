"""How the C library allocates memory, for a process that lives long and is the engine's alone.

By itself, glibc raises the size from which a block is mapped with each large block that is freed. The texts of a long
conversation then end up in the heap, which keeps the gaps between them.
"""

from __future__ import annotations

import sys
from typing import Final

# As `malloc.h` numbers it.
_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 64 << 10


def map_large_blocks() -> bool:
    """Let blocks of 64 KiB and more return to the system once they are freed; return whether the C library can do that."""
    if sys.platform != "linux":
        return False
    # Imported here: only the command line needs it.
    import ctypes

    # Of glibc; other C libraries have no such function.
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_MMAP_THRESHOLD, _LARGE_BYTES) == 1
