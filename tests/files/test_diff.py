"""Diffs for people: right, and quick on any text."""

import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.files.diff import _common_head, _common_tail, changes, comparison, replacement, whole_text


def test_a_change_in_the_middle() -> None:
    before = "".join(f"{n}\n" for n in range(1, 11))
    assert changes("a.txt", before, before.replace("5\n", "five\n")) == (
        "--- a.txt\n+++ a.txt\n@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n"
    )


@pytest.mark.parametrize(
    ("before", "after", "body"),
    [
        ("", "a\n", "@@ -0,0 +1,1 @@\n+a\n"),
        ("a\n", "", "@@ -1,1 +0,0 @@\n-a\n"),
        ("a", "b", "@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n"),
        ("a\n", "a\nb\n", "@@ -1,1 +1,2 @@\n a\n+b\n"),
        ("a\na\n", "a\n", "@@ -1,2 +1,1 @@\n a\n-a\n"),
        ("a\r\n", "a\n", "@@ -1,1 +1,1 @@\n-a\r\n+a\n"),
        ("a\x0cb\n", "a\x0cc\n", "@@ -1,1 +1,1 @@\n-a\x0cb\n+a\x0cc\n"),
    ],
)
def test_at_the_edges(before: str, after: str, body: str) -> None:
    assert changes("f", before, after) == f"--- f\n+++ f\n{body}"


def test_changes_far_apart_are_hunks_of_their_own() -> None:
    before = "".join(f"{n}\n" for n in range(1, 31))
    after = before.replace("\n5\n", "\nfive\n").replace("\n9\n", "\n").replace("\n25\n", "\n25\nnew\n")
    assert changes("a.txt", before, after) == (
        "--- a.txt\n+++ a.txt\n"
        "@@ -2,11 +2,10 @@\n 2\n 3\n 4\n-5\n+five\n 6\n 7\n 8\n-9\n 10\n 11\n 12\n"
        "@@ -23,6 +22,7 @@\n 23\n 24\n 25\n+new\n 26\n 27\n 28\n"
    )


@pytest.mark.parametrize(
    ("before", "after", "moved", "diff"),
    [
        (None, "a\n", "", "--- /dev/null\n+++ f\n@@ -0,0 +1,1 @@\n+a\n"),
        (None, "", "", "--- /dev/null\n+++ f\n"),
        ("a\n", None, "", "--- f\n+++ /dev/null\n@@ -1,1 +0,0 @@\n-a\n"),
        ("a\n", "b\n", "g", "--- f\n+++ g\n@@ -1,1 +1,1 @@\n-a\n+b\n"),
        ("a\n", "a\n", "g", "--- f\n+++ g\n"),
    ],
)
def test_files_that_come_and_go(before: str | None, after: str | None, moved: str, diff: str) -> None:
    assert changes("f", before, after, moved=moved) == diff


def test_a_long_line_is_cut() -> None:
    shown = changes("f", "", "x" * 5_000 + "\n").splitlines()[3]
    assert shown == f"+{'x' * 999} [the rest of this line is not shown]"


def test_unified_diff_shows_both_texts() -> None:
    assert comparison("a\nx\nc", "a\nb\nc", first=7) == "@@ +7,3 @@\n a\n-x\n+b\n c\n"
    assert comparison("a", "", first=7) == "@@ +7,1 @@\n-a\n+\n"


def test_no_change_is_an_empty_diff() -> None:
    assert changes("f", "a\n", "a\n") == ""


_texts = st.lists(st.sampled_from(["a", "b", "", *map(str, range(20))]), max_size=30).map("\n".join)


@given(_texts, _texts)
def test_the_hunk_rebuilds_both_texts(before: str, after: str) -> None:
    diff = changes("f", before, after)
    if not diff:
        assert before == after
        return
    # `No newline` stands behind the last line of a text; `test_patch_agrees` knows it.
    if "\\ No" not in diff:
        for hunk in diff.split("\n@@ ")[1:]:
            lines = hunk.splitlines(keepends=True)[1:]
            assert "".join(line[1:] for line in lines if line[0] in " -") in before
            assert "".join(line[1:] for line in lines if line[0] in " +") in after


@pytest.mark.os
@given(before=_texts, after=_texts)
def test_patch_agrees(before: str, after: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    diff = changes("f", before, after)
    if not diff:
        return
    file: Path = tmp_path_factory.mktemp("patch") / "f"
    file.write_text(before)
    subprocess.run(["patch", "-s", str(file)], input=diff, text=True, check=True, capture_output=True)
    assert (file.read_text() if file.exists() else "") == after


def test_a_long_change_is_counted_not_shown() -> None:
    diff = changes("f", "", "x\n" * 1_500)
    assert diff.endswith("+x\n[1,001 more lines of this change are not shown]\n")


def test_many_lines_that_differ_are_one_hunk() -> None:
    one, other = ("same\n" + "".join(f"{prefix}{n}\n" for n in range(50_000)) + "end\n" for prefix in "ab")
    start = time.process_time()
    diff = changes("f", one, other)
    assert time.process_time() - start < 5
    assert diff.startswith("--- f\n+++ f\n@@ -2,50000 +2,50000 @@\n-a0\n-a1\n")
    assert diff.endswith("-a499\n[99,500 more lines of this change are not shown]\n")
    diff = changes("f", "", other)
    assert diff.startswith("--- f\n+++ f\n@@ -0,0 +1,50002 @@\n+same\n+b0\n")
    diff = changes("f", f"{one}a\nb\n", f"a\n{other}")
    assert diff.startswith("--- f\n+++ f\n@@ -1,50004 +1,50003 @@\n-same\n-a0\n")


def test_diff_of_a_large_text_is_fast() -> None:
    one = "".join(f"{n}\n" for n in range(2_000_000))
    start = time.process_time()
    diff = changes("f", one, one.replace("\n1999990\n", "\nx\n"))
    assert time.process_time() - start < 5
    assert diff.startswith("--- f\n+++ f\n@@ -1999988,7 +1999988,7 @@\n 1999987\n")
    assert changes("f", one, f"{one}x").endswith(
        "@@ -1999998,3 +1999998,4 @@\n 1999997\n 1999998\n 1999999\n+x\n\\ No newline at end of file\n"
    )


@pytest.mark.parametrize("size", [0, 1, 65_535, 65_536, 65_537, 131_071, 131_072, 131_073])
def test_common_prefix_and_suffix(size: int) -> None:
    same = "xy" * size
    for cut in (size, 2 * size):
        part = same[:cut]
        for one, other in ((part, part), (f"{part}a", f"{part}b"), (part, f"{part}b"), ("", part)):
            expected = len(part) if one else 0
            assert (_common_head(one, other), _common_head(other, one)) == (expected, expected)
            backward = one[::-1], other[::-1]
            assert (_common_tail(*backward), _common_tail(*backward[::-1])) == (expected, expected)


def test_a_replacement_has_no_line_numbers() -> None:
    assert replacement("f", "a\nb", "c") == "--- f\n+++ f\n-a\n-b\n+c\n"
    assert replacement("f", "a", "") == "--- f\n+++ f\n-a\n"


def test_whole_text_patch_assumes_no_old_text() -> None:
    assert whole_text("f", "a\nb") == "+++ f, all of it:\n+a\n+b\n\\ No newline at end of file\n"
