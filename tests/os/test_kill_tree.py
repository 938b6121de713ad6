"""What `/proc` says, and what `TreeKiller` makes of it: a made-up `/proc`, and made-up processes."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio

from engine.process import kill_tree as strays
from engine.process import procfs as proc_module
from engine.process import subreaper
from engine.process.kill_tree import TreeKiller, end_processes, find_marked, reap
from engine.process.process_tree import Descendants
from engine.process.procfs import ProcessId, boot_id, identify, is_alive

pytestmark = pytest.mark.os

LEADER = 100
FAR = 4_000_000  # a pid which no process has


@attrs.define
class Proc:
    """A folder that looks like `/proc`."""

    root: Path

    def add(
        self,
        pid: int,
        *,
        name: str = "sleep",
        state: str = "S",
        parent: int = 1,
        session: int = 1,
        flags: int = 0,
        threads: int = 1,
        start: int = 500,
        environment: tuple[int, int] = (1000, 2000),
        environ: bytes = b"A=1\0B=2\0",
        children: str = "",
    ) -> None:
        fields = [pid, f"({name})", state, parent, session, session, 0, -1, flags, *[0] * 10, threads, 0, start]
        fields += [0] * 25 + [3000, 3001, *environment, 0]
        folder = self.root / str(pid)
        (folder / "task" / str(pid)).mkdir(parents=True, exist_ok=True)
        (folder / "stat").write_text(" ".join(map(str, fields)) + "\n")
        (folder / "environ").write_bytes(environ)
        (folder / "task" / str(pid) / "children").write_text(children)


@pytest.fixture
def proc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Proc:
    monkeypatch.setattr(proc_module, "_PROC", str(tmp_path))
    monkeypatch.setattr(proc_module, "_births", {})
    (tmp_path / "self").mkdir()
    proc = Proc(tmp_path)
    proc.add(1, name="init", parent=0, start=1)
    return proc


def pids(found: Iterator[ProcessId]) -> set[int]:
    return {stray.pid for stray in found}


def test_a_name_may_hold_brackets_and_blanks(proc: Proc) -> None:
    proc.add(FAR, name=") S 1 (evil", session=7)
    assert identify(FAR) == ProcessId(FAR, 500, 7)
    assert identify(FAR).group == 7
    assert is_alive(ProcessId(FAR, 500))
    assert not is_alive(ProcessId(FAR, 501))


def test_dead_processes(proc: Proc) -> None:
    proc.add(FAR, state="Z")
    proc.add(FAR + 1, state="X")
    proc.add(FAR + 2, state="Z", threads=2)
    assert [is_alive(ProcessId(FAR + n, 500)) for n in range(4)] == [False, False, True, False]
    assert identify(FAR + 3) == ProcessId(FAR + 3, 0)


def test_the_descendants_of_a_leader(proc: Proc) -> None:
    proc.add(LEADER, state="Z")
    proc.add(101, session=LEADER)
    proc.add(102, environ=b"A=1\0ENGINE_CALL=outer:mine\0")
    proc.add(103, parent=102, environ=b"", environment=(1000, 1000))
    proc.add(104, parent=103, environ=b"ENGINE_CALL=other\0")
    proc.add(105, environ=b"NOT_ENGINE_CALL=mine\0")
    proc.add(106, environ=b"ENGINE_CALL=mine\0", start=499)
    proc.add(107, environ=b"ENGINE_CALL=mine\0", state="Z")
    proc.add(108, environ=b"ENGINE_CALL=mine\0", flags=0x00200000)
    proc.add(109, environ=b"A=" + b"x" * 200_000 + b"\0ENGINE_CALL=mine\0")
    assert pids(Descendants(LEADER, "mine")()) == {101, 102, 103, 104, 109}


def test_seen_processes_are_remembered(proc: Proc) -> None:
    """Its parent gone, its environment wiped a moment later: no matter."""
    proc.add(LEADER, session=LEADER, children="101")
    proc.add(101, parent=LEADER, children="102")
    proc.add(102, parent=101, environ=b"A=1\0")
    descendants = Descendants(LEADER, "mine")
    descendants.remember()
    proc.add(102, environ=b"A=1\0")
    assert pids(descendants()) == {LEADER, 101, 102}
    proc.add(102, environ=b"A=1\0", start=501)  # another one, by the same number
    assert pids(descendants()) == {LEADER, 101}


def test_process_during_exec_is_not_ruled_out(proc: Proc) -> None:
    """While execve loads a program there is no environment, and its bounds are 0."""
    proc.add(LEADER, state="Z")
    proc.add(101, environ=b"", environment=(0, 0))
    proc.add(102, environ=b"", environment=(1000, 2000))  # it began between the two readings
    proc.add(103, environ=b"", environment=(1000, 1000))  # env -i: nothing to wait for
    killer = TreeKiller(find=Descendants(LEADER, "mine"))
    for _ in range(3):
        killer.scan()
        assert (killer.is_empty, killer.survivors()) == (False, ())
    proc.add(101, environ=b"ENGINE_CALL=mine\0")
    proc.add(102, environ=b"A=1\0")
    killer.scan()
    assert pids(iter(killer.survivors())) == {101}
    proc.add(101, state="Z")
    killer.scan()
    assert not killer.is_empty
    killer.scan()
    assert killer.is_empty


def test_waiting_is_bounded(proc: Proc) -> None:
    proc.add(LEADER, state="Z")
    proc.add(101, environ=b"", environment=(0, 0))
    killer = TreeKiller(find=Descendants(LEADER, "mine"))
    looks = 0
    while not killer.is_empty:
        killer.scan()
        looks += 1
    assert 5 < looks < 20


def test_of_another_users_processes_nothing_is_expected(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    proc.add(LEADER, state="Z")
    proc.add(101, environ=b"", environment=(0, 0))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    killer = TreeKiller(find=Descendants(LEADER, "mine"))
    killer.scan()
    killer.scan()
    assert killer.is_empty


def test_marked(proc: Proc) -> None:
    proc.add(101, environ=b"ENGINE_CALL=crashed-1\0")
    proc.add(102, parent=101, environ=b"")
    proc.add(103, environ=b"ENGINE_CALL=living-1\0")
    proc.add(os.getpid(), parent=104, environ=b"ENGINE_CALL=crashed-1\0")
    proc.add(104, environ=b"ENGINE_CALL=crashed-1\0")
    assert pids(iter(find_marked(lambda mark: mark.startswith("crashed")))) == {101, 102}


def test_older_processes_are_read_once(proc: Proc) -> None:
    proc.add(LEADER, state="Z")
    proc.add(101, start=499)
    assert pids(Descendants(LEADER, "mine")()) == set()
    proc.add(101, environ=b"ENGINE_CALL=mine\0")
    assert pids(Descendants(LEADER, "mine")()) == set()
    # Another process has another folder, and its number says nothing.
    proc.add(102, environ=b"ENGINE_CALL=mine\0")
    shutil.rmtree(proc.root / "101")
    (proc.root / "102").rename(proc.root / "101")
    (proc.root / "101" / "stat").write_text((proc.root / "101" / "stat").read_text().replace("102", "101"))
    assert pids(Descendants(LEADER, "mine")()) == {101}


def test_of_the_dead_nothing_is_kept(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc_module, "_MOST_BIRTHS", 0)
    proc.add(LEADER, state="Z")
    for pid in range(101, 111):
        proc.add(pid, start=499)
    list(Descendants(LEADER, "mine")())
    assert len(proc_module._births) == 12
    for pid in range(101, 109):
        shutil.rmtree(proc.root / str(pid))
    proc.add(111)
    list(Descendants(LEADER, "mine")())
    assert sorted(pid for pid, _ in proc_module._births) == [1, LEADER, 109, 110, 111]


def test_boot_id(proc: Proc) -> None:
    assert boot_id() == ""
    (proc.root / "sys" / "kernel" / "random").mkdir(parents=True)
    (proc.root / "sys" / "kernel" / "random" / "boot_id").write_text("1-2-3\n")
    assert boot_id() == "1-2-3"


async def test_reaper_ends_processes(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose marker matches, who was saved and is still the same, who is in a session of theirs, who came of them."""
    sent: set[int] = set()
    deaf = 103

    def send(stray: ProcessId, number: int) -> bool:
        sent.add(stray.pid)
        if stray.pid != deaf or number == signal.SIGKILL:
            shutil.rmtree(proc.root / str(stray.pid), ignore_errors=True)
        return True

    monkeypatch.setattr(strays, "_send", send)
    proc.add(101, session=101, environ=b"ENGINE_CALL=crashed-1\0")
    proc.add(102, session=101)
    proc.add(103, session=103, parent=102)
    proc.add(104, session=104)
    proc.add(105, session=104)
    proc.add(106, session=106, start=600)
    proc.add(107, session=106, start=600)
    proc.add(108, session=108, environ=b"ENGINE_CALL=living-1\0")
    saved = [ProcessId(104, 500), ProcessId(106, 500), ProcessId(109, 500)]
    assert await reap(lambda mark: mark.startswith("crashed"), saved) == ()
    assert sent == {101, 102, 103, 104, 105}
    # Who was found once stays known, though its parent is gone.
    assert not (proc.root / str(deaf)).exists()


