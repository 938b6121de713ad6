"""Titles that a model gives: once, beside the first turn, never in its way, and never instead of the user's."""

from __future__ import annotations

import attrs
import pytest
import trio
from trio.testing import MockClock

import engine
from engine.config.config import Config, Defaults
from engine.core.errors import ConfigError, Overloaded
from engine.core.events import Notice, SessionTitled, StepEnded, TurnEnded
from engine.core.llm_types import ModelInfo, ModelRequest, UsageReported
from engine.core.messages import Usage
from engine.core.protocols import Model, ModelStream
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import ContextOptions, PermissionOptions
from engine.session.session import Session
from engine.session.titles import MAX_CHARS, clean_title
from engine.testing.script import Answer, Fail, Pause, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.support.bench import Bench
from tests.support.world import said

DONE: Answer = [*text("Done."), *done()]
WORK: Answer = [*text("Let me see."), *call("read", {"name": "a", "seconds": 5.0}, id="1"), *done("calls")]
SMALL = ModelInfo(name="scripted/small", price_input=1.0, price_output=1.0)


def title(words: str, usage: Usage | None = None) -> Answer:
    return [*text(words), *done(usage=usage or Usage())]


def opening(*answers: Answer, titles: Model) -> engine.Engine:
    return engine.open_engine(
        model=ScriptedProvider(list(answers)),
        tools=Bench().tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        context=ContextOptions(titles=titles),
    )


def told(session: Session) -> list[SessionTitled | Notice]:
    return [event for event in session.events() if isinstance(event, (SessionTitled, Notice))]


async def test_first_turn_alone_gives_a_title(autojump_clock: MockClock) -> None:
    small = ScriptedProvider([title('Title: "Looking **around**."', Usage(input=1_000_000, output=1))], info=SMALL)
    async with opening(WORK, DONE, DONE, titles=small) as eng:
        session = await eng.create_session()
        await session.run("look around")
        await session.background.titled()
        await session.run("again")
        await session.background.titled()
        assert session.state.title == "Looking **around**"
        assert session.state.usage == Usage(input=1_000_000, output=1)
        assert session.state.cost == pytest.approx(1.000001)
        assert session.state.last_result is not None
        assert session.state.last_result.cost == 0.0
        events = session.events()
        kinds = [type(event) for event in events if isinstance(event, (StepEnded, SessionTitled, TurnEnded))]
        assert kinds == [StepEnded, SessionTitled, StepEnded, TurnEnded, StepEnded, TurnEnded]
    assert len(small.requests) == 1
    assert said(small.requests[0].transcript[0]) == "<asked>\nlook around\n</asked>\n\nThe title:"
    assert small.requests[0].tools == ()


async def test_user_title_wins_over_a_late_one(autojump_clock: MockClock) -> None:
    small = ScriptedProvider([[Pause(10), *title("Late")]], info=SMALL)
    async with opening(DONE, titles=small) as eng:
        session = await eng.create_session()
        await session.run("hello")
        await session.rename("Mine")
        await session.background.titled()
        assert session.state.title == "Mine"
        assert [event.title for event in told(session) if isinstance(event, SessionTitled)] == ["Mine", "Late"]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ([Fail(Overloaded("too many"))], "too many"),
        (title(" \n ** \n"), "the answer was empty"),
        ([Pause(100), *title("Too late")], "no answer within 30 s"),
    ],
)
async def test_missing_title_is_only_reported(autojump_clock: MockClock, answer: Answer, why: str) -> None:
    async with opening(DONE, titles=ScriptedProvider([answer], info=SMALL)) as eng:
        session = await eng.create_session()
        assert (await session.run("hello")).stop_reason == "completed"
        await session.background.titled()
        assert session.state.title == ""
        [notice] = told(session)
        assert isinstance(notice, Notice)
        assert (notice.code, notice.level) == ("no_title", "info")
        assert notice.text == f"scripted/small gave the session no title: {why}"


