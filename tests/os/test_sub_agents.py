"""Sub-agents with real processes: whatever ends the turn, nothing of the tree is left running (T19, three levels deep)."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.core.events import CallSettled, CallStarted, TurnEnded
from engine.core.ids import SessionId
from engine.core.messages import ResultsMessage
from engine.core.settings import Settings
from engine.journal.fold import fold
from engine.permission.allow_all import AllowAll
from engine.process.kill_tree import find_marked
from engine.session.engine_options import PermissionOptions
from engine.session.session import Session, live_session
from engine.store import open_sqlite_store
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.bash import BASH
from engine.tools.builtin.task import Agent
from engine.tools.builtin.task_jobs import task_tools
from tests.session.test_sub_agents import by_prompt
from tests.support.processes import python_process, read_line
from tests.support.world import said

ROOT = Path(__file__).resolve().parent.parent.parent

TOOLS = (*task_tools((Agent(name="any"),)), BASH)
DONE: Answer = [*text("Done."), *done()]


def send(prompt: str, **more: object) -> Answer:
    return [*call("task", {"agent": "any", "prompt": prompt, **more}, id="1"), *done("calls")]


def busy() -> str:
    """What will not end, in processes of several kinds."""
    return "(setsid sleep 60 &) ; sleep 60 & sleep 60"


def script(deepest: int = 3, command: str = f"touch begun; {busy()}") -> dict[str, Sequence[Answer]]:
    """Sub-agents so many levels deep, the last of which runs a command; and one in the background."""
    return {
        **{f"level {n}": [send(f"level {n + 1}"), DONE] for n in range(deepest)},
        f"level {deepest}": [[*call("bash", {"command": command}, id="2"), *done("calls")], DONE],
        "background": [send(f"level {deepest}", background=True), DONE],
    }


async def until_it_runs(session: Session, folder: Path) -> set[str]:
    """Wait for the command; return the ids of the calls that have started."""
    with trio.fail_after(30):
        while not await trio.Path(folder / "begun").exists():
            await trio.sleep(0.02)
        calls = {str(e.call_id) for e in live_session(session).journal._log if isinstance(e, CallStarted)}
        while len(running(calls)) < 4:
            await trio.sleep(0.02)
    return calls


def running(calls: set[str]) -> list[int]:
    """Return the processes of these calls."""
    return [stray.pid for stray in find_marked(lambda marker: any(call_id in marker for call_id in calls))]


@pytest.mark.parametrize("way", ["user", "host"])
async def test_t19_cancel_leaves_no_process_anywhere(tmp_path: Path, way: str) -> None:
    model = ScriptedProvider([by_prompt(script())], repeat=True)
    settings = Settings(agent_depth=3)
    async with engine.open_engine(
        model=model, tools=TOOLS, permissions=PermissionOptions(approver=AllowAll()), settings=settings
    ) as eng:
        session = await eng.create_session(cwd=tmp_path)
        calls: set[str] = set()
        with trio.CancelScope() as host:
            async with session.prompt("level 0") as turn:
                calls = await until_it_runs(session, tmp_path)
                turn.cancel() if way == "user" else host.cancel(reason="the test")
                await turn.wait()
        ends = [
            (len(e.path), e.result.stop_reason) for e in live_session(session).journal._log if isinstance(e, TurnEnded)
        ]
        assert ends == [(4, "aborted"), (3, "aborted"), (2, "aborted"), (1, "aborted")]
        assert calls
        assert running(calls) == []


@pytest.mark.parametrize("way", ["stop", "close"])
async def test_background_agent_leaves_no_process(tmp_path: Path, way: str) -> None:
    model = ScriptedProvider([by_prompt(script())], repeat=True)
    async with engine.open_engine(model=model, tools=TOOLS, permissions=PermissionOptions(approver=AllowAll())) as eng:
        session = await eng.create_session(cwd=tmp_path, settings=Settings(wake_on_report=False))
        await session.run("background")
        calls = await until_it_runs(session, tmp_path)
        (job,) = session.background.agents.running
        if way == "stop":
            job.stop()
            with trio.fail_after(30):
                await job.finished.wait()
            assert job.status_text == "aborted: it was stopped"
    assert running(calls) == []
    assert not job.is_running


@pytest.mark.parametrize(("command", "known"), [("ls", True), ("touch a", False)])
async def test_read_only_command_reports_no_changes(tmp_path: Path, command: str, known: bool) -> None:
    run = [*call("bash", {"command": command}, id="2"), *done("calls")]
    model = ScriptedProvider([by_prompt({"go": [send("look"), DONE], "look": [run, DONE]})], repeat=True)
    async with engine.open_engine(model=model, tools=TOOLS, permissions=PermissionOptions(approver=AllowAll())) as eng:
        session = await eng.create_session(cwd=tmp_path)
        await session.run("go")
        (settled,) = [e.settlement for e in session.events() if isinstance(e, CallSettled)]
    assert json.loads(settled.metadata)["changes_known"] is known


def killed(folder: Path, store: str) -> list[str]:
    """Kill an engine while a sub-agent of a sub-agent works; return the three sessions' ids, and that of the last call."""
    with python_process("-m", "tests.os.crashed_agents", str(folder), store) as process:
        return read_line(process).split()


