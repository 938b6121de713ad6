"""Snapshots by git: what they hold, what they leave out, and what they never touch."""

from __future__ import annotations

import os
import resource
import shutil
import stat
import time
from pathlib import Path

import pytest
import trio
import trio.testing

from engine.core.errors import SnapshotError, UndoConflict, UndoIncomplete
from engine.core.snapshot_types import Put
from engine.snapshots.file_selection import LARGEST_FILE
from engine.snapshots.project_snapshots import ProjectSnapshots
from engine.snapshots.repository import Repository
from engine.snapshots.restore import RestoreJob
from engine.snapshots.retention import clean_up, forget_sessions
from engine.snapshots.snapshot_dir import SnapshotDir
from tests.snapshots.conftest import Project, state_of

needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="there is no git")
needs_user = pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
pytestmark = needs_git


# ---- the user's own repository ---------------------------------------------------------------------------------------


async def test_the_users_repository_is_never_touched(repository: Project, home: Path) -> None:
    repository.write({"b/c.txt": "stashed\n"})
    repository.git("stash", "push", "-q", "--", "b/c.txt")
    repository.write({"a.txt": "staged\n"})
    repository.git("add", "a.txt")
    repository.write({"a.txt": "not staged\n", "new.txt": "new\n"})
    (home / ".gitconfig").write_text("[core]\n\tautocrlf = true\n")
    before = state_of(repository.root / ".git"), state_of(home), (repository.root / ".git/index").stat().st_mtime_ns
    first = await repository.tree()
    repository.write({"a.txt": "another\n", "d/e": "e"})
    second = await repository.tree()
    await repository.go_back(first, second)
    assert (
        state_of(repository.root / ".git"),
        state_of(home),
        (repository.root / ".git/index").stat().st_mtime_ns,
    ) == before
    assert await repository.changes(first, await repository.tree()) == {}
    assert not (repository.root / "d").exists()


