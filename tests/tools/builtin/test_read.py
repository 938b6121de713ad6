"""`read`: windows of text files, and everything that is none."""

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import InvalidArguments, ToolError
from engine.tools.arguments import parse
from engine.tools.builtin.read import MAX_BYTES, MAX_LINE_CHARS, MAX_LINES, Read, read
from engine.tools.context import ToolContext
from engine.tools.spec import ToolOutput


async def run(ctx: ToolContext, path: str, **more: int) -> ToolOutput:
    return await read(Read(path, **more), ctx)


def summary(output: ToolOutput) -> object:
    return json.loads(output.metadata)["summary"]


async def test_lines_are_numbered(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\n  three\n")
    output = await run(ctx, "a.txt")
    assert output.text == "     1\tone\n     2\t\n     3\t  three"
    assert summary(output) == "3 lines"


@pytest.mark.parametrize(
    "content", [b"one\ntwo", b"one\r\ntwo\r\n", b"\xef\xbb\xbfone\ntwo\n"], ids=["no-eol", "crlf", "bom"]
)
async def test_line_ends_and_marks_are_not_shown(ctx: ToolContext, tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    assert (await run(ctx, "a.txt")).text == "     1\tone\n     2\ttwo"


async def test_a_window(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("".join(f"{n}\n" for n in range(1, 11)))
    output = await run(ctx, "a.txt", offset=4, limit=2)
    assert output.text == "     4\t4\n     5\t5\n(lines 4-5; the file goes on: read it with offset=6)"
    assert summary(output) == "lines 4-5"
    assert (await run(ctx, "a.txt", offset=9, limit=2)).text == "     9\t9\n    10\t10"


async def test_paths_from_elsewhere(ctx: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "~odd").write_text("x")
    monkeypatch.setenv("HOME", str(tmp_path))
    for path in (str(tmp_path / "~odd"), "./~odd", "~/~odd", "~odd"):
        assert (await run(ctx, path)).text == "     1\tx"


async def test_an_empty_file_says_so(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    assert (await run(ctx, "a.txt")).text == "(a.txt is empty)"


async def test_bytes_that_are_no_utf8_are_marked(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"th\xe9\n")
    assert (await run(ctx, "a.txt")).text == "     1\tth�"


async def test_one_giant_line_is_cut(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("é" * 200_000 + "\nnext\n")
    text = (await run(ctx, "a.txt")).text
    assert text == f"     1\t{'é' * MAX_LINE_CHARS} [the rest of this line is not shown]\n     2\tnext"


@pytest.mark.parametrize("extra", [0, 1])
async def test_a_line_at_the_limit(ctx: ToolContext, tmp_path: Path, extra: int) -> None:
    (tmp_path / "a.txt").write_text("x" * (MAX_LINE_CHARS + extra))
    assert ("not shown" in (await run(ctx, "a.txt")).text) is bool(extra)


async def test_a_window_is_bounded_in_bytes(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(("x" * 999 + "\n") * 100)
    output = await run(ctx, "a.txt")
    *lines, note = output.text.split("\n")
    assert len("\n".join(lines).encode()) <= MAX_BYTES
    assert note == f"(lines 1-{len(lines)}; the file goes on: read it with offset={len(lines) + 1})"
    assert (await run(ctx, "a.txt", offset=len(lines) + 1)).text.startswith(f"    {len(lines) + 1}\t")


async def test_a_window_is_bounded_in_lines(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n" * (MAX_LINES + 1))
    assert f"(lines 1-{MAX_LINES};" in (await run(ctx, "a.txt")).text


async def test_the_memory_taken_does_not_grow_with_the_file(ctx: ToolContext, tmp_path: Path) -> None:
    with (tmp_path / "huge.txt").open("wb") as file:
        file.write(b"first\n" + b"x" * 9_000)
        file.truncate(1 << 40)  # a terabyte of nothing, none of it on the disk
    assert (await run(ctx, "huge.txt", limit=1)).text.startswith("     1\tfirst\n(lines 1-1;")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda p: None, "x does not exist."),
        (lambda p: p.mkdir(), "x is a folder. Use the list tool to see what is in it."),
        (lambda p: p.write_bytes(b"\x7fELF\0\0"), "x is a binary file of 6 bytes."),
        (lambda p: p.write_text("one\n", encoding="utf-16"), "x is a binary file of 10 bytes."),
        (os.mkfifo, "x is no regular file but a pipe, a socket or a device."),
        (lambda p: p.symlink_to("x"), "x: Too many levels of symbolic links."),
        (lambda p: p.symlink_to("nowhere"), "x does not exist."),
    ],
    ids=["missing", "folder", "binary", "utf-16", "fifo", "loop", "dangling"],
)
async def test_what_is_no_text_file(
    ctx: ToolContext, tmp_path: Path, make: Callable[[Path], object], error: str
) -> None:
    make(tmp_path / "x")
    with pytest.raises(ToolError) as raised:
        await run(ctx, "x")
    assert str(raised.value) == error


async def test_a_socket_is_refused(ctx: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # its path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        with pytest.raises(ToolError, match="no regular file"):
            await run(ctx, "s")


async def test_a_device_is_refused(ctx: ToolContext) -> None:
    with pytest.raises(ToolError, match="no regular file"):
        await run(ctx, "/dev/zero")


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("", "The path is empty."),
        ("  ", "The path is empty."),
        ("a\0b", "is no path"),
        ("\ud800", "is no path"),
        ("x" * 300, "File name too long"),
        ("a.txt/b", "a part of this path is a file"),
        ("deep/er/b", "Not even its folder does: the nearest one is "),
    ],
    ids=["empty", "blank", "zero", "surrogate", "long", "through-a-file", "no-folder"],
)
async def test_what_is_no_path(ctx: ToolContext, tmp_path: Path, path: str, error: str) -> None:
    (tmp_path / "a.txt").touch()
    with pytest.raises(ToolError) as raised:
        await run(ctx, path)
    assert error in str(raised.value)


async def test_a_missing_file_is_answered_with_close_names(ctx: ToolContext, tmp_path: Path) -> None:
    for name in ("README.md", "readme.rst", "main.py"):
        (tmp_path / name).touch()
    with pytest.raises(ToolError) as raised:
        await run(ctx, "readme.md")
    assert str(raised.value) == "readme.md does not exist. Did you mean README.md or readme.rst, in the same folder?"


@pytest.mark.usefixtures("not_root")
async def test_a_file_that_may_not_be_read(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch(mode=0o000)
    with pytest.raises(ToolError, match="permission denied"):
        await run(ctx, "a.txt")


@pytest.mark.parametrize(("content", "lines"), [("", "0 lines"), ("a\n", "1 line"), ("a\nb\n", "2 lines")])
async def test_an_offset_behind_the_end(ctx: ToolContext, tmp_path: Path, content: str, lines: str) -> None:
    (tmp_path / "a.txt").write_text(content)
    for offset in (content.count("\n") + 1, 99):
        if offset == 1:
            continue
        with pytest.raises(ToolError) as raised:
            await run(ctx, "a.txt", offset=offset)
        assert str(raised.value) == f"a.txt has only {lines}; offset={offset} is behind its end."


@pytest.mark.parametrize(
    "arguments", ['{"path": "a", "offset": 0}', '{"path": "a", "limit": 0}', '{"path": "a", "limit": 2001}', "{}"]
)
def test_arguments_that_do_not_fit(arguments: str) -> None:
    with pytest.raises(InvalidArguments):
        parse(Read, arguments)
