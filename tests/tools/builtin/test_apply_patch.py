"""`apply_patch`: all of a patch or nothing."""

# ruff: noqa: ASYNC240 -- the files are small

import json
import os
import stat
import sys
from collections.abc import Callable
from pathlib import Path

import attrs
import pytest

import engine
from engine.config.formatter_config import FileProgram
from engine.core.errors import ToolError
from engine.core.permission_types import RequiredRight
from engine.files.read_state import last_read
from engine.permission.allow_all import AllowAll
from engine.session.engine_options import PermissionOptions
from engine.testing.script import call, done, text
from engine.testing.scripted_provider import ScriptedProvider
from engine.tools.builtin.apply_patch import APPLY_PATCH, ApplyPatch, apply_patch_tool
from engine.tools.builtin.builtin_tools import builtin_tools
from engine.tools.builtin.edit import EDIT
from engine.tools.builtin.multi_edit import MULTI_EDIT
from engine.tools.builtin.write import WRITE, Write
from engine.tools.call_values import Need
from engine.tools.edit.formatters import EditChecks
from engine.tools.tool_context import ToolContext
from tests.support.needs import need_in, output_of
from tests.support.reading import having_read


def patch(*lines: str) -> ApplyPatch:
    return ApplyPatch("\n".join(["*** Begin Patch", *lines, "*** End Patch"]))


def content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}


def put(folder: Path, **files: str) -> None:
    for name, text_ in files.items():
        (folder / name).write_text(text_)


async def test_every_operation(ctx: ToolContext, tmp_path: Path) -> None:
    put(tmp_path, a="1\n2\n3\n", gone="x\n", old="x\ny\n")
    (tmp_path / "old").chmod(0o750)
    reader = having_read(ctx, "a", "gone", "old")
    args = patch(
        "*** Update File: a", "@@", " 1", "-2", "+two", " 3",
        "*** Add File: sub/new", "+one", "+two",
        "*** Delete File: gone",
        "*** Update File: old", "*** Move to: sub/moved", "-y", "+z",
    )  # fmt: skip
    output = await output_of(APPLY_PATCH, args, reader)
    assert content(tmp_path) == {"a": "1\ntwo\n3\n", "sub/new": "one\ntwo\n", "sub/moved": "x\nz\n"}
    assert stat.S_IMODE((tmp_path / "sub/moved").stat().st_mode) == 0o750
    diffs = (
        "--- a\n+++ a\n@@ -1,3 +1,3 @@\n 1\n-2\n+two\n 3\n",
        "--- /dev/null\n+++ sub/new\n@@ -0,0 +1,2 @@\n+one\n+two\n",
        "--- gone\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-x\n",
        "--- old\n+++ sub/moved\n@@ -1,2 +1,2 @@\n x\n-y\n+z\n",
    )
    assert output.text == (
        "Applied the patch to 4 files:\nM a: lines 1-3\nA sub/new: 2 lines\nD gone\nR old -> sub/moved: line 2\n"
        + "".join(diffs).removesuffix("\n")
    )
    assert json.loads(output.metadata) == {"summary": "4 files", "files": 4, "fuzzy": 0, "diff": "".join(diffs)}
    # What the session knows after that.
    assert output.modify is not None
    shared = output.modify(reader.shared)
    assert [bool(last_read(shared, tmp_path / name)) for name in ("a", "sub/new", "sub/moved", "gone", "old")] == [
        True, True, True, False, False,
    ]  # fmt: skip
    await WRITE.body(Write("sub/moved", ""), attrs.evolve(reader, shared=shared))


async def test_operations_apply_in_order(ctx: ToolContext, tmp_path: Path) -> None:
    put(tmp_path, a="1\n2\n", b="b\n", c="c\n")
    args = patch(
        "*** Update File: a", "-1", "+one",
        "*** Update File: a", " one", "-2", "+two",
        "*** Delete File: b", "*** Add File: b", "+new b",
        "*** Update File: c", "*** Move to: d",
        "*** Add File: c", "+new c",
        "*** Add File: passing", "+x", "*** Delete File: passing",
    )  # fmt: skip
    output = await output_of(APPLY_PATCH, args, having_read(ctx, "a", "b", "c"))
    assert content(tmp_path) == {"a": "one\ntwo\n", "b": "new b\n", "c": "new c\n", "d": "c\n"}
    assert output.text.startswith(
        "Applied the patch to 4 files:\nM a: line 1\nM a: lines 1-2\nD b\nM b: 1 line\nR c -> d:"
    )


