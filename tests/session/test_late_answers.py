"""Answers that come too late: who was first, in the same engine and after a restart."""

from __future__ import annotations

from collections.abc import Awaitable

import pytest
from trio.testing import MockClock

import engine
from engine.core.errors import AlreadyAnswered, RequestNotFound
from engine.core.events import PermissionAnswered, PermissionAsked, QuestionAnswered, QuestionAsked
from engine.core.settings import Settings
from tests.support.parked import FINE, Home, asks, do, question, seen


async def late(answer: Awaitable[None]) -> AlreadyAnswered:
    with pytest.raises(AlreadyAnswered) as caught:
        await answer
    return caught.value


async def test_late_answer_names_the_first(autojump_clock: MockClock) -> None:
    home = Home([asks(*do("a"), *question("Which?")), FINE])
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        ids: dict[str, str] = {}
        async for event in eng.start_turn(session, "go"):
            if isinstance(event, PermissionAsked):
                ids["permission"] = event.request_id
                await session.reply(event.request_id, engine.Once(), by="ada")
            elif isinstance(event, QuestionAsked):
                ids["words"] = event.request_id
                await session.answer(event.request_id, "this", by="bob")
        events = session.events()
        (permitted,) = [event for event in events if isinstance(event, PermissionAnswered)]
        (answered,) = [event for event in events if isinstance(event, QuestionAnswered)]
        error = await late(session.reply(ids["permission"], engine.Reject(), by="bob"))
        assert (error.answer, error.by, error.seq) == ("once", "ada", permitted.seq)
        assert "ada" in str(error)
        error = await late(session.answer(ids["words"], "that", by="ada"))
        assert (error.answer, error.by, error.seq) == ("answered", "bob", answered.seq)
        with pytest.raises(RequestNotFound) as never:
            await session.reply("never", engine.Once())
        assert not isinstance(never.value, AlreadyAnswered)
    # The record says so, too.
    async with home.open() as eng:
        session = await eng.open_session(session.id)
        assert (await late(session.recover(ids["permission"], "stop"))).by == "ada"
        assert (await late(session.answer(ids["words"]))).by == "bob"


@pytest.mark.parametrize("way", ["expired", "withdrawn"])
async def test_question_without_answer_is_told_alike(way: str, autojump_clock: MockClock) -> None:
    home = Home([asks(*do("a")), FINE], settings=Settings(question_timeout=5 if way == "expired" else None))
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        turn = eng.start_turn(session, "go")
        (*_, asked) = await seen(turn, PermissionAsked)
        assert isinstance(asked, PermissionAsked)
        if way == "withdrawn":
            turn.cancel()
        await turn.wait()
        error = await late(session.reply(asked.request_id, engine.Once()))
        assert (error.answer, error.by) == (way, "")
