"""Sessions that undo, redo, compare and restore: real files, real git or copies, a scripted model."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

import engine
from engine.core.errors import ConfigError, NothingToUndo, SessionBusy, SnapshotError, UndoConflict
from engine.core.events import (
    ContextChanged,
    Durable,
    InputAdmitted,
    InputPromoted,
    Notice,
    SessionCreated,
    SharedContext,
    SnapshotTaken,
    TurnEnded,
    TurnRedone,
    TurnResult,
    TurnStarted,
    TurnUndone,
)
from engine.core.ids import InputId, MessageId, PartId, SessionId, TurnId
from engine.core.messages import TextPart, UserMessage
from engine.export.json_document import parse_json_document, render_json_document
from engine.journal.closing_events import CRASHED
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import FileOptions, PermissionOptions
from engine.session.session import Session, live_session
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.store.sqlite.store import open_sqlite_store
from engine.testing.script import Answer, call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.bash import BASH
from engine.tools.builtin.edit import EDIT
from engine.tools.builtin.read import READ
from engine.tools.builtin.write import WRITE
from tests.conftest import REPOSITORY
from tests.snapshots.conftest import Project, state_of

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
DONE: Answer = [*text("Done."), *done()]


def writes(path: str, content: str) -> Answer:
    return [*call("write", {"path": path, "content": content}, id="1"), *done("calls")]


def bash(command: str) -> Answer:
    return [*call("bash", {"command": command}, id="1"), *done("calls")]


@attrs.frozen
class Host:
    """An engine and a session in a project."""

    model: ScriptedProvider
    session: Session
    root: Path

    async def turn(self, *answers: Answer, prompt: str = "go") -> None:
        self.model.script = [*answers, DONE]
        self.model.repeat = False
        self.model.requests.clear()
        result = await self.session.run(prompt)
        assert result.stop_reason == "completed", result

    def events(self, *kinds: type[Durable]) -> list[Durable]:
        return [event for event in self.session.events() if isinstance(event, kinds)]

    def codes(self) -> list[str]:
        return [event.code for event in self.events(Notice) if isinstance(event, Notice)]


@asynccontextmanager
async def hosted(
    project: Project, *, store: Path | None = None, session_id: str | None = None, snapshots: bool = True
) -> AsyncGenerator[Host]:
    model = ScriptedProvider([])
    async with engine.open_engine(
        model=model,
        tools=(WRITE, EDIT, READ, BASH),
        permissions=PermissionOptions(approver=AllowAll()),
        store=store,
        files=FileOptions(snapshots=project.snapshots if snapshots else None),
    ) as eng:
        session = (
            await eng.create_session(cwd=project.root) if session_id is None else await eng.open_session(session_id)
        )
        yield Host(model, session, project.root)


@needs_git
async def test_turns_are_undone_and_redone_with_files(repository: Project) -> None:
    async with hosted(repository) as host:
        await host.turn(writes("new/file.txt", "one\n"), prompt="first")
        one, said_one = state_of(host.root), host.session.state.transcript
        await host.turn(bash("echo two > a.txt; rm -r b; echo o > x.o"), prompt="second")
        two, said_two = state_of(host.root), host.session.state.transcript
        undone = await host.session.files.undo()
        assert (undone.prompt, undone.files, undone.left) == ("second", ("a.txt", "b/c.txt"), ())
        (host.root / "x.o").unlink()  # nobody holds what is ignored
        assert state_of(host.root) == one
        assert tuple(host.session.state.transcript) == tuple(said_one)
        assert (await host.session.files.undo()).prompt == "first"
        assert not (host.root / "new").exists()
        assert len(host.session.state.transcript) == 0
        with pytest.raises(NothingToUndo, match="there is no turn to undo"):
            await host.session.files.undo()
        assert (await host.session.files.redo()).files == ("new/file.txt",)
        assert state_of(host.root) == one
        assert (await host.session.files.redo()).files == ("a.txt", "b/c.txt")
        repository.write({"x.o": "o\n"})
        assert state_of(host.root) == two
        assert tuple(host.session.state.transcript) == tuple(said_two)
        with pytest.raises(NothingToUndo, match="there is no turn to redo"):
            await host.session.files.redo()
        # What was redone can be undone again, although its files have been written anew.
        assert (await host.session.files.undo()).files == ("a.txt", "b/c.txt")


@needs_git
async def test_link_folder_swaps_are_redone(repository: Project) -> None:
    (repository.root / "link").symlink_to(".")
    async with hosted(repository) as host:
        before = state_of(host.root)
        await host.turn(bash("rm link; mkdir link; echo in > link/x; rm -r b; ln -s link b"))
        after = state_of(host.root)
        changed = ("b", "b/c.txt", "link", "link/x")
        assert (await host.session.files.undo()).files == changed
        assert state_of(host.root) == before
        assert (await host.session.files.redo()).files == changed
        assert state_of(host.root) == after
        assert (await host.session.files.undo()).files == changed
        assert state_of(host.root) == before
        await host.session.files.redo()
        assert await host.session.files.restore(["b/c.txt", "b"]) == ("b", "b/c.txt")
        assert (host.root / "b/c.txt").read_text() == "c\n"


@needs_git
async def test_previously_ignored_files_are_not_removed(repository: Project) -> None:
    repository.write({"build/o": "o", "build/p": "p", "x.o": "x", "moved/m.txt": "m\n", "own/f": "f\n"})
    repository.git("init", "-q", "own")
    async with hosted(repository) as host:
        await trio.sleep(0.1)  # the clock of a file system is a little behind
        rules = (host.root / ".gitignore").read_text()
        await host.turn(bash("rm .gitignore; rm -rf own/.git; mv moved here; touch new; echo more >> a.txt"))
        undone = await host.session.files.undo()
        # A folder that was renamed goes back as a whole.
        assert undone.files == (".gitignore", "a.txt", "here/m.txt", "moved/m.txt", "new")
        assert (host.root / ".gitignore").read_text() == rules
        assert [(host.root / name).read_text() for name in ("build/o", "build/p", "x.o", "own/f")] == [
            "o",
            "p",
            "x",
            "f\n",
        ]
        assert undone.remarks[0].endswith("so left as they are: build/o, build/p, own/f, x.o")
        assert (await host.session.files.redo()).files == undone.files
        assert await host.session.files.restore(["."]) == undone.files
        assert (host.root / "x.o").exists()


@needs_git
async def test_the_order_in_the_record(repository: Project) -> None:
    async with hosted(repository) as host:
        await host.turn(writes("new.txt", "n"), bash("cat new.txt"), bash("echo m > new.txt"))
        turn = host.session.events()
        steps = [event.step for event in turn if isinstance(event, SnapshotTaken)]
        # Once before the first change, and after each step that has changed something.
        assert steps == [0, 1, 3]
        await host.session.files.undo()
        await host.session.files.redo()
        after = [type(event) for event in host.session.events()[len(turn) :]]
        assert after == [
            SnapshotTaken,
            ContextChanged,
            TurnUndone,
            SnapshotTaken,
            SnapshotTaken,
            ContextChanged,
            TurnRedone,
        ]


@needs_git
async def test_reading_turn_costs_nothing(repository: Project) -> None:
    async with hosted(repository) as host:
        await host.turn([*call("read", {"path": "a.txt"}, id="1"), *done("calls")])
        assert host.events(SnapshotTaken) == []
        assert not repository.snapshots.folder.exists()
        assert await host.session.files.diff() == ()
        assert (await host.session.files.undo()).files == ()
        assert len(host.session.state.transcript) == 0
        assert (await host.session.files.redo()).files == ()


@needs_git
async def test_undo_restores_tools_knowledge_of_files(repository: Project) -> None:
    edit = [*call("edit", {"path": "a.txt", "old_string": "a", "new_string": "b"}, id="1"), *done("calls")]
    async with hosted(repository) as host:
        await host.turn([*call("read", {"path": "a.txt"}, id="1"), *done("calls")])
        known = host.session.state.context
        await host.session.files.undo()
        assert host.session.state.context != known
        await host.turn(edit)
        assert (host.root / "a.txt").read_text() == "a\n"  # nobody has read it in this conversation
        await host.session.files.undo()
        await host.turn([*call("read", {"path": "a.txt"}, id="1"), *done("calls")], edit)
        assert (host.root / "a.txt").read_text() == "b\n"


@needs_git
async def test_foreign_change_needs_force(repository: Project) -> None:
    async with hosted(repository) as host:
        await host.turn(bash("echo 2 > a.txt; echo 2 > new.txt; echo 2 > b/c.txt"))
        repository.write({"a.txt": "mine\n", "other": "mine\n"})
        before, count = state_of(host.root), len(host.session.events())
        with pytest.raises(
            UndoConflict, match=r"changed by another program, since or while the turn ran, so nothing was done: a\.txt"
        ) as caught:
            await host.session.files.undo()
        assert caught.value.paths == ("a.txt",)
        assert state_of(host.root) == before
        assert len(host.session.events()) == count
        assert (await host.session.files.undo(force=True)).files == ("a.txt", "b/c.txt", "new.txt")
        assert ((host.root / "a.txt").read_text(), (host.root / "other").read_text()) == ("a\n", "mine\n")
        repository.write({"b/c.txt": "mine, too\n"})
        with pytest.raises(UndoConflict, match=r"b/c\.txt"):
            await host.session.files.redo()
        repository.write({"b/c.txt": "c\n"})
        # Redo brings back what the undo has overwritten, not what the turn had written.
        assert (await host.session.files.redo()).files == ("a.txt", "b/c.txt", "new.txt")
        assert (host.root / "a.txt").read_text() == "mine\n"


@needs_git
async def test_a_new_prompt_ends_redo(repository: Project) -> None:
    async with hosted(repository) as host:
        await host.turn(writes("new.txt", "n"))
        await host.session.files.undo()
        await host.turn()
        with pytest.raises(NothingToUndo):
            await host.session.files.redo()
        assert (await host.session.files.undo()).files == ()


@needs_git
async def test_undo_excludes_other_work(repository: Project) -> None:
    async with hosted(repository) as host:
        host.model.script = [bash("echo 1 > a.txt; sleep 30"), DONE]
        async with host.session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, SnapshotTaken):
                    for method in (host.session.files.undo, host.session.files.redo, host.session.files.diff):
                        with pytest.raises(SessionBusy):
                            await method()
                    turn.cancel()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(host.session.files.undo)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(SessionBusy, match="files are being put back"):
                async with host.session.prompt("now"):
                    pass
            queued = host.session.inputs.queue("later")
            assert [item.input_id for item in host.session.state.inbox] == [queued]
            cursor = host.session.subscribe()
        with trio.fail_after(30):
            while not isinstance(seen := await anext(cursor), TurnEnded):
                pass
        assert (seen.result.text, host.session.state.inbox) == ("Done.", ()), "it begins once the files are back"


@needs_git
async def test_cancelled_turn_is_undone_with_unrecorded_changes(repository: Project) -> None:
    async with hosted(repository) as host:
        host.model.script = [bash("echo 1 > a.txt; rm b/c.txt; mkdir n; echo x > n/x; touch started; sleep 30")]
        async with host.session.prompt("go") as turn:
            async for event in turn:
                if isinstance(event, SnapshotTaken):
                    with trio.fail_after(60):
                        while not (host.root / "started").exists():
                            await trio.sleep(0.01)
                    turn.cancel()
        assert "snapshot_missed" in host.codes()
        assert {diff.path for diff in await host.session.files.diff()} == {"a.txt", "b/c.txt", "n/x", "started"}
        await trio.sleep(0.06)  # beyond what the clock of a file system may be behind
        repository.write({"n/y": "mine\n", "started": "mine\n"})
        with pytest.raises(UndoConflict) as caught:
            await host.session.files.undo()
        assert caught.value.paths == ("started",)
        (host.root / "started").write_text("")
        assert (await host.session.files.undo()).files == ("a.txt", "b/c.txt", "n/x", "started")
        assert (host.root / "n/y").exists()
        assert (host.root / "b/c.txt").read_text() == "c\n"
        await host.session.files.redo()
        assert not (host.root / "b/c.txt").exists()
        assert (await host.session.files.undo()).files == ("a.txt", "b/c.txt", "n/x", "started")


async def cut_off(host: Host, command: str) -> None:
    """Cancel a turn while it runs a command that ends by creating `started`."""
    host.model.script = [*host.model.script[: len(host.model.requests)], bash(f"{command}; touch started; sleep 30")]
    async with host.session.prompt("go") as turn:
        async for event in turn:
            if isinstance(event, SnapshotTaken):
                with trio.fail_after(60):
                    while not (host.root / "started").exists():
                        await trio.sleep(0.01)
                turn.cancel()


@needs_git
@pytest.mark.parametrize("reopens", [False, True])
async def test_users_work_after_a_cancel_is_left(repository: Project, tmp_path: Path, reopens: bool) -> None:
    """Also where the times of files don't show it: what is moved, or removed, keeps its time or has none."""
    store = tmp_path / "sessions.db"
    async with hosted(repository, store=store) as host:
        await cut_off(host, "echo 1 > a.txt")
        session_id = host.session.id
        if not reopens:
            await host.session.files.diff()  # the engine has noted the end by then
            _rearrange(repository)
            assert (await host.session.files.undo()).files == ("a.txt", "started")
    if reopens:
        _rearrange(repository)
        async with hosted(repository, store=store, session_id=session_id) as host:
            assert (await host.session.files.undo()).files == ("a.txt", "started")
    assert (repository.root / "a.txt").read_text() == "a\n"
    assert (repository.root / "moved" / "c.txt").read_text() == "c\n"
    assert not (repository.root / "b").exists()


