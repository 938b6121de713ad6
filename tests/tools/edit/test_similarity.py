"""How alike lines and blocks are."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tools.edit.similarity import Alignment, align, closest, similarity
from engine.tools.edit.source_text import SourceText


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("", "", 1.0),
        ("a", "", 0.0),
        ("abcd", "abcx", 0.75),
        ("kitten", "sitting", 1 - 3 / 7),
        ("x" * 3_000, "x" * 3_000, 1.0),
        ("x" * 3_000, "x" * 2_999, 0.0),  # too long to be compared
    ],
)
def test_similar_lines(one: str, other: str, expected: float) -> None:
    assert similarity(one, other) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("request_", "block", "expected"),
    [
        (["a", "b"], ["a", "b"], Alignment((0, 1), 1.0)),
        ([], [], Alignment((), 1.0)),
        (["", ""], [""], Alignment((0, None), 1.0)),
        (["abcd"], ["abcx"], Alignment((0,), 0.75)),
        # Blank lines neither count nor are in the way.
        (["abcd"], ["", "abcx", ""], Alignment((1,), 0.75)),
        (["a", "", "b", ""], ["a", "b", ""], Alignment((0, None, 1, 2), 1.0)),
        # A line that the file has not is not there.
        (["a", "gone", "b"], ["a", "b"], Alignment((0, None, 1), 2 / 3)),
        (["abcd", "zzzz", "b"], ["abcx", "b"], Alignment((0, None, 1), 1.75 / 3)),
        (["zzzz", "abcd", "b"], ["abcx", "b"], Alignment((None, 0, 1), 1.75 / 3)),
        # One that the request has not can't be aligned, however alike the rest.
        (["a", "b"], ["a", "new", "b"], None),
        (["a", "b", "c"], ["new", "a", "b"], None),
        ([], ["new"], None),
    ],
)
def test_aligned_blocks(request_: list[str], block: list[str], expected: Alignment | None) -> None:
    assert align(request_, block) == expected


_blocks = st.lists(st.sampled_from(["", "abc", "abx", "xyz", "x"]), max_size=8)


@given(_blocks, _blocks)
def test_alignment_is_ordered_and_complete(asked: list[str], block: list[str]) -> None:
    aligned = align(asked, block)
    if aligned is None:
        assert sum(map(bool, block)) > 0
        return
    assert len(aligned.pairs) == len(asked)
    pairs = [pair for pair in aligned.pairs if pair is not None]
    assert pairs == sorted(set(pairs))
    assert {index for index, line in enumerate(block) if line} <= set(pairs)
    assert 0 <= aligned.mean <= 1
    assert all(bool(asked[i]) == bool(block[p]) for i, p in enumerate(aligned.pairs) if p is not None)


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (["two", "three"], (1, 2)),
        (["    two", "2.5", "three"], (0, 2)),  # the first of several windows
        (["one", "x", "three"], (0, 2)),
        (["one", "x", "two", "four"], (0, 3)),
        (["one", "four"], (2, 3)),  # the longer line weighs more
        (["something completely else"], None),
        (["threx"], (2, 2)),
        (["above", "threx", "below"], (1, 3)),
        ([""], None),
        (["one"] * 9, (0, 4)),
    ],
)
def test_the_closest_lines(wanted: list[str], expected: tuple[int, int] | None) -> None:
    assert closest(SourceText("one\ntwo\nthree\n  four\nfive\n"), wanted) == expected


def test_an_empty_file_has_none() -> None:
    assert closest(SourceText(""), ["a"]) is None


def test_similarity_is_bounded() -> None:
    """Neither blocks without a common line nor a large file take long."""
    one, other = ([f"{letter * 80}{n}" for n in range(3_000)] for letter in "ab")
    start = time.process_time()
    assert align(one, other) is None
    closest(SourceText("\n".join(one * 100)), other)
    assert time.process_time() - start < 2
