"""Text for a terminal."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.terminal.terminal_text import (
    ASCII,
    UNICODE,
    duration,
    escape_control_chars,
    escape_on_one_line,
    one_line,
    symbols_for,
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é ✓\n\tindented", "plain é ✓\n\tindented"),
        ("\x1b[31mred", "^[[31mred"),
        ("bell\x07 zero\0 del\x7f", "bell^G zero^@ del^?"),
        ("csi \x9b31m", "csi \\x9b31m"),
        ("rm -rf \u202e/ph", "rm -rf \\u202e/ph"),
        ("a\U000e0101\ufe01\u034f\ufff9b", "a\\U000e0101\\ufe01\\u034f\\ufff9b"),
        ("\u2764\ufe0f", "\u2764\ufe0f"),
        ("windows\r\n", "windows\n"),
        ("over\rwritten", "overwritten"),
    ],
)
def test_control_characters_are_shown(text: str, shown: str) -> None:
    assert escape_control_chars(text) == shown


@given(st.text())
def test_cursor_movements_are_escaped(text: str) -> None:
    assert all(char in "\n\t" or char.isprintable() or ord(char) >= 0xA0 for char in escape_control_chars(text))


@given(st.text(), st.integers(0, 30))
def test_one_line_fits(text: str, width: int) -> None:
    line = one_line(text, width)
    assert len(line) <= max(width, 1)
    assert "\n" not in line


def test_truncated_line_has_an_ellipsis() -> None:
    assert one_line("a  b\nc", 10) == "a b c"
    assert one_line("abcdefgh", 5) == "abcd…"
    assert one_line("abcdefgh", 5, "...") == "ab..."


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0 ms"),
        (0, "0 ms"),
        (0.0994, "99 ms"),
        (0.0996, "0.10 s"),
        (0.25, "0.25 s"),
        (0.996, "1.0 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 0 s"),
        (125, "2 min 5 s"),
        (3_600, "60 min 0 s"),
    ],
)
def test_durations(seconds: float, shown: str) -> None:
    assert duration(seconds) == shown


@pytest.mark.parametrize(
    ("encoding", "symbols"), [("utf-8", UNICODE), ("ascii", ASCII), ("latin-1", ASCII), ("?", ASCII)]
)
def test_signs_that_the_encoding_has(encoding: str, symbols: object) -> None:
    assert symbols_for(encoding) == symbols


@given(text=st.text())
def test_all_of_a_text_is_on_one_line(text: str) -> None:
    assert len(escape_on_one_line(text).splitlines()) <= 1
    assert "\t" not in escape_on_one_line(text)
    assert escape_on_one_line("a\tb\nc") == "a^Ib^Jc"
