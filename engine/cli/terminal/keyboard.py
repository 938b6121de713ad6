"""The keyboard: lines that the user types while a turn runs.

The terminal is opened a second time, so that reading is non-blocking for this
process only: the flag of standard input is shared with the parent process.
Waiting for a line is then waiting for a descriptor, which a cancel ends at once.
(A thread in `readline` would outlive the turn, and steal the shell's next line.)

The terminal edits the line, and its mode is changed for the blink of an eye only
(`look`), or while the rest of a line is edited that was taken from it.
"""

from __future__ import annotations

import os
import sys
import termios
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, Protocol

import attrs
import trio

from engine.core.value_base import Value

_CHUNK_BYTES: Final = 4_096
_IN_BACKGROUND: Final = 0.5
# Bracketed paste: a terminal puts pasted text between these.
_PASTE_START: Final = b"\x1b[200~"
_PASTE_END: Final = b"\x1b[201~"
_MARK_PASTES: Final = b"\x1b[?2004h"
_MARK_NO_PASTES: Final = b"\x1b[?2004l"
# The terminals that mark pastes now.
_MARKING: Final = set[int]()
# The modes of terminals that send every key now.
_BY_KEY: Final = dict[int, list[int | list[bytes | int]]]()
# The indices in what `termios.tcgetattr` returns.
_LOCAL_FLAGS: Final = 3
_CONTROL_CHARS: Final = 6


def has_terminal() -> bool:
    """Return whether a user sees questions on standard error."""
    try:
        return sys.stderr is not None and sys.stderr.isatty()  # None if closed
    except ValueError:
        return False


def restore_terminals() -> None:
    """Leave the terminals as they were, without closing them: for a process that exits at once. Not a checkpoint."""
    for fd in _MARKING:
        with suppress(OSError):
            os.write(fd, _MARK_NO_PASTES)
    for fd, mode in _BY_KEY.items():
        with suppress(OSError, termios.error):
            termios.tcsetattr(fd, termios.TCSANOW, mode)


class LineOfKeys(Protocol):
    """A line that was completed key by key."""

    @property
    def text(self) -> str:
        """The line."""
        ...

    @property
    def is_pasted(self) -> bool:
        """Whether a part of it was pasted."""
        ...


class LineEditor(Protocol):
    """Edits a line key by key."""

    @property
    def text(self) -> str:
        """The line so far."""
        ...

    @property
    def needs_redraw(self) -> bool:
        """Whether the screen does not show it as it is."""
        ...

    def begin(self, text: str) -> None:
        """Go on with *text*."""
        ...

    def feed(self, data: bytes, now: float) -> Sequence[LineOfKeys]:
        """Take keys; return the lines that they complete."""
        ...


@attrs.frozen(kw_only=True, eq=False, repr=False)
class TypedLine(Value):
    """A line without its end.

    Attributes:
        text: the line.
        is_pasted: it was pasted, or came at once with others.
        is_early: it was complete before the last `Keyboard.look`.
    """

    text: str
    is_pasted: bool = False
    is_early: bool = False