async def test_moving_on(ctx: ToolContext, tmp_path: Path) -> None:
    put(tmp_path, a="a\n")
    args = patch("*** Update File: a", "*** Move to: b", "*** Update File: b", "*** Move to: c", "-a", "+A")
    await APPLY_PATCH.body(args, having_read(ctx, "a"))
    assert content(tmp_path) == {"c": "A\n"}


async def test_inexact_context_is_reported(ctx: ToolContext, tmp_path: Path) -> None:
    put(tmp_path, a="def f():\n    x = 1\n    return x\n")
    args = patch("*** Update File: a", "-x = 1", "+x = 2", "+y = 3", " return x")
    output = await output_of(APPLY_PATCH, args, having_read(ctx, "a"))
    assert content(tmp_path) == {"a": "def f():\n    x = 2\n    y = 3\n    return x\n"}
    assert "M a: lines 2-3, not exactly the patch's lines, but alike (indentation-flexible): check it\n" in output.text
    assert json.loads(output.metadata)["fuzzy"] == 1
    with pytest.raises(ToolError, match="does not fit"):
        await apply_patch_tool(fuzzy=False).body(args, having_read(ctx, "a"))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"a\r\nb\r\n", b"a\r\nc\r\nd\r\n"),
        (b"\xef\xbb\xbfa\nb\n", b"\xef\xbb\xbfa\nc\nd\n"),
        (b"a\nb", b"a\nc\nd"),
        (b"a\r\nb\n", b"a\r\nc\nd\n"),
    ],
)
async def test_line_ends_and_marks_are_kept(ctx: ToolContext, tmp_path: Path, before: bytes, after: bytes) -> None:
    (tmp_path / "f").write_bytes(before)
    await APPLY_PATCH.body(patch("*** Update File: f", " a", "-b", "+c", "+d"), having_read(ctx, "f"))
    assert (tmp_path / "f").read_bytes() == after


GOOD = ("*** Update File: a", "-1", "+one", "*** Add File: new/er", "+x")


