"""What changes while a turn runs, but not by its calls, is the work of others: an undo leaves it, and names it."""

from __future__ import annotations

import shutil
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.core.errors import ConfigError, NothingToUndo, UndoConflict
from engine.core.events import CallSettled, PermissionAsked, SnapshotTaken
from engine.core.permission_types import Allowance, Judgement, PermissionQuery
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.session.session import Session, live_session
from engine.snapshots.change_log import ChangeLog, LoggedChange
from engine.snapshots.retention import forget_sessions
from engine.snapshots.snapshot_dir import SnapshotDir
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.bash import BASH
from engine.tools.builtin.write import WRITE
from engine.tools.tool_context import ToolContext
from tests.snapshots.conftest import Project

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
DONE: Answer = [*text("Done."), *done()]
OTHERS: Answer = [*call("others", {}, id="o"), *done("calls")]


def writes(path: str, content: str) -> Answer:
    return [*call("write", {"path": path, "content": content}, id="1"), *done("calls")]


def bash(command: str) -> Answer:
    return [*call("bash", {"command": command}, id="1"), *done("calls")]


@attrs.frozen
class Nothing:
    """Wait while others work."""


@attrs.define
class World:
    """A session in a project, and what happens while its tool `others`, or `slow`, runs."""

    engine: engine.Engine
    model: ScriptedProvider
    session: Session
    root: Path
    meanwhile: Callable[[], Awaitable[None]]

    async def turn(self, *answers: Answer, session: Session | None = None) -> None:
        script, count = [*self.model.script], len(self.model.requests)
        self.model.script = [*script[:count], *answers, DONE, *script[count:]]
        result = await (session or self.session).run("go")
        assert result.stop_reason == "completed", result

    def text(self, name: str) -> str | None:
        path = self.root / name
        return path.read_text() if path.exists() else None


@asynccontextmanager
async def world(project: Project) -> AsyncGenerator[World]:
    async def nothing() -> None:
        await trio.lowlevel.checkpoint()

    async def others(args: Nothing, ctx: ToolContext) -> str:  # a tool has arguments
        await made.meanwhile()
        return "they have worked"

    async def slow(args: Nothing, ctx: ToolContext) -> str:  # a tool has arguments
        await made.meanwhile()
        return "done"

    model = ScriptedProvider([])
    async with engine.open_engine(
        model=model,
        tools=(WRITE, BASH, engine.tool(read_only=True)(others), engine.tool(slow)),
        permissions=PermissionOptions(approver=AllowAll()),
        files=FileOptions(snapshots=project.snapshots),
    ) as eng:
        made = World(eng, model, await eng.create_session(cwd=project.root), project.root, nothing)
        yield made


WRITES_N = writes("n.txt", "n\n")


@pytest.mark.parametrize("last", [WRITES_N, bash("echo n > n.txt")], ids=["write", "bash"])
async def test_users_change_is_left_and_named(repository: Project, last: Answer) -> None:
    async with world(repository) as here:

        async def user() -> None:
            await trio.lowlevel.checkpoint()
            repository.write({"a.txt": "user\n", "b/new.txt": "user\n"})

        here.meanwhile = user
        await here.turn(writes("m.txt", "m\n"), OTHERS, last)
        assert [diff.path for diff in await here.session.files.diff()] == ["m.txt", "n.txt"]
        undone = await here.session.files.undo()
        assert undone.files == ("m.txt", "n.txt")
        assert undone.remarks[0] == (
            "changed while the turn ran, but not by its calls, so left as they are: a.txt, b/new.txt"
        )
        during = (
            ("changed while `echo n > n.txt` ran, perhaps by another program: n.txt",) if last is not WRITES_N else ()
        )
        assert undone.remarks[1:] == during
        assert (here.text("a.txt"), here.text("b/new.txt")) == ("user\n", "user\n")
        assert (await here.session.files.redo()).files == ("m.txt", "n.txt")
        assert here.text("a.txt") == "user\n"


