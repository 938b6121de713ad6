"""Tool files of projects: trusted, approved with their content, and run in a process that no engine leaves behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import trio

from engine.config.plugin_config import PluginOptions
from engine.core.events import CallSettled, CallStarted
from engine.core.ids import SessionId
from engine.plugins.isolated_file import host_command
from engine.plugins.tool_files import read_tool_file
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.tool_source import SourceScope
from tests.plugins.tool_file_world import DONE, World, calls, code, run
from tests.support.cancel_at import CancelAt
from tests.support.processes import python_process, read_line

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]
ROOT = Path(__file__).parents[2]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return World(tmp_path)


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


async def gone(pid: int) -> None:
    with trio.fail_after(60):
        while lives(pid):
            await trio.sleep(0.01)


async def test_nothing_of_an_untrusted_or_unapproved_file_runs(world: World) -> None:
    ran = world.folder / "ran"
    path = world.of_project("greet.py", f"open({str(ran)!r}, 'w')\n{code()}", approved=False)
    model = ScriptedProvider([DONE], repeat=True)
    async with world.opened(model, world.source(), profile="full") as eng:
        world.trusted = False
        session = await world.session(eng)
        expected = f"the tool file {path} was not loaded: "
        assert (await run(session))[2] == [f"{expected}its project is not trusted. Next: engine permissions trust"]
        world.trusted = True
        assert (await run(session))[2] == [f"{expected}you have not approved it. Next: engine plugins approve {path}"]
        world.approvals.approve(str(path), b"something else")
        (notice,) = (await run(session))[2]
        assert "it has changed since you approved it" in notice
    assert not ran.exists()
    assert [tool.name for tool in model.requests[-1].tools] == []


async def test_approved_file_runs_in_a_process_of_its_own(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-key-0123456789")
    body = "import os; print('noise'); os.write(1, b'more'); return f'{os.getpid()} {os.getcwd()} {sorted(os.environ)}'"
    world.of_project("greet.py", code(body=body))
    model = ScriptedProvider([calls("greet_hello", name="Ada"), calls("greet_hello", name="Bo"), DONE])
    async with world.opened(model, world.source()) as eng:
        session = await world.session(eng)
        (first, second), asked, notices = await run(session)
        pid, cwd, variables = first.split(" ", 2)
        assert notices == []
        assert asked[0] == 'greet: hello {"name": "Ada"}'
        assert second == first
        assert (int(pid) != os.getpid(), cwd) == (True, str(world.project))
        assert "ANTHROPIC_API_KEY" not in variables
        assert lives(int(pid))
    await gone(int(pid))


async def test_own_file_is_isolated_if_the_user_says_so(world: World) -> None:
    world.own("greet.py", code(body="import os; return str(os.getpid())"))
    model = ScriptedProvider([calls("greet_hello", name="Ada"), DONE])
    async with world.opened(model, world.source(PluginOptions(isolated=True)), profile="full") as eng:
        (pid,), _, _ = await run(await world.session(eng))
    assert int(pid) != os.getpid()


async def test_host_that_dies_leaves_the_outcome_unknown(world: World) -> None:
    body = "import os; args.name == 'die' and os._exit(3)"
    world.of_project("greet.py", code(body=body))
    model = ScriptedProvider([calls("greet_hello", name="die"), DONE, calls("greet_hello", name="Ada"), DONE])
    async with world.opened(model, world.source(), profile="full") as eng:
        session = await world.session(eng)
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, CallSettled):
                    assert (event.settlement.status, event.settlement.outcome_unknown) == ("error", True)
        assert (await run(session))[0] == ["Hello, Ada!"]


async def test_change_of_a_file_ends_its_old_process(world: World) -> None:
    path = world.of_project("greet.py", code(body="import os; return str(os.getpid())"))
    model = ScriptedProvider([calls("greet_hello", name="Ada"), DONE] * 2)
    async with world.opened(model, world.source(), profile="full") as eng:
        session = await world.session(eng)
        (first,), _, _ = await run(session)
        world.of_project("greet.py", path.read_text() + "# changed\n")
        (second,), _, _ = await run(session)
        assert first != second
        await gone(int(first))


async def test_cancel_everywhere_in_a_turn_with_a_host(world: World, *, is_full: bool) -> None:
    """Whatever step a cancel comes at, also while the process starts: the next turn can call the tool."""
    world.of_project("greet.py", code(body="import os; return str(os.getpid())"))
    source = world.source()
    model = ScriptedProvider([lambda _: calls("greet_hello", name="Ada")], repeat=True)
    step, pids = 0, set[str]()
    async with world.opened(model, source, profile="full") as eng:
        while True:
            instrument = CancelAt(step)
            session = await world.session(eng)
            trio.lowlevel.add_instrument(instrument)
            with instrument.scope():
                async with session.prompt("go") as turn:
                    async for event in turn:
                        if isinstance(event, CallSettled):
                            break
            trio.lowlevel.remove_instrument(instrument)
            async with session.prompt("again") as turn:
                async for event in turn:
                    if isinstance(event, CallSettled):
                        assert event.settlement.status == "completed", event.settlement.text
                        pids.add(event.settlement.text)
                        break
            await eng.close_session(session.id)
            if not instrument.has_fired:
                break
            step += 1 if is_full else 25
    assert step > 25
    assert len(pids) == 1
    await gone(int(pids.pop()))


async def test_cancel_reaches_the_tool_in_its_process(world: World) -> None:
    log = world.folder / "log"
    body = (
        f"import trio\n    try:\n        open({str(log)!r}, 'a').write('begun ')\n        await trio.sleep_forever()\n"
        f"    finally:\n        open({str(log)!r}, 'a').write('cancelled')"
    )
    world.of_project("greet.py", code(body=body))
    model = ScriptedProvider([calls("greet_hello", name="Ada")])
    async with world.opened(model, world.source(), profile="full") as eng:
        session = await world.session(eng)
        async with session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, CallStarted):
                    while not log.exists():
                        await trio.sleep(0.01)
                    turn.cancel()
        with trio.fail_after(60):
            while log.read_text() != "begun cancelled":
                await trio.sleep(0.01)


def test_host_runs_no_other_content(world: World) -> None:
    path = world.own("greet.py", code())
    command = host_command(read_tool_file(str(path), "project"))
    path.write_text("raise SystemExit(9)")
    done = subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"its content is not what was approved\n"


def test_module_of_the_project_is_not_the_engine(world: World) -> None:
    (world.project / "engine").mkdir()
    (world.project / "engine/__init__.py").write_text("raise SystemExit(9)")
    path = world.own("greet.py", code())
    command = [*host_command(read_tool_file(str(path), "project")), "--describe"]
    done = subprocess.run(command, input=b"", capture_output=True, timeout=60, check=True, cwd=world.project)
    assert [tool["name"] for tool in json.loads(done.stdout)["tools"]] == ["hello"]


PROGRAM = """
import sys, trio, engine
from pathlib import Path
from engine.options import PermissionOptions, Ports
from tests.plugins.tool_file_world import World, calls
from engine.testing.scripted_provider import ScriptedProvider
async def main():
    world = World(Path(sys.argv[1]))
    body = "import os\\n    open(args.name, 'w').write(str(os.getpid()))\\n    while True: pass"
    from tests.plugins.tool_file_world import code
    world.of_project("greet.py", code(body=body))
    model = ScriptedProvider([calls("greet_hello", name=sys.argv[2])])
    async with world.opened(model, world.source(), profile="full") as eng:
        session = await world.session(eng)
        async with session.prompt("go") as turn:
            async for event in turn:
                pass
