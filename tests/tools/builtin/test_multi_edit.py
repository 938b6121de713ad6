"""`multi_edit`: several edits of one file, all or none."""

import json
from pathlib import Path

import pytest

from engine.core.arguments import parse
from engine.core.errors import InvalidArguments, ToolError
from engine.core.permission_types import RequiredRight
from engine.tools.builtin.multi_edit import MULTI_EDIT, MultiEdit, Replacement, multi_edit_tool
from engine.tools.call_values import Need
from engine.tools.tool_context import ToolContext
from tests.support.needs import need_in, output_of
from tests.support.reading import having_read


async def test_edits_apply_in_order(ctx: ToolContext, tmp_path: Path) -> None:
    """Each finds what those before it have left; one diff shows it all, with what is far apart in hunks of its own."""
    (tmp_path / "f").write_text("".join(f"{n}\n" for n in range(1, 21)))
    edits = [
        Replacement("2\n3\n", "two\n\n"),
        Replacement("two", "TWO"),
        Replacement("  19\n20", "  19\ntwenty"),
    ]
    output = await output_of(MULTI_EDIT, MultiEdit("f", edits), having_read(ctx, "f"))
    diff = (
        "--- f\n+++ f\n@@ -1,6 +1,6 @@\n 1\n-2\n-3\n+TWO\n+\n 4\n 5\n 6\n"
        "@@ -17,4 +17,4 @@\n 17\n 18\n 19\n-20\n+twenty\n"
    )
    assert output.text == (
        "Edited f: 3 edits, made at\n1. lines 2-3\n2. line 2\n"
        f"3. lines 19-20, not exactly old_string, but alike (line-trimmed): check it\n{diff}".removesuffix("\n")
    )
    assert json.loads(output.metadata) == {"summary": "3 edits", "edits": 3, "fuzzy": 1, "diff": diff}


@pytest.mark.parametrize(
    ("edits", "error"),
    [
        (
            [Replacement("a", "A"), Replacement("missing here", "x"), Replacement("c", "C")],
            "Edit 2 of 3: old_string was not found in f; nothing was changed. There is nothing like it",
        ),
        ([Replacement("a", "A"), Replacement("a", "x")], "Edit 2 of 2: old_string was not found in f"),
        (
            [Replacement("b", "c"), Replacement("c", "x")],
            "Edit 2 of 2: old_string was found 2 times in f, on lines 2, 3.",
        ),
        ([Replacement("", "c")], "Edit 1 of 1: old_string is empty."),
    ],
)
async def test_all_or_none(ctx: ToolContext, tmp_path: Path, edits: list[Replacement], error: str) -> None:
    (tmp_path / "f").write_text("a\nb\nc\n")
    before = (tmp_path / "f").stat()
    with pytest.raises(ToolError) as raised:
        await MULTI_EDIT.body(MultiEdit("f", edits), having_read(ctx, "f"))
    assert str(raised.value).startswith(error)
    assert str(raised.value).endswith("None of the edits was made.")
    assert (tmp_path / "f").read_text() == "a\nb\nc\n"
    assert (tmp_path / "f").stat().st_ino == before.st_ino


async def test_line_ends_are_kept(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfa\r\nb\r\nc\n")
    edits = [Replacement("a\nb", "x\ny"), Replacement("y\nc", "y\nz\nc"), Replacement("c", "C", True)]
    await MULTI_EDIT.body(MultiEdit("f", edits), having_read(ctx, "f"))
    assert (tmp_path / "f").read_bytes() == b"\xef\xbb\xbfx\r\ny\r\nz\nC\n"


async def test_a_file_that_was_not_read(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    with pytest.raises(ToolError, match="has not been read"):
        await MULTI_EDIT.body(MultiEdit("f", [Replacement("a", "b")]), ctx)
    with pytest.raises(ToolError, match=r"g does not exist\. Did you mean|g does not exist\."):
        await MULTI_EDIT.body(MultiEdit("g", [Replacement("a", "b")]), ctx)


async def test_exactly_only(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("  a\n  b\n")
    with pytest.raises(ToolError, match="not found"):
        await multi_edit_tool(fuzzy=False).body(MultiEdit("f", [Replacement("a\nb", "b")]), having_read(ctx, "f"))


def test_arguments() -> None:
    arguments = '{"path": "f", "edits": [{"old_string": "a", "new_string": "b"}]}'
    assert parse(MultiEdit, arguments) == MultiEdit("f", [Replacement("a", "b")])
    with pytest.raises(InvalidArguments):
        parse(MultiEdit, '{"path": "f", "edits": []}')
    assert MULTI_EDIT.offered("claude-opus-4-5")
    assert not MULTI_EDIT.offered("gpt-5")


async def test_the_right_it_needs(ctx: ToolContext, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\nb\n")
    ctx = having_read(ctx, tmp_path / "f")
    diff = "--- f\n+++ f\n@@ -1,2 +1,2 @@\n-a\n-b\n+A\n+B\n"
    assert await need_in(ctx, MULTI_EDIT, MultiEdit("f", [Replacement("a", "A"), Replacement("b", "B")])) == Need(
        permission="edit",
        patterns=("f",),
        rights=(RequiredRight(permission="edit", pattern="f"),),
        detail=diff,
        metadata=json.dumps({"paths": ["f"], "diff": diff}),
        paths=(str(tmp_path / "f"),),
    )
    need = await need_in(ctx, MULTI_EDIT, MultiEdit("f", [Replacement("z", "A"), Replacement("b", "B")]))
    assert need.detail == "--- f\n+++ f\n-z\n+A\n--- f\n+++ f\n-b\n+B\n"
