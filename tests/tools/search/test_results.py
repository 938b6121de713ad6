"""Reading what searchers print, however it is cut into chunks."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tools.search.results import MAX_ERROR_BYTES, MAX_RECORD_BYTES, Binary, ErrorReader, Form, Hit, HitReader

LINES = (
    b"./a\x001\x1f3\x1f0\x1ftext: 1\r\n"
    b"./a\x002-8-context\n"
    b"./new\nline\x003\x1f9\x1f\r\r\n"
    b"./b\x004\x1f1\x1f20\x1f\xff\n"
    b'./b: WARNING: stopped searching binary file after match (found "\\0" byte around offset 77)\n'
    b"./c\x0012\x1f1\x1f0\x1f\n"
)
HITS: list[Hit | Binary] = [
    Hit(path=b"a", number=1, column=3, text=b"text: 1"),
    Hit(path=b"a", number=2, offset=8, text=b"context", is_match=False),
    Hit(path=b"new\nline", number=3, offset=9),
    Hit(path=b"b", number=4, column=1, offset=20, text=b"\xff"),
    Binary(b"b"),
    Hit(path=b"c", number=12, column=1),
]


def read(form: Form, *chunks: bytes) -> list[Hit | Binary]:
    reader = HitReader(form)
    return [*(found for chunk in chunks for found in reader.feed(chunk)), *reader.finish()]


def split(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[low:high] for low, high in pairwise(places)]


@given(st.lists(st.integers(0, 1_000), max_size=8))
def test_lines(cuts: list[int]) -> None:
    assert read("lines", *split(LINES, cuts)) == HITS


@given(st.lists(st.integers(0, 1_000), max_size=8))
def test_counts_and_names(cuts: list[int]) -> None:
    assert read("counts", *split(b"./a\x003\r\n./b/c\x0012\n", cuts)) == [
        Hit(path=b"a", number=3),
        Hit(path=b"b/c", number=12),
    ]
    assert read("names", *split(b"./a\0./b\nc\0", cuts)) == [Hit(path=b"a"), Hit(path=b"b\nc")]


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "notice",
    [
        'WARNING: stopped searching binary file after match (found "\\0" byte around offset 1)',
        'binary file matches (found "\\0" byte around offset 1)',
    ],
)
def test_a_notice_at_the_end(notice: str, ending: str) -> None:
    assert read("lines", b"./a\x001\x1f1\x1f0\x1fx\n./a: " + (notice + ending).encode())[1:] == [Binary(b"a")]


def test_a_giant_line_is_not_held() -> None:
    reader = HitReader("lines")
    found = list(reader.feed(b"./a\x001\x1f1\x1f0\x1f"))
    for _ in range(100):
        found += reader.feed(b"x" * 10_000)
    found += reader.feed(b"y\n./b\x002\x1f1\x1f0\x1fz\n")
    first, second = found
    assert isinstance(first, Hit)
    assert first.path == b"a"
    assert 0 < len(first.text) <= MAX_RECORD_BYTES + 10_000
    assert second == Hit(path=b"b", number=2, column=1, text=b"z")


@given(st.lists(st.binary(max_size=30), max_size=5), st.sampled_from(["lines", "counts", "names"]))
def test_anything_can_be_read(chunks: list[bytes], form: Form) -> None:
    read(form, *chunks)


UNREADABLE = b"rg: ./a: Permission denied (os error 13)\n"
SENSELESS = b"rg: ./.gitignore: line 1: error parsing glob '{a': unclosed alternate group\n"
WRONG = b"rg: regex parse error:\n    (?:a()\n    ^\nerror: unclosed group\n"


@given(
    st.lists(st.sampled_from([UNREADABLE, SENSELESS]), max_size=4),
    st.booleans(),
    st.lists(st.integers(0, 500), max_size=5),
)
def test_errors_are_separated_from_unreadable_files(others: list[bytes], is_wrong: bool, cuts: list[int]) -> None:
    reader = ErrorReader()
    for chunk in split(b"".join([*others, WRONG if is_wrong else b""]), cuts):
        reader.feed(chunk)
    assert reader.unreadable is (UNREADABLE in others)
    assert reader.message == (WRONG.decode().strip() if is_wrong else "")


def test_a_thousand_complaints_are_not_held() -> None:
    reader = ErrorReader()
    for n in range(1_000):
        reader.feed(b"rg: ./a%d: no such thing\n" % n)
    assert not reader.unreadable
    assert len(reader.message) <= MAX_ERROR_BYTES
    reader.feed(UNREADABLE)
    assert reader.unreadable
