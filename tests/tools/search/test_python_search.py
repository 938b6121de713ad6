"""The searcher in Python answers as ripgrep does, whatever there is to search and whatever for. Properties, and a few of their finds."""

from pathlib import Path

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tools.search.python_search import Job
from engine.tools.search.ripgrep import MAX_COLUMNS
from tests.support.searched import (
    Answer,
    Link,
    ask_ours,
    ask_ripgrep,
    contents,
    folders,
    make,
    needs_ripgrep,
    patterns,
    scratch,
    without_columns,
    without_places,
)

pytestmark = [pytest.mark.os, pytest.mark.slow]


def assert_same(ours: Answer, theirs: Answer, *, exact: bool = False) -> None:
    if ours.refused:
        return  # told as such: test_rust_regex.py has the list
    assert (ours.wrong, theirs.wrong) in {(False, False), (True, True)}
    strip = without_columns if exact else without_places
    assert strip(ours.hits) == strip(theirs.hits)


@needs_ripgrep
@given(
    folders(),
    st.sampled_from(["", "a", "b"]),
    st.booleans(),
    st.lists(st.sampled_from(["*.py", "a*"]), max_size=2),
    st.integers(0, 3),
)
def test_files_are_the_same(
    content: dict[str, object], below: str, include_ignored: bool, names: list[str], depth: int
) -> None:
    with scratch() as folder:
        make(folder, content)
        place = folder / below
        root = place if place.is_dir() and not place.is_symlink() else folder
        job = Job(pattern=None, names=names, depth=depth, include_ignored=include_ignored)
        assert ask_ours(root, job) == ask_ripgrep(root, job)


@needs_ripgrep
@given(patterns(), contents(), contents(), st.booleans(), st.booleans(), st.integers(0, 2), st.integers(0, 2))
def test_lines_and_counts_are_the_same(
    pattern: str, one: bytes, other: bytes, ignore_case: bool, counts: bool, before: int, after: int
) -> None:
    job = Job(
        pattern=pattern, ignore_case=ignore_case, counts=counts, before=before, after=after, max_columns=MAX_COLUMNS
    )
    with scratch() as folder:
        make(folder, {"a": one, "b": other})
        has_mark = one.startswith(b"\xef\xbb\xbf") or other.startswith(b"\xef\xbb\xbf")  # it counts it in, we don't
        assert_same(ask_ours(folder, job), ask_ripgrep(folder, job), exact=not has_mark)


@needs_ripgrep
@given(patterns(multiline=True), contents(), contents(), st.booleans(), st.integers(0, 2), st.integers(0, 2))
def test_matches_over_several_lines_are_the_same(
    pattern: str, one: bytes, other: bytes, ignore_case: bool, before: int, after: int
) -> None:
    job = Job(
        pattern=pattern, multiline=True, ignore_case=ignore_case, before=before, after=after, max_columns=MAX_COLUMNS
    )
    with scratch() as folder:
        make(folder, {"a": one, "b": other})
        assert_same(ask_ours(folder, job), ask_ripgrep(folder, job))


@needs_ripgrep
@given(st.text(st.sampled_from("ab.*é\\ (A-[i"), min_size=1, max_size=4), contents(), st.booleans())
def test_plain_texts_are_the_same(text: str, content: bytes, ignore_case: bool) -> None:
    job = Job(pattern=text, literal=True, ignore_case=ignore_case, max_columns=MAX_COLUMNS)
    with scratch() as folder:
        make(folder, {"a": content})
        assert_same(ask_ours(folder, job), ask_ripgrep(folder, job))


