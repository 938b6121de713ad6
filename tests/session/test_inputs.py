"""Input by id: steered, queued, listed, edited and removed; and turns cancelled by id, also parked ones."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.errors import ConfigError, InputConflict, InputNotFound, SessionBusy, TurnOver, TurnParked
from engine.core.events import (
    InputAdmitted,
    PermissionAnswered,
    PermissionAsked,
    TurnEnded,
    TurnEnding,
    TurnResumed,
    TurnStarted,
)
from engine.core.ids import TurnId
from engine.core.messages import ImagePart, MediaPart, UserMessage
from engine.journal.state import Resync
from engine.testing.fakes import SlowStore
from engine.testing.invariants import check_events, check_transcript
from engine.testing.script import Answer, Pause, done, text
from tests.support.parked import FINE, Home, asks, do, office, seen
from tests.support.world import World, world

DONE: Answer = [*text("Done."), *done()]
SLOW: Answer = [*text("Well,"), Pause(60), *done()]
PIXEL = ImagePart(media_type="image/png", data="AA==")
OTHER = ImagePart(media_type="image/png", data="BB==")


def turn_ids(session: engine.Session) -> list[TurnId]:
    return [event.turn_id for event in session.events() if isinstance(event, TurnStarted) and event.turn_id]


def prompts(w: World) -> list[str]:
    return [m.text for m in w.session.state.transcript if isinstance(m, UserMessage)]


async def queued_turn(w: World) -> TurnId:
    """Start a turn of queued input, which is in nobody's hand."""
    w.session.inputs.queue("first")
    await trio.sleep(1)
    return turn_ids(w.session)[-1]


# -- cancelled by id ----------------------------------------------------------------------------------------


async def test_queued_turn_is_cancelled_by_its_id(autojump_clock: MockClock) -> None:
    async with world(SLOW) as w:
        watcher = w.session.subscribe()
        turn_id = await queued_turn(w)
        assert w.session.cancel(turn_id)
        assert w.session.cancel(turn_id), "it is ending"
        await trio.sleep(1)
        assert not w.session.cancel(turn_id), "it is over"
        ends = []
        while (event := watcher.try_next()) is not None:
            ends += [event] if isinstance(event, (TurnEnding, TurnEnded)) else []
        assert [type(event) for event in ends] == [TurnEnding, TurnEnded]
        result = w.session.state.last_result
        assert result is not None
        assert (result.stop_reason, result.detail, result.text) == ("aborted", "cancelled by the user", "Well,")


async def test_stale_id_cancels_and_steers_no_later_turn(autojump_clock: MockClock) -> None:
    async with world(DONE, SLOW) as w:
        await w.session.run("go")
        (stale,) = turn_ids(w.session)
        running = await queued_turn(w)
        assert not w.session.cancel(stale)
        with pytest.raises(TurnOver):
            w.session.inputs.steer("late", turn_id=stale)
        assert w.session.state.turn is not None
        assert w.session.state.turn.turn_id == running
        assert w.session.state.turn.ending is None
        assert w.session.inputs.waiting == ()
        w.session.cancel(running)


async def test_steer_reaches_the_named_turn(autojump_clock: MockClock) -> None:
    quick: Answer = [*text("Well,"), Pause(5), *done()]
    async with world(quick, DONE) as w:
        turn_id = await queued_turn(w)
        steer = w.session.inputs.steer("more", turn_id=turn_id, attachments=[PIXEL], input_id="mine")
        await trio.sleep(60)
        # Sent again when the turn is over: the same input.
        assert w.session.inputs.steer("more", turn_id=turn_id, attachments=[PIXEL], input_id="mine") == steer
        assert prompts(w) == ["first", "more"]
        last = [m for m in w.requests[-1].transcript if isinstance(m, UserMessage)][-1]
        assert last.parts[0] == PIXEL
        with pytest.raises(TurnOver):
            w.session.inputs.steer("late")


@pytest.mark.parametrize(("content", "media"), [("other", (PIXEL,)), ("more", ()), ("more", (OTHER,))])
async def test_attachments_are_part_of_the_content(
    content: str, media: tuple[MediaPart, ...], autojump_clock: MockClock
) -> None:
    async with world(SLOW) as w, w.session.prompt("go"):
        await trio.sleep(1)
        w.session.inputs.queue("more", attachments=[PIXEL], input_id="mine")
        with pytest.raises(InputConflict):
            w.session.inputs.queue(content, attachments=media, input_id="mine")


