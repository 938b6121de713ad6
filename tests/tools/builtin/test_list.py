"""`list`: a folder as a tree."""

# ruff: noqa: ASYNC240 -- the files are small

import json
import os
import socket
from pathlib import Path

import pytest
import trio

from engine.core.arguments import parse
from engine.core.errors import InvalidArguments, ToolError
from engine.files.cancellable_thread import to_halting_thread
from engine.tools.builtin.list import LIST, list_folder
from engine.tools.call_values import Need
from engine.tools.search.folder_tree import MAX_SEEN_IN_ONE, size
from engine.tools.search.search_arguments import MAX_ENTRIES, List
from engine.tools.tool_context import ToolContext
from tests.support.searched import Link, make


async def run(ctx: ToolContext, path: str = ".", depth: int = 3, *, include_ignored: bool = False) -> str:
    return (await list_folder(List(path=path, depth=depth, include_ignored=include_ignored), ctx)).text


async def test_a_tree_with_sizes(ctx: ToolContext, tmp_path: Path) -> None:
    make(
        tmp_path,
        {
            "b.py": "x" * 2_000,
            ".hidden": "x",
            "sub": {"deep": {"deeper": {"deepest": {"a": "", "b": ""}}}, "a.txt": "", "empty": {}},
            "link": Link("b.py"),
            "up": Link(".."),
            "broken": Link("nowhere"),
            "loop": Link("loop"),
        },
    )
    output = await list_folder(List(), ctx)
    assert output.text == (
        ".hidden  1 B\nb.py  2.0 KiB\nbroken -> nowhere  (leads nowhere)\nlink -> b.py\nloop -> loop  (leads nowhere)\n"
        "sub/\n  a.txt  0 B\n  deep/\n    deeper/  (1 entry)\n  empty/  (empty)\nup -> .."
    )
    assert json.loads(output.metadata) == {"summary": "11 entries", "entries": 11}
    assert (await run(ctx, depth=1)).split("\n")[5] == "sub/  (3 entries)"
    assert "        a  0 B\n        b  0 B\n" in await run(ctx, depth=9)
    assert await run(ctx, "sub", 1) == "a.txt  0 B\ndeep/  (1 entry)\nempty/  (empty)"


async def test_ignored_files_are_counted(ctx: ToolContext, tmp_path: Path) -> None:
    make(
        tmp_path,
        {
            ".gitignore": "*.log\nbuild/\n!sub/keep.log\n",
            ".git": {"config": ""},
            "a.log": "",
            "build": {"x": ""},
            "sub": {"keep.log": "", "b.log": "", ".ignore": "c\n", "c": "", "only": {"d.log": ""}},
        },
    )
    assert await run(ctx) == (
        ".gitignore  27 B\nsub/\n  .ignore  2 B\n  keep.log  0 B\n  only/  (empty)\n(6 ignored entries not shown)"
    )
    assert await run(ctx, "sub/only") == "(sub/only is empty, but for 1 ignored entry)"
    assert await run(ctx, "build") == "x  0 B"
    assert "a.log  0 B\nbuild/\n  x  0 B\nsub/" in await run(ctx, include_ignored=True)
    assert (await run(ctx, include_ignored=True)).endswith("\n(1 ignored entry not shown)")


