"""Background jobs of real sessions: what ends them, what does not, and that nothing is left. Real processes, in real time."""

import random
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.core.events import CallSettled, CallStarted, Notice
from engine.core.messages import Settlement
from engine.core.settings import Settings
from engine.permission.allow_all import AllowAll
from engine.process.kill_tree import find_marked, reap
from engine.session.engine_options import PermissionOptions
from engine.session.session import Session
from engine.store.memory import MemoryStore
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.shell_environment import marker
from tests.conftest import CountRuns, Soak
from tests.os import trees
from tests.support.processes import python_process, read_line

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with trees.nothing_left():
        yield


def script(kind: str) -> str:
    return trees.bash(trees.STUBBORN[kind])[2]


def one(tool: str, arguments: dict[str, object], number: int = 1) -> Answer:
    return [*call(tool, arguments, id=f"c{number}"), *done("calls")]


def job(command: str, name: str = "web") -> Answer:
    return one("bash", {"command": command, "background": True, "name": name})


BYE: Answer = [*text("bye"), *done()]


@attrs.frozen(kw_only=True)
class Task:
    """Hand a task to a sub-agent."""

    prompt: str


@engine.tool
async def task(args: Task, ctx: engine.ToolContext) -> str:
    return (await ctx.run_agent(args.prompt)).text


@asynccontextmanager
async def opened(
    answers: Sequence[Answer], cwd: Path, store: MemoryStore | None = None
) -> AsyncGenerator[tuple[engine.Engine, Session]]:
    model = ScriptedProvider(tuple(answers))
    async with engine.open_engine(
        model=model,
        tools=(*builtin_tools(), task),
        permissions=PermissionOptions(approver=AllowAll()),
        store=store,
        settings=Settings(),
    ) as eng:
        yield eng, await eng.create_session(cwd=cwd)


async def settled(session: Session, prompt: str = "go") -> list[Settlement]:
    """Run a turn, and return how its calls went."""
    found: list[Settlement] = []
    with trio.fail_after(60):
        async with session.prompt(prompt) as turn:
            found += [event.settlement async for event in turn if isinstance(event, CallSettled)]
    assert turn.result.stop_reason == "completed"
    return found


async def test_job_outlives_its_turn_but_not_engine(tmp_path: Path) -> None:
    answers = [
        job("until [ -e go ]; do sleep 0.01; done; echo hi; " + script("setsid, ignores TERM")),
        BYE,
        one("bash_output", {"name": "web", "wait": 10}),
        BYE,
        one("bash_stop", {"name": "web"}),
        BYE,
        job(script("plain"), "again"),
        BYE,
    ]
    async with opened(answers, tmp_path) as (_, session):
        (started,) = await settled(session)
        assert started.text.startswith("The background job web was started.\n(no new output)\n")
        (tmp_path / "go").touch()
        (shown,) = await settled(session)
        assert shown.text.startswith("hi\nready\n[web: running for ")
        assert session.state.context.get("job:web").endswith(", 9]")
        (stopped,) = await settled(session)
        assert "[web: stopped, " in stopped.text
        assert trees.alive() == []
        await settled(session)
        assert len(trees.alive()) == 1
    assert trees.alive() == []


async def test_journal_records_the_jobs_end(tmp_path: Path) -> None:
    store = MemoryStore()
    async with opened([job("exit 3"), BYE, job("sleep 60"), BYE], tmp_path, store) as (_, session):
        await settled(session)
        with trio.fail_after(60):
            await session.background.jobs.get("web").over.wait()
        await settled(session)
    notices = [event.text for event in await store.load(session.id) if isinstance(event, Notice)]
    assert re.fullmatch(r"the background job web has ended: exit code 3, \d+\.\d s", notices[0])
    assert re.fullmatch(r"the background job web has ended: stopped, \d+\.\d s", notices[1])
    assert len(notices) == 2


