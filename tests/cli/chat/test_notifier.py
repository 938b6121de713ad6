"""Who looks elsewhere is told that a long turn has ended, and that a question waits."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import trio

from engine.cli.chat.notifier import Notifier
from engine.config.chat_config import ChatConfig
from engine.core import events as ev
from engine.core.errors import ConfigError
from engine.core.ids import CallId, RequestId, TurnId

TURN = TurnId("turn")


def ends(seconds: float, notifier: Notifier) -> str:
    notifier.feed(ev.TurnStarted(turn_id=TURN, time=100.0), 0.0)
    ended = ev.TurnEnded(turn_id=TURN, time=100.0 + seconds, result=ev.TurnResult(stop_reason="completed"))
    return notifier.feed(ended, 1_000.0)


def test_only_long_turns_are_news() -> None:
    assert ends(19.0, Notifier("bell")) == ""
    assert ends(21.0, Notifier("bell")) == "engine: the turn has ended (completed)"
    assert ends(21.0, Notifier("off")) == ""


def test_question_is_news_unless_the_user_types() -> None:
    question = ev.QuestionAsked(request_id=RequestId("r"), call_id=CallId("c"), question="Which?")
    notifier = Notifier("bell")
    assert notifier.feed(question, 100.0) == "engine waits for an answer"
    notifier.note_typed(97.0)
    assert notifier.feed(question, 100.0) == ""
    assert notifier.feed(question, 103.0)


def test_sequences_are_those_of_the_choice() -> None:
    assert Notifier("bell").sequence("text", {}) == "\a"
    assert Notifier("osc").sequence("te\x1bxt", {}) == "\x1b]9;te^[xt\x07"
    assert Notifier("osc").sequence("text", {"TMUX": "1"}) == "\x1bPtmux;\x1b\x1b]9;text\x07\x1b\\"
    assert Notifier("command", ("true",)).sequence("text", {}) == ""
    with pytest.raises(ConfigError, match="needs notify_command"):
        ChatConfig(notify="command")


@pytest.mark.os
def test_users_program_gets_the_text(tmp_path: Path) -> None:
    program = "import sys,pathlib; pathlib.Path(sys.argv[1]).write_text(sys.argv[2])"
    notifier = Notifier("command", (sys.executable, "-c", program, str(tmp_path / "told")))
    trio.run(notifier.run_command, "the text")
    assert (tmp_path / "told").read_text() == "the text"
    trio.run(Notifier("command", ("/nowhere",)).run_command, "a program that is not there is no failure")
