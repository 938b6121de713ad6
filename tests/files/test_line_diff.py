"""What differs between two texts: all of it, as little as possible, in bounded time."""

import time
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.files.line_diff import Difference, differences

_lines = st.lists(st.sampled_from(["a", "b", "c", "", "line"]), max_size=12)


@given(_lines, _lines)
def test_diff_transforms_one_text_into_the_other(old: list[str], new: list[str]) -> None:
    found = differences(old, new)
    built: list[str] = []
    at = 0
    for difference in found:
        built += old[at : difference.start]
        assert len(built) == difference.new_start
        built += new[difference.new_start : difference.new_end]
        at = difference.end
    assert built + old[at:] == new
    assert all(one.end < other.start for one, other in pairwise(found))
    assert all((d.start, d.new_start) != (d.end, d.new_end) for d in found)


@given(_lines, _lines)
def test_no_more_lines_than_need_be(old: list[str], new: list[str]) -> None:
    lengths = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i, one in enumerate(old):
        for j, other in enumerate(new):
            lengths[i + 1][j + 1] = lengths[i][j] + 1 if one == other else max(lengths[i][j + 1], lengths[i + 1][j])
    kept = len(old) - sum(d.end - d.start for d in differences(old, new))
    assert kept == lengths[-1][-1]


def test_large_texts_that_differ_everywhere_are_one_difference() -> None:
    half = range(10_000)
    old, new = (
        ["same", *(f"{letter}{n}" for n in half), "same", *(f"{letter}{n}" for n in half), "end"] for letter in "ab"
    )
    start = time.process_time()
    assert differences(old, new) == [Difference(1, 20_002, 1, 20_002)]
    assert time.process_time() - start < 2


def test_large_texts_with_two_changes_are_two_differences() -> None:
    old = [f"line {n % 500}" for n in range(8_000)]
    new = ["first", *old[1:4_000], *old[4_001:]]
    assert differences(old, new) == [Difference(0, 1, 0, 1), Difference(4_000, 4_001, 4_000, 4_000)]
