"""Search a folder with ripgrep, which is stopped once there are enough results.

Files are sorted by path, so that the next call can continue where this one stopped. Ripgrep is fastest when it searches
many files in parallel and reports them unordered. So that is tried first, and the results are sorted here. Only if they
are too many to hold, ripgrep runs again in order, and is stopped after the last requested result.
"""

from __future__ import annotations

import heapq
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs
import trio

from engine.core.errors import ToolError
from engine.core.threads import to_thread
from engine.process.run_tree import FinishedProcess, run_tree
from engine.process.secret_names import SecretVariables
from engine.sandbox.helpers import launch_reading_helper
from engine.tools.call_values import GRACE
from engine.tools.search.result_buffers import AllHits, HitBuffer, HitCounter, HitWindow, in_order, window
from engine.tools.search.results import Binary, ErrorReader, Form, Hit, HitReader
from engine.tools.search.ripgrep import SearchRequest, command

# Some 15,000 results; more are searched again, in order.
MAX_HELD_BYTES: Final = 8_388_608

# Per line: more would never be shown.
_KEPT_TEXT_BYTES: Final = 8_192
# The rest of the grace is for reporting the end, on a busy machine.
_PROCESS_GRACE: Final = 0.8 * GRACE


@attrs.frozen(kw_only=True)
class SearchScope:
    """Where to search, for how long, and for how many results.

    Attributes:
        folder: the working directory of the search.
        in_repository: whether it lies in a repository.
        includes: whether the file at a path below the folder counts.
        skip: how many matches to skip, in the order of their paths.
        take: how many matches to return.
        held: how many bytes of results may be held before the search is repeated in order.
        timeout: seconds.
        marker: marks the call's processes; see `run_tree`.
        secrets: the variables that the processes do not get.
    """

    folder: str
    in_repository: bool
    includes: Callable[[bytes], bool]
    skip: int
    take: int
    timeout: float
    marker: str
    secrets: SecretVariables
    held: int = MAX_HELD_BYTES


@attrs.frozen(kw_only=True)
class SearchResults:
    """The results of a search.

    Attributes:
        hits: the requested matches and their context, sorted by path and line.
        everything: all matches, unsorted, if they could be held.
        total: the number of all matches; None: unknown, since the search was stopped.
        has_more: whether there are matches after those.
        timed_out: whether the time was not enough.
        unreadable: whether something could not be read.
    """

    hits: tuple[Hit, ...]
    everything: tuple[Hit, ...] | None = None
    total: int | None
    has_more: bool
    timed_out: bool
    unreadable: bool


async def search(ripgrep: str, request: SearchRequest, scope: SearchScope) -> SearchResults:
    """Return ripgrep's results. A checkpoint; if cancelled, the program is ended first.

    Raises `ToolError` for an invalid pattern, and if ripgrep fails.
    """
    deadline = trio.current_time() + scope.timeout
    # With multi-line matches, only the lines tell how many there are: ripgrep's own count is that of matches.
    tallies = request.counts and request.multiline
    form: Form = "names" if request.pattern is None else "counts" if request.counts and not tallies else "lines"
    if tallies:
        request = attrs.evolve(request, counts=False, before=0, after=0, max_columns=1)
    run = _Run(ripgrep, request, scope, form, deadline)
    buffer = AllHits(scope.held)
    ended = await run.into(HitCounter(buffer) if tallies else buffer)
    if not buffer.is_full:
        total = sum(hit.is_match for hit in buffer.hits)
        # In a thread, since sorting 8 MiB of results takes a while.
        shown = await to_thread(_first, buffer.hits, scope, request)
        return SearchResults(
            hits=shown,
            everything=tuple(buffer.hits),
            total=total,
            has_more=total > scope.skip + scope.take,
            timed_out=ended.timed_out,
            unreadable=ended.unreadable,
        )
    part = HitWindow(scope.skip, scope.take, MAX_HELD_BYTES, request.before)
    ended = await run.into(HitCounter(part) if tallies else part, ordered=True)
    return SearchResults(
        hits=window(part.hits, 0, scope.take, before=request.before, after=request.after),
        total=None if part.is_full else part.matches,
        has_more=part.is_full,
        timed_out=ended.timed_out,
        unreadable=ended.unreadable,
    )