async def test_a_host_that_is_cancelled_leaves_none(tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        async with opened([job(script("setsid, ignores TERM")), BYE], tmp_path) as (_, session):
            await settled(session)
            assert len(trees.alive()) > 0
            scope.cancel(reason="test")
            await trio.sleep_forever()
    assert scope.cancelled_caught
    assert trees.alive() == []


async def test_cancelled_wait_leaves_the_job_running(tmp_path: Path) -> None:
    answers = [job(script("plain")), BYE, one("bash_output", {"name": "web", "wait": 60, "until": "end"})]
    async with opened(answers, tmp_path) as (_, session):
        await settled(session)
        async with session.prompt("wait") as turn:
            async for event in turn:
                if isinstance(event, CallStarted):
                    turn.cancel()
        assert turn.result.stop_reason == "aborted"
        assert len(trees.alive()) == 1
        assert session.background.jobs.get("web").is_running


async def test_sub_agents_jobs_end_with_it(tmp_path: Path) -> None:
    answers = [
        job(script("plain"), "outer"),
        BYE,
        one("task", {"prompt": "help"}),
        # The sub-agent's turn.
        one("bash_output", {"name": "outer"}),
        job(script("setsid, ignores TERM"), "inner"),
        BYE,
        # The parent's again.
        one("bash_output", {}),
        BYE,
    ]
    async with opened(answers, tmp_path) as (_, session):
        await settled(session)
        outer, inner, _, shown = await settled(session)
        assert outer.text == "There is no background job 'outer'. Jobs of this session: none."
        assert "The background job inner was started" in inner.text
        assert re.fullmatch(r"outer: running for .*", shown.text)
        # It ends with its session, in its own grace.
        with trio.fail_after(30):
            while len(trees.alive()) > 1:
                await trio.sleep(0.01)


async def test_a_new_engine_knows_that_there_were_jobs(tmp_path: Path) -> None:
    store = MemoryStore()
    async with opened([job("echo hi; sleep 60"), BYE], tmp_path, store) as (_, session):
        await settled(session)
    answers = [one("bash_output", {"name": "web"}), one("bash_output", {"name": "wob"}), BYE]
    async with opened(answers, tmp_path, store) as (eng, _):
        again = await eng.open_session(session.id)
        gone, never = await settled(again)
    assert gone.text.endswith("web ended long ago, or with the engine that ran it; its output is gone.")
    assert never.text == "There is no background job 'wob'. Jobs of this session: none."


@pytest.mark.parametrize("kind", trees.STUBBORN)
async def test_every_kind_is_stopped(kind: str, tmp_path: Path) -> None:
    async with opened([job(script(kind)), one("bash_stop", {"name": "web"}), BYE], tmp_path) as (_, session):
        _, stopped = await settled(session)
        assert trees.alive() == []
        assert "[web: stopped, " in stopped.text


def _at(dice: random.Random, *longest: float) -> float:
    return dice.choice(longest) * dice.random()


@pytest.mark.soak
async def test_cancel_at_any_moment_leaves_nothing(
    tmp_path: Path, soak: Soak, is_full: bool, count_runs: CountRuns
) -> None:
    """Of a turn that runs a command, starts a job, looks at it and ends it; several at a time."""
    kinds = [kind for kind in trees.STUBBORN if kind != "hopper"]

    async def run(seed: int) -> None:
        dice = random.Random(seed)
        answers = [
            one("bash", {"command": script(dice.choice(kinds)), "timeout": 0.1}),
            job(script(dice.choice(kinds))),
            one("bash_output", {"name": "web", "wait": 0.2, "until": dice.choice(["output", "end"])}),
            one("bash_stop", {"name": "web"}),
            BYE,
        ]
        if dice.random() < 0.5:
            answers = answers[1:]
        async with opened(answers, tmp_path) as (_, session):
            if dice.random() < 0.5:
                with trio.move_on_after(_at(dice, 0.05, 0.5, 1)):
                    await session.run("go")
            else:
                async with session.prompt("go") as turn:
                    await trio.sleep(_at(dice, 0.05, 0.5, 1))
                    turn.cancel()
        count_runs(1)

    batch: list[int] = []
    for seed in soak.seeds(at_least=200 if is_full else 60):
        batch.append(seed)
        if len(batch) == 10:
            async with trio.open_nursery() as nursery:
                for each in batch:
                    nursery.start_soon(run, each)
            assert trees.alive() == [], f"seeds {batch}"
            batch.clear()


# ---- memory ----------------------------------------------------------------------------------------------------------

_FLOOD = """
import resource, sys, trio
from pathlib import Path
from engine.core.events import SharedContext
from engine.core.named_locks import Locks
from engine.tools.builtin.bash import Bash, bash
from engine.tools.tool_context import ToolContext

from engine.tools.output.spill import SpillStore

class Host:
    locks = Locks()
    spills = SpillStore(Path(sys.argv[1])).of("s")
    def progress(self, message, output): pass

def grown_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

ctx = ToolContext(session_id="s", turn_id="t", call_id="c", shared=SharedContext(cwd="/"), host=Host())
trio.run(bash, Bash("yes | head -c 20000000"), ctx)
before = grown_mib()
trio.run(bash, Bash("yes | head -c 200000000"), ctx)
Host.spills = None
output = trio.run(bash, Bash("yes | head -c 1000000000; echo end"), ctx)
print(output.text[-40:].splitlines()[-2], len(output.text) < 52_000, grown_mib() - before < 8)
"""


@pytest.mark.slow
def test_a_gigabyte_does_not_grow_us(tmp_path: Path) -> None:
    """Ten would not either, but take longer. What one output may keep on the disk is there as well."""
    ran = subprocess.run(
        [sys.executable, "-c", _FLOOD, str(tmp_path)], capture_output=True, text=True, check=True, timeout=100
    )
    assert ran.stdout == "end True True\n"
    kept = [path.stat().st_size for path in tmp_path.glob("*/*")]
    shutil.rmtree(tmp_path)
    assert sorted(kept) == [20_000_000, 128 * 1024 * 1024]


# ---- crashes ---------------------------------------------------------------------------------------------------------


async def test_crashed_sessions_jobs_are_found_by_name(tmp_path: Path) -> None:
    """Its jobs, and the command that it was at: the marker of both begins with the session."""
    scripts = script("setsid, ignores TERM"), script("daemon")
    with python_process("-m", "tests.os.crashed_session", str(tmp_path), *scripts) as helper:
        session_id = read_line(helper)

        def is_left(mark: str) -> bool:
            return mark.startswith(marker(session_id))

        assert [read_line(helper), read_line(helper)] == ["job", "command"]
        # (Looked at before the crash: after it, an engine that another test starts might be there first.)
        left = find_marked(is_left)
        assert {stray.pid for stray in left} >= set(trees.alive()) - {helper.pid}
        assert len(left) >= 4
        assert await reap(lambda mark: mark.startswith(marker("another"))) == ()
        assert find_marked(is_left) == left
    try:
        assert set(trees.alive()) <= {stray.pid for stray in left}
    finally:
        assert await reap(is_left, grace=2) == ()  # noqa: ASYNC102  # nobody cancels this test
    assert find_marked(is_left) == []


async def test_jobs_lost_with_the_engine_are_reported(tmp_path: Path) -> None:
    """After a closed engine as after a killed one: the record says that it began, and not that it ended."""
    place = tmp_path / "sessions.db"
    answers = [job("sleep 1000"), job("sleep 0.6", "short"), BYE, BYE]
    opening = {
        "tools": builtin_tools(),
        "permissions": PermissionOptions(approver=AllowAll()),
        "store": place,
    }
    async with engine.open_engine(model=ScriptedProvider(answers), **opening) as eng:  # type: ignore[arg-type]
        session = await eng.create_session(cwd=tmp_path)
        await settled(session)
        with trio.fail_after(30):
            await session.background.jobs.get("short").over.wait()
        assert [(work.kind, work.name, work.detail) for work in session.state.background] == [
            ("command", "web", "sleep 1000")
        ]
    async with engine.open_engine(model=ScriptedProvider([BYE]), **opening) as eng:  # type: ignore[arg-type]
        again = await eng.open_session(session.id)
        assert again.state.background == ()
        (item,) = again.state.inbox
        assert item.message.text == "The background job web ended with the engine that ran it"
        await settled(again, "and now")
        wires = [part.text for message in again.state.transcript[-3:] for part in getattr(message, "parts", ())]
        assert any("The background job web ended" in wire and "sleep 1000" in wire for wire in wires)
    async with engine.open_engine(model=ScriptedProvider([BYE]), **opening) as eng:  # type: ignore[arg-type]
        assert (await eng.open_session(session.id)).state.inbox == ()
