"""What a repository makes git run, for commands that only read: somebody else may have made it."""

from pathlib import Path

import pytest

from engine.permission.paths.path_access import analyse_paths
from engine.permission.shell.scan import scan

_PLAIN = '[core]\n\trepositoryformatversion = 0\n\tbare = false\n[remote "origin"]\n\turl = https://x/y\n[branch "main"]\n\tremote = origin\n'
_EVIL = "[core]\n\tfsmonitor = touch done\n"


def repository(folder: Path, settings: str) -> None:
    for name in ("objects", "refs", "hooks"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")
    (folder / "config").write_text(settings)


def doubts(project: Path, command: str) -> tuple[str, ...]:
    where = str(project.resolve())
    return analyse_paths(scan(command, cwd=where, home="/h", is_folder=lambda _: True), cwd=where, project=where).opaque


@pytest.mark.parametrize(
    "settings",
    [
        _EVIL,
        "[core] fsmonitor = touch done\n",
        "[CORE]\nFsMonitor=touch done",
        "[core]\n\tfsmonitor = \\\n touch\n",
        "# a comment \\\n[core]\nfsmonitor=touch",
        '[diff "x"]\n\ttextconv = touch done\n',
        '[filter "x"]\n\tclean = touch done\n',
        '[filter "lfs"]\n\tclean = git-lfs clean; touch done\n',
        "[include]\n\tpath = more\n",
        "[core]\n\tworktree = ../../..\n",
        "what is that",
    ],
)
@pytest.mark.parametrize("command", ["git status", "/usr/bin/git diff", "true && git log -p", "git -C sub status"])
def test_git_settings_that_execute_programs(tmp_path: Path, settings: str, command: str) -> None:
    repository(tmp_path / ".git", settings)
    assert doubts(tmp_path, command) != ()


@pytest.mark.parametrize(
    "more",
    [
        "",
        '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\trequired = true\n',
        "[core]\nfsmonitor\n",
        "[alias]\nst = !x\n",
    ],
)
def test_settings_as_most_have_them(tmp_path: Path, more: str) -> None:
    repository(tmp_path / ".git", _PLAIN + more)
    assert doubts(tmp_path, "git status && git -C sub diff") == ()


@pytest.mark.parametrize(
    "command",
    ["cd sub/deep && git status", "git -C sub/deep log", "git -C sub -C deep diff", "git -C sub/deep/broken log"],
)
def test_a_repository_that_came_with_the_files(tmp_path: Path, command: str) -> None:
    repository(tmp_path / ".git", _PLAIN)
    repository(tmp_path / "sub" / "deep", _EVIL)
    repository(tmp_path / "sub" / "deep" / "broken", _PLAIN)
    (where,) = doubts(tmp_path, command)
    assert where == f"{tmp_path.resolve()}/sub/deep/config sets core.fsmonitor, so git may run another program"
    assert doubts(tmp_path, "git -C sub status") == ()


def test_a_repository_that_is_elsewhere(tmp_path: Path) -> None:
    repository(tmp_path / "real", _EVIL)
    (tmp_path / ".git").write_text("gitdir: real\n")
    assert doubts(tmp_path, "git status") != ()
    (tmp_path / "real" / "config").write_text(_PLAIN)
    assert doubts(tmp_path, "git status") == ()
    (tmp_path / "real" / "commondir").write_text("../common\n")
    repository(tmp_path / "common", _EVIL)
    assert doubts(tmp_path, "git status") != ()


def test_the_hook_that_is_run_by_looking(tmp_path: Path) -> None:
    repository(tmp_path / ".git", _PLAIN)
    (tmp_path / ".git" / "hooks" / "post-index-change").write_text("touch done")
    assert doubts(tmp_path, "git status") == (f"{tmp_path.resolve()}/.git/hooks/post-index-change is run by git",)


def test_links_are_followed_without_a_path_as_well(tmp_path: Path) -> None:
    (tmp_path / "out").symlink_to("/etc")
    assert doubts(tmp_path, "rg -L x")
    assert doubts(tmp_path, "rg x") == ()
