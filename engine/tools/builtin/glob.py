"""`glob`: find files by name."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Final, Literal

import attrs
from attrs.validators import ge, le, max_len, min_len

from engine.core.errors import ToolError
from engine.core.schema import doc
from engine.files.cancellable_thread import to_halting_thread
from engine.files.globs import is_magic
from engine.files.text_files import resolve
from engine.tools.call_values import Need, ToolOutput
from engine.tools.search.ripgrep import SearchRequest, find_ripgrep
from engine.tools.search.search import SearchResults, SearchScope, search
from engine.tools.search.search_paths import (
    MAX_PATTERN_CHARS,
    PathFilter,
    SearchPlace,
    approved_place,
    folder_at,
    is_folder,
    narrowed,
    read_need,
    start_of,
)
from engine.tools.shell_environment import marker
from engine.tools.tool import tool
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import counted, description, metadata

LIMIT: Final = 100
MAX_LIMIT: Final = 1_000
MAX_BYTES: Final = 40_960
TIMEOUT: Final = 60.0
# More files than these are not sorted by time: each has to be asked for it.
MAX_HELD_BYTES: Final = 40_000_000


@attrs.frozen(kw_only=True)
class Glob:
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


async def glob(args: Glob, ctx: ToolContext) -> ToolOutput:
    """Find files by name. A checkpoint; if cancelled, the program that looks for them is ended first."""
    return await glob_with(await find_ripgrep(), args, ctx)


async def _need(args: Glob, ctx: ToolContext) -> Need:
    return await ctx.to_thread(_needed, args, ctx.cwd)


GLOB = tool(
    name="glob", description=description("glob"), read_only=True, need=_need, permission="read", direction="head"
)(glob)


async def glob_with(
    ripgrep: str, args: Glob, ctx: ToolContext, *, timeout: float = TIMEOUT, held: int = MAX_HELD_BYTES
) -> ToolOutput:
    """Do what `glob` does with that program and these bounds. A checkpoint; if cancelled, the program is ended first."""
    place, path_filter = await ctx.to_thread(_where, args, ctx)
    scope = SearchScope(
        folder=str(place.folder),
        in_repository=place.in_repository,
        includes=path_filter,
        skip=0,
        take=args.limit,
        held=held,
        timeout=timeout,
        marker=marker(ctx.session_id, ctx.call_id),
    )
    results = await search(
        ripgrep,
        SearchRequest(
            pattern=None, names=path_filter.hint, depth=path_filter.depth, include_ignored=args.include_ignored
        ),
        scope,
    )
    paths = [hit.path for hit in results.hits]
    by_time = args.sort == "newest" and results.everything is not None
    if by_time and results.everything:
        everything = [hit.path for hit in results.everything]
        paths = await to_halting_thread(lambda halted: newest(place.folder, everything, args.limit, halted))
    if not paths:
        return await ctx.to_thread(_nothing, args, ctx.cwd, results, timeout)
    return _report(args, [place.path(path) for path in paths], results, timeout, by_time=by_time)


def newest(folder: Path, paths: Sequence[bytes], count: int, halted: Callable[[], bool]) -> list[bytes]:
    """Return the *count* files that were changed last, the last one first; those of one time are sorted by path."""
    root = os.fsencode(folder)

    def changed() -> Iterator[tuple[int, list[bytes], bytes]]:
        for path in paths:
            if halted():
                return
            with suppress(OSError):  # it went away meanwhile
                yield -os.lstat(os.path.join(root, path)).st_mtime_ns, path.split(b"/"), path  # noqa: PTH118 - Path has no bytes

    return [path for _, _, path in heapq.nsmallest(count, changed())]


def _where(args: Glob, ctx: ToolContext) -> tuple[SearchPlace, PathFilter]:
    place, path_filter = narrowed(ctx.cwd, folder_at(ctx.cwd, args.path), args.pattern)
    return approved_place(place, ctx.approved_paths), path_filter


def _needed(args: Glob, cwd: str) -> Need:
    try:
        return read_need(cwd, start_of(resolve(cwd, args.path), args.pattern)[0])
    except (ToolError, ValueError):  # the call itself tells what is wrong
        return Need(permission="read", patterns=(args.path,))


def _report(args: Glob, paths: Sequence[str], results: SearchResults, timeout: float, *, by_time: bool) -> ToolOutput:
    room = MAX_BYTES
    shown: list[str] = []
    for path in paths:
        room -= len(path.encode(errors="replace")) + 1
        if room < 0 and shown:
            break
        shown.append(path)
    has_more = results.has_more or len(shown) < len(paths)
    total = "" if results.total is None else f" of {results.total:,}"
    order = "the newest first" if by_time else "by path"
    count = f"{len(shown):,}{total} files are shown" if has_more else counted(len(shown), "file")
    notes = [f"({count}, {order}{'; more are available: narrow the pattern or raise the limit' if has_more else ''})"]
    if args.sort == "newest" and not by_time:
        notes.append("(They are too many to be sorted by time.)")
    return ToolOutput(
        text="\n".join([*shown, *notes, *_troubles(results, timeout)]),
        failed=results.timed_out,
        is_cut=True,
        metadata=metadata(
            counted(results.total, "file") if results.total is not None else f"more than {len(shown):,} files",
            files=results.total,
            timed_out=results.timed_out,
        ),
    )


def _nothing(args: Glob, cwd: str, results: SearchResults, timeout: float) -> ToolOutput:
    left_out = "" if args.include_ignored else " (what ignore files exclude was not searched)"
    notes = [] if results.timed_out else [f"No file matches {args.pattern}{left_out}."]
    if not is_magic(args.pattern) and is_folder(resolve(cwd, args.path) / args.pattern):
        notes.append(f"{args.pattern} is a folder: {args.pattern}/** finds the files in it, and list shows it.")
    return ToolOutput(
        text="\n".join([*notes, *_troubles(results, timeout)]),
        failed=results.timed_out,
        metadata=metadata("no files", files=0, timed_out=results.timed_out),
    )


def _troubles(results: SearchResults, timeout: float) -> list[str]:
    notes: list[str] = []
    if results.timed_out:
        notes.append(f"(The search was ended after {timeout:g} s, before all was searched. Look in a smaller folder.)")
    if results.unreadable:
        notes.append("(Some folders could not be read.)")
    return notes
