"""Refuse the words that this project used to have of its own: in identifiers, in messages, and in pages of documentation.

    python scripts/check_words.py            what is wrong, and exit with 1; nothing otherwise
    python scripts/check_words.py --figures  how many each folder has

A name says what a thing is or does, in the words of the field: `resolve_model`, `token_counter`; no participle (`told`,
`given`), no preposition (`beside`), no figure of speech (`desk`). Some of these words stand for something in other
names (`path_given` is not `default_path`), so a folder may have a few of them in its names; messages and pages may have none.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import attrs

import engine.core.events

ENGINE = Path(__file__).resolve().parent.parent / "engine"

# Words in names: so many in a thousand lines of code are let pass (trio has 1.4, httpx 2.3, pydantic-ai 6.2).
IN_NAMES = frozenset(
    re.findall(
        r"\w+",
        """anew asked begun beside boxed chosen complain complaint darkness desk doom errand found given heard hurry judged
        known looked manner meant patience pile piles said shelf stray study taken told wanted whoever wish worded""",
    )
)
MOST = 8.0
# Folders that are not there yet, and how many they have: lower a figure whenever you can, never raise it.
UNFINISHED: dict[str, float] = {".": 13}
UNFINISHED_MESSAGES: dict[str, int] = {}

# Words in messages, which users and models read.
IN_MESSAGES = frozenset({"anew", "begun", "beside", "nobody", "somebody", "thereby", "told", "wanted", "whoever"})

# Words and phrases in pages; decisions and measurements are notes of developers, and may have them.
IN_PAGES = re.compile(
    rf"\b({'|'.join(sorted(IN_MESSAGES - {'begun'}))}|meanwhile|go(?:es)? on|gone on|stands? (?:in|at|under|there|still))\b",
    flags=re.IGNORECASE,
)
NOTES = frozenset({"docs/benchmarks.md", "docs/changelog.md"})

# A list of words that users say.
DATA = Path("compaction/user_rules.py")

# Names that are not ours to change, or that others rely on.
ALLOWED = frozenset({
    "FileNotFoundError",
    "ModuleNotFoundError",
    "asked",  # session.asked: the open questions
    "is_known",  # ModelInfo
})  # fmt: skip


@attrs.frozen
class Finding:
    """A word at a place."""

    path: Path
    line: int
    word: str
    text: str

    def __str__(self) -> str:
        return f"engine/{self.path}:{self.line}: {self.word!r} in {self.text}"


@attrs.define
class Folder:
    """What is found in one folder of `engine/`."""

    lines: int = 0
    names: list[Finding] = attrs.field(factory=list[Finding])
    messages: list[Finding] = attrs.field(factory=list[Finding])

    @property
    def rate(self) -> float:
        """The names in a thousand lines of code."""
        return 1000 * len(self.names) / max(self.lines, 1)


def words_of(name: str) -> list[str]:
    """Split an identifier at underscores and capitals."""
    return [part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def allowed_names() -> frozenset[str]:
    """Return the names that stay: tags of events and their fields are in every record, and `NotFound` is the field's."""
    events = (*engine.core.events.DURABLE_TYPES, *engine.core.events.LIVE_TYPES)
    tags = {event.__name__ for event in events}
    fields = {field.name for event in events for field in attrs.fields(event)}
    return ALLOWED | tags | fields


def code_lines(text: str) -> int:
    """Return how many lines have code: neither blank, nor comments, nor docstrings."""
    lines = set[int]()
    skipped = {
        tokenize.COMMENT,
        tokenize.NL,
        tokenize.NEWLINE,
        tokenize.INDENT,
        tokenize.DEDENT,
        tokenize.ENDMARKER,
    }
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in skipped:
            lines.update(range(token.start[0], token.end[0] + 1))
    for docstring in _docstrings(ast.parse(text)):
        lines.difference_update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    return len(lines)


def names_in(path: Path, text: str, allowed: frozenset[str]) -> Iterator[Finding]:
    """Yield the identifiers of a module that hold one of the words."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.NAME or token.string in allowed or token.string.endswith("NotFound"):
            continue
        hit = next((word for word in words_of(token.string) if word in IN_NAMES), None)
        if hit is not None:
            yield Finding(path, token.start[0], hit, token.string)


def messages_in(path: Path, text: str) -> Iterator[Finding]:
    """Yield the messages of a module that hold one of the words: strings with blanks in them, but not docstrings."""
    tree = ast.parse(text)
    docstrings = {id(docstring.value) for docstring in _docstrings(tree)}
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str) or id(node) in docstrings:
            continue
        words = re.findall(r"[a-z_]+", node.value.lower())
        hit = next((word for word in words if word in IN_MESSAGES), None)
        if hit is not None and " " in node.value:
            yield Finding(path, node.lineno, hit, repr(node.value)[:80])


def in_page(text: str) -> Iterator[tuple[int, str]]:
    """Yield the line and the word or phrase of each finding in the prose of a page: neither blocks of code, nor code."""
    prose = re.sub(r"^ *```.*?^ *```$", lambda block: "\n" * block[0].count("\n"), text, flags=re.MULTILINE | re.DOTALL)
    prose = re.sub(r"`[^`\n]*`", "", prose)
    for match in IN_PAGES.finditer(prose):
        yield prose.count("\n", 0, match.start()) + 1, match[0]


def in_pages() -> Iterator[str]:
    """Yield what is wrong in the pages that users read."""
    repository = ENGINE.parent
    for page in sorted([*repository.glob("*.md"), *(repository / "docs").rglob("*.md")]):
        name = page.relative_to(repository).as_posix()
        if name not in NOTES and not name.startswith(("CHANGELOG", "docs/design/", "docs/reference/api/")):
            for line, word in in_page(page.read_text(encoding="utf-8")):
                yield f"{name}:{line}: {word!r}"


def _docstrings(tree: ast.AST) -> Iterator[ast.Expr]:
    """Yield docstrings, those of fields included: every string that stands alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node


def look() -> dict[str, Folder]:
    """Return what is in each folder of `engine/`."""
    allowed = allowed_names()
    folders: dict[str, Folder] = {}
    for file in sorted(ENGINE.rglob("*.py")):
        path = file.relative_to(ENGINE)
        text = file.read_text(encoding="utf-8")
        folder = folders.setdefault(path.parts[0] if len(path.parts) > 1 else ".", Folder())
        folder.lines += code_lines(text)
        folder.names += names_in(path, text, allowed)
        if path != DATA:
            folder.messages += messages_in(path, text)
    return folders


def main() -> int:
    """Print what is wrong."""
    folders = look()
    if "--figures" in sys.argv:
        for name, folder in folders.items():
            print(f"{name:16} {folder.lines:7,} lines  {folder.rate:6.1f} names  {len(folder.messages):4} messages")
        return 0
    failed = False
    for name, folder in folders.items():
        most = UNFINISHED.get(name, MOST)
        if folder.rate > most:
            failed = True
            counts = Counter(finding.text for finding in folder.names)
            listed = ", ".join(f"{text} ({count})" for text, count in counts.most_common(30))
            print(f"engine/{name}: {folder.rate:.1f} of our own words in 1,000 lines, {most:g} at most: {listed}")
        if len(folder.messages) > UNFINISHED_MESSAGES.get(name, 0):
            failed = True
            print(*folder.messages, sep="\n")
    for finding in in_pages():
        failed = True
        print(finding)
    if failed:
        print("Say it in the words of the field: see CONTRIBUTING.md, and scripts/check_words.py for the list.")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
