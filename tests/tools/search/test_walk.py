"""A walk in Python leaves out what ripgrep leaves out, so that `list` shows what `grep` and `glob` search."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.tools.search.walk import Folder, start
from tests.support.searched import Link, folders, listed_by_ripgrep, make, scratch

pytestmark = [pytest.mark.os, pytest.mark.slow]


def walked(folder: Path, *, include_ignored: bool = False) -> list[bytes]:
    return sorted(_files(start(os.fsencode(folder), include_ignored=include_ignored)))


def _files(folder: Folder) -> Iterator[bytes]:
    listing = folder.read()
    for entry in listing.entries:
        if entry.kind == "file":
            yield folder.relative + entry.name
        elif entry.kind == "folder":
            yield from _files(listing.below(entry.name))


@given(folders(), st.sampled_from(["", "a", "b"]), st.booleans())
def test_a_walk_finds_the_files_of_ripgrep(content: dict[str, object], below: str, include_ignored: bool) -> None:
    with scratch() as folder:
        make(folder, content)
        place = folder / below
        root = place if place.is_dir() and not place.is_symlink() else folder
        expected = listed_by_ripgrep(root, include_ignored=include_ignored)
        assert walked(root, include_ignored=include_ignored) == expected


def test_a_walk_follows_worktrees_and_submodules(tmp_path: Path) -> None:
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
        assert walked(folder) == listed_by_ripgrep(folder)
    assert walked(tmp_path / "tree") == [b".gitignore"]
