"""Folders to search, and the two searchers to ask: ripgrep, and the engine's own in this process."""

import io
import os
import re
import shutil
import subprocess
import sysconfig
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest
from hypothesis import strategies as st

from engine.tools.search.python_search import Job
from engine.tools.search.python_search import Searcher as Pure
from engine.tools.search.result_buffers import Heap, in_order
from engine.tools.search.results import ErrorReader, Hit, HitReader
from engine.tools.search.ripgrep import Searcher
from engine.tools.search.rust_reader import PatternError
from engine.tools.search.walk import is_in_repository

RIPGREP = shutil.which("rg", path=os.pathsep.join([sysconfig.get_path("scripts"), os.environ.get("PATH", "")]))
needs_ripgrep = pytest.mark.skipif(RIPGREP is None, reason="ripgrep is not installed (the extra `search` brings it)")


@attrs.frozen
class Link:
    """A symbolic link."""

    target: str


@attrs.frozen
class Answer:
    """What a searcher found. `wrong`: it refused the pattern. `refused`: it can't do it, though ripgrep might."""

    hits: tuple[Hit, ...] = ()
    wrong: bool = False
    refused: bool = False


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


def ask_ripgrep(folder: Path, job: Job) -> Answer:
    assert RIPGREP is not None
    in_repository = is_in_repository(os.path.realpath(os.fsencode(folder)))
    command = Searcher(RIPGREP).command(job, in_repository=in_repository, ordered=True)
    done = subprocess.run(command, cwd=folder, capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=False)
    errors = ErrorReader()
    errors.feed(done.stderr)
    if done.returncode == 2 and errors.complaint:
        return Answer(wrong=True)
    assert done.returncode in {0, 1, 2}, done
    assert not errors.unreadable
    return Answer(hits=read(job, done.stdout))


def ask_ours(folder: Path, job: Job) -> Answer:
    out = io.BytesIO()
    try:
        code = Pure(job, out).run(str(folder))
    except PatternError as error:
        return Answer(wrong=True, refused="ripgrep is not installed" in str(error))
    hits = read(job, out.getvalue())
    assert code in {0, 1}
    return Answer(hits=hits)


def read(job: Job, output: bytes) -> tuple[Hit, ...]:
    """Return the hits of an output, without what ripgrep does not always tell: the column at the end of a file."""
    reader = HitReader("names" if job.pattern is None else "counts" if job.counts else "lines")
    pile = Heap(1 << 30)
    for found in (*reader.feed(output), *reader.finish()):
        if isinstance(found, Hit):
            pile.add(found)
        else:
            pile.drop(found.path)
    return tuple(in_order(pile.hits))


# -- strategies ------------------------------------------------------------------------------------------------------

_names = st.sampled_from(["a", "b", "c.py", "d.txt", ".h", "e e", "é", "f.py.txt", "[x]", "A", "x{y", "n\nn"])
_line = st.text(st.sampled_from("aab bxA.é1_\r"), max_size=6)
_lines = st.lists(_line, max_size=5)
_STRAY = re.compile(rb"(?<=\n)[\x80-\xbf]+")
_bits = (b"a", b"\xff", b"b\n", b"\xc3", b"\xa9", b"ab\n", b"\0", b"\r", b"\n", b"\xe2\x82", b"\xed\xa0\x80")


def contents() -> st.SearchStrategy[bytes]:
    """Files: with and without a last line end, CRLF, lone CRs, bytes that are no UTF-8, NULs, byte order marks, UTF-16.

    No line but the first begins with a byte that goes on with a character. Whether there is an edge of a word behind
    it depends, for ripgrep, on where it has found something before.
    """
    text = st.text(st.sampled_from("ab\n\r é"), max_size=6)
    return st.one_of(
        _lines.map(lambda lines: "\n".join(lines).encode()),
        _lines.map(lambda lines: "".join(f"{line}\n" for line in lines).encode()),
        _lines.map(lambda lines: "".join(f"{line}\r\n" for line in lines).encode()),
        st.lists(st.sampled_from(_bits), max_size=8).map(lambda bits: _STRAY.sub(b"", b"".join(bits))),
        text.map(lambda text: b"\xff\xfe" + text.encode("utf-16-le")),
        text.map(lambda text: b"\xfe\xff" + text.encode("utf-16-be")),
        text.map(lambda text: b"\xef\xbb\xbf" + text.encode()),
    )


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
    leaf = st.one_of(
        contents(),
        st.sampled_from([Link("a"), Link(".."), Link("nowhere"), Link(".")]),
    )
    inner = leaf if depth == 0 else st.one_of(leaf, folders(depth - 1), folders(depth - 1))
    return st.builds(
        lambda names, rules, repository: {**names, **dict(rules), **({".git/HEAD": ""} if repository else {})},
        st.dictionaries(_names, inner, max_size=4),
        st.lists(_rule_files, max_size=2),
        st.booleans(),
    )


_atoms = [
    *(
        "a",
        "a",
        "b",
        "b",
        "A",
        "x",
        "é",
        " ",
        "1",
        "_",
        ".",
        ".",
        "\\w",
        "\\d",
        "\\s",
        "\\b",
        "[ab]",
        "[^a]",
        "[a-z]",
        "\\W",
    ),
    *(
        "\\S",
        "\\D",
        "^",
        "$",
        "[[:alpha:]]",
        "[^\\s]",
        "\\x61",
        "(?i)",
        "(?i:a)",
        "(?-i)",
        "\\.",
        "(?s:.)",
        "(?-s:.)",
        "\\<",
    ),
    *(
        "\\>",
        "[\\w-]",
        "[^\\W]",
        "[\\W]",
        "\\b{start}",
        "\\b{start-half}",
        "\\B",
        "\\b{end-half}",
        "[]a]",
        "[^]a]",
        "\\u{e9}",
        "]",
        "}",
        "(?U)",
        "[é-ü]",
    ),
    *(
        "(?:",
        "(?=a)",
        "\\1",
        "[[:^alpha:][:digit:]]",
        "[^[:space:]]",
        "(?i:[^i])",
        "a{,2}",
        "\\p{L}",
        "[a&&b]",
        "(?x: a)",
    ),
]
_operators = st.sampled_from(["*", "+", "?", "{1,2}", "{2}", "{1,}", "*?", "+?", "{0,1}?", "++", "**"])


def _composed(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.tuples(inner, _operators).map("".join),
        inner.map(lambda text: f"({text})"),
        inner.map(lambda text: f"(?:{text})"),
        inner.map(lambda text: f"(?<n>{text})"),
        st.tuples(inner, inner).map("|".join),
    )


def patterns(*, multiline: bool = False) -> st.SearchStrategy[str]:
    """Regular expressions, most of them right."""
    more = ["\\n", "\\r?\\n", "\n", "[\\n]", "[^\\n]", "\\s+", "\\r"] if multiline else []
    return st.recursive(st.sampled_from([*_atoms, *more]), _composed, max_leaves=6)


def without_columns(hits: tuple[Hit, ...]) -> list[Hit]:
    return [attrs.evolve(hit, column=0) for hit in hits]


def without_places(hits: tuple[Hit, ...]) -> list[Hit]:
    return [attrs.evolve(hit, column=0, offset=0) for hit in hits]
