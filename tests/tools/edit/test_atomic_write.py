"""Files change all at once or not at all."""

import os
import stat
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from engine.core.errors import ToolError
from engine.tools.edit.atomic_write import FileChange, commit


def change(path: Path, before: str | None, after: str | None, like: Path | None = None) -> FileChange:
    return FileChange(
        shown=path.name,
        path=path,
        before=None if before is None else before.encode(),
        after=None if after is None else after.encode(),
        like=like,
    )


def content(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): path.read_text() if path.is_file() else "/" for path in sorted(folder.rglob("*"))
    }


def put(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_several_at_once(tmp_path: Path) -> None:
    put(tmp_path, {"changed": "a", "gone": "b", "moved": "c"})
    (tmp_path / "moved").chmod(0o754)
    commit(
        [
            change(tmp_path / "gone", "b", None),
            change(tmp_path / "moved", "c", None),
            change(tmp_path / "sub/moved", None, "c2", like=tmp_path / "moved"),
            change(tmp_path / "changed", "a", "a2"),
            change(tmp_path / "x/y/new", None, "d"),
        ]
    )
    assert content(tmp_path) == {
        "changed": "a2", "sub": "/", "sub/moved": "c2", "x": "/", "x/y": "/", "x/y/new": "d",
    }  # fmt: skip
    assert stat.S_IMODE((tmp_path / "sub/moved").stat().st_mode) == 0o754


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (
            lambda f: (f / "b").write_text("other"),
            "b was changed by another program in the meantime. Read it again.",
        ),
        (lambda f: (f / "b").unlink(), "b does not exist."),
        (lambda f: (f / "new").write_text("other"), "new was created"),
        (lambda f: (f / "new").symlink_to("b"), "new was created"),
        (lambda f: (f / "sub").write_text("other"), "deep: a part of this path is a file, not a folder."),
        (lambda f: ((f / "c").unlink(), (f / "c").mkdir()), "c is a folder."),
    ],
    ids=["changed", "gone", "appeared", "link", "file-for-folder", "folder-for-file"],
)
def test_unexpected_state_stops_the_commit(tmp_path: Path, spoil: object, error: str) -> None:
    assert callable(spoil)
    put(tmp_path, {"a": "a", "b": "b", "c": "c"})
    changes = [
        change(tmp_path / "a", "a", "a2"),
        change(tmp_path / "b", "b", "b2"),
        change(tmp_path / "new", None, "n"),
        change(tmp_path / "sub/deep", None, "d"),
        change(tmp_path / "c", "c", None),
    ]
    spoil(tmp_path)
    before = content(tmp_path)
    with pytest.raises(ToolError) as raised:
        commit(changes)
    assert str(raised.value).startswith(error)
    assert str(raised.value).endswith(" No file was changed.")
    assert content(tmp_path) == before


def sticky(folder: Path) -> Path:
    """Make a folder in which others may write to a file but not put another one in its place: found by the rename."""
    if os.geteuid() != 0:
        pytest.skip("needs files of two users")
    shared = folder / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    (shared / "theirs").write_text("t")
    (shared / "theirs").chmod(0o666)
    return shared / "theirs"


