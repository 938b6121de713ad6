"""Patches: read as they are meant, refused where nobody can tell."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.core.errors import ToolError
from engine.tools.edit.patch_format import AddFile, DeleteFile, PatchChunk, UpdateFile, parse_patch
from engine.tools.edit.splices import Request

ALL = """\
*** Begin Patch
*** Add File: new.txt
+one
+
+*** End Patch
*** Delete File: old file.txt
*** Update File: a.py
*** Move to: b.py
@@ class A:
@@     def f(self):
 kept
-old
+new

+added
@@
-x
*** End of File
*** End Patch
"""
PARSED = (
    AddFile("new.txt", "one\n\n*** End Patch\n"),
    DeleteFile("old file.txt"),
    UpdateFile(
        "a.py",
        "b.py",
        (
            PatchChunk(
                ("class A:", "def f(self):"), Request(("kept", "old", ""), ("kept", "new", "", "added")), False, 9
            ),
            PatchChunk((), Request(("x",), ()), True, 16),
        ),
    ),
)


@pytest.mark.parametrize(
    "text",
    [
        ALL,
        ALL.removesuffix("\n"),
        ALL.replace("\n", "\r\n"),
        f"\n\n{ALL}\n\n",
        f"<<'EOF'\n{ALL}EOF\n",
        f'apply_patch <<"PATCH"\n{ALL}PATCH',
        f"```diff\n{ALL}```",
        ALL.replace("*** Delete", "\n   *** Delete").replace("*** Begin Patch", "*** Begin Patch  "),
        ALL.replace("@@\n-x", "\n@@\n\n-x\n\n"),
    ],
)
def test_all_rights(text: str) -> None:
    found = parse_patch(text)
    lines = [chunk.line for one in found if isinstance(one, UpdateFile) for chunk in one.chunks]
    assert lines == sorted(lines)
    assert without_lines(found) == without_lines(PARSED)
    if text == ALL:
        assert found == PARSED


def without_lines(operations: object) -> str:
    return "".join(part for part in repr(operations).split("line=")).translate(str.maketrans("", "", "0123456789"))


@pytest.mark.parametrize(
    ("body", "chunks"),
    [
        # The first change needs no @@.
        ("-a\n+b", [((), ("a",), ("b",))]),
        (" a\n-b\n@@\n+c", [((), ("a", "b"), ("a",)), ((), (), ("c",))]),
        # Headers as in a unified diff.
        ("@@ -1,3 +1,4 @@\n-a", [((), ("a",), ())]),
        ("@@ -1 +1,2 @@ def f():\n-a", [(("def f():",), ("a",), ())]),
        ("@@ def f(): @@\n-a", [(("def f():",), ("a",), ())]),
        ("-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file", [((), ("a",), ("b",))]),
        # Lines that look like marks.
        (
            " *** Update File: x\n-@@\n+*** End Patch",
            [((), ("*** Update File: x", "@@"), ("*** Update File: x", "*** End Patch"))],
        ),
        # Blanks.
        ("-\ta \n  \n+", [((), ("\ta ", " "), (" ", ""))]),
    ],
)
def test_changes(body: str, chunks: list[tuple[object, object, object]]) -> None:
    (update,) = parse_patch(f"*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch")
    assert isinstance(update, UpdateFile)
    assert [(chunk.headers, chunk.request.old, chunk.request.new) for chunk in update.chunks] == chunks


def test_other_operations() -> None:
    text = "*** Begin Patch\n*** Update File: a\n*** Move to: b\n*** Add File: c\n*** Add File: d\n+x\n\n\n+y\n\n*** Delete File: e\n*** End Patch"
    assert parse_patch(text) == (
        UpdateFile("a", "b", ()),
        AddFile("c", ""),
        AddFile("d", "x\n\n\ny\n"),
        DeleteFile("e"),
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "The first line of a patch is '*** Begin Patch'"),
        ("--- a\n+++ b\n", "The first line of a patch is '*** Begin Patch'"),
        ("so:\n*** Begin Patch\n*** End Patch", "The first line of a patch is '*** Begin Patch'"),
        ("*** Begin Patch\n*** End Patch", "The patch is empty"),
        (
            "*** Begin Patch\n*** Delete File: a\n",
            "The patch has no '*** End Patch' at its end: it seems to be cut off.",
        ),
        (
            "*** Begin Patch\n*** Delete File: a\n*** End Patch\nand so on",
            "Something follows '*** End Patch': 'and so on'.",
        ),
        ("*** Begin Patch\n*** Rename File: a\n*** End Patch", "Line 2 of the patch can't be read: a part begins with"),
        ("*** Begin Patch\n*** Delete File:\n*** End Patch", "Line 2 of the patch can't be read: the path is missing"),
        (
            "*** Begin Patch\n*** Add File: a\n+x\ny\n*** End Patch",
            "Line 4 of the patch can't be read: each line of a new",
        ),
        ("*** Begin Patch\n*** Delete File: a\n-x\n*** End Patch", "Line 3 of the patch can't be read: a part begins"),
        ("*** Begin Patch\n*** Update File: a\n*** End Patch", "The patch says nothing about what to change in a."),
        ("*** Begin Patch\n*** Update File: a\n@@ x\n*** End Patch", "The change at line 3 of the patch has no lines."),
        (
            "*** Begin Patch\n*** Update File: a\n@@\n-a\nb\n*** End Patch",
            "Line 5 of the patch can't be read: a line of a change",
        ),
        (
            f"*** Begin Patch\n{'x' * 200}\n*** End Patch",
            f"Line 2 of the patch can't be read: a part begins with '*** Add File:', '*** Delete File:' or '*** Update File:' and a path, but this is '{'x' * 80}…'.",
        ),
    ],
)
def test_unreadable_patches(text: str, error: str) -> None:
    with pytest.raises(ToolError) as raised:
        parse_patch(text)
    assert str(raised.value).startswith(error)


@given(
    st.lists(
        st.sampled_from(
            [
                "*** Begin Patch",
                "*** End Patch",
                "*** Update File: a",
                "*** Add File: b",
                "*** Move to: c",
                "@@",
                "@@ x",
                " x",
                "+x",
                "-x",
                "",
                "*** End of File",
                "\\ No",
                "x",
                "***",
            ]
        )
    ).map("\n".join)
)
def test_anything_is_read_or_refused(text: str) -> None:
    try:
        found = parse_patch(f"*** Begin Patch\n{text}\n*** End Patch")
    except ToolError:
        return
    assert found
    for operation in found:
        if isinstance(operation, UpdateFile):
            assert all(chunk.request.old or chunk.request.new for chunk in operation.chunks)


@pytest.mark.parametrize(
    ("text", "is_read"),
    [
        (f"{' ' * 100_000}!\n*** Begin Patch\n*** Delete File: a\n*** End Patch", False),
        ("*** Begin Patch\n*** Add File: a\n+x\n" + "\n" * 100_000 + "+y\n*** End Patch", True),
        ("*** Begin Patch\n*** Add File: a\n+x\n" + "\n" * 100_000 + "*** End Patch", True),
    ],
    ids=["blanks", "blank lines inside", "blank lines behind"],
)
def test_bad_input_takes_no_long(text: str, is_read: bool) -> None:
    start = time.process_time()
    try:
        parse_patch(text)
    except ToolError:
        assert not is_read
    else:
        assert is_read
    assert time.process_time() - start < 3
