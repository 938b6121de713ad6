"""`read`: windows of text files, and everything that is none."""

import contextlib
import json
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from engine.core.arguments import parse
from engine.core.errors import InvalidArguments, ToolError
from engine.core.permission_types import RequiredRight
from engine.files.read_state import digest, last_read
from engine.tools.builtin.read import READ, Read, read
from engine.tools.call_values import Need, ToolOutput
from engine.tools.read.line_window import MAX_BYTES, MAX_LINE_CHARS, MAX_LINES
from engine.tools.read.opened_file import HASHED_BYTES
from engine.tools.tool_context import ToolContext
from tests.tools.conftest import Listener


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


async def test_empty_file_is_reported(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").touch()
    assert (await run(ctx, "a.txt")).text == "(a.txt is empty)"


NOT_UTF8 = "(what is no UTF-8 text in it is shown as \ufffd)"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (b"th\xe9\n", "     1\tth\ufffd"),
        (b"one\ntw\xc3\n\xb4\n", "     1\tone\n     2\ttw\ufffd\n     3\t\ufffd"),
        (b"\xed\xa0\x80\n", "     1\t\ufffd\ufffd\ufffd"),
        (b"x" * 9_000 + b"\n\0\n", f"     1\t{'x' * 2_000} [this line goes on: offset=1, column=2001]\n     2\t\ufffd"),
    ],
    ids=["latin-1", "halves", "surrogate", "nul"],
)
async def test_invalid_utf8_is_marked_and_reported(
    ctx: ToolContext, tmp_path: Path, content: bytes, shown: str
) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    assert (await run(ctx, "a.txt")).text == f"{shown}\n{NOT_UTF8}"