async def test_empty_folder_is_reported(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert await run(ctx, "sub") == "(sub is empty)"


async def test_names_that_are_no_text(ctx: ToolContext, tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/th\xe9")).touch()
    make(tmp_path, {"two\nlines": ""})
    assert await run(ctx) == "th�  0 B\ntwo\\nlines  0 B"


async def test_neither_file_nor_folder(ctx: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe")
    monkeypatch.chdir(tmp_path)  # its path must be short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s")
        assert await run(ctx) == "pipe  (pipe)\ns  (socket)"
    assert "null  (device)" in await run(ctx, "/dev", 1)


async def test_many_entries_are_counted(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {f"{n:05}": "" for n in range(MAX_ENTRIES + 2)})
    text = await run(ctx)
    assert text.endswith(f"{MAX_ENTRIES - 1:05}  0 B\n(2 more entries of . are not shown)")


async def test_large_folder_hides_no_sibling(ctx: ToolContext, tmp_path: Path) -> None:
    make(
        tmp_path,
        {
            "a": {f"{n:05}": "" for n in range(MAX_ENTRIES)},
            "b": {"x": {"y": {"z": ""}}},
            "c": {"d": {f"{n:05}": "" for n in range(MAX_ENTRIES)}},
        },
    )
    assert await run(ctx, depth=9) == (
        f"a/  ({MAX_ENTRIES} entries)\nb/\n  x/\n    y/\n      z  0 B\nc/\n  d/  ({MAX_ENTRIES} entries)"
    )


async def test_a_giant_folder_is_not_gone_through(ctx: ToolContext, tmp_path: Path) -> None:
    folder = tmp_path / "giant"
    folder.mkdir()
    (folder / "0").touch()
    for n in range(1, MAX_SEEN_IN_ONE + 1):
        (folder / str(n)).hardlink_to(folder / str(n - n % 10_000 if n % 10_000 else n - 10_000))
    assert await run(ctx) == f"giant/  (more than {MAX_SEEN_IN_ONE:,} entries)"


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("a.txt", "a.txt is no folder. If it is a text file, use the read tool to see what is in it."),
        ("a.tx", "a.tx does not exist. Did you mean a.txt, in the same folder?"),
        ("a.txt/b", "a.txt/b: a part of this path is a file, not a folder."),
        ("pipe", "pipe is no folder. If it is a text file, use the read tool to see what is in it."),
        ("self", "self: Too many levels of symbolic links."),
        ("a\0b", "'a\\x00b' is no path: no file can have that name."),
        ("\ud800", "'\\ud800' is no path: no file can have that name."),
        ("x" * 300, f"{'x' * 300}: File name too long."),
        ("", "The path is empty."),
    ],
)
async def test_non_folders(ctx: ToolContext, tmp_path: Path, path: str, error: str) -> None:
    make(tmp_path, {"a.txt": "", "self": Link("self")})
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ToolError) as raised:
        await run(ctx, path)
    assert str(raised.value) == error


@pytest.mark.parametrize("arguments", ['{"depth": 0}', '{"depth": 21}', '{"path": 1}', '{"folder": "."}'])
def test_arguments_that_do_not_fit(arguments: str) -> None:
    with pytest.raises(InvalidArguments):
        parse(List, arguments)


@pytest.mark.usefixtures("not_root")
async def test_a_folder_that_may_not_be_read(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {"sub": {"a": ""}, "other": {"b": ""}})
    (tmp_path / "sub").chmod(0)
    with pytest.raises(ToolError, match="sub: permission denied"):
        await run(ctx, "sub")
    with pytest.raises(ToolError, match="sub/deep: permission denied"):
        await run(ctx, "sub/deep")
    assert await run(ctx) == "other/\n  b  0 B\nsub/  (permission denied)"
    (tmp_path / "sub").chmod(0o700)


async def test_ignore_file_that_is_a_pipe(ctx: ToolContext, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".gitignore")
    assert await run(ctx) == ".gitignore  (pipe)"


async def test_cancelled_thread_is_stopped() -> None:
    stopped = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def work(halted: object) -> None:
        assert callable(halted)
        while not halted():
            pass
        token.run_sync_soon(stopped.set)

    with trio.move_on_after(0.05) as scope:
        await to_halting_thread(work)
    assert scope.cancelled_caught
    with trio.fail_after(30):
        await stopped.wait()


async def test_required_rights(ctx: ToolContext, tmp_path: Path) -> None:
    make(tmp_path, {"sub": {}, "link": Link("/etc")})
    for path, patterns in [
        (".", (".",)),
        ("sub", ("sub",)),
        ("link", ("/etc",)),
        ("a\0b", ("a\0b",)),
        ("no", ("no",)),
    ]:
        told = LIST.need(List(path=path), ctx)
        assert not isinstance(told, Need)
        need = await told
        assert (need.permission, need.patterns) == ("read", patterns)


def test_sizes() -> None:
    sizes = (0, 1023, 1024, 1536, 1023_000, 1 << 20, 10**12, 1 << 63, 1 << 80)
    assert [size(count) for count in sizes] == [
        *("0 B", "1023 B", "1.0 KiB", "1.5 KiB", "999.0 KiB", "1.0 MiB", "931.3 GiB", "8.0 EiB", "1048576.0 EiB")
    ]
