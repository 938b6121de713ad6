"""`grep`: search the contents of files."""

from __future__ import annotations

import difflib
from itertools import groupby
from typing import Annotated, Final, Literal

import attrs
from attrs.validators import ge, le, max_len, min_len

from engine.errors import ToolError
from engine.tools.builtin.files import resolve
from engine.tools.builtin.long_lines import MAX_LINE_CHARS, line_text
from engine.tools.builtin.places import (
    MAX_PATTERN_CHARS,
    Place,
    Wanted,
    narrowed,
    place_at,
    read_need,
    start_of,
    wanted_names,
)
from engine.tools.builtin.texts import counted, description, metadata
from engine.tools.context import ToolContext
from engine.tools.filetypes import TYPES, names_of
from engine.tools.pure_search import Job
from engine.tools.ripgrep import MAX_COLUMNS, Searcher, find_searcher
from engine.tools.schema import doc
from engine.tools.searching import Found, Scope, search
from engine.tools.spec import Need, ToolOutput, tool

LIMIT: Final = 100
MAX_LIMIT: Final = 1_000
MAX_CONTEXT: Final = 50
MAX_BYTES: Final = 40_960
MAX_LINES: Final = 1_900
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
    output: Annotated[Literal["content", "files", "count"], doc("what to show")] = "content"
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
    return await grep_with(await find_searcher(), args, ctx, timeout=TIMEOUT)


async def _need(args: Grep, ctx: ToolContext) -> Need:
    return await ctx.to_thread(_needed, args, ctx.cwd)


GREP = tool(
    name="grep",
    description=description("grep", max_bytes=MAX_BYTES, max_line_chars=MAX_LINE_CHARS, timeout=TIMEOUT),
    read_only=True,
    need=_need,
    direction="head",
)(grep)


async def grep_with(searcher: Searcher, args: Grep, ctx: ToolContext, *, timeout: float) -> ToolOutput:
    """Do what `grep` does with the given program and time. A checkpoint; if cancelled, the program is ended first."""
    _check(args)
    place, wanted = await ctx.to_thread(_where, args, ctx.cwd)
    shows_lines = args.output == "content"
    job = Job(
        pattern=args.pattern,
        literal=args.literal,
        ignore_case=args.ignore_case,
        multiline=args.multiline,
        counts=not shows_lines,
        before=max(args.before, args.context) if shows_lines else 0,
        after=max(args.after, args.context) if shows_lines else 0,
        max_columns=MAX_COLUMNS,
        names=wanted.hint,
        only=place.only,
        include_ignored=args.include_ignored,
    )
    scope = Scope(
        folder=str(place.folder),
        in_repository=place.in_repository,
        wanted=wanted,
        skip=args.offset,
        take=args.limit,
        timeout=timeout,
        marker=ctx.call_id,
    )
    found = await search(searcher, job, scope)
    return await ctx.to_thread(_Report(args, place, found, timeout).output)


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


def _where(args: Grep, cwd: str) -> tuple[Place, Wanted]:
    place = place_at(cwd, args.path)
    if place.only:
        return place, Wanted()  # a file that was named is meant
    wanted = Wanted()
    if args.glob:
        place, wanted = narrowed(cwd, place, args.glob)
    names = names_of(args.type) if args.type else None
    return place, wanted if names is None else wanted_names(wanted, names)


def _needed(args: Grep, cwd: str) -> Need:
    try:
        folder = resolve(cwd, args.path)
        return read_need(cwd, start_of(folder, args.glob)[0] if args.glob and folder.is_dir() else folder)
    except (ToolError, ValueError):  # the call itself tells what is wrong
        return Need(permission="read", patterns=(args.path,))


@attrs.frozen
class _Report:
    """What the model reads of a search. It may read files again, so it runs in a thread."""

    args: Grep
    place: Place
    found: Found
    timeout: float

    def output(self) -> ToolOutput:
        found, args = self.found, self.args
        if not found.hits and args.offset and found.total:
            raise ToolError(f"There are only {found.total:,} matches; offset={args.offset} is behind the last one.")
        lines, shown = self._content() if args.output == "content" else self._files()
        is_cut = found.has_more or shown < sum(hit.is_match for hit in found.hits)
        notes = [*self._counts(shown, is_cut=is_cut), *self._troubles()]
        return ToolOutput(
            text="\n".join([*lines, *notes]),
            failed=found.timed_out,
            is_cut=True,
            metadata=metadata(self._summary(shown), matches=found.total, timed_out=found.timed_out),
        )

    def _content(self) -> tuple[list[str], int]:
        """Return the lines with their numbers, below their paths, and how many matches are among them."""
        lines: list[str] = []
        room, shown = MAX_BYTES, 0
        for path, hits in groupby(self.found.hits, key=lambda hit: hit.path):
            heading = [*([""] if lines else []), self.place.path(path)]
            last = 0
            for hit in hits:
                gap = ["--"] if last and hit.number > last + 1 and self._has_context else []
                line = f"{hit.number}{':' if hit.is_match else '-'} {line_text(self.place.folder, hit)}"
                room -= sum(len(text.encode(errors="replace")) + 1 for text in (*heading, *gap, line))
                # One match at least, or the next call would not come any further.
                if (room < 0 or len(lines) >= MAX_LINES) and (shown or not hit.is_match):
                    if shown:
                        return lines, shown
                    continue
                lines += [*heading, *gap, line]
                heading, last = [], hit.number
                shown += hit.is_match
        return lines, shown

    @property
    def _has_context(self) -> bool:
        return bool(self.args.context or self.args.before or self.args.after)

    def _files(self) -> tuple[list[str], int]:
        """Return the paths, with how many of their lines match if that is wanted."""
        lines: list[str] = []
        room = MAX_BYTES
        for hit in self.found.hits:
            line = self.place.path(hit.path) + (f": {hit.number}" if self.args.output == "count" else "")
            room -= len(line.encode(errors="replace")) + 1
            if room < 0 and lines:
                break
            lines.append(line)
        return lines, len(lines)

    def _counts(self, shown: int, *, is_cut: bool) -> list[str]:
        """Say how much there is, where it is not plain to see."""
        found, args = self.found, self.args
        if not found.hits:
            left_out = (
                "" if args.include_ignored or self.place.only else " (what ignore files exclude was not searched)"
            )
            return [] if found.timed_out else [f"Nothing matches{left_out}."]
        if is_cut:
            total = "" if found.total is None else f" of {found.total:,}"
            first = f", from number {args.offset + 1:,} on" if args.offset else ""
            return [
                f"({shown:,}{total} {self._unit} are shown{first}. There are more: set offset={args.offset + shown}, "
                "or search for less)"
            ]
        if args.output == "count":
            return [f"({counted(sum(hit.number for hit in found.hits), 'line')} in {counted(shown, 'file')})"]
        return []

    def _troubles(self) -> list[str]:
        notes: list[str] = []
        if self.found.timed_out:
            notes.append(
                f"(The search was ended after {self.timeout:g} s; "
                + ("this is what it had found by then" if self.found.hits else "it had found nothing by then")
                + ". Search a smaller folder, or choose files by glob or type)"
            )
        if self.found.unreadable:
            notes.append("(Some files or folders could not be read.)")
        return notes

    @property
    def _unit(self) -> str:
        return "matching lines" if self.args.output == "content" else "files"

    def _summary(self, shown: int) -> str:
        total = self.found.total
        if not self.found.hits:
            return "nothing found"
        count = f"more than {self.args.offset + shown:,}" if total is None else f"{total:,}"
        return f"{count} {self._unit}" if total != 1 else f"1 {self._unit.removesuffix('s')}"
