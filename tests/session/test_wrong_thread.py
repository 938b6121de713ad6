"""Calls from another thread: each public method of a session, a turn, an engine and their parts refuses them, unchanged."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import attrs
import pytest
import trio
import trio.testing

import engine
from engine.agents.background import AgentJob, AgentJobs
from engine.core.errors import WrongThread
from engine.core.ids import SessionId
from engine.core.settings import RetryPolicy
from engine.session.session import live_session
from engine.session.session_background import SessionBackground
from engine.session.session_context import SessionContext
from engine.session.session_files import SessionFiles
from engine.session.session_inputs import SessionInputs
from engine.testing import Pause, ScriptedProvider, done, text
from engine.tools.background_jobs import Job, Jobs
from engine.tools.output.spill_writer import SpillWriter

SLOW = [*text("Well,"), Pause(1_000), *text(" yes.", id="2"), *done()]

# Methods that neither change anything nor touch Trio: a thread may read what a session is.
READS = {"Session.events", "SessionContext.report", "Jobs.all", "AgentJobs.all", "Jobs.get", "AgentJobs.get"}
# Meant for threads.
FOR_THREADS = {"Turn.cancel_from_thread"}
# For the engine's own use: objects of a call, which no host has.
INTERNAL: Mapping[str, tuple[object, ...]] = {
    "SessionBackground.share_limit": (None,),
    "SessionBackground.note_started": ("id", "command", "name"),
    "SessionBackground.note_ended": ("id",),
    "AgentJobs.add": (None,),
    "Job.when_over": (lambda: None,),
}
ARGUMENTS: Mapping[str, tuple[object, ...]] = {
    **INTERNAL,
    "Session.prompt": ("again",),
    "Session.cancel": ("turn_1",),
    "SessionInputs.queue": ("later",),
    "SessionInputs.steer": ("now",),
    "SessionInputs.edit": ("mine", "later"),
    "SessionInputs.remove": ("mine",),
    "Session.use_tools": ((),),
    "Turn.steer": ("now",),
    "Jobs.get": ("one",),
    "AgentJobs.get": ("ses_1",),
}
PARTS: tuple[type, ...] = (
    engine.Engine,
    engine.Session,
    engine.Turn,
    SessionBackground,
    SessionContext,
    SessionFiles,
    SessionInputs,
    Jobs,
    Job,
    AgentJobs,
    AgentJob,
)


def methods(kind: type) -> Iterator[str]:
    """The public methods of a class that are not async, without its properties."""
    for name, member in vars(kind).items():
        if not name.startswith("_") and inspect.isfunction(member) and not inspect.iscoroutinefunction(member):
            yield name


@attrs.define(eq=False)
class Parts:
    """A turn at work, and one object of each class."""

    session: engine.Session
    objects: dict[type, object]

    def arguments(self, what: str) -> tuple[object, ...]:
        if what in {"Engine.start_turn", "Engine.resume_turn"}:
            return (self.session, "go") if what == "Engine.start_turn" else (self.session,)
        if what == "Engine.watch_session":
            return (self.session.id,)
        return ARGUMENTS.get(what, ())

    def record(self) -> object:
        session = live_session(self.session)
        assert session.active is not None
        ending = session.active.ending
        return self.session.events()[:], ending.cause, ending.at, ending.scope.cancel_called, session.config


def made(eng: engine.Engine, session: engine.Session, turn: engine.Turn) -> Parts:
    jobs, agents = session.background.jobs, session.background.agents
    job = Job(name="one", command="true", cwd="/", marker="m", writer=SpillWriter(None), tell=lambda _: None)
    agent = AgentJob(session_id=SessionId("ses_1"), agent="a", stop=lambda: None, peek=str)
    jobs._jobs["one"] = job
    agents.add(agent)
    objects = (
        eng,
        session,
        turn,
        session.background,
        jobs,
        job,
        agents,
        agent,
        session.context,
        session.files,
        session.inputs,
    )
    return Parts(session, {type(part): part for part in objects})


def in_a_thread(function: Callable[[], object]) -> object:
    """Call it in another thread, and return what it returns or raises."""
    result: list[object] = []

    def work() -> None:
        try:
            result.append(function())
        except BaseException as error:  # noqa: ASYNC103  # it is what the test looks at
            result.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return result[0]


async def with_parts(check: Callable[[Parts, engine.Turn], Any]) -> None:
    """Run a turn that is in the middle of its answer, and *check* it; afterwards the session still works."""
    model = ScriptedProvider([SLOW, [*text("Fine."), *done()]])
    async with engine.open_engine(model=model, settings=engine.Settings(retry=RetryPolicy(attempts=0))) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            await trio.testing.wait_all_tasks_blocked()
            check(made(eng, session, turn), turn)
            turn.cancel()
            assert (await turn.wait()).stop_reason == "aborted"
        del session.background.agents._jobs["ses_1"], session.background.jobs._jobs["one"]
        assert (await session.run("again")).text == "Fine."


CASES = [f"{kind.__name__}.{name}" for kind in PARTS for name in methods(kind)]


@pytest.mark.parametrize("what", CASES)
async def test_foreign_thread_changes_nothing(what: str, mock_clock: trio.testing.MockClock) -> None:
    def check(parts: Parts, _: engine.Turn) -> None:
        kind, name = what.split(".")
        (part,) = [part for own, part in parts.objects.items() if own.__name__ == kind]
        before = parts.record()
        outcome = in_a_thread(lambda: getattr(part, name)(*parts.arguments(what)))
        if what in READS | FOR_THREADS:
            assert not isinstance(outcome, BaseException)
        else:
            assert isinstance(outcome, WrongThread), repr(outcome)
        assert parts.record() == before

    await with_parts(check)


async def test_parts_are_all_enumerated(mock_clock: trio.testing.MockClock) -> None:
    """Whatever a session offers as a property with methods of its own is one of the parts above."""

    def check(parts: Parts, _: engine.Turn) -> None:
        offered = [getattr(parts.session, name) for name, m in vars(engine.Session).items() if isinstance(m, property)]
        kinds = {type(o) for o in offered if type(o).__module__.startswith("engine.session")}
        with_methods = {kind for kind in kinds if any(methods(kind))}
        assert with_methods <= set(PARTS)

    await with_parts(check)


@pytest.mark.parametrize("name", ["reply", "answer", "recover", "settle", "wait", "run", "switch_model", "rename"])
async def test_foreign_trio_run_changes_nothing(name: str, mock_clock: trio.testing.MockClock) -> None:
    arguments: dict[str, tuple[object, ...]] = {
        "reply": ("req_1", engine.Once()),
        "answer": ("req_1",),
        "recover": ("req_1", "stop"),
        "settle": ("call_1", "done"),
        "run": ("again",),
        "switch_model": ("anthropic/claude-sonnet-4-5",),
        "rename": ("title",),
    }

    def check(parts: Parts, turn: engine.Turn) -> None:
        before = parts.record()
        function = getattr(turn if name == "wait" else parts.session, name)
        outcome = in_a_thread(lambda: trio.run(lambda: function(*arguments.get(name, ()))))
        assert isinstance(outcome, WrongThread), repr(outcome)
        assert parts.record() == before

    await with_parts(check)


async def read_all(iterated: Any) -> None:
    async for _ in iterated:
        pass


def run_apart(iterated: Any) -> None:
    trio.run(read_all, iterated)


async def test_foreign_run_can_not_iterate(mock_clock: trio.testing.MockClock) -> None:
    def check(parts: Parts, turn: engine.Turn) -> None:
        cursor = parts.session.subscribe()
        for iterated in (turn, cursor):
            assert isinstance(in_a_thread(partial(run_apart, iterated)), WrongThread)

    await with_parts(check)


async def test_cancel_from_thread(mock_clock: trio.testing.MockClock) -> None:
    async with engine.open_engine(model=ScriptedProvider([SLOW])) as eng:
        session = await eng.create_session()
        async with session.prompt("go") as turn:
            await trio.testing.wait_all_tasks_blocked()
            in_a_thread(turn.cancel_from_thread)
            result = await turn.wait()
    assert (result.stop_reason, result.detail) == ("aborted", "cancelled by the user")


def test_cancel_from_thread_after_the_run_does_nothing() -> None:
    turns: list[engine.Turn] = []

    async def main() -> None:
        async with engine.open_engine(model=ScriptedProvider([[*text("ok"), *done()]])) as eng:
            session = await eng.create_session()
            async with session.prompt("go") as turn:
                turns.append(turn)
                await turn.wait()

    trio.run(main)
    turns[0].cancel_from_thread()
    assert turns[0].result.stop_reason == "completed"


async def test_steer_from_a_thread_by_from_thread() -> None:
    """The documented way for all other methods."""
    model = ScriptedProvider([SLOW])
    async with engine.open_engine(model=model) as eng:
        session = await eng.create_session()
        token = trio.lowlevel.current_trio_token()
        async with session.prompt("go") as turn:
            await trio.testing.wait_all_tasks_blocked()

            def foreign() -> None:
                trio.from_thread.run_sync(turn.steer, "now", trio_token=token)

            await trio.to_thread.run_sync(foreign)
            assert [item.message.text for item in session.state.inbox] == ["now"]
            turn.cancel()


def test_guest_mode_callback_cancels() -> None:
    """The callbacks of a host loop run in the thread of the guest's run: they may call what its tasks may."""
    import queue

    todo: queue.Queue[Callable[[], object]] = queue.Queue()
    outcomes: list[object] = []
    turns: list[engine.Turn] = []

    async def main() -> str:
        async with engine.open_engine(model=ScriptedProvider([SLOW])) as eng:
            session = await eng.create_session()
            async with session.prompt("go") as turn:
                turns.append(turn)
                await trio.testing.wait_all_tasks_blocked()
                todo.put(turn.cancel)
                return (await turn.wait()).stop_reason

    trio.lowlevel.start_guest_run(
        main, run_sync_soon_threadsafe=todo.put, done_callback=outcomes.append, host_uses_signal_set_wakeup_fd=True
    )
    while not outcomes:
        todo.get(timeout=30)()
    assert outcomes[0].unwrap() == "aborted"  # type: ignore[attr-defined]  # an outcome
