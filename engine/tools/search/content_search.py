"""What `grep` does: search the contents of files, and report what was found."""

from __future__ import annotations

import difflib

from engine.core.errors import ToolError
from engine.files.text_files import resolve
from engine.tools.call_values import Need, ToolOutput
from engine.tools.output.spill import PREFIX
from engine.tools.search.filetypes import TYPES, names_of
from engine.tools.search.readable_files import Readable, readable
from engine.tools.search.ripgrep import MAX_COLUMNS, SearchRequest
from engine.tools.search.search import MAX_HELD_BYTES, SearchScope, search
from engine.tools.search.search_arguments import TIMEOUT, Grep
from engine.tools.search.search_paths import (
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
from engine.tools.search.search_report import SearchReport
from engine.tools.shell_environment import marker
from engine.tools.tool_context import ToolContext


async def search_contents(
    ripgrep: str, args: Grep, ctx: ToolContext, *, timeout: float = TIMEOUT, held: int = MAX_HELD_BYTES
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
        secrets=ctx.secrets,
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
    if args.path.startswith(PREFIX):
        return _where_kept(args.path, ctx)
    place, path_filter = place_at(ctx.cwd, args.path), PathFilter()
    if not place.only:  # a file that is named is searched in any case
        if args.glob:
            place, path_filter = narrowed(ctx.cwd, place, args.glob)
        names = names_of(args.type) if args.type else None
        path_filter = path_filter if names is None else filter_names(path_filter, names)
    place = approved_place(place, ctx.approved_paths)
    return place, path_filter, readable(path_filter, place, ctx)


def _where_kept(name: str, ctx: ToolContext) -> tuple[SearchPlace, PathFilter, Readable]:
    """Return the place of an output that was kept; what it may be restricted to does not matter for a single file."""
    if ctx.spills is None:
        raise ToolError("This session has kept no outputs.")
    path = ctx.spills.path_of(name.removeprefix(PREFIX))
    place, path_filter = SearchPlace(shown=name, folder=path.parent, only=path.name, in_repository=False), PathFilter()
    return place, path_filter, readable(path_filter, place, ctx)


def needed(args: Grep, cwd: str) -> Need:
    """Return the right that a search needs: to read the folder where it begins. It blocks."""
    if args.path.startswith(PREFIX):
        # Only outputs of this tree of sessions can be read under such a name.
        return Need(permission="read", patterns=(args.path,), is_own=True)
    try:
        folder = resolve(cwd, args.path)
        return read_need(cwd, start_of(folder, args.glob)[0] if args.glob and is_folder(folder) else folder)
    except (ToolError, ValueError):  # the call itself tells what is wrong
        return Need(permission="read", patterns=(args.path,))