@pytest.mark.parametrize(
    ("lines", "error"),
    [
        (["*** Update File: b", "-c", "+d"], "b: the change at line 8 of the patch does not fit. There is nothing like"),
        (
            ["*** Update File: b", " b", "-c"],
            "b: the change at line 8 of the patch does not fit. Its lines were not found behind the change before it. The "
            "most similar place is lines 1-2. This is what differs (- the patch, + the file):\n@@ +1,2 @@\n b\n-c\n+b\n",
        ),
        (["*** Update File: b", "-b"], "b: the change at line 8 of the patch does not fit. Its lines are there 2 times, on lines 1, 2."),
        (["*** Update File: b", "@@ no", "+b"], "b: the change at line 8 of the patch does not fit. There is no line, or"),
        (["*** Update File: unread", "-x"], "unread exists, but has not been read in this session."),
        (["*** Delete File: unread"], "unread exists, but has not been read in this session."),
        (["*** Add File: unread", "+x"], "unread exists, but has not been read in this session."),
        (["*** Update File: changed", "-x"], "changed has changed since it was last read."),
        (["*** Delete File: changed"], "changed has changed since it was last read."),
        (["*** Update File: missing", "-x"], "missing does not exist."),
        (["*** Delete File: missing"], "missing does not exist."),
        (["*** Delete File: b", "*** Update File: b", "-b"], "b does not exist."),
        (["*** Delete File: folder"], "folder is a folder."),
        (["*** Add File: folder", "+x"], "folder is a folder."),
        (["*** Add File: folder/", "+x"], "folder/ names a folder, not a file."),
        (["*** Add File: b/c", "+x"], "b/c: a part of this path is a file, not a folder."),
        (["*** Add File: c", "+x", "*** Add File: c/d", "+x"], "c was created"),
        (["*** Delete File: link"], "link is a symbolic link, which this tool does not delete. Use bash."),
        (["*** Update File: link", "*** Move to: x"], "link is a symbolic link, which this tool does not move."),
        (["*** Update File: b", "*** Move to: c0"], "c0 exists: b can't be moved there."),
        (["*** Update File: b", "*** Move to: unread"], "unread exists, but has not been read"),
        (["*** Update File: loop", "-x"], "loop: Too many levels of symbolic links."),
        (["*** Update File: pipe", "-x"], "pipe is no regular file"),
        (["*** Update File: binary", "-x"], "binary is a binary file."),
        (["*** Update File: latin", "-x"], "latin is not UTF-8"),
        (["*** Update File: a\0", "-x"], "'a\\x00' is no path"),
        (["*** Frobnicate File: a"], "Line 7 of the patch can't be read"),
    ],
)  # fmt: skip
async def test_patch_is_atomic(ctx: ToolContext, tmp_path: Path, lines: list[str], error: str) -> None:
    put(tmp_path, a="1\n", b="b\nb\n", changed="x\n", unread="x\n", c0="x\n")
    (tmp_path / "binary").write_bytes(b"x\0\n")
    (tmp_path / "latin").write_bytes(b"x\xe9\n")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("b")
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "pipe")
    reader = having_read(ctx, "a", "b", "changed", "c0", "binary", "latin")
    put(tmp_path, changed="y\n")
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(ToolError) as raised:
        await APPLY_PATCH.body(patch(*GOOD, *lines), reader)
    assert str(raised.value).startswith(error)
    assert str(raised.value).endswith(
        ("Nothing was changed.", "nothing was changed.", "No file was changed.", "have that name.")
    )
    assert sorted(path.name for path in tmp_path.rglob("*")) == before
    assert (tmp_path / "a").read_text() == "1\n"


@pytest.mark.parametrize(
    ("text_", "error"),
    [
        ("", "The first line of a patch is"),
        ("*** Begin Patch\n*** Update File: a\n-1\n", "The patch has no '*** End Patch'"),
        (patch("*** Update File: a", " 1").patch, "The patch changes nothing"),
        (patch("*** Update File: a", "-1", "+1").patch, "The patch changes nothing"),
    ],
)
async def test_patches_that_are_none(ctx: ToolContext, tmp_path: Path, text_: str, error: str) -> None:
    put(tmp_path, a="1\n")
    with pytest.raises(ToolError) as raised:
        await APPLY_PATCH.body(ApplyPatch(text_), having_read(ctx, "a"))
    assert str(raised.value).startswith(error)
    need = await need_in(ctx, APPLY_PATCH, ApplyPatch(text_))
    assert need.detail == text_


async def test_a_patch_again_is_refused(ctx: ToolContext, tmp_path: Path) -> None:
    put(tmp_path, a="1\n2\n3\n")
    args = patch("*** Update File: a", " 1", "-2", "+two", " 3")
    await APPLY_PATCH.body(args, having_read(ctx, "a"))
    with pytest.raises(ToolError, match="does not fit"):
        await APPLY_PATCH.body(args, having_read(ctx, "a"))
    assert content(tmp_path) == {"a": "1\ntwo\n3\n"}


@pytest.mark.usefixtures("not_root")
async def test_a_file_that_can_not_be_written(ctx: ToolContext, tmp_path: Path) -> None:
    put(tmp_path, a="1\n", b="b\n")
    reader = having_read(ctx, "a", "b")
    (tmp_path / "b").chmod(0o444)
    with pytest.raises(ToolError, match=r"^b is read-only\. No file was changed\.$"):
        await APPLY_PATCH.body(patch(*GOOD, "*** Update File: b", "-b", "+c"), reader)
    assert content(tmp_path) == {"a": "1\n", "b": "b\n"}