def _rearrange(project: Project) -> None:
    (project.root / "b").rename(project.root / "moved")


@needs_git
async def test_cancelled_turn_is_undone_after_a_later_one(repository: Project) -> None:
    async with hosted(repository) as host:
        await cut_off(host, "echo 1 > n.txt")
        await host.turn(bash("echo 2 > n.txt"))
        assert (await host.session.files.undo()).files == ("n.txt",)
        assert (await host.session.files.undo()).files == ("n.txt", "started")
        assert sorted(path.name for path in host.root.iterdir() if path.is_file()) == [".gitignore", "a.txt"]


@needs_git
async def test_turn_is_diffed_and_files_are_restored(repository: Project) -> None:
    async with hosted(repository) as host:
        await host.turn(bash("echo 2 > a.txt; printf '\\0' > bin; mkdir -p d/e; echo 1 > d/e/f; echo 1 > d/g"))
        first = host.events(TurnEnded)[0].turn_id
        await host.turn(bash("echo 3 > a.txt; rm d/g"))
        assert [(diff.path, diff.text) for diff in await host.session.files.diff()] == [
            ("a.txt", "--- a.txt\n+++ a.txt\n@@ -1,1 +1,1 @@\n-2\n+3\n"),
            ("d/g", "--- d/g\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-1\n"),
        ]
        assert {diff.path: bool(diff.text) for diff in await host.session.files.diff(first)} == {
            "a.txt": True,
            "bin": False,
            "d/e/f": True,
            "d/g": True,
        }
        said = len(host.session.state.transcript)
        assert await host.session.files.restore(["d/g"]) == ("d/g",)
        assert await host.session.files.restore([Path("d"), str(host.root / "a.txt")], turn_id=first) == (
            "a.txt",
            "d/e/f",
            "d/g",
        )
        assert ((host.root / "a.txt").read_text(), (host.root / "d").exists()) == ("a\n", False)
        assert len(host.session.state.transcript) == said
        assert host.codes() == ["files_restored", "files_restored"]
        assert await host.session.files.restore(["a.txt"], turn_id=first) == ()
        repository.write({"a.txt": "mine"})
        with pytest.raises(UndoConflict):
            await host.session.files.restore(["a.txt"])
        assert await host.session.files.restore(["a.txt"], force=True) == ("a.txt",)
        assert (host.root / "a.txt").read_text() == "2\n"
        for nonsense in ([], "a.txt", [3], [""], None):
            with pytest.raises(ConfigError):
                await host.session.files.restore(nonsense)  # type: ignore[arg-type]
        with pytest.raises(NothingToUndo, match="no turn 'turn_x'"):
            await host.session.files.diff("turn_x")
        with pytest.raises(NothingToUndo):
            await host.session.files.restore(["a.txt"], turn_id="turn_x")


