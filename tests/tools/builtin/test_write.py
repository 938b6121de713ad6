"""`write`: whole files, all at once or not at all."""

# ruff: noqa: ASYNC240 -- the files are small

import json
import os
import stat
import threading
from pathlib import Path

import attrs
import pytest
import trio

from engine.core.errors import ToolError
from engine.core.permission_types import RequiredRight
from engine.files import text_files as files
from engine.tools.builtin.write import WRITE, Write
from engine.tools.call_values import Need
from engine.tools.edit.atomic_write import FileChange, commit
from engine.tools.tool_context import ToolContext
from tests.support.needs import need_in, output_of
from tests.support.reading import having_read


async def test_a_new_file(ctx: ToolContext, tmp_path: Path) -> None:
    output = await output_of(WRITE, Write("a.txt", "one\ntwo\n"), ctx)
    assert (tmp_path / "a.txt").read_bytes() == b"one\ntwo\n"
    assert output.text == "Created a.txt (2 lines)."
    diff = "--- /dev/null\n+++ a.txt\n@@ -0,0 +1,2 @@\n+one\n+two\n"
    assert json.loads(output.metadata) == {"summary": "created, 2 lines", "created": True, "diff": diff}
    # It is known to the session from then on.
    assert output.modify is not None
    await WRITE.body(Write("a.txt", ""), attrs.evolve(ctx, shared=output.modify(ctx.shared)))
    assert (tmp_path / "a.txt").read_bytes() == b""


async def test_missing_folders_are_made(ctx: ToolContext, tmp_path: Path) -> None:
    await WRITE.body(Write("a/b/c.txt", "x"), ctx)
    assert (tmp_path / "a/b/c.txt").read_text() == "x"


@pytest.mark.parametrize(
    ("content", "lines"), [("", "0 lines"), ("a", "1 line"), ("a\n", "1 line"), ("a\nb", "2 lines")]
)
async def test_replacing_counts_the_lines(ctx: ToolContext, tmp_path: Path, content: str, lines: str) -> None:
    (tmp_path / "a.txt").write_text("old")
    output = await output_of(WRITE, Write("a.txt", content), having_read(ctx, "a.txt"))
    assert output.text == f"Replaced a.txt ({lines})."
    assert (tmp_path / "a.txt").read_text() == content