@attrs.define(eq=False, repr=False)
class Keyboard:
    """A terminal to read lines from, edited by the terminal itself.

    What `look` has taken from the terminal is edited by `editor` until that line is sent: the terminal's own keys no longer
    reach it.

    Attributes:
        editor: that editor; None: what was taken can't be edited.
        on_edit: called when the line must be redrawn.
    """

    _fd: int
    editor: LineEditor | None = attrs.field(default=None, init=False)
    on_edit: Callable[[], None] = attrs.field(default=lambda: None, init=False)
    _is_editing: bool = attrs.field(default=False, init=False)
    _lines: deque[TypedLine] = attrs.field(factory=deque[TypedLine], init=False)
    # The beginning of a line.
    _rest: bytes = attrs.field(default=b"", init=False)
    _is_pasting: bool = attrs.field(default=False, init=False)
    _has_ended: bool = attrs.field(default=False, init=False)

    @classmethod
    def open(cls) -> Keyboard | None:
        """Return the controlling terminal, if the user sees questions on standard error; else None.

        Standard input and output may be pipes: `git diff | engine run review` can still ask.
        """
        if not has_terminal():
            return None
        # O_NOCTTY: opening it must not make it our controlling terminal.
        flags = os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
        for access in (os.O_RDWR, os.O_RDONLY):
            with suppress(OSError):
                return cls(os.open("/dev/tty", access | flags))
        return None

    async def read_line(self) -> TypedLine | None:
        """Return the next line; None at the end of input. A checkpoint; if cancelled, nothing is lost."""
        await trio.lowlevel.checkpoint()
        while not self._lines:
            if self._has_ended:
                return None
            try:
                await trio.lowlevel.wait_readable(self._fd)
            except trio.ClosedResourceError:  # `look` has taken what came
                continue
            if self._is_in_foreground():
                self._take(self._read())
            else:
                # Reading now would stop this process (SIGTTIN); the line is for another one.
                await trio.sleep(_IN_BACKGROUND)
        return self._lines.popleft()

    def look(self) -> str:
        """Return the beginning of a line that is being typed, and note which lines came before now. Not a checkpoint.

        The terminal keeps such a beginning to itself until Enter is pressed, so it is taken from there: it is a part of the
        next line, and edited by `editor`.
        """
        if self._is_in_foreground():
            self._take(self._read() + (b"" if self._is_editing else self._read_unfinished()))
            # (Not in the middle of a paste.)
            if self._rest and b"\x1b" not in self._rest and not self._is_pasting:
                self._begin_editing()
        if self._lines:
            self._lines = deque(attrs.evolve(line, is_early=True) for line in self._lines)
            # Nothing is left to be readable, so a waiting `read_line` is woken.
            trio.lowlevel.notify_closing(self._fd)
        return self.draft

    @property
    def draft(self) -> str:
        """The beginning of a line, as far as it was seen."""
        if self._is_editing and self.editor is not None:
            return self.editor.text
        return self._rest.replace(_PASTE_START, b"").replace(_PASTE_END, b"").decode(errors="replace")

    @property
    def has_lines(self) -> bool:
        """Whether more lines have been read already."""
        return bool(self._lines)

    def put_back(self, text: str) -> None:
        """Make *text* the beginning of the next line. Not a checkpoint."""
        if self._is_editing and self.editor is not None:
            self.editor.begin(text + self.editor.text)
            return
        self._rest = text.encode() + self._rest

    def mark_pastes(self, *, is_on: bool) -> None:
        """Have the terminal mark pasted text, so that it isn't taken for typed text. Not a checkpoint."""
        (_MARKING.add if is_on else _MARKING.discard)(self._fd)
        # It fails on a terminal that is halted or gone: then only several lines at once are a paste.
        with suppress(OSError):
            os.write(self._fd, _MARK_PASTES if is_on else _MARK_NO_PASTES)

    def close(self) -> None:
        """Close the terminal, and leave it as it was."""
        if self._fd in _MARKING:
            self.mark_pastes(is_on=False)
        self._end_editing()
        os.close(self._fd)

    def _read(self) -> bytes:
        """Return what can be read now."""
        data = b""
        while True:
            try:
                chunk = os.read(self._fd, _CHUNK_BYTES)
            except BlockingIOError:
                return data
            except OSError:  # the terminal is gone
                chunk = b""
            if not chunk:  # Ctrl-D on an empty line
                self._has_ended = True
                return data
            data += chunk

    def _read_unfinished(self) -> bytes:
        """Return the line that the terminal is editing."""
        try:
            mode = termios.tcgetattr(self._fd)
            if not mode[_LOCAL_FLAGS] & termios.ICANON:
                return b""
            termios.tcsetattr(self._fd, termios.TCSANOW, _by_key(mode))
            try:
                data = self._read()
            finally:
                termios.tcsetattr(self._fd, termios.TCSANOW, mode)
        except termios.error:  # the terminal is gone; the next read reports it
            return b""
        # What the terminal makes of a Ctrl-D that has not been read yet.
        return data.replace(b"\0", b"")

    def _take(self, data: bytes) -> None:
        """Add *data*, which was read at once, to the lines."""
        if self._is_editing and self.editor is not None:
            self._edit(self.editor, data)
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(self._typed_line(line, is_burst=len(lines) > 1) for line in lines)

    def _begin_editing(self) -> None:
        """Take every key from now on, and edit the line here."""
        try:
            mode = termios.tcgetattr(self._fd)
            if self.editor is None or not mode[_LOCAL_FLAGS] & termios.ICANON:
                return
            termios.tcsetattr(self._fd, termios.TCSANOW, _by_key(mode))
        except termios.error:  # the terminal is gone
            return
        _BY_KEY[self._fd], self._is_editing = mode, True
        self.editor.begin(self._rest.decode(errors="replace"))
        self._rest = b""

    def _end_editing(self) -> None:
        """Leave the line to the terminal again."""
        mode, self._is_editing = _BY_KEY.pop(self._fd, None), False
        if mode is not None:
            with suppress(OSError, termios.error):
                termios.tcsetattr(self._fd, termios.TCSANOW, mode)

    def _edit(self, editor: LineEditor, data: bytes) -> None:
        lines = editor.feed(data, trio.current_time())
        for line in lines:
            self._lines.append(TypedLine(text=line.text, is_pasted=line.is_pasted or len(lines) > 1))
        needs_redraw = editor.needs_redraw
        if not editor.text:
            self._end_editing()
        if needs_redraw and not self._lines:
            self.on_edit()

    def _typed_line(self, line: bytes, *, is_burst: bool) -> TypedLine:
        if line.startswith(_PASTE_END):  # of a paste that ended with its line
            self._is_pasting = False
            line = line.removeprefix(_PASTE_END)
        is_pasted = is_burst or self._is_pasting or _PASTE_START in line
        # Whichever mark came last decides about the next line.
        if _PASTE_START in line or _PASTE_END in line:
            self._is_pasting = line.rfind(_PASTE_START) > line.rfind(_PASTE_END)
        text = line.replace(_PASTE_START, b"").replace(_PASTE_END, b"")
        return TypedLine(text=text.decode(errors="replace"), is_pasted=is_pasted)

    def _is_in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._fd) == os.getpgrp()
        except OSError:  # not the controlling terminal: there is no job control
            return True


def _by_key(mode: list[int | list[bytes | int]]) -> list[int | list[bytes | int]]:
    """Return a terminal's mode changed so that it hands out every key at once."""
    flags, chars = mode[_LOCAL_FLAGS], mode[_CONTROL_CHARS]
    assert isinstance(flags, int)
    assert isinstance(chars, list)
    changed = [*mode]
    changed[_LOCAL_FLAGS] = flags & ~termios.ICANON
    changed[_CONTROL_CHARS] = by_key = [*chars]
    by_key[termios.VMIN], by_key[termios.VTIME] = 1, 0
    return changed
