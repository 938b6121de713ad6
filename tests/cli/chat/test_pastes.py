"""Pastes into the whole chat on a terminal: large, hostile, during a question, without brackets (cli A12, C14, P4)."""

import time

import pytest

from tests.cli.chat.emulators import Pyte, shows, wait_for
from tests.cli.conftest import Start

pytestmark = [pytest.mark.slow, pytest.mark.os]

BEGIN, END = "\x1b[200~", "\x1b[201~"


def test_pastes_are_text_and_nothing_else(engine: Start) -> None:
    chat = engine("chat", terminal=True)
    screen = Pyte(chat)
    wait_for(screen, shows("Ready"))
    # The end of a paste inside of it, and then keys that would send, cancel and leave.
    chat.type(f"{BEGIN}first{END}\r\x03\x04 last{END}")
    lines = wait_for(screen, shows("last"))
    assert not shows("Done in")(lines)
    assert not shows("Working")(lines)
    chat.type("\x15\x15\x15\x15")
    # Without brackets: lines that come at once are not sent.
    chat.type("one\rtwo\rthree\r")
    wait_for(screen, shows("  three"))
    time.sleep(0.3)
    assert shows("Ready")(screen.lines())
    chat.type("\x03")
    wait_for(screen, shows("brings the draft back"))
    # While a question is open, neither kind answers it.
    chat.type("write\r")
    wait_for(screen, shows("[y]"))
    time.sleep(1.0)  # a key would answer now
    chat.type(f"{BEGIN}y{END}")
    wait_for(screen, shows("> y"))
    chat.type("\x7f")
    chat.type("y\ry\r")
    time.sleep(0.5)
    assert shows("Question")(screen.lines())
    chat.type("\x1b")
    wait_for(screen, shows("Cancelled"))


@pytest.mark.usefixtures("only_full")
def test_ten_megabytes_are_pasted_and_edited(engine: Start) -> None:
    chat = engine("chat", terminal=True)
    screen = Pyte(chat)
    wait_for(screen, shows("Ready"))
    line = "0123456789" * 10 + "\n"
    chat.type(f"{BEGIN}{line * 100_000}{END} and more")
    wait_for(screen, shows("[Pasted 100,001 lines #1] and more"))
    chat.type("\x7f\x7f\x7f\x7fkeys")
    wait_for(screen, shows("#1] and keys"))