async def test_search_repeats_until_twice_empty() -> None:
    """Somebody may be just in between when one looks; and one who is asked nicely may have gone before."""
    answers = [[], [ProcessId(FAR, 1)], [], [ProcessId(FAR, 1)], [ProcessId(FAR, 1)], [], []]
    left = iter(answers)
    assert await end_processes(lambda: next(left), grace=30) == ()
    assert list(left) == []


def test_one_sigterm_per_process(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[tuple[ProcessId, int]] = []

    def send(stray: ProcessId, number: int) -> bool:
        sent.append((stray, number))
        return True

    monkeypatch.setattr(strays, "_send", send)
    member, stray = ProcessId(FAR, 1, group=7), ProcessId(FAR + 1, 1, group=8)
    killer = TreeKiller(find=lambda: [member, stray], group=7)
    killer.scan(signal.SIGTERM)
    killer.scan(signal.SIGTERM)
    assert sent == [(stray, signal.SIGTERM)]
    killer.scan(signal.SIGKILL)
    killer.scan(signal.SIGKILL)
    assert sent[1:] == [(member, signal.SIGKILL), (stray, signal.SIGKILL)] * 2
    assert killer.signalled == {member, stray}


def test_exiting_process_is_no_orphan(proc: Proc, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program of our own has lost its environment by then, and with it the marker."""
    monkeypatch.setattr(subreaper, "has_children", lambda: True)
    ours = os.getpid()
    proc.add(ours)
    proc.add(FAR, parent=ours, environ=b"")
    proc.add(FAR + 1, parent=ours, environ=b"", flags=0x40000C)
    # Only its first thread exits.
    proc.add(FAR + 2, parent=ours, environ=b"", flags=0x40000C, threads=2)
    assert {found.pid for found in subreaper.find_adopted()} == {FAR, FAR + 2}


async def test_hunt_gives_up_and_names_the_rest(proc: Proc) -> None:
    proc.add(FAR, start=1)
    start = trio.current_time()
    assert await end_processes(lambda: [ProcessId(FAR, 1)], grace=0.05) == (ProcessId(FAR, 1),)
    assert 0.04 < trio.current_time() - start < 30
