"""What clients ask for by id, at every step of a turn: cancel, edit, remove, the same prompt, the same session again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.core.errors import AlreadyAnswered, InputNotFound
from engine.core.events import (
    HistoryReplaced,
    PermissionAnswered,
    PermissionAsked,
    SessionCreated,
    TurnEnded,
    TurnStarted,
)
from engine.core.ids import SessionId
from engine.core.messages import UserMessage
from engine.testing.cancellation.trio_internals import seed_scheduler
from engine.testing.fakes import SlowStore
from tests.conftest import CountRuns, Soak
from tests.support.parked import FINE, Asking, Home, asks, do, look, problems

# A few of the points of a busy session; all under `make soak`.
pytestmark = [pytest.mark.slow, pytest.mark.soak]


@attrs.define(eq=False)
class Instant(trio.abc.Instrument):
    """Acts at one point of a run: before or after a step of a task. None: at no point."""

    at: int | None
    count: int = 0
    act: Callable[[], object] | None = None
    error: BaseException | None = None

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self._point()

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        self._point()

    def _point(self) -> None:
        act = self.act
        if act is None:
            return
        self.count += 1
        if self.count - 1 == self.at:
            try:
                act()
            except BaseException as error:  # noqa: ASYNC103  # trio would log it and go on without the instrument
                self.error = error


def everywhere(play: Callable[[Instant], Awaitable[None]], *, every: int = 1) -> int:
    """Play it once for each of its points, or for some of them; return how often."""

    def played(at: int | None) -> int:
        instant = Instant(at)

        async def main() -> None:
            with trio.fail_after(1_000):
                await play(instant)

        seed_scheduler(0)
        clock = trio.testing.MockClock(autojump_threshold=0)
        trio.run(main, clock=clock, instruments=[instant], strict_exception_groups=True)
        assert instant.error is None, (at, instant.error)
        return instant.count

    points = played(None)
    for at in range(0, points, every):
        played(at)
    return points // every


async def answer_all(session: engine.Session) -> None:
    async for event in session.subscribe():
        if isinstance(event, PermissionAsked):
            with suppress(engine.EngineError):
                await session.reply(event.request_id, engine.Once())


def prompts(session: engine.Session) -> list[str]:
    return [message.text for message in session.state.transcript if isinstance(message, UserMessage)]


# ---- a session at work -----------------------------------------------------------------------------------------------


@attrs.define(eq=False)
class Office:
    """A session with a turn and two inputs that wait.

    Attributes:
        found: what the act at the instant came to.
    """

    eng: engine.Engine
    session: engine.Session
    first: engine.Turn
    found: object = None


async def play_office(act: Callable[[Office], object], verify: Callable[[Office], None], instant: Instant) -> None:
    home = Home([asks(*look("a", 0.1), *do("b", 0.1)), *[FINE] * 4], store=SlowStore(delay=0.01))
    async with home.open() as eng, trio.open_nursery() as nursery:
        session = await eng.create_session(cwd="/opt")
        nursery.start_soon(answer_all, session)
        office = Office(eng, session, eng.start_turn(session, "go", input_id="first"))
        for name in ("one", "two"):
            session.inputs.queue(name, input_id=name)

        def do_act() -> None:
            office.found = act(office)

        instant.act = do_act
        await trio.sleep(60)
        instant.act = None
        assert (await session.run("and now?")).stop_reason == "completed"
        # What a cancelled turn had left waiting.
        await trio.sleep(60)
        assert session.inputs.waiting == ()
        assert await problems(home, session) == []
        assert session.state.turn is None
        # Runs are not all alike: the last points of one may be beyond the end of another.
        if instant.at is not None and instant.at < instant.count:
            verify(office)
        nursery.cancel_scope.cancel(reason="the test is over")


def test_turn_is_cancelled_by_id(soak: Soak, count_runs: CountRuns) -> None:
    def verify(office: Office) -> None:
        result = office.first.result
        assert (result.stop_reason == "aborted") <= (office.found is True)
        assert (result.stop_reason, result.detail) in {("aborted", "cancelled by the user"), ("completed", "")}
        assert sorted(prompts(office.session)) == ["and now?", "go", "one", "two"]

    count_runs(
        everywhere(
            partial(play_office, lambda office: office.session.cancel(office.first.id), verify),
            every=1 if soak.seconds else 5,
        )
    )


def test_input_is_edited_or_too_late(soak: Soak, count_runs: CountRuns) -> None:
    def edit(office: Office) -> bool:
        try:
            office.session.inputs.edit("one", "edited")
        except InputNotFound:
            return False
        return True

    def verify(office: Office) -> None:
        assert prompts(office.session) == ["go", "edited" if office.found else "one", "two", "and now?"]

    count_runs(everywhere(partial(play_office, edit, verify), every=1 if soak.seconds else 5))


def test_input_is_removed_or_too_late(soak: Soak, count_runs: CountRuns) -> None:
    def verify(office: Office) -> None:
        assert prompts(office.session) == ["go", *([] if office.found else ["one"]), "two", "and now?"]

    count_runs(
        everywhere(
            partial(play_office, lambda office: office.session.inputs.remove("one"), verify),
            every=1 if soak.seconds else 5,
        )
    )


def test_same_prompt_is_the_same_turn(soak: Soak, count_runs: CountRuns) -> None:
    def verify(office: Office) -> None:
        assert office.found == office.first.id
        assert prompts(office.session) == ["go", "one", "two", "and now?"]

    def send(office: Office) -> object:
        return office.eng.start_turn(office.session, "go", input_id="first").id

    count_runs(everywhere(partial(play_office, send, verify), every=1 if soak.seconds else 5))


def test_one_of_two_answers_counts(soak: Soak, count_runs: CountRuns) -> None:
    """Also if the client that was first goes away as it answers, and never learns that it was."""

    async def play(instant: Instant) -> None:
        home = Home([asks(*do("a")), *[FINE] * 2], store=SlowStore(delay=0.01))
        told: dict[str, str] = {}
        async with home.open() as eng, trio.open_nursery() as nursery:
            session = await eng.create_session(cwd="/opt")

            async def answer(by: str, scope: trio.CancelScope) -> None:
                with scope:
                    async for event in session.subscribe(0):
                        if isinstance(event, PermissionAsked):
                            try:
                                await session.reply(event.request_id, engine.Once(), by=by)
                                told[by] = by
                            except AlreadyAnswered as late:
                                told[by] = late.by

            scopes = {by: trio.CancelScope() for by in ("ada", "bob")}
            for by, scope in scopes.items():
                nursery.start_soon(answer, by, scope)
            instant.act = scopes["ada"].cancel
            assert (await eng.start_turn(session, "go").wait()).stop_reason == "completed"
            await trio.sleep(60)
            instant.act = None
            answered = [event for event in session.events() if isinstance(event, PermissionAnswered)]
            assert len(answered) == 1
            assert set(told.values()) == {answered[0].by}
            assert "bob" in told
            assert home.done == ["a"]
            assert await problems(home, session) == []
            nursery.cancel_scope.cancel(reason="the test is over")

    count_runs(everywhere(play, every=1 if soak.seconds else 3))


# ---- a parked turn ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["cancel", "supersede"])
@pytest.mark.parametrize("way", ["cancel", "close"])
def test_end_of_a_parked_turn_is_interrupted(end: str, way: str, count_runs: CountRuns) -> None:
    async def play(instant: Instant) -> None:
        home = Home([asks(*do("a")), *[FINE] * 3], store=(store := SlowStore()))
        session_id = await home.parked(PermissionAsked)
        store.delay = 0.01
        with trio.CancelScope() as host:
            async with home.open() as eng:
                session = await eng.open_session(session_id)
                parked = session.state.turn
                assert parked is not None
                turn_id = parked.turn_id
                if end == "cancel":
                    session.cancel(turn_id)
                else:
                    turn_id = eng.start_turn(session, "something else").id
                instant.act = host.cancel if way == "close" else partial(session.cancel, turn_id)
                await trio.sleep(60)
                if way == "cancel":
                    instant.act = None
        instant.act = None
        async with home.open() as eng:
            session = await eng.open_session(session_id)
            assert session.state.turn is None
            assert (await session.run("and now?")).stop_reason == "completed"
            assert await problems(home, session) == []
            ended = [event.turn_id for event in session.events() if isinstance(event, TurnEnded)]
            assert len(ended) == len(set(ended)) == (2 if end == "cancel" else 3)
        assert home.done == []

    count_runs(everywhere(play))


# ---- a session created with an id ------------------------------------------------------------------------------------


def test_creation_is_cancelled(count_runs: CountRuns) -> None:
    async def play(instant: Instant) -> None:
        home = Home([FINE] * 2)
        async with home.open() as eng, trio.open_nursery() as nursery:

            async def create() -> None:
                await eng.create_session(cwd="/opt", session_id="mine")

            with trio.CancelScope() as host:
                instant.act = host.cancel
                nursery.start_soon(create)
                await eng.create_session(cwd="/opt", session_id="mine")
                await trio.lowlevel.checkpoint()
            instant.act = None
            session = await eng.create_session(cwd="/opt", session_id="mine")
            assert (await session.run("go")).stop_reason == "completed"
            events = session.events()
            assert [type(event) for event in events[:2]] == [SessionCreated, TurnStarted]
            assert await problems(home, session) == []
        async with home.open() as eng:
            assert (await eng.create_session(cwd="/opt", session_id="mine")).events() == events

    count_runs(everywhere(play))


def test_fork_is_cancelled(count_runs: CountRuns) -> None:
    async def play(instant: Instant) -> None:
        home = Home([FINE] * 3)
        async with home.open() as eng, trio.open_nursery() as nursery:
            first = await eng.create_session(cwd="/opt")
            await first.run("go")

            async def fork() -> None:
                await eng.fork_session(first.id, fork_id="mine")

            with trio.CancelScope() as host:
                instant.act = host.cancel
                nursery.start_soon(fork)
                await eng.fork_session(first.id, fork_id="mine")
                await trio.lowlevel.checkpoint()
            instant.act = None
            session = await eng.fork_session(first.id, fork_id="mine")
            events = session.events()
            assert [type(event) for event in events] == [SessionCreated, HistoryReplaced]
            assert session.state.transcript == first.state.transcript
            assert (await session.run("and now?")).stop_reason == "completed"
            assert await problems(home, session) == []

    count_runs(everywhere(play))


# ---- the permission profile of a session -----------------------------------------------------------------------------


@attrs.frozen
class Profiles(Asking):
    """With profiles."""

    def use_profile(self, session_id: SessionId, profile: str) -> None:
        self._policy.use_profile(session_id, profile)


@pytest.mark.parametrize("profile", ["full", None])
def test_selected_profile_is_that_of_the_record(profile: str | None, count_runs: CountRuns) -> None:
    """Also if the one who selects it is cancelled: what applies is what everybody sees."""

    async def play(instant: Instant) -> None:
        home = Home([asks(*do("a")), FINE], store=SlowStore(delay=0.01), approver=Profiles())
        async with home.open() as eng, trio.open_nursery() as nursery:
            session = await eng.create_session(cwd="/opt")
            if profile is None:
                await eng.use_profile(session, "full")
            with trio.CancelScope() as host:
                instant.act = host.cancel
                await eng.use_profile(session, profile)
                await trio.lowlevel.checkpoint()
            instant.act = None
            selected = session.state.profile
            nursery.start_soon(answer_all, session)
            assert (await eng.start_turn(session, "go").wait()).stop_reason == "completed"
            asked = [event for event in session.events() if isinstance(event, PermissionAsked)]
            assert len(asked) == (not selected)
            nursery.cancel_scope.cancel(reason="the test is over")
        home.approver = Profiles()
        async with home.open() as eng:
            assert (await eng.open_session(session.id)).state.profile == selected

    count_runs(everywhere(play))
