"""Standard input as a part of the task: `git diff | engine run "review this"`.

A command that is started by a script, a timer or another agent often inherits a standard input that is never written to
and never closed. Reading it to its end would hang for ever, and not reading it would lose what a user has piped in. So a
pipe gets some seconds to send its first byte; once it has sent one, it is read to its end.
"""

from __future__ import annotations

import math
import os
import stat
import sys
import time
from typing import Final, Literal

import attrs

from engine.cli.task.wait_readable import wait_readable
from engine.cli.terminal.standard_streams import print_error, print_note
from engine.core.errors import ConfigError
from engine.core.value_base import Value

StdinPolicy = Literal["auto", "wait", "skip"]
# "none": there was nothing to read; "timeout": a pipe sent nothing in time.
StdinState = Literal["none", "read", "timeout"]

MAX_BYTES: Final = 10 * 1024 * 1024
_NOTICE_AFTER: Final = 1.0
_NOTICE_EVERY: Final = 10.0
FIRST_BYTE_WITHIN: Final = 10.0
_CHUNK: Final = 65_536


@attrs.frozen(eq=False, repr=False)
class StandardInput(Value):
    """What was read from standard input."""

    state: StdinState
    data: bytes = b""


def read_stdin(policy: StdinPolicy, *, limit: int = MAX_BYTES) -> StandardInput:
    """Read standard input to its end, if there is something to read. It blocks. Raises `ConfigError`.

    Args:
        policy: "auto" gives up on a pipe that sends nothing for ten seconds; "wait" does not; "skip" reads nothing.
        limit: the most bytes; more is an error.
    """
    if policy == "skip" or sys.stdin is None:  # None: closed
        return StandardInput("none")
    try:
        descriptor = sys.stdin.fileno()
        mode = os.fstat(descriptor).st_mode
    except (OSError, ValueError):
        return StandardInput("none")
    # A terminal is the keyboard, and /dev/null is empty.
    if stat.S_ISCHR(mode) or not (stat.S_ISREG(mode) or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)):
        return StandardInput("none")
    if not stat.S_ISREG(mode) and not _has_begun(descriptor, waits=policy == "wait"):
        print_error("engine: standard input sent nothing for 10 s; continuing without it (--stdin=wait waits for it)")
        return StandardInput("timeout")
    data = _read_all(descriptor, limit)
    return StandardInput("read" if data else "none", data)


def _has_begun(descriptor: int, *, waits: bool) -> bool:
    """Wait for the first byte or the end; return whether one came."""
    if wait_readable(descriptor, _NOTICE_AFTER):
        return True
    print_note("engine: waiting for standard input (--stdin=skip does not read it)")
    return wait_readable(descriptor, math.inf if waits else FIRST_BYTE_WITHIN - _NOTICE_AFTER)


def _read_all(descriptor: int, limit: int) -> bytes:
    """Read to the end, with a notice every ten seconds."""
    chunks: list[bytes] = []
    total, next_notice = 0, time.monotonic() + _NOTICE_EVERY
    while True:
        if not wait_readable(descriptor, next_notice - time.monotonic()):
            print_note(f"engine: reading standard input ({total:,} bytes so far)")
            next_notice = time.monotonic() + _NOTICE_EVERY
            continue
        chunk = os.read(descriptor, _CHUNK)
        if not chunk:
            return b"".join(chunks)
        chunks.append(chunk)
        total += len(chunk)
        if total > limit:
            raise ConfigError(
                f"standard input is larger than {limit:,} bytes\n"
                "Next: save it in a file and name the file in the task, or raise --stdin-max"
            )
