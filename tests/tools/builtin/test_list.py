"""`list`: the names in a folder."""

# ruff: noqa: ASYNC240 -- the files are small

import json
import os
from pathlib import Path

import pytest

from engine.errors import ToolError
from engine.tools.builtin.list import MAX_ENTRIES, List, list_folder
from engine.tools.context import ToolContext


async def run(ctx: ToolContext, path: str = ".") -> str:
    return (await list_folder(List(path), ctx)).text


async def test_names_are_sorted_and_marked(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "b.py").touch()
    (tmp_path / ".hidden").touch()
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("b.py")
    (tmp_path / "broken").symlink_to("nowhere")
    output = await list_folder(List(), ctx)
    assert output.text == ".hidden\nb.py\nbroken -> nowhere\nlink -> b.py\nsub/"
    assert json.loads(output.metadata) == {"summary": "5 entries"}


async def test_an_empty_folder_says_so(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert await run(ctx, "sub") == "(sub is empty)"


async def test_names_that_are_no_text(ctx: ToolContext, tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/th\xe9")).touch()
    (tmp_path / "two\nlines").touch()
    assert await run(ctx) == "th�\ntwo\\nlines"


async def test_many_entries_are_counted(ctx: ToolContext, tmp_path: Path) -> None:
    for n in range(MAX_ENTRIES + 2):
        (tmp_path / f"{n:05}").touch()
    text = await run(ctx)
    assert text.endswith(f"{MAX_ENTRIES - 1:05}\n(2 more entries are not shown)")


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("a.txt", "a.txt is no folder. If it is a text file, use the read tool to see what is in it."),
        ("a.tx", "a.tx does not exist. Did you mean a.txt, in the same folder?"),
        ("pipe", "pipe is no folder. If it is a text file, use the read tool to see what is in it."),
        ("", "The path is empty."),
    ],
)
async def test_what_is_no_folder(ctx: ToolContext, tmp_path: Path, path: str, error: str) -> None:
    (tmp_path / "a.txt").touch()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ToolError) as raised:
        await run(ctx, path)
    assert str(raised.value) == error


@pytest.mark.usefixtures("not_root")
async def test_a_folder_that_may_not_be_read(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir(mode=0o000)
    with pytest.raises(ToolError, match="permission denied"):
        await run(ctx, "sub")
