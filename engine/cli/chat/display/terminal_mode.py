"""The terminal of the chat: raw keys and bracketed paste, and by default nothing else that a shell would have to undo.

Every way out restores it. What even `kill -9` leaves, the next prompt of a shell sets right by itself.
"""

from __future__ import annotations

import os
import select
import termios
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import attrs
import trio

from engine.cli.chat.display.live_region import Reflow
from engine.cli.terminal.starting_frame import erase_starting_frame

_READ_BYTES: Final = 1 << 20
# Nobody types that much at once; and how often it is read on before other tasks get their turn.
_BURST_BYTES: Final = 1_024
_MAX_CHUNKS: Final = 32
# The next piece of a paste comes faster; waiting for it here is cheaper than Trio's way around.
_BURST_SECONDS: Final = 0.0005
_PASTE_ON: Final = b"\x1b[?2004h"
_PASTE_OFF: Final = b"\x1b[?2004l"
# Reports of keys such as Shift+Enter: those of kitty's protocol that are ambiguous otherwise, and those of xterm.
_EXTENDED_ON: Final = b"\x1b[>1u\x1b[>4;1m"
_EXTENDED_OFF: Final = b"\x1b[>4;0m\x1b[<u"
_IN_BACKGROUND: Final = 0.5
# The values of TERM_PROGRAM of terminals made with xterm.js.
_XTERM_JS: Final = frozenset({"vscode", "Hyper", "Tabby"})


def reflow_of(env: Mapping[str, str]) -> Reflow:
    """Return what the terminal does with rows that no longer fit when it gets narrower."""
    if env.get("TMUX"):
        return "all"
    if env.get("TERM", "") in {"linux", "vt100"} or env.get("XTERM_VERSION") or env.get("STY"):
        return "none"
    # xterm.js leaves the cursor's row to the program. Over ssh it is not known which terminal it is: taking a row too many
    # for ours would erase a finished line, one too few only leaves a copy of what was typed.
    is_unknown = env.get("TERM_PROGRAM") in _XTERM_JS or bool(env.get("SSH_CONNECTION"))
    return "all but the cursor's" if is_unknown else "all"


@attrs.define(eq=False)
class RawTerminal:
    """The controlling terminal, opened a second time, so that reading does not block.

    (The flag of standard input is shared with the parent process.)

    Attributes:
        has_extended_keys: it is asked to report more keys: what a shell does not undo after `kill -9`.
    """

    _fd: int
    has_extended_keys: bool = attrs.field(default=False, init=False)
    _saved: list[int | list[bytes | int]] | None = attrs.field(default=None, init=False)

    @classmethod
    def open(cls) -> RawTerminal | None:
        """Return the controlling terminal; None: there is none."""
        try:
            return cls(os.open("/dev/tty", os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))
        except OSError:
            return None

    @property
    def size(self) -> tuple[int, int]:
        """Its columns and rows."""
        try:
            size = os.get_terminal_size(self._fd)
        except OSError:  # it is gone
            return 80, 24
        # Some report nothing, a serial line for instance.
        return size.columns or 80, size.lines or 24

    def arm(self) -> None:
        """Deliver each key, and mark pastes."""
        erase_starting_frame()
        try:
            self._saved = termios.tcgetattr(self._fd)
            mode = termios.tcgetattr(self._fd)
            mode[0] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.ISTRIP)
            mode[3] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
            mode[6][termios.VMIN], mode[6][termios.VTIME] = 1, 0
            termios.tcsetattr(self._fd, termios.TCSADRAIN, mode)
            os.write(self._fd, _PASTE_ON + (_EXTENDED_ON if self.has_extended_keys else b""))
        except (OSError, termios.error):
            return  # the terminal is gone; the next read reports it

    def restore(self) -> None:
        """Put it back as it was."""
        if self._saved is None:
            return
        saved, self._saved = self._saved, None
        with suppress(OSError):  # gone, or stopped by Ctrl-S
            os.write(self._fd, (_EXTENDED_OFF if self.has_extended_keys else b"") + _PASTE_OFF)
        try:
            # Not TCSADRAIN: a terminal that is stopped by Ctrl-S would never drain.
            termios.tcsetattr(self._fd, termios.TCSANOW, saved)
        except (OSError, termios.error):
            return

    async def read(self) -> bytes:
        """Return what was typed; empty at the end. A checkpoint; if cancelled, nothing is lost."""
        while True:
            await trio.lowlevel.wait_readable(self._fd)
            if not self._is_in_foreground():
                # Reading now would stop this process (SIGTTIN); the keys are for another one.
                await trio.sleep(_IN_BACKGROUND)
                continue
            try:
                data = os.read(self._fd, _READ_BYTES)
            except BlockingIOError:
                continue
            except OSError:  # the terminal is gone
                return b""
            return data if len(data) < _BURST_BYTES else data + self._rest_of_burst()

    def _rest_of_burst(self) -> bytes:
        """Return what else is there of a long paste: a terminal hands out some kilobytes at a time."""
        chunks: list[bytes] = []
        with suppress(OSError):  # there is no more now, or the terminal is gone: the next read reports that
            while len(chunks) < _MAX_CHUNKS and select.select([self._fd], [], [], _BURST_SECONDS)[0]:
                chunks.append(os.read(self._fd, _READ_BYTES))
        return b"".join(chunks)

    def close(self) -> None:
        """Restore it and close it."""
        self.restore()
        os.close(self._fd)

    def _is_in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:  # not the controlling terminal: there is no job control
            return True