# -- prompts sent again -------------------------------------------------------------------------------------


async def test_prompt_sent_again_is_the_running_turn(autojump_clock: MockClock) -> None:
    slow: Answer = [*text("Well,"), Pause(5), *done()]
    async with world(slow) as w, trio.open_nursery() as nursery:
        turn = w.engine.start_turn(w.session, "go", attachments=[PIXEL], input_id="mine")
        again = w.engine.start_turn(w.session, "go", attachments=[PIXEL], input_id="mine")
        assert again.id == turn.id
        nursery.start_soon(turn.wait)
        # A block that did not start it does not end it.
        async with w.session.prompt("go", attachments=[PIXEL], input_id="mine") as third:
            await trio.sleep(1)
        assert third.id == turn.id
        for content, media in (("other", [PIXEL]), ("go", [OTHER]), ("go", [])):
            with pytest.raises(InputConflict):
                w.engine.start_turn(w.session, content, attachments=media, input_id="mine")
        with pytest.raises(SessionBusy):
            w.engine.start_turn(w.session, "more", input_id="another")
        assert await again.wait() == await turn.wait()
        assert (turn.result.stop_reason, len(w.requests), len(turn_ids(w.session))) == ("completed", 1, 1)


async def test_prompt_sent_again_can_be_cancelled(autojump_clock: MockClock) -> None:
    async with world(SLOW) as w:
        turn = w.engine.start_turn(w.session, "go", input_id="mine")
        await trio.sleep(1)
        w.engine.start_turn(w.session, "go", input_id="mine").cancel()
        assert (await turn.wait()).stop_reason == "aborted"


async def test_prompt_sent_again_later_runs_nothing(autojump_clock: MockClock) -> None:
    async with world(DONE, DONE) as w:
        async with w.session.prompt("go", input_id="mine") as turn:
            await turn.wait()
        await w.session.run("more")
        before = w.session.events()
        again = w.engine.start_turn(w.session, "go", input_id="mine")
        again.cancel()
        again.skip_wait()
        assert again.result == await again.wait() == turn.result
        events = [event async for event in again]
        assert isinstance(events[0], TurnStarted)
        assert isinstance(events[-1], TurnEnded)
        assert {event.turn_id for event in events if not isinstance(event, Resync)} == {turn.id}
        with pytest.raises(TurnOver):
            again.steer("late")
        assert (w.session.events(), len(w.requests)) == (before, 2)
        with pytest.raises(InputConflict, match="as a prompt"):
            w.session.inputs.queue("go", input_id="mine")


async def test_prompt_sent_again_after_a_crash_runs_nothing(autojump_clock: MockClock) -> None:
    home = Home([SLOW])
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        turn = eng.start_turn(session, "go", input_id="mine")
        await trio.sleep(1)
        await home.kill(session.id)
        turn.cancel()
    async with home.open() as eng:
        session = await eng.open_session(session.id)
        again = eng.start_turn(session, "go", input_id="mine")
        assert (again.id, again.result.stop_reason) == (turn.id, "aborted")
        with pytest.raises(InputConflict):
            eng.start_turn(session, "go on", input_id="mine")
    assert len(home.models[-1].requests) == 0


async def test_parked_turn_of_a_prompt_must_be_resumed(autojump_clock: MockClock) -> None:
    home = Home([asks(*do("a")), FINE])
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        await seen(eng.start_turn(session, "go", input_id="mine"), PermissionAsked)
    async with home.open() as eng:
        session = await eng.open_session(session.id)
        with pytest.raises(TurnParked):
            eng.start_turn(session, "go", input_id="mine")
        assert session.state.turn is not None, "it is still parked"
        turn = eng.resume_turn(session)
        assert eng.start_turn(session, "go", input_id="mine").id == turn.id
        turn.cancel()


# -- who did it ---------------------------------------------------------------------------------------------


