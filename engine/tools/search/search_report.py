"""What the model reads of a search: the part that has room, and what is not there."""

from __future__ import annotations

from itertools import groupby
from typing import Final

import attrs

from engine.core.errors import ToolError
from engine.tools.call_values import ToolOutput
from engine.tools.search.long_lines import line_text
from engine.tools.search.ripgrep import SearchRequest
from engine.tools.search.search import SearchResults
from engine.tools.search.search_arguments import MAX_BYTES, Shows
from engine.tools.search.search_paths import SearchPlace
from engine.tools.tool_text import counted, metadata

MAX_LINES: Final = 1_900


@attrs.frozen(kw_only=True)
class SearchReport:
    """Reports a finished search. This may read files again, so it runs in a thread.

    Attributes:
        shows: what to show of each match.
        offset: how many matches were left out.
        request: what was searched for.
        place: where.
        found: what was found.
        timeout: the seconds it might have taken.
        withheld: how many files match and may not be read.
    """

    shows: Shows
    offset: int
    request: SearchRequest
    place: SearchPlace
    results: SearchResults
    timeout: float
    withheld: int = 0

    def output(self) -> ToolOutput:
        """Return the report for the model. Raises `ToolError` if the requested part is beyond the last match."""
        results = self.results
        if not results.hits and self.offset and results.total:
            raise ToolError(f"There are only {results.total:,} matches; offset={self.offset} is behind the last one.")
        page = self._content() if self.shows == "content" else self._files()
        notes = [*self._counts(page), *self._troubles()]
        return ToolOutput(
            text="\n".join([*page.lines, *notes]),
            failed=results.timed_out,
            is_cut=True,
            metadata=metadata(self._summary(page), matches=results.total, timed_out=results.timed_out),
        )

    def _content(self) -> _Page:
        """Return the lines with their numbers, below their paths."""
        page = _Page()
        has_context = bool(self.request.before or self.request.after)
        for path, hits in groupby(self.results.hits, key=lambda hit: hit.path):
            heading = [*([""] if page.lines else []), self.place.path(path)]
            last = 0
            for hit in hits:
                gap = ["--"] if has_context and last and hit.number > last + 1 else []
                line = f"{hit.number}{':' if hit.is_match else '-'} {line_text(self.place.folder, hit)}"
                if page.add([*heading, *gap, line], is_match=hit.is_match):
                    heading, last = [], hit.number
                elif hit.is_match:
                    return page
        return page

    def _files(self) -> _Page:
        """Return the paths, with how many of their lines match, if counts are shown."""
        page = _Page()
        for hit in self.results.hits:
            path = self.place.path(hit.path)
            if not page.add([f"{path}: {hit.number}" if self.shows == "count" else path], is_match=True):
                break
        return page

    def _counts(self, page: _Page) -> list[str]:
        """Say how much there is, where it is not plain to see."""
        results = self.results
        if not results.hits:
            return [] if results.timed_out else [self._no_match()]
        notes = ["(Not all of the context is shown.)"] if page.lacks_context else []
        if results.has_more or page.matches < sum(hit.is_match for hit in results.hits):
            total = "" if results.total is None else f" of {results.total:,}"
            first = f", from number {self.offset + 1:,} on" if self.offset else ""
            notes.append(
                f"({page.matches:,}{total} {self._unit} are shown{first}. There are more: set "
                f"offset={self.offset + page.matches}, or search for less)"
            )
        elif self.shows == "count":
            notes.append(
                f"({counted(sum(hit.number for hit in results.hits), 'line')} in {counted(page.matches, 'file')})"
            )
        return notes

    def _no_match(self) -> str:
        searches_all = self.request.include_ignored or self.request.only
        return f"Nothing matches{'' if searches_all else ' (what ignore files exclude was not searched)'}."

    def _troubles(self) -> list[str]:
        notes: list[str] = []
        if self.withheld:
            notes.append(
                f"({counted(self.withheld, 'file')} left out: what is in there may not be read unasked. To see one of "
                "them, name it as path)"
            )
        if self.results.timed_out:
            by_then = "this is what it had found" if self.results.hits else "it had found nothing"
            notes.append(
                f"(The search was ended after {self.timeout:g} s; {by_then} by then. Search a smaller folder, or choose "
                "files by glob or type)"
            )
        if self.results.unreadable:
            notes.append("(Some files or folders could not be read.)")
        return notes

    @property
    def _unit(self) -> str:
        return "matching lines" if self.shows == "content" else "files"

    def _summary(self, page: _Page) -> str:
        if not self.results.hits:
            return "nothing found"
        if self.results.total is None:
            return f"more than {self.offset + page.matches:,} {self._unit}"
        return counted(self.results.total, self._unit.removesuffix("s"))


@attrs.define(eq=False)
class _Page:
    """Lines, as long as there is room for them."""

    lines: list[str] = attrs.field(factory=list[str])
    matches: int = 0
    lacks_context: bool = False
    _room: int = MAX_BYTES

    def add(self, lines: list[str], *, is_match: bool) -> bool:
        """Take lines that belong together; return whether there was room.

        The first match has room always, or the next call would come no further.
        """
        size = sum(len(line.encode(errors="replace")) + 1 for line in lines)
        if (size > self._room or len(self.lines) >= MAX_LINES) and not (is_match and self.matches == 0):
            self.lacks_context |= not is_match
            return False
        self.lines += lines
        self.matches += is_match
        self._room -= size
        return True
