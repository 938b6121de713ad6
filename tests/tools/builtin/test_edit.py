"""`edit`: exact, or the one place that must be meant, or an error that says what is there instead."""

# ruff: noqa: ASYNC240 -- the files are small

import ast
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ToolError
from engine.core.permission_types import RequiredRight
from engine.files.read_state import note_read
from engine.files.text_files import MAX_TEXT_BYTES
from engine.tools.builtin.edit import EDIT, Edit, edit_tool
from engine.tools.call_values import Need
from engine.tools.edit.replace import Replaced, named, replace
from engine.tools.tool_context import ToolContext
from tests.support.needs import need_in, output_of
from tests.support.reading import having_read


async def test_the_only_occurrence(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\ny = 2\n")
    output = await output_of(EDIT, Edit("a.py", "y = 2", "y = 3"), having_read(ctx, "a.py"))
    assert (tmp_path / "a.py").read_text() == "x = 1\ny = 3\n"
    diff = "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n x = 1\n-y = 2\n+y = 3\n"
    assert output.text == f"Edited a.py: 1 replacement at line 2.\n{diff}".strip()
    assert json.loads(output.metadata) == {"summary": "line 2", "replacements": 1, "tier": "exact", "diff": diff}


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a b a\n", "a", "A", Replaced("A b A\n", "exact", ((1, 1), (1, 1)), 2)),
        ("a\na\n", "a\n", "", Replaced("", "exact", ((1, 1), (2, 2)), 2)),
        ("aaa", "aa", "b", Replaced("ba", "exact", ((1, 1),))),
    ],
)
def test_all_occurrences(text: str, old: str, new: str, expected: Replaced) -> None:
    assert replace("f", text, old, new, replace_all=True) == expected


@pytest.mark.parametrize("new", ["$&", r"\1", "$$", r"\g<0>", "$1", "\\n"])
@pytest.mark.parametrize("all", [False, True])
def test_new_text_is_literal(new: str, all: bool) -> None:  # noqa: A002
    assert replace("f", "a.c", ".", new, replace_all=all).text == f"a{new}c"


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        (
            "z",
            "y",
            "old_string was not found in f; nothing was changed. There is nothing like it either. Read the file again.",
        ),
        (
            "x\n+",
            "y",
            "old_string was not found in f; nothing was changed. The most similar place is lines 1-2. This is what differs (- old_string, "
            "+ the file):\n@@ +1,2 @@\n x\n-+\n+-",
        ),
        (
            "x",
            "y",
            "old_string was found 3 times in f, on lines 1, 3, 3. Add lines around it so that it fits one place, or set "
            "replace_all. Nothing was changed.",
        ),
        ("", "y", "old_string is empty. To create a file, or to replace all of it, use the write tool."),
        ("x", "x", "old_string and new_string are the same: there is nothing to change. (Line endings are kept.)"),
        (
            "a\r\nb",
            "a\nb",
            "old_string and new_string are the same: there is nothing to change. (Line endings are kept.)",
        ),
    ],
)
def test_uncertain_edit_is_refused(old: str, new: str, error: str) -> None:
    with pytest.raises(ToolError) as raised:
        replace("f", "x\n-\nx+x\n", old, new)
    assert str(raised.value) == error


def test_file_growth_is_bounded() -> None:
    with pytest.raises(ToolError, match=r"^f would have 1,000,002,000,000 characters then; .* Nothing was changed\.$"):
        replace("f", "a " * 1_000_000, " ", "x" * 1_000_001, replace_all=True)
    with pytest.raises(ToolError, match=r"^old_string was found 1,000,000 times"):
        replace("f", "a " * 1_000_000, " ", "x" * 1_000_001)


def test_several_places_that_are_alike() -> None:
    with pytest.raises(ToolError) as raised:
        replace("f", "  a\n  b\n-\n    a\n    b\n", "a\nb", "c")
    assert str(raised.value).startswith(
        "old_string was not found exactly in f, and 2 places are like it (indentation-flexible), on lines 1, 4. Give it"
    )


def test_repeated_and_destructive_edits_are_refused() -> None:
    with pytest.raises(
        ToolError,
        match=r"not found in f; nothing was changed\. But new_string stands there already, on lines 1-3: this edit",
    ):
        replace("f", "begin\n  alpha two\nend\n", "begin\nalpha one\nend", "begin\nalpha two\nend")
    with pytest.raises(ToolError, match=r"Much of it is like lines 1-5, but the file has more there(.|\n)*\n\+KEPT\n"):
        replace("f", "s\na\nKEPT\nb\ne\n", "s\na\nb\ne", "x")