async def test_record_names_the_client(autojump_clock: MockClock) -> None:
    home = Home([asks(*do("a")), [*text("Well,"), Pause(60), *done()]])
    async with home.open() as eng:
        session = await eng.create_session(cwd="/opt")
        turn = eng.start_turn(session, "go", by="phone")
        asked = (await seen(turn, PermissionAsked))[-1]
        assert isinstance(asked, PermissionAsked)
        await session.reply(asked.request_id, engine.Once(), by="desk")
        session.inputs.queue("later", by="page")
        session.inputs.steer("now", by="phone")
        await trio.sleep(1)
        watcher = session.subscribe()
        assert session.cancel(turn.id, by="page")
        ending = watcher.try_next()
        assert isinstance(ending, TurnEnding)
        assert ending.by == "page"
        assert session.state.turn is not None
        assert session.state.turn.ending is not None
        assert session.state.turn.ending.by == "page"
        await turn.wait()
        labels = [event.by for event in session.events() if isinstance(event, (InputAdmitted, PermissionAnswered))]
        assert labels == ["phone", "desk", "page", "phone"]
        with pytest.raises(ConfigError):
            session.inputs.queue("more", by=3)  # type: ignore[arg-type]  # the point of it


# -- listed, edited, removed --------------------------------------------------------------------------------


async def test_waiting_input_is_edited_and_removed(autojump_clock: MockClock) -> None:
    async with world(SLOW, DONE, DONE) as w:
        inputs = w.session.inputs
        async with w.session.prompt("go") as turn:
            await trio.sleep(1)
            one, two, three = (inputs.queue(name) for name in ("one", "two", "three"))
            inputs.edit(two, "second", attachments=[PIXEL])
            assert inputs.remove(one)
            assert not inputs.remove(one)
            assert [(item.input_id, item.message.text) for item in inputs.waiting] == [
                (two, "second"),
                (three, "three"),
            ]
            assert inputs.queue("one", input_id=one) == one, "sent again, it stays removed"
            await turn.wait()
        await trio.sleep(60)
        assert prompts(w) == ["go", "second", "three"]
        with pytest.raises(InputNotFound):
            inputs.edit(two, "too late")
        assert not inputs.remove(two)
        assert check_transcript(w.session.state.transcript) == []


async def test_prompt_is_no_waiting_input(autojump_clock: MockClock) -> None:
    async with world(SLOW) as w, w.session.prompt("go"):
        await trio.sleep(1)
        assert w.session.inputs.waiting == ()
        with pytest.raises(InputNotFound):
            w.session.inputs.edit("nothing", "else")


# -- parked -------------------------------------------------------------------------------------------------


async def test_parked_turn_is_cancelled_by_its_id(autojump_clock: MockClock) -> None:
    home = Home([asks(*do("a"), *office("b")), FINE])
    session_id = await home.parked(PermissionAsked)
    async with home.open() as eng:
        session = await eng.open_session(session_id)
        turn = session.state.turn
        assert turn is not None
        with pytest.raises(TurnParked):
            session.inputs.steer("more", turn_id=turn.turn_id)
        assert not session.cancel("turn_other")
        watcher = session.subscribe()
        assert session.cancel(turn.turn_id)
        assert session.cancel(turn.turn_id), "it is ending"
        events = [await anext(watcher)]
        while not isinstance(events[-1], TurnEnded):
            events.append(await anext(watcher))
        assert [type(event) for event in events[:2]] == [TurnResumed, TurnEnding]
        assert not session.cancel(turn.turn_id)
        result = session.state.last_result
        assert result is not None
        assert (result.stop_reason, result.detail) == ("aborted", "cancelled by the user")
        assert session.state.turn is None
        assert result.steps == 1
        assert check_events(list(iter(session.subscribe(after=0).try_next, None))) == []
        assert check_transcript(session.state.transcript) == []
        assert (await session.run("go on")).stop_reason == "completed"
        assert home.done == []


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("way", ["cancelled", "superseded"])
async def test_end_of_a_parked_turn_is_durable_when_seen(way: str, fails: bool, autojump_clock: MockClock) -> None:
    store = SlowStore()
    home = Home([asks(*do("a")), FINE], store=store)
    session_id = await home.parked(PermissionAsked)
    async with home.open() as eng:
        session = await eng.open_session(session_id)
        turn, watcher = session.state.turn, session.subscribe()
        assert turn is not None
        store.delay, store.fails = 1, fails
        if way == "cancelled":
            assert session.cancel(turn.turn_id)
        else:
            eng.start_turn(session, "something else")
        with trio.fail_after(60):
            while not isinstance(event := await anext(watcher), TurnEnded):
                pass
        assert (event.turn_id, event.result.durable) == (turn.turn_id, not fails)
        assert (store.durable[session_id] >= (event.seq or 0)) is not fails
