"""Plain writes to standard output and standard error, for what is printed at once.

It imports nothing but what Python has loaded anyway: `engine --version` needs it.
Events of a turn go through `engine.cli.terminal.output`, which never blocks the event loop.
"""

from __future__ import annotations

import os
import sys

from engine.cli.terminal.starting_frame import erase_starting_frame

# `OUTPUT_FAILED` of `exit_codes`, which imports more than Python has loaded.
_OUTPUT_FAILED = 74
# A reader that closed it lost the output, and a shell must not take that for a success.
STDOUT_CLOSED = "engine: standard output is closed\nNext: add >/dev/null if the output is not needed"


def print_text(text: str) -> int:
    """Write *text* to standard output; return the exit code.

    Characters that the encoding lacks are replaced. A reader that has gone (`engine … | head`) is no error.
    """
    if sys.stdout is None:
        print_error(STDOUT_CLOSED)
        return _OUTPUT_FAILED
    encoding = sys.stdout.encoding
    # The round trip replaces what the terminal's encoding lacks, instead of raising.
    try:
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding, "replace"))
        sys.stdout.flush()
    except OSError as error:
        # The interpreter flushes once more when it exits: that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            return 0
        print_error(f"engine: can't write to standard output: {error.strerror}")
        return _OUTPUT_FAILED
    return 0


def print_error(text: str) -> None:
    """Write a line to standard error, if there is one."""
    if sys.stderr is None:  # closed by the parent process
        return
    erase_starting_frame()
    try:
        sys.stderr.write(f"{text}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        return  # standard error itself is gone: there is no place to report it
