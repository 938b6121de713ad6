"""The keyboard: lines that the user types while a turn runs.

The terminal is opened a second time, so that reading is non-blocking for this
process only: the flag of standard input is shared with the parent process.
Waiting for a line is then waiting for a descriptor, which a cancel ends at once.
(A thread in `readline` would outlive the turn, and steal the shell's next line.)
"""

from __future__ import annotations

import os
import sys
import termios
from typing import Final

import attrs
import trio

_LINE_BYTES: Final = 4_096
_IN_BACKGROUND: Final = 0.5


def has_terminal() -> bool:
    """Return whether a user sees questions on standard error."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()  # None if closed
    except ValueError:
        return False


@attrs.define(eq=False)
class Keyboard:
    """A terminal to read lines from, edited by the terminal itself."""

    _fd: int
    _typed: bytes = attrs.field(default=b"", init=False)

    @classmethod
    def open(cls) -> Keyboard | None:
        """Return the controlling terminal, if the user sees questions on standard error; else None.

        Standard input and output may be pipes: `git diff | engine run review` can still ask.
        """
        if not has_terminal():
            return None
        try:
            # O_NOCTTY: opening it must not make it our controlling terminal.
            return cls(os.open("/dev/tty", os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
        except OSError:
            return None

    async def read_line(self) -> str | None:
        """Return the next line without its end; None at the end of input. A checkpoint; if cancelled, nothing is lost."""
        while b"\n" not in self._typed:
            await trio.lowlevel.wait_readable(self._fd)
            if not self._is_in_foreground():
                await trio.sleep(
                    _IN_BACKGROUND
                )  # reading now would stop this process (SIGTTIN); the line is for another one
                continue
            try:
                data = os.read(self._fd, _LINE_BYTES)
            except BlockingIOError:
                continue
            except OSError:  # the terminal is gone
                return None
            if not data:  # Ctrl-D on an empty line
                return None
            self._typed += data
        line, _, self._typed = self._typed.partition(b"\n")
        return line.decode(errors="replace")

    def forget(self) -> None:
        """Drop what has been typed so far: it can't be an answer to what is shown next. Not a checkpoint."""
        self._typed = b""
        try:
            termios.tcflush(self._fd, termios.TCIFLUSH)
        except termios.error:
            return  # the terminal is gone; the next read reports it

    def close(self) -> None:
        """Close the terminal."""
        os.close(self._fd)

    def _is_in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:  # not the controlling terminal: there is no job control
            return True
