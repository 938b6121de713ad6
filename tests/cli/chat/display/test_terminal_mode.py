"""What the chat asks of the terminal, and that it is taken back (cli C6)."""

import os
import pty
import termios

import pytest

from engine.cli.chat.display.terminal_mode import RawTerminal

pytestmark = pytest.mark.os


def written(terminal: int, expected: str) -> bool:
    """Whether that is written, in however many pieces."""
    text = ""
    while text != expected and expected.startswith(text):
        text += os.read(terminal, 1_000).decode()
    return text == expected


@pytest.mark.parametrize(
    ("is_extended", "asked", "undone"), [(False, "", ""), (True, "\x1b[>1u\x1b[>4;1m", "\x1b[>4;0m\x1b[<u")]
)
def test_modes_are_set_and_taken_back(is_extended: bool, asked: str, undone: str) -> None:
    ours, theirs = pty.openpty()
    try:
        before = termios.tcgetattr(theirs)
        terminal = RawTerminal(theirs)
        terminal.has_extended_keys = is_extended
        terminal.arm()
        assert not termios.tcgetattr(theirs)[3] & (termios.ICANON | termios.ECHO | termios.ISIG)
        assert written(ours, f"\x1b[?2004h{asked}")
        terminal.restore()
        assert termios.tcgetattr(theirs) == before
        assert written(ours, f"{undone}\x1b[?2004l")
        terminal.restore()
        assert termios.tcgetattr(theirs) == before
    finally:
        os.close(ours)
        os.close(theirs)
