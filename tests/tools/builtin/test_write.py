"""`write`: whole files, all at once or not at all."""

# ruff: noqa: ASYNC240 -- the files are small

import json
import os
import stat
import threading
from pathlib import Path

import pytest
import trio

from engine.errors import ToolError
from engine.tools.builtin import files
from engine.tools.builtin.commit import replace_file
from engine.tools.builtin.write import WRITE, Write, write
from engine.tools.context import ToolContext
from engine.tools.spec import Need
from tests.support.needs import need_of


async def test_a_new_file(ctx: ToolContext, tmp_path: Path) -> None:
    output = await write(Write("a.txt", "one\ntwo\n"), ctx)
    assert (tmp_path / "a.txt").read_bytes() == b"one\ntwo\n"
    assert output.text == "Created a.txt (2 lines)."
    assert json.loads(output.metadata) == {"summary": "created, 2 lines", "created": True}


async def test_missing_folders_are_made(ctx: ToolContext, tmp_path: Path) -> None:
    await write(Write("a/b/c.txt", "x"), ctx)
    assert (tmp_path / "a/b/c.txt").read_text() == "x"


@pytest.mark.parametrize(
    ("content", "lines"), [("", "0 lines"), ("a", "1 line"), ("a\n", "1 line"), ("a\nb", "2 lines")]
)
async def test_replacing_counts_the_lines(ctx: ToolContext, tmp_path: Path, content: str, lines: str) -> None:
    (tmp_path / "a.txt").write_text("old")
    assert (await write(Write("a.txt", content), ctx)).text == f"Replaced a.txt ({lines})."
    assert (tmp_path / "a.txt").read_text() == content


async def test_the_mode_is_kept(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "run").touch()
    (tmp_path / "run").chmod(0o751)
    await write(Write("run", "#!/bin/sh\n"), ctx)
    assert stat.S_IMODE((tmp_path / "run").stat().st_mode) == 0o751


async def test_a_new_file_heeds_the_umask(ctx: ToolContext, tmp_path: Path) -> None:
    old = os.umask(0o027)
    try:
        await write(Write("a.txt", ""), ctx)
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640


async def test_a_link_stays_a_link(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "dangling").symlink_to("sub/new")
    await write(Write("link", "new"), ctx)
    await write(Write("dangling", "made"), ctx)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"
    assert (tmp_path / "sub/new").read_text() == "made"


async def test_nothing_else_is_left_in_the_folder(ctx: ToolContext, tmp_path: Path) -> None:
    await write(Write("a.txt", "x"), ctx)
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
async def test_what_can_not_be_written(ctx: ToolContext, tmp_path: Path, path: str, content: str, error: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "file").write_text("kept")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(ToolError) as raised:
        await write(Write(path, content), ctx)
    assert str(raised.value) == error
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "loop", "pipe", "sub"]
    assert (tmp_path / "file").read_text() == "kept"


@pytest.mark.usefixtures("not_root")
async def test_a_read_only_file_and_folder(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch(mode=0o444)
    (tmp_path / "sub").mkdir(mode=0o555)
    with pytest.raises(ToolError, match=r"a\.txt is read-only"):
        await write(Write("a.txt", "x"), ctx)
    with pytest.raises(ToolError, match="permission denied"):
        await write(Write("sub/b.txt", "x"), ctx)


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
        replace_file("a.txt", tmp_path / "a.txt", "no bytes")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


@pytest.mark.os
def test_a_reader_never_sees_half(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    texts = {letter * 200_000 for letter in "ab"}
    path.write_text("a" * 200_000)
    done = threading.Event()

    def write_on() -> None:
        while not done.is_set():
            for text in texts:
                replace_file("a.txt", path, text.encode())

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
        await write(Write("a.txt", "x"), ctx)
    assert not (tmp_path / "a.txt").exists()


async def test_a_cancel_waits_for_a_write_that_has_begun(
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
            output = await write(Write("a.txt", "x"), ctx)
    assert output is not None, "it was done, so it must say so"
    assert (tmp_path / "a.txt").read_text() == "x"


def test_the_right_it_needs() -> None:
    assert need_of(WRITE, Write("a.txt", "x\n")) == Need(
        permission="edit", patterns=("a.txt",), offers=("a.txt",), detail="+++ a.txt, all of it:\n+x\n"
    )