def test_many_lines_are_counted() -> None:
    with pytest.raises(ToolError, match=r"found 30 times in f, on lines 1, 2, .*, 20 and 10 more\."):
        replace("f", "x\n" * 30, "x", "y")
    assert named([(1, 1)]) == "line 1"
    assert named([(1, 2)]) == "lines 1-2"
    assert named([(1, 2), (4, 4)]) == "lines 1-2, 4"


PYTHON = "class A:\n    def f(self):\n        if x:\n            return 1\n        return 2\n"


async def test_inexact_match_is_reported(ctx: ToolContext, tmp_path: Path) -> None:
    """An unindented request inside a function: it is indented, and the file parses."""
    (tmp_path / "a.py").write_text(PYTHON)
    args = Edit("a.py", "if x:\n    return 1", "if x and y:\n    return 1\nelse:\n    return 3")
    output = await output_of(EDIT, args, having_read(ctx, "a.py"))
    after = (tmp_path / "a.py").read_text()
    ast.parse(after)
    assert after == PYTHON.replace(
        "        if x:\n            return 1\n",
        "        if x and y:\n            return 1\n        else:\n            return 3\n",
    )
    assert output.text == (
        "Edited a.py: 1 replacement at lines 3-4, not exactly old_string, but alike (indentation-flexible): check it.\n"
        "--- a.py\n+++ a.py\n@@ -1,5 +1,7 @@\n class A:\n     def f(self):\n-        if x:\n+        if x and y:\n"
        "             return 1\n+        else:\n+            return 3\n         return 2"
    )
    assert json.loads(output.metadata)["tier"] == "indentation-flexible"


async def test_exactly_only(ctx: ToolContext, tmp_path: Path) -> None:
    tool = edit_tool(fuzzy=False)
    (tmp_path / "a.py").write_text(PYTHON)
    with pytest.raises(ToolError, match="The most similar place is lines 3-4"):
        await tool.body(Edit("a.py", "if x:\n    return 1", "pass"), having_read(ctx, "a.py"))
    assert (tmp_path / "a.py").read_text() == PYTHON
    assert "may be found all the same" in EDIT.description
    assert "Nothing is guessed" in tool.description


@pytest.mark.parametrize(
    ("content", "old", "new", "expected"),
    [
        (b"a\r\nb\r\n", "a\nb", "c\nd", b"c\r\nd\r\n"),
        (b"a\r\nb\r\n", "a\r\nb", "c", b"c\r\n"),
        (b"a\r\nb\r\n", "b", "b\nc", b"a\r\nb\r\nc\r\n"),
        (b"\xef\xbb\xbfa\n", "a", "b", b"\xef\xbb\xbfb\n"),
        (b"\xef\xbb\xbfa\r\n", "a", "b\nc", b"\xef\xbb\xbfb\r\nc\r\n"),
        (b"\xef\xbb\xbf  a\r\n  b\r\n", "a\nb", "a\nc", b"\xef\xbb\xbf  a\r\n  c\r\n"),
        (b"a\r\nb\nc", "b\nc", "d\ne", b"a\r\nd\ne"),  # mixed: each where it is
        (b"a\r\nb\nc", "a\nb\nc", "a\nb\nd\ne", b"a\r\nb\nd\ne"),
        (b"a\nb", "a\nb", "c", b"c"),
        (b"a\nb", "b", "c", b"a\nc"),
        ("é ü\n".encode(), "ü", "ö", "é ö\n".encode()),
    ],
)
async def test_line_ends_and_marks_are_kept(
    ctx: ToolContext, tmp_path: Path, content: bytes, old: str, new: str, expected: bytes
) -> None:
    (tmp_path / "f").write_bytes(content)
    await EDIT.body(Edit("f", old, new), having_read(ctx, "f"))
    assert (tmp_path / "f").read_bytes() == expected


