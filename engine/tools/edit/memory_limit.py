"""A limit for the memory of formatters and checkers, which read files that may be made to exhaust it."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Sequence
from typing import Final

# Of memory that is written, by each process. Not of addresses, of which Node and Go reserve many times what they use.
# A shell, since the limit must be there before the program starts, and the program may start others at once.
_LIMITED: Final = ("/bin/sh", "-c", 'ulimit -d "$0" 2>/dev/null; exec "$@"')


def limit_memory(command: Sequence[str], megabytes: int, *, cwd: str) -> list[str]:
    """Return a command line that runs *command* with less memory. It blocks. Raises `OSError` if there is no such program."""
    program = command[0]
    # The shell would report it as an exit code, and in words of its own.
    if shutil.which(os.path.join(cwd, program) if "/" in program else program) is None:  # noqa: PTH118  # which takes texts
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), program)
    return [*_LIMITED, str(megabytes * 1024), *command]