@needs_ripgrep
@pytest.mark.parametrize("include_ignored", [False, True])
@pytest.mark.parametrize(
    ("content", "only"),
    [
        ({"a": "x\n", "b": "x\n"}, "a"),
        ({"a": "x\n", ".gitignore": "a\n"}, "a"),
        ({"a": b"x\n\0"}, "a"),
        ({"a [1]{2}*?\\!,^#": "x\n", "a [1]": "x\n"}, "a [1]{2}*?\\!,^#"),
        ({"a ": "x\n", "a": "x\n"}, "a "),
        ({"\t": "x\n", "a": "x\n"}, "\t"),
        ({"!a": "x\n"}, "!a"),
        ({"-a": "x\n"}, "-a"),
        ({"é": "x\n", "e": "x\n"}, "é"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_one_file_is_the_same(tmp_path: Path, content: dict[str, object], only: str, include_ignored: bool) -> None:
    make(tmp_path, content)
    job = Job(pattern="x", only=only, include_ignored=include_ignored, max_columns=MAX_COLUMNS)
    ours = ask_ours(tmp_path, job)
    assert ours == ask_ripgrep(tmp_path, job)
    assert bool(ours.hits) is (content[only] != b"x\n\0")


# Boundaries of words beside bytes that are no text: ripgrep looks back over stray ones.
EDGE_PATTERNS = ("\\Bz", "\\bz", "\\b{start}z", "\\b{start-half}z", "z\\B", "z\\b", "z\\b{end-half}")
EDGES = {
    b"\xffz\xff": (0, 1, 1, 0, 0, 1, 0),
    b"z\xa9z\xa9": (1, 1, 1, 1, 0, 1, 0),
    b"a\xa9\xa9\xa9z ": (1, 0, 0, 0, 0, 1, 1),
    b"a\xa9\xa9\xa9\xa9z ": (0, 1, 1, 0, 0, 1, 1),
    b"\xc3\xa9\xa9\xa9z ": (1, 0, 0, 0, 0, 1, 1),
    b"\xe2\x82\xac\xa9z ": (0, 1, 1, 1, 0, 1, 1),
    b"\xf0\x9f\x98\x80\xa9z ": (0, 1, 1, 0, 0, 1, 1),
    b"\n\xa9z ": (0, 1, 1, 0, 0, 1, 1),
}

FOUND = [
    ("\\B", b"a\n", 0),
    ("\\B", b"a\r\n", 1),
    ("\\B", b"\xff", 0),
    ("$", b"a", 1),
    ("^$", b"a\r\n", 0),
    ("^$", b"a\r", 1),
    ("^b", b"a\rb\n", 1),
    ("x*", b"", 0),
    ("a$", b"\xef\xbb\xbfa\n", 1),
    ("^a", b"\xef\xbb\xbfa\n", 1),
    ("(?i)k", "\u212a\n".encode(), 1),
    ("(?i)ß", "ẞ\n".encode(), 1),
    ("(?i)i", "İı\n".encode(), 0),
    (".", b"\xed\xa0\x80", 0),
    *(
        (edge, content, count)
        for content, counts in EDGES.items()
        for edge, count in zip(EDGE_PATTERNS, counts, strict=True)
    ),
]


@needs_ripgrep
@pytest.mark.parametrize(("pattern", "content", "count"), FOUND)
def test_odd_corners_are_the_same(tmp_path: Path, pattern: str, content: bytes, count: int) -> None:
    make(tmp_path, {"a": content})
    job = Job(pattern=pattern, max_columns=MAX_COLUMNS)
    ours = ask_ours(tmp_path, job)
    assert_same(ours, ask_ripgrep(tmp_path, job))
    assert len(ours.hits) == count


LARGE = 100_000
FILES = {
    "nul-behind": b"x\n" * LARGE + b"\0",
    "nul-before": b"\0" + b"x\n" * 3,
    "nul-behind-a-block": b"y" * 70_000 + b"\nx\n\0\nx\n",
    "giant-line": b"y" * LARGE + b"x" + b"y" * LARGE + b"\nx\n",
    "many-bytes-a-character": "é".encode() * 3_000 + b"x\n",
    "across-blocks": (b"y" * 65_535 + "é".encode() + b"x\n") * 3,
    "utf-16": ("y\n" * 70_000 + "x\n").encode("utf-16"),
    "blank-lines": b"\n" * 70_000 + b"x",
    "crlf-across-blocks": b"y" * 65_535 + b"\r\nx\r\n",
    "no-line": b"",
}


@needs_ripgrep
@pytest.mark.parametrize("multiline", [False, True])
@pytest.mark.parametrize("counts", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_large_files_are_the_same(tmp_path: Path, name: str, counts: bool, multiline: bool) -> None:
    make(tmp_path, {name: FILES[name], "other": "x\n"})
    job = Job(
        pattern="x$", counts=counts and not multiline, multiline=multiline, before=1, after=1, max_columns=MAX_COLUMNS
    )
    ours, theirs = ask_ours(tmp_path, job), ask_ripgrep(tmp_path, job)
    cut = [attrs.evolve(hit, text=hit.text[:MAX_COLUMNS]) for hit in without_columns(ours.hits)]
    assert cut == [attrs.evolve(hit, text=hit.text[:MAX_COLUMNS]) for hit in without_columns(theirs.hits)]
    assert ours.hits


@needs_ripgrep
def test_worktrees_and_submodules_are_the_same(tmp_path: Path) -> None:
    make(
        tmp_path,
        {
            ".git/info/exclude": "a\n",
            "a": "",
            "b": "",
            "tree": {".git": f"gitdir: {tmp_path}/.git/worktrees/tree\n", "a": "", "b": "", ".gitignore": "b\n"},
            ".git/worktrees/tree/commondir": "../..\n",
            "module": {".git": "gitdir: ../.git/modules/module\n", "a": "", "b": ""},
            "link": Link("tree"),
        },
    )
    for folder in (tmp_path, tmp_path / "tree", tmp_path / "module"):
        assert ask_ours(folder, Job(pattern=None)) == ask_ripgrep(folder, Job(pattern=None))
    assert [hit.path for hit in ask_ours(tmp_path / "tree", Job(pattern=None)).hits] == [b".gitignore"]