async def test_replacement_character_in_a_file_is_valid(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\ufffd")
    assert (await run(ctx, "a.txt")).text == "     1\t\ufffd"


async def test_continuation_hint_comes_last(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"\xff\n" * 3)
    text = (await run(ctx, "a.txt", limit=1)).text
    assert text == f"     1\t\ufffd\n{NOT_UTF8}\n(lines 1-1; the file goes on: read it with offset=2)"


# ---- long lines ------------------------------------------------------------------------------------------------------


async def test_giant_line_is_cut(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("é" * 200_000 + "\nnext\n")
    text = (await run(ctx, "a.txt")).text
    assert text == f"     1\t{'é' * MAX_LINE_CHARS} [this line goes on: offset=1, column=2001]\n     2\tnext"


@pytest.mark.parametrize("end", ["", "\n", "\r\n"])
@pytest.mark.parametrize("character", ["x", "é", "𝄞"])
@pytest.mark.parametrize("extra", [0, 1])
async def test_a_line_at_the_limit(ctx: ToolContext, tmp_path: Path, character: str, end: str, extra: int) -> None:
    (tmp_path / "a.txt").write_text(character * (MAX_LINE_CHARS + extra) + end, newline="")
    more = " [this line goes on: offset=1, column=2001]" if extra else ""
    assert (await run(ctx, "a.txt")).text == f"     1\t{character * MAX_LINE_CHARS}{more}"


async def test_character_cut_by_the_limit_is_valid(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x" + "𝄞" * 3_000)
    assert (await run(ctx, "a.txt")).text == f"     1\tx{'𝄞' * 1_999} [this line goes on: offset=1, column=2001]"


async def test_long_line_is_paged_by_columns(ctx: ToolContext, tmp_path: Path) -> None:
    line = "".join(f"<{n:06}é✓>" for n in range(20_000))
    (tmp_path / "a.txt").write_text(f"one\n{line}\nthree\n")
    got, column, windows = "", 1, 0
    while True:
        output = await run(ctx, "a.txt", offset=2, column=column)
        assert len(output.text.encode()) <= MAX_BYTES
        shown, note = output.text.split("\n")[0].removeprefix("     2\t"), output.text.split("\n")[-1]
        if column == 1:
            shown, note = shown.split(" [")
        got += shown
        windows += 1
        if "goes on" not in note:
            break
        column = int(note.rpartition("column=")[2].rstrip(")]"))
    assert note == "(the line ends here; the next one is offset=3)"
    assert got == line
    assert windows < 10


@pytest.mark.parametrize(
    ("content", "more", "text"),
    [
        ("abc\n", {"column": 3}, "     1\tc\n(the file ends)"),
        ("abc\r\nd", {"column": 3}, "     1\tc\n(the line ends here; the next one is offset=2)"),
        ("x\nabc", {"column": 2, "offset": 2, "limit": 1}, "     2\tbc\n(the file ends)"),
        ("x" * 65_535 + "\r\n", {"column": 65_535}, "     1\tx\n(the file ends)"),
    ],
)
async def test_a_column(ctx: ToolContext, tmp_path: Path, content: str, more: dict[str, int], text: str) -> None:
    (tmp_path / "a.txt").write_text(content, newline="")
    assert (await run(ctx, "a.txt", **more)).text == text


@pytest.mark.parametrize(
    ("content", "more", "error"),
    [
        ("abc\n", {"column": 4}, "Line 1 of a.txt has only 3 characters; column=4 is behind its end."),
        ("a\n\n", {"offset": 2, "column": 2}, "Line 2 of a.txt has only 0 characters; column=2 is behind its end."),
        ("abc\n", {"offset": 2, "column": 2}, "a.txt has only 1 line; offset=2 is behind its end."),
        ("", {"column": 2}, "a.txt has only 0 lines; offset=1 is behind its end."),
    ],
)
async def test_a_column_behind_the_end(
    ctx: ToolContext, tmp_path: Path, content: str, more: dict[str, int], error: str
) -> None:
    (tmp_path / "a.txt").write_text(content)
    with pytest.raises(ToolError) as raised:
        await run(ctx, "a.txt", **more)
    assert str(raised.value) == error


# ---- windows ---------------------------------------------------------------------------------------------------------


async def test_a_window_is_bounded_in_bytes(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(("x" * 999 + "\n") * 100)
    output = await run(ctx, "a.txt")
    *lines, note = output.text.split("\n")
    assert len(output.text.encode()) <= MAX_BYTES
    assert output.is_cut
    assert note == f"(lines 1-{len(lines)}; the file goes on: read it with offset={len(lines) + 1})"
    assert (await run(ctx, "a.txt", offset=len(lines) + 1)).text.startswith(f"    {len(lines) + 1}\t")


async def test_a_window_is_bounded_in_lines(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n" * (MAX_LINES + 1))
    assert f"(lines 1-{MAX_LINES};" in (await run(ctx, "a.txt")).text


async def test_memory_is_independent_of_file_size(ctx: ToolContext, tmp_path: Path) -> None:
    with (tmp_path / "huge.txt").open("wb") as file:
        file.write(b"first\n" + b"x" * 9_000)
        file.truncate(1 << 40)  # a terabyte of nothing, none of it on the disk
    assert (await run(ctx, "huge.txt", limit=1)).text.startswith("     1\tfirst\n(lines 1-1;")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda p: None, "x does not exist."),
        (lambda p: p.write_bytes(b"\x7fELF\0\0"), "x is a binary file of 6 bytes."),
        (
            lambda p: p.write_text("one\n", encoding="utf-16"),
            "x is a text in UTF-16, which this tool does not read. Convert it: iconv -t UTF-8.",
        ),
        (os.mkfifo, "x is no regular file but a pipe, a socket or a device."),
        (lambda p: p.symlink_to("x"), "x: Too many levels of symbolic links."),
        (lambda p: p.symlink_to("nowhere"), "x does not exist. It is a link that leads to nowhere, where nothing is."),
        (lambda p: p.symlink_to("/dev/null"), "x is no regular file but a pipe, a socket or a device."),
    ],
    ids=["missing", "binary", "utf-16", "fifo", "loop", "dangling", "device"],
)
async def test_non_text_files(ctx: ToolContext, tmp_path: Path, make: Callable[[Path], object], error: str) -> None:
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
async def test_invalid_paths(ctx: ToolContext, tmp_path: Path, path: str, error: str) -> None:
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
    "arguments",
    [
        "{}",
        '{"path": "a", "offset": 0}',
        '{"path": "a", "limit": 0}',
        '{"path": "a", "limit": 2001}',
        '{"path": "a", "column": 0}',
        '{"path": "a", "pages": 2}',
        '{"path": ["a"], "limit": {}}',
    ],
)
def test_arguments_that_do_not_fit(arguments: str) -> None:
    with pytest.raises(InvalidArguments):
        parse(Read, arguments)


# ---- folders ---------------------------------------------------------------------------------------------------------


async def test_a_folder_is_listed(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    (tmp_path / "src" / "b.py").touch()
    (tmp_path / "src" / ".hidden").touch()
    (tmp_path / "src" / "a\nb").touch()
    (tmp_path / "src" / "link").symlink_to("deep")
    (tmp_path / "src" / "loop").symlink_to("loop")
    output = await run(ctx, "src")
    assert output.text.split("\n") == [
        "(src is a folder)",
        ".hidden",
        "a\\nb",
        "b.py",
        "deep/",
        "link -> deep",
        "loop -> loop",
    ]
    assert output.modify is None
    assert summary(output) == "6 entries"


async def test_empty_folder_is_reported(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "link").symlink_to("src")
    assert (await run(ctx, "src")).text == "(src is an empty folder)"
    assert (await run(ctx, "link")).text == "(link is an empty folder)"


@pytest.mark.parametrize(("count", "length"), [(1_001, 8), (600, 200), (5_000, 3)])
async def test_a_large_folder_is_listed_in_part(ctx: ToolContext, tmp_path: Path, count: int, length: int) -> None:
    (tmp_path / "src").mkdir()
    for n in range(count):
        (tmp_path / "src" / f"{n:04}{'x' * length}").touch()
    output = await run(ctx, "src")
    first, *names, note = output.text.split("\n")
    assert first == "(src is a folder)"
    assert names == [f"{n:04}{'x' * length}" for n in range(len(names))]
    assert note == f"({count - len(names):,} more entries are not shown)"
    assert len(output.text.encode()) <= MAX_BYTES
    assert len(names) == 1_000 or len(output.text.encode()) > MAX_BYTES - 500


@pytest.mark.usefixtures("not_root")
async def test_a_folder_that_may_not_be_read(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "src" / "in").mkdir(parents=True)
    (tmp_path / "src").chmod(0o000)
    for path in ("src", "src/in", "src/in/a.txt"):
        with pytest.raises(ToolError, match=f"^{path}: permission denied"):
            await run(ctx, path)
    (tmp_path / "src").chmod(0o700)


# ---- what was read ---------------------------------------------------------------------------------------------------


async def test_read_file_is_recorded(ctx: ToolContext, tmp_path: Path) -> None:
    content = b"\xef\xbb\xbfone\r\n" + b"x" * 100_000 + b"\nend"
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "link").symlink_to("a.txt")
    for more in ({}, {"limit": 1}, {"column": 2}):
        for path in ("a.txt", "link"):
            output = await run(ctx, path, **more)
            assert output.modify is not None
            assert last_read(output.modify(ctx.shared), tmp_path / "a.txt") == digest(content)


async def test_of_a_very_large_file_nothing_is_noted(ctx: ToolContext, tmp_path: Path) -> None:
    with (tmp_path / "large.txt").open("wb") as file:
        file.write(b"x\n" * 10_000)
        file.truncate(HASHED_BYTES + 1)
    assert (await run(ctx, "large.txt", limit=1)).modify is None


async def test_pipe_in_place_of_a_file(ctx: ToolContext, tmp_path: Path) -> None:
    """(Opening a pipe waits for somebody who writes; this thread must not.)"""
    path = tmp_path / "a.txt"

    def swap() -> None:
        for n in range(2_000):
            (tmp_path / "file").write_text("text")
            os.mkfifo(tmp_path / "fifo")
            (tmp_path / ("fifo" if n % 2 else "file")).replace(path)
            (tmp_path / ("file" if n % 2 else "fifo")).unlink()

    path.write_text("text")
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.to_thread.run_sync, swap)
            await trio.lowlevel.checkpoint()
            while nursery.child_tasks:
                with contextlib.suppress(ToolError):
                    assert (await run(ctx, "a.txt")).text == "     1\ttext"


