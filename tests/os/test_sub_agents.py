"""Sub-agents with real processes: whatever ends the turn, nothing of the tree is left running (T19, three levels deep)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

import engine
from engine.events import CallSettled, CallStarted, TurnEnded
from engine.permission.simple import AllowAll
from engine.session import Session
from engine.settings import Settings
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted import ScriptedProvider
from engine.tools.builtin.bash import BASH
from engine.tools.builtin.task import Agent
from engine.tools.builtin.task_jobs import task_tools
from engine.tools.strays import find_marked
from tests.test_subagents import by_prompt

TOOLS = (*task_tools((Agent(name="any"),)), BASH)
DONE: Answer = [*text("Done."), *done()]


def send(prompt: str, **more: object) -> Answer:
    return [*call("task", {"agent": "any", "prompt": prompt, **more}, id="1"), *done("calls")]


def script() -> dict[str, Sequence[Answer]]:
    """Sub-agents three levels deep, the last of which runs what will not end; and one in the background."""
    busy = "touch begun; (setsid sleep 60 &) ; sleep 60 & sleep 60"
    return {
        **{f"level {n}": [send(f"level {n + 1}"), DONE] for n in range(3)},
        "level 3": [[*call("bash", {"command": busy}, id="2"), *done("calls")], DONE],
        "background": [send("level 3", background=True), DONE],
    }


async def until_it_runs(session: Session, folder: Path) -> set[str]:
    """Wait for the command; return the ids of the calls that have started."""
    with trio.fail_after(20):
        while not await trio.Path(folder / "begun").exists():
            await trio.sleep(0.02)
    calls = {str(e.call_id) for e in session.journal._log if isinstance(e, CallStarted)}
    assert len(running(calls)) >= 4
    return calls


def running(calls: set[str]) -> list[int]:
    """Return the processes of these calls."""
    return [stray.pid for stray in find_marked(lambda marker: any(call_id in marker for call_id in calls))]


@pytest.mark.parametrize("way", ["user", "host"])
async def test_t19_a_cancel_leaves_no_process_three_levels_deep(tmp_path: Path, way: str) -> None:
    model = ScriptedProvider([by_prompt(script())], repeat=True)
    settings = Settings(agent_depth=3)
    async with engine.open_engine(model=model, tools=TOOLS, approver=AllowAll(), settings=settings) as eng:
        session = await eng.create_session(cwd=tmp_path)
        calls: set[str] = set()
        with trio.CancelScope() as host:
            async with session.prompt("level 0") as turn:
                calls = await until_it_runs(session, tmp_path)
                turn.cancel() if way == "user" else host.cancel(reason="the test")
                await turn.wait()
        ends = [(len(e.path), e.result.stop_reason) for e in session.journal._log if isinstance(e, TurnEnded)]
        assert ends == [(4, "aborted"), (3, "aborted"), (2, "aborted"), (1, "aborted")]
        assert calls
        assert running(calls) == []


@pytest.mark.parametrize("way", ["stop", "close"])
async def test_one_in_the_background_leaves_no_process(tmp_path: Path, way: str) -> None:
    model = ScriptedProvider([by_prompt(script())], repeat=True)
    async with engine.open_engine(model=model, tools=TOOLS, approver=AllowAll()) as eng:
        session = await eng.create_session(cwd=tmp_path, settings=Settings(wake_on_report=False))
        await session.run("background")
        calls = await until_it_runs(session, tmp_path)
        (job,) = session.agents.running
        if way == "stop":
            job.stop()
            with trio.fail_after(5):
                await job.over.wait()
            assert job.state == "aborted: it was stopped"
    assert running(calls) == []
    assert not job.is_running


@pytest.mark.parametrize(("command", "known"), [("ls", True), ("touch a", False)])
async def test_of_a_command_that_only_reads_it_is_known_that_nothing_was_changed(
    tmp_path: Path, command: str, known: bool
) -> None:
    run = [*call("bash", {"command": command}, id="2"), *done("calls")]
    model = ScriptedProvider([by_prompt({"go": [send("look"), DONE], "look": [run, DONE]})], repeat=True)
    async with engine.open_engine(model=model, tools=TOOLS, approver=AllowAll()) as eng:
        session = await eng.create_session(cwd=tmp_path)
        await session.run("go")
        (settled,) = [e.settlement for e in session.journal.events() if isinstance(e, CallSettled)]
    assert json.loads(settled.metadata)["changes_known"] is known
