"""Which of the files that a search finds may be read: the contents of the others are not shown."""

from __future__ import annotations

import os

import attrs

from engine.core.permission_types import RequiredRight
from engine.files.real_path import followed
from engine.files.text_files import pattern_of_real, visible_name
from engine.tools.call_values import Need
from engine.tools.search.search_paths import PathFilter, SearchPlace, joined
from engine.tools.tool_context import ToolContext


@attrs.define(eq=False)
class Readable:
    """Tells which files count, and remembers those that may not be read.

    A file is judged at its first hit, once; one that was named was judged with the call. Links below the folder are
    not followed, so what is behind it is a file's real name.

    Attributes:
        path_filter: which files count, before permissions.
        place: where the search is.
        ctx: the call.
        real: the name of the folder as rules know it.
        withheld: the files that count and may not be read.
    """

    path_filter: PathFilter
    place: SearchPlace
    ctx: ToolContext
    real: str
    withheld: set[bytes] = attrs.field(factory=set[bytes], init=False)
    _readable: set[bytes] = attrs.field(factory=set[bytes], init=False)

    def __call__(self, path: bytes) -> bool:
        """Return whether a file is searched. Not a checkpoint."""
        if not self.path_filter(path):
            return False
        if self.place.only or path in self._readable:
            return True
        if path in self.withheld:
            return False
        may_read = self.ctx.permits(self._need(path))
        (self._readable if may_read else self.withheld).add(path)
        return may_read

    def _need(self, path: bytes) -> Need:
        real, called = joined(self.real, visible_name(os.fsdecode(path))), self.place.path(path)
        spellings = () if called == real else (called,)
        right = RequiredRight(permission="read", pattern=real, spellings=spellings, reads_only=True)
        return Need(permission="read", patterns=(real,), rights=(right,))


def readable(path_filter: PathFilter, place: SearchPlace, ctx: ToolContext) -> Readable:
    """Return what tells of the files at *place* whether they may be read. It blocks."""
    return Readable(path_filter, place, ctx, pattern_of_real(ctx.cwd, followed(place.folder)))