@pytest.mark.parametrize("last", [Fail(Overloaded("too many")), Pause(100)], ids=["failed", "too late"])
async def test_failed_title_request_is_counted(autojump_clock: MockClock, last: Fail | Pause) -> None:
    answer: Answer = [UsageReported(Usage(input=1_000_000)), UsageReported(Usage(input=10**12)), last]
    async with opening(DONE, titles=ScriptedProvider([answer], info=SMALL)) as eng:
        session = await eng.create_session()
        await session.run("hello")
        await session.background.titled()
        assert (session.state.title, session.state.titled_by) == ("", "")
        assert (session.state.usage, session.state.cost) == (Usage(input=1_000_000), 1.0)
        assert [type(event) for event in told(session)] == [SessionTitled, Notice]
        await session.rename("Mine")
        assert session.state.title == "Mine"


async def test_title_request_cut_by_close_is_counted(
    autojump_clock: MockClock,
) -> None:
    small = ScriptedProvider([[UsageReported(Usage(input=1_000_000)), Pause(1_000), *title("Never")]], info=SMALL)
    async with opening(DONE, titles=small) as eng:
        session = await eng.create_session()
        await session.run("hello")
        await trio.sleep(1)
    assert [event.usage for event in told(session) if isinstance(event, SessionTitled)] == [Usage(input=1_000_000)]


@attrs.define(eq=False)
class Tangled:
    """A model that, when it is cancelled, raises an error of its own beside the cancellation."""

    info: ModelInfo = SMALL

    async def open(self, request: ModelRequest) -> ModelStream:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._break)
            await trio.sleep_forever()
        raise AssertionError("it was cancelled")

    async def _break(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise OSError("the connection broke")


@pytest.mark.parametrize("seconds", [1.0, 40.0], ids=["closed", "too late"])
async def test_title_error_during_a_cancel_is_contained(autojump_clock: MockClock, seconds: float) -> None:
    async with opening(DONE, DONE, titles=Tangled()) as eng:
        session = await eng.create_session()
        await session.run("hello")
        await trio.sleep(seconds)
        assert (await session.run("again")).stop_reason == "completed"
    notices = [notice.text for notice in told(session) if isinstance(notice, Notice)]
    assert [text.endswith(": no answer within 30 s") for text in notices] == [True] * (seconds > 30)


async def test_closing_engine_waits_for_no_title(autojump_clock: MockClock) -> None:
    small = ScriptedProvider([[Pause(1_000), *title("Never")]], info=SMALL)
    began = trio.current_time()
    async with opening(DONE, titles=small) as eng:
        session = await eng.create_session()
        await session.run("hello")
        await trio.sleep(1)
    assert trio.current_time() - began < 2
    assert told(session) == []
    assert small.open_streams == 0


async def test_sub_agents_and_named_sessions_get_none(autojump_clock: MockClock) -> None:
    small = ScriptedProvider([title("No")], info=SMALL)
    async with opening(DONE, titles=small) as eng:
        session = await eng.create_session()
        await session.rename("Named")
        await session.run("hello")
        await session.background.titled()
    assert small.requests == []


async def test_the_configuration_may_name_the_model() -> None:
    with pytest.raises(ConfigError, match="no host"):
        async with engine.open_engine(
            model=ScriptedProvider([]), config=Config(defaults=Defaults(titles="nowhere/none"))
        ):
            pass
    with pytest.raises(ConfigError, match="host/model"):
        Config(defaults=Defaults(titles="nothing"))


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("Fix the parser", "Fix the parser"),
        ("\n\n  # Fix the parser.  \nand more", "Fix the parser"),
        ("title: Fix", "Fix"),
        ("**Title:** «Fix»", "Fix"),
        ("...", ""),
        ("", ""),
        ("x" * 200, "x" * (MAX_CHARS - 1) + "…"),
        ("a\tb   c", "a b c"),
    ],
)
def test_model_answer_is_made_a_title(words: str, expected: str) -> None:
    assert clean_title(words) == expected