# ---- rights ----------------------------------------------------------------------------------------------------------


async def need(ctx: ToolContext, path: str) -> Need:
    told = READ.need(Read(path), ctx)
    return await told if isinstance(told, Awaitable) else told


async def test_rules_match_name_and_real_path(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "link").symlink_to("/etc")
    beside = str(tmp_path.parent / "x")
    for path, real, called in (
        ("src/../a.txt", "a.txt", ()),
        (str(tmp_path / "src"), "src", ()),
        ("link/x", "/etc/x", ("link/x",)),
        ("../x", beside, ()),
    ):
        assert await need(ctx, path) == Need(
            permission="read",
            patterns=(real,),
            rights=(RequiredRight(permission="read", pattern=real, spellings=called, reads_only=True),),
            paths=(str(tmp_path / real),),
        )


@pytest.mark.parametrize("path", ["", "a\0b", "\ud800"])
async def test_invalid_path_needs_no_permission(ctx: ToolContext, path: str) -> None:
    assert await need(ctx, path) == Need(permission="read", patterns=(path,))


# ---- outputs that were kept ------------------------------------------------------------------------------------------


async def kept(ctx: ToolContext, data: bytes) -> str:
    assert ctx.spills is not None
    return f"spill:{(await ctx.spills.keep(data)).spill_id}"