async def test_the_mode_is_kept(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    (tmp_path / "run").chmod(0o751)
    await WRITE.body(Write("run", "#!/bin/sh\n"), having_read(ctx, "run"))
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o751


async def test_a_new_file_heeds_the_umask(ctx: ToolContext, tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        await WRITE.body(Write("a.txt", ""), ctx)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


async def test_a_link_stays_a_link(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("sub/new")
    await WRITE.body(Write("link", "new"), having_read(ctx, "real"))
    await WRITE.body(Write("dangling", "made"), ctx)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "sub/new").read_text() == "made"


async def test_no_other_file_is_left(ctx: ToolContext, tmp_path: Path) -> None:
    await WRITE.body(Write("a.txt", "x"), ctx)
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.parametrize(
    ("path", "content", "error"),
    [
        ("sub", "x", "sub is a folder. Use the list tool to see what is in it."),
        ("sub/", "x", "sub/ names a folder, not a file."),
        ("file/x", "x", "file/x: a part of this path is a file, not a folder."),
        ("pipe", "x", "pipe is no regular file but a pipe, a socket or a device."),
        ("loop", "x", "loop: Too many levels of symbolic links."),
        ("x" * 256, "x", f"{'x' * 256}: File name too long."),
        ("", "x", "The path is empty."),
        (
            "a.txt",
            "\ud800",
            "The text holds half a character at position 0 (a lone surrogate), which no file can hold.",
        ),
    ],
    ids=["folder", "slash", "through-a-file", "fifo", "loop", "long", "empty", "surrogate"],
)
async def test_unwritable_paths(ctx: ToolContext, tmp_path: Path, path: str, content: str, error: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "file").write_text("kept")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ToolError) as raised:
        await WRITE.body(Write(path, content), ctx)
    assert str(raised.value) == error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "loop", "pipe", "sub"]
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.usefixtures("not_root")
async def test_a_read_only_file_and_folder(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch(mode=0o444)
    (tmp_path / "sub").mkdir(mode=0o555)
    with pytest.raises(ToolError, match=r"a\.txt is read-only"):
        await WRITE.body(Write("a.txt", "x"), having_read(ctx, "a.txt"))
    with pytest.raises(ToolError, match="permission denied"):
        await WRITE.body(Write("sub/b.txt", "x"), ctx)


def test_a_full_disk_leaves_the_old_file() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")

    # What a full disk says to a write; a file system of our own would need root.
    with (
        pytest.raises(ToolError, match=r"a.txt: No space left on device\."),
        files.renamed_errors("a.txt", Path("a.txt")),
    ):
        Path("/dev/full").write_text("x")


def test_a_write_that_fails_leaves_no_temporary_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(TypeError):
        commit([FileChange(shown="a.txt", path=tmp_path / "a.txt", before=b"old", after="no bytes")])  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


@pytest.mark.os
def test_a_reader_never_sees_half(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    texts = {letter * 200_000 for letter in "ab"}

    def change(before: str, after: str) -> FileChange:
        return FileChange(shown="a.txt", path=path, before=before.encode(), after=after.encode())

    path.write_text("a" * 200_000)
    done = threading.Event()

    def write_on() -> None:
        while not done.is_set():
            for before, after in ("ab", "ba"):
                commit([change(before * 200_000, after * 200_000)])

    writer = threading.Thread(target=write_on)
    writer.start()
    try:
        for _ in range(200):
            assert path.read_text() in texts
    finally:
        done.set()
        writer.join()


async def test_cancelled_before_it_began_nothing_is_written(ctx: ToolContext, tmp_path: Path) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await WRITE.body(Write("a.txt", "x"), ctx)
    assert not (tmp_path / "a.txt").exists()


async def test_cancel_waits_for_a_started_write(
    ctx: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record must not say that it was aborted while the file still changes."""
    entered, go_on = threading.Event(), threading.Event()
    fsync = os.fsync

    def slow_fsync(fd: int) -> None:
        entered.set()
        assert go_on.wait(10)
        fsync(fd)

    monkeypatch.setattr(os, "fsync", slow_fsync)
    output = None
    with trio.CancelScope() as scope:
        async with trio.open_nursery() as nursery:

            async def cancel() -> None:
                await trio.to_thread.run_sync(entered.wait)
                scope.cancel()
                go_on.set()

            nursery.start_soon(cancel)
            output = await WRITE.body(Write("a.txt", "x"), ctx)
    assert output is not None, "it was done, so it must say so"
    assert (tmp_path / "a.txt").read_text() == "x"


async def test_unread_or_changed_file(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    with pytest.raises(ToolError, match=r"^a\.txt exists, but has not been read in this session\. Read it first"):
        await WRITE.body(Write("a.txt", "new"), ctx)
    reader = having_read(ctx, "a.txt")
    (tmp_path / "a.txt").write_text("changed")
    with pytest.raises(ToolError, match=r"^a\.txt has changed since it was last read\. Read it again"):
        await WRITE.body(Write("a.txt", "new"), reader)
    assert (tmp_path / "a.txt").read_text() == "changed"
    (tmp_path / "a.txt").unlink()  # what is gone can't be lost
    await WRITE.body(Write("a.txt", "new"), reader)
    assert (tmp_path / "a.txt").read_text() == "new"


@pytest.mark.parametrize(
    ("before", "content", "after"),
    [
        (b"a\r\nb\r\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"a\r\nb\r\n", "c\r\nd\n", b"c\r\nd\n"),  # meant as it is
        (b"a\r\nb\n", "c\nd\n", b"c\nd\n"),
        (b"a\n", "c\r\n", b"c\r\n"),
        (b"\xef\xbb\xbfa\n", "b\n", b"\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbfa\n", "\ufeffb\n", b"\xef\xbb\xbfb\n"),
        (b"a\n", "\ufeffb\n", b"\xef\xbb\xbfb\n"),
        (b"", "b\n", b"b\n"),
    ],
)
async def test_line_ends_and_marks_are_kept(
    ctx: ToolContext, tmp_path: Path, before: bytes, content: str, after: bytes
) -> None:
    (tmp_path / "f").write_bytes(before)
    await WRITE.body(Write("f", content), having_read(ctx, "f"))
    assert (tmp_path / "f").read_bytes() == after


async def test_equal_content_is_not_written(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    before = (tmp_path / "f").stat()
    output = await output_of(WRITE, Write("f", "a\n"), having_read(ctx, "f"))
    assert output.text == "f holds exactly that already (1 line): nothing was written."
    assert (tmp_path / "f").stat().st_ino == before.st_ino


@pytest.mark.parametrize(
    ("data", "error"), [(b"a\0b", "f is a binary file."), (b"\xe9", "f is not UTF-8 (byte 0), so this tool")]
)
async def test_another_encoding_is_not_lost(ctx: ToolContext, tmp_path: Path, data: bytes, error: str) -> None:
    (tmp_path / "f").write_bytes(data)
    with pytest.raises(ToolError) as raised:
        await WRITE.body(Write("f", "new"), having_read(ctx, "f"))
    assert str(raised.value).startswith(error)
    assert (tmp_path / "f").read_bytes() == data


async def test_the_right_it_needs(ctx: ToolContext, tmp_path: Path) -> None:
    """It shows what would change in a file that is there."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("sub")
    diff = "--- /dev/null\n+++ link/a.txt\n@@ -0,0 +1,1 @@\n+x\n"
    assert await need_in(ctx, WRITE, Write("link/a.txt", "x\n")) == Need(
        permission="edit",
        patterns=("sub/a.txt",),
        rights=(RequiredRight(permission="edit", pattern="sub/a.txt", spellings=("link/a.txt",)),),
        detail=diff,
        metadata=json.dumps({"paths": ["sub/a.txt"], "diff": diff}),
        paths=(str(tmp_path / "sub/a.txt"),),
    )
    (tmp_path / "sub/a.txt").write_text("one\ntwo\n")
    need = await need_in(having_read(ctx, tmp_path / "sub/a.txt"), WRITE, Write("sub/a.txt", "one\nTWO\n"))
    assert need.detail == "--- sub/a.txt\n+++ sub/a.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n"
    need = await need_in(ctx, WRITE, Write("sub", "x\n"))
    assert (need.patterns, need.detail) == (("sub",), "+++ sub, all of it:\n+x\n")