@needs_git
async def test_another_engine_undoes_what_one_has_done(repository: Project, tmp_path: Path) -> None:
    store = tmp_path / "sessions.db"
    async with hosted(repository, store=store) as host:
        await host.turn(writes("new.txt", "n"), prompt="first")
        session_id = host.session.id
    before = Project(repository.root, ProjectSnapshots(folder=repository.snapshots.folder))
    async with hosted(before, store=store, session_id=session_id) as host:
        assert (await host.session.files.undo()).prompt == "first"
        assert not (host.root / "new.txt").exists()
    async with hosted(before, store=store, session_id=session_id) as host:
        assert (await host.session.files.redo()).files == ("new.txt",)


@needs_git
async def test_interrupted_undo_continues(repository: Project, tmp_path: Path) -> None:
    """As after a crash: the files are back, some of them, and the turn counts."""
    async with hosted(repository) as host:
        await host.turn(bash("echo 2 > a.txt; echo 2 > b/c.txt; echo 2 > new.txt"))
        after = state_of(host.root)
        # The record of an attempt that has put one file back, and was cut off there.
        taken = await repository.snapshots.take(str(host.root), owner=host.session.id, within=60)
        live_session(host.session).journal.append(SnapshotTaken(step=0, tree=taken.tree or ""))
        repository.write({"a.txt": "a\n"})
        assert (await host.session.files.undo()).files == ("a.txt", "b/c.txt", "new.txt")
        assert (await host.session.files.redo()).files == ("a.txt", "b/c.txt", "new.txt")
        assert state_of(host.root) == after