trio.run(main)
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_no_host_outlives_a_killed_engine(world: World, number: signal.Signals) -> None:
    """Also if its tool lets nothing else run; no engine has to be started for it."""
    noted = world.folder / "pid"
    folder = world.folder / "killed"
    folder.mkdir()
    with python_process("-c", PROGRAM, str(folder), str(noted), cwd=ROOT) as process:
        end = time.monotonic() + 60
        while not (noted.exists() and noted.read_text()):
            assert process.poll() is None, read_line(process)
            assert time.monotonic() < end
            time.sleep(0.01)
        pid = int(noted.read_text())
        assert lives(pid)
        process.send_signal(number)
        process.wait(timeout=60)
        while lives(pid):
            assert time.monotonic() < end
            time.sleep(0.01)


async def test_cancel_while_a_process_starts_leaves_no_other(world: World) -> None:
    world.of_project("greet.py", code())
    source = world.source()
    scope = SourceScope(session_id=SessionId("s"), root_id=SessionId("s"), cwd=str(world.project))
    async with world.opened(ScriptedProvider([]), source):
        for step in (0, 3, 6, 9, 12):
            instrument = CancelAt(step)
            trio.lowlevel.add_instrument(instrument)
            with instrument.scope():
                await source.begin_turn(scope)
            trio.lowlevel.remove_instrument(instrument)
        await source.begin_turn(scope)
        assert [tool.name for tool in source.tools(scope)] == ["greet_hello"]
