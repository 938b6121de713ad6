"""What an engine that was killed has left running is ended by the next one that starts; what a living one runs is not."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from engine.process import procfs as proc_module
from engine.process.crash_cleanup import find_dead_owners, look_once, owned, owner
from engine.process.kill_tree import find_marked, reap
from engine.process.procfs import ENVIRONMENT_MARKER, is_alive
from engine.tools.shell_environment import marker
from tests.os import trees
from tests.os.test_kill_tree import Proc
from tests.support.processes import python_process, read_line

pytestmark = [pytest.mark.os, pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")]

ROOT = Path(__file__).parents[2]
# It looks when it is opened, and leaves as soon as there is nothing more to be done.
START = """
import trio, engine, sys
from engine.testing.scripted_provider import ScriptedProvider
async def main():
    async with engine.open_engine(model=ScriptedProvider([])):
        print("open", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
trio.run(main)
"""

REOPEN = """
import trio, engine, sys
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.shell_environment import marker
from engine.process.kill_tree import find_marked
async def main():
    async with engine.open_engine(model=ScriptedProvider([]), store=sys.argv[1]) as eng:
        session = await eng.open_session(sys.argv[2])
        print(len(find_marked(lambda mark: mark.startswith(marker(session.id)))))
trio.run(main)
"""


@attrs.frozen
class Running:
    """An engine in a process of its own, with a job and a command."""

    process: subprocess.Popen[str]
    session_id: str

    def is_its(self, mark: str) -> bool:
        return mark.startswith(marker(self.session_id))

    def pids(self) -> set[int]:
        return {stray.pid for stray in find_marked(self.is_its)}

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    with trees.nothing_left():
        yield


@contextmanager
def running(cwd: Path, *store: str) -> Generator[Running]:
    job, command = (trees.bash(trees.STUBBORN[kind])[2] for kind in ("setsid, ignores TERM", "daemon"))
    program = ["-m", "tests.os.crashed_session", str(cwd), job, command, *store]
    with python_process(*program) as process:
        it = Running(process, read_line(process))
        try:
            assert [read_line(process), read_line(process)] == ["job", "command"]
            # Both shells run by now; what they start may be a moment behind.
            trio.run(_until_all_started, it)
            yield it
        finally:
            it.kill()
            trio.run(reap, it.is_its)


@contextmanager
def another_engine() -> Generator[None]:
    with python_process("-c", START) as process:
        assert read_line(process) == "open"
        yield
        process.communicate("\n")
        assert process.returncode == 0


async def _until_all_started(it: Running) -> None:
    with trio.fail_after(30):
        while len(it.pids()) < 4:
            await trio.sleep(0.01)


async def _until_gone(it: Running) -> None:
    with trio.fail_after(30):
        while it.pids():
            await trio.sleep(0.01)


def test_next_start_ends_only_dead_engines_processes(tmp_path: Path) -> None:
    with running(tmp_path) as crashed, running(tmp_path) as living:
        theirs = living.pids()
        assert len(crashed.pids()) >= 4
        assert len(theirs) >= 4
        crashed.kill()
        with another_engine():
            trio.run(_until_gone, crashed)
        assert living.pids() == theirs


def test_immediately_closed_engine_still_cleans_up(tmp_path: Path) -> None:
    """They ignore SIGTERM, and nobody waits until they would have had their time."""
    with running(tmp_path) as crashed:
        crashed.kill()
        assert len(crashed.pids()) >= 4
        program = START.replace("        await trio.to_thread.run_sync(sys.stdin.readline)\n", "")
        subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=True, timeout=30)
        trio.run(_until_gone, crashed)


def test_reopened_session_has_no_running_processes(tmp_path: Path) -> None:
    store = tmp_path / "sessions.db"
    with running(tmp_path, str(store)) as crashed:
        crashed.kill()
        program = [sys.executable, "-c", REOPEN, str(store), crashed.session_id]
        opened = subprocess.run(program, cwd=ROOT, check=True, timeout=30, capture_output=True, text=True)
        assert opened.stdout == "0\n"


def test_dead_owners_with_living_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a made-up `/proc`: real ones would be ended by engines that other tests start."""
    home = owner().rsplit(".", 2)[0]
    alive, gone, renumbered = f"{home}.301.500", f"{home}.302.500", f"{home}.303.499"
    proc = Proc(tmp_path)
    monkeypatch.setattr(proc_module, "_PROC", str(tmp_path))
    monkeypatch.setattr(proc_module, "_births", {})
    (tmp_path / "self").mkdir()
    proc.add(301)
    proc.add(303)
    strangers = ["", "elsewhere.302.500", f"{home}.x.500", f"{home}.302", f"{home}.-302.500", f"{home}.302.²"]
    for number, name in enumerate([alive, gone, renumbered, *strangers], 401):
        proc.add(number, environ=f"{ENVIRONMENT_MARKER}=ses_1/c@{name}\0".encode())
    proc.add(420, environ=f"{ENVIRONMENT_MARKER}=ses_1\0".encode())
    assert find_dead_owners() == {gone, renumbered}
    # In a call of an engine that was killed: who runs beside us, in a pipeline perhaps, is left alone.
    monkeypatch.setenv(ENVIRONMENT_MARKER, f"ses_0/c@{gone}:ses_1/c@{alive}")
    assert find_dead_owners() == {renumbered}


def test_an_owner_is_a_process_named_beyond_doubt() -> None:
    home, pid, began = owner().rsplit(".", 2)
    assert home == f"{os.geteuid()}.{Path('/proc/self/ns/pid').stat().st_ino}"
    assert int(pid) == os.getpid()
    assert int(began) > 0
    assert owned("ses_1/c1") == f"ses_1/c1@{owner()}"
    assert marker("ses_1", "a@b:c") == f"ses_1/a@b_c@{owner()}"
    assert owner() not in find_dead_owners()


def test_a_process_looks_once() -> None:
    look_once()
    assert look_once() == frozenset()


@pytest.mark.skipif(os.geteuid() != 0, reason="others don't see what a process has in its environment")
def test_forged_marker_of_another_user_is_ignored() -> None:
    """What root has started as somebody else is in a session of root's, and says of itself what it likes."""
    forged = f"ses_x@forged.{os.getpid()}"
    as_nobody = f"setpriv --reuid 65534 --clear-groups env {ENVIRONMENT_MARKER}={forged} sleep 1001"
    with subprocess.Popen(["setsid", "sh", "-c", f"{as_nobody} & exec sleep 1000"]) as innocent:
        try:
            while not (found := find_marked(lambda mark: mark == forged)):
                assert innocent.poll() is None
                time.sleep(0.01)
            trio.run(partial(reap, lambda mark: mark == forged, grace=0.5))
            assert innocent.poll() is None
            assert not any(map(is_alive, found))
        finally:
            innocent.kill()
            for stray in find_marked(lambda mark: mark == forged):
                os.kill(stray.pid, signal.SIGKILL)


def test_others_in_the_same_session_are_left_alone() -> None:
    """A call has a session of its own. A marked process that was started in another way has the session of its user."""
    mark = f"{trees.MARKERS}shared"
    script = f"{ENVIRONMENT_MARKER}={mark} sleep {trees.token()} & sleep {trees.token()} & echo ready; wait $!"
    with subprocess.Popen(["bash", "-c", script], start_new_session=True, stdout=subprocess.PIPE, text=True) as shell:
        try:
            assert read_line(shell) == "ready"
            while len(find_marked(mark.__eq__)) != 1:  # until its program is loaded
                time.sleep(0.01)
            assert trio.run(reap, mark.__eq__) == ()
            assert find_marked(mark.__eq__) == []
            assert shell.poll() is None
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