@pytest.mark.slow
@needs_git
async def test_undo_can_be_cancelled_and_repeated(repository: Project) -> None:
    async with hosted(repository) as host:
        await host.turn(bash("for n in 1 2 3 4 5 6 7 8 9; do echo 2 > n$n; done; echo 2 > a.txt; rm -r b"))
        after = state_of(host.root)
        cancelled, began = 0, trio.current_time()
        await host.session.files.undo()
        takes = trio.current_time() - began
        await host.session.files.redo()
        for n in itertools.count():
            # The first one may have taken longer than the others do: then there are more of them.
            if n >= 25 and cancelled > 5:
                break
            began = trio.current_time()
            with trio.move_on_after(takes * (n % 25) / 20) as scope:
                await host.session.files.undo()
            cancelled += scope.cancelled_caught
            if not scope.cancelled_caught:
                takes = min(takes, trio.current_time() - began)
            undone = host.session.state.undone
            if not undone:
                await host.session.files.undo()
            assert sorted(path.name for path in host.root.iterdir()) == [".git", ".gitignore", "a.txt", "b"]
            assert (host.root / "a.txt").read_text() == "a\n"
            with trio.move_on_after(takes * (n % 25) / 20):
                await host.session.files.redo()
            if host.session.state.undone:
                await host.session.files.redo()
            assert state_of(host.root) == after


