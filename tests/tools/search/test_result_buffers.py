"""Piles of hits, and the windows that are cut of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tools.search.result_buffers import AllHits, HitBuffer, HitCounter, HitWindow, drop_last, in_order, window
from engine.tools.search.results import Hit


def hits(text: str) -> list[Hit]:
    """`a1 a2- b1`: paths, numbers, and a hyphen for context."""
    return [
        Hit(path=word[0].encode(), number=int(word[1:].rstrip("-")), is_match=not word.endswith("-"))
        for word in text.split()
    ]


def told(found: object) -> str:
    assert isinstance(found, list | tuple)
    return " ".join(f"{hit.path.decode()}{hit.number}{'' if hit.is_match else '-'}" for hit in found)


def pile_up(pile: HitBuffer, text: str) -> None:
    for hit in hits(text):
        if not pile.is_full:
            pile.add(hit)
    pile.finish()


def test_files_are_sorted_by_path_name_by_name() -> None:
    found = [Hit(path=path) for path in (b"b", b"a.b", b"a/c", b"a/b/c", b"a-b/c", b"B")]
    assert [hit.path for hit in in_order(found)] == [b"B", b"a/b/c", b"a/c", b"a-b/c", b"a.b", b"b"]


@pytest.mark.parametrize(
    ("skip", "take", "before", "after", "expected"),
    [
        (0, 9, 1, 1, "a1- a2 a3- a7- a8 a9 a10- b1"),
        (0, 1, 1, 1, "a1- a2 a3-"),
        (1, 1, 1, 1, "a7- a8"),
        (2, 1, 1, 1, "a9 a10-"),
        (3, 1, 1, 1, "b1"),
        (0, 9, 0, 0, "a2 a8 a9 b1"),
        (1, 2, 0, 0, "a8 a9"),
        (4, 9, 1, 1, ""),
    ],
)
def test_window_has_context_of_its_matches(skip: int, take: int, before: int, after: int, expected: str) -> None:
    found = hits("a1- a2 a3- a7- a8 a9 a10- b1")
    assert told(window(found, skip, take, before=before, after=after)) == expected


def test_full_heap() -> None:
    pile = AllHits(1_000)
    pile_up(pile, "a1 a2 a3 a4 a5")
    assert (told(pile.hits), pile.is_full) == ("a1 a2 a3", True)


def test_a_window_of_what_comes_in_order() -> None:
    pile = HitWindow(skip=1, take=2, held=10_000, before=1)
    pile_up(pile, "a1- a2 a3- a7- a8 a9 a10- b1- b2 b3 b4")
    assert (told(pile.hits), pile.is_full) == ("a1- a3- a7- a8 a9 a10- b1- b2", True)
    small = HitWindow(skip=0, take=100, held=1_000)
    pile_up(small, "a1 a2 a3 a4 a5")
    assert (told(small.hits), small.is_full) == ("a1 a2 a3", True)


def test_binary_file_is_dropped_with_its_skips() -> None:
    pile = HitWindow(skip=2, take=2, held=10_000)
    pile_up(pile, "a1 b1 b2")
    pile.drop(b"b")
    pile_up(pile, "c1 c2 c3")
    assert told(pile.hits) == "c2 c3"
    everything = AllHits(10_000)
    pile_up(everything, "a1 b1 b2")
    everything.drop(b"c")
    assert told(everything.hits) == "a1 b1 b2"
    everything.drop(b"b")
    assert told(everything.hits) == "a1"


def test_a_tally_counts_lines() -> None:
    heap = AllHits(10_000)
    pile = HitCounter(heap)
    pile_up(pile, "a1 a3 b1")
    for hit in hits("c1 c2"):
        pile.add(hit)
    pile.drop(b"b")
    pile.drop(b"c")
    pile_up(pile, "d4")
    assert [(hit.path, hit.number) for hit in pile.hits] == [(b"a", 2), (b"b", 1), (b"d", 1)]


_files = st.lists(
    st.tuples(st.sampled_from("abcdef"), st.lists(st.booleans(), min_size=1, max_size=5), st.booleans()),
    max_size=5,
    unique_by=lambda file: file[0],
)


@given(_files, st.integers(0, 6), st.integers(1, 4), st.integers(0, 2), st.integers(0, 2))
def test_both_buffers_give_the_same_window(
    files: list[tuple[str, list[bool], bool]], skip: int, take: int, before: int, after: int
) -> None:
    """Whether all hits were held and sorted, or they came in order and the search was stopped."""
    heap, ordered = AllHits(1 << 20), HitWindow(skip, take, 1 << 20, before)
    for path, lines, is_binary in sorted(files):
        for number, is_match in enumerate(lines, 1):
            near = lines[max(0, number - 1 - after) : number + before]
            if not (is_match or any(near)):
                continue
            for pile in (heap, ordered):
                if not pile.is_full:
                    pile.add(Hit(path=path.encode(), number=number, is_match=is_match))
        if is_binary and not ordered.is_full:
            heap.drop(path.encode())
            ordered.drop(path.encode())
    if ordered.is_full:  # it has stopped within a file: what was binary behind it is not known
        return
    one = window(in_order(heap.hits), skip, take, before=before, after=after)
    assert one == window(ordered.hits, 0, take, before=before, after=after)


def test_dropping_counts_matches() -> None:
    found = hits("a1 b1 b2- b3")
    assert (drop_last(found, b"b"), told(found)) == (2, "a1")
