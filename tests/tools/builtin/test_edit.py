"""`edit`: exact, or an error that says what is there instead."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.errors import ToolError
from engine.tools.builtin.edit import EDIT, Edit, Replaced, edit, replace
from engine.tools.builtin.files import MAX_TEXT_BYTES
from engine.tools.context import ToolContext
from engine.tools.spec import Need
from tests.support.needs import need_of


def replaced(text: str, old: str, new: str, *, all: bool = False) -> Replaced:  # noqa: A002
    return replace(text, Edit("f", old, new, all))


async def test_the_only_occurrence(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = 2\n")
    output = await edit(Edit("a.py", "y = 2", "y = 3"), ctx)
    assert (tmp_path / "a.py").read_text() == "x = 1\ny = 3\n"
    assert output.text == "Edited a.py: 1 replacement at line 2."
    assert json.loads(output.metadata) == {"summary": "line 2", "replacements": 1}


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a b a\n", "a", "A", Replaced("A b A\n", (1, 1))),
        ("a\na\n", "a\n", "", Replaced("", (1, 2))),
        ("aaa", "aa", "b", Replaced("ba", (1,))),
    ],
)
def test_all_occurrences(text: str, old: str, new: str, expected: Replaced) -> None:
    assert replaced(text, old, new, all=True) == expected


@pytest.mark.parametrize("new", ["$&", r"\1", "$$", r"\g<0>", "$1", "\\n"])
@pytest.mark.parametrize("all", [False, True])
def test_nothing_in_the_new_text_is_special(new: str, all: bool) -> None:  # noqa: A002
    assert replaced("a.c", ".", new, all=all).text == f"a{new}c"


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("z", "y", "old_string was not found in f. It must be the text of the file"),
        ("X", "y", "old_string was not found in f."),
        ("x ", "y ", "old_string was not found in f."),
        ("x", "y", "old_string was found 3 times in f, on lines 1, 3, 3. Add lines around it"),
        ("", "y", "old_string is empty. To create a file"),
        ("x", "x", "old_string and new_string are the same"),
    ],
)
def test_what_is_not_certain_is_not_done(old: str, new: str, error: str) -> None:
    with pytest.raises(ToolError) as raised:
        replaced("x\n-\nx+x\n", old, new)
    assert str(raised.value).startswith(error)


def test_occurrences_that_overlap_are_ambiguous() -> None:
    with pytest.raises(ToolError, match="found 2 times in f, on lines 1, 1"):
        replaced("aaa", "aa", "b")


def test_many_lines_are_counted() -> None:
    with pytest.raises(ToolError, match=r"found 30 times in f, on lines 1, 2, .*, 20 and 10 more"):
        replaced("x\n" * 30, "x", "y")


@pytest.mark.parametrize(
    ("content", "old", "new", "expected"),
    [
        (b"a\r\nb\r\n", "a\nb", "c\nd", b"c\r\nd\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "c", b"c\r\n"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbfa\r\n", "a", "b\nc", b"\xef\xbb\xbfb\r\nc\r\n"),
        (b"a\r\nb\nc", "b\nc", "d\ne", b"a\r\nd\ne"),  # mixed: taken as it is
        (b"a\nb", "a\nb", "c", b"c"),
        ("é ü\n".encode(), "ü", "ö", "é ö\n".encode()),
    ],
)
async def test_line_ends_and_marks_are_kept(
    ctx: ToolContext, tmp_path: Path, content: bytes, old: str, new: str, expected: bytes
) -> None:
    (tmp_path / "f").write_bytes(content)
    await edit(Edit("f", old, new), ctx)
    assert (tmp_path / "f").read_bytes() == expected


async def test_the_mode_and_the_link_are_kept(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a")
    (tmp_path / "f").chmod(0o755)
    (tmp_path / "link").symlink_to("f")
    await edit(Edit("link", "a", "b"), ctx)
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "f").read_text() == "b"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda p: None, "x does not exist."),
        (lambda p: p.mkdir(), "x is a folder."),
        (lambda p: p.write_bytes(b"a\0b"), "x is a binary file."),
        (lambda p: p.write_bytes(b"old \xe9"), "x is not UTF-8 (byte 4), so this tool would damage it."),
        (os.mkfifo, "x is no regular file"),
        (lambda p: os.truncate(os.open(p, os.O_CREAT | os.O_WRONLY), MAX_TEXT_BYTES + 1), "x has 20,000,001 bytes"),
    ],
    ids=["missing", "folder", "binary", "latin-1", "fifo", "huge"],
)
async def test_what_can_not_be_edited(
    ctx: ToolContext, tmp_path: Path, make: Callable[[Path], object], error: str
) -> None:
    make(tmp_path / "x")
    with pytest.raises(ToolError) as raised:
        await edit(Edit("x", "old", "new"), ctx)
    assert str(raised.value).startswith(error)


async def test_an_edit_that_fails_changes_nothing(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a a")
    before = (tmp_path / "f").stat()
    with pytest.raises(ToolError):
        await edit(Edit("f", "a", "b"), ctx)
    after = (tmp_path / "f").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@given(st.text("ab\n"), st.text("ab\n", min_size=1), st.text("abc\n"))
def test_once_means_once(text: str, old: str, new: str) -> None:
    """Either it is refused, or exactly one place has changed, and that was the only one."""
    try:
        result = replaced(text, old, new)
    except ToolError:
        places = sum(text.startswith(old, i) for i in range(len(text)))
        assert places != 1 or old == new
        return
    start = text.index(old)
    assert result.text == text[:start] + new + text[start + len(old) :]
    assert result.lines == (text.count("\n", 0, start) + 1,)


def test_the_right_it_needs() -> None:
    assert need_of(EDIT, Edit("f", "a", "b")) == Need(
        permission="edit", patterns=("f",), offers=("f",), detail="--- f\n+++ f\n-a\n+b\n"
    )