@needs_git
async def test_undo_without_snapshots_needs_force(repository: Project, tmp_path: Path) -> None:
    store = tmp_path / "sessions.db"
    async with hosted(repository, store=store) as host:
        await host.turn(writes("new.txt", "n"))
        session_id = host.session.id
    async with hosted(repository, store=store, session_id=session_id, snapshots=False) as host:
        with pytest.raises(SnapshotError, match="opened without snapshots"):
            await host.session.files.undo()
        undone = await host.session.files.undo(force=True)
        assert (undone.files, undone.note) == (
            (),
            "the engine was opened without snapshots, so it can't put files back",
        )
        assert len(host.session.state.transcript) == 0
        assert (host.root / "new.txt").exists()
        assert (await host.session.files.redo()).files == ()
    async with hosted(repository, store=store, session_id=session_id) as host:
        assert (await host.session.files.undo()).files == ("new.txt",)


@needs_git
async def test_too_large_files_are_left_and_named(repository: Project) -> None:
    async with hosted(repository) as host:
        await host.turn(bash("head -c 11000000 /dev/zero > big; echo 2 > a.txt"))
        assert (await host.session.files.undo()).left == ("big",)
        assert (host.root / "big").exists()
        with pytest.raises(NothingToUndo):
            await host.session.files.restore(["big"], turn_id="x")