@pytest.mark.parametrize("links", [True, False])
def test_a_failure_in_the_middle_is_undone(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    theirs = sticky(tmp_path)
    put(tmp_path, {"a": "a", "b": "b"})
    (tmp_path / "a").chmod(0o751)
    for path in tmp_path.iterdir():
        os.chown(path, 0 if path.name == "shared" else 65534, -1)
    if not links:  # a file system without them
        monkeypatch.setattr(os, "link", lambda *_, **__: (_ for _ in ()).throw(PermissionError))
    request.getfixturevalue("not_root")
    before = content(tmp_path)
    with pytest.raises(
        ToolError, match=r"^theirs: (permission denied|Operation not permitted)\. No file was changed\.$"
    ):
        commit(
            [
                change(tmp_path / "a", "a", "a2"),
                change(tmp_path / "new/er", None, "n"),
                change(theirs, "t", "t2"),
                change(tmp_path / "b", "b", None),
            ]
        )
    assert content(tmp_path) == before
    assert stat.S_IMODE((tmp_path / "a").stat().st_mode) == 0o751


def test_a_deletion_in_the_middle_is_undone(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    theirs = sticky(tmp_path)
    put(tmp_path, {"b": "b"})
    os.chown(tmp_path / "b", 65534, -1)
    request.getfixturevalue("not_root")
    before = content(tmp_path)
    with pytest.raises(ToolError):
        commit([change(tmp_path / "b", "b", None), change(theirs, "t", None)])
    assert content(tmp_path) == before


def test_failed_rollback_is_kept_and_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(tmp_path, {"a": "a", "b": "b"})
    replace = os.replace

    def fail_second(old: str, new: str, **folders: int) -> None:
        if new == "b" or (tmp_path / old).read_text() == "a":
            raise OSError(5, "Input/output error")
        replace(old, new, **folders)

    monkeypatch.setattr(os, "replace", fail_second)
    with pytest.raises(
        ToolError, match=r"^b: Input/output error\. Some files could not be put back: a \(its old content is "
    ) as raised:
        commit([change(tmp_path / "a", "a", "a2"), change(tmp_path / "b", "b", "b2")])
    kept = str(raised.value).rpartition("content is ")[2].removesuffix(").")
    assert Path(kept).read_text() == "a"
    assert (tmp_path / "b").read_text() == "b"


def test_the_owner_and_the_attributes_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a")
    if os.geteuid() == 0:
        os.chown(path, 65534, 65534)
    path.chmod(0o4755)
    try:
        os.setxattr(path, "user.note", b"kept")
        has_attributes = True
    except (OSError, AttributeError):  # a file system without them
        has_attributes = False
    before = path.stat()
    commit([change(path, "a", "a2")])
    after = path.stat()
    assert (after.st_uid, after.st_gid, after.st_mode) == (before.st_uid, before.st_gid, before.st_mode)
    if has_attributes:
        assert os.getxattr(path, "user.note") == b"kept"


FULL_DISK = """
import resource, sys
from pathlib import Path
from engine.core.errors import ToolError
from engine.tools.edit.atomic_write import FileChange, commit
import signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
a, b = map(Path, sys.argv[1:])
try:
    commit([FileChange(shown="a", path=a, before=b"a", after=b"a2"),
            FileChange(shown="b", path=b, before=b"b", after=b"b" * 2000)])
except ToolError as error:
    print(error)
"""


def test_full_disk_is_noticed_first(tmp_path: Path) -> None:
    """The limit on a file's size stands for that of the disk."""
    put(tmp_path, {"a": "a", "b": "b"})
    argv: Sequence[str] = [sys.executable, "-c", FULL_DISK, str(tmp_path / "a"), str(tmp_path / "b")]
    said = subprocess.run(argv, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[3]).stdout
    assert said == "b: File too large. No file was changed.\n"
    assert content(tmp_path) == {"a": "a", "b": "b"}


def of_two_users(folder: Path, mode: int) -> Path:
    """Make a file of root's, in a group that nobody is in."""
    if os.geteuid() != 0:
        pytest.skip("needs files of two users")
    path = folder / "f"
    path.write_text("a")
    os.chown(path, 0, 12_345)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    ("groups", "mode", "kept", "note"),
    [
        ([12_345], 0o4670, 0o670, "[f belongs to you now: another owner can't be kept]"),
        ([], 0o2676, 0o666, "[f belongs to you and your group now: another owner can't be kept]"),
    ],
    ids=["group kept", "no group"],
)
def test_lost_owner_grants_no_rights(
    tmp_path: Path, request: pytest.FixtureRequest, groups: list[int], mode: int, kept: int, note: str
) -> None:
    path = of_two_users(tmp_path, mode)
    before = os.getgroups()
    os.setgroups(groups)
    os.setegid(65_534)
    try:
        request.getfixturevalue("not_root")
        assert commit([change(path, "a", "a2")]) == (note,)
    finally:
        os.seteuid(0)
        os.setegid(0)
        os.setgroups(before)
    state = path.stat()
    assert (stat.S_IMODE(state.st_mode), state.st_gid) == (kept, 12_345 if groups else 65_534)


def test_secret_is_unreadable_while_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret"
    path.write_text("a")
    path.chmod(0o600)
    modes: list[int] = []
    chown = os.fchown

    def spy(file: int, user: int, group: int) -> None:
        modes.append(stat.S_IMODE(os.fstat(file).st_mode))
        chown(file, user, group)

    monkeypatch.setattr(os, "fchown", spy)
    commit([change(path, "a", "a2")])
    assert modes == [0o600]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_hard_links_are_reported(tmp_path: Path) -> None:
    put(tmp_path, {"a": "a"})
    (tmp_path / "b").hardlink_to(tmp_path / "a")
    assert commit([change(tmp_path / "a", "a", "a2")]) == (
        "[a had more names (hard links): under those the old text is kept]",
    )
    assert content(tmp_path) == {"a": "a2", "b": "a"}


def test_a_folder_that_may_not_be_written_to(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    (tmp_path / "sub").mkdir()
    put(tmp_path, {"sub/f": "a"})
    (tmp_path / "sub/f").chmod(0o666)
    (tmp_path / "sub").chmod(0o555)
    request.getfixturevalue("not_root")
    with pytest.raises(ToolError, match=r"^f can't be replaced at once, because its folder may not be written to\. "):
        commit([change(tmp_path / "sub/f", "a", "a2")])
    assert content(tmp_path) == {"sub": "/", "sub/f": "a"}


def test_a_file_that_is_a_mount(tmp_path: Path) -> None:
    """As `/etc/hosts` is in a container."""
    put(tmp_path, {"a": "a", "b": "b"})
    mounted = subprocess.run(["mount", "--bind", "a", "b"], cwd=tmp_path, capture_output=True, check=False)
    if mounted.returncode != 0:
        pytest.skip("may not mount")
    try:
        with pytest.raises(ToolError, match=r"^b is mounted as a file of its own, "):
            commit([change(tmp_path / "b", "a", "b2")])
    finally:
        subprocess.run(["umount", str(tmp_path / "b")], check=True)
    assert content(tmp_path) == {"a": "a", "b": "b"}