async def test_the_diff_shows_no_carriage_returns_that_stay(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a\r\nb\r\n")
    output = await output_of(EDIT, Edit("f", "b", "c"), having_read(ctx, "f"))
    assert output.text.endswith("\n a\n-b\n+c")


async def test_the_mode_and_the_link_are_kept(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a")
    (tmp_path / "f").chmod(0o755)
    (tmp_path / "link").symlink_to("f")
    await EDIT.body(Edit("link", "a", "b"), having_read(ctx, "f"))
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "f").read_text() == "b"
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o755


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda p: None, "x does not exist."),
        (lambda p: p.mkdir(), "x is a folder."),
        (lambda p: p.symlink_to(p), "x: Too many levels of symbolic links."),
        (lambda p: p.write_bytes(b"a\0b"), "x is a binary file."),
        (lambda p: p.write_bytes(b"old \xe9"), "x is not UTF-8 (byte 4), so this tool would damage it."),
        (os.mkfifo, "x is no regular file"),
        (lambda p: os.truncate(os.open(p, os.O_CREAT | os.O_WRONLY), MAX_TEXT_BYTES + 1), "x has 20,000,001 bytes"),
    ],
    ids=["missing", "folder", "loop", "binary", "latin-1", "fifo", "huge"],
)
async def test_uneditable_files(ctx: ToolContext, tmp_path: Path, make: Callable[[Path], object], error: str) -> None:
    make(tmp_path / "x")
    is_readable = (tmp_path / "x").is_file() and (tmp_path / "x").stat().st_size < 100
    with pytest.raises(ToolError) as raised:
        await EDIT.body(Edit("x", "old", "new"), having_read(ctx, "x") if is_readable else ctx)
    assert str(raised.value).startswith(error)


@pytest.mark.parametrize(
    ("path", "error"),
    [
        ("", "The path is empty."),
        ("sub/", "sub/ names a folder"),
        ("f/x", "f/x: a part of this path"),
        ("a\0", "'a\\x00'"),
    ],
)
async def test_paths_that_are_none(ctx: ToolContext, tmp_path: Path, path: str, error: str) -> None:
    (tmp_path / "f").write_text("a")
    with pytest.raises(ToolError) as raised:
        await EDIT.body(Edit(path, "a", "b"), ctx)
    assert str(raised.value).startswith(error)
    need = await need_in(ctx, EDIT, Edit(path, "a", "b"))
    assert (need.permission, need.detail) == ("edit", f"--- {path}\n+++ {path}\n-a\n+b\n")