async def test_file_of_both_is_a_conflict(repository: Project) -> None:
    async with world(repository) as here:

        async def user() -> None:
            await trio.lowlevel.checkpoint()
            repository.write({"m.txt": "user\n"})

        here.meanwhile = user
        await here.turn(bash("echo m > m.txt"), OTHERS, bash("echo again >> m.txt; echo n > n.txt"))
        with pytest.raises(UndoConflict) as caught:
            await here.session.files.undo()
        assert caught.value.paths == ("m.txt",)
        assert here.text("m.txt") == "user\nagain\n"
        with pytest.raises(UndoConflict):
            await here.session.files.restore(["m.txt"])
        undone = await here.session.files.undo(force=True)
        assert here.text("m.txt") is None
        assert "redo or restore brings that back: m.txt" in undone.remarks[0]
        # Redo ends with the next prompt. Even then it is not lost.
        await here.turn()
        assert await here.session.files.restore(["m.txt", "n.txt"]) == ("m.txt",)
        assert here.text("m.txt") == "user\nagain\n"
        # By the turn's id, all that the undo has overwritten comes back.
        assert await here.session.files.restore(["."], turn_id=undone.turn_id) == ("n.txt",)


async def test_later_change_is_kept_by_force(repository: Project) -> None:
    async with world(repository) as here:
        await here.turn(writes("m.txt", "m\n"))
        repository.write({"m.txt": "user\n"})
        undone = await here.session.files.undo(force=True)
        assert undone.remarks
        await here.turn(writes("n.txt", "n\n"))
        # The newest turn that changed files came later, so the undone turn has to be named.
        assert await here.session.files.restore(["m.txt"]) == ()
        assert await here.session.files.restore(["m.txt"], turn_id=undone.turn_id) == ("m.txt",)
        assert here.text("m.txt") == "user\n"


async def test_what_a_forced_redo_overwrites_is_kept(repository: Project) -> None:
    async with world(repository) as here:
        await here.turn(writes("m.txt", "m\n"))
        await here.session.files.undo()
        repository.write({"m.txt": "user\n"})
        await here.session.files.redo(force=True)
        assert here.text("m.txt") == "m\n"
        await here.turn()
        assert await here.session.files.restore(["m.txt"]) == ("m.txt",)
        assert here.text("m.txt") == "user\n"


@pytest.mark.parametrize("reports", [True, False])
async def test_other_sessions_work_is_left_and_named(repository: Project, reports: bool) -> None:
    """It was made while a call ran that reports nothing, so only the other session may know whose it is."""
    answer = writes("b/other.txt", "B\n") if reports else bash("echo B > b/other.txt")
    async with world(repository) as here:
        other = await here.engine.create_session(cwd=here.root)

        async def meanwhile() -> None:
            await here.turn(answer, session=other)
            repository.write({"slow.txt": "of the call\n"})

        here.meanwhile = meanwhile
        await here.turn([*call("slow", {}, id="1"), *done("calls")])
        assert here.text("b/other.txt") == "B\n"
        if reports:
            undone = await here.session.files.undo()
            assert undone.files == ("slow.txt",)
            assert undone.remarks == (
                "changed by another session while the turn ran, so left as they are: b/other.txt",
                "changed while `slow` ran, perhaps by another program: slow.txt",
            )
        else:
            with pytest.raises(UndoConflict, match=r"b/other\.txt: by another session"):
                await here.session.files.undo()
        assert here.text("b/other.txt") == "B\n"


async def test_job_in_the_background_belongs_to_its_turn(repository: Project) -> None:
    async with world(repository) as here:

        async def wait() -> None:
            with trio.fail_after(60):
                while here.text("late.txt") != "l\n":
                    await trio.sleep(0.01)

        here.meanwhile = wait
        start = [
            *call("bash", {"command": "sleep 0.3; echo l > late.txt; sleep 60", "background": True}, id="1"),
            *done("calls"),
        ]
        await here.turn(start, OTHERS, writes("m.txt", "m\n"))
        assert (await here.session.files.undo()).files == ("late.txt", "m.txt")


