"""A tool asks the user something, in words."""

from __future__ import annotations

from typing import Any, cast

import attrs
import pytest
from trio.testing import MockClock

import engine
from engine.core.errors import ConfigError, RequestNotFound
from engine.core.events import Choice, QuestionAnswered, QuestionAsked
from engine.core.settings import Settings
from engine.journal.state import Waiting
from engine.testing.script import call, done, text
from engine.tools.tool_context import UserAnswers
from tests.support.world import World, world

DONE = [*text("Done."), *done()]
CHOICES = (Choice(label="red", description="like a rose"), Choice(label="blue"))


@attrs.frozen
class Ask:
    """Ask."""

    question: str
    several: bool = False


HEARD: list[UserAnswers] = []


@engine.tool(read_only=True)
async def ask(args: Ask, ctx: engine.ToolContext) -> str:
    HEARD.append(await ctx.ask_user(args.question, CHOICES, several=args.several))
    return repr(HEARD[-1])


def asking(question: str = "Which?", *, several: bool = False) -> list[Any]:
    return [*call("ask", {"question": question, "several": several}, id="1"), *done("calls")]


async def play(w: World, *answers: str, settings: Settings | None = None, reply: bool = True) -> list[object]:
    HEARD.clear()
    events: list[object] = []
    async with w.session.prompt("go", settings=settings) as turn:
        async for event in turn:
            events.append(event)
            if isinstance(event, QuestionAsked) and reply:
                assert w.session.state.status == Waiting((event.request_id,))
                await turn.answer(event.request_id, *answers)
    return events


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (("red",), ("answered", ("red",))),
        (("red", "neither"), ("answered", ("red", "neither"))),
        ((), ("declined", ())),
    ],
)
async def test_tool_gets_the_answer(autojump_clock: MockClock, answers: tuple[str, ...], words: UserAnswers) -> None:
    async with world(asking(several=True), DONE, tools=[ask]) as w:
        events = await play(w, *answers)
    (asked,) = [event for event in events if isinstance(event, QuestionAsked)]
    (told,) = [event for event in events if isinstance(event, QuestionAnswered)]
    assert (asked.question, asked.choices, asked.several) == ("Which?", CHOICES, True)
    assert (told.request_id, told.outcome, told.answers) == (asked.request_id, *words)
    assert [words] == HEARD


async def test_unanswered_question_expires(autojump_clock: MockClock) -> None:
    async with world(asking(), DONE, tools=[ask]) as w:
        await play(w, settings=Settings(question_timeout=5.0), reply=False)
    assert HEARD == [("expired", ())]


async def test_question_without_user_is_declined(autojump_clock: MockClock) -> None:
    async with world(asking(), DONE, tools=[ask]) as w:
        HEARD.clear()
        assert (await w.session.run("go")).stop_reason == "completed"
    assert HEARD == [("declined", ())]


async def test_cancel_withdraws_the_question(autojump_clock: MockClock) -> None:
    async with world(asking(), tools=[ask]) as w, w.session.prompt("go") as turn:
        outcomes: list[str] = []
        async for event in turn:
            if isinstance(event, QuestionAsked):
                turn.cancel()
            if isinstance(event, QuestionAnswered):
                outcomes.append(event.outcome)
    assert (turn.result.stop_reason, outcomes) == ("aborted", ["withdrawn"])


async def test_invalid_answers_are_refused(autojump_clock: MockClock) -> None:
    async with world(asking(), DONE, tools=[ask]) as w, w.session.prompt("go") as turn:
        async for event in turn:
            if not isinstance(event, QuestionAsked):
                continue
            for wrong in (("",), (5,)):
                with pytest.raises(ConfigError):
                    await turn.answer(event.request_id, *cast("Any", wrong))
            with pytest.raises(RequestNotFound):
                await turn.answer("nothing", "red")
            with pytest.raises(RequestNotFound):
                await turn.reply(event.request_id, engine.Once())
            await turn.answer(event.request_id, "blue")
            with pytest.raises(RequestNotFound):
                await turn.answer(event.request_id, "red")