@pytest.mark.usefixtures("not_root")
async def test_files_of_others(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a")
    reader = having_read(ctx, "f")
    (tmp_path / "f").chmod(0o444)
    with pytest.raises(ToolError, match=r"^f is read-only\.$"):
        await EDIT.body(Edit("f", "a", "b"), reader)
    (tmp_path / "f").chmod(0o200)
    with pytest.raises(ToolError, match=r"^f: permission denied\.$"):
        await EDIT.body(Edit("f", "a", "b"), reader)
    (tmp_path / "f").chmod(0o644)
    tmp_path.chmod(0o555)
    with pytest.raises(ToolError, match=r"^f can't be replaced at once, because its folder may not be written to\."):
        await EDIT.body(Edit("f", "a", "b"), reader)
    tmp_path.chmod(0o755)
    assert (tmp_path / "f").read_text() == "a"


async def test_failed_edit_changes_nothing(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a a")
    before = (tmp_path / "f").stat()
    with pytest.raises(ToolError):
        await EDIT.body(Edit("f", "a", "b"), having_read(ctx, "f"))
    with pytest.raises(ToolError, match="half a character"):
        await EDIT.body(Edit("f", "a a", "\ud800"), having_read(ctx, "f"))
    after = (tmp_path / "f").stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert [path.name for path in tmp_path.iterdir()] == ["f"]


async def test_unread_or_changed_file(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a")
    with pytest.raises(ToolError, match=r"^f exists, but has not been read in this session\. Read it first"):
        await EDIT.body(Edit("f", "a", "b"), ctx)
    reader = having_read(ctx, "f")
    state = (tmp_path / "f").stat()
    (tmp_path / "f").write_text("A")
    os.utime(tmp_path / "f", ns=(state.st_atime_ns, state.st_mtime_ns))  # as quick as another program may be
    with pytest.raises(ToolError, match=r"^f has changed since it was last read\. Read it again"):
        await EDIT.body(Edit("f", "A", "b"), reader)
    assert (tmp_path / "f").read_text() == "A"
    (tmp_path / "f").write_text("a")
    (tmp_path / "f").touch()  # another time, the same content
    await EDIT.body(Edit("f", "a", "b"), reader)
    assert (tmp_path / "f").read_text() == "b"


async def test_edits_are_serialised(ctx: ToolContext, tmp_path: Path) -> None:
    """What an edit leaves is known to the session, in the context that it modifies, and only there."""
    (tmp_path / "f").write_text("a\nb\n")
    reader = having_read(ctx, "f")
    first = await output_of(EDIT, Edit("f", "a", "A"), reader)
    with pytest.raises(ToolError, match="has changed"):
        await EDIT.body(Edit("f", "b", "B"), reader)
    assert first.modify is not None
    await EDIT.body(Edit("f", "b", "B"), attrs.evolve(reader, shared=first.modify(reader.shared)))
    assert (tmp_path / "f").read_text() == "A\nB\n"


@given(st.text("ab\n"), st.text("ab\n", min_size=1), st.text("abc\n"))
def test_once_means_once(text: str, old: str, new: str) -> None:
    """Either it is refused, or exactly one place has changed, and that was the only one."""
    try:
        result = replace("f", text, old, new, fuzzy=False)
    except ToolError:
        places = sum(text.startswith(old, i) for i in range(len(text)))
        assert places != 1 or old == new
        return
    start = text.index(old)
    assert result.text == text[:start] + new + text[start + len(old) :]
    assert result.lines[0][0] == text.count("\n", 0, start) + 1


async def test_the_right_it_needs(ctx: ToolContext, tmp_path: Path) -> None:
    """It shows what would change, or what was asked for, and why that can't be done: then nobody is asked."""
    (tmp_path / "f").write_text("x\n  a\n")
    unread = await need_in(ctx, EDIT, Edit("./f", "a", "b"))
    assert unread.futile == "./f exists, but has not been read in this session. Read it first; nothing was changed."
    ctx = having_read(ctx, tmp_path / "f")
    diff = "--- ./f\n+++ ./f\n@@ -1,2 +1,2 @@\n x\n-  a\n+  b\n"
    assert await need_in(ctx, EDIT, Edit("./f", "a", "b")) == Need(
        permission="edit",
        patterns=("f",),
        rights=(RequiredRight(permission="edit", pattern="f"),),
        detail=diff,
        metadata=json.dumps({"paths": ["f"], "diff": diff}),
        paths=(str(tmp_path / "f"),),
    )
    for path in ("f", "missing"):
        need = await need_in(ctx, EDIT, Edit(path, "z", "b"))
        assert (need.patterns, need.detail) == ((path,), f"--- {path}\n+++ {path}\n-z\n+b\n")
        assert need.futile
    assert (tmp_path / "f").read_text() == "x\n  a\n"
    outside = await need_in(ctx, EDIT, Edit(str(tmp_path.parent / "f"), "a", "b"))
    assert outside.patterns == (str(tmp_path.parent / "f"),)


@pytest.mark.parametrize(
    ("model", "is_offered"),
    [
        ("gpt-5", False),
        ("openai/gpt-5.2-codex", False),
        ("GPT-5-mini", False),
        ("gpt-4.1", True),
        ("gpt-4o", True),
        ("gpt-oss-120b", True),
        ("claude-sonnet-4-5", True),
        ("scripted", True),
    ],
)
def test_to_whom_it_is_offered(model: str, is_offered: bool) -> None:
    assert EDIT.offered(model) is is_offered


def test_another_digest_is_another_file(ctx: ToolContext, tmp_path: Path) -> None:
    assert note_read(tmp_path / "f", "1")(ctx.shared) != note_read(tmp_path / "f", "2")(ctx.shared)


@pytest.mark.parametrize(
    ("content", "is_whole"),
    [("b\n" * 400, True), ("b\n" * 600, False), ("b" * 900, True), (f"{'b' * 1_100}\n", False)],
    ids=["lines", "more lines", "line", "long line"],
)
async def test_always_is_not_offered_for_what_is_not_shown(
    ctx: ToolContext, tmp_path: Path, content: str, is_whole: bool
) -> None:
    (tmp_path / "f").write_text("a\n")
    need = await need_in(having_read(ctx, tmp_path / "f"), EDIT, Edit("f", "a\n", content))
    assert ("not shown]" not in need.detail) == is_whole
    assert bool(need.offered) == is_whole
    unread = await need_in(ctx, EDIT, Edit("f", "a\n", content))
    assert ("not shown]" not in unread.detail) == is_whole
    assert bool(unread.offered) == is_whole