async def test_an_output_is_read_like_a_file(ctx: ToolContext) -> None:
    path = await kept(ctx, b"".join(b"line %d\n" % n for n in range(1, 5_001)))
    output = await run(ctx, path, offset=4_999)
    assert output.text == "  4999\tline 4999\n  5000\tline 5000"
    assert output.is_cut
    assert output.modify is None
    with pytest.raises(ToolError, match=f"^{path} has only 5,000 lines"):
        await run(ctx, path, offset=5_001)


async def test_an_output_may_hold_anything(ctx: ToolContext) -> None:
    for data in (b"\0\1\2", b"\x89PNG\r\n\x1a\n\0", b"%PDF-1.7", b"\xff\xfe\0a"):
        assert NOT_UTF8 in (await run(ctx, await kept(ctx, data))).text or data == b"%PDF-1.7"


async def test_a_giant_line_of_an_output(ctx: ToolContext) -> None:
    path = await kept(ctx, b"x" * 200_000)
    assert (await run(ctx, path)).text.endswith(" [this line goes on: offset=1, column=2001]")
    assert len((await run(ctx, path, column=2_001)).text) > 50_000


async def test_kept_output_needs_no_permission(ctx: ToolContext) -> None:
    assert await need(ctx, "spill:0123456789abcdef") == Need(
        permission="read", patterns=("spill:0123456789abcdef",), is_own=True
    )


@pytest.mark.parametrize("path", ["spill:", "spill:../../etc/passwd", "spill:/etc/passwd", "spill:0123456789abcdef"])
async def test_invalid_output_names(ctx: ToolContext, path: str) -> None:
    with pytest.raises(ToolError, match=r"no name of a kept output|kept no such output"):
        await run(ctx, path)


async def test_where_nothing_is_kept(ctx: ToolContext, listener: Listener) -> None:
    listener.spills = None
    with pytest.raises(ToolError, match="This session has kept no outputs"):
        await run(ctx, "spill:0123456789abcdef")


async def test_a_file_may_be_called_like_an_output(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "spill:x").write_text("mine")
    assert (await run(ctx, "./spill:x")).text == "     1\tmine"
