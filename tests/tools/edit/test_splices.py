"""From a loose match to splices: only what a request changes, indented as the file is."""

import pytest

from engine.tools.edit.source_text import SourceText
from engine.tools.edit.splices import Request, make_splices


def merged(text: str, old: str, new: str, pairs: list[int | None]) -> str:
    source = SourceText(text)
    return source.spliced(make_splices(source, Request.of(old, new), pairs))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("a", "b", Request(("a",), ("b",))),
        ("a\n", "b\n", Request(("a",), ("b",))),
        ("a\n", "", Request(("a",), ())),
        ("a", "", Request(("a",), ("",))),
        ("a", "b\n", Request(("a",), ("b", ""))),
        ("a\n", "b", Request(("a",), ("b",))),
        ("\na\n\n", "b\n", Request(("", "a", ""), ("b",))),
    ],
)
def test_the_lines_of_a_request(old: str, new: str, expected: Request) -> None:
    assert Request.of(old, new) == expected


@pytest.mark.parametrize(
    ("text", "old", "new", "pairs", "after"),
    [
        ("A\nB\nC\n", "a\nb\nc", "a\nx\nc", [0, 1, 2], "A\nx\nC\n"),
        ("A\nB\nC\n", "a\nb\nc", "a\nc", [0, 1, 2], "A\nC\n"),
        ("A\nB\nC\n", "a\nb\nc", "a\nx\nb\nc\ny", [0, 1, 2], "A\nx\nB\nC\ny\n"),
        ("A\nB\n", "a\nb", "x\na\nb", [0, 1], "x\nA\nB\n"),
        # An old line that the file has not: it stays away, and what comes after it comes before the next one.
        ("A\nC\n", "a\nb\nc", "a\nb\nx\nc", [0, None, 1], "A\nx\nC\n"),
        ("A\nC\n", "a\nb\nc", "a\nx\nc", [0, None, 1], "A\nx\nC\n"),
        ("A\nC\n", "a\nb\nc", "a\nc", [0, None, 1], "A\nC\n"),
        ("A\nC\n", "a\nc\nb", "a\nc\nb\nx", [0, 1, None], "A\nC\nx\n"),
        ("A\n", "b", "b\nx", [None], "x\nA\n"),
        # A blank line of the file that the request has not stays between those that stay.
        ("A\n\nB\nC\n", "a\nb\nc", "a\nb\nx", [0, 2, 3], "A\n\nB\nx\n"),
        ("A\n\nB\nC\n", "a\nb\nc", "x\nc", [0, 2, 3], "x\nC\n"),
    ],
)
def test_only_what_changes_is_changed(text: str, old: str, new: str, pairs: list[int | None], after: str) -> None:
    assert merged(text, old, new, pairs) == after


@pytest.mark.parametrize(
    ("text", "old", "new", "after"),
    [
        # Steps of another width, and more of them than the request has shown.
        ("if a:\n    b\n", "if a:\n  b", "if a:\n  b\n  if c:\n    d", "if a:\n    b\n    if c:\n        d\n"),
        ("if a:\n  b\n", "if a:\n    b", "if a:\n    b\n    if c:\n        d", "if a:\n  b\n  if c:\n    d\n"),
        ("  x\n    y\n", "x\n  y", "x\nz\n   w\n  y", "  x\n  z\n     w\n    y\n"),
        # Less than any line of the request.
        ("        a\n        b\n", "    a\n    b", "    a\nc\n    b", "        a\n    c\n        b\n"),
        ("    a\n    b\n", "  a\n  b", "  a\nc\n  b", "    a\n  c\n    b\n"),
        ("a\nb\n", "  a\n  b", "  a\nc\n  b", "a\nc\nb\n"),
        # Tabs for blanks and the reverse.
        ("\ta\n\tb\n", "  a\n  b", "  a\n    c\n  b", "\ta\n\t\tc\n\tb\n"),
        ("\ta\n\tb\n", "  a\n  b", "  a\nc\n  b", "\ta\nc\n\tb\n"),
        ("    a\n        b\n", "\ta\n\t\tb", "\ta\n\t\t\tc\n\t\tb", "    a\n            c\n        b\n"),
        ("    a\n", "  a", "  a\n\tb", "    a\n      b\n"),  # mixed: by width
        ("        a\n", "\ta", "\ta\n  b", "        a\n      b\n"),
        ("\ta\n\tb\n", "a\nb", "a\n\tc\nb", "\ta\n\t\tc\n\tb\n"),
        # A request without any indentation: as the lines nearest to it.
        ("a:\n    b\nc\n", "a:\nb\nc", "a:\nb\nx\nc", "a:\n    b\nx\nc\n"),
        ("a:\n    b\n    c\nd\n", "a:\nb\nc\nd", "a:\nb\nx\nd", "a:\n    b\n    x\nd\n"),
        # Blank lines get none.
        ("    a\n    b\n", "a\nb", "a\n\n  \nb", "    a\n\n  \n    b\n"),
    ],
)
def test_inserted_text_takes_the_files_indentation(text: str, old: str, new: str, after: str) -> None:
    pairs: list[int | None] = list(range(old.count("\n") + 1))
    assert merged(text, old, new, pairs) == after
