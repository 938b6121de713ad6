"""The draft is there again after each kind of end, and the chat says what happened to a turn (cli C13, C25)."""

import signal
import time
from pathlib import Path

import pytest

from tests.cli.conftest import Start
from tests.cli.processes import Command

pytestmark = [pytest.mark.slow, pytest.mark.os]


def await_draft(folder: Path, text: str) -> None:
    """Wait until the draft is saved: that happens a second after the last key."""
    until = time.monotonic() + 30
    while not any(path.read_text() == text for path in folder.rglob("*.draft")):
        assert time.monotonic() < until
        time.sleep(0.05)


def end(chat: Command, how: str) -> None:
    """End the chat without a word from the user."""
    match how:
        case "term":
            chat.send(signal.SIGTERM)
        case "hup":
            chat.send(signal.SIGHUP)
        case "kill":
            chat.send(signal.SIGKILL)
        case _:
            chat.hang_up()
    chat.wait()


def test_draft_is_there_after_each_end(engine: Start, tmp_path: Path) -> None:
    state = tmp_path / "state"
    draft = "a draft of two lines"
    for how in ("term", "hup", "kill", "terminal lost", "see"):
        with engine("chat", terminal=True, XDG_STATE_HOME=str(state)) as chat:
            chat.read_until("Ready")
            if how == "term":
                chat.type("\x1b[200~a draft\x1b[201~ of two lines")
            chat.read_until(draft)
            if how == "see":
                break
            chat.type(f" {how}")
            draft = f"{draft} {how}"
            chat.read_until(how.split()[-1])
            if how == "kill":
                await_draft(state, draft)
            end(chat, how)
            await_draft(state, draft)
    (saved,) = state.rglob("*.draft")
    assert saved.stat().st_mode & 0o777 == 0o600
    assert saved.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("how", ["hup", "terminal lost"])
def test_lost_terminal_settles_the_turn(engine: Start, tmp_path: Path, how: str) -> None:
    state = str(tmp_path / "state")
    with engine("chat", terminal=True, XDG_STATE_HOME=state) as chat:
        chat.read_until("Ready")
        chat.type("slow\r")
        chat.read_until("word word")
        chat.type("later")
        chat.read_until("later")
        end(chat, how)
        assert chat.process.returncode == 128 + signal.SIGHUP
    with engine("chat", "--continue", terminal=True, XDG_STATE_HOME=state) as chat:
        chat.read_until("The last turn did not end by itself")
        chat.read_until("continues.")
        chat.read_until("> later")
        assert "word word" in chat.output
        chat.type("\x03\x04")
        assert chat.wait() == 0