async def test_each_file_is_formatted(ctx: ToolContext, tmp_path: Path) -> None:
    put(tmp_path, a="1\n", b="b\n", gone="x\n")
    script = "import sys, pathlib; p = pathlib.Path(sys.argv[1]); p.write_text(p.read_text().upper())"
    tool = apply_patch_tool(around=EditChecks(formatters=(FileProgram((sys.executable, "-E", "-c", script), ("*",)),)))
    args = patch("*** Delete File: gone", "*** Update File: b", "*** Move to: c", "-b", "+d", "*** Add File: n", "+n")
    output = await output_of(tool, args, having_read(ctx, "a", "b", "gone"))
    assert content(tmp_path) == {"a": "1\n", "c": "D\n", "n": "N\n"}
    name = Path(sys.executable).name
    assert f"\n[{name} has formatted c]\n[{name} has formatted n]\n--- gone\n" in output.text


async def test_the_right_it_needs(ctx: ToolContext, tmp_path: Path) -> None:
    put(tmp_path, a="1\n", b="b\n")
    ctx = having_read(ctx, tmp_path / "a", tmp_path / "b")
    args = patch("*** Update File: a", "-1", "+one", "*** Update File: b", "*** Move to: /elsewhere/c")
    diff = "--- a\n+++ a\n@@ -1,1 +1,1 @@\n-1\n+one\n--- b\n+++ /elsewhere/c\n"
    patterns = ("a", "b", "/elsewhere/c")
    assert await need_in(ctx, APPLY_PATCH, args) == Need(
        permission="edit",
        patterns=patterns,
        detail=diff,
        metadata=json.dumps({"paths": patterns, "diff": diff}),
        rights=tuple(RequiredRight(permission="edit", pattern=pattern) for pattern in patterns),
        paths=(str(tmp_path / "a"), str(tmp_path / "b"), "/elsewhere/c"),
    )
    assert (await need_in(ctx, APPLY_PATCH, patch("*** Delete File: a"))).patterns == ("a",)
    unfit = patch("*** Update File: a", "-x")
    need = await need_in(ctx, APPLY_PATCH, unfit)
    assert (need.patterns, need.detail) == (("a",), unfit.patch)


@pytest.mark.parametrize(
    ("model", "patches"),
    [
        ("gpt-5", True),
        ("gpt-5.2-codex", True),
        ("openai/GPT-6", True),
        ("gpt-4.1", False),
        ("gpt-4o", False),
        ("gpt-oss-120b", False),
        ("claude-sonnet-4-5", False),
        ("gemini-3-pro", False),
        ("scripted", False),
    ],
)
def test_a_model_has_either_patches_or_edits(model: str, patches: bool) -> None:
    assert APPLY_PATCH.offered(model) is patches
    assert {tool.offered(model) for tool in (EDIT, MULTI_EDIT, WRITE)} == {not patches}


async def test_in_a_turn(tmp_path: Path) -> None:
    put(tmp_path, f="a\n")
    body = patch("*** Update File: f", "-a", "+b").patch
    script = ScriptedProvider(
        [
            [*call("read", {"path": "f"}, id="r"), *done("calls")],
            [*call("apply_patch", {"patch": body}, id="p"), *done("calls")],
            [*text("done"), *done()],
        ]
    )
    async with engine.open_engine(
        model=script, tools=builtin_tools(), permissions=PermissionOptions(approver=AllowAll())
    ) as eng:
        await (await eng.create_session(cwd=str(tmp_path))).run("go")
    assert content(tmp_path) == {"f": "b\n"}


def failing(which: str) -> Callable[..., None]:
    replace = os.replace

    def fail(old: str, new: str, **folders: int) -> None:
        if new == which:
            raise OSError(5, "Input/output error")
        replace(old, new, **folders)

    return fail


async def test_a_failure_in_the_middle_is_undone(
    ctx: ToolContext, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk breaks between two renames."""
    put(tmp_path, a="1\n", b="b\n", c="c\n")
    reader = having_read(ctx, "a", "b", "c")
    monkeypatch.setattr(os, "replace", failing("b"))
    with pytest.raises(ToolError, match=r"^b: Input/output error\. No file was changed\.$"):
        await APPLY_PATCH.body(patch(*GOOD, "*** Update File: b", "-b", "+B", "*** Delete File: c"), reader)
    assert content(tmp_path) == {"a": "1\n", "b": "b\n", "c": "c\n"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "c"]