async def test_project_settings_run_nothing(
    repository: Project, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = tmp_path / "ran"
    trap = tmp_path / "trap.sh"
    trap.write_text(f'#!/bin/sh\necho "$0 $@" >> {ran}\ncat\n')
    trap.chmod(0o755)
    traps = (
        f'[filter "trap"]\n\tclean = {trap}\n\tsmudge = {trap}\n\tprocess = {trap}\n\trequired = true\n'
        f'[diff "trap"]\n\ttextconv = {trap}\n\tcommand = {trap}\n[diff]\n\texternal = {trap}\n'
        f"[core]\n\tfsmonitor = {trap}\n\thooksPath = {tmp_path / 'hooks'}\n\tpager = {trap}\n"
    )
    (home / ".gitconfig").write_text(traps)
    with (repository.root / ".git/config").open("a") as config:
        config.write(traps)
    for hooks in (tmp_path / "hooks", repository.root / ".git/hooks"):
        hooks.mkdir(exist_ok=True)
        for name in ("post-index-change", "pre-commit", "reference-transaction", "pre-auto-gc"):
            shutil.copy(trap, hooks / name)
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    for name in ("GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_PAGER", "GIT_EDITOR"):
        monkeypatch.setenv(name, str(trap))
    monkeypatch.setenv("GIT_CONFIG_COUNT", "1")
    monkeypatch.setenv("GIT_CONFIG_KEY_0", "filter.trap.clean")
    monkeypatch.setenv("GIT_CONFIG_VALUE_0", str(trap))
    repository.write(
        {".gitattributes": "* filter=trap diff=trap text eol=crlf ident\n*.u working-tree-encoding=UTF-16\n"}
    )
    repository.write({"t.txt": b"one\r\ntwo\n$Id$\n", "x.u": "no utf-16"})
    first = await repository.tree()
    repository.write({"t.txt": b"other\r\n", "x.u": "else", "more.txt": "\r\n"})
    second = await repository.tree()
    await repository.go_back(first, second)
    assert not ran.exists()
    assert not (tmp_path / "elsewhere").exists()
    assert (repository.root / "t.txt").read_bytes() == b"one\r\ntwo\n$Id$\n"
    assert (repository.root / "x.u").read_bytes() == b"no utf-16"


async def test_no_git_that_the_project_brings_is_run(
    repository: Project, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.write({"bin/git": f"#!/bin/sh\ntouch {tmp_path}/ran\n"})
    (repository.root / "bin/git").chmod(0o755)
    monkeypatch.chdir(repository.root)
    monkeypatch.setenv("PATH", f"bin:.:{os.environ['PATH']}")
    await repository.tree()
    assert not (tmp_path / "ran").exists()


async def test_worktree_and_exclude_file_are_respected(repository: Project, tmp_path: Path) -> None:
    repository.git("worktree", "add", "-q", str(tmp_path / "other"))
    (repository.root / ".git/info").mkdir(exist_ok=True)
    (repository.root / ".git/info/exclude").write_text("secret*\n")
    other = Project(tmp_path / "other", repository.snapshots)
    before = state_of(repository.root / ".git")
    first = await other.tree()
    other.write({"secret.txt": "s", "sub/plain.txt": "p", "x.o": "o"})
    assert await other.changes(first, await other.tree()) == {"sub/plain.txt": "+"}
    assert state_of(repository.root / ".git") == before


@pytest.mark.parametrize("layout", ["bare beside its work tree", "separate", "a bare one in a folder"])
async def test_a_repository_under_another_name_is_never_touched(project: Project, layout: str) -> None:
    project.write({"a.txt": "a\n", ".kept-too/HEAD": "no repository\n"})
    who = ("-c", "user.name=u", "-c", "user.email=u@example.org")
    match layout:
        case "bare beside its work tree":
            project.git("init", "-q", "--bare", ".kept")
            project.write({".git": "gitdir: ./.kept\n"})
        case "separate":
            project.git("init", "-q", "--separate-git-dir=.kept")
        case _:
            project.git("init", "-q", "--bare", "below/.kept")
    kept = next(path for path in project.root.rglob(".kept"))
    first = await project.tree()
    blob = project.git(f"--git-dir={kept}", "hash-object", "-w", "a.txt").strip()
    project.git(f"--git-dir={kept}", "update-index", "--add", "--cacheinfo", f"100644,{blob},a.txt")
    tree = project.git(f"--git-dir={kept}", "write-tree").strip()
    commit = project.git(f"--git-dir={kept}", *who, "commit-tree", "-m", "made by the turn", tree).strip()
    project.git(f"--git-dir={kept}", "update-ref", "refs/heads/mine", commit)
    project.write({"a.txt": "b\n", ".kept-too/HEAD": "still none\n"})
    after = state_of(kept)
    second = await project.tree()
    assert await project.changes(first, second) == {"a.txt": "M", ".kept-too/HEAD": "M"}
    await project.go_back(first, second)
    assert state_of(kept) == after
    assert project.git(f"--git-dir={kept}", "log", "--format=%s", "mine") == "made by the turn\n"


async def test_bare_repository_keeps_only_tool_writes(project: Project) -> None:
    project.git("init", "-q", "--bare")
    taken = await project.snapshots.take(str(project.root), owner="ses_1", within=60)
    assert taken.tree is not None
    assert taken.tree.startswith("copies-")
    assert "a repository without files of its own: only what the tools" in taken.remarks[0]


@pytest.mark.parametrize("history", [".hg", ".jj", ".svn"])
async def test_other_version_control_folders_are_excluded(project: Project, history: str) -> None:
    project.write({f"{history}/store": "1", "a.txt": "1"})
    first = await project.tree()
    project.write({f"{history}/store": "2", "a.txt": "2"})
    assert await project.changes(first, await project.tree()) == {"a.txt": "M"}


async def test_snapshots_are_private(repository: Project) -> None:
    await repository.tree()
    kept = repository.snapshots.folder
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in kept.iterdir() if path.is_dir())


# ---- what they hold --------------------------------------------------------------------------------------------------


async def test_ignored_files_are_excluded_only_in_repositories(project: Project) -> None:
    project.write({".gitignore": "*.o\n!keep.o\n", "sub/.gitignore": "deep\n"})
    first = await project.tree()
    project.write({"x.o": "", "keep.o": "", "sub/deep": "", "sub/other": ""})
    assert await project.changes(first, await project.tree()) == {"keep.o": "+", "sub/other": "+"}


async def test_every_kind_of_change_is_restored(project: Project) -> None:
    names = ["grün.txt", "a\nb\t\"'\\ .txt", "-rf", "*.txt", ":(top)x", os.fsdecode(b"\xff\xfe.bin")]
    project.write({name: f"{name!r}\n" for name in names})
    project.write({"run.sh": "#!/bin/sh\n", "file": "f", "folder/one": "1", "folder/deep/two": "2", "same": "same"})
    (project.root / "link").symlink_to("same")
    (project.root / "dangling").symlink_to("nowhere/at/all")
    (project.root / "private").write_text("p")
    (project.root / "private").chmod(0o640)
    before = state_of(project.root)
    first = await project.tree()
    for name in names[:3]:
        (project.root / name).unlink()
    project.write(dict.fromkeys(names[3:], "else"))
    (project.root / "run.sh").chmod(0o755)
    (project.root / "file").unlink()
    project.write({"file/now/a": "folder"})
    shutil.rmtree(project.root / "folder")
    project.write({"folder": "now a file", "private": "other", "added/x/y": "y"})
    (project.root / "link").unlink()
    (project.root / "link").write_text("no link")
    (project.root / "dangling").unlink()
    (project.root / "new link").symlink_to("file")
    after = state_of(project.root)
    second = await project.tree()
    changes = await project.changes(first, second)
    assert changes == {
        **dict.fromkeys(names[:3], "-"),
        **dict.fromkeys(names[3:], "M"),
        "run.sh": "T",
        "file": "-",
        "file/now/a": "+",
        "folder": "+",
        "folder/one": "-",
        "folder/deep/two": "-",
        "private": "M",
        "added/x/y": "+",
        "link": "T",
        "dangling": "-",
        "new link": "+",
    }
    await project.go_back(first, second)
    assert state_of(project.root) == before
    assert await project.tree() == first
    await project.go_back(second, first)
    assert state_of(project.root) == after


async def test_large_special_and_unreadable_files_are_left_out(project: Project) -> None:
    project.write({"small": "s", "grows": "g", "shrinks": bytes(LARGEST_FILE + 1)})
    os.mkfifo(project.root / "pipe")
    first = await project.tree()
    project.write({"grows": bytes(LARGEST_FILE + 1), "shrinks": "s", "big": bytes(LARGEST_FILE + 1), "small": "t"})
    second = await project.tree()
    assert await project.changes(first, second) == {
        "small": "M",
        "grows": "left out",
        "shrinks": "left out",
        "big": "left out",
    }
    (project.root / "big").unlink()
    project.write({"big/now/a": "folder"})
    assert await project.changes(second, await project.tree()) == {"big": "left out", "big/now/a": "+"}


@needs_user
async def test_unreadable_files_are_left_out(project: Project) -> None:
    project.write({"closed": "c", "open": "o"})
    (project.root / "closed").chmod(0)
    first = await project.tree()
    (project.root / "closed").chmod(0o600)
    assert await project.changes(first, await project.tree()) == {"closed": "left out"}


async def test_nested_repositories_are_left_out_and_named(repository: Project, tmp_path: Path) -> None:
    inner = Project(repository.root / "inner", repository.snapshots)
    inner.root.mkdir()
    inner.git("init", "-q")
    inner.write({"file": "f"})
    shutil.copytree(repository.root / ".git", tmp_path / "origin")
    repository.git("submodule", "--quiet", "add", str(tmp_path / "origin"), "module")
    first = await repository.snapshots.take(str(repository.root), owner="ses_1", within=60)
    assert first.tree is not None
    assert first.remarks == ("repositories in the repository can't be put back: inner, module",)
    inner.write({"file": "g", "other": "o"})
    (repository.root / "module/a.txt").write_text("changed")
    second = await repository.snapshots.take(str(repository.root), owner="ses_1", within=60)
    assert (second.tree, second.remarks) == (first.tree, ())


async def test_folder_that_became_link_is_not_followed(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_text("outside\n")
    project.write({"d/x": "inside\n", "d/e/y": "y"})
    before = state_of(project.root)
    first = await project.tree()
    shutil.rmtree(project.root / "d")
    (project.root / "d").symlink_to(outside)
    second = await project.tree()
    assert await project.changes(first, second) == {"d": "+", "d/x": "-", "d/e/y": "-"}
    await project.go_back(first, second)
    assert state_of(project.root) == before
    assert state_of(outside) == {"x": (oct((outside / "x").stat().st_mode), b"outside\n")}
    await project.go_back(second, first)
    assert (project.root / "d").is_symlink()


async def test_snapshots_inside_the_project_are_excluded(project: Project) -> None:
    inside = Project(project.root, ProjectSnapshots(folder=project.root / "[kept] #1"))
    project.write({"a": "a"})
    first = await inside.tree()
    project.write({"a": "b"})
    assert await inside.changes(first, await inside.tree()) == {"a": "M"}


async def test_touched_file_is_unchanged(project: Project) -> None:
    project.write({"a": "a", "b": "b"})
    first = await project.tree()
    os.utime(project.root / "a", (1, 1))
    project.write({"b": "b"})
    assert await project.tree() == first


# ---- putting back ----------------------------------------------------------------------------------------------------


async def test_a_link_in_the_way_leads_nowhere(project: Project, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    project.write({"d/x": "one"})
    first = await project.tree()
    project.write({"d/x": "two"})
    second = await project.tree()
    (project.root / "d").rename(tmp_path / "moved")
    (project.root / "d").symlink_to(outside)
    (outside / "x").write_text("two")
    with pytest.raises(UndoConflict) as caught:
        await project.go_back(first, second)
    assert caught.value.paths == ("d/x",)
    assert (outside / "x").read_text() == "two"


async def test_foreign_change_is_a_conflict(project: Project) -> None:
    project.write({"a": "1", "b": "1", "c": "1"})
    first = await project.tree()
    project.write({"a": "2", "b": "2"})
    second = await project.tree()
    project.write({"b": "3"})
    before = state_of(project.root)
    with pytest.raises(UndoConflict) as caught:
        await project.go_back(first, second)
    assert caught.value.paths == ("b",)
    assert state_of(project.root) == before


@needs_user
async def test_read_only_folder_is_noticed_first(project: Project) -> None:
    project.write({"a/x": "1", "b/x": "1"})
    first = await project.tree()
    project.write({"a/x": "2", "b/x": "2"})
    second = await project.tree()
    (project.root / "b").chmod(0o500)
    try:
        before = state_of(project.root)
        with pytest.raises(SnapshotError, match=r"b/x can't be put back: Permission denied. No file was changed"):
            await project.go_back(first, second)
        assert state_of(project.root) == before
    finally:
        (project.root / "b").chmod(0o700)


async def test_partial_restore_is_reported_and_repeatable(project: Project) -> None:
    project.write({"a": "1", "b": "1", "c": "1"})
    before = state_of(project.root)
    first = await project.tree()
    project.write({"a": "2", "b": "2", "c": "2", "made": "m"})
    second = await project.tree()
    puts = [Put(c.path, c.after, c.before) for c in await project.snapshots.diff(first, second, owner="ses_1")]
    putting = RestoreJob(puts, os.path.basename, (str(project.root),))
    putting.check()
    putting.stage(await project.snapshots.read(first, [put.want for put in puts if put.want]), lambda: None)
    asked: list[int] = []

    def meddle() -> None:
        asked.append(1)
        if len(asked) == 3:
            project.write({"b": "somebody else\n"})

    with pytest.raises(UndoIncomplete, match="2 of 4 files are as they should be") as caught:
        putting.make(meddle)
    putting.clean_up()
    assert (caught.value.done, caught.value.left) == (("made", "a"), ("b", "c"))
    project.write({"b": "2"})
    third = await project.tree()
    assert await project.changes(first, third) == {"b": "M", "c": "M"}
    await project.go_back(first, third)
    assert state_of(project.root) == before


async def test_full_disk_is_noticed_first(project: Project) -> None:
    project.write({"a": "1", "large": bytes(200_000)})
    first = await project.tree()
    project.write({"a": "2", "large": "2"})
    second = await project.tree()
    before = state_of(project.root)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        with pytest.raises(SnapshotError, match=r"large can't be put back: .*No file was changed"):
            await project.go_back(first, second)
        project.write({"noise": os.urandom(99_000), "more": os.urandom(99_000)})
        with pytest.raises(SnapshotError):
            # What git writes is larger than what it reads.
            project.write({f"n{n}": os.urandom(99_999) for n in range(3)})
            resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
            await project.tree()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    for name in ("noise", "more", "n0", "n1", "n2"):
        (project.root / name).unlink()
    assert state_of(project.root) == before
    assert await project.tree() == second


@pytest.mark.parametrize("modes", [(0o644, 0o600), (0o755, 0o700), (0o644, 0o755), (0o600, 0o755)])
async def test_file_mode_keeps_all_but_executable(project: Project, modes: tuple[int, int]) -> None:
    project.write({"x": "1"})
    (project.root / "x").chmod(modes[0])
    first = await project.tree()
    project.write({"x": "2"})
    (project.root / "x").chmod(modes[1])
    await project.go_back(first, await project.tree())
    was, now = modes
    expected = now & ~0o111 if not was & 0o100 else now | (now & 0o444) >> 2
    assert stat.S_IMODE((project.root / "x").stat().st_mode) == expected


# ---- cut off, shared, cleared away -----------------------------------------------------------------------------------


async def test_snapshot_after_any_cancel_is_whole(project: Project) -> None:
    project.write({f"d{n % 7}/f{n}": f"{n}" for n in range(700)})
    whole = await project.tree()
    for n in range(25):
        project.write({f"f{n}": "", "d0/f0": f"{n}"})
        with trio.move_on_after(n * 0.002):
            await project.tree()
    for n in range(25):
        (project.root / f"f{n}").unlink()
    project.write({"d0/f0": "0"})
    assert await project.tree() == whole
    left = [
        path.name
        for path in (project.snapshots.folder / SnapshotDir(project.snapshots.folder, project.real).key / "git").glob(
            "index*"
        )
    ]
    assert left == ["index"]


async def test_leftovers_of_a_killed_engine_are_harmless(project: Project) -> None:
    first = await project.tree()
    git = Repository(SnapshotDir(project.snapshots.folder, project.real), "git").folder
    for name in ("index.lock", "index.dead", "index.dead.lock"):
        (git / name).write_bytes(b"half")
    project.write({"a": "a"})
    assert await project.changes(first, await project.tree()) == {"a": "+"}


async def test_two_engines_may_note_one_project_at_once(project: Project) -> None:
    project.write({f"f{n}": f"{n}" for n in range(300)})
    others = [Project(project.root, ProjectSnapshots(folder=project.snapshots.folder)) for _ in range(4)]
    trees: list[str] = []

    async def note(other: Project) -> None:
        trees.extend([await other.tree() for _ in range(3)])

    async with trio.open_nursery() as nursery:
        for other in others:
            nursery.start_soon(note, other)
    assert set(trees) == {await project.tree()}


async def test_old_snapshots_and_their_session_expire(project: Project) -> None:
    project.write({"a": "1"})
    first = await project.tree()
    project.write({"a": "2"})
    second = await project.tree()
    folder = project.snapshots.folder
    forget_sessions(folder, ["ses_1"])
    third = await project.snapshots.take(str(project.root), owner="ses_2", within=60)
    assert third.tree == second
    own = SnapshotDir(folder, project.real).project_dir
    long_ago = time.time() - 40 * 86_400
    for path in (own / "git").rglob("objects/??/*"):
        os.utime(path, (long_ago, long_ago))
    os.utime(own / "git/refs/snapshots/ses_2" / second.split("-")[2])
    (own / "git/refs/snapshots/ses_2/old").write_text(f"{first.split('-')[2]}\n")
    os.utime(own / "git/refs/snapshots/ses_2/old", (long_ago, long_ago))
    await clean_up(folder, shutil.which("git"))
    assert [*(own / "git/objects/pack").glob("*.pack")]  # git has tidied up; who keeps what is known all the same
    assert await project.snapshots.diff(second, second, owner="ses_2") == ()
    with pytest.raises(SnapshotError, match="the snapshot is gone, or was not taken for this session"):
        await project.snapshots.diff(first, second, owner="ses_2")
    await clean_up(folder, shutil.which("git"))  # once a day
    (folder / ".swept").unlink()
    for path in [own / "root", *(own / "git/refs").rglob("*")]:
        os.utime(path, (long_ago, long_ago))
    await clean_up(folder, shutil.which("git"))
    assert not own.exists()
    with pytest.raises(SnapshotError, match="the snapshot is gone: old ones are removed"):
        await project.snapshots.diff(second, second, owner="ses_2")
    assert await project.tree() == second


async def test_folder_without_project_is_only_copied(project: Project, home: Path) -> None:
    taken = await project.snapshots.take(str(home), owner="ses_1", within=60)
    assert taken.tree is not None
    assert taken.tree.startswith("copies-")
    assert "is no project of its own: only what the tools that edit files change can be put back" in taken.remarks[0]


async def test_names_that_are_no_snapshots_are_refused(project: Project) -> None:
    tree = await project.tree()
    other = Project(project.root.parent / "other", project.snapshots)
    other.root.mkdir()
    for name in ("", "git", "git-x-y", "git-../x-y", "hg-1-2"):
        with pytest.raises(SnapshotError):
            await project.snapshots.diff(name, name, owner="ses_1")
    with pytest.raises(SnapshotError, match="two folders"):
        await project.snapshots.diff(tree, await other.tree(), owner="ses_1")


async def test_slow_project_is_read_concurrently(project: Project) -> None:
    project.write({f"f{n}": f"{n}" for n in range(50)})
    async with trio.open_nursery() as nursery:
        nursery.start_soon(project.snapshots.tend)
        await trio.testing.wait_all_tasks_blocked(0.1)
        taken = await project.snapshots.take(str(project.root), owner="ses_1", within=0.0)
        assert taken.tree is None
        assert "could not be noted within 0 s" in taken.remarks[0]
        with trio.fail_after(30):
            while (await project.snapshots.take(str(project.root), owner="ses_1", within=30)).tree is None:
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
