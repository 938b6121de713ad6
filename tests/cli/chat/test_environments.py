"""The chat in terminals of all kinds: encodings, widths, TERM, and without colours (cli A15, A16, S16)."""

import re
import time
from itertools import product

import pytest

from tests.cli.conftest import Start

pytestmark = [pytest.mark.slow, pytest.mark.os]

TERMS = ("dumb", "linux", "xterm", "tmux-256color", "screen")
LOCALES = ("C", "C.UTF-8")
WIDTHS = (24, 80, 200)
SAMPLE = (("C", 24, "linux"), ("C.UTF-8", 200, "dumb"))


@pytest.mark.parametrize(("locale", "columns", "term"), [*product(LOCALES, WIDTHS, TERMS)])
def test_conversation_in_any_terminal(engine: Start, is_full: bool, locale: str, columns: int, term: str) -> None:
    if not is_full and (locale, columns, term) not in SAMPLE:
        pytest.skip("only in `make full`")
    utf8 = "0" if locale == "C" else "1"
    with engine(
        "chat",
        terminal=True,
        TERM=term,
        NO_COLOR="1",
        LC_ALL=locale,
        PYTHONUTF8=utf8,
        PYTHONCOERCECLOCALE="0",
    ) as chat:
        chat.resize(columns, 24)
        # In 24 columns there is no status line.
        chat.read_until("Accessible mode" if term == "dumb" else "Ready" if columns >= 40 else "/help")
        chat.type("hello\r")
        chat.read_until("Done")
        before = len(chat.output)
        chat.type("/nonsense\r")
        chat.read_until("Unknown", after=before)
        time.sleep(0.1)  # lines that come at once are a paste
        chat.type("/quit\r" if term == "dumb" else "\x15/quit\r")
        assert chat.wait() == 0
        # NO_COLOR: no colours. TERM=dumb: no escape sequence at all.
        assert re.search(r"\x1b\[[0-9;]*m", chat.output) is None
        assert ("\x1b" in chat.output) == (term != "dumb")
        if locale == "C":
            assert chat.output.isascii()
        else:
            assert "wörld" in chat.output