async def test_without_git_what_tools_wrote_is_put_back(
    project: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    for name in ("bash", "sh", "cat", "rm"):
        found = shutil.which(name)
        assert found is not None
        (empty / name).symlink_to(found)
    monkeypatch.setenv("PATH", str(empty))
    project.write({"a.txt": "a\n", "seen.txt": "s\n"})
    (project.root / "a.txt").chmod(0o640)
    store = tmp_path / "sessions.db"
    async with hosted(project, store=store) as host:
        read = [*call("read", {"path": "a.txt"}, id="1"), *done("calls")]
        edit = [*call("edit", {"path": "a.txt", "old_string": "a", "new_string": "b"}, id="1"), *done("calls")]
        await host.turn(read, edit, writes("new/x", "x\n"), bash("echo by a command > seen.txt"))
        assert host.codes() == ["snapshot_limited"]
        await host.turn(writes("new/y", "y\n"))
        assert host.codes() == ["snapshot_limited"]
        session_id = host.session.id
    again = Project(project.root, ProjectSnapshots(folder=project.snapshots.folder))
    async with hosted(again, store=store, session_id=session_id) as host:
        undone = await host.session.files.undo()
        assert undone.files == ("new/y",)
        assert undone.remarks == (
            "there is no git: only what the tools that edit files change can be put back, not what commands change",
        )
        assert [diff.path for diff in await host.session.files.diff()] == ["a.txt", "new/x"]
        assert (await host.session.files.undo()).files == ("a.txt", "new/x")
        assert sorted(path.name for path in host.root.iterdir()) == ["a.txt", "seen.txt"]
        assert (host.root / "a.txt").read_text() == "a\n"
        assert (host.root / "a.txt").stat().st_mode & 0o777 == 0o640
        assert (host.root / "seen.txt").read_text() == "by a command\n"
        assert (await host.session.files.redo()).files == ("a.txt", "new/x")
        project.write({"a.txt": "mine\n"})
        with pytest.raises(UndoConflict):
            await host.session.files.undo()


@pytest.mark.parametrize("broken", ["a file", "a folder nobody may write to"])
async def test_failing_snapshot_is_reported(repository: Project, tmp_path: Path, broken: str) -> None:
    if broken == "a file":
        (tmp_path / "kept").write_text("")
    elif os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    else:
        (tmp_path / "kept").mkdir(mode=0o500)
    async with hosted(repository) as host:
        await host.turn(writes("new.txt", "n"))
        assert host.codes() == ["snapshot_failed"]
        assert host.events(SnapshotTaken) == []
        assert (host.root / "new.txt").exists()
        # Nobody is told that nothing was changed, or that it was put back.
        with pytest.raises(SnapshotError, match="was not noted, so it can't be compared"):
            await host.session.files.diff()
        undone = await host.session.files.undo()
        assert (undone.files, undone.remarks) == (
            (),
            ("what the turn changed in files was not noted, so files are as it has left them",),
        )


async def test_invalid_snapshots_of_a_host_are_reported() -> None:
    with pytest.raises(ConfigError, match="snapshots must be an object with take, about_to_change, diff, read, put"):
        engine.open_engine(model=ScriptedProvider([]), files=FileOptions(snapshots="yes"))  # type: ignore[arg-type]


@needs_git
async def test_store_inside_the_project_is_excluded(repository: Project) -> None:
    # Another engine, which knows nothing of it, has noted it before.
    repository.write({"kept/sessions.db": "", "kept/sessions.db-wal": ""})
    await repository.tree()
    shutil.rmtree(repository.root / "kept")
    async with hosted(repository, store=repository.root / "kept" / "sessions.db") as host:
        await host.turn(writes("new.txt", "n"))
        await host.turn(writes("more.txt", "n"))
        assert [diff.path for diff in await host.session.files.diff()] == ["more.txt"]
        assert (await host.session.files.undo()).files == ("more.txt",)
        assert (await host.session.files.undo()).files == ("new.txt",)
        assert (host.root / "kept" / "sessions.db").exists()


@needs_git
async def test_ambiguous_changes_after_a_kill_conflict(repository: Project, tmp_path: Path) -> None:
    store, kept = tmp_path / "sessions.db", tmp_path / "kept"
    repository.write({"early": "1\n", "late": "1\n", "mine": "1\n"})
    command = [sys.executable, "-m", "tests.os.crashed_turn", str(repository.root), str(store), str(kept)]
    process = await trio.lowlevel.open_process(command, stdout=subprocess.PIPE, cwd=REPOSITORY)
    try:
        assert process.stdout is not None
        session_id = (await process.stdout.receive_some()).decode().strip()
        with trio.fail_after(30):
            while not (repository.root / "ready").exists():
                await trio.sleep(0.01)
    finally:
        process.kill()
        if process.stdout is not None:
            await process.stdout.aclose()
    await process.wait()
    async with hosted(repository, store=store, session_id=session_id) as host:
        assert {diff.path for diff in await host.session.files.diff()} == {"early", "late", "ready"}
        with pytest.raises(UndoConflict) as caught:
            await host.session.files.undo()
        assert set(caught.value.paths) >= {"late", "ready"}
        assert (await host.session.files.undo(force=True)).files == ("early", "late", "ready")
        assert {name: (host.root / name).read_text() for name in ("early", "late", "mine")} == {
            "early": "1\n",
            "late": "1\n",
            "mine": "1\n",
        }


@pytest.mark.parametrize("has_git", [True, False])
async def test_a_record_from_elsewhere_names_snapshots_in_vain(
    has_git: bool, repository: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody gives away a session that says of your own project that it was empty once, or as another session knew it."""
    if not has_git:
        monkeypatch.setenv("PATH", str(tmp_path))
    elif shutil.which("git") is None:
        pytest.skip("there is no git")
    async with hosted(repository) as host:
        await host.turn(writes("a.txt", "mine\n"))
        known = [event.tree for event in host.events(SnapshotTaken) if isinstance(event, SnapshotTaken)][-1]
    kind, key, _ = known.split("-")
    repository.write({"a.txt": "mine, and newer\n"})
    for number, tree in enumerate((f"{kind}-{key}-4b825dc642cb6eb9a060e54bf8d69288fbee4904", known)):
        forged = _forged(SessionId(f"ses_forged{number}"), repository.real, tree)
        path = tmp_path / f"store{number}"
        async with aclosing(await open_sqlite_store(path)) as store:
            await store.import_sessions(parse_json_document(render_json_document([forged], engine="0", at=0.0)))
        before = state_of(repository.root)
        async with hosted(repository, store=path, session_id=f"ses_forged{number}") as host:
            for act in (
                host.session.files.undo,
                host.session.files.diff,
                lambda: host.session.files.restore(["a.txt"], force=True),
            ):
                with pytest.raises(SnapshotError, match="was not taken for this session"):
                    await act()
            assert (await host.session.files.undo(force=True)).files == ()
        assert state_of(repository.root) == before


def _forged(session_id: SessionId, cwd: str, tree: str) -> list[Durable]:
    """A turn that a crash has cut off long after all that is in the project was written."""
    turn = TurnId("turn_1")
    said = UserMessage(id=MessageId("m"), parts=(TextPart(id=PartId("p"), text="go"),))
    events: list[Durable] = [
        SessionCreated(context=SharedContext(cwd=cwd), model="scripted/model"),
        TurnStarted(turn_id=turn),
        InputAdmitted(turn_id=turn, input_id=InputId("i"), mode="prompt", message=said),
        InputPromoted(turn_id=turn, input_id=InputId("i")),
        SnapshotTaken(turn_id=turn, step=0, tree=tree),
        TurnEnded(turn_id=turn, result=TurnResult(stop_reason="aborted", detail=CRASHED)),
    ]
    return [
        attrs.evolve(event, session_id=session_id, path=(session_id,), time=9e9, seq=seq)
        for seq, event in enumerate(events, 1)
    ]
