"""A worker runs each task once, and lets go of what it has not ended, whenever it is drained or cancelled."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager

import pytest
import trio
from trio.testing import MockClock

import engine
from engine.core.events import CallStarted, InputAdmitted, TurnEnded
from engine.core.ids import SessionId
from engine.core.llm_types import ModelRequest
from engine.core.messages import ResultsMessage, UserMessage
from engine.errors import AuthFailed, ConfigError, InputConflict
from engine.fleet import QueuedTask, TaskSpec, Worker, enqueue
from engine.fleet.worker import WorkerNews
from engine.options import FileOptions, PermissionOptions, Ports
from engine.permission.allow_all import AllowAll
from engine.store import MemoryStore
from engine.testing import FakeTools, ScriptedProvider, cancel_everywhere
from engine.testing.fakes import CountingIds, TrioClock
from engine.testing.script import Answer, Fail, Pause, call, done, text
from engine.testing.scripted_provider import ScriptedAnswer
from tests.support.queued_store import QueuedStore

ANSWER: Answer = [*text("All done."), *done()]
SLOW: Answer = [*text("Half of it."), Pause(50), *text(" The rest."), *done()]


def open_engine(store: QueuedStore, *script: ScriptedAnswer, repeat: bool = False) -> engine.Engine:
    return engine.open_engine(
        model=ScriptedProvider(script, repeat=repeat),
        tools=FakeTools().tools(),
        store=store,
        permissions=PermissionOptions(approver=AllowAll()),
        files=FileOptions(spill="/dev/null"),
        ports=Ports(ids=CountingIds(), clock=TrioClock(), jitter=lambda: 0.5),
        settings=engine.Settings(headless="deny", on_exhausted="stop"),
    )


async def ended(store: QueuedStore, key: str) -> QueuedTask:
    """Wait until a task has ended."""
    while True:
        task = await store.tasks.find(key)
        assert task is not None
        if task.ended is not None:
            return task
        await trio.sleep(0.1)


async def events_of(store: QueuedStore, key: str) -> list[object]:
    task = await store.tasks.find(key)
    assert task is not None
    return list(await store.load(task.spec.session_id))


def prompts(events: list[object]) -> list[str]:
    return [event.message.text for event in events if isinstance(event, InputAdmitted)]


def ends(events: list[object]) -> list[str]:
    return [event.result.stop_reason for event in events if isinstance(event, TurnEnded)]


async def test_worker_runs_tasks_in_order(autojump_clock: MockClock) -> None:
    store = QueuedStore()
    keys = [(await enqueue(store, f"task {number}", cwd="/", key=f"k{number}")).spec.key for number in range(5)]
    async with open_engine(store, ANSWER, repeat=True) as eng, trio.open_nursery() as nursery:
        worker = Worker(eng, slots=1)
        nursery.start_soon(worker.run)
        for number, key in enumerate(keys):
            task = await ended(store, key)
            assert (task.outcome, task.attempts) == ("completed", 1)
            assert prompts(await events_of(store, key)) == [f"task {number}"]
        worker.drain(0)
    assert store.tasks.taken == keys


async def test_slots_bound_what_runs(autojump_clock: MockClock) -> None:
    store = QueuedStore()
    for number in range(5):
        await enqueue(store, "slowly", cwd="/", key=f"k{number}")
    async with open_engine(store, SLOW, repeat=True) as eng, trio.open_nursery() as nursery:
        worker = Worker(eng, slots=2)
        nursery.start_soon(worker.run)
        most = 0
        while len(await store.tasks.list(limit=9, ended=True)) < 5:
            most = max(most, worker.running)
            await trio.sleep(1)
        worker.drain(0)
    assert most == 2
    assert trio.current_time() < 5 * 50


async def test_drain_waits_for_a_task_that_ends(autojump_clock: MockClock) -> None:
    store = QueuedStore()
    await enqueue(store, "slowly", cwd="/", key="a")
    await enqueue(store, "later", cwd="/", key="b")
    async with open_engine(store, SLOW) as eng, trio.open_nursery() as nursery:
        worker = Worker(eng, slots=1)
        nursery.start_soon(worker.run)
        while not worker.running:
            await trio.sleep(0.1)
        worker.drain(60)
        assert worker.is_draining
    assert (await ended(store, "a")).outcome == "completed"
    waiting = await store.tasks.find("b")
    assert waiting is not None
    assert (waiting.state, waiting.attempts) == ("waiting", 0)


async def test_drained_task_continues_elsewhere(autojump_clock: MockClock) -> None:
    """Its turn is cancelled and saved; the next worker says so to the model, and sends the prompt not again."""
    store = QueuedStore()
    await enqueue(store, "slowly", cwd="/", key="a")
    news: list[WorkerNews] = []
    async with open_engine(store, SLOW) as eng, trio.open_nursery() as nursery:
        worker = Worker(eng, report=news.append)
        nursery.start_soon(worker.run)
        while not worker.running:
            await trio.sleep(0.1)
        await trio.sleep(5)
        worker.drain(10)
    assert [each.kind for each in news] == ["taken", "given_back"]
    left = await store.tasks.find("a")
    assert left is not None
    assert (left.state, left.attempts, left.detail) == ("waiting", 0, "its worker was stopped")
    seen: list[ModelRequest] = []

    def answer(request: ModelRequest) -> Answer:
        seen.append(request)
        return ANSWER

    async with open_engine(store, answer) as eng, trio.open_nursery() as nursery:
        worker = Worker(eng)
        nursery.start_soon(worker.run)
        task = await ended(store, "a")
        worker.drain(0)
    events = await events_of(store, "a")
    assert (task.outcome, task.attempts) == ("completed", 1)
    assert ends(events) == ["aborted", "completed"]
    assert prompts(events) == ["slowly", "Continue the task where it stopped."]
    asked = [message.text for message in seen[0].transcript if isinstance(message, UserMessage)]
    assert asked[0] == "slowly"


async def test_same_key_makes_one_turn(autojump_clock: MockClock) -> None:
    """Also when the row is gone: the session knows the key for ever."""
    store = QueuedStore()
    first = await enqueue(store, "once", cwd="/", key="a")
    assert (await enqueue(store, "once", cwd="/", key="a")).spec == first.spec
    with pytest.raises(InputConflict):
        await enqueue(store, "other", cwd="/", key="a")
    async with open_engine(store, ANSWER) as eng, trio.open_nursery() as nursery:
        worker = Worker(eng)
        nursery.start_soon(worker.run)
        await ended(store, "a")
        store.tasks.tasks.clear()
        again = await enqueue(store, "once", cwd="/", key="a")
        assert (await ended(store, "a")).outcome == "completed"
        worker.drain(0)
    assert again.spec == first.spec
    assert len(ends(await events_of(store, "a"))) == 1


async def test_rejected_key_of_a_worker_counts_as_attempt(autojump_clock: MockClock) -> None:
    """Another worker may have one that is accepted: the task is not to blame."""
    store = QueuedStore()
    await enqueue(store, "hard", cwd="/", key="a")
    script: list[ScriptedAnswer] = [[Fail(AuthFailed("rejected"))], [Fail(AuthFailed("rejected"))], ANSWER]
    async with open_engine(store, *script) as eng, trio.open_nursery() as nursery:
        worker = Worker(eng, attempts=3)
        nursery.start_soon(worker.run)
        task = await ended(store, "a")
        worker.drain(0)
    assert (task.outcome, task.attempts) == ("completed", 3)
    assert ends(await events_of(store, "a")) == ["auth_failed", "auth_failed", "completed"]


async def test_missing_folder_is_given_up(autojump_clock: MockClock) -> None:
    store = QueuedStore()
    await enqueue(store, "work", cwd="/no/such/folder", key="a")
    news: list[WorkerNews] = []
    async with open_engine(store, ANSWER) as eng, trio.open_nursery() as nursery:
        worker = Worker(eng, attempts=2, report=news.append)
        nursery.start_soon(worker.run)
        assert (await ended(store, "a")).outcome == "failed"
        worker.drain(0)
    given_back = [each.end for each in news if each.kind == "given_back"]
    assert [(end.counts, end.pause) for end in given_back if end is not None] == [(True, 5.0), (True, 10.0)]
    assert all("/no/such/folder" in end.detail for end in given_back if end is not None)


async def test_session_of_a_user_is_continued(autojump_clock: MockClock) -> None:
    store = QueuedStore()
    async with open_engine(store, ANSWER, repeat=True) as eng, trio.open_nursery() as nursery:
        session = await eng.create_session(cwd="/")
        await session.run("hello")
        await eng.close_session(session.id)
        await store.tasks.add(_spec_of(session.id))
        worker = Worker(eng)
        nursery.start_soon(worker.run)
        assert (await ended(store, "more")).outcome == "completed"
        worker.drain(0)
    assert prompts(list(await store.load(session.id))) == ["hello", "and more"]


def _spec_of(session_id: SessionId) -> TaskSpec:
    return TaskSpec(key="more", session_id=session_id, text="and more", cwd=None)


@pytest.mark.parametrize("text_", ["", " ", "a\x00b", "\ud800"])
async def test_task_that_no_database_stores_is_refused(text_: str) -> None:
    with pytest.raises(ConfigError):
        await enqueue(QueuedStore(), text_)
    with pytest.raises(ConfigError):
        await enqueue(QueuedStore(), "task", key=text_)


async def test_store_without_a_queue_is_refused() -> None:
    with pytest.raises(ConfigError, match="only a PostgreSQL database has a queue"):
        await enqueue(MemoryStore(), "task")


# ---- cancelling ------------------------------------------------------------------------------------------------------


@contextmanager
def worker_case() -> Generator[Callable[[], Awaitable[None]]]:
    """Two tasks with a call each. Whatever happens, a task has ended or waits, and no turn is open."""
    store, tools = QueuedStore(), FakeTools()

    def answer(request: ModelRequest) -> Answer:
        has_result = any(isinstance(message, ResultsMessage) for message in request.transcript)
        return ANSWER if has_result else [*call("work", {"key": "w", "seconds": 0.3}, id="1"), *done("calls")]

    async def main() -> None:
        async with engine.open_engine(
            model=ScriptedProvider([answer], repeat=True),
            tools=tools.tools(),
            store=store,
            permissions=PermissionOptions(approver=AllowAll()),
            files=FileOptions(spill="/dev/null"),
            ports=Ports(ids=CountingIds(), clock=TrioClock(), jitter=lambda: 0.5),
        ) as eng:
            for key in "ab":
                await enqueue(store, "work", cwd="/", key=key)
            worker = Worker(eng, slots=2)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(worker.run)
                await trio.sleep(0.5)
                worker.drain(0.1)

    yield main
    for task in store.tasks.tasks.values():
        assert task.state in {"ended", "waiting"}, task
        events = store._events.get(task.spec.session_id, [])
        assert sum(isinstance(event, CallStarted) for event in events) <= 1
        if any(isinstance(event, InputAdmitted) for event in events):
            assert isinstance(events[-1], TurnEnded) or ends(list(events)), events[-1]


@pytest.mark.parametrize("way", ["scope", "sibling"])
def test_worker_is_cancelled_everywhere(way: str, is_full: bool) -> None:
    random.seed(0)
    report = cancel_everywhere(worker_case, by=(way,), every=1 if is_full else 5)
    assert report.runs > 20
