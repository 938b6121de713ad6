"""Sessions in a file: they outlive the engine, belong to one engine at a time, can be watched, named and forked."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.core.errors import ConfigError, EngineClosed, MessageNotFound, SessionElsewhere, SessionNotFound, StoreError
from engine.core.events import (
    Durable,
    HistoryReplaced,
    ModelSwitched,
    SessionCreated,
    SessionTitled,
    TurnEnded,
    TurnStarted,
)
from engine.core.ids import SessionId
from engine.core.llm_types import ModelInfo
from engine.core.messages import Message
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.session.session import live_session
from engine.session.session_watch import Watch
from engine.testing.fakes import SlowStore
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from tests.support.bench import Bench
from tests.support.world import said

DONE: Answer = [*text("Done."), *done()]
WORK: Answer = [*text("Let me see."), *call("read", {"name": "a"}, id="1"), *done("calls")]


@attrs.frozen
class Ask:
    """Ask somebody."""

    prompt: str


def opening(place: object, *answers: Answer, name: str = "scripted/model") -> tuple[ScriptedProvider, engine.Engine]:
    model = ScriptedProvider(list(answers), info=ModelInfo(name=name))
    eng = engine.open_engine(
        model=model,
        tools=Bench().tools(),
        permissions=PermissionOptions(approver=AllowAll()),
        store=place,  # type: ignore[arg-type]
    )
    return model, eng


def words(messages: Sequence[Message]) -> list[str]:
    return [said(message) for message in messages]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "kept" / "sessions.db"


async def test_session_continues_in_another_engine(place: Path) -> None:
    _, first = opening(place, WORK, DONE)
    async with first as eng:
        session = await eng.create_session()
        await session.run("look")
        before = session.state
    model, second = opening(place, DONE)
    async with second as eng:
        again = await eng.open_session(session.id)
        assert again.state == before
        assert (await again.run("and now?")).stop_reason == "completed"
    assert words(model.requests[0].transcript) == [*words(before.transcript), "and now?"]


async def test_engine_opens_named_store_or_explains(tmp_path: Path) -> None:
    _, eng = opening(tmp_path)
    with pytest.raises(StoreError, match="it exists and is no file"):
        await eng.__aenter__()
    with pytest.raises(EngineClosed):
        await eng.create_session()
    _, eng = opening(":memory:", DONE)
    async with eng:
        assert (await (await eng.create_session()).run("hello")).durable
    for wrong in ("", "  ", 7, b"bytes"):
        with pytest.raises(ConfigError, match="store must be"):
            opening(wrong)


async def test_tilde_means_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    _, eng = opening("~/s.db")
    async with eng:
        await eng.create_session()
    assert (tmp_path / "s.db").is_file()


async def test_session_has_one_engine_and_many_watchers(place: Path) -> None:
    _, here = opening(place, DONE, DONE)
    _, there = opening(place, DONE)
    async with here as ours, there as theirs:
        session = await ours.create_session()
        await session.run("one")
        with pytest.raises(SessionElsewhere) as raised:
            await theirs.open_session(session.id)
        assert raised.value.session_id == session.id
        assert "watch it here" in str(raised.value)
        watch = theirs.watch_session(session.id)
        seen = [await watch.__anext__() for _ in range(session.state.seq)]
        assert seen == list(session.events())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(session.run, "two")
            later = await _up_to_end(watch)
        assert [*seen, *later] == list(session.events())
    _, third = opening(place, DONE)
    async with third as eng:
        assert (await (await eng.open_session(session.id)).run("three")).stop_reason == "completed"


async def _up_to_end(watch: Watch) -> list[Durable]:
    events = [await watch.__anext__()]
    while not isinstance(events[-1], TurnEnded):
        events.append(await watch.__anext__())
    return events


async def test_a_store_that_only_keeps_cannot_be_watched() -> None:
    _, eng = opening(SlowStore(), DONE)
    async with eng:
        session = await eng.create_session()
        with pytest.raises(ConfigError, match="can't be watched"):
            eng.watch_session(session.id)


async def test_concurrent_opens_return_the_same_session(place: Path) -> None:
    _, first = opening(place, WORK, DONE)
    async with first as eng:
        session = await eng.create_session()
        async with session.prompt("look"):
            pass  # cut off: there is a turn to be closed
    _, second = opening(place, DONE)
    opened: list[object] = []

    async def open_it(eng: engine.Engine) -> None:
        opened.append(await eng.open_session(session.id))

    async with second as eng:
        async with trio.open_nursery() as nursery:
            for _ in range(3):
                nursery.start_soon(open_it, eng)
        assert opened[0] is opened[1] is opened[2]
        assert (await (await eng.open_session(session.id)).run("go on")).stop_reason == "completed"


async def test_cancelled_open_frees_the_session(place: Path) -> None:
    _, first = opening(place, *[DONE] * 6)
    async with first as eng:
        sessions = [await eng.create_session() for _ in range(6)]
        for session in sessions:
            await session.run("one")
    _, here = opening(place, *[DONE] * 6)
    _, there = opening(place, *[DONE] * 6)
    async with here as ours, there as theirs:
        for checkpoints, session in enumerate(sessions):
            opened: list[engine.Session] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_after, nursery.cancel_scope, checkpoints)
                opened.append(await ours.open_session(session.id))
            used = opened[0] if opened else await _opened_soon(theirs, session.id)
            assert (await used.run("two")).stop_reason == "completed"


async def test_cancelled_open_takes_no_other_session(place: Path) -> None:
    _, first = opening(place, *[DONE] * 8)
    async with first as eng:
        sessions = [await eng.create_session() for _ in range(8)]
        for session in sessions:
            await session.run("one")
    _, here = opening(place)
    _, there = opening(place)
    async with here as ours, there as theirs:
        for checkpoints, session in enumerate(sessions):

            async def give_up(eng: engine.Engine, session_id: str, checkpoints: int) -> None:
                with trio.CancelScope() as scope:
                    async with trio.open_nursery() as nursery:
                        nursery.start_soon(_cancel_after, scope, 40 * checkpoints)
                        await eng.open_session(session_id)

            async with trio.open_nursery() as nursery:
                nursery.start_soon(give_up, ours, session.id, checkpoints)
                await ours.open_session(session.id)
            await session_is_settled(ours)
            with pytest.raises(SessionElsewhere):
                await theirs.open_session(session.id)


async def session_is_settled(eng: engine.Engine) -> None:
    """Wait until what the engine had let go of is written."""
    session = await eng.create_session()
    await session.rename("a flush")


async def _opened_soon(eng: engine.Engine, session_id: str) -> engine.Session:
    """Open it: that another engine has let go is written a moment later."""
    with trio.fail_after(60):
        while True:
            try:
                return await eng.open_session(session_id)
            except SessionElsewhere:
                await trio.sleep(0.005)


async def _cancel_after(scope: trio.CancelScope, checkpoints: int) -> None:
    for _ in range(checkpoints):
        await trio.lowlevel.checkpoint()
    scope.cancel()


async def test_model_change_is_in_the_journal(place: Path) -> None:
    _, first = opening(place, DONE, name="scripted/one")
    async with first as eng:
        session = await eng.create_session()
        await session.run("hello")
    _, second = opening(place, DONE, name="scripted/two")
    async with second as eng:
        again = await eng.open_session(session.id)
        assert isinstance(again.events()[-1], ModelSwitched)
        assert again.state.model == "scripted/two"


async def test_the_name_that_a_user_gives_stays(place: Path) -> None:
    _, first = opening(place, DONE)
    async with first as eng:
        session = await eng.create_session()
        await session.rename("  The great\n renaming ")
        with pytest.raises(ConfigError, match="a title"):
            await session.rename("  ")
    _, second = opening(place)
    async with second as eng:
        assert (await eng.open_session(session.id)).state.title == "The great renaming"


async def test_fork_copies_history_and_leaves_original(place: Path) -> None:
    model, eng = opening(place, WORK, DONE, DONE, DONE)
    async with eng:
        session = await eng.create_session()
        await session.run("look")
        await session.rename("Looking")
        fork = await eng.fork_session(session.id)
        kinds = [type(event) for event in fork.events()]
        assert kinds == [SessionCreated, HistoryReplaced, SessionTitled]
        assert fork.state.transcript == session.state.transcript
        assert (fork.state.forked_from, fork.state.parent_id, fork.state.turns) == (session.id, None, 0)
        before = session.state
        await fork.run("another way")
        assert session.state == before
        assert words(model.requests[-1].transcript) == [*words(before.transcript), "another way"]


async def test_a_fork_may_begin_at_any_message(place: Path) -> None:
    _, eng = opening(place, WORK, DONE, DONE, DONE)
    async with eng:
        session = await eng.create_session()
        await session.run("look")
        await session.run("again")
        messages = session.state.transcript
        fork = await eng.fork_session(session.id, at=messages[1].id)
        assert fork.state.transcript[:] == messages[:3]  # what the model said, with the results of its calls
        with pytest.raises(MessageNotFound):
            await eng.fork_session(session.id, at="msg_none")
        with pytest.raises(SessionNotFound):
            await eng.fork_session("ses_none")


async def test_session_of_another_engine_can_be_forked(place: Path) -> None:
    _, here = opening(place, DONE)
    _, there = opening(place, DONE)
    async with here as ours, there as theirs:
        session = await ours.create_session()
        await session.run("one")
        fork = await theirs.fork_session(session.id)
        assert fork.state.transcript == session.state.transcript
        assert (await fork.run("two")).stop_reason == "completed"


async def test_session_can_be_forked_during_a_turn(place: Path) -> None:
    """The fork has what is whole: what was asked, and no call that nobody has settled."""
    began, may_end = trio.Event(), trio.Event()

    @engine.tool
    async def wait(args: Ask, ctx: engine.ToolContext) -> str:
        began.set()
        await may_end.wait()
        return "waited"

    model = ScriptedProvider([[*call("wait", {"prompt": "x"}, id="1"), *done("calls")], DONE])
    _, there = opening(place, DONE)
    async with (
        engine.open_engine(
            model=model, tools=[wait], permissions=PermissionOptions(approver=AllowAll()), store=place
        ) as ours,
        there as theirs,
    ):
        session = await ours.create_session()
        async with session.prompt("one") as turn:
            await began.wait()
            await live_session(session).journal._store.flushed(session.id, live_session(session).journal.seq)
            forks = [await eng.fork_session(session.id) for eng in (ours, theirs)]
            may_end.set()
            await turn.wait()
        for fork in forks:
            assert (fork.state.turn, words(fork.state.transcript[:])) == (None, ["one"])
        assert (await forks[1].run("two")).stop_reason == "completed"
        assert words(forks[1].state.transcript[:]) == ["one", "two", "Done."]
        assert session.state.last_result is not None
        assert session.state.last_result.stop_reason == "completed"


@pytest.mark.parametrize("how", ["open_session", "fork_session"])
async def test_sub_agent_only_agent_takes_no_prompts(place: Path, how: str) -> None:
    _, eng = opening(place, DONE)
    async with eng:
        session = await eng.create_session()
        await session.run("look")
    _, eng = opening(place)
    async with eng:
        with pytest.raises(ConfigError, match="can only be used as a sub-agent"):
            await getattr(eng, how)(session.id, agent="explore")
        with pytest.raises(ConfigError, match="a session id is a str"):
            await getattr(eng, how)(5)


async def test_finished_sub_agent_is_released(place: Path) -> None:
    @engine.tool
    async def ask(args: Ask, ctx: engine.ToolContext) -> str:
        return (await ctx.run_agent(args.prompt)).text

    model = ScriptedProvider([[*call("ask", {"prompt": "sub"}, id="1"), *done("calls")], DONE, DONE])
    async with engine.open_engine(
        model=model, tools=[ask], permissions=PermissionOptions(approver=AllowAll()), store=place
    ) as eng:
        session = await eng.create_session()
        await session.run("go")
        children = [e.session_id for e in live_session(session).journal._log if isinstance(e, TurnStarted)]
        child = SessionId(next(c for c in children if c != session.id))
        _, other = opening(place, DONE)
        async with other as there:
            assert (await there.open_session(child)).state.parent_id == session.id


async def test_watcher_is_told_of_the_close(place: Path) -> None:
    _, first = opening(place, DONE)
    told: list[str] = []

    async def watch(eng: engine.Engine, session_id: str) -> None:
        with pytest.raises(StoreError) as caught:
            async for _ in eng.watch_session(session_id):
                pass
        told.append(str(caught.value))

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            async with first as eng:
                session = await eng.create_session()
                nursery.start_soon(watch, eng, session.id)
                await session.run("look")
    assert told == [f"the store {place} is closed"]
