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


ASKED = ev.QuestionAsked(request_id=RequestId("r"), call_id=CallId("c"), question="Which?")
ANSWERED = ev.QuestionAnswered(request_id=RequestId("r"), outcome="answered")


def ends(seconds: float, notifier: Notifier) -> str:
    notifier.feed(ev.TurnStarted(turn_id=TURN, time=100.0))
    return notifier.feed(
        ev.TurnEnded(turn_id=TURN, time=100.0 + seconds, result=ev.TurnResult(stop_reason="completed"))
    )


def test_only_long_turns_are_news() -> None:
    assert ends(19.0, Notifier("bell")) == ""
    assert ends(21.0, Notifier("bell")) == "engine: the turn has ended (completed)"
    assert ends(21.0, Notifier("off")) == ""


async def test_question_is_news_once_nothing_is_typed(autojump_clock: object) -> None:
    notifier = Notifier("bell")
    assert notifier.feed(ASKED) == "engine waits for an answer"
    assert await notifier.looks_elsewhere(ASKED)
    # A message is sent, its user turns away, and a second later the question comes.
    notifier.note_typed(trio.current_time())
    await trio.sleep(1)
    began = trio.current_time()
    assert await notifier.looks_elsewhere(ASKED)
    assert trio.current_time() == began + 4


@pytest.mark.parametrize("event", ["key", "answer"])
async def test_question_that_was_seen_is_no_news(autojump_clock: object, event: str) -> None:
    notifier = Notifier("bell")
    notifier.feed(ASKED)
    notifier.note_typed(trio.current_time())
    seen: list[bool] = []

    async def look() -> None:
        seen.append(await notifier.looks_elsewhere(ASKED))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        await trio.sleep(1)
        if event == "key":
            notifier.note_typed(trio.current_time())
        else:
            notifier.feed(ANSWERED)
    assert seen == [False]


async def test_end_of_a_turn_is_no_news_to_who_types(autojump_clock: object) -> None:
    notifier = Notifier("bell")
    ended = ev.TurnEnded(turn_id=TURN, time=1.0, result=ev.TurnResult(stop_reason="completed"))
    assert await notifier.looks_elsewhere(ended)
    notifier.note_typed(trio.current_time())
    assert not await notifier.looks_elsewhere(ended)


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
