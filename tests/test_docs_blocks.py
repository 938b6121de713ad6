"""What the documentation shows is what there is: its code, its output, its links, and the names of tests that it gives.

A block of Python in a page stands under a comment that names its file, and is a run of that file's lines:

    <!-- from examples/tutorial_1_embed.py -->

So is any other block under such a comment: the printed output, from the `.out` beside the example.
"""

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

REPOSITORY = Path(__file__).resolve().parent.parent
DOCS = REPOSITORY / "docs"
# Not the pages that `make docs` writes, from docstrings.
PAGES = sorted(page for page in [*DOCS.rglob("*.md"), *REPOSITORY.glob("*.md")] if page.parent.name != "api")
# Those in JavaScript run in tests/control/page.
EXAMPLES = sorted(path for path in (DOCS / "examples").iterdir() if path.suffix in {".py", ".mjs"})
# Pages that may show code which no example runs: decisions, and the rejected ways among them.
FREE = sorted([*(DOCS / "design").glob("*.md"), DOCS / "benchmarks.md"])

_FENCE = re.compile(r"^(?P<indent> *)```(?P<language>\w*) *$")
_SOURCE = re.compile(r"^ *<!-- from (?P<path>\S+) -->$")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\((?P<target>[^)\s]+)\)")
_TEST = re.compile(r"`(?:(?P<file>tests/[\w/]+\.py)(?:::)?)?(?P<name>test_\w+(?!\.py))?`")


@attrs.frozen
class Block:
    """A fenced block of a page, and the file that it says it is from."""

    line: int
    language: str
    text: str
    source: str | None


def blocks_of(page: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    lines = page.splitlines()
    number, source = 0, None
    while number < len(lines):
        fence = _FENCE.match(lines[number])
        if fence is None:
            named = _SOURCE.match(lines[number])
            source = named["path"] if named else (source if not lines[number].strip() else None)
            number += 1
            continue
        begin = number + 1
        number = next(n for n in range(begin, len(lines)) if lines[n].strip() == "```")
        text = textwrap.dedent("\n".join(line.removeprefix(fence["indent"]) for line in lines[begin:number]))
        yield Block(begin, fence["language"], text, source)
        source = None
        number += 1


def is_run_of(excerpt: str, whole: str) -> bool:
    """Whether the lines of *excerpt* stand in *whole*, one after the other, all of them indented alike."""
    wanted, lines = excerpt.strip("\n").split("\n"), whole.split("\n")
    for start in range(len(lines) - len(wanted) + 1):
        if textwrap.dedent("\n".join(lines[start : start + len(wanted)])) == "\n".join(wanted):
            return True
    return False


def prose_of(page: str) -> str:
    """A page without its fenced blocks."""
    return re.sub(r"^ *```.*?^ *```$", "", page, flags=re.MULTILINE | re.DOTALL)


def anchors_of(page: str) -> set[str]:
    """The anchors of a page's headings, as hosts of Markdown make them."""
    headings = re.findall(r"^#+ +(.+?) *$", prose_of(page), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def _name(page: Path) -> str:
    return str(page.relative_to(REPOSITORY))


def _source(path: str) -> Path:
    return next((found for root in (DOCS, REPOSITORY) if (found := root / path).is_file()), DOCS / path)


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_blocks_match_their_files(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for block in blocks_of(text):
        where = f"{_name(page)}:{block.line}"
        if block.source is None:
            assert block.language != "python" or page in FREE, (
                f"{where}: a block of Python under no comment <!-- from examples/….py -->"
            )
            continue
        source = _source(block.source)
        assert source.is_file(), f"{where}: there is no {block.source}"
        assert is_run_of(block.text, source.read_text(encoding="utf-8")), f"{where}: differs from {block.source}"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_links_resolve(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for target in _LINK.findall(prose_of(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), f"{_name(page)}: {target} leads nowhere"
        if anchor:
            assert anchor in anchors_of(linked.read_text(encoding="utf-8")), f"{_name(page)}: {target} has no heading"


@pytest.mark.parametrize("page", PAGES, ids=_name)
def test_the_tests_it_names_exist(page: Path) -> None:
    known = {
        name
        for path in (REPOSITORY / "tests").rglob("test_*.py")
        for name in re.findall(r"^(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    for found in _TEST.finditer(prose_of(page.read_text(encoding="utf-8"))):
        if found["file"] is not None:
            assert (REPOSITORY / found["file"]).is_file(), f"{_name(page)} names {found['file']}, which is not there"
        if found["name"] is not None:
            assert found["name"] in known, f"{_name(page)} names {found['name']}, which is no test"


def test_every_example_is_shown() -> None:
    shown = {
        block.source
        for page in PAGES
        for block in blocks_of(page.read_text(encoding="utf-8"))
        if block.source is not None
    }
    assert {f"examples/{path.name}" for path in EXAMPLES} <= shown | {"examples/__init__.py"}


def test_every_output_belongs_to_an_example() -> None:
    for path in (DOCS / "examples").glob("*.out"):
        assert {path.with_suffix(".py"), path.with_suffix(".mjs")} & {*EXAMPLES}, (
            f"{path.name} is the output of nothing"
        )


# ---- the test's own tests --------------------------------------------------------------------------------------------

PAGE = """\
# A title: `code` here

<!-- from examples/a.py -->

```python
x = 1
    y = 2
```

- in a list

  ```text
  no source
  ```
"""


def test_blocks_are_found_with_their_sources() -> None:
    first, second = blocks_of(PAGE)
    assert (first.language, first.text, first.source) == ("python", "x = 1\n    y = 2", "examples/a.py")
    assert (second.language, second.text, second.source) == ("text", "no source", None)


@pytest.mark.parametrize(
    ("excerpt", "is_there"),
    [("b\n  c", True), ("b\nc", False), ("a\n  b", True), ("a\n    c", False), ("c", True), ("d", False)],
)
def test_an_excerpt_is_a_run_of_lines(excerpt: str, is_there: bool) -> None:
    assert is_run_of(excerpt, "a\n  b\n    c\n") is is_there


def test_anchors() -> None:
    assert anchors_of(PAGE) == {"a-title-code-here"}
