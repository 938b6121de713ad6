"""A parked turn that goes on, cancelled at each of its points in each way; and killed and parked there as well."""

from __future__ import annotations

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.core.events import CallStarted, Durable, PermissionAsked, QuestionAsked, TurnEnded
from engine.core.ids import SessionId
from engine.testing.cancellation.injections import Injection
from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.turn_points import WAYS, Points, Way
from tests.conftest import CountRuns
from tests.support.parked import FINE, Home, asks, do, look, office, problems, question

pytestmark = pytest.mark.slow

SCRIPTS = {
    "a permission": (asks(*look("a"), *do("b", 0.1), *do("c")), PermissionAsked),
    "a question": (asks(*question("Which?"), *look("a", 0.1)), QuestionAsked),
    "a result from outside": (asks(*office("trip"), *office("hotel", id="o2"), *do("b")), CallStarted),
}


@attrs.define(eq=False)
class Played:
    """What a run has left."""

    points: Points
    home: Home
    problems: list[str] = attrs.field(factory=list[str])


def played(name: str, injection: Injection | None) -> Played:
    answer, until = SCRIPTS[name]
    points = Points(injection)
    run = Played(points, Home([answer, FINE], trace=points))
    seed_scheduler(0)
    clock = trio.testing.MockClock(autojump_threshold=0)
    trio.run(_play, run, until, clock=clock, instruments=[points], strict_exception_groups=True)
    return run


async def _play(run: Played, until: type[Durable]) -> None:
    with trio.fail_after(1_000):
        session_id = await run.home.parked(until)
        async with run.home.open() as eng:
            session = await eng.open_session(session_id)
            await _resume(run.points, session)
            run.problems += await problems(run.home, session)
        await _go_on(run, session_id)


async def _resume(points: Points, session: engine.Session) -> None:
    """Go on with the turn, answer whatever is asked, and be cancelled at the point."""
    turn = session.resume()
    points.session, points.turn = session, turn
    with trio.CancelScope() as host:
        points.host, points.armed = host, True
        try:
            async with turn:
                points.in_body = True
                with points.leaving:
                    await _answer(session, turn)
        finally:
            points.armed = False
        await trio.lowlevel.checkpoint()


async def _answer(session: engine.Session, turn: engine.Turn) -> None:
    async for event in turn:
        try:
            match event:
                case PermissionAsked():
                    await turn.reply(event.request_id, engine.Once())
                case QuestionAsked():
                    await turn.answer(event.request_id, "yes")
                case CallStarted() if event.turn_id is not None and await _is_outside(session, event):
                    await session.settle(event.call_id, "booked")
                case _:
                    pass
        except engine.EngineError:
            # It was cancelled while this host was on its way.
            await trio.lowlevel.checkpoint()


async def _is_outside(session: engine.Session, event: CallStarted) -> bool:
    turn = session.state.turn
    calls = () if turn is None or turn.step is None else turn.step.calls
    is_outside = any(call.call_id == event.call_id and call.tool == "office" for call in calls)
    if is_outside:
        await trio.sleep(0.001)
    return is_outside


async def _go_on(run: Played, session_id: SessionId) -> None:
    """The next engine finds the session idle, and its next prompt works."""
    home = run.home
    home.script = [*home.script[: sum(len(model.requests) for model in home.models)], FINE]
    async with home.open() as eng:
        session = await eng.open_session(session_id)
        result = await session.run("and now?")
        if result.stop_reason != "completed":
            run.problems.append(f"the next prompt ended with {result}")
        run.problems += await problems(home, session)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", SCRIPTS)
def test_cancelled_at_every_point(name: str, way: Way, is_full: bool, count_runs: CountRuns) -> None:
    base = played(name, None)
    assert base.problems == []
    names = base.points.names
    # All of them in `make full`; else the two plain ways at every second point, the others at some.
    every = 1 if is_full else 2 if way in {"user", "host"} else 14
    for point in range(0, len(names), every):
        run = played(name, Injection(way=way, point=point))
        assert run.points.fired
        assert run.points.names[:point] == names[:point]
        assert run.problems == [], (way, point, names[point])
    count_runs(len(names) // every)


# ---- killed, and closed, at every event ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCRIPTS)
def test_killed_behind_every_event(name: str, count_runs: CountRuns) -> None:
    """Each prefix of the journal is what some kill leaves: it is gone on with, or ended, and nothing is done twice."""
    answer, until = SCRIPTS[name]

    async def main(length: int) -> int:
        home = Home([answer, FINE])
        session_id = await home.parked(until)
        async with home.open() as eng:
            await _resume(Points(None), await eng.open_session(session_id))
        events = list(await home.store.load(session_id))
        if length > len(events):
            return 0
        survivor = Home([answer, *[FINE] * 3], ids=home.ids)
        for event in events[:length]:
            survivor.store.put(event)
        survivor.models = home.models[:1]
        async with survivor.open() as eng:
            session = await eng.open_session(session_id)
            if session.state.turn is not None:
                await _resume(Points(None), session)
                assert isinstance(session.events()[-1], TurnEnded)
            assert await problems(survivor, session) == []
            result = await session.run("and now?")
            assert result.stop_reason == "completed", result
            assert await problems(survivor, session) == []
        return length

    length = 1
    while trio.run(main, length, clock=trio.testing.MockClock(autojump_threshold=0)):
        length += 1
    assert length > 20
    count_runs(length)
