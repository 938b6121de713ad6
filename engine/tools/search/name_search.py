"""What `glob` does: find files by name, and report them."""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from engine.core.errors import ToolError
from engine.files.cancellable_thread import to_halting_thread
from engine.files.globs import is_magic
from engine.files.text_files import resolve
from engine.tools.call_values import Need, ToolOutput
from engine.tools.search.ripgrep import SearchRequest
from engine.tools.search.search import SearchResults, SearchScope, search
from engine.tools.search.search_arguments import MAX_BYTES, TIMEOUT, Glob
from engine.tools.search.search_paths import (
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
from engine.tools.tool_context import ToolContext
from engine.tools.tool_text import counted, metadata

# More files are not sorted by time: that takes a system call for each.
MAX_HELD_BYTES: Final = 40_000_000


async def search_names(
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
        secrets=ctx.secrets,
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
            with suppress(OSError):  # it went away in the meantime
                yield -os.lstat(os.path.join(root, path)).st_mtime_ns, path.split(b"/"), path  # noqa: PTH118 - Path has no bytes

    return [path for _, _, path in heapq.nsmallest(count, changed())]


def _where(args: Glob, ctx: ToolContext) -> tuple[SearchPlace, PathFilter]:
    place, path_filter = narrowed(ctx.cwd, folder_at(ctx.cwd, args.path), args.pattern)
    return approved_place(place, ctx.approved_paths), path_filter


def needed(args: Glob, cwd: str) -> Need:
    """Return the right that a search needs: to read the folder where it begins. It blocks."""
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