def test_change_log(tmp_path: Path) -> None:
    place = SnapshotDir(tmp_path / "kept", str(tmp_path))
    place.make()
    log = ChangeLog(place)
    assert log.since(0) == []
    changes = [
        LoggedChange("one", 1.0, "", "t1", ()),
        LoggedChange("two", 2.0, "t1", "t2", None),
        LoggedChange("one", 3.0, "t2", "t3", ("/a", "/\udcff")),
    ]
    for change in changes:
        log.append(change)
    with (place.project_dir / "changes").open("ab") as file:
        file.write(b'["one", 4.0, "t3')
    assert log.since(0) == changes
    assert log.since(2) == changes[1:]
    forget_sessions(tmp_path / "kept", ["one"])
    assert log.since(0) == changes[1:2]


def test_long_change_log_keeps_the_newest(tmp_path: Path) -> None:
    place = SnapshotDir(tmp_path / "kept", str(tmp_path))
    place.make()
    for number in range(200):
        ChangeLog(place, most_bytes=2_000).append(LoggedChange("one", time.time(), str(number), str(number + 1), None))
    left = ChangeLog(place).since(0)
    assert 10 < len(left) < 100
    assert left[-1].old == "199"


async def test_the_only_snapshot_holds_versions(repository: Project) -> None:
    """A turn that was cut off, or killed, has but the one from before its first change."""
    async with world(repository) as here:
        kept = repository.snapshots
        taken = await kept.take(str(here.root), owner=here.session.id, within=60)
        live_session(here.session).journal.append(SnapshotTaken(step=0, tree=str(taken.tree)))
        repository.write({"a.txt": "later\n"})
        (version,) = await here.session.files.versions("a.txt")
        assert await here.session.files.restore(["a.txt"], version=version.id) == ("a.txt",)
        assert here.text("a.txt") == "a\n"


async def test_every_content_is_a_version(repository: Project) -> None:
    """Also what a call, a restore and an undo have overwritten, when no redo reaches it any more."""
    async with world(repository) as here:

        async def user() -> None:
            await trio.lowlevel.checkpoint()
            repository.write({"m.txt": "user\n"})

        here.meanwhile = user
        # The user's text is overwritten by the call after it.
        await here.turn(bash("echo one > m.txt"), OTHERS, bash("echo two > m.txt"))
        repository.write({"m.txt": "later\n"})
        await here.session.files.restore(["m.txt"], force=True)
        repository.write({"m.txt": "last\n"})
        await here.session.files.undo(force=True)
        await here.turn()
        versions = await here.session.files.versions("m.txt")
        shown: list[str | None] = []
        for version in versions:
            await here.session.files.restore(["m.txt"], version=version.id)
            shown.append(here.text("m.txt"))
            assert await here.session.files.restore(["m.txt"], version=version.id[:12]) == ()
        assert shown == ["one\n", "user\n", "two\n", "later\n", "last\n"]
        assert [version.is_current for version in await here.session.files.versions("m.txt")] == [False] * 4 + [True]
        with pytest.raises(NothingToUndo, match="no version"):
            await here.session.files.restore(["m.txt"], version="0123")
        with pytest.raises(ConfigError):
            await here.session.files.restore(["m.txt", "n.txt"], version=versions[0].id)
        assert await here.session.files.versions("never.txt") == ()


@attrs.frozen
class Asks:
    """Asks about the tool `later`."""

    def judge(self, query: PermissionQuery) -> Judgement:
        return Judgement(verdict="ask" if query.tool == "later" else "allow", source="the rules of this test")

    def grant(self, query: PermissionQuery, allowance: Allowance) -> None:
        """Nobody says "always" here."""


