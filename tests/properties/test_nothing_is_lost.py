"""Whatever an engine overwrites in a folder of two sessions and a user can be brought back.

Each session is in a process of its own. Commands run while others work, turns are cancelled, and processes are killed in
the middle of commands, undos and redos. Whatever content a step, an undo, a redo or a restore has taken from a file must be a
version of that file in one of the sessions. Only what was written while a command ran, and overwritten by that command, no
snapshot can have seen.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, Literal

import attrs
import hypothesis
import pytest
from hypothesis import strategies as st

pytestmark = [
    pytest.mark.slow,
    pytest.mark.os,
    pytest.mark.skipif(shutil.which("git") is None, reason="there is no git"),
]

Who = Literal["A", "B"]
Files = dict[str, str]
NAMES: Final = ("a", "b")
Meanwhile = Literal["nothing", "user", "other", "other undoes", "cancel", "kill"]


@attrs.frozen
class Move:
    """What happens next.

    A turn writes *name*; if it is a command, it then waits while something happens *meanwhile*, and writes *second*. If it
    has two steps, the user writes *second* between them, and the second step does, too. An undo, a redo or a restore may be killed meanwhile, after some milliseconds.
    """

    what: Literal["user", "command", "put", "steps", "undo", "redo", "restore"]
    who: Who = "A"
    name: str = "a"
    second: str = "b"
    meanwhile: Meanwhile = "nothing"
    removes: bool = False
    force: bool = False
    delay_ms: int = 0


MOVES = st.lists(
    st.builds(
        Move,
        what=st.sampled_from(["user", "command", "command", "put", "steps", "undo", "undo", "redo", "restore"]),
        who=st.sampled_from(["A", "A", "B"]),
        name=st.sampled_from(NAMES),
        second=st.sampled_from(NAMES),
        meanwhile=st.sampled_from(["nothing", "user", "other", "other undoes", "cancel", "kill"]),
        removes=st.sampled_from([False, False, True]),
        force=st.booleans(),
        delay_ms=st.integers(0, 150),
    ),
    min_size=4,
    max_size=8,
)


@attrs.define
class Process:
    """The process of a session."""

    command: Sequence[str]
    _child: subprocess.Popen[str] | None = None

    def ask(self, *request: str) -> None:
        if self._child is None:
            self._child = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert self.answer() == "ready"
        assert self._child.stdin is not None
        print(json.dumps(request), file=self._child.stdin, flush=True)

    def answer(self) -> object:
        assert self._child is not None
        assert self._child.stdout is not None
        line = self._child.stdout.readline()
        return json.loads(line) if line else None

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def close(self) -> None:
        """Let it end; it has nothing to do."""
        if self._child is not None:
            self._child.communicate(timeout=60)
            self._child = None


@attrs.define(eq=False)
class World:
    """The folder, and what engines have overwritten in it.

    Attributes:
        lost: the files' names and the contents that engines have taken from them.
        unseen: those that were written while a command ran.
    """

    folder: Path
    processes: dict[Who, Process]
    lost: set[tuple[str, str]] = attrs.field(factory=set[tuple[str, str]])
    unseen: set[tuple[str, str]] = attrs.field(factory=set[tuple[str, str]])
    count: int = 0

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def new(self, who: str) -> str:
        self.count += 1
        return f"{who}{self.count}"

    def files(self) -> Files:
        """Return what there is, but for a file that is removed at this very moment."""
        found: Files = {}
        for name in NAMES:
            with suppress(FileNotFoundError):
                found[name] = (self.root / name).read_text()
        return found

    @contextmanager
    def engine_at_work(self) -> Generator[None]:
        """Note what an engine overwrites meanwhile."""
        before = self.files()
        yield
        after = self.files()
        self.lost |= {(name, content) for name, content in before.items() if after.get(name) != content}

    def user(self, move: Move, *, is_seen: bool) -> None:
        if move.removes and is_seen:
            (self.root / move.name).unlink(missing_ok=True)
        else:
            content = self.new("user")
            (self.root / move.name).write_text(content)
            if not is_seen:
                self.unseen.add((move.name, content))


def play(world: World, move: Move) -> None:
    process = world.processes[move.who]
    match move.what:
        case "user":
            world.user(move, is_seen=True)
        case "command":
            _command(world, process, move)
        case "put":
            with world.engine_at_work():
                process.ask("put", move.name, world.new(move.who))
                assert process.answer() == "completed"
        case "steps":
            first, second, written = world.new(move.who), world.new(move.who), world.new("user")
            with world.engine_at_work():
                process.ask(
                    "steps", f"printf {first} > {move.name}", move.second, written, f"printf {second} > {move.second}"
                )
                assert process.answer() == "completed"
            world.lost.add((move.second, written))
        case "undo" | "redo" | "restore":
            with world.engine_at_work():
                process.ask(move.what, move.name if move.what == "restore" else "force" if move.force else "")
                if move.meanwhile == "kill":
                    time.sleep(move.delay_ms / 1_000)
                    process.kill()
                else:
                    assert process.answer() is not None


def _command(world: World, process: Process, move: Move) -> None:
    """Let a turn run a command, and something else happen in the middle of it."""
    other: Who = "B" if move.who == "A" else "A"
    number = world.new("mark")
    waits, go = world.folder / f"{number}.waits", world.folder / f"{number}.go"
    first, second = world.new(move.who), world.new(move.who)
    last = f"rm -f {move.second}" if move.removes else f"printf {second} > {move.second}"
    with world.engine_at_work():
        process.ask(
            "bash", f"printf {first} > {move.name}; touch {waits}; until [ -e {go} ]; do sleep 0.01; done; {last}"
        )
        _until(waits.exists)
        # No snapshot is taken between the two parts of the command.
        world.unseen.add((move.name, first))
    match move.meanwhile:
        case "user":
            world.user(move, is_seen=False)
        case "other":
            play(world, Move("put", other, move.second))
        case "other undoes":
            play(world, Move("undo", other, force=move.force))
        case "kill":
            process.kill()
            return
        case "cancel":
            process.ask("cancel")
            assert process.answer() == "aborted"
            return
        case "nothing":
            pass
    with world.engine_at_work():
        go.touch()
        assert process.answer() == "completed"


def _until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.005)


def run(moves: Sequence[Move]) -> None:
    folder = Path(tempfile.mkdtemp())
    (folder / "root").mkdir()
    (folder / "root" / "a").write_text("first")
    program = [sys.executable, "-m", "tests.properties.session_process", str(folder / "root")]
    sessions: tuple[Who, ...] = ("A", "B")
    world = World(folder, {who: Process([*program, str(folder / who), str(folder / "kept")]) for who in sessions})
    try:
        for move in moves:
            play(world, move)
        kept = set(world.files().items())
        for process in world.processes.values():
            for name in NAMES:
                process.ask("versions", name)
                contents = process.answer()
                assert isinstance(contents, list), contents
                kept |= {(name, content) for content in contents}
        assert world.lost - world.unseen <= kept, f"{sorted(world.lost - world.unseen - kept)} can't be brought back"
        for process in world.processes.values():
            process.close()
    finally:
        for process in world.processes.values():
            process.kill()
        shutil.rmtree(folder)


EXAMPLES: tuple[list[Move], ...] = (
    [
        Move("command", meanwhile="user", name="a", second="b"),
        Move("steps", second="a"),
        Move("undo", force=True),
        Move("undo", force=True),
        Move("user"),
        Move("restore"),
        Move("undo"),
    ],
    [
        Move("put", "B"),
        Move("command", meanwhile="other", second="b"),
        Move("undo", force=True, meanwhile="kill", delay_ms=60),
        Move("undo", force=True),
        Move("redo", "B", force=True),
        Move("command", "B", meanwhile="cancel"),
        Move("user", removes=True),
        Move("undo", "B", force=True),
    ],
    [Move("command", meanwhile="kill"), Move("user", name="b"), Move("undo", force=True), Move("command", "B", "b")],
)


@pytest.mark.parametrize("moves", EXAMPLES, ids=["user", "killed undo", "killed command"])
def test_what_engines_overwrite_can_be_brought_back(moves: list[Move]) -> None:
    run(moves)


# An example takes seconds, so there is no time to shrink one.
@hypothesis.settings(
    max_examples=3,
    phases=[hypothesis.Phase.reuse, hypothesis.Phase.generate],
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
@hypothesis.given(MOVES)
def test_any_interleaving_loses_nothing(moves: list[Move]) -> None:
    run(moves)
