"""Standard input and output for one protocol alone: nothing else of the process reads or writes there."""

from __future__ import annotations

import os


def take_standard_streams() -> tuple[int, int]:
    """Return descriptors of standard input and output, and put others in their place.

    Whatever else writes to standard output, also a library in C or a child process, then writes to standard error; whatever
    reads finds the end.
    """
    own = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return own