async def test_users_change_between_two_calls_of_a_step_is_a_conflict(repository: Project) -> None:
    """The second call waits for the user's consent. The first one reports nothing, but it was over by then."""

    async def later(args: Nothing, ctx: ToolContext) -> str:  # a tool has arguments
        return "done"

    calls: Answer = [*call("bash", {"command": "echo m > m.txt"}, id="1"), *call("later", {}, id="2"), *done("calls")]
    async with engine.open_engine(
        model=ScriptedProvider([calls, DONE]),
        tools=(BASH, engine.tool(later)),
        permissions=PermissionOptions(approver=Asks()),
        files=FileOptions(snapshots=repository.snapshots),
    ) as eng:
        session = await eng.create_session(cwd=repository.root)
        request_id, is_over = "", False
        async with session.prompt("go") as turn:
            async for event in turn:
                request_id = event.request_id if isinstance(event, PermissionAsked) else request_id
                if isinstance(event, CallSettled):
                    is_over = True
                if request_id and is_over:
                    # Each time beyond what the clock of a file system may be behind.
                    await trio.sleep(0.2)
                    repository.write({"u.txt": "user\n"})
                    await trio.sleep(0.2)
                    await turn.reply(request_id, engine.Once())
                    request_id = ""
        with pytest.raises(UndoConflict) as caught:
            await session.files.undo()
        assert caught.value.paths == ("u.txt",)
        undone = await session.files.undo(force=True)
        assert undone.files == ("m.txt", "u.txt")
        assert "redo or restore brings that back: u.txt" in undone.remarks[0]
        assert undone.remarks[1] == "changed while `echo m > m.txt` ran, perhaps by another program: m.txt"


@pytest.mark.parametrize("reports", [True, False])
async def test_work_of_a_session_that_goes_on_is_not_touched(repository: Project, reports: bool) -> None:
    """The turn is undone while a call of the other session is still at work: no snapshot has its changes yet."""
    async with world(repository) as here:
        other = await here.engine.create_session(cwd=here.root)
        written = trio.Event()

        async def edits(args: Nothing, ctx: ToolContext) -> str:  # a tool has arguments
            if reports:
                await ctx.about_to_change(str(repository.root / "b/other.txt"))
            repository.write({"b/other.txt": "B\n"})
            written.set()
            await trio.sleep_forever()

        other.use_tools([engine.tool(edits)])
        async with trio.open_nursery() as nursery:

            async def meanwhile() -> None:
                script, count = [*here.model.script], len(here.model.requests)
                answer: Answer = [*call("edits", {}, id="1"), *done("calls")]
                here.model.script = [*script[:count], answer, *script[count:]]
                nursery.start_soon(other.run, "go")
                with trio.fail_after(60):
                    await written.wait()

            here.meanwhile = meanwhile
            await here.turn([*call("slow", {}, id="1"), *done("calls")])
            if reports:
                (remark,) = (await here.session.files.undo()).remarks
                assert remark == "changed by another session while the turn ran, so left as they are: b/other.txt"
            else:
                with pytest.raises(UndoConflict, match=r"b/other\.txt: by another session"):
                    await here.session.files.undo()
            assert here.text("b/other.txt") == "B\n"
            nursery.cancel_scope.cancel(reason="the test is over")


async def test_what_changed_after_the_end_is_not_the_turns(repository: Project) -> None:
    """The snapshot that follows a turn's end comes a little later, so it may show what a user has done since."""
    snapshots, cwd = repository.snapshots, str(repository.root)
    began = time.time()
    first = (await snapshots.take_since(cwd, "", owner="ses", changed=(), within=60)).tree
    repository.write({"turn.txt": "turn\n", "unreported.txt": "turn\n"})
    ended = time.time()
    await trio.sleep(0.2)  # beyond what the clock of a file system may be behind
    repository.write({"user.txt": "user\n"})
    last = (await snapshots.take_since(cwd, str(first), owner="ses", changed=None, within=60, until=ended)).tree
    who = await snapshots.attribution((str(first), str(last)), owner="ses", began=began)
    assert who.calls == ((str(repository.root / "turn.txt"), str(repository.root / "unreported.txt")),)