async def test_killed_sub_agents_can_be_continued_by_name(tmp_path: Path) -> None:
    store = str(tmp_path / "store.db")
    root, child, grandchild, call_id = await trio.to_thread.run_sync(killed, tmp_path, store)
    going_on = [*call("task", {"agent": "any", "prompt": "And?", "task_id": child}, id="1"), *done("calls")]
    model = ScriptedProvider([going_on, DONE, DONE])
    settings = Settings(agent_depth=2)
    async with engine.open_engine(
        model=model, tools=TOOLS, permissions=PermissionOptions(approver=AllowAll()), settings=settings, store=store
    ) as eng:
        session = await eng.open_session(root)
        result = await session.run("Go on.")
        assert result.text == "Done."
    for request, name in zip(model.requests, (child, grandchild), strict=False):
        told = next(said(m) for m in request.transcript if isinstance(m, ResultsMessage))
        assert told.startswith("Interrupted: the engine's process ended while this ran.")
        assert f"[any, task_id {name}: interrupted." in told
    await trio.to_thread.run_sync(end_leftovers_of, call_id)


async def test_recovery_settles_the_calls_of_sub_agents(tmp_path: Path) -> None:
    """All levels, and when only the session of the user is opened."""
    store = str(tmp_path / "store.db")
    root, child, grandchild, call_id = await trio.to_thread.run_sync(killed, tmp_path, store)
    async with engine.open_engine(model=ScriptedProvider([]), tools=TOOLS, store=store) as eng:
        await eng.open_session(root)
    kept = await open_sqlite_store(store)
    for session_id in (root, child, grandchild):
        state = fold(await kept.load(SessionId(session_id)))
        assert state.turn is None
        assert state.last_result is not None
        assert state.last_result.stop_reason == "aborted"
    await kept.aclose()
    await trio.to_thread.run_sync(end_leftovers_of, call_id)


@attrs.define(eq=False)
class CancelAtStep(trio.abc.Instrument):
    """Cancel a scope at a step of one task."""

    scope: trio.CancelScope
    task: trio.lowlevel.Task
    left: int

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        if task is self.task:
            self.left -= 1
            if self.left == 0:
                self.scope.cancel()


async def test_recovery_may_be_cancelled_at_every_step(tmp_path: Path) -> None:
    killed_store = tmp_path / "killed"
    killed_store.mkdir()
    sessions = await trio.to_thread.run_sync(killed, tmp_path, str(killed_store / "store.db"))
    root, call_id = sessions[0], sessions[3]
    steps, was_cancelled = 0, True
    while was_cancelled:
        steps += 1
        folder = tmp_path / str(steps)
        shutil.copytree(killed_store, folder)
        store = str(folder / "store.db")
        async with engine.open_engine(model=ScriptedProvider([]), tools=TOOLS, store=store) as eng:
            scope = trio.CancelScope()
            instrument = CancelAtStep(scope, trio.lowlevel.current_task(), steps)
            trio.lowlevel.add_instrument(instrument)
            with scope:
                await eng.open_session(root)
            trio.lowlevel.remove_instrument(instrument)
            was_cancelled = scope.cancelled_caught
            await eng.open_session(root)
        kept = await open_sqlite_store(store)
        for session_id in sessions[:3]:
            assert fold(await kept.load(SessionId(session_id))).turn is None
        await kept.aclose()
    assert steps > 5
    await trio.to_thread.run_sync(end_leftovers_of, call_id)


def end_leftovers_of(call_id: str) -> None:
    """End what the killed engine has left: that the next one does so has a test of its own (`test_leftovers.py`)."""
    for pid in running({call_id}):
        with suppress(ProcessLookupError):  # it may be ending
            os.kill(pid, signal.SIGKILL)
