"""`grep`: search the contents of files."""

from __future__ import annotations

import difflib
from typing import Annotated, Final

import attrs
from attrs.validators import ge, le, max_len, min_len

from engine.core.errors import ToolError
from engine.core.schema import doc
from engine.files.text_files import resolve
from engine.tools.builtin.grep_permissions import Readable, readable
from engine.tools.builtin.grep_report import MAX_BYTES, SearchReport, Shows
from engine.tools.builtin.long_lines import MAX_LINE_CHARS
from engine.tools.call_values import Need, ToolOutput
from engine.tools.search.filetypes import TYPES, names_of
from engine.tools.search.ripgrep import MAX_COLUMNS, SearchRequest, find_ripgrep
from engine.tools.search.search import MAX_HELD_BYTES, SearchScope, search
from engine.tools.search.search_paths import (
    MAX_PATTERN_CHARS,
    PathFilter,
    SearchPlace,
    approved_place,
    filter_names,
    is_folder,
    narrowed,
    place_at,
    read_need,
    start_of,
)
from engine.tools.shell_environment import marker
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import description

LIMIT: Final = 100
MAX_LIMIT: Final = 1_000
MAX_CONTEXT: Final = 50
TIMEOUT: Final = 60.0


@attrs.frozen(kw_only=True)
class Grep:
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


async def grep(args: Grep, ctx: ToolContext) -> ToolOutput:
    """Search the contents of files. A checkpoint; if cancelled, the program that searches is ended first."""
    return await grep_with(await find_ripgrep(), args, ctx, timeout=TIMEOUT)


async def _need(args: Grep, ctx: ToolContext) -> Need:
    return await ctx.to_thread(_needed, args, ctx.cwd)


GREP = tool(
    name="grep",
    description=description("grep", max_bytes=MAX_BYTES, max_line_chars=MAX_LINE_CHARS, timeout=TIMEOUT),
    read_only=True,
    need=_need,
    permission="read",
    direction="head",
)(grep)


async def grep_with(
    ripgrep: str, args: Grep, ctx: ToolContext, *, timeout: float, held: int = MAX_HELD_BYTES
) -> ToolOutput:
    """Do what `grep` does with that program and these bounds. A checkpoint; if cancelled, the program is ended first."""
    _check(args)
    place, path_filter, counts = await ctx.to_thread(_where, args, ctx)
    shows_lines = args.output == "content"
    request = SearchRequest(
        pattern=args.pattern,
        literal=args.literal,
        ignore_case=args.ignore_case,
        multiline=args.multiline,
        counts=not shows_lines,
        before=max(args.before, args.context) if shows_lines else 0,
        after=max(args.after, args.context) if shows_lines else 0,
        max_columns=MAX_COLUMNS,
        names=path_filter.hint,
        depth=path_filter.depth,
        only=place.only,
        include_ignored=args.include_ignored,
    )
    scope = SearchScope(
        folder=str(place.folder),
        in_repository=place.in_repository,
        includes=counts,
        skip=args.offset,
        take=args.limit,
        held=held,
        timeout=timeout,
        marker=marker(ctx.session_id, ctx.call_id),
    )
    results = await search(ripgrep, request, scope)
    report = SearchReport(
        shows=args.output,
        offset=args.offset,
        request=request,
        place=place,
        results=results,
        timeout=timeout,
        withheld=len(counts.withheld),
    )
    return await ctx.to_thread(report.output)


def _check(args: Grep) -> None:
    """Raise `ToolError` for what no searcher can be asked."""
    if "\0" in args.pattern:
        raise ToolError("The pattern holds a NUL, which no text file does.")
    if any("\ud800" <= char <= "\udfff" for char in args.pattern):
        raise ToolError("The pattern holds half a character (a lone surrogate), which no file can hold.")
    if "\n" in args.pattern and not args.multiline:
        raise ToolError("The pattern has a line end in it, so it needs multiline=true.")
    if args.type and names_of(args.type) is None:
        close = difflib.get_close_matches(args.type.lower(), TYPES, n=3, cutoff=0.5)
        hint = f"Did you mean {' or '.join(close)}?" if close else f"There are: {', '.join(TYPES)}."
        raise ToolError(f"There is no type of files named {args.type!r}. {hint} Or use glob.")


def _where(args: Grep, ctx: ToolContext) -> tuple[SearchPlace, PathFilter, Readable]:
    place, path_filter = place_at(ctx.cwd, args.path), PathFilter()
    if not place.only:  # a file that is named is searched in any case
        if args.glob:
            place, path_filter = narrowed(ctx.cwd, place, args.glob)
        names = names_of(args.type) if args.type else None
        path_filter = path_filter if names is None else filter_names(path_filter, names)
    place = approved_place(place, ctx.approved_paths)
    return place, path_filter, readable(path_filter, place, ctx)


def _needed(args: Grep, cwd: str) -> Need:
    try:
        folder = resolve(cwd, args.path)
        return read_need(cwd, start_of(folder, args.glob)[0] if args.glob and is_folder(folder) else folder)
    except (ToolError, ValueError):  # the call itself tells what is wrong
        return Need(permission="read", patterns=(args.path,))
