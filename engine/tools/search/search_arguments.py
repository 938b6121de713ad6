"""The arguments of `grep`, `glob` and `list`, and the bounds that their descriptions name."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import attrs
from attrs.validators import ge, le, max_len, min_len

from engine.core.schema import doc
from engine.core.value_base import Value

LIMIT: Final = 100
MAX_LIMIT: Final = 1_000
MAX_CONTEXT: Final = 50
MAX_PATTERN_CHARS: Final = 4_000
# Of a result, and of one line in it.
MAX_BYTES: Final = 40_960
MAX_LINE_CHARS: Final = 500
TIMEOUT: Final = 60.0
# Of a tree.
DEPTH: Final = 3
MAX_DEPTH: Final = 20
MAX_ENTRIES: Final = 500

Shows = Literal["content", "files", "count"]


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Grep(Value):
    """Arguments of `grep`."""

    pattern: Annotated[str, doc("the regular expression to search for")] = attrs.field(
        validator=[min_len(1), max_len(MAX_PATTERN_CHARS)]
    )
    path: Annotated[str, doc("the folder or file to search, relative to the working directory or absolute")] = "."
    glob: Annotated[str, doc('only files that this pattern fits: "*.py", "src/**/*.{ts,tsx}"')] = attrs.field(
        default="", validator=max_len(MAX_PATTERN_CHARS)
    )
    type: Annotated[str, doc('only files of this type: "py", "js", "rust", "markdown", ...')] = ""
    output: Annotated[Shows, doc("what to show")] = "content"
    ignore_case: Annotated[bool, doc("whether capitals and small letters are the same")] = False
    literal: Annotated[bool, doc("whether the pattern is a text, not a regular expression")] = False
    multiline: Annotated[bool, doc("whether a match may span lines; . matches line ends then")] = False
    context: Annotated[int, doc("how many lines to show before and after each match")] = attrs.field(
        default=0, validator=[ge(0), le(MAX_CONTEXT)]
    )
    before: Annotated[int, doc("how many lines to show before each match")] = attrs.field(
        default=0, validator=[ge(0), le(MAX_CONTEXT)]
    )
    after: Annotated[int, doc("how many lines to show after each match")] = attrs.field(
        default=0, validator=[ge(0), le(MAX_CONTEXT)]
    )
    limit: Annotated[int, doc("how many lines, or files, to show at most")] = attrs.field(
        default=LIMIT, validator=[ge(1), le(MAX_LIMIT)]
    )
    offset: Annotated[int, doc("how many of them to leave out, to see those behind")] = attrs.field(
        default=0, validator=ge(0)
    )
    include_ignored: Annotated[bool, doc("whether to search what .gitignore excludes, too")] = False


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Glob(Value):
    """Arguments of `glob`."""

    pattern: Annotated[str, doc('what the paths look like: "*.py", "src/**/*.{ts,tsx}"')] = attrs.field(
        validator=[min_len(1), max_len(MAX_PATTERN_CHARS)]
    )
    path: Annotated[str, doc("the folder to look in, relative to the working directory or absolute")] = "."
    sort: Annotated[Literal["newest", "path"], doc("the order of the files")] = "newest"
    limit: Annotated[int, doc("how many files to return at most")] = attrs.field(
        default=LIMIT, validator=[ge(1), le(MAX_LIMIT)]
    )
    include_ignored: Annotated[bool, doc("whether to find what .gitignore excludes, too")] = False


@attrs.frozen(kw_only=True, eq=False, repr=False)
class List(Value):
    """Arguments of `list`."""

    path: Annotated[str, doc("the folder, relative to the working directory or absolute")] = "."
    depth: Annotated[int, doc("how many levels to show; 1: only what is in the folder itself")] = attrs.field(
        default=DEPTH, validator=[ge(1), le(MAX_DEPTH)]
    )
    include_ignored: Annotated[bool, doc("whether to show what .gitignore excludes, too")] = False