def _first(hits: Sequence[Hit], scope: SearchScope, request: SearchRequest) -> tuple[Hit, ...]:
    """Return the requested ones of all hits."""
    if request.pattern is None:
        end = scope.skip + scope.take
        # Sorted by path components, as ripgrep does: "a/b" comes before "a-b".
        return tuple(heapq.nsmallest(end, hits, key=lambda hit: hit.path.split(b"/"))[scope.skip :])
    return window(in_order(hits), scope.skip, scope.take, before=request.before, after=request.after)


@attrs.frozen
class _Ended:
    timed_out: bool = False
    unreadable: bool = False


@attrs.frozen(eq=False)
class _Run:
    """One search, which may be made twice."""

    ripgrep: str
    request: SearchRequest
    scope: SearchScope
    form: Form
    deadline: float

    async def into(self, buffer: HitBuffer, *, ordered: bool = False) -> _Ended:
        """Put results into *buffer* until it is full. A checkpoint; if cancelled, the program is ended first."""
        arguments = command(self.ripgrep, self.request, in_repository=self.scope.in_repository, ordered=ordered)
        reader = HitReader(self.form)
        errors = ErrorReader()
        finished: FinishedProcess | None = None
        with trio.CancelScope() as enough:

            def take(chunk: bytes) -> None:
                # Output that is still in the pipe after the cancel is ignored.
                if not buffer.is_full and self._add(buffer, reader.feed(chunk)):
                    enough.cancel(reason="enough was found")

            try:
                launch = await launch_reading_helper(arguments, folder=self.scope.folder)
                finished = await run_tree(
                    launch.argv,
                    cwd=self.scope.folder,
                    marker=self.scope.marker,
                    env={**self.scope.secrets.without(os.environ), **launch.environment},
                    confine=launch.confine,
                    limits=launch.limits,
                    on_output=take,
                    on_errors=errors.feed,
                    timeout=max(0.0, self.deadline - trio.current_time()),
                    grace=_PROCESS_GRACE,
                )
            except OSError as error:  # the program or folder was removed, or the pattern exceeds the system's limit
                raise ToolError(f"The search could not be started: {error.strerror or error}.") from error
        if finished is None or buffer.is_full:
            return _Ended(unreadable=errors.unreadable)
        self._add(buffer, reader.finish())
        buffer.finish()
        return _ending_of(finished, errors)

    def _add(self, buffer: HitBuffer, hits: Iterable[Hit | Binary]) -> bool:
        """Add hits to *buffer*; return whether it is full."""
        for hit in hits:
            if isinstance(hit, Binary):
                buffer.drop(hit.path)
            elif self.scope.includes(hit.path):
                buffer.add(
                    attrs.evolve(hit, text=hit.text[:_KEPT_TEXT_BYTES]) if len(hit.text) > _KEPT_TEXT_BYTES else hit
                )
            if buffer.is_full:
                return True
        return False


def _ending_of(finished: FinishedProcess, errors: ErrorReader) -> _Ended:
    """Return how the program ended. Raises `ToolError` if it failed."""
    if finished.timed_out:
        return _Ended(timed_out=True, unreadable=errors.unreadable)
    # Exit code 2 may mean that a file could not be read; then there is no message of its own.
    if finished.exit_code == 2 and errors.message:
        raise ToolError(pattern_error(errors.message))
    if finished.exit_code not in {0, 1, 2}:
        how = f"signal {finished.signal}" if finished.signal is not None else f"exit code {finished.exit_code}"
        raise ToolError(f"The search failed ({how}). {errors.message}".strip())
    return _Ended(unreadable=errors.unreadable)


def pattern_error(message: str) -> str:
    """Return the error in a pattern, without ripgrep's advice on options that the model does not have."""
    text = message.removeprefix("rg: ").split("\n\n")[0].strip()
    if "is not allowed" in text:
        text += "\nA pattern with a line end in it needs multiline=true."
    return f"The pattern could not be used: {text}\nTo search for a text as it is, set literal=true."
