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
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

_own_output: TextIO | None = None
_are_notes_hidden = False


def standard_output() -> TextIO | None:
    """Return standard output as the program writes to it; None: it is closed."""
    return sys.stdout if _own_output is None else _own_output


def keep_standard_output() -> None:
    """Keep standard output for what the program itself writes. Whatever else writes there writes to standard error from now on.

    For code of plugins, which may print, and for libraries in C and child processes of theirs.
    """
    global _own_output  # noqa: PLW0603  # as there is one standard output
    if _own_output is not None or sys.stdout is None:
        return
    try:
        sys.stdout.flush()
        own = os.dup(sys.stdout.fileno())
        _lead_to_standard_error(sys.stdout.fileno())
    except (OSError, ValueError):  # replaced by an object without a descriptor
        return
    _own_output = open(own, "w", encoding=sys.stdout.encoding, errors=sys.stdout.errors)  # noqa: PTH123, SIM115 - for good


def _lead_to_standard_error(descriptor: int) -> None:
    try:
        os.dup2(2, descriptor)
    except OSError:  # closed by the parent process
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, descriptor)
        os.close(nothing)


def print_text(text: str) -> int:
    """Write *text* to standard output; return the exit code.

    Characters that the encoding lacks are replaced. A reader that has gone (`engine … | head`) is no error.
    """
    output = standard_output()
    if output is None:
        print_error(STDOUT_CLOSED)
        return _OUTPUT_FAILED
    encoding = output.encoding
    # The round trip replaces what the terminal's encoding lacks, instead of raising.
    try:
        output.write(text.encode(encoding, "replace").decode(encoding, "replace"))
        output.flush()
    except OSError as error:
        # The interpreter flushes once more when it exits: that must not fail again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), output.fileno())
        if isinstance(error, BrokenPipeError):
            return 0
        print_error(f"engine: can't write to standard output: {error.strerror}")
        return _OUTPUT_FAILED
    return 0


def hide_notes(*, is_hidden: bool) -> None:
    """Hide what `print_note` is to print from now on, or show it again."""
    global _are_notes_hidden  # noqa: PLW0603  # as there is one standard error
    _are_notes_hidden = is_hidden


def print_note(text: str) -> None:
    """Write a line that is no error to standard error, unless notes are hidden."""
    if not _are_notes_hidden:
        print_error(text)


def is_journal() -> bool:
    """Return whether standard output goes to the journal of systemd: administrators read it, so it is no place for secrets."""
    try:
        status = os.fstat(1)
    except OSError:
        return False
    return os.environ.get("JOURNAL_STREAM") == f"{status.st_dev}:{status.st_ino}"


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
