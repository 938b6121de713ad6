"""Questions that appear while a user types: no key answers one, and no character is lost (cli A9, P4)."""

import random

import pytest
import trio

from engine.cli.chat.machine import effects as do
from engine.core import events as ev
from engine.session.answer_types import Once
from engine.session.session import Session
from engine.testing.fake_tools import FakeTools
from engine.testing.script import Answer, call, done, text
from tests.cli.chat.chat_machine import Chat
from tests.cli.chat.driven_chat import ChatScript, play_chat
from tests.cli.questions.questions import permission_asked

QUESTIONS = 50


def letters(dice: random.Random, count: int) -> list[str | float]:
    """Messages typed letter by letter, with all that answers a question among them, sent now and then."""
    acts: list[str | float] = []
    for number in range(count):
        for key in f"yand {dice.choice('yanped1')}text{number}":
            acts += [key, dice.uniform(0.02, 0.3)]
        acts += ["\r", dice.uniform(0.02, 0.65)] if dice.random() < 0.5 else []
    return acts


@pytest.mark.parametrize("seed", range(2))
def test_no_key_answers_a_question(seed: int) -> None:
    dice = random.Random(seed)
    answered: list[str] = []

    async def answer_elsewhere(session: Session) -> None:
        """Another client answers each question after a while."""
        async for event in session.subscribe():
            if isinstance(event, ev.PermissionAsked):
                await trio.sleep(dice.uniform(0.05, 1.5))
                # It raises if the chat has answered already.
                await session.reply(event.request_id, Once())
                answered.append(event.request_id)
                if len(answered) == QUESTIONS:
                    return

    calls = [item for n in range(QUESTIONS) for item in call("work", {"key": str(n), "seconds": 0.1}, id=f"c{n}")]
    answers: list[Answer] = [[*text("Working."), *calls, *done("calls")]]
    script = ChatScript(
        acts=["text999\r", 0.2, *letters(dice, 60)],
        answers=answers,
        tools=FakeTools().tools(),
        other_client=answer_elsewhere,
        signals=((120.0, 15),),
    )
    played = play_chat(script)
    played.check()
    # Every character, wherever it is now; messages that are sent together have blank lines between them.
    assert sorted("".join(played.typed).replace("\r", "").replace(" ", "")) == sorted("".join(played.kept.split()))
    assert len(answered) == QUESTIONS


@pytest.mark.parametrize(("pause", "answers"), [(1.0, True), (0.3, False)])
def test_question_right_after_enter_needs_no_tab(pause: float, answers: bool) -> None:
    chat = Chat()
    chat.type("do it")
    chat.press("enter")
    chat.take()
    chat.now += 0.05
    chat.event(permission_asked())
    chat.now += pause
    chat.type("y")
    assert [isinstance(effect, do.ReplyPermission) for effect in chat.take()] == [True] * answers
    assert chat.machine.composer.text == ("" if answers else "y")
