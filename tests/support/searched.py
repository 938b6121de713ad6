"""Folders to search, and ripgrep to search them."""

import os
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs
from hypothesis import strategies as st

from engine.tools.search.ripgrep import SearchRequest, command
from engine.tools.search.walk import is_in_repository

_FOLDERS = os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")])
# A core dependency brings it; without it the tests of searching fail.
RIPGREP = shutil.which("rg", path=_FOLDERS) or "rg"


@attrs.frozen
class Link:
    """A symbolic link."""

    target: str


def make(folder: Path, content: Mapping[str, object]) -> None:
    """Write what a test describes."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, what in content.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        match what:
            case Link(target):
                path.symlink_to(target)
            case str():
                path.write_text(what, encoding="utf-8", newline="")
            case bytes():
                path.write_bytes(what)
            case Mapping():
                make(path, what)
            case _:
                raise TypeError(what)


@contextmanager
def scratch() -> Generator[Path]:
    """A folder for one example of a property; in memory where that can be."""
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:  # noqa: PTH112
        yield Path(folder)


def listed_by_ripgrep(folder: Path, **options: object) -> list[bytes]:
    """Return the paths of the files that ripgrep lists."""
    in_repository = is_in_repository(os.path.realpath(os.fsencode(folder)))
    arguments = command(
        RIPGREP,
        SearchRequest(pattern=None, **options),  # type: ignore[arg-type]  # fields of it
        in_repository=in_repository,
        ordered=True,
    )
    done = subprocess.run(arguments, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
    assert done.returncode in {0, 1}, done
    return sorted(path.removeprefix(b"./") for path in done.stdout.split(b"\0") if path)


# -- strategies ------------------------------------------------------------------------------------------------------

_names = st.sampled_from(["a", "b", "c.py", "d.txt", ".h", "e e", "é", "f.py.txt", "[x]", "A", "x{y", "n\nn"])
_rules = st.one_of(
    st.sampled_from(
        [
            *("a", "b", "*.py", "*.txt", "!c.py", "!a", "/a", "a/", "b/a", "b/**", "**/a", "a/**/b", "*", "!*/", "!b/"),
            *(
                "/b/*",
                "!/b/a",
                "**",
                "[ab]",
                "[!a]",
                "?",
                "\\!a",
                "#x",
                "",
                "  ",
                "a ",
                "a\\ ",
                "é",
                "{a,b}",
                "\\[x\\]",
            ),
            *("[x]", "!*.py", "**/c.py", "/*", "b/*.py", "a*", "*a*", "/**/a", "e e", ".h", ".*", "c.{py,txt}", "{a,b"),
            *(
                "a}",
                "[",
                "\\",
                "!",
                "/",
                "//",
                "a//b",
                "**/",
                "!**/",
                "a/**",
                "[a-c]",
                "[c-a]",
                "[]a]",
                "x\\{y",
                "A*A*A",
            ),
        ]
    ),
    st.text(st.sampled_from("ab*/!?[]."), max_size=6),
)
_rule_files = st.tuples(
    st.sampled_from([".gitignore", ".gitignore", ".ignore", ".rgignore", ".git/info/exclude"]),
    st.lists(_rules, max_size=4).map("\n".join),
)


def folders(depth: int = 2) -> st.SearchStrategy[dict[str, object]]:
    """Folders with files, links, repositories, and the files that say what to ignore."""
    leaf = st.sampled_from(["", "", Link("a"), Link(".."), Link("nowhere"), Link(".")])
    inner = leaf if depth == 0 else st.one_of(leaf, folders(depth - 1), folders(depth - 1))
    return st.builds(
        lambda names, rules, repository: {**names, **dict(rules), **({".git/HEAD": ""} if repository else {})},
        st.dictionaries(_names, inner, max_size=4),
        st.lists(_rule_files, max_size=2),
        st.booleans(),
    )
